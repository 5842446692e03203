"""The writes of an attempt: it claims its wave, records its progress and its commit, and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from airflow_kafka_lake.core.accounting import Receipt
from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    ENDED_BY_CLAIM,
    ENDED_BY_COMMIT,
    LONGEST,
    AttemptWrite,
    Change,
    Edit,
    Entry,
    PipelineLock,
    Records,
    Write,
    WriteScope,
    abandoned,
    check_receipts,
    range_receipt,
)
from airflow_kafka_lake.core.ledger.guards import Limits, refuse_above, refuse_paused
from airflow_kafka_lake.core.ledger.records import Claim, WaveRow
from airflow_kafka_lake.core.ledger.waves import (
    DECODE,
    WAVE_TRANSITIONS,
    Act,
    AttemptCause,
    AttemptOutcome,
    AttemptRecord,
    LeaseHolder,
    WaveState,
)
from airflow_kafka_lake.core.ordering.segments import gate_closed
from airflow_kafka_lake.core.reports.progress import Progress


class ClaimWave(Write[Claim]):
    """Raise a wave's fence by one and give it to an attempt.

    Refused with ConcurrentError while another lease is live, unless `over` names the current fence: the caller vouches
    that its holder is dead. A lease that ends further away than twice `MAX_LEASE` counts as expired. StateError for a
    wave that is COMMITTED, CANCELLED or DISSOLVED, and for an attempt id that was used before. PausedError while its
    pipeline or its plan is paused, and LimitReachedError while as many of its waves are at work as may be at once,
    unless the claim is `to_decide`: to find out the state of the wave, or to revoke something from it. The limits are
    those of the pipeline's newest configuration; `bytes_per_second` is a run's own rate instead.

    Earlier attempts still `running` or `staged` become `abandoned`; `unknown` stays. `taken` says that the holder was
    not found dead: where his lease is live, a person has taken the wave from him.
    """

    name: ClassVar[str] = "claim"
    wave: str
    attempt: str
    holder: LeaseHolder
    lease: timedelta
    over: int | None = None
    to_decide: bool = False
    taken: bool = False
    bytes_per_second: int | None = None
    actor: str | None = None

    def scope(self) -> WriteScope:
        return WriteScope(
            turn=None if self.to_decide else PipelineLock.CLAIM,
            configurations=not self.to_decide,
            waves=(self.wave,),
            attempts=True,
            attempt_ids=(self.attempt,),
            plans=True,
            tables=True,
            planned=True,
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
        new = AttemptRecord(
            wave=self.wave, fence=fence, attempt=self.attempt, holder=str(self.holder), started_at=now, actor=self.actor
        )
        earlier = records.attempts_of(self.wave)
        cause = AttemptCause.TAKEN if self.taken and guards.lease_is_live(before.lease_until, now) else None
        over = {item: item.abandoned(now, cause) for item in earlier if item.outcome in ENDED_BY_CLAIM}
        told = f"attempt {self.attempt}, fence {fence}"
        entry = Entry(pipeline=before.pipeline, actor=str(self.holder), kind="claim", subject=self.wave, detail=told)
        return Change(
            edits=(
                Edit(before=before, after=after),
                *(Edit(before=item, after=ended) for item, ended in over.items()),
                Edit(after=new),
            ),
            entries=(entry,),
            result=Claim(
                key=new.key,
                claimed_at=now,
                pipeline=before.pipeline,
                spec=records.plans[before.plan].spec,
                table=before.table,
                table_uuid=records.tables.get(before.table),
                ranges=records.ranges,
                attempts=tuple(over.get(item, item) for item in earlier),
                rate=self._limits(records).rate,
            ),
        )

    def _limits(self, records: Records) -> Limits:
        return Limits.of(records.newest.spec, self.bytes_per_second) if records.newest else Limits()

    def _free(self, records: Records) -> WaveRow:
        """Return the wave as it may be claimed."""
        wave, transition = records.wave(self.wave), WAVE_TRANSITIONS[Act.CLAIM]
        if wave.state not in transition[0]:
            raise guards.forbidden(wave.id, wave.pipeline, wave.state, transition)
        refuse_paused(records.pauses, wave.plan)
        if guards.lease_is_live(wave.lease_until, records.now) and self.over != wave.fence:
            raise guards.busy(wave.id, wave.fence, str(wave.holder))
        refuse_above(self._limits(records), wave.pipeline, sorted(set(records.at_work) - {wave.id}))
        if any(item.attempt == self.attempt for item in records.attempts):
            raise guards.taken_id("attempt", self.attempt)
        return wave


class Renew(AttemptWrite[None]):
    """Prolong the lease, and record how far the attempt is; StaleFenceError when the fence or the attempt is not the
    wave's any more."""

    lease: timedelta
    progress: Progress | None = None

    def scope(self) -> WriteScope:
        return WriteScope(waves=(self.key.wave,), attempts=self.progress is not None)

    def decide(self, records: Records) -> Change[None]:
        wave = self.held(records)
        renewed = Edit(before=wave, after=replace(wave, lease_until=records.now + self.lease))
        if self.progress is None:
            return Change(result=None, edits=(renewed,))
        attempt = records.attempt(self.key)
        return Change(result=None, edits=(renewed, Edit(before=attempt, after=attempt.at(self.progress, records.now))))


class RecordBase(AttemptWrite[None]):
    """Store the head the probe looked at, before any work; raises StaleFenceError, as every write below."""

    base: int

    def decide(self, records: Records) -> Change[None]:
        self.held(records)
        attempt = records.attempt(self.key)
        return Change(result=None, edits=(Edit(before=attempt, after=replace(attempt, base=self.base)),))


