"""The ledger in memory: the whole contract without a database, for tests, simulations and dry runs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from airflow_kafka_lake.core.clocks import HostClock
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger import history
from airflow_kafka_lake.core.ledger.attempts import (
    ClaimWave,
    EndAttempt,
    MarkPublishing,
    MarkStaged,
    RecordBase,
    RecordJob,
    Renew,
)
from airflow_kafka_lake.core.ledger.deletions import AcceptDeletes
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.plans import BindTable, RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import Advance, Claim, ReceiptRow, Verdict
from airflow_kafka_lake.core.ledger.reopening import Reopening
from airflow_kafka_lake.core.ledger.rereading import Reopen
from airflow_kafka_lake.core.ledger.settling import Settle
from airflow_kafka_lake.core.ledger.skips import Skip
from airflow_kafka_lake.core.ledger.taking import Release, Take
from airflow_kafka_lake.core.ledger.waves import (
    RESOLVED,
    AttemptKey,
    AttemptOutcome,
    Holder,
)
from airflow_kafka_lake.core.ledger.withdrawing import Withdraw, Withdrawal
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.rebuilding.reinstating import Reinstate
from airflow_kafka_lake.core.rebuilding.restoration import Edits, Restoration
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Clock
from tests.kit.memory_ledger.committing import MemoryWriter


class MemoryLedger(MemoryWriter):
    """`ports.Ledger` over dicts; see the port for every method."""

    def __init__(self, clock: Clock, *, ledger_id: str | None = None, actor: str = "ledger") -> None:
        super().__init__(clock, ledger_id=ledger_id or secrets.token_hex(16))
        self._actor = actor

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

    def reinstate(self, what: Restoration, actor: str) -> Edits:
        return self.commit(Reinstate(what=what, actor=actor))

    def save_pipeline(self, spec: PipelineSpec) -> None:
        self.commit(SavePipeline(spec=spec, actor=self._actor))

    def bind_table(self, pipeline: str, table: str, uuid: str) -> str:
        return self.commit(BindTable(pipeline=pipeline, table=table, uuid=uuid, actor=self._actor))

    def record_plan(self, plan: Plan, actor: str, clock: HostClock | None = None) -> None:
        self.commit(RecordPlan(plan=plan, actor=actor, clock=clock))

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

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        moves: list[Advance] = []
        with self._writing() as draft:
            for (owner, key), row in sorted(draft.streams.items(), key=lambda item: item[0]):
                if owner != pipeline:
                    continue
                resolved = [item for item in draft.pieces(pipeline, key) if item.state in RESOLVED]
                end = RangeSet(item.range for item in resolved).unbroken_end(row.watermark)
                if end == row.watermark:
                    continue
                moved = [item for item in resolved if row.watermark <= item.range.start < end]
                move = Advance(
                    stream=row.key,
                    sequence=len(draft.moves) + 1,
                    start=row.watermark,
                    end=end,
                    rows=sum(item.rows or 0 for item in moved),
                )
                draft.streams[owner, key] = replace(row, watermark=end, version=row.version + 1)
                draft.moves.append((pipeline, move))
                moves.append(move)
            if moves:
                self._event(draft, pipeline, self._actor, "advance", pipeline, history.advanced(moves))
        return tuple(moves)

    def told(self, pipeline: str, sequence: int) -> None:
        with self._writing() as draft:
            draft.told[pipeline] = max(sequence, draft.told.get(pipeline, 0))

    def sent(self, items: Sequence[int]) -> None:
        with self._writing() as draft:
            for item in items:
                draft.outbox.pop(item, None)
