"""Watching: a document or a line for each change, until Ctrl-C, and through what passes."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from airflow_kafka_lake.cli.output import Output, TextLine
from airflow_kafka_lake.cli.status import interval, still, watch
from airflow_kafka_lake.core.errors import LedgerSchemaError, UnavailableError
from airflow_kafka_lake.core.reports.status import PipelineReport
from airflow_kafka_lake.services import reporting
from tests.world import World

pytestmark = pytest.mark.unit


def watched(output: Output, *reports: Any, ends: type[BaseException] = KeyboardInterrupt) -> list[float]:
    """Watch what is read one after another, an exception being raised, then end; return the pauses."""
    pauses: list[float] = []

    def read() -> Any:
        found = next(source, None)
        if found is None:
            raise ends
        if isinstance(found, BaseException):
            raise found
        return found

    def lines(report: PipelineReport) -> Iterator[TextLine]:
        yield TextLine(f"at {report.at:%M}")

    source = iter(reports)
    watch(output, read, lines, every=3, wait=pauses.append)
    return pauses


@pytest.fixture
def moving() -> Callable[[int], PipelineReport]:
    """A pipeline's report after so many records were produced."""
    world = World()
    world.produce(1)
    world.run()

    def after(records: int) -> PipelineReport:
        world.produce(records)
        return reporting.status(world.worker(), world.spec)

    return after


def test_programs_get_one_document_on_one_line_for_each_change(
    capsys: pytest.CaptureFixture[str], moving: Callable[[int], PipelineReport]
) -> None:
    """Time alone is no change."""
    first, second = moving(0), moving(2)
    later = replace(first, facts=replace(first.facts, at=first.at + timedelta(seconds=9)))
    assert watched(Output(as_json=True), first, later, second) == [3, 3, 3]
    out, err = capsys.readouterr()
    assert [json.loads(line)["summary"]["lag"] for line in out.splitlines()] == [0, 2]
    assert err == ""


def test_without_a_terminal_each_change_is_one_line(
    capsys: pytest.CaptureFixture[str], moving: Callable[[int], PipelineReport]
) -> None:
    """For a log file."""
    watched(Output(as_json=False), moving(0), moving(0), moving(2))
    lines = capsys.readouterr().out.splitlines()
    assert [line[25:] for line in lines] == ["orders up to date, 1 row", "orders behind, 1 row, lag 2"]


def test_what_passes_is_told_and_tried_again(
    capsys: pytest.CaptureFixture[str], moving: Callable[[int], PipelineReport]
) -> None:
    """A database that restarts ends no watch."""
    watched(Output(as_json=True), UnavailableError("the ledger is out of reach."), moving(0))
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "the ledger is out of reach. Trying again every 3 s" in err.replace("\n", " ")


def test_what_does_not_pass_ends_the_watch(moving: Callable[[int], PipelineReport]) -> None:
    """A ledger of another version stays one."""
    with pytest.raises(LedgerSchemaError):
        watched(Output(as_json=True), moving(0), LedgerSchemaError("newer"))


class _Ended(KeyboardInterrupt):
    """Another signal than Ctrl-C."""


def test_other_signals_are_not_taken_for_ctrl_c(moving: Callable[[int], PipelineReport]) -> None:
    """SIGTERM keeps its exit code."""
    with pytest.raises(_Ended):
        watched(Output(as_json=True), moving(0), ends=_Ended)


def test_terminal_is_refreshed_in_its_place(moving: Callable[[int], PipelineReport]) -> None:
    """The newest state stands there, and not the ones before; the cursor is shown again at the end."""
    one = moving(0)
    two = replace(one, facts=replace(one.facts, at=one.at + timedelta(minutes=7)))
    output, file = Output(as_json=False), io.StringIO()
    output._out = Console(file=file, force_terminal=True, width=60, height=20, highlight=False)
    watched(output, one, UnavailableError("out of reach."), two)
    shown = file.getvalue()
    assert shown.index("at 00") < shown.index("out of reach.") < shown.rindex("at 07")
    assert "\x1b[1A\x1b[2K" in shown
    assert "every 3 s, Ctrl-C ends it" in shown
    assert shown.rstrip().endswith("\x1b[?25h")


def test_what_time_alone_changes_is_left_out() -> None:
    """Ages and moments, wherever they stand."""
    document = {"observed_at": 1, "pipelines": [{"lag": 2, "behind_seconds": 3}], "rows": 4}
    assert still(document) == {"pipelines": [{"lag": 2}], "rows": 4}


def test_worker_that_falls_silent_is_one_change() -> None:
    """A log has one line for it, and not one every five seconds."""
    on_time, silent, longer = ({"silent_seconds": seconds} for seconds in (None, 30, 35))
    assert still(on_time) != still(silent) == still(longer)


@pytest.mark.parametrize("text", ["0", "-1", "soon", "1e9", "nan"])
def test_interval_that_is_none_is_refused(text: str) -> None:
    """Before anything is read."""
    with pytest.raises(argparse.ArgumentTypeError, match="number of seconds"):
        interval(text)


def test_interval_is_a_number_of_seconds() -> None:
    """Parts of seconds, too."""
    assert [interval(text) for text in ("0.5", "30")] == [0.5, 30.0]
