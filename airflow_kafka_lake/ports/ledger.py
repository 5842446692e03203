"""The record that decides: read by everyone, written only under a fence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from airflow_kafka_lake.core.clocks import HostClock
from airflow_kafka_lake.core.lake.accounting import Receipt
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.events import Event, Line
from airflow_kafka_lake.core.ledger.holds import Passed
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
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import (
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    Holder,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.ledger.withdrawing import Withdrawal
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.estimates import WaveCost
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.rebuilding.restoration import Edits, Restoration
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec

T = TypeVar("T")


class LedgerReader(Protocol):
    """What is on record. One consistent read per call, O(1) statements whatever the number of partitions."""

    def ledger_id(self) -> str:
        """Return the id this ledger was given at its creation (32 hex digits)."""

    def pipeline(self, name: str) -> PipelineRecord | None:
        """Return a pipeline's newest configuration."""

    def pipelines(self) -> tuple[str, ...]:
        """Return all names, sorted."""

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        """Return the pipeline's streams, sorted by key; every generation of a re-created topic."""

    def waves(self, pipeline: str, states: Iterable[WaveState] | None = None) -> tuple[WaveRecord, ...]:
        """Return waves, oldest plan first, in plan order."""

    def wave(self, wave: str) -> WaveRecord:
        """Return one wave; UnknownSubjectError when there is none."""

    def range(self, range_id: str) -> RangeRecord:
        """Return one range; UnknownSubjectError when there is none."""

    def ranges(
        self,
        *,
        pipeline: str | None = None,
        wave: str | None = None,
        plan: str | None = None,
        states: Iterable[RangeState] | None = None,
    ) -> tuple[RangeRecord, ...]:
        """Return ranges by one of pipeline, wave or plan, sorted by stream and start."""

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        """Return the attempts of one wave by fence, or those of a whole pipeline by wave and fence."""

    def published(self, pipeline: str, *, table: str | None = None, newest: int | None = None) -> tuple[Published, ...]:
        """Return the settled waves that brought rows, newest settled first; `newest` is how many at most."""

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        """Return each of some attempts that is on record, by its id, with the state of its wave."""

    def knows(self, token: Token, line: Line | None = None) -> Line | None:
        """Return the newest line of the pipeline's history when what a table says is known: the token, whose wave has
        an attempt of that id and fence (or it speaks of an ownership), and `line` of the history, if it names one.
        None where either is not on record: the ledger is older than the table."""

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        """Return the layouts that the pipeline's topics were seen in, those that are not in force yet included."""

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        """Return the pipeline's segments, sorted by stream and start."""

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        """Return what a wave must wait for: ancestors of its PLANNED ranges' segments that are not drained (law L14).

        What is on hold is not read with the wave, and waits for nothing; nor does a plan made without ordering."""

    def pace(self, pipeline: str) -> tuple[WaveCost, ...]:
        """Return what the last settled waves of each table cost; those without a settled range, or restored by a
        rebuild, tell nothing."""

    def events(self, pipeline: str, after: int = 0, limit: int = 100) -> tuple[Event, ...]:
        """Return the events of a pipeline with a sequence above `after`."""

    def untold(self, pipeline: str) -> tuple[Advance, ...]:
        """Return the watermark moves that were not told yet, by sequence."""

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        """Return the receipts, all or of one kind, that the lake does not have yet."""


