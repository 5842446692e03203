"""How each stream of a pipeline is: the facts of ledger and Kafka, and the state, lag and age that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self, TypeVar

from airflow_kafka_lake.core.audit.check import by_stream
from airflow_kafka_lake.core.audit.report import OffsetStatus, TimelineSlice
from airflow_kafka_lake.core.kafka.snapshots import (
    LEFT_OUT,
    OBSERVED,
    Age,
    OpenTransaction,
    PartitionSnapshot,
    Snapshot,
    TopicDescription,
    Unread,
)
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRecord, WaveRecord, first_held, lag
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, OPEN, AttemptRecord
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet, Stream
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.planning.selection import EVERYTHING, StreamScope
from airflow_kafka_lake.core.spec import Isolation, PipelineSpec, PolicyKind

# The parts of a status: the ledger's state of a pipeline, and Kafka's of its topics.


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """The ledger's state of a pipeline. `unresolved` are its PLANNED, HELD and CANCELLED ranges, `skipped` the SKIPPED
    ones; `attempts` are there where an unfinished wave has some. `requests` are those of all pipelines: a worker that
    has a wave of another one is busy, and not missing. `tables` are all that it has ever written to, `decoding` the
    newest lines of its history about values and columns, newest first, `trouble` the one that says why no plan
    succeeds."""

    spec: PipelineSpec
    streams: Sequence[StreamRecord]
    tables: Collection[str] = ()
    unresolved: Sequence[RangeRecord] = ()
    skipped: Sequence[RangeRecord] = ()
    waves: Sequence[WaveRecord] = ()
    attempts: Sequence[AttemptRecord] = ()
    segments: Sequence[Segment] = ()
    pauses: Sequence[PauseRow] = ()
    requests: Sequence[RequestRecord] = ()
    decoding: Sequence[Event] = ()
    trouble: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaState:
    """Kafka's state of some topics, or the reason why it is unknown.

    `topics` are the existing ones, `missing` are in no broker. `ages` are those of the first unread record of
    each partition asked about; `ages_state` is "observed", or says of which partitions they are, or why there are none.
    """

    snapshot: Snapshot | str
    topics: Sequence[TopicDescription] = ()
    missing: Collection[str] = ()
    transactions: Sequence[OpenTransaction] = ()
    transactions_state: str = OBSERVED
    ages: Mapping[Unread, Age] = field(default_factory=dict)
    ages_state: str = "observed"

    @property
    def partitions(self) -> Mapping[Stream, PartitionSnapshot]:
        """The partitions that were observed."""
        return {} if isinstance(self.snapshot, str) else {item.stream: item for item in self.snapshot.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFacts:
    """One moment of a pipeline."""

    at: datetime
    recorded: LedgerState
    seen: KafkaState
    chosen: StreamScope = EVERYTHING


# One stream beside Kafka's state of it: its state, lag, age, and the fates of its offsets.

OBSERVED_STATES = "observed"


class UnknownState(str):
    """Says that something is not known, and `why`."""

    __slots__ = ("why",)
    why: str

    def __new__(cls, why: str) -> Self:
        state = super().__new__(cls, f"unknown: {why}")
        state.why = why
        return state


class GoneState(str):
    """Says that a topic is there no more, and why."""

    __slots__ = ()

    def __new__(cls, why: str) -> Self:
        return super().__new__(cls, f"gone: {why}")


_UNSEEN = "; what came after the last look is unknown"


class StreamState(StrEnum):
    """How a stream is, in one word; the worst last."""

    GONE = "gone"
    UP_TO_DATE = "up to date"
    WAITING = "waiting"
    RUNNING = "running"
    NOT_PLANNED = "not planned"
    BEHIND = "behind"
    UNKNOWN = "unknown"
    LOST = "lost"
    BLOCKED = "blocked"


STATES: Mapping[str, str] = {
    StreamState.GONE: "its topic is there no more, and all that was planned of it was read",
    StreamState.UP_TO_DATE: "all that is stable has landed, and the watermark has passed it",
    StreamState.NOT_PLANNED: "no plan has taken it up yet",
    StreamState.BEHIND: "Kafka has offsets that have not landed, or a watermark waits",
    StreamState.UNKNOWN: "Kafka did not answer for it",
    StreamState.BLOCKED: "waits for a person",
}
"""The meanings of those that are no states of offsets too."""

WORST_FIRST = tuple(reversed(StreamState))
QUIET = frozenset({StreamState.UP_TO_DATE, StreamState.GONE})
"""States that need no look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """A partition beside Kafka's bounds of it; `bounds` and their consequences are None where Kafka did not answer."""

    bounds: PartitionSnapshot | None
    bounds_state: str
    isolation: Isolation
    age: Age | None = None
    deadline: datetime | None = None
    """When retention may delete the first unread record, at the earliest."""

    @property
    def readable_end(self) -> int | None:
        """The end of the readable offsets."""
        return self.bounds.readable_end(self.isolation) if self.bounds else None

    @property
    def waits(self) -> bool:
        """Whether an open transaction is before the end of the log."""
        return self.bounds is not None and self.bounds.readable_end(self.isolation) < self.bounds.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus(ObservedPartition):
    """One stream at one moment.

    `held`, `running` and `planned` are the disjoint parts of the planned and not landed offsets: on hold, in a wave
    that an attempt works on, and all else.
    """

    record: StreamRecord
    ranges: Sequence[RangeRecord]
    held: RangeSet
    running: RangeSet
    planned: RangeSet
    skipped: RangeSet
    is_read: bool = True
    """Whether the pipeline reads its topic still."""

    @property
    def key(self) -> Stream:
        """Which stream."""
        return self.record.key

    @property
    def lag(self) -> int | None:
        """How many offsets can be read and are neither in the lake nor skipped."""
        if self.bounds is None or self.readable_end is None:
            return None
        return lag(max(self.record.watermark, self.bounds.log_start), self.readable_end, self.record.covered)

    @property
    def is_passable(self) -> bool:
        """Whether the next advance moves its watermark over offsets that have landed."""
        return self.record.covered.unbroken_end(self.record.watermark) > self.record.watermark

    @property
    def hold(self) -> int | None:
        """The first offset that the watermark waits for."""
        return first_held(self.record.watermark, (item.range for item in self.ranges))

    @property
    def planned_until(self) -> int:
        """The end of the offsets that were ever planned."""
        planned = self.record.planned
        return max(self.record.origin, planned.last + 1) if planned else self.record.origin

    @property
    def lost(self) -> RangeSet:
        """Offsets to read that Kafka no longer has, and that no attempt may have read; of a topic that is gone, those
        that a plan had seen."""
        if self.is_gone and not self.is_read:
            return NOTHING
        if self.is_gone:
            end = max(self.planned_until, self.record.end_seen)
        elif self.bounds is None:
            return NOTHING
        else:
            end = self.bounds.log_start
        return RangeSet.between(self.record.watermark, end) - self.record.covered - self.running

    @property
    def is_gone(self) -> bool:
        """Whether its topic was deleted, or created anew."""
        return isinstance(self.bounds_state, GoneState)

    @property
    def first_unread(self) -> int | None:
        """The first offset that can be read and has not landed; None where there is none, or Kafka did not say."""
        return first_unread(self.record, self.bounds, self.isolation)

    @property
    def state(self) -> StreamState:
        """How the stream is: the worst that is true of it."""
        if self.held:
            return StreamState.BLOCKED
        if self.lost:
            return StreamState.LOST
        if self.bounds is None:
            return StreamState.GONE if self.is_gone and not self.ranges else StreamState.UNKNOWN
        if self.running:
            return StreamState.RUNNING
        if self.lag or self.planned or self.is_passable:
            return StreamState.BEHIND
        return StreamState.WAITING if self.waits else StreamState.UP_TO_DATE

    @property
    def behind_seconds(self) -> int | None:
        """The age of the first unread record; 0 where nothing is unread, None where that is not known."""
        if self.age:
            return self.age.seconds
        return 0 if self.bounds is not None and self.first_unread is None else None

    def timeline(self) -> Iterator[TimelineSlice]:
        """Give the fate of each offset, in order: from the first that was ever planned to the end of the log."""
        return (
            TimelineSlice(range=item, status=status)
            for item, status in sorted(
                ((item, status) for status, offsets in self._statuses() for item in offsets), key=lambda one: one[0]
            )
        )

    def _statuses(self) -> Iterator[tuple[OffsetStatus, RangeSet]]:
        record = self.record
        yield OffsetStatus.COMMITTED, record.covered - self.skipped
        yield OffsetStatus.SKIPPED, self.skipped
        yield OffsetStatus.RUNNING, self.running
        lost = self.lost
        yield OffsetStatus.LOST, lost
        yield OffsetStatus.HELD, self.held - lost
        yield OffsetStatus.PLANNED, self.planned - lost
        if self.bounds is None:
            return
        end = self.bounds.readable_end(self.isolation)
        yield OffsetStatus.UNREAD, self._unplanned(record.origin, end) - lost
        yield OffsetStatus.WAITING, self._unplanned(max(record.origin, end), self.bounds.high_watermark) - lost

    def _unplanned(self, start: int, end: int) -> RangeSet:
        """Return the offsets of a slice that were never planned."""
        planned = self.record.planned
        first = planned.unbroken_end(start)
        if first >= end:
            return NOTHING
        beyond = RangeSet.between(first, end)
        return beyond - planned if planned and planned.last >= first else beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition(ObservedPartition):
    """A partition that no plan has seen; `start` is where the next one will begin to read it, None where only the plan
    can tell. Of a topic that Kafka does not show there is one, without bounds and topic id."""

    key: Stream
    start: int | None = None

    @property
    def lag(self) -> int | None:
        """How many offsets the next plan will find."""
        return None if self.start is None or self.readable_end is None else lag(self.start, self.readable_end)

    @property
    def state(self) -> StreamState:
        """How it is: nothing of it is in the lake."""
        if self.bounds is None:
            return StreamState.UNKNOWN
        return StreamState.WAITING if self.waits and self.lag == 0 else StreamState.NOT_PLANNED

    @property
    def first_unread(self) -> int | None:
        """The first offset that the next plan will find, if there is one."""
        return self.start if self.lag else None

    @property
    def behind_seconds(self) -> int | None:
        """The age of the first record that the next plan will find, as that of a stream."""
        return self.age.seconds if self.age else 0 if self.lag == 0 else None


