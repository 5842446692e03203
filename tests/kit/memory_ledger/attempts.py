"""The part of the memory ledger that an attempt writes: claim, progress, end."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from airflow_kafka_lake.core.errors import StaleFenceError
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.events import Event
from airflow_kafka_lake.core.ledger.records import Claim, OutboxItem, RangeRecord, ReceiptRow, range_receipt
from airflow_kafka_lake.core.ledger.waves import (
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    Holder,
    RangeState,
)
from airflow_kafka_lake.core.ordering.segments import gate_closed
from airflow_kafka_lake.ports import Clock
from tests.kit.memory_ledger.reader import MemoryReader
from tests.kit.memory_ledger.state import State, Try, Wave


class MemoryAttempts(MemoryReader):
    """Every write works on a draft, which replaces the state only when all of it succeeds."""

    def __init__(self, clock: Clock, *, ledger_id: str | None = None, actor: str = "ledger") -> None:
        super().__init__(clock, ledger_id=ledger_id or secrets.token_hex(16))
        self._actor = actor

    @contextmanager
    def _writing_as(self, key: AttemptKey, write: str) -> Iterator[State]:
        """Write for an attempt; what is refused because it came too late is recorded."""
        try:
            with self._writing() as draft:
                yield draft
        except StaleFenceError:
            with self._writing() as draft:
                row = draft.waves[key.wave]
                said = history.refused(write, key, row.state, row.fence)
                self._event(draft, row.pipeline, key.attempt, "refused", key.wave, said)
            raise

    def claim(self, wave: str, *, attempt: str, holder: Holder, lease: timedelta, over: int | None = None) -> Claim:
        with self._writing() as draft:
            row = self._wave(draft, wave)
            if row.state not in WAVE_TRANSITIONS[Act.CLAIM][0]:
                raise guards.forbidden(wave, row.pipeline, row.state, WAVE_TRANSITIONS[Act.CLAIM])
            if self._live(row) and over != row.fence:
                raise guards.busy(wave, row.fence, str(row.holder))
            if any(item.record.attempt == attempt for item in draft.tries.values()):
                raise guards.taken_id("attempt", attempt)
            earlier = self._end_tries(draft, wave, guards.ENDED_BY_CLAIM)
            now, fence = self._clock.now(), row.fence + 1
            draft.waves[wave] = replace(
                row,
                state=WAVE_TRANSITIONS[Act.CLAIM][1],
                fence=fence,
                attempt=attempt,
                holder=holder,
                lease_until=now + lease,
            )
            record = AttemptRecord(
                wave=wave,
                fence=fence,
                attempt=attempt,
                holder=str(holder),
                job=None,
                base=None,
                audited=None,
                outcome=AttemptOutcome.RUNNING,
                error=None,
                started_at=now,
                ended_at=None,
            )
            draft.tries[wave, fence] = Try(record=record)
            self._event(draft, row.pipeline, str(holder), "claim", wave, f"attempt {attempt}, fence {fence}")
            return Claim(
                claimed_at=now,
                key=record.key,
                pipeline=row.pipeline,
                spec=draft.plans[row.plan],
                table=row.table,
                table_uuid=draft.tables.get((row.pipeline, row.table)),
                ranges=tuple(item for item in draft.ranges_of(wave) if item.state is RangeState.PLANNED),
                attempts=earlier,
            )

    def renew(self, key: AttemptKey, lease: timedelta) -> None:
        with self._writing_as(key, "renew") as draft:
            draft.waves[key.wave] = replace(self._held(draft, key), lease_until=self._clock.now() + lease)

    def record_base(self, key: AttemptKey, base: int) -> None:
        with self._writing_as(key, "record_base") as draft:
            self._held(draft, key)
            item = draft.tries[key.wave, key.fence]
            draft.tries[key.wave, key.fence] = replace(item, record=replace(item.record, base=base))

    def record_job(self, key: AttemptKey, job: str) -> None:
        with self._writing_as(key, "record_job") as draft:
            self._held(draft, key)
            item = draft.tries[key.wave, key.fence]
            draft.tries[key.wave, key.fence] = replace(item, record=replace(item.record, job=job))

    def mark_staged(self, key: AttemptKey, audited: int, staged_bytes: int) -> None:
        with self._writing_as(key, "mark_staged") as draft:
            row = self._act(draft, key, WAVE_TRANSITIONS[Act.STAGE])
            record = draft.tries[key.wave, key.fence].record
            record = replace(record, audited=audited, outcome=AttemptOutcome.STAGED)
            draft.tries[key.wave, key.fence] = Try(record=record, staged_bytes=staged_bytes)
            self._event(
                draft, row.pipeline, key.attempt, "stage", key.wave, f"snapshot {audited}, {staged_bytes} bytes"
            )

    def mark_publishing(self, key: AttemptKey) -> None:
        with self._writing_as(key, "mark_publishing") as draft:
            row = self._act(draft, key, WAVE_TRANSITIONS[Act.PUBLISH])
            if closed := self.gate(key.wave):
                raise gate_closed(key.wave, row.pipeline, closed)
            self._event(draft, row.pipeline, key.attempt, "publish", key.wave, f"attempt {key.attempt}")

    def settle(self, key: AttemptKey, *, attempt: str, snapshot: int | None, receipts: Sequence[Receipt]) -> None:
        with self._writing_as(key, "settle") as draft:
            row = self._act(draft, key, WAVE_TRANSITIONS[Act.SETTLE])
            fences = {item.record.attempt: item.record.fence for (w, _), item in draft.tries.items() if w == key.wave}
            if attempt not in fences:
                raise ValueError(f"attempt {attempt} is none of wave {key.wave}")
            planned = [item for item in draft.ranges_of(key.wave) if item.state is RangeState.PLANNED]
            guards.check_receipts(planned, receipts)
            given = {item.range_id: item for item in receipts}
            for item in planned:
                settled = _settled(item, given[item.id])
                draft.ranges[item.id] = settled
                self._outbox(draft, row.table, "published", settled, attempt=attempt, fence=fences[attempt])
            now, index = self._clock.now(), (key.wave, fences[attempt])
            found = draft.tries[index]
            record = replace(
                found.record, outcome=AttemptOutcome.COMMITTED, error=None, ended_at=found.record.ended_at or now
            )
            draft.tries[index] = replace(found, record=record)
            self._end_tries(draft, key.wave, guards.ENDED_BY_SETTLE)
            draft.waves[key.wave] = replace(row, attempt=None, holder=None, lease_until=None, snapshot=snapshot)
            draft.settled.append(key.wave)
            self._event(draft, row.pipeline, key.attempt, "settle", key.wave, history.settled(attempt, receipts))

    def end_attempt(self, key: AttemptKey, outcome: AttemptOutcome, error: str | None) -> None:
        transition = guards.ending(outcome)
        with self._writing_as(key, "end_attempt") as draft:
            row = self._act(draft, key, transition)
            found = draft.tries[key.wave, key.fence]
            record = replace(found.record, outcome=outcome, error=error, ended_at=self._clock.now())
            draft.tries[key.wave, key.fence] = replace(found, record=record)
            draft.waves[key.wave] = replace(row, attempt=None, holder=None, lease_until=None)
            self._event(draft, row.pipeline, key.attempt, "end", key.wave, history.ended(outcome, error))

    @staticmethod
    def _wave(draft: State, wave: str) -> Wave:
        if wave not in draft.waves:
            raise guards.unknown("wave", wave)
        return draft.waves[wave]

    def _held(self, draft: State, key: AttemptKey) -> Wave:
        row = self._wave(draft, key.wave)
        if not self._holds(row, key):
            raise guards.stale(key, row.state, row.fence)
        return row

    def _act(self, draft: State, key: AttemptKey, transition: guards.Transition) -> Wave:
        row = self._held(draft, key)
        sources, target = transition
        if row.state not in sources:
            raise guards.forbidden(key.wave, row.pipeline, row.state, transition)
        draft.waves[key.wave] = replace(row, state=target)
        return draft.waves[key.wave]

    def _end_tries(self, draft: State, wave: str, outcomes: frozenset[AttemptOutcome]) -> tuple[AttemptRecord, ...]:
        """Abandon what still runs; returns all attempts of the wave, by fence."""
        found = []
        for (name, fence), item in sorted(draft.tries.items()):
            if name != wave:
                continue
            record = item.record
            if record.outcome in outcomes:
                ended_at = record.ended_at or self._clock.now()
                record = replace(record, outcome=AttemptOutcome.ABANDONED, ended_at=ended_at)
                draft.tries[name, fence] = replace(item, record=record)
            found.append(record)
        return tuple(found)

    def _event(self, draft: State, pipeline: str, actor: str, kind: str, subject: str, detail: str) -> None:
        event = Event(
            sequence=len(draft.events) + 1, at=self._clock.now(), actor=actor, kind=kind, subject=subject, detail=detail
        )
        draft.events.append((pipeline, event))

    def _outbox(self, draft: State, table: str, kind: str, item: RangeRecord, *, attempt: str, fence: int) -> None:
        self._send(draft, table, range_receipt(kind, item, attempt=attempt, fence=fence, at=self._clock.now()))

    @staticmethod
    def _send(draft: State, table: str, row: ReceiptRow) -> None:
        draft.last_item[0] += 1
        number = draft.last_item[0]
        draft.outbox[number] = (row.pipeline, OutboxItem(id=number, table=table, row=row))

    @staticmethod
    def _holds(row: Wave | None, key: AttemptKey) -> bool:
        return row is not None and (row.fence, row.attempt) == (key.fence, key.attempt)


def _settled(item: RangeRecord, receipt: Receipt) -> RangeRecord:
    return replace(
        item,
        state=RangeState.SETTLED,
        rows=receipt.rows,
        first_offset=receipt.first_offset,
        last_offset=receipt.last_offset,
        accounting=receipt.accounting,
    )
