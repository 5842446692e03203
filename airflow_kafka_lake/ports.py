"""What the services need of the world, as protocols named by need. Values in, values out.

Every adapter of a port passes that port's one contract suite (`tests/contracts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from airflow_kafka_lake.core.accounting import Explanation, Gap, Receipt, StreamContent
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.plan import Plan, StreamKey, StreamRecord
from airflow_kafka_lake.core.records import (
    Advance,
    Claim,
    Event,
    OutboxItem,
    Pace,
    PipelineRecord,
    Publication,
    RangeRecord,
    ReceiptRow,
    Staged,
    Verdict,
    WaveRecord,
)
from airflow_kafka_lake.core.snapshots import Sample, Snapshot, TopicDescription
from airflow_kafka_lake.core.spec import Isolation, PipelineSpec
from airflow_kafka_lake.core.staging import StageJob
from airflow_kafka_lake.core.waves import (
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    Holder,
    Look,
    PublishOutcome,
    RangeState,
    TableHead,
    Token,
    WaveState,
)


class OffsetSource(Protocol):
    """Kafka as the planner sees it. Any call may raise UnavailableError; nothing unknown is ever a number."""

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        """Return existing topics, sorted: `names` as given (UnknownTopicError names a missing one) or all that match
        the pattern from start to end; internal topics never match."""

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        """Return id, partition count and retention of each topic; UnknownTopicError names a missing one."""

    def snapshot(self, topics: Sequence[str], group: str | None) -> Snapshot:
        """Observe all partitions in the safe order: describe → group offsets (require stable, partitions named) →
        last stable → high watermark → log start → describe again; ids and counts must match or it starts over.

        A partition that cannot be observed is in `Snapshot.unknown`. Raises UnknownTopicError, UnavailableError.
        """

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> Mapping[tuple[str, int], int | None]:
        """Return the first offset at or after a time; None where no record is that late (that means "end")."""

    def sample(self, stretches: Sequence[tuple[str, int, OffsetRange]], isolation: Isolation) -> tuple[Sample, ...]:
        """Read a little at the start of each stretch; stretches that gave nothing within the bound are left out."""


class BatchReader(Protocol):
    """Kafka's raw record batches: the witness for offsets without a row."""

    def explain(self, gaps: Sequence[Gap], isolation: Isolation) -> Mapping[Gap, tuple[Explanation, ...]]:
        """Say of every gap what its offsets are; what cannot be explained is in no Explanation or UNEXPLAINED.

        Raises IdentityError when a topic's id is not the gap's, UnavailableError when the broker cannot be read.
        """


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

    def attempts(self, wave: str) -> tuple[AttemptRecord, ...]:
        """Return a wave's attempts by fence."""

    def knows(self, token: Token) -> bool:
        """Say whether a token of the lake is one of ours: its wave has an attempt of that id and fence, or it is an
        ownership or fence commit that we recorded."""

    def pace(self, pipeline: str) -> Pace:
        """Return what the last settled waves cost."""

    def events(self, pipeline: str, after: int = 0, limit: int = 100) -> tuple[Event, ...]:
        """Return the events of a pipeline with a sequence above `after`."""

    def untold(self, pipeline: str) -> tuple[Advance, ...]:
        """Return the watermark moves that were not told yet, by sequence."""

    def outbox(self, pipeline: str) -> tuple[OutboxItem, ...]:
        """Return the receipts that the lake does not have yet."""


class Ledger(LedgerReader, Protocol):
    """The record, with guarded writes: each is one transaction, and changes everything it says or nothing."""

    def save_pipeline(self, spec: PipelineSpec) -> None:
        """Record a configuration; a changed digest is a new version, older plans keep theirs."""

    def bind_table(self, pipeline: str, table: str, uuid: str) -> str:
        """Record a table's UUID if none is recorded; return the recorded one."""

    def record_plan(self, plan: Plan, actor: str) -> None:
        """Record snapshots, streams, waves, ranges in one transaction, guarded by each stream's version.

        Raises ConcurrentError when another planner was first (nothing is recorded). A plan that overlaps a recorded
        range is refused by constraint.
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
        """STAGED or PUBLISHING → PUBLISHING, just before the commit."""

    def settle(self, key: AttemptKey, *, attempt: str, snapshot: int | None, receipts: Sequence[Receipt]) -> None:
        """Wave → COMMITTED, its PLANNED ranges → SETTLED with their receipts' numbers, in one transaction.

        `attempt` is the one whose commit is in the lake: `key.attempt`, or an earlier one that is adopted. The other
        attempts end. Puts one `published` receipt per range into the outbox. Refused with ValueError unless the
        receipts are exactly the wave's PLANNED ranges, and each accounting is complete with 0 unexplained.
        """

    def end_attempt(self, key: AttemptKey, outcome: AttemptOutcome, error: str | None) -> None:
        """End the attempt and its lease: the wave returns to PLANNED; with outcome `unknown` it stays PUBLISHING."""

    def take(self, wave: str, *, fence: int, attempt: str | None, verdicts: Sequence[Verdict], actor: str) -> None:
        """Take ranges away from a wave (law L11): each → CANCELLED or HELD with its reason.

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
        stream: StreamKey,
        stretch: OffsetRange,
        *,
        skip_id: str,
        reason: str,
        actor: str,
        acknowledge_order: bool,
        guards: Sequence[AttemptKey],
    ) -> int:
        """Record a skip: what of the stretch is not settled or skipped becomes SKIPPED; returns how many offsets.

        Unresolved ranges that cross an edge are split; the rest keeps state and wave. Every touched wave that was
        ever claimed and is not CANCELLED/DISSOLVED/COMMITTED must be held by one of `guards`, else ConcurrentError.
        Puts a `skip` receipt into the outbox.
        """

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        """Move every watermark to the end of the unbroken settled run, set-based; returns the moves of this call."""

    def told(self, pipeline: str, sequence: int) -> None:
        """Record that all moves up to `sequence` were told; never moves back."""

    def sent(self, items: Sequence[int]) -> None:
        """Remove outbox items that the lake has now."""