Aged = TypeVar("Aged", StreamStatus, NewPartition)


def new_partitions(own: LedgerState, seen: KafkaState) -> list[NewPartition]:
    """Return the partitions of a pipeline's topics that no plan has seen, the unknown ones too.

    One that was added to a topic is read from its log start, as one of a new topic is under the policy `earliest`.
    """
    if isinstance(seen.snapshot, str):
        return []
    known, topics = {item.key for item in own.streams}, {item.key.topic for item in own.streams}
    pairs = {key.place for key in known}
    reasons = {
        Stream(item.topic, item.topic_id or "", item.partition): item.reason
        for item in seen.snapshot.unknown
        if (item.topic, item.partition) not in pairs
    }
    reasons |= {Stream(name, "", 0): why for name, why in seen.snapshot.silent.items() if name not in topics}
    reasons |= {Stream(name, "", 0): "Kafka has no such topic" for name in seen.missing if name in own.spec.topics}
    found = [
        *(_new(own.spec, item, topics) for item in seen.snapshot.partitions if item.stream not in known),
        *(
            NewPartition(key=key, bounds=None, bounds_state=UnknownState(why), isolation=own.spec.isolation)
            for key, why in reasons.items()
        ),
    ]
    return [item for item in found if own.spec.reads(item.key.topic)]


