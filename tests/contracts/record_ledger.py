"""`python -m tests.contracts.record_ledger`, before a migration is written: keep the rows of a ledger of this version.

They become `tests/contracts/ledgers/<schema>.sql`, which the new migration must bring up (`test_older_ledgers.py`).
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import inspect, text

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger import database, tables
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import decisions
from tests.gates import Killed, KilledError
from tests.kit.clock import FakeClock
from tests.world import SPEC, World

RECORDED = Path(__file__).parent / "ledgers"
DAY = "2026-01-02"
"""The day on which all of it happened: long past, so that no lease is live."""


def live(world: World) -> None:
    """Let a pipeline have a past, and something of every kind that waits."""
    world.produce(6, 0)
    world.produce(6, 1)
    world.run()
    world.produce(2, 0, transaction="t")
    world.end("t", commit=False)
    world.run()
    world.produce(3, 0)
    poison = OffsetRange(9, 10)
    decisions.skip(world.worker(), SPEC.name, world.stream(), poison, reason="poison", acknowledge_order=False)
    world.run()
    world.reopen(0, 3)
    world.run()
    world.reopen(10, 12)
    world.produce(3, 1)
    world.runner.tamper = lambda rows: rows[:-1]
    world.run()
    world.runner.tamper = lambda rows: rows
    world.produce(2, 1)
    decisions.cancel(world.worker(), world.planned_wave(), "not now")
    world.produce(2, 0)
    wave = world.planned_wave()
    with suppress(KilledError):
        world.ingest(wave, world.worker(Killed("table.staged")))
    world.with_spec(target_range_bytes=SPEC.target_range_bytes * 2)
    world.produce(3, 0)
    world.produce(1, 1)
    world.planned_wave()


def live_on(world: World) -> None:
    """Let the topic of another pipeline be expanded, and its worker die before the last receipts count as sent."""
    world.produce(3, 0)
    world.produce(2, 1)
    world.run()
    world.kafka.add_partitions("orders", 4)
    produce_everywhere(world, 2)
    world.run()
    # The ledger refuses a plan of a worker whose clock is ahead of its own.
    time.sleep(world.spec.layout_grace)
    world.clock.advance(timedelta(seconds=world.spec.layout_grace))
    world.run()
    produce_everywhere(world, 1)
    with suppress(KilledError):
        world.run(worker=world.worker(Killed("ledger.sent")))


def produce_everywhere(world: World, count: int) -> None:
    """Append records to each of four partitions."""
    for partition in range(4):
        world.produce(count, partition)


def written(ledger: SqlLedger) -> str:
    """Return all rows as SQL that both databases take."""
    statements = []
    with ledger.engine.connect() as connection:
        present = set(inspect(connection).get_table_names())
        for table in tables.metadata.tables.values():
            rows = connection.execute(text(f"SELECT * FROM {table.name}")) if table.name in present else None
            values = [
                "(" + ", ".join(_literal(name, value) for name, value in row._mapping.items()) + ")"
                for row in rows or ()
            ]
            if rows is not None and values:
                statements.append(
                    f"INSERT INTO {table.name} ({', '.join(rows.keys())}) VALUES\n" + ",\n".join(values) + ";\n"
                )
    return "\n".join(statements)


def _literal(column: str, value: object) -> str:
    if value is None:
        return "NULL"
    if column in {"acknowledge_order", "fewer_accepted"}:
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return str(value)
    today = f"{SystemClock().now():%Y-%m-%d}"
    return "'" + str(value).replace("'", "''").replace(today, DAY) + "'"


def main() -> None:
    """Record the newest schema."""
    with TemporaryDirectory() as folder:
        world = World(partitions=2, clock=FakeClock(SystemClock().now()))
        ledger = SqlLedger(f"sqlite:///{folder}/ledger.db")
        ledger.upgrade()
        world.ledger = ledger  # type: ignore[assignment]
        live(world)
        ledger.mark_notified(SPEC.name, 4)
        clicks = replace(SPEC, name="clicks", table="raw.clicks", layout_grace=2, sync_group="clicks-group")
        other = World(partitions=2, spec=clicks, clock=FakeClock(SystemClock().now()))
        other.ledger = ledger  # type: ignore[assignment]
        live_on(other)
        file = RECORDED / f"{database.NEWEST}.sql"
        file.write_text(written(ledger), encoding="utf-8")
        ledger.close()
    sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main()
