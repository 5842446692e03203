"""Ledgers that earlier versions have filled: brought to the newest schema nothing of them is lost, and a run goes on.

`ledgers/` holds, for each schema that can be upgraded, the rows that the version of that time wrote: two versions of
pipeline `orders`, plans, waves that landed, a range each that is skipped, held and cancelled, some that were read
again, a wave whose worker died, and one that was never begun; and pipeline `clicks`, whose topic was expanded, and
whose last receipts were not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger import database
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.adapters.sql_ledger.tables import VERSION_TABLE
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, Committed, RangeState, Token, WaveState
from airflow_kafka_lake.services import decisions
from tests.kit.clock import FakeClock
from tests.kit.memory_lake import store as lake_store
from tests.world import SPEC, World

RECORDED = Path(__file__).parent / "ledgers"
REVISIONS = sorted(file.stem for file in RECORDED.glob("????.sql"))
NUMBERED = {
    "stream": "id",
    "plan": "number",
    "segment": "id",
    "advance": "sequence",
    "event": "sequence",
    "outbox": "id",
}
"""Tables whose rows the database numbers, and the column."""

ADDED = {"kafka_lake_range": ("cause",), "kafka_lake_event": ("slices",)}
"""Columns that older schemas have not: they are empty after the upgrade."""

Rows = dict[str, list[dict[str, Any]]]

pytestmark = pytest.mark.slow


def rows_of(ledger: SqlLedger) -> Rows:
    """Return every row of every table."""
    with ledger.engine.connect() as connection:
        names = [name for name in inspect(connection).get_table_names() if name != VERSION_TABLE]
        return {
            name: [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {name}"))] for name in names
        }


def in_any_order(rows: Rows) -> Rows:
    """Return the rows of each table that has some, sorted, to be compared; with the columns that have come since."""
    more = {name: dict.fromkeys(ADDED.get(name, ())) for name in rows}
    return {name: sorted((row | more[name] for row in found), key=repr) for name, found in rows.items() if found}


def create(connection: Connection, revision: str) -> None:
    """Create the tables of a schema by its migrations."""
    script = ScriptDirectory(str(database.FOLDER))
    steps = lambda current, _: script._upgrade_revs(revision, current)  # noqa: E731
    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection, version_table=VERSION_TABLE)
        environment.run_migrations()
    connection.exec_driver_sql("DELETE FROM kafka_lake_meta")


def execute(connection: Connection, file: Path) -> None:
    """Execute the statements of a file."""
    for statement in file.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.execute(text(statement.replace(":", r"\:")))


def filled(ledger: SqlLedger, revision: str) -> None:
    """Make a ledger as the version of a schema has left it."""
    with ledger.engine.begin() as connection:
        create(connection, revision)
        postgres = connection.dialect.name == "postgresql"
        if postgres:
            connection.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
        execute(connection, RECORDED / f"{revision}.sql")
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
    table._store.uuid = next(
        row["uuid"] for row in rows_of(ledger)["kafka_lake_table_binding"] if row["pipeline"] == SPEC.name
    )
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
    assert {f"{number:04}" for number in range(int(database.OLDEST), int(database.NEWEST))} <= {*REVISIONS}


def schema_of(ledger: SqlLedger) -> dict[str, list[Any]]:
    """Return all that the database says of its tables."""
    with ledger.engine.connect() as connection:
        found, names = inspect(connection), sorted(inspect(connection).get_table_names())
        said: dict[str, list[Any]] = {
            name: [
                *[{**column, "type": str(column["type"])} for column in found.get_columns(name)],
                found.get_pk_constraint(name),
                *sorted(found.get_unique_constraints(name), key=repr),
                *sorted(found.get_foreign_keys(name), key=repr),
                *sorted(found.get_check_constraints(name), key=repr),
                *sorted(found.get_indexes(name), key=repr),
            ]
            for name in names
        }
        rest = REST[connection.dialect.name]
        said["rest"] = sorted(str(row[0]).replace('"', "").split() for row in connection.execute(text(rest)))
        return said


REST = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL",
    "postgresql": r"SELECT conrelid\:\:regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) "
    r"FROM pg_constraint WHERE contype <> 'n' AND connamespace = current_schema()\:\:regnamespace "
    "UNION ALL SELECT 'sequence ' || sequencename FROM pg_sequences WHERE schemaname = current_schema()",
}
"""What the inspection leaves out: triggers and AUTOINCREMENT there, constraints of exclusion and sequences here.

NOT NULL is in the inspection: PostgreSQL 18 keeps the name of its constraint when the column is renamed."""


@pytest.mark.parametrize("revision", REVISIONS)
def test_upgraded_schema_is_that_of_a_new_ledger(
    empty: SqlLedger, revision: str, new_url: Callable[[str], str], opened: Callable[[str], SqlLedger]
) -> None:
    """Columns and their order, constraints, indexes, triggers: nothing tells them apart."""
    filled(empty, revision)
    empty.upgrade()
    new = opened(new_url("sqlite" if empty.engine.dialect.name == "sqlite" else "postgres"))
    new.upgrade()
    assert schema_of(empty) == schema_of(new)


def test_upgrade_that_fails_leaves_the_older_ledger_whole(empty: SqlLedger) -> None:
    """It is one transaction, on SQLite too: what it has added is gone again, and it can be repeated."""
    filled(empty, "0012")
    with empty.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE kafka_lake_event ADD COLUMN slices TEXT")
    before, tables = rows_of(empty), schema_of(empty)
    with pytest.raises((UnavailableError, DBAPIError), match="slices"):
        empty.upgrade()
    assert (rows_of(empty), schema_of(empty)) == (before, tables)
    with empty.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE kafka_lake_event DROP COLUMN slices")
    assert empty.upgrade() == database.NEWEST


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
    upgraded = {name: sorted(found, key=repr) for name, found in rows_of(empty).items() if found}
    assert upgraded == in_any_order(before)

    world = around(empty)
    world.with_spec(target_range_bytes=SPEC.target_range_bytes * 2)
    known = empty.pipeline(SPEC.name)
    assert known is not None
    assert known.spec == world.spec
    assert world.run().exit_code == 1
    versions = [row["version"] for row in rows_of(empty)["kafka_lake_pipeline"] if row["name"] == SPEC.name]
    assert versions == [1, 2], "its configuration counts as changed"
    held = empty.ranges(pipeline=SPEC.name, states=(RangeState.HELD, RangeState.CANCELLED))
    assert {(item.stream.partition, item.range.start) for item in held} >= {(1, 6), (1, 9)}
    for item in held:
        decisions.release(world.worker(), item.id, "looked at")
    assert world.run().exit_code == 0
    assert world.offsets(0) == [0, 1, 2, 3, 4, 5, *range(10, 17)]
    assert world.offsets(1) == list(range(12))
    assert {item.key.partition: item.watermark for item in empty.streams(SPEC.name)} == {0: 17, 1: 12}
