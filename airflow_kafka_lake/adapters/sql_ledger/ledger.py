"""`ports.Ledger` over SQL, and `advance`, the one write that decides in SQL."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import wraps
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import URL, Connection, cast, exists, func, select, update
from sqlalchemy import BigInteger as Big

from airflow_kafka_lake.adapters.sql_ledger import commit, database, queries
from airflow_kafka_lake.adapters.sql_ledger.database import Database
from airflow_kafka_lake.adapters.sql_ledger.queries import stream_of
from airflow_kafka_lake.adapters.sql_ledger.tables import insert_columns, move, now, range_, rows, stream
from airflow_kafka_lake.core.errors import KafkaLakeError, StaleFenceError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Entry, Write
from airflow_kafka_lake.core.ledger.moves import advanced
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.ledger.waves import RESOLVED
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

P = ParamSpec("P")
T = TypeVar("T")


def _asks(query: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[SqlReader, P], T]:
    """Return a query as a method of the port, which has its other arguments."""

    @wraps(query)
    def ask(reader: SqlReader, /, *args: P.args, **named: P.kwargs) -> T:
        return reader.read(lambda connection: query(connection, *args, **named))

    return ask


class SqlReader(ABC):
    """`ports.LedgerReader` over SQL; see the port for its methods, and `queries` for those of Airflow's pages."""

    @abstractmethod
    def read(self, work: Callable[[Connection], T]) -> T:
        """Run queries, also further ones of a feature, on one consistent snapshot."""

    def at_once(self, work: Callable[[LedgerReader], T]) -> T:
        return self.read(lambda connection: work(_Moment(connection)))

    ledger_id = _asks(queries.ledger_id)
    pipeline = _asks(queries.pipeline_record)
    pipelines = _asks(queries.pipelines)
    streams = _asks(queries.streams)
    waves = _asks(queries.waves_of)
    wave = _asks(queries.one_wave)
    range = _asks(queries.one_range)
    ranges = _asks(queries.ranges_of)
    attempts = _asks(queries.attempts)
    requests = _asks(queries.requests)
    published = _asks(queries.published)
    standing = _asks(queries.standing)
    knows = _asks(queries.knows)
    throughput = _asks(queries.throughput)
    events = _asks(queries.events_of)
    unnotified = _asks(queries.unnotified)
    outbox = _asks(queries.outbox_items)
    layouts = _asks(queries.layouts)
    segments = _asks(queries.segments)
    gate = _asks(queries.gate)
    planners = _asks(queries.planners)
    has_wave = _asks(queries.has_wave)
    has_subject = _asks(queries.has_subject)
    page_of_waves = _asks(queries.page_of_waves)
    page_of_events = _asks(queries.page_of_events)


class _Moment(SqlReader):
    """All reads of one transaction: of one snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self, work: Callable[[Connection], T]) -> T:
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
                if self._database.is_sqlite and self._database.read(database.is_empty):
                    self.upgrade()
                self.check()
                self._database.log_ahead()
                self._ready = True
        return self._database

    def read(self, work: Callable[[Connection], T]) -> T:
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
            if late := write.late():
                with suppress(KafkaLakeError):
                    self.commit(late)
            raise

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        return self._write(lambda c: advance(c, pipeline, self._actor))

    def mark_notified(self, pipeline: str, sequence: int) -> None:
        self._write(lambda c: queries.mark_notified(c, pipeline, sequence))

    def sent(self, items: Sequence[int]) -> None:
        self._write(lambda c: queries.forget_sent(c, items))


# One ledger of an address for all of a process. SQLAlchemy keeps the statements it has compiled with the engine, and
# the hundreds of tasks that wait in a triggerer would take more connections than a database has.


class SharedLedger(SqlLedger):
    """A ledger of `shared`: its connections are closed when the last of its users closes it."""

    users = 0

    def close(self) -> None:
        with _sharing:
            self.users -= 1
            if self.users > 0:
                return
            for key in [key for key, ledger in _shared.items() if ledger is self]:
                del _shared[key]
        super().close()


_shared: WeakValueDictionary[tuple[int, URL], SharedLedger] = WeakValueDictionary()
_sharing = threading.Lock()


def shared(url: URL) -> SharedLedger:
    """Return the ledger of an address and login that others of this process may use too; each closes it once."""
    with _sharing:
        key = os.getpid(), url
        ledger = _shared[key] = _shared.get(key) or SharedLedger(url)
        ledger.users += 1
        return ledger
