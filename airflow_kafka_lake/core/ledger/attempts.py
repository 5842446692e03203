"""What an attempt writes until its commit: it claims its wave, tells how far it is, and ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.changes import AttemptWrite, Change, Edit, Entry, Records, Scope, Write
from airflow_kafka_lake.core.ledger.records import Claim
from airflow_kafka_lake.core.ledger.rows import WaveRow
from airflow_kafka_lake.core.ledger.waves import (
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    LeaseHolder,
)
from airflow_kafka_lake.core.ordering.segments import gate_closed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWave(Write[Claim]):
    """Raise a wave's fence by one and give it to an attempt.

    Refused with ConcurrentError while another lease is live, unless `over` names the current fence: the caller vouches
    that its holder is dead. A lease that ends further away than twice `MAX_LEASE` counts as expired. StateError for a
    wave that is COMMITTED, CANCELLED or DISSOLVED, and for an attempt id that was used before. Earlier attempts still
    `running` or `staged` become `abandoned`; `unknown` stays.
    """

    name: ClassVar[str] = "claim"
    wave: str
    attempt: str
    holder: LeaseHolder
    lease: timedelta
    over: int | None = None

    def scope(self) -> Scope:
        return Scope(
            waves=(self.wave,), attempts=True, attempt_ids=(self.attempt,), plans=True, tables=True, planned=True
        )

    def decide(self, records: Records) -> Change[Claim]:
        before = self._free(records)
        now, fence = records.now, before.fence + 1
        after = replace(
            before,
            state=WAVE_TRANSITIONS[Act.CLAIM][1],
            fence=fence,
            attempt=self.attempt,
            holder=self.holder,
            lease_until=now + self.lease,
        )
        new = AttemptRecord(wave=self.wave, fence=fence, attempt=self.attempt, holder=str(self.holder), started_at=now)
        earlier = records.attempts_of(self.wave)
        over = {item: item.abandoned(now) for item in earlier if item.outcome in guards.ENDED_BY_CLAIM}
        said = f"attempt {self.attempt}, fence {fence}"
        return Change(
            edits=(
                Edit(before=before, after=after),
                *(Edit(before=item, after=ended) for item, ended in over.items()),
                Edit(after=new),
            ),
            entries=(
                Entry(pipeline=before.pipeline, actor=str(self.holder), kind="claim", subject=self.wave, detail=said),
            ),
            result=Claim(
                key=new.key,
                claimed_at=now,
                pipeline=before.pipeline,
                spec=records.plans[before.plan].spec,
                table=before.table,
                table_uuid=records.tables.get(before.table),
                ranges=records.ranges,
                attempts=tuple(over.get(item, item) for item in earlier),
            ),
        )

    def _free(self, records: Records) -> WaveRow:
        """Return the wave as it may be claimed."""
        wave, transition = records.wave(self.wave), WAVE_TRANSITIONS[Act.CLAIM]
        if wave.state not in transition[0]:
            raise guards.forbidden(wave.id, wave.pipeline, wave.state, transition)
        if guards.lease_is_live(wave.lease_until, records.now) and self.over != wave.fence:
            raise guards.busy(wave.id, wave.fence, str(wave.holder))
        if any(item.attempt == self.attempt for item in records.attempts):
            raise guards.taken_id("attempt", self.attempt)
        return wave


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew(AttemptWrite[None]):
    """Prolong the lease; StaleFenceError when the fence or the attempt is not the wave's any more."""

    name: ClassVar[str] = "renew"
    key: AttemptKey
    lease: timedelta

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,))

    def decide(self, records: Records) -> Change[None]:
        wave = self.held(records)
        return Change(
            result=None, edits=(Edit(before=wave, after=replace(wave, lease_until=records.now + self.lease)),)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBase(AttemptWrite[None]):
    """Store the head the probe looked at, before any work; StaleFenceError as above (and for all below)."""

    name: ClassVar[str] = "record_base"
    key: AttemptKey
    base: int

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,), attempts=True)

    def decide(self, records: Records) -> Change[None]:
        self.held(records)
        attempt = records.attempt(self.key)
        return Change(result=None, edits=(Edit(before=attempt, after=replace(attempt, base=self.base)),))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordJob(AttemptWrite[None]):
    """Store the job reference of the attempt."""

    name: ClassVar[str] = "record_job"
    key: AttemptKey
    job: str

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,), attempts=True)

    def decide(self, records: Records) -> Change[None]:
        self.held(records)
        attempt = records.attempt(self.key)
        return Change(result=None, edits=(Edit(before=attempt, after=replace(attempt, job=self.job)),))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkStaged(AttemptWrite[None]):
    """CLAIMED → STAGED with the audited snapshot's id and the staged bytes."""

    name: ClassVar[str] = "mark_staged"
    key: AttemptKey
    audited: int
    staged_bytes: int

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,), attempts=True)

    def decide(self, records: Records) -> Change[None]:
        transition = WAVE_TRANSITIONS[Act.STAGE]
        wave, attempt = self.held(records, transition), records.attempt(self.key)
        staged = replace(attempt, audited=self.audited, staged_bytes=self.staged_bytes, outcome=AttemptOutcome.STAGED)
        return Change(
            result=None,
            edits=(
                Edit(before=wave, after=replace(wave, state=transition[1])),
                Edit(before=attempt, after=staged),
            ),
            entries=(self.entry(wave, "stage", f"snapshot {self.audited}, {self.staged_bytes} bytes"),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPublishing(AttemptWrite[None]):
    """STAGED or PUBLISHING → PUBLISHING, just before the commit; GateClosedError while the gate is closed."""

    name: ClassVar[str] = "mark_publishing"
    key: AttemptKey

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,), gate=True)

    def decide(self, records: Records) -> Change[None]:
        transition = WAVE_TRANSITIONS[Act.PUBLISH]
        wave = self.held(records, transition)
        if records.gate:
            raise gate_closed(wave.id, wave.pipeline, records.gate)
        return Change(
            result=None,
            edits=(Edit(before=wave, after=replace(wave, state=transition[1])),),
            entries=(self.entry(wave, "publish", f"attempt {self.key.attempt}"),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt(AttemptWrite[None]):
    """End the attempt and its lease: the wave returns to PLANNED; with outcome `unknown` it stays PUBLISHING."""

    name: ClassVar[str] = "end_attempt"
    key: AttemptKey
    outcome: AttemptOutcome
    error: str | None

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,), attempts=True)

    def decide(self, records: Records) -> Change[None]:
        transition = guards.ending(self.outcome)
        wave = self.held(records, transition)
        attempt = records.attempt(self.key)
        ended = replace(attempt, outcome=self.outcome, error=self.error, ended_at=records.now)
        return Change(
            result=None,
            edits=(Edit(before=wave, after=wave.free(transition[1])), Edit(before=attempt, after=ended)),
            entries=(self.entry(wave, "end", history.ended(self.outcome, self.error)),),
        )