def _new(spec: PipelineSpec, item: PartitionSnapshot, known: Collection[str]) -> NewPartition:
    kind = spec.start.kind
    start: int | None = item.log_start
    if item.stream.topic not in known and kind is not PolicyKind.EARLIEST and item.readable(spec.isolation):
        start = item.readable_end(spec.isolation) if kind is PolicyKind.LATEST else None
    state = UnknownState("where it is read from is for the next plan to find out") if start is None else OBSERVED_STATES
    return NewPartition(key=item.stream, bounds=item, bounds_state=state, isolation=spec.isolation, start=start)


def stream_statuses(facts: PipelineFacts) -> list[StreamStatus]:
    """Return the chosen streams of a pipeline as they are, in the order of the ledger."""
    own, seen = facts.recorded, facts.seen
    streams = [item for item in own.streams if item.key in facts.chosen]
    ranges, skipped = by_stream(own.unresolved), by_stream(own.skipped)
    open_ = {wave.id for wave in own.waves if wave.state in OPEN and wave.lease_live}
    bounds, states = seen.partitions, bounds_states(streams, seen.snapshot)
    read = {topic for topic in {stream.key.topic for stream in streams} if own.spec.reads(topic)}
    found = (
        StreamStatus(
            record=stream,
            ranges=ranges[stream.key],
            bounds=bounds.get(stream.key),
            bounds_state=states[stream.key],
            isolation=own.spec.isolation,
            held=RangeSet(item.range for item in ranges[stream.key] if item.state in ON_HOLD),
            running=RangeSet(i.range for i in ranges[stream.key] if i.state not in ON_HOLD and i.wave in open_),
            planned=RangeSet(i.range for i in ranges[stream.key] if i.state not in ON_HOLD and i.wave not in open_),
            skipped=RangeSet(item.range for item in skipped[stream.key]),
            is_read=stream.key.topic in read,
        )
        for stream in streams
    )
    return _aged(found, facts)


