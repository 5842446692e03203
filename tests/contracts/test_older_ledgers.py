"""Ledgers that earlier versions have filled: brought to the newest schema nothing of them is lost, and a run goes on.

`ledgers/` holds, for each schema but the newest, the rows that the version of that time wrote: two versions of pipeline
`orders`, plans, waves that landed, a range each that is skipped, held and cancelled, from 0003 on some that were read
again, a wave whose worker died, and one that was never begun.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from airflow_kafka_lake.adapters.clocks import FakeClock, SystemClock
from airflow_kafka_lake.adapters.sql_ledger import SqlLedger, schema
from airflow_kafka_lake.adapters.sql_ledger.tables import VERSION_TABLE
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, Committed, RangeState, Token, WaveState
from airflow_kafka_lake.services import decisions
from tests.kit.memory_lake import store as lake_store
from tests.world import SPEC, World

RECORDED = Path(__file__).parent / "ledgers"
REVISIONS = sorted(file.stem for file in RECORDED.glob("*.sql"))
NUMBERED = {
    "stream": "id",
    "plan": "number",
    "segment": "id",
    "advance": "sequence",
    "event": "sequence",
    "outbox": "id",
}
"""Tables whose rows the database numbers, and the column."""

CHANGED = {"kafka_lake_pipeline": {"spec", "digest"}}
"""What an upgrade may write anew: a pipeline's configuration, with the names that its settings have now."""

Rows = dict[str, list[dict[str, Any]]]


def rows_of(ledger: SqlLedger) -> Rows:
    """Return every row of every table."""
    with ledger.engine.connect() as connection:
        names = [name for name in inspect(connection).get_table_names() if name != VERSION_TABLE]
        return {
            name: [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {name}"))] for name in names
        }


def filled(ledger: SqlLedger, revision: str) -> None:
    """Make a ledger as the version of a schema has left it."""
    script = ScriptDirectory(str(schema.FOLDER))
    steps = lambda current, _: script._upgrade_revs(revision, current)  # noqa: E731
    with ledger.engine.begin() as connection:
        with EnvironmentContext(Config(), script, fn=steps) as environment:
            environment.configure(connection=connection, version_table=VERSION_TABLE)
            environment.run_migrations()
        postgres = connection.dialect.name == "postgresql"
        if postgres:
            connection.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
        connection.exec_driver_sql("DELETE FROM kafka_lake_meta")
        for statement in (RECORDED / f"{revision}.sql").read_text(encoding="utf-8").split(";\n"):
            if statement.strip():
                connection.execute(text(statement.replace(":", r"\:")))
        for table, column in NUMBERED.items() if postgres else ():
            if inspect(connection).has_table(name := f"kafka_lake_{table}"):
                number = f"pg_get_serial_sequence('{name}', '{column}')"
                connection.exec_driver_sql(
                    f"SELECT setval({number}, max({column})) FROM {name} HAVING max({column}) > 0"
                )


def around(ledger: SqlLedger) -> World:
    """Return the world that such a ledger speaks of: topic and table are what its versions had read and written."""
    world = World(partitions=2, clock=FakeClock(SystemClock().now()))
    world.produce(6, 0)
    world.produce(2, 0, transaction="t")
    world.end("t", commit=False)
    world.produce(8, 0)
    world.produce(12, 1)
    world.ledger = ledger  # type: ignore[assignment]
    table = world.table
    table.ensure("")
    assert table._store is not None
    table._store.uuid = rows_of(ledger)["kafka_lake_table_binding"][0]["uuid"]
    waves = {wave.snapshot: wave for wave in ledger.waves(SPEC.name, [WaveState.COMMITTED])}
    bases = {attempt.base for attempt in ledger.attempts(pipeline=SPEC.name)}
    first, *commits = sorted({number for number in (*waves, *bases) if number is not None})
    lake_store._IDS = iter(range(first, first + 1))  # type: ignore[assignment]
    table.claim_ownership(ledger.ledger_id(), SPEC.name, [world.topic_ids["orders"]])
    for number in commits:
        lake_store._IDS = iter(range(number - 1, number + 1))  # type: ignore[assignment]
        if number not in waves:
            next(lake_store._IDS)
            table.write_foreign()
            continue
        wave = waves[number]
        (done,) = [item for item in ledger.attempts(wave.id) if item.outcome is AttemptOutcome.COMMITTED]
        landed = [
            (item.stream.topic, item.stream.topic_id, item.stream.partition, *record)
            for item in ledger.ranges(wave=wave.id)
            for record in world.kafka.read(item.stream.topic, item.stream.partition, item.range, SPEC.isolation)
        ]
        table.stage(done.attempt, landed)
        token = Token(pipeline=SPEC.name, wave=wave.id, attempt=done.attempt, fence=done.fence, ranges="")
        staged = table.staged(done.attempt)
        assert staged is not None
        asked = Publication(head=table.head(), audited=staged.snapshot, token=token, ledger_id=ledger.ledger_id())
        assert table.publish(asked) == Committed(snapshot=number)
    lake_store._IDS = iter(range(1000, 2000))  # type: ignore[assignment]
    return world


@pytest.fixture(params=["sqlite", "postgres"])
def empty(
    request: pytest.FixtureRequest, new_url: Callable[[str], str], opened: Callable[[str], SqlLedger]
) -> SqlLedger:
    """A database without any ledger, of each kind."""
    return opened(new_url(request.param))


def test_every_older_schema_has_its_rows() -> None:
    """A migration comes with what it migrates, recorded before it by `python -m tests.contracts.record_ledger`."""
    assert [f"{number:04}" for number in range(1, int(schema.NEWEST))] == REVISIONS


@pytest.mark.parametrize("revision", REVISIONS)
def test_older_ledger_keeps_what_it_knows_and_goes_on(
    empty: SqlLedger, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    """Every row has every value that it had; then what waits lands, what is on hold stays there until it is released,
    and every record is in the table once."""
    monkeypatch.setattr(lake_store, "_IDS", lake_store._IDS)
    filled(empty, revision)
    before = rows_of(empty)
    empty.upgrade()
    after = rows_of(empty)
    for name, rows in before.items():
        kept = [{key: row[key] for key in rows[0].keys() - CHANGED.get(name, set())} for row in after[name] if rows]
        lost = [row for row in rows if {key: row[key] for key in row.keys() - CHANGED.get(name, set())} not in kept]
        if name == "kafka_lake_snapshot":  # 0006 lets go what plans saw of streams of which they planned nothing
            planned = {(item["plan"], item["stream"]) for item in before["kafka_lake_range"]}
            lost = [row for row in lost if (row["plan"], row["stream"]) in planned]
        assert lost == [], name

    world = around(empty)
    world.with_spec(target_range_bytes=SPEC.target_range_bytes * 2)
    known = empty.pipeline(SPEC.name)
    assert known is not None
    assert known.spec == world.spec
    assert world.run().exit_code == 1
    assert len(rows_of(empty)["kafka_lake_pipeline"]) == 2, "its configuration counts as changed"
    held = empty.ranges(pipeline=SPEC.name, states=(RangeState.HELD, RangeState.CANCELLED))
    assert {(item.stream.partition, item.range.start) for item in held} >= {(1, 6), (1, 9)}
    for item in held:
        decisions.release(world.worker(), item.id, "looked at")
    assert world.run().exit_code == 0
    assert world.offsets(0) == [0, 1, 2, 3, 4, 5, *range(10, 17)]
    assert world.offsets(1) == list(range(12))
    assert {item.key.partition: item.watermark for item in empty.streams(SPEC.name)} == {0: 17, 1: 12}