class LakeTable(Protocol):
    """One lake table. Any call may raise UnavailableError (catalog or storage out of reach)."""

    identifier: str

    def ensure(self, partition_by: str) -> TableHead:
        """Create the table when it is missing; refuse with SchemaMismatchError when it does not fit, naming how."""

    def head(self) -> TableHead:
        """Load the table freshly; UnknownSubjectError when it does not exist."""

    def claim_ownership(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic inside a commit that moves main; Rejected names another owner."""

    def look(self, attempts: Sequence[AttemptRecord]) -> Look:
        """Search main for any of the attempts: history back to the oldest base AND rows by `ingest_attempt`, both at
        one head. Attempts without a base never published."""

    def staged(self, attempt: str) -> Staged | None:
        """Open every file that the attempt's branch added and read partition and offset columns; None: no branch, or
        nothing committed on it yet. Raises SchemaMismatchError for a row of another attempt or topic id."""

    def publish(self, publication: Publication) -> PublishOutcome:
        """Make a staged attempt visible by one compare-and-set commit on `publication.head` (law L9)."""

    def fence(self, head: TableHead, ledger_id: str, token: Token) -> PublishOutcome:
        """Move main with an empty commit, so that no publisher that looked at an earlier head can succeed."""

    def drop(self, attempt: str) -> None:
        """Remove an attempt's staging branch, if there is one. Never touches main."""

    def contents(self, topic_ids: Sequence[str]) -> tuple[StreamContent, ...]:
        """Read main's partition and offset columns for some topics: what a reader of the table sees."""

    def add_receipts(self, rows: Sequence[ReceiptRow]) -> None:
        """Append to `<table>__receipts`, creating it when missing; rows that are there already are not added twice
        (same attempt, kind, topic id, partition, start, end, generation)."""

    def receipts(self, attempt: str) -> tuple[ReceiptRow, ...]:
        """Return the `rows` receipts of an attempt."""


class Lake(Protocol):
    """The catalog: tables by `namespace.table`."""

    def table(self, identifier: str) -> LakeTable:
        """Return the table's handle; opens nothing yet."""


class JobRunner(Protocol):
    """Runs the Spark job."""

    def where(self) -> str:
        """Say in words where jobs run, for plans and messages (e.g. "a local Spark master on this machine")."""

    def stage(self, job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None]) -> None:
        """Run the job to its end. `started` gets the job reference once; `heartbeat` is called every few seconds while
        the job makes progress, and an exception it raises ends the job. Raises JobFailedError with the job's last
        words (never a secret)."""

    def end_orphan(self, job: str) -> bool:
        """End the job of a worker that died, by the reference that `started` was given; True when one was ended.

        Never touches anything but that job: not another host's, not a process that was given the same id later.
        """


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Processes(Protocol):
    """Who we are, and whether another holder still lives."""

    def this(self) -> Holder:
        """Return this process."""

    def dead(self, holder: Holder) -> bool:
        """Say whether a holder is known to be dead: same host, and no process of that id and start time. Unknown is
        not dead."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The world as one value, handed to every service."""

    ledger: Ledger
    source: OffsetSource
    batches: BatchReader
    lake: Lake
    runner: JobRunner
    clock: Clock
    processes: Processes
    actor: str
    say: Callable[[str], None]
    """Tells a person what is being done, one short sentence at a time."""


MAX_LEASE = timedelta(minutes=10)
"""Longest lease anybody asks for; one that ends further away than twice this counts as expired."""