def first_unread(record: StreamRecord, bounds: PartitionSnapshot | None, isolation: Isolation) -> int | None:
    """Return the first offset of a stream that can be read and has not landed; None where there is none."""
    if bounds is None:
        return None
    first = record.covered.unbroken_end(max(record.watermark, bounds.log_start))
    return first if first < bounds.readable_end(isolation) else None


def bounds_states(streams: Iterable[StreamRecord], observed: Snapshot | str) -> dict[Stream, str]:
    """Return of each stream whether its bounds were observed, and if not, why."""
    if isinstance(observed, str):
        return {stream.key: UnknownState(observed) for stream in streams}
    seen = {item.stream for item in observed.partitions}
    topics = {item.topic: item.topic_id for item in observed.unknown}
    topics |= {item.stream.topic: item.stream.topic_id for item in observed.partitions}
    unknown = {(item.topic, item.partition): item.reason for item in observed.unknown}
    states: dict[Stream, str] = {}
    for stream in streams:
        if stream.key in seen:
            states[stream.key] = OBSERVED_STATES
        elif (reason := unknown.get(stream.key.place)) is not None:
            states[stream.key] = UnknownState(reason)
        elif (silent := observed.silent.get(stream.key.topic)) is not None:
            states[stream.key] = UnknownState(silent)
        elif stream.key.topic not in topics:
            states[stream.key] = GoneState(f"the topic was deleted{_UNSEEN}")
        elif topics[stream.key.topic] not in {stream.key.topic_id, None}:
            states[stream.key] = GoneState(f"the topic was created anew{_UNSEEN}")
        else:
            states[stream.key] = UnknownState(LEFT_OUT)
    return states


def new_partition_statuses(facts: PipelineFacts) -> list[NewPartition]:
    """Return the chosen partitions that no plan has seen, with the age of their records."""
    return _aged((item for item in new_partitions(facts.recorded, facts.seen) if item.key in facts.chosen), facts)


def _aged(partitions: Iterable[Aged], facts: PipelineFacts) -> list[Aged]:
    retention = {item.topic: item for item in facts.seen.topics}
    return [
        replace(
            item,
            age=(age := facts.seen.ages.get((item.key.place, -1 if (at := item.first_unread) is None else at))),
            deadline=_deadline(facts.at, age, retention.get(item.key.topic)),
        )
        for item in partitions
    ]


def _deadline(now: datetime, age: Age | None, topic: TopicDescription | None) -> datetime | None:
    """Return when time-based retention may delete the first unread record, if it is as old as it may be."""
    if age is None or topic is None or topic.retention_ms is None or "delete" not in topic.cleanup_policy:
        return None
    oldest = age.seconds if age.below is None else age.below
    try:
        return now + timedelta(milliseconds=topic.retention_ms) - timedelta(seconds=oldest)
    except OverflowError:
        return None
