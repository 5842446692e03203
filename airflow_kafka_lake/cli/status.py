"""Commands that show progress: `status`, `wave`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from airflow_kafka_lake.cli.arguments import PARTITION, TOPIC, WAVE, ports_of, spec_of
from airflow_kafka_lake.cli.command import Argument, Command, Json, Result
from airflow_kafka_lake.cli.output import Output, stream_text, word_of
from airflow_kafka_lake.cli.overview_text import overview_lines
from airflow_kafka_lake.cli.status_text import FEW, status_lines
from airflow_kafka_lake.cli.text import Line
from airflow_kafka_lake.cli.watching import WATCH_SECONDS, interval, watch
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.documents.explanation import waiting_text
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.live import silence
from airflow_kafka_lake.core.status.streams import StreamState, StreamStatus
from airflow_kafka_lake.services import reporting
from airflow_kafka_lake.wiring.assemble import open_ledger, open_sources

KAFKA_SECONDS = 5.0
"""How long one call waits for a broker: a status that tells what is unknown soon is worth more than one that waits."""

ROWS, ROWS_BESIDE = 16, 24
"""Streams with a line of their own where there is no terminal, and lines of a screen that are for all else."""


def status(arguments: argparse.Namespace, output: Output) -> Result:
    """Read how far a pipeline is, or all of them; with `--watch` again and again, until Ctrl-C."""
    if arguments.pipeline is None:
        _refuse_filters(arguments)
        with open_sources(arguments.ledger, kafka_seconds=KAFKA_SECONDS) as all_:
            return _once_or_watched(
                arguments, output, lambda: reporting.overview(all_.ledger, all_.clock, all_.source_of)
            )
    spec = spec_of(arguments.pipeline, arguments.ledger)
    with ports_of(arguments, output, spec, kafka_seconds=KAFKA_SECONDS) as ports:
        reporting.known_spec(ports.ledger, spec.name)

        def read() -> Json:
            return reporting.status(
                ports, spec, topic=arguments.topic, partitions=arguments.partition, show=_shows(arguments)
            )

        return _once_or_watched(arguments, output, read)


def _refuse_filters(arguments: argparse.Namespace) -> None:
    named = [f"--{name}" for name in ("topic", "partition", *_FILTERS, "all") if getattr(arguments, name)]
    if named:
        raise UsageError(f"{named[0]} is about one pipeline: name it, as in {remedies.status('PIPELINE')} {named[0]}")


_FILTERS: dict[str, Callable[[StreamStatus], bool]] = {
    "blocked": lambda item: item.state in {StreamState.BLOCKED, StreamState.LOST},
    "behind": lambda item: bool(item.lag),
    "running": lambda item: bool(item.running),
}
"""The streams that each filter lists."""


def _shows(arguments: argparse.Namespace) -> Callable[[StreamStatus], bool]:
    wanted = [fits for name, fits in _FILTERS.items() if getattr(arguments, name)]
    return lambda item: not wanted or any(fits(item) for fits in wanted)


def _once_or_watched(arguments: argparse.Namespace, output: Output, read: Callable[[], Json]) -> Result:
    beside = {"all": arguments.all}
    if arguments.watch is None:
        return Result(document=read(), beside=beside)
    watch(output, read, lambda document: _lines(output, {**document, **beside}), every=arguments.watch)
    return Result(document={}, shown=True)


def show_status(output: Output, document: Json) -> None:
    """Show a summary, what needs a person, and the streams, worst first; or all pipelines, a line each."""
    output.lines(_lines(output, document))


def _lines(output: Output, document: Json) -> Iterator[Line]:
    if "pipelines" in document:
        return overview_lines(document, output.width)
    rows = ROWS if output.height is None else max(FEW, output.height - ROWS_BESIDE)
    return status_lines(document, output.width, rows=None if document["all"] else rows)


def show_waiting(output: Output, document: Json) -> None:
    """Show the partitions that wait for an open transaction."""
    for item in document["waiting_for_stable"]:
        output.line(waiting_text(item))


def wave(arguments: argparse.Namespace, _: Output) -> Result:
    """Read what the ledger knows of one wave."""
    with open_ledger(arguments.ledger) as ledger:
        return Result(document=reporting.wave(ledger, arguments.wave))


def show_wave(output: Output, document: Json) -> None:
    """Show one wave: its ranges with their accounting, and its attempts."""
    others = ("control", "aborted", "compacted", "skipped", "unexplained")
    accounts = {"visible": "rows", **dict(zip(others, others, strict=True))}
    rows = [
        (
            item["range"],
            stream_text(item),
            item["start"],
            item["end"],
            word_of(item["state"]),
            *((item["accounting"] or {}).get(name) for name in accounts),
            item["reason"] or "",
        )
        for item in document["ranges"]
    ]
    state, where = word_of(document["state"]), f"{document['table']}, snapshot {document['snapshot_id']}"
    title = f"wave {document['wave']} {state} in {where}"
    columns = ("range", "stream", "#from", "#to", "state", *(f"#{name}" for name in accounts.values()), "reason")
    output.long_table(title, columns, rows)
    if pause := document["paused"]:
        what = f"plan {pause['plan']}" if pause["plan"] else f"pipeline {document['pipeline']}"
        way = remedies.resume(pause["plan"] or document["pipeline"])
        output.line(f"{what} is paused since {pause['since']} by {pause['by']}: {pause['reason']}; go on with: {way}")
    if document["silent_seconds"] is not None:
        output.line(f"its worker: {silence(document['silent_seconds'], document['free_in_seconds'])}")
    attempts = [
        (
            *(item["fence"], item["attempt"], word_of(item["outcome"]), _how_far(item["progress"])),
            *(item["started_at"], item["ended_at"], item["error"]),
        )
        for item in document["attempts"]
    ]
    columns = ("#fence", "attempt", "outcome", "step, rows done", "started", "ended", "error")
    output.long_table("attempts", columns, attempts)


def _how_far(progress: Json | None) -> str | None:
    if progress is None:
        return None
    expected = progress["rows_expected"]
    whole = "" if expected is None else f" of {expected:,}"
    return f"{progress['step']} {progress['rows_done']:,}{whole}"


COMMANDS = (
    Command(
        name="status",
        help="how far, and what blocks",
        arguments=(
            Argument(
                "pipeline",
                metavar="PIPELINE",
                nargs="?",
                help="pipeline file (*.toml), or a name that the ledger knows; all pipelines if left out",
            ),
            TOPIC,
            PARTITION,
            Argument(
                "--blocked", action="store_true", help="list only partitions in which something is on hold or lost"
            ),
            Argument("--behind", action="store_true", help="list only partitions with something unread"),
            Argument("--running", action="store_true", help="list only partitions that a job works on"),
            Argument("--all", action="store_true", help="give every partition a line of its own"),
            Argument(
                "--watch",
                metavar="SECONDS",
                type=interval,
                nargs="?",
                const=WATCH_SECONDS,
                help=f"show it again every so many seconds (default: {WATCH_SECONDS}), until Ctrl-C; with --json, and "
                "without a terminal, a line for each change",
            ),
        ),
        action=status,
        view=show_status,
    ),
    Command(
        name="wave",
        help="one wave: ranges, attempts, accounting",
        arguments=(WAVE,),
        action=wave,
        view=show_wave,
    ),
)
