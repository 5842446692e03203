"""What two plans of the same offsets meet in the database itself, also past all code of ours: plain SQL on both."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from airflow_kafka_lake.adapters.sql_ledger.database import Database
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from tests.contracts.ledger_world import SPEC, committed, planned, skipped

SECONDS = 30
NewUrl = Callable[[str], str]
STREAM = "(SELECT id FROM kafka_lake_stream WHERE partition = 0)"
PLANNED = f"'recut', {STREAM}, 'plan2', 'wave2', {{start}}, {{end}}, 0, 'PLANNED', 1"
RANGE = "INSERT INTO kafka_lake_range (id, stream, plan, wave, start_offset, end_offset, generation, state,"
RANGE += " estimated_bytes)"


def another_plan(connection: Connection) -> None:
    """Write a second plan with one wave and no range yet."""
    copied = "pipeline, pipeline_version, observed_at, recorded_at, actor, detail"
    connection.execute(
        text(f"INSERT INTO kafka_lake_plan (id, {copied}) SELECT 'plan2', {copied} FROM kafka_lake_plan")
    )
    connection.execute(
        text(
            "INSERT INTO kafka_lake_wave (id, plan, ordinal, pipeline, table_name, state, fence) "
            "SELECT 'wave2', 'plan2', 0, pipeline, table_name, 'PLANNED', 0 FROM kafka_lake_wave"
        )
    )


def range_of_plan2(start: int, end: int) -> Any:
    """Return the INSERT of a range of the second plan."""
    return text(f"{RANGE} VALUES ({PLANNED.format(start=start, end=end)})")


@pytest.mark.parametrize(
    ("start", "end"),
    [(10, 20), (10, 15), (10, 30), (5, 20), (0, 11), (15, 40), (0, 40), (12, 18), (19, 20)],
    ids=["duplicate", "recut-shorter", "recut-longer", "same-end", "into", "out-of", "around", "within", "last-offset"],
)
@pytest.mark.parametrize("state", ["planned", "committed", "skipped"])
def test_another_plan_of_the_same_offsets_is_refused(sql_ledger: SqlLedger, start: int, end: int, state: str) -> None:
    """Whatever has become of the first plan's range, and however the second one is cut."""
    (wave,) = planned(sql_ledger, [(0, 10, 20)])
    if state == "committed":
        committed(sql_ledger, wave)
    if state == "skipped":
        skipped(sql_ledger, 10, 20)
    with sql_ledger.engine.connect() as connection:
        another_plan(connection)
        with pytest.raises(IntegrityError):
            connection.execute(range_of_plan2(start, end))


@pytest.mark.parametrize(("start", "end"), [(0, 10), (20, 30)])
def test_another_plan_of_the_neighbours_is_taken(sql_ledger: SqlLedger, start: int, end: int) -> None:
    """The same statement with offsets that are not planned: only the overlap is refused above."""
    planned(sql_ledger, [(0, 10, 20)])
    with sql_ledger.engine.begin() as connection:
        another_plan(connection)
        assert connection.execute(range_of_plan2(start, end)).rowcount == 1


def test_of_two_plans_in_open_transactions_one_is_refused(sql_ledger: SqlLedger) -> None:
    """The second one does not see the first one's range yet, and is refused all the same."""
    planned(sql_ledger, [(0, 10, 20)])
    with sql_ledger.engine.begin() as connection:
        another_plan(connection)
    written, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with sql_ledger.engine.begin() as connection:
            connection.execute(range_of_plan2(20, 30))
            written.set()
            assert go_on.wait(SECONDS)

    def second() -> None:
        go_on.set()
        with sql_ledger.engine.begin() as connection:
            connection.execute(text(f"{RANGE} VALUES ({PLANNED.format(start=20, end=40).replace('recut', 'other')})"))

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert written.wait(SECONDS)
        other = pool.submit(second)
        one.result()
        with pytest.raises(IntegrityError):
            other.result()
    assert sorted((item.range.start, item.range.end) for item in sql_ledger.ranges(pipeline=SPEC.name)) == [
        (10, 20),
        (20, 30),
    ]


@pytest.mark.parametrize(
    ("table", "columns", "values"),
    [
        (
            "stream",
            "pipeline, topic, topic_id, partition, origin, watermark, version, end_seen",
            {"topic": "'renamed'"},
        ),
        ("plan", "id, pipeline, pipeline_version, observed_at, recorded_at, actor, detail", {}),
        ("wave", "id, plan, ordinal, pipeline, table_name, state, fence", {"ordinal": "1"}),
        ("attempt", "wave, fence, attempt, lease_holder, outcome, started_at", {"attempt": "'another'"}),
        ("attempt", "wave, fence, attempt, lease_holder, outcome, started_at", {"fence": "fence + 1"}),
        (
            "range",
            "id, stream, plan, wave, start_offset, end_offset, generation, state, estimated_bytes",
            {"start_offset": "start_offset + 1000", "end_offset": "end_offset + 1000"},
        ),
    ],
    ids=["stream", "plan", "wave", "fence", "attempt", "range"],
)
def test_what_identifies_is_there_once(sql_ledger: SqlLedger, table: str, columns: str, values: dict[str, str]) -> None:
    """A copy of a row under the same identity is refused: a stream, a plan, a wave, a fence, an attempt, a range."""
    (wave,) = planned(sql_ledger, [(0, 10, 20)])
    committed(sql_ledger, wave)
    given = ", ".join(values.get(name, name) for name in columns.split(", "))
    copied = text(f"INSERT INTO kafka_lake_{table} ({columns}) SELECT {given} FROM kafka_lake_{table}")
    with sql_ledger.engine.connect() as connection, pytest.raises(IntegrityError):
        connection.execute(copied)


def test_a_deadlock_reaches_no_caller(new_url: NewUrl) -> None:
    """Two transactions that wait for each other: one is rolled back by the database, repeated, and both are done."""
    url = new_url("postgres")
    ledger = SqlLedger(url)
    ledger.upgrade()
    waves = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    ledger.close()
    database = Database(url, lock_timeout=SECONDS)
    met = threading.Barrier(2)
    turns: list[str] = []

    def raise_both(first: str, second: str) -> None:
        mine: list[str] = []

        def work(connection: Connection) -> None:
            mine.append(first)
            turns.append(first)
            for wave in (first, second):
                connection.execute(text("UPDATE kafka_lake_wave SET fence = fence + 1 WHERE id = :id"), {"id": wave})
                if wave == first and len(mine) == 1:
                    met.wait(SECONDS)

        database.write(work)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(raise_both, *waves), pool.submit(raise_both, *reversed(waves))]
        for item in running:
            item.result()
    assert len(turns) == 3
    assert [ledger.wave(wave).fence for wave in waves] == [2, 2]
    ledger.close()
    database.close()
