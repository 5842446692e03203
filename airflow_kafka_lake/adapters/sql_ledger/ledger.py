"""`ports.Ledger` over SQL, and `advance`, the one write that decides in SQL."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, cast, exists, func, select, update
from sqlalchemy import BigInteger as Big

from airflow_kafka_lake.adapters.sql_ledger import commit, database, queries
from airflow_kafka_lake.adapters.sql_ledger.database import Database
from airflow_kafka_lake.adapters.sql_ledger.queries import stream_of
from airflow_kafka_lake.adapters.sql_ledger.tables import insert_columns, move, now, range_, rows, stream
from airflow_kafka_lake.core.errors import KafkaLakeError, StaleFenceError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import AttemptWrite, Entry, Write
from airflow_kafka_lake.core.ledger.history import Event, EventRef
from airflow_kafka_lake.core.ledger.moves import advanced
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    PipelineRecord,
    PublishedWave,
    RangeRecord,
    StreamRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, AttemptRecord, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import Slice
from airflow_kafka_lake.core.ordering.layouts import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.costs import WaveCost
from airflow_kafka_lake.ports import LedgerReader

# `advance`: the one write that is one set-based pass over all streams, and decides in SQL.


def advance(connection: Connection, name: str, actor: str) -> tuple[Advance, ...]:
    """See `ports.Ledger.advance`: one set-based pass over the streams whose next range is resolved."""
    next_one = (range_.c.stream == stream.c.id, range_.c.start_offset == stream.c.watermark)
    ready = exists().where(*next_one, range_.c.state.in_(RESOLVED))
    locked = select(stream.c.id).where(stream.c.pipeline == name, ready).order_by(stream.c.id).with_for_update()
    ids = connection.execute(locked).scalars().all()
    if not ids:
        return ()
    found = connection.execute(_reached(connection, ids)).all()
    reached = sorted(found, key=attrgetter("topic", "topic_id", "partition"))
    if not reached:
        return ()
    values = (
        {"id": row.id, "version": row.version, "start_offset": row.watermark, "end_offset": row.end_offset}
        for row in reached
    )
    given = rows(connection, [stream.c.id, stream.c.version, move.c.start_offset, move.c.end_offset], values)
    guard = (stream.c.version == given.c.version, stream.c.watermark == given.c.start_offset)
    moved = connection.execute(
        update(stream)
        .where(stream.c.id == given.c.id, *guard)
        .values(watermark=given.c.end_offset, version=stream.c.version + 1)
    )
    if moved.rowcount != len(reached):
        raise guards.overtaken(f"Streams of pipeline {name} were decided about by another writer meanwhile.")
    return _record_moves(connection, name, reached, actor)


def _reached(connection: Connection, ids: Sequence[int]) -> Any:
    """Build the query for each stream's new watermark: the farthest end that the running sum of spans reaches."""
    given = rows(connection, [stream.c.id], ({"id": item} for item in ids))
    order: Any = {"partition_by": range_.c.stream, "order_by": range_.c.start_offset}
    key = (stream.c.id, stream.c.version, stream.c.watermark, stream.c.topic, stream.c.topic_id, stream.c.partition)
    span = range_.c.end_offset - range_.c.start_offset
    run = (
        select(
            *key,
            range_.c.end_offset,
            func.sum(span).over(**order).label("total"),
            func.sum(func.coalesce(range_.c.row_count, 0)).over(**order).label("row_count"),
        )
        .join(stream, stream.c.id == range_.c.stream)
        .join(given, given.c.id == stream.c.id)
        .where(range_.c.state.in_(RESOLVED), range_.c.start_offset >= stream.c.watermark)
        .subquery("run")
    )
    same = [run.c[column.name] for column in key]
    return (
        select(
            *same,
            func.max(run.c.end_offset).label("end_offset"),
            cast(func.max(run.c.row_count), Big).label("row_count"),
        )
        .where(run.c.end_offset - run.c.watermark == run.c.total)
        .group_by(*same)
    )


