"""The audit as a task: what it hands on, when it fails, what it leaves on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTerminated

from airflow_kafka_lake.core.errors import UnavailableError, UsageError
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.operators.audit import AuditOperator
from airflow_kafka_lake.services import running
from airflow_kafka_lake.services.pipeline_audit import further_checks

from .conftest import ORDERS, World

pytestmark = pytest.mark.airflow


def audit(context: dict[str, Any], **words: Any) -> dict[str, Any]:
    return AuditOperator(task_id="audit", **{"pipeline": ORDERS, **words}).execute(context)


@pytest.fixture
def landed(world: World) -> World:
    """Five rows in one partition, three in the other."""
    world.produce(5)
    world.produce(3, 1)
    assert running.run(world.ports(), ORDERS.spec, Bounds()).exit_code == 0
    return world


def lose_a_row(world: World) -> None:
    store = world.lake.table("raw.orders")._store
    head = store.commits[store.refs["main"]]
    store.commits[head.id] = replace(head, rows=head.rows[1:])


def test_a_sound_pipeline_returns_small_numbers(landed: World, context: dict[str, Any]) -> None:
    """Numbers and the name, nothing else."""
    assert audit(context) == {
        "pipeline": "orders", "streams": 2, "offsets": 8, "rows": 8, "duplicates": 0, "missing": 0, "visible": 8,
        "control": 0, "aborted": 0, "compacted": 0, "skipped": 0, "unexplained": 0,
    }  # fmt: skip


def test_a_finding_fails_the_task_for_good(landed: World, context: dict[str, Any]) -> None:
    """A retry would find it again; the first problem is named."""
    lose_a_row(landed)
    with pytest.raises(AirflowFailException, match="1 finding, the first: lost: range 0-5: 4 rows"):
        audit(context)


def test_a_part_is_audited_alone(landed: World, context: dict[str, Any]) -> None:
    """Templates give text."""
    lose_a_row(landed)
    assert audit(context, topic="orders", partitions="[1]")["rows"] == 3


def test_a_lake_out_of_reach_may_be_tried_again(landed: World, context: dict[str, Any]) -> None:
    """What could not be read is no finding."""
    landed.lake.reachable = False
    with pytest.raises(UnavailableError):
        audit(context)


def test_the_report_is_written_for_a_failed_audit_too(landed: World, context: dict[str, Any], tmp_path: Path) -> None:
    """A person wants to look at it just then; nothing half written stays beside it."""
    lose_a_row(landed)
    with pytest.raises(AirflowFailException):
        audit(context, report=tmp_path / "audit.html")
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]
    html = (tmp_path / "audit.html").read_text()
    assert "✗ the audit failed" in html
    assert "range 0-5: 4 rows are in the table" in html


def test_findings_are_logged_though_the_report_cannot_be_written(
    landed: World, context: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """The result of hours is not lost for a folder."""
    lose_a_row(landed)
    folder = tmp_path / "reports"
    folder.mkdir()
    monkeypatch.setattr("airflow_kafka_lake.pages.charts.audit_page", lambda _: folder.rmdir() or folder.touch() or "")
    with pytest.raises(AirflowFailException, match=r"audit\.html could not be written: Not a directory"):
        audit(context, report=folder / "audit.html")
    assert "the first: lost: range 0-5: 4 rows" in caplog.text


def test_contents_and_a_cutover_are_judged_when_asked_for(landed: World, context: dict[str, Any]) -> None:
    """Templates give text here too; a live stream that has not begun proves nothing."""
    landed.lake.table("live.orders").ensure("")
    with pytest.raises(AirflowFailException, match=r"1 finding, the first: not-judged: no cutover with live\.orders"):
        audit(context, deep="true", deep_rate="20 MiB", cutover="live.orders")
    assert any("comparing 8 offsets of raw.orders with Kafka" in line for line in landed.logged)
    assert "reading live.orders" in landed.logged


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"deep_rate": 20}, "--deep-rate bounds what --deep reads: give --deep too"),
        ({"cutover_columns": "topic="}, "--cutover-columns names columns of the table that --cutover names"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(words: dict[str, Any], why: str) -> None:
    """An audit that passes over it would be taken for one that did what was asked."""
    with pytest.raises(UsageError, match=why):
        further_checks(**words)


def test_a_killed_comparison_ends_its_driver(landed: World, context: dict[str, Any], monkeypatch: Any) -> None:
    """The signal arrives while the task waits for Spark: the stack unwinds through the runner."""
    operator = AuditOperator(task_id="audit", pipeline=ORDERS, deep=True)
    monkeypatch.setattr(landed.runner, "report", lambda *_, **__: operator.on_kill())
    with pytest.raises(AirflowTaskTerminated):
        operator.execute(context)
    operator.on_kill()  # after the task has ended there is nothing to do


def test_a_pipeline_that_never_ran_is_refused(world: World, context: dict[str, Any]) -> None:
    """Nothing audited is not the same as nothing wrong."""
    with pytest.raises(AirflowFailException, match="knows no pipeline 'orders'"):
        audit(context)