class RecordJob(AttemptWrite[None]):
    """Store the job reference of the attempt, whose job reads from now on; later also its Spark application, which the
    job alone can name."""

    job: str
    progress: Progress | None = None
    application: str | None = None

    def decide(self, records: Records) -> Change[None]:
        self.held(records)
        attempt = records.attempt(self.key)
        after = replace(attempt, job=self.job, application=self.application).at(self.progress, records.now)
        return Change(result=None, edits=(Edit(before=attempt, after=after),))


class MarkStaged(AttemptWrite[None]):
    """CLAIMED → STAGED with the audited snapshot's id and the staged bytes; `progress` is the next step's, `remarks`
    are about the values."""

    audited: int
    staged_bytes: int
    progress: Progress | None = None
    remarks: str = ""

    def decide(self, records: Records) -> Change[None]:
        transition = WAVE_TRANSITIONS[Act.STAGE]
        wave, attempt = self.held(records, transition), records.attempt(self.key)
        staged = replace(attempt, audited=self.audited, staged_bytes=self.staged_bytes, outcome=AttemptOutcome.STAGED)
        remarks = [self.entry(wave, DECODE, self.remarks[:LONGEST])] if self.remarks else []
        return Change(
            result=None,
            edits=(
                Edit(before=wave, after=replace(wave, state=transition[1])),
                Edit(before=attempt, after=staged.at(self.progress, records.now)),
            ),
            entries=(self.entry(wave, "stage", f"snapshot {self.audited}, {size(self.staged_bytes)}"), *remarks),
        )


class MarkPublishing(AttemptWrite[None]):
    """STAGED or PUBLISHING → PUBLISHING, just before the commit; GateClosedError while the gate is closed."""

    def scope(self) -> WriteScope:
        return WriteScope(waves=(self.key.wave,), gate=True)

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


class RecordCommit(AttemptWrite[None]):
    """Wave → COMMITTED, its PLANNED ranges → COMMITTED with their receipts' numbers.

    `attempt` is the one whose commit is in the lake: `key.attempt`, or an earlier one that is adopted. The other
    attempts end. Puts one `published` receipt per range into the outbox. Refused with ValueError unless the receipts
    are exactly the wave's PLANNED ranges, and each accounting is complete with 0 unexplained.
    """

    attempt: str
    snapshot: int | None
    receipts: Sequence[Receipt]

    def scope(self) -> WriteScope:
        return WriteScope(waves=(self.key.wave,), attempts=True, planned=True)

    def decide(self, records: Records) -> Change[None]:
        transition = WAVE_TRANSITIONS[Act.COMMIT]
        wave = self.held(records, transition)
        brought = next((item for item in records.attempts if item.attempt == self.attempt), None)
        if brought is None:
            raise ValueError(f"attempt {self.attempt} is none of wave {wave.id}")
        check_receipts(records.ranges, self.receipts)
        given = {item.range_id: item for item in self.receipts}
        committed = [item.committed(given[item.id]) for item in records.ranges]
        done = replace(wave.free(transition[1]), snapshot=self.snapshot, committed_at=records.now)
        rows = count(sum(item.rows for item in self.receipts), "row")
        others = [edit for edit in abandoned(records, wave.id, ENDED_BY_COMMIT) if edit.before != brought]
        return Change(
            result=None,
            edits=(
                Edit(before=wave, after=done),
                Edit(before=brought, after=brought.committed(records.now)),
                *others,
                *(Edit(before=before, after=after) for before, after in zip(records.ranges, committed, strict=True)),
            ),
            outbox=tuple(
                (
                    wave.table,
                    range_receipt("published", item, attempt=self.attempt, fence=brought.fence, at=records.now),
                )
                for item in committed
            ),
            entries=(self.entry(wave, "commit", f"attempt {self.attempt}: {count(len(committed), 'range')}, {rows}"),),
        )


class EndAttempt(AttemptWrite[None]):
    """End the attempt and its lease: the wave returns to PLANNED; with outcome `unknown` it stays PUBLISHING."""

    outcome: AttemptOutcome
    error: str | None
    cause: AttemptCause | None = None

    def decide(self, records: Records) -> Change[None]:
        transition = _ending(self.outcome)
        wave = self.held(records, transition)
        attempt = records.attempt(self.key)
        why = f": {self.error[:LONGEST]}" if self.error else ""
        ended = replace(attempt, outcome=self.outcome, error=self.error, cause=self.cause, ended_at=records.now)
        return Change(
            result=None,
            edits=(Edit(before=wave, after=wave.free(transition[1])), Edit(before=attempt, after=ended)),
            entries=(self.entry(wave, "end", f"{self.outcome.value}{why}"),),
        )


_MAY_END_AS = frozenset(
    {AttemptOutcome.REJECTED, AttemptOutcome.FAILED, AttemptOutcome.UNKNOWN, AttemptOutcome.ABANDONED}
)


def _ending(outcome: AttemptOutcome) -> guards.Transition:
    """Return the effect of an attempt's end on its wave.

    After an unknown commit, its own or an earlier one that it could not look for, the wave stays PUBLISHING.
    """
    if outcome is AttemptOutcome.UNKNOWN:
        return frozenset({WaveState.CLAIMED, WaveState.PUBLISHING}), WaveState.PUBLISHING
    if outcome not in _MAY_END_AS:
        raise ValueError(f"an attempt cannot be ended as {outcome}")
    return WAVE_TRANSITIONS[Act.GIVE_UP]
