"""Show something again and again, until Ctrl-C: in its place on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_kafka_lake.cli.command import Json
from airflow_kafka_lake.cli.output import Output
from airflow_kafka_lake.cli.overview_text import change_line
from airflow_kafka_lake.cli.text import YELLOW, Line
from airflow_kafka_lake.core.errors import TransientError

WATCH_SECONDS = 5
LONGEST_SECONDS = 86_400
_MOVING = frozenset(
    {
        "observed_at",
        "behind_seconds",
        "behind_below_seconds",
        "retention_deadline",
        "silent_seconds",
        "free_in_seconds",
    }
)
"""Keys whose values change because time passes; that there is one at all is news."""


def interval(text: str) -> float:
    """Read `--watch SECONDS`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to {LONGEST_SECONDS}")
    return seconds


def watch(
    output: Output,
    read: Callable[[], Json],
    lines: Callable[[Json], Iterable[Line]],
    *,
    every: float,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Read and show until Ctrl-C; what cannot be read now, as while a database restarts, is shown and tried again."""
    with _until_interrupted():
        if output.height is not None and not output.as_json:
            with output.screen() as show:
                for document in _documents(read, lambda text: show([Line(text, YELLOW)]), every, wait):
                    show([*lines(document), Line(f"every {every:g} s, Ctrl-C ends it", "dim")])
        else:
            before: object = None
            for document in _documents(read, output.note, every, wait):
                if (now := still(document)) != before:
                    _print(output, document)
                before = now


@contextmanager
def _until_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as ended:
        if type(ended) is not KeyboardInterrupt:
            raise  # another signal than Ctrl-C


def _documents(
    read: Callable[[], Json], trouble: Callable[[str], None], every: float, wait: Callable[[float], None]
) -> Iterator[Json]:
    while True:
        try:
            yield read()
        except TransientError as error:
            trouble(f"{error.message} Trying again every {every:g} s")
        wait(every)


def _print(output: Output, document: Json) -> None:
    if output.as_json:
        output.compact(document)
    else:
        output.line(change_line(document))


def still(value: Any) -> Any:
    """Return a document without what changes because time passes."""
    if isinstance(value, Mapping):
        return {key: still(item) for key, item in value.items() if key not in _MOVING or item is None}
    if isinstance(value, list):
        return [still(item) for item in value]
    return value
