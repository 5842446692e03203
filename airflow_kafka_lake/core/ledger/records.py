"""The records of the ledger and the lake as values, with the watermark of a stream and the hold of a range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting, Receipt, StreamContent
from airflow_kafka_lake.core.errors import KafkaLakeError, LostRecordsError
from airflow_kafka_lake.core.ledger.guards import LEASE, OVERDUE, PauseRow, lease_is_live, remedies_for
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.waves import (
    DECODE,
    OPEN,
    AttemptCause,
    AttemptKey,
    AttemptRecord,
    LeaseHolder,
    RangeState,
    TableHead,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import NOTHING, HasSlice, OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.remedies import Cause, Remedy
from airflow_kafka_lake.core.spark.job import Tip
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord:
    """A pipeline: its newest configuration, the UUID of each of its tables as first seen, and its pauses."""

    spec: PipelineSpec
    tables: Mapping[str, str]
    pauses: tuple[PauseRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRecord(HasSlice):
    """A range as the ledger has it. `accounting` and the row numbers are None until it is committed.

    `leader_epoch` is the partition's when the range was planned; None where it is not known. `generation` counts how
    often its offsets were reopened; `fewer_accepted` says that a person has agreed to fewer rows of the second reading.
    `held_for` are the offsets that a hold is due to, none where it is due to the range as a whole: once a skip has
    passed them, the rest goes on. `skip` is the skip that passed a SKIPPED one, and also the plan and the wave of one
    that was not planned. `cause` is that of a hold by a program; a hold by a person has a `reason` alone.
    """

    id: str
    pipeline: str
    plan: str
    wave: str
    slice: Slice
    state: RangeState
    reason: str | None = None
    estimated_bytes: int = 0
    rows: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    accounting: Accounting | None = None
    leader_epoch: int | None = None
    generation: int = 0
    fewer_accepted: bool = False
    held_for: RangeSet = NOTHING
    skip: str | None = None
    cause: Cause | None = None

    def decided(
        self,
        state: RangeState,
        *,
        wave: str,
        reason: str | None = None,
        held_for: RangeSet = NOTHING,
        cause: Cause | None = None,
    ) -> RangeRecord:
        """Return the range in another state or wave; for many ranges, as this takes half the time of `replace`."""
        return RangeRecord(
            id=self.id,
            pipeline=self.pipeline,
            plan=self.plan,
            wave=wave,
            slice=self.slice,
            state=state,
            reason=reason,
            estimated_bytes=self.estimated_bytes,
            rows=self.rows,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            accounting=self.accounting,
            leader_epoch=self.leader_epoch,
            generation=self.generation,
            fewer_accepted=self.fewer_accepted,
            held_for=held_for,
            skip=self.skip,
            cause=cause,
        )

    def committed(self, receipt: Receipt) -> RangeRecord:
        """Return the range as COMMITTED, with the numbers of its receipt."""
        return replace(
            self,
            state=RangeState.COMMITTED,
            rows=receipt.rows,
            first_offset=receipt.first_offset,
            last_offset=receipt.last_offset,
            accounting=receipt.accounting,
        )

    def piece_id(self, start: int) -> str:
        """Return the id of the piece that begins at an offset, once the range is cut: the first keeps the range's.

        A piece of a piece is named after the whole, so that ids stay short however often a range is cut.
        """
        if start == self.range.start:
            return self.id
        return f"{self.id.removesuffix(f'.{self.range.start}')}.{start}"

    def piece(self, part: OffsetRange) -> RangeRecord:
        """Return one piece of the cut range, with its share of the estimate and of the offsets it is held for."""
        return replace(
            self,
            id=self.piece_id(part.start),
            slice=self.slice.part(part),
            estimated_bytes=self.estimated_bytes * part.span // self.range.span,
            held_for=self.held_for.within(part),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRow:
    """A wave's own facts, as a write reads and changes them."""

    id: str
    pipeline: str
    plan: str
    ordinal: int
    table: str
    state: WaveState = WaveState.PLANNED
    fence: int = 0
    attempt: str | None = None
    holder: LeaseHolder | None = None
    lease_until: datetime | None = None
    snapshot: int | None = None
    committed_at: datetime | None = None

    def is_held_by(self, key: AttemptKey) -> bool:
        """Return whether an attempt holds the wave: its fence and its id are the wave's (law L10)."""
        return (self.id, self.fence, self.attempt) == (key.wave, key.fence, key.attempt)

    def free(self, state: WaveState) -> WaveRow:
        """Return the wave in a state in which no attempt works on it."""
        return replace(self, state=state, attempt=None, holder=None, lease_until=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRecord(WaveRow):
    """A wave with the sums of its ranges; `lease_live` is judged by the database's clock at reading time, and `silent`
    is how long ago its lease was renewed last, None without one."""

    lease_live: bool
    ranges: int
    rows: int | None
    silent: timedelta | None = field(default=None, compare=False)

    @property
    def overdue(self) -> timedelta | None:
        """For how long the worker of an open wave has given no sign of life; None while the next is not overdue."""
        return self.silent if self.state in OPEN and self.silent and self.silent >= OVERDUE else None

    @classmethod
    def of(cls, row: WaveRow, *, now: datetime, ranges: int, rows: int | None) -> WaveRecord:
        """Return a wave as it is `now`, with the numbers of its ranges and of the rows that it has committed."""
        own = {item.name: getattr(row, item.name) for item in fields(WaveRow)}
        silent = None if row.lease_until is None else now - row.lease_until + LEASE
        return cls(**own, lease_live=lease_is_live(row.lease_until, now), ranges=ranges, rows=rows, silent=silent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on a wave until another attempt claims it; `attempts` are the earlier ones, oldest first.

    `ranges` are the PLANNED ranges of the wave at the moment of the claim, and cannot change under the same fence;
    `claimed_at` is that moment by the ledger's clock; `rate` is how many of Kafka's bytes the wave reads in a second.
    """

    key: AttemptKey
    claimed_at: datetime
    pipeline: str
    spec: PipelineSpec
    table: str
    table_uuid: str | None
    ranges: tuple[RangeRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    rate: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDecision:
    """The decision about one range that is taken away from its wave, or about one part of it, and the offsets that
    caused it.

    A part becomes a range of its own, and so does the rest beside it, which stays in the wave.
    """

    range_id: str
    state: RangeState
    reason: str
    cause: Cause | None = None
    held_for: RangeSet = NOTHING
    part: OffsetRange | None = None
    attempt_cause: AttemptCause | None = None
    """Of the attempt that ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """One move of one watermark; `sequence` grows over the whole ledger, and moves are notified in its order."""

    sequence: int
    stream: Stream
    start: int
    end: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return self.stream._asdict() | {"from": self.start, "to": self.end}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow(HasSlice):
    """One row of `<table>__receipts`; `kind` is rows, published, skip, reopen, origin or deleted.

    An `origin` records from which offset on a stream is followed: `range` begins there and is one offset long;
    `attempt` is the id of the ledger that decided it. A `deleted` records that so many rows of a committed range were
    deleted from the lake on purpose; `attempt` is the id of that decision. `offsets` are those without a row then, also
    of a `reopen`.
    `leader_epoch` is the partition's when `rows` were planned, if that is known.
    """

    pipeline: str
    wave: str
    attempt: str
    fence: int
    kind: str
    slice: Slice
    generation: int = 0
    rows: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    accounting: Accounting = field(default_factory=Accounting)
    recorded_at: datetime
    leader_epoch: int | None = None
    offsets: RangeSet | None = None

    def receipt(self, range_id: str) -> Receipt:
        """Return its numbers as the receipt of a range of the ledger."""
        return Receipt(
            range_id=range_id,
            slice=self.slice,
            rows=self.rows,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            accounting=self.accounting,
            generation=self.generation,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem:
    """A receipt that the ledger has decided and the lake does not have yet."""

    id: int
    table: str
    row: ReceiptRow


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecodedOffsets:
    """Offsets of a stream whose values did not decode, and why the first of them did not."""

    stream: Stream
    offsets: RangeSet
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedContent:
    """The staged rows of an attempt: the snapshot's id, its bytes, and per stream which offsets its files hold.

    `decoding` is the digest of the pipeline's decoding when the job began; None where values were left as they are.
    `read` has the last record that each consumer of the job has read of a slice; None where that was compared before.
    `filled` says in how many rows a column, by its path, has a value, where the statistics of all files know it.
    """

    snapshot: int
    bytes: int
    streams: tuple[StreamContent, ...]
    undecoded: tuple[UndecodedOffsets, ...] = ()
    decoding: str | None = None
    read: tuple[Tip, ...] | None = None
    filled: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWave:
    """A committed wave that brought rows, and the attempt that published them; `snapshot` is None for an adopted one
    whose commit had expired.

    `base` is the newest head without the wave that an attempt of it has recorded: rows staged long ago may be published
    by another attempt, when the head that they were staged on has expired.
    """

    wave: str
    table: str
    attempt: str
    snapshot: int | None
    base: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One snapshot of main's history; `token` is None when another program made the commit.

    `deleted` is how many rows it took away, and `engine` the name that the writer gives itself, if any.
    """

    snapshot: int
    parent: int | None
    at: datetime
    token: Token | None
    deleted: int = 0
    engine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRows(StreamContent):
    """Main's rows of one stream by one attempt; `attempt` is None for rows that name none (others wrote them).

    `duplicates` are rows of the same attempt beyond one per offset.
    """

    attempt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All that a publishing commit requires and writes; `audited` None publishes an empty commit (zero rows staged).

    With a token of the kind `DECODE`, the audited snapshot has all rows of the head, and becomes main itself.
    `replaces` are the slices that were reopened: main's rows of them go in the commit that shows the new ones.
    `claimed` is the claim that commits the rows of an earlier attempt. The table names it as its newest: a ledger that
    is older than that claim may know the earlier attempt, and no later publish of others. `line` is the newest of the
    ledger's history as the head was checked: a ledger that lacks it lacks later publishes of others, even if it knows
    this attempt. None where the ledger comes to know the token only after the commit.
    """

    head: TableHead
    audited: int | None
    token: Token
    ledger_id: str
    replaces: tuple[Slice, ...] = ()
    claimed: Token | None = None
    line: EventRef | None = None

    @property
    def owner(self) -> tuple[str, str]:
        """The owner that commits: ledger id and pipeline."""
        return (self.ledger_id, self.token.pipeline)

    @property
    def is_decoded_again(self) -> bool:
        """Whether the staged snapshot itself becomes main."""
        return self.token.kind == DECODE

    @property
    def newest(self) -> Token:
        """The newest commit of the pipeline that the table names from then on."""
        return self.claimed or self.token


# Streams as the ledger has them, with their watermark and its hold: pure functions of the committed ranges.


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """A stream's own facts, as a write reads and changes them; `version` grows with every decision about the stream."""

    pipeline: str
    key: Stream
    origin: int
    watermark: int
    version: int
    end_seen: int
    """Readable end at the newest plan: a smaller one now means that Kafka lost records."""
    leader_epoch: int | None = None
    since: datetime | None = None
    """By when everything below the origin had been written; None where that is not on record (a rebuilt ledger)."""

    @property
    def next_version(self) -> StreamRow:
        """The stream after a decision about it: a write that was decided from the version before is refused."""
        return replace(self, version=self.version + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord(StreamRow):
    """A stream with the sums of its ranges.

    `planned` holds every live range whatever its state (compacted: `[origin, watermark)` is one range), `covered` the
    committed and skipped part of it, `unacknowledged` the offsets skipped without acknowledging the order: they free
    the watermark, and no later segment.
    """

    planned: RangeSet
    covered: RangeSet
    unacknowledged: RangeSet = NOTHING


def watermark(origin: int, coverage: RangeSet) -> int:
    """Return the end of the unbroken committed run that begins at the origin (law L2)."""
    return coverage.unbroken_end(origin)


def first_held(current: int, unresolved: Iterable[OffsetRange]) -> int | None:
    """Return the smallest start, at or above the watermark, of an unresolved range; None when nothing holds."""
    return min((item.start for item in unresolved if item.start >= current), default=None)


def lag(first: int, readable_end: int, covered: RangeSet = NOTHING) -> int:
    """Return how many offsets from the first one that can be read are not covered; never negative."""
    return (RangeSet.between(first, readable_end) - covered).span


# Holds: ranges that wait for a person, why, the offsets that they wait for, and the commands that end the hold.

HELD_RANGES = 100
"""How many ranges of offsets a hold names: of more, the last ones are joined into one."""


def hold(
    range_id: str,
    reason: str,
    held_for: RangeSet = NOTHING,
    *,
    cause: Cause | None = None,
    part: OffsetRange | None = None,
) -> RangeDecision:
    """Return a hold; `held_for` are the offsets that it is due to, none where it is due to the range as a whole."""
    due_to = held_for.at_most(HELD_RANGES)
    return RangeDecision(
        range_id=range_id, state=RangeState.HELD, reason=reason, cause=cause, held_for=due_to, part=part
    )


def held_by(
    range_id: str, error: KafkaLakeError, held_for: RangeSet = NOTHING, *, part: OffsetRange | None = None
) -> RangeDecision:
    """Return the hold of a range for an error; it is due to the offsets that Kafka lost, where the error names them."""
    if isinstance(error, LostRecordsError) and error.lost:
        held_for |= RangeSet((error.lost,))
    return hold(
        range_id, error.named, held_for, cause=Cause(kind=type(error).__name__, remedies=error.remedies), part=part
    )


def ways_out(item: RangeRecord) -> tuple[Remedy, ...]:
    """Return the commands that end a hold, or another open state: those of its cause, else those of its state."""
    if item.cause and item.cause.remedies:
        return item.cause.remedies
    if part := _only_part(item):
        return remedies.release(item.id), skipping(item, part)
    return remedies_for(item.state, item.id, item.pipeline)


def explained(item: RangeRecord) -> str:
    """Return why a range is on hold or unresolved, with the commands that end that, for people."""
    ways = ways_out(item)
    if item.cause and item.cause.remedies:
        return str(item.reason)
    if part := _only_part(item):
        return f"{item.reason}. Read it again with: {ways[0]}; or pass them with: {passing(item, part)}"
    return f"{item.reason}. End it with: {', or '.join(map(str, ways))}"


def _only_part(item: RangeRecord) -> OffsetRange | None:
    """Return the range of offsets that a hold is due to, where there is just one."""
    return item.held_for.ranges[0] if item.held_for.range_count == 1 else None


def skipping(item: RangeRecord, gone: OffsetRange, *, generation: bool = False) -> Remedy:
    """Return the skip of a part of a range; of a `generation` that is gone, it frees the next one."""
    where = Slice(item.stream, gone)
    return remedies.skip(item.pipeline, where, name_topic_id=generation, acknowledge_order=generation)


def passing(item: RangeRecord, gone: OffsetRange, *, generation: bool = False) -> str:
    """Return the command that skips part of a range, and the fate of the rest, for people."""
    command = skipping(item, gone, generation=generation)
    rest = RangeSet((item.range,)) - RangeSet((gone,))
    return f"{command}; the rest, {rest}, then goes on with the next run" if rest else str(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipResult:
    """The outcome of a skip: how many offsets it passed, and the waves of ranges that were held for them and go on.

    Of a skip that was only tried, `waves` are the ones that would lose offsets; `fenced` ones were claimed, `busy` ones
    are at work, so that it is refused; `goes_on` are offsets that were held only for the skipped ones.
    """

    offsets: int
    waves: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    goes_on: RangeSet = NOTHING
