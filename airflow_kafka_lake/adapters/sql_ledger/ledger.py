"""`ports.Ledger` over SQL: every method is one transaction around one function of this package."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine

from airflow_kafka_lake.adapters.sql_ledger import (
    chronicle,
    committing,
    deciding,
    reading,
    recording,
    schema,
    segmenting,
    streams,
)
from airflow_kafka_lake.adapters.sql_ledger.database import Database
from airflow_kafka_lake.core.clocks import HostClock
from airflow_kafka_lake.core.errors import KafkaLakeError, StaleFenceError
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger.attempts import (
    ClaimWave,
    EndAttempt,
    MarkPublishing,
    MarkStaged,
    RecordBase,
    RecordJob,
    Renew,
)
from airflow_kafka_lake.core.ledger.changes import AttemptWrite, Write
from airflow_kafka_lake.core.ledger.deletions import AcceptDeletes
from airflow_kafka_lake.core.ledger.events import Event, Line
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.plans import BindTable, RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    Claim,
    OutboxItem,
    PipelineRecord,
    Published,
    RangeRecord,
    ReceiptRow,
    Verdict,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.reopening import Reopening
from airflow_kafka_lake.core.ledger.rereading import Reopen
from airflow_kafka_lake.core.ledger.settling import Settle
from airflow_kafka_lake.core.ledger.skips import Skip
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.taking import Release, Take
from airflow_kafka_lake.core.ledger.waves import (
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    Holder,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.ledger.withdrawing import Withdraw, Withdrawal
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.estimates import WaveCost
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.rebuilding.reinstating import Reinstate
from airflow_kafka_lake.core.rebuilding.restoration import Edits, Restoration
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec

T = TypeVar("T")


class SqlLedger:
    """The ledger in SQLite or PostgreSQL. Nothing is opened before the first call.

    `url` is a SQLAlchemy URL; `lock_timeout` (seconds) is how long one statement waits for others; `actor` names who
    decides where the port has no argument for it. A SQLite ledger is created on first use; a PostgreSQL ledger is
    created by `upgrade`. Raises LedgerSchemaError, UnavailableError, ConnectionSettingsError besides the port's errors.
    """

    def __init__(self, url: str | URL, *, lock_timeout: float = 5.0, actor: str = "ledger") -> None:
        self._database = Database(url, lock_timeout=lock_timeout)
        self._actor = actor
        self._ready = False
        self._opening = threading.Lock()

    @property
    def engine(self) -> Engine:
        """The engine, for those who count or watch statements."""
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

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._open().read(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._open().write(work)

    def commit(self, write: Write[T]) -> T:
        """See `ports.Ledger`."""
        try:
            return self._write(lambda connection: committing.commit(connection, write))
        except StaleFenceError:
            if isinstance(write, AttemptWrite):
                with suppress(KafkaLakeError):
                    self.commit(write.late())
            raise

    def ledger_id(self) -> str:
        """See `ports.LedgerReader`, as for all below."""
        return self._read(reading.ledger_id)

    def pipeline(self, name: str) -> PipelineRecord | None:
        return self._read(lambda c: reading.pipeline_record(c, name))

    def pipelines(self) -> tuple[str, ...]:
        return self._read(reading.pipelines)

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        return self._read(lambda c: streams.streams(c, pipeline, topic, partitions))

    def waves(self, pipeline: str, states: Iterable[WaveState] | None = None) -> tuple[WaveRecord, ...]:
        wanted = None if states is None else tuple(states)
        return self._read(lambda c: reading.waves_of(c, pipeline, wanted))

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
    ) -> tuple[RangeRecord, ...]:
        wanted = None if states is None else tuple(states)
        return self._read(lambda c: reading.ranges_by(c, pipeline, wave, plan, wanted))

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        return self._read(lambda c: reading.attempts(c, wave, pipeline))

    def published(self, pipeline: str, *, table: str | None = None, newest: int | None = None) -> tuple[Published, ...]:
        return self._read(lambda c: reading.published(c, pipeline, table, newest))

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        return self._read(lambda c: reading.standing(c, attempts))

    def knows(self, token: Token, line: Line | None = None) -> Line | None:
        return self._read(lambda c: chronicle.knows(c, token, line))

    def pace(self, pipeline: str) -> tuple[WaveCost, ...]:
        return self._read(lambda c: chronicle.pace(c, pipeline))

    def events(self, pipeline: str, after: int = 0, limit: int = 100) -> tuple[Event, ...]:
        return self._read(lambda c: chronicle.events(c, pipeline, after, limit))

    def untold(self, pipeline: str) -> tuple[Advance, ...]:
        return self._read(lambda c: chronicle.untold(c, pipeline))

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        return self._read(lambda c: chronicle.outbox_items(c, pipeline, kind))

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        return self._read(lambda c: segmenting.layouts(c, pipeline))

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        return self._read(lambda c: segmenting.segments(c, pipeline))

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        return self._read(lambda c: segmenting.gate(c, wave))

    def save_pipeline(self, spec: PipelineSpec) -> None:
        self.commit(SavePipeline(spec=spec, actor=self._actor))

    def bind_table(self, pipeline: str, table: str, uuid: str) -> str:
        return self.commit(BindTable(pipeline=pipeline, table=table, uuid=uuid, actor=self._actor))

    def record_plan(self, plan: Plan, actor: str, clock: HostClock | None = None) -> None:
        self.commit(RecordPlan(plan=plan, actor=actor, clock=clock))

    def claim(self, wave: str, *, attempt: str, holder: Holder, lease: timedelta, over: int | None = None) -> Claim:
        return self.commit(ClaimWave(wave=wave, attempt=attempt, holder=holder, lease=lease, over=over))

    def renew(self, key: AttemptKey, lease: timedelta) -> None:
        self.commit(Renew(key=key, lease=lease))

    def record_base(self, key: AttemptKey, base: int) -> None:
        self.commit(RecordBase(key=key, base=base))

    def record_job(self, key: AttemptKey, job: str) -> None:
        self.commit(RecordJob(key=key, job=job))

    def mark_staged(self, key: AttemptKey, audited: int, staged_bytes: int) -> None:
        self.commit(MarkStaged(key=key, audited=audited, staged_bytes=staged_bytes))

    def mark_publishing(self, key: AttemptKey) -> None:
        self.commit(MarkPublishing(key=key))

    def settle(self, key: AttemptKey, *, attempt: str, snapshot: int | None, receipts: Sequence[Receipt]) -> None:
        self.commit(Settle(key=key, attempt=attempt, snapshot=snapshot, receipts=receipts))

    def end_attempt(self, key: AttemptKey, outcome: AttemptOutcome, error: str | None) -> None:
        self.commit(EndAttempt(key=key, outcome=outcome, error=error))

    def take(
        self,
        wave: str,
        *,
        fence: int,
        attempt: str | None,
        verdicts: Sequence[Verdict],
        actor: str,
        apart: str | None = None,
    ) -> None:
        self.commit(Take(wave=wave, fence=fence, attempt=attempt, verdicts=verdicts, actor=actor, apart=apart))

    def release(self, ranges: Sequence[str], *, wave: str, actor: str, reason: str | None) -> str:
        return self.commit(Release(ranges=ranges, wave=wave, actor=actor, reason=reason))

    def skip(
        self,
        pipeline: str,
        stream: Stream,
        stretch: OffsetRange,
        *,
        skip_id: str,
        reason: str,
        actor: str,
        acknowledge_order: bool,
        guards: Sequence[AttemptKey],
        epoch: int | None = None,
    ) -> Passed:
        return self.commit(
            Skip(
                id=skip_id,
                pipeline=pipeline,
                slice=Slice(stream, stretch),
                reason=reason,
                actor=actor,
                acknowledge_order=acknowledge_order,
                guards=guards,
                epoch=epoch,
            )
        )

    def reopen(self, what: Reopening, actor: str) -> int:
        return self.commit(Reopen(what=what, actor=actor))

    def withdraw(self, what: Withdrawal, actor: str) -> None:
        self.commit(Withdraw(what=what, actor=actor))

    def accept_deletes(
        self, pipeline: str, receipts: Sequence[tuple[str, ReceiptRow]], *, decision: str, reason: str, actor: str
    ) -> None:
        self.commit(AcceptDeletes(pipeline=pipeline, receipts=receipts, decision=decision, reason=reason, actor=actor))

    def reinstate(self, what: Restoration, actor: str) -> Edits:
        return self.commit(Reinstate(what=what, actor=actor))

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        return self._write(lambda c: deciding.advance(c, pipeline, self._actor))

    def told(self, pipeline: str, sequence: int) -> None:
        self._write(lambda c: recording.tell(c, pipeline, sequence))

    def sent(self, items: Sequence[int]) -> None:
        self._write(lambda c: deciding.forget_sent(c, items))
