"""The part of the memory ledger that an attempt writes: claim, progress, end."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta

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
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord, range_receipt
from airflow_kafka_lake.core.ledger.rows import WaveRow
from airflow_kafka_lake.core.ledger.settling import Settle
from airflow_kafka_lake.core.ledger.waves import (
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    Holder,
)
from airflow_kafka_lake.ports import Clock
from tests.kit.memory_ledger.committing import MemoryWriter
from tests.kit.memory_ledger.state import State


class MemoryAttempts(MemoryWriter):
    """Every write works on a draft, which replaces the state only when all of it succeeds."""

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

    def _end_tries(self, draft: State, wave: str, outcomes: frozenset[AttemptOutcome]) -> tuple[AttemptRecord, ...]:
        """Abandon what still runs; returns all attempts of the wave, by fence."""
        found = []
        for (name, fence), item in sorted(draft.attempts.items()):
            if name != wave:
                continue
            record = item.abandoned(self._clock.now()) if item.outcome in outcomes else item
            draft.attempts[name, fence] = record
            found.append(record)
        return tuple(found)

    def _outbox(self, draft: State, table: str, kind: str, item: RangeRecord, *, attempt: str, fence: int) -> None:
        self._send(draft, table, range_receipt(kind, item, attempt=attempt, fence=fence, at=self._clock.now()))

    @staticmethod
    def _holds(row: WaveRow | None, key: AttemptKey) -> bool:
        return row is not None and (row.fence, row.attempt) == (key.fence, key.attempt)