def _record_moves(connection: Connection, name: str, reached: Sequence[Any], actor: str) -> tuple[Advance, ...]:
    queries.lock_sequences(connection)
    last = connection.execute(select(func.coalesce(func.max(move.c.sequence), 0))).scalar_one()
    moves = tuple(
        Advance(
            stream=stream_of(row), sequence=sequence, start=row.watermark, end=row.end_offset, rows=int(row.row_count)
        )
        for sequence, row in enumerate(reached, last + 1)
    )
    inserted: dict[str, list[Any]] = {
        "sequence": [item.sequence for item in moves],
        "pipeline": [name] * len(moves),
        "stream": [row.id for row in reached],
        "start_offset": [item.start for item in moves],
        "end_offset": [item.end for item in moves],
        "row_count": [item.rows for item in moves],
    }
    insert_columns(connection, move, inserted, at=now())
    detail = advanced(moves)
    queries.record_event(connection, Entry(pipeline=name, actor=actor, kind="advance", subject=name, detail=detail))
    return moves


# `ports.Ledger` over SQL: every method is one transaction around one function of this package.

T = TypeVar("T")


class SqlReader(ABC):
    """`ports.LedgerReader` over SQL; see the port for every method."""

    @abstractmethod
    def _read(self, work: Callable[[Connection], T]) -> T:
        """Run queries on one consistent snapshot."""

    def at_once(self, work: Callable[[LedgerReader], T]) -> T:
        return self._read(lambda connection: work(_Moment(connection)))

    def ledger_id(self) -> str:
        return self._read(queries.ledger_id)

    def pipeline(self, name: str) -> PipelineRecord | None:
        return self._read(lambda c: queries.pipeline_record(c, name))

    def pipelines(self) -> tuple[str, ...]:
        return self._read(queries.pipelines)

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        return self._read(lambda c: queries.streams(c, pipeline, topic, partitions))

    def waves(
        self, pipeline: str, states: Iterable[WaveState] | None = None, *, crossing: Slice | None = None
    ) -> tuple[WaveRecord, ...]:
        wanted = None if states is None else tuple(states)
        return self._read(lambda c: queries.waves_of(c, pipeline, wanted, crossing))

    def wave(self, wave: str) -> WaveRecord:
        return self._read(lambda c: queries.one_wave(c, wave))

    def range(self, range_id: str) -> RangeRecord:
        return self._read(lambda c: queries.one_range(c, range_id))

    def ranges(
        self,
        *,
        pipeline: str | None = None,
        wave: str | None = None,
        plan: str | None = None,
        states: Iterable[RangeState] | None = None,
        crossing: Slice | None = None,
    ) -> tuple[RangeRecord, ...]:
        where = queries.ranges_by(pipeline, wave, plan, None if states is None else tuple(states))
        within = () if crossing is None else queries.sharing(crossing)
        return self._read(lambda c: queries.ranges(c, *where, *within))

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        return self._read(lambda c: queries.attempts(c, wave, pipeline))

    def requests(self, wave: str | None = None) -> tuple[RequestRecord, ...]:
        return self._read(lambda c: queries.requests(c, wave))

    def published(
        self, pipeline: str, *, table: str | None = None, newest: int | None = None
    ) -> tuple[PublishedWave, ...]:
        return self._read(lambda c: queries.published(c, pipeline, table, newest))

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        return self._read(lambda c: queries.standing(c, attempts))

    def knows(self, token: Token, line: EventRef | None = None) -> EventRef | None:
        return self._read(lambda c: queries.knows(c, token, line))

    def throughput(self, pipeline: str) -> tuple[WaveCost, ...]:
        return self._read(lambda c: queries.throughput(c, pipeline))

    def events(
        self,
        pipeline: str,
        after: int = 0,
        limit: int = 100,
        *,
        kind: str | None = None,
        actor: str | None = None,
        newest: bool = False,
    ) -> tuple[Event, ...]:
        where = queries.of(pipeline, after, kind, actor)
        return self._read(lambda c: queries.events(c, where, limit, newest=newest))

    def unnotified(self, pipeline: str, subject: str | None = None) -> tuple[Advance, ...]:
        return self._read(lambda c: queries.unnotified(c, pipeline, subject or pipeline))

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        return self._read(lambda c: queries.outbox_items(c, pipeline, kind))

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        return self._read(lambda c: queries.layouts(c, pipeline))

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        return self._read(lambda c: queries.segments(c, pipeline))

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        return self._read(lambda c: queries.gate(c, wave))