class Ledger(LedgerReader, Protocol):
    """The record, with guarded writes: each is one transaction, and changes everything it says or nothing.

    A write that is refused with StaleFenceError leaves one event `refused`, which names the attempt and its fence.
    """

    def commit(self, write: Write[T]) -> T:
        """Let a write decide from the records of its scope, under lock, and write what it changes: all or nothing.

        Raises what the write refuses with, and ConcurrentError where another writer was first.
        """

    def save_pipeline(self, spec: PipelineSpec) -> None:
        """Record a configuration; a changed digest is a new version, older plans keep theirs."""

    def bind_table(self, pipeline: str, table: str, uuid: str) -> str:
        """Record a table's UUID if none is recorded; return the recorded one."""

    def record_plan(self, plan: Plan, actor: str, clock: HostClock | None = None) -> None:
        """Record snapshots, streams, waves, ranges in one transaction, guarded by each stream's version.

        `clock` is the one that the plan was decided by: UnavailableError where it is more than a minute ahead of the
        ledger's, or behind it; None for the ledger's own.

        Puts one `origin` receipt per new stream into the outbox, and adds the plan's growth to the segments; a seal is
        never moved. Raises ConcurrentError when another planner was first (nothing is recorded). A plan that overlaps a
        recorded range is refused by constraint.
        """

    def claim(self, wave: str, *, attempt: str, holder: Holder, lease: timedelta, over: int | None = None) -> Claim:
        """Raise the wave's fence by one and give it to an attempt.

        Refused with ConcurrentError while another lease is live, unless `over` names the current fence: the caller
        vouches that its holder is dead. A lease that ends further away than twice `MAX_LEASE` counts as expired.
        StateError for a wave that is COMMITTED, CANCELLED or DISSOLVED. Earlier attempts still `running`, `staged`
        become `abandoned`; `unknown` stays.
        """

    def renew(self, key: AttemptKey, lease: timedelta) -> None:
        """Prolong the lease; StaleFenceError when the fence or the attempt is not the wave's any more."""

    def record_base(self, key: AttemptKey, base: int) -> None:
        """Store the head the probe looked at, before any work; StaleFenceError as above (and for all below)."""

    def record_job(self, key: AttemptKey, job: str) -> None:
        """Store the job reference of the attempt."""

    def mark_staged(self, key: AttemptKey, audited: int, staged_bytes: int) -> None:
        """CLAIMED → STAGED with the audited snapshot's id and the staged bytes."""

    def mark_publishing(self, key: AttemptKey) -> None:
        """STAGED or PUBLISHING → PUBLISHING, just before the commit; GateClosedError while the gate is closed."""

    def settle(self, key: AttemptKey, *, attempt: str, snapshot: int | None, receipts: Sequence[Receipt]) -> None:
        """Wave → COMMITTED, its PLANNED ranges → SETTLED with their receipts' numbers, in one transaction.

        `attempt` is the one whose commit is in the lake: `key.attempt`, or an earlier one that is adopted. The other
        attempts end. Puts one `published` receipt per range into the outbox. Refused with ValueError unless the
        receipts are exactly the wave's PLANNED ranges, and each accounting is complete with 0 unexplained.
        """

    def end_attempt(self, key: AttemptKey, outcome: AttemptOutcome, error: str | None) -> None:
        """End the attempt and its lease: the wave returns to PLANNED; with outcome `unknown` it stays PUBLISHING."""

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
        """Take ranges away from a wave (law L11): each → CANCELLED or HELD with its reason, or PLANNED: those stay as
        they are, in a new wave named `apart`, of which others have no part. A verdict about a part cuts its range, and
        what is beside the part stays PLANNED in the wave; ValueError for a part that is not inside its range.

        Guarded by the fence; `attempt` is None only for a wave that was never claimed (fence 0). When no PLANNED
        range is left the wave becomes CANCELLED (all its ranges CANCELLED) or DISSOLVED; else it returns to PLANNED.
        The attempt ends as `abandoned` unless it has ended.
        """

    def release(self, ranges: Sequence[str], *, wave: str, actor: str, reason: str | None) -> str:
        """CANCELLED or HELD → PLANNED. Returns the wave they are in: their own, when that is CANCELLED and all its
        ranges are released; else the new wave named `wave`. StateError names a range in another state."""

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
        """Record a skip: what of the stretch is not settled or skipped becomes SKIPPED.

        Unresolved ranges that cross an edge are split; the rest keeps state and wave, but for what was HELD for offsets
        of which it has none any more: that is PLANNED again, in new waves. Every touched wave that was ever claimed and
        is not CANCELLED/DISSOLVED/COMMITTED must be held by one of `guards`, else ConcurrentError.
        Puts a `skip` receipt into the outbox. `epoch` is the leader epoch of a log that lost what is skipped: it
        becomes the stream's, so that the loss is accepted; None leaves the recorded one.
        """

    def reopen(self, what: Reopening, actor: str) -> int:
        """Plan a stretch again that was settled or skipped, in one transaction; returns the stream's watermark, which
        falls to the stretch's start where it was above: the only other move backwards is a rebuild's.

        Refused with ConcurrentError unless the stream has the version of `what`, and the ranges of its stretch are its
        sources. Each range becomes its cuts; those read again are in new waves, of which the first has the token's
        attempt, already abandoned, so that the ledger `knows` the token. Puts into the outbox a `reopen` receipt for
        each reopened piece and a `published` one for each that stays settled of a range that was cut.
        """

    def withdraw(self, what: Withdrawal, actor: str) -> None:
        """Take planned ranges that nobody ever began to read off the plan, in one transaction: they are gone from the
        record, the event says which they were, and a later plan takes their offsets again.

        What is kept of a range stays in its wave; a wave without any range left is DISSOLVED. Refused with
        ConcurrentError unless streams and ranges are as `what` was decided from, and no wave of them was ever claimed.
        """

    def accept_deletes(
        self, pipeline: str, receipts: Sequence[tuple[str, ReceiptRow]], *, decision: str, reason: str, actor: str
    ) -> None:
        """Record that rows were deleted from the lake on purpose: an event, and the receipts, with their tables, in the
        outbox. No range changes: what is settled stays so."""

    def reinstate(self, what: Restoration, actor: str) -> Edits:
        """Make the record agree with the lake, in one transaction: the end of a rebuild.

        Refused with ConcurrentError unless the pipeline's streams have the versions of `what`, and every open wave is
        held by one of its guards. What is settled or skipped in the lake is recorded, under the waves and attempts
        that it names; what was recorded in its way gives way as `core.restoration.edits` decides; the guards' attempts
        end. Watermarks only fall here, to the end of what is left settled; `advance` moves them on. Fences rise to the
        highest the lake has seen. From then on the ledger `knows` the rebuild's token.
        """

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        """Move every watermark to the end of the unbroken settled run, set-based; returns the moves of this call."""

    def told(self, pipeline: str, sequence: int) -> None:
        """Record that all moves up to `sequence` were told; never moves back."""

    def sent(self, items: Sequence[int]) -> None:
        """Remove outbox items that the lake has now."""
