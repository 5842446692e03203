"""The ledger of generated histories in SQLite: the product's own, whose clock is the history's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, event, select

from airflow_kafka_lake.adapters.sql_ledger import queries, tables
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.records import Advance
from tests.kit.clock import FakeClock
from tests.kit.memory_ledger import State

T = TypeVar("T")


class StoredLedger(SqlLedger):
    """A ledger in a file, with what a history does to the one in memory: its records are read, kept and put back.

    `_state` is the same value until something has been written.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(f"sqlite:///{file}")
        self._clock = FakeClock()
        self._known: State | None = None
        event.listen(self.engine, "connect", self._keep_time)
        self._kept: list[sqlite3.Connection] = []
        self.ledger_id()
        self._blank = self.snapshot()

    def begin(self, clock: FakeClock, ledger_id: str) -> None:
        """Be a ledger that nothing is on record in."""
        self._clock = clock
        self._forget(self._kept[1:])
        self.restore(self._blank)
        with self.engine.begin() as connection:
            connection.execute(tables.meta.update().where(tables.meta.c.key == "ledger_id").values(value=ledger_id))

    def _keep_time(self, connection: sqlite3.Connection, _record: object) -> None:
        """Let the database's clock be the history's; the ledger asks for it by this call alone."""

        def now(_format: str, of: str, plus: str) -> str:
            assert of == "now"
            then = self._clock.now() + timedelta(seconds=float(plus.split(maxsplit=1)[0]))
            return f"{then:%Y-%m-%d %H:%M:%S}.{then.microsecond // 1000:03}000"

        connection.create_function("strftime", 3, now)

    def commit(self, write: Write[T]) -> T:
        try:
            return super().commit(write)
        finally:
            self._known = None

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        try:
            return super().advance(pipeline)
        finally:
            self._known = None

    def sent(self, items: Sequence[int]) -> None:
        super().sent(items)
        self._known = None

    def snapshot(self) -> Any:
        """Return a copy of all that is on record, for `restore`."""
        kept = sqlite3.connect(":memory:", check_same_thread=False)
        self._kept.append(kept)
        with closing(self.engine.raw_connection()) as live:
            live.driver_connection.backup(kept)
        return kept

    def _forget(self, snapshots: Sequence[sqlite3.Connection]) -> None:
        for kept in snapshots:
            kept.close()
            self._kept.remove(kept)

    def close(self) -> None:
        """Close the ledger, and what was kept of it."""
        self._forget(self._kept[:])
        super().close()

    def restore(self, kept: Any) -> None:
        """Go back to what `snapshot` returned."""
        with closing(self.engine.raw_connection()) as live:
            kept.backup(live.driver_connection)
        self._known = None

    @property
    def _state(self) -> State:
        if self._known is None:
            self._known = self.read(_state_of)
        return self._known


def _state_of(connection: Connection) -> State:
    """Return what is on record, as far as histories are judged by it."""
    streams = map(queries.stream_row, connection.execute(select(tables.stream)))
    waves = map(queries.wave_row, connection.execute(select(tables.wave)))
    attempts = queries.attempts_where(connection, tables.attempt.c.fence >= 0)
    names = queries.pipelines(connection)
    return State(
        plans=dict.fromkeys(connection.execute(select(tables.plan.c.id)).scalars()),  # type: ignore[arg-type]
        streams={(item.pipeline, item.key): item for item in streams},
        waves={item.id: item for item in waves},
        ranges={item.id: item for item in queries.ranges(connection)},
        attempts={(item.wave, item.fence): item for item in attempts},
        skips={row.id: tuple(row) for row in connection.execute(select(tables.skip))},  # type: ignore[misc]
        layouts={(name, *_key(item)): item for name in names for item in queries.layouts(connection, name)},  # type: ignore[misc]
        segments={(name, item.key): item for name in names for item in queries.segments(connection, name)},  # type: ignore[misc]
        outbox={item.id: (name, item) for name in names for item in queries.outbox_items(connection, name)},
    )


def _key(layout: Any) -> tuple[str, int]:
    return layout.topic_id, layout.partitions