class _Moment(SqlReader):
    """All reads of one transaction: of one snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _read(self, work: Callable[[Connection], T]) -> T:
        return work(self._connection)


class SqlLedger(SqlReader):
    """The ledger in SQLite or PostgreSQL. Nothing is opened before the first call.

    `url` is a SQLAlchemy URL; `lock_timeout` (seconds) is how long one statement waits for a lock; `actor` is recorded
    where the port has no argument for it. A SQLite ledger is created on first use; a PostgreSQL ledger is created by
    `upgrade`. Raises LedgerSchemaError, UnavailableError, ConnectionSettingsError besides the port's errors.
    """

    def __init__(self, url: str | URL, *, lock_timeout: float = 5.0, actor: str = "ledger") -> None:
        self._database = Database(url, lock_timeout=lock_timeout)
        self.engine = self._database.engine  # to count or watch statements
        self._actor = actor
        self._ready = False
        self._opening = threading.Lock()

    def close(self) -> None:
        """Close all idle connections; the ledger can be used again."""
        self._database.close()

    def check(self) -> str:
        """Return the schema's revision; LedgerSchemaError when it is missing, older or newer."""
        self._database.read(lambda c: database.check(c, self._database.name()))
        return database.NEWEST

    def try_write(self) -> datetime:
        """Write a line of history, take it back, and return the database's time. Raises as any write does."""
        entry = Entry(pipeline="-", actor=self._actor, kind="check", subject="-", detail="")

        def write(connection: Connection) -> datetime:
            attempt = connection.begin_nested()
            queries.record_event(connection, entry)
            attempt.rollback()
            return connection.execute(select(now())).scalar_one()

        return self._write(write)

    def upgrade(self) -> str:
        """Bring the schema to the newest revision and return it."""
        self._database.write(lambda c: database.upgrade(c, self._database.name()))
        return database.NEWEST

    def _open(self) -> Database:
        if not self._ready:
            with self._opening:
                self._create_or_check()
                self._ready = True
        return self._database

    def _create_or_check(self) -> None:
        if self._database.is_sqlite and self._database.read(database.is_empty):
            self._database.write(lambda c: database.upgrade(c, self._database.name()))
        self.check()
        self._database.log_ahead()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run further queries, of a feature, on one consistent snapshot."""
        return self._read(work)

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._open().read(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Run a write, unless the schema was upgraded since this process opened the ledger: its code is of before."""

        def write(connection: Connection) -> T:
            database.refuse_another(connection, self._database.name())
            return work(connection)

        return self._open().write(write)

    def commit(self, write: Write[T]) -> T:
        try:
            return self._write(lambda connection: commit.commit(connection, write))
        except StaleFenceError:
            if isinstance(write, AttemptWrite):
                with suppress(KafkaLakeError):
                    self.commit(write.late())
            raise

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        return self._write(lambda c: advance(c, pipeline, self._actor))

    def mark_notified(self, pipeline: str, sequence: int) -> None:
        self._write(lambda c: queries.mark_notified(c, pipeline, sequence))

    def sent(self, items: Sequence[int]) -> None:
        self._write(lambda c: queries.forget_sent(c, items))
