"""`ports.Ledger` over SQL: every method is one transaction around one function of this package."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine

from airflow_kafka_lake.adapters.sql_ledger import (
    committing,
    events,
    reading,
    requests,
    schema,
    streams,
    watermarks,
)
from airflow_kafka_lake.adapters.sql_ledger.database import Database
from airflow_kafka_lake.core.errors import KafkaLakeError, StaleFenceError
from airflow_kafka_lake.core.ledger.changes import AttemptWrite, Write
from airflow_kafka_lake.core.ledger.events import Event, Line
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    PipelineRecord,
    Published,
    RangeRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import (
    AttemptRecord,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.estimates import WaveCost
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.ports import LedgerReader

T = TypeVar("T")


class SqlReader(ABC):
    """`ports.LedgerReader` over SQL; see the port for every method."""

    @abstractmethod
    def _read(self, work: Callable[[Connection], T]) -> T:
        """Run queries on one consistent snapshot."""

    def at_once(self, work: Callable[[LedgerReader], T]) -> T:
        return self._read(lambda connection: work(_Moment(connection)))

    def ledger_id(self) -> str:
        return self._read(reading.ledger_id)

    def pipeline(self, name: str) -> PipelineRecord | None:
        return self._read(lambda c: reading.pipeline_record(c, name))

    def pipelines(self) -> tuple[str, ...]:
        return self._read(reading.pipelines)

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        return self._read(lambda c: streams.streams(c, pipeline, topic, partitions))

    def waves(
        self, pipeline: str, states: Iterable[WaveState] | None = None, *, crossing: Slice | None = None
    ) -> tuple[WaveRecord, ...]:
        wanted = None if states is None else tuple(states)
        return self._read(lambda c: reading.waves_of(c, pipeline, wanted, crossing))

    def wave(self, wave: str) -> WaveRecord:
        return self._read(lambda c: reading.one_wave(c, wave))

    def range(self, range_id: str) -> RangeRecord:
        return self._read(lambda c: reading.one_range(c, range_id))

    def ranges(
        self,
        *,
        pipeline: str | None = None,
        wave: str | None = None,
        plan: str | None = None,
        states: Iterable[RangeState] | None = None,
        crossing: Slice | None = None,
    ) -> tuple[RangeRecord, ...]:
        where = reading.ranges_by(pipeline, wave, plan, None if states is None else tuple(states))
        within = () if crossing is None else reading.sharing(crossing)
        return self._read(lambda c: reading.ranges(c, *where, *within))

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        return self._read(lambda c: reading.attempts(c, wave, pipeline))

    def requests(self, wave: str | None = None) -> tuple[RequestRecord, ...]:
        return self._read(lambda c: requests.requests(c, wave))

    def published(self, pipeline: str, *, table: str | None = None, newest: int | None = None) -> tuple[Published, ...]:
        return self._read(lambda c: reading.published(c, pipeline, table, newest))

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        return self._read(lambda c: reading.standing(c, attempts))

    def knows(self, token: Token, line: Line | None = None) -> Line | None:
        return self._read(lambda c: events.knows(c, token, line))

    def throughput(self, pipeline: str) -> tuple[WaveCost, ...]:
        return self._read(lambda c: events.throughput(c, pipeline))

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
        where = events.of(pipeline, after, kind, actor)
        return self._read(lambda c: events.events(c, where, limit, newest=newest))

    def unnotified(self, pipeline: str) -> tuple[Advance, ...]:
        return self._read(lambda c: events.unnotified(c, pipeline))

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        return self._read(lambda c: events.outbox_items(c, pipeline, kind))

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        return self._read(lambda c: streams.layouts(c, pipeline))

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        return self._read(lambda c: streams.segments(c, pipeline))

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        return self._read(lambda c: streams.gate(c, wave))


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
        self._actor = actor
        self._ready = False
        self._opening = threading.Lock()

    @property
    def engine(self) -> Engine:
        """The engine, to count or watch statements."""
        return self._database.engine

    def close(self) -> None:
        """Close all idle connections; the ledger can be used again."""
        self._database.close()

    def check(self) -> str:
        """Return the schema's revision; LedgerSchemaError when it is missing, older or newer."""
        self._database.read(lambda c: schema.check(c, self._database.name()))
        return schema.NEWEST

    def upgrade(self) -> str:
        """Bring the schema to the newest revision and return it."""
        self._database.write(lambda c: schema.upgrade(c, self._database.name()))
        return schema.NEWEST

    def _open(self) -> Database:
        if not self._ready:
            with self._opening:
                self._create_or_check()
                self._ready = True
        return self._database

    def _create_or_check(self) -> None:
        if self._database.is_sqlite and self._database.read(schema.is_empty):
            self._database.write(lambda c: schema.upgrade(c, self._database.name()))
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
            schema.refuse_another(connection, self._database.name())
            return work(connection)

        return self._open().write(write)

    def commit(self, write: Write[T]) -> T:
        """See `ports.Ledger`."""
        try:
            return self._write(lambda connection: committing.commit(connection, write))
        except StaleFenceError:
            if isinstance(write, AttemptWrite):
                with suppress(KafkaLakeError):
                    self.commit(write.late())
            raise

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        return self._write(lambda c: watermarks.advance(c, pipeline, self._actor))

    def mark_notified(self, pipeline: str, sequence: int) -> None:
        self._write(lambda c: events.mark_notified(c, pipeline, sequence))

    def sent(self, items: Sequence[int]) -> None:
        self._write(lambda c: events.forget_sent(c, items))
