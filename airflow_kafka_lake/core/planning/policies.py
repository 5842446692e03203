"""From policies and bounds to numbers: the demand of one partition. Pure; refuses bounds that cannot be met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import NAMED, count, some
from airflow_kafka_lake.core.errors import (
    GroupOffsetError,
    KafkaLakeError,
    PendingCommitError,
    RangeBeyondEndError,
    RangeExpiredError,
    TopicDeletedError,
    UnavailableError,
    UsageError,
)
from airflow_kafka_lake.core.kafka.losses import EpochEnds, lost_end
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.plan import PlanBlock, StreamDemand, missing
from airflow_kafka_lake.core.spec import Isolation, PipelineSpec, Policy, PolicyKind
from airflow_kafka_lake.core.wire import instant, milliseconds, timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a person's demand: none (follow from the origin), or a period `[start, end)` by offset or time."""

    topic: str | None = None
    partitions: tuple[int, ...] | None = None
    start: int | datetime | None = None
    end: int | datetime | None = None
    acknowledge_order: bool = False
    """Whether offsets below the origin may be read though later segments wait for nothing below it."""

    @property
    def is_period(self) -> bool:
        """Return whether a period was asked for rather than all that is missing from the origin."""
        return self.start is not None or self.end is not None

    @property
    def is_bounded(self) -> bool:
        """Return whether something in particular was asked for, rather than all that is missing."""
        return self.is_period or self.topic is not None or self.partitions is not None


FIRST = 0
"""The time that Kafka's first record answers to."""


@dataclass(frozen=True, slots=True)
class Times:
    """Offsets by time, as Kafka answered: time in milliseconds → `(topic, partition)` → offset, None for "no record
    is that late". `firsts` are the times of first records, in milliseconds, where they were asked for."""

    answers: Mapping[int, Mapping[tuple[str, int], int | None]]
    firsts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def at(self, timestamp_ms: int, snapshot: PartitionSnapshot) -> int:
        """Return the first offset at or after a time, stable or not; no record that late means the high watermark."""
        found = self.found(timestamp_ms, snapshot)
        return snapshot.high_watermark if found is None else found

    def found(self, timestamp_ms: int, snapshot: PartitionSnapshot) -> int | None:
        """Return the first offset at or after a time; None: no record is that late. Raises UnavailableError."""
        key = snapshot.stream.place
        answers = self.answers[timestamp_ms]
        if key not in answers:
            raise UnavailableError(
                f"Kafka gave no offset by time for {key[0]} partition {key[1]}: repeat the call",
                **snapshot.stream.facts,
            )
        return answers[key]


def gone_since(start_ms: int, item: PartitionSnapshot, times: Times) -> OffsetRange | None:
    """Return where below the log start records of a time or later may have been: no record that is left is older.

    A record of the very same millisecond proves nothing: others of it may lie below. `times` must know `FIRST` too.
    """
    if item.log_start == 0 or times.found(FIRST, item) != times.found(start_ms, item):
        return None
    return OffsetRange(0, item.log_start)


def times_needed(spec: PipelineSpec, bounds: Bounds, *, new: bool) -> tuple[int, ...]:
    """Return every time whose offsets are needed, in milliseconds; `new` when a stream is to get its origin."""
    begins = {milliseconds(bounds.start)} if isinstance(bounds.start, datetime) else set()
    begins |= {spec.start.timestamp_ms} if new and spec.start.timestamp_ms is not None else set()
    ends = {milliseconds(bounds.end)} if isinstance(bounds.end, datetime) else set()
    ends |= {spec.end.timestamp_ms} if spec.end.timestamp_ms is not None else set()
    return tuple(sorted(begins | ends | ({FIRST} if begins else set())))


def generation_gap(
    pipeline: str,
    item: PartitionSnapshot,
    record: StreamRecord | None,
    *,
    older: Sequence[StreamRecord],
    graph: Graph,
    ends: EpochEnds,
) -> PlanBlock | None:
    """Stop where the log is not the one that was planned from: it lost records, or an older generation is unfinished.

    `ends` has the ends of leader epochs that are not the partitions' any more.
    """
    if record and (reason := _lost(pipeline, item, record, ends)):
        return PlanBlock.of(item.stream, reason)
    for stream in older:
        # By the committed and skipped offsets, not by the watermark: a person's skip counts before the next advance.
        committed = stream.covered.unbroken_end(stream.origin)
        end = graph.known_end(stream)
        if committed < end:
            of_which = (
                "" if stream.key.partition == item.stream.partition else f" in its partition {stream.key.partition}"
            )
            rest = Slice(stream.key, OffsetRange(committed, end))
            return PlanBlock.of(
                item.stream,
                f"the topic was re-created (id {item.stream.topic_id}); its old generation "
                f"{stream.key.topic_id} is committed only up to {committed} of {end}{of_which}, where the last plan "
                "saw its end: what came after that is unknown. Skip the rest with: "
                f"{remedies.skip(pipeline, rest, name_topic_id=True, acknowledge_order=True)}",
            )
    return None


def deleted_unread(
    pipeline: str, topic: str, streams: Iterable[StreamRecord], graph: Graph
) -> TopicDeletedError | None:
    """Return the refusal of a topic that is not there any more, where a plan had seen more of it than was read; None
    where all of that is committed or skipped."""
    for stream in streams:
        left = RangeSet.between(stream.origin, graph.known_end(stream)) - stream.covered
        if stream.key.topic == topic and left:
            first = Slice(stream.key, left.ranges[0])
            more = f", and {count(left.range_count - 1, 'more slice')} of it," if left.range_count > 1 else ""
            return TopicDeletedError(
                f"the topic was deleted, and {first}{more} was seen and not read: it is lost. Pass it with: "
                f"{remedies.skip(pipeline, first, name_topic_id=True, acknowledge_order=True)}",
                topic=topic,
                topic_id=stream.key.topic_id,
            )
    return None


def _lost(pipeline: str, item: PartitionSnapshot, record: StreamRecord, ends: EpochEnds) -> str | None:
    try:
        found = lost_end(pipeline, item, record, ends)
    except UnavailableError as unknown:
        return f"not observed: {unknown.message}"
    return found.named if found else None


def asked_of(
    spec: PipelineSpec,
    bounds: Bounds,
    item: PartitionSnapshot,
    *,
    record: StreamRecord | None,
    times: Times,
    start_snapshot: PartitionSnapshot,
    expanded: bool,
) -> StreamDemand | PlanBlock:
    """Decide `[start, end)` of one partition, or say why it gets no origin.

    `start_snapshot` carries the start policy's group offset; `expanded` says that the partition was added after the
    topic was first planned: it starts at its log start whatever the policy says, for all its records are younger than
    the pipeline. Raises a leaf of RefusedError for bounds that cannot be met.
    """
    if record is None and not expanded and (below := start_in_doubt(spec, item, times)):
        return _start_gone(spec, item, below, times.firsts.get(item.stream.place))
    origin = record.origin if record else _origin(spec, item, times, start_snapshot=start_snapshot, expanded=expanded)
    if not bounds.is_period:
        end = _policy_end(spec, item, times)
        since = "its origin" if record else f"a new stream, from {spec.start.kind.value}"
        why = f"what is missing from {since} to {spec.end.kind.value}"
        return StreamDemand(snapshot=item, origin=origin, start=origin, end=end, reason=why)
    if gone := gone_in_doubt(bounds, item, record, times):
        raise _expired(item, gone, times.firsts.get(item.stream.place), bounds)
    start = origin if bounds.start is None else _bound(bounds.start, item, times)
    end = _policy_end(spec, item, times) if bounds.end is None else _bound(bounds.end, item, times)
    if isinstance(bounds.start, int):
        _refuse_beyond_end(item, start, f"offset {start}", spec.isolation)
    if isinstance(bounds.end, int):
        _refuse_beyond_end(item, end, f"offset {end}", spec.isolation)
    elif bounds.end is not None and start < end:
        _refuse_beyond_end(item, end, f"the period reaches to offset {end}, which", spec.isolation)
    end = min(end, item.readable_end(spec.isolation))
    if isinstance(bounds.start, int) and isinstance(bounds.end, int) and start >= end:
        raise UsageError(f"from {start} is not before to {end}: a range is [from, to)")
    _refuse_expired(item, start, end, record)
    return StreamDemand(
        snapshot=item,
        origin=origin,
        start=start,
        end=end,
        reason="the period that was asked for",
        landed_below=below_log_start(bounds, item, record, times) is not None,
    )


def below_log_start(
    bounds: Bounds, item: PartitionSnapshot, record: StreamRecord | None, times: Times
) -> OffsetRange | None:
    """Return where below the log start a period by time may begin: no record that is left is older than its begin.

    Not below the origin of a stream that was followed by then: all that lies there is older.
    """
    if not isinstance(bounds.start, datetime) or gone_since(milliseconds(bounds.start), item, times) is None:
        return None
    followed = record is not None and record.since is not None and record.since <= bounds.start
    lowest = record.origin if record and followed else 0
    return OffsetRange(lowest, item.log_start) if lowest < item.log_start else None


def gone_in_doubt(bounds: Bounds, item: PartitionSnapshot, record: StreamRecord | None, times: Times) -> RangeSet:
    """Return the offsets lost by Kafka that were never planned and may lie in a period by time: their times are
    gone."""
    below = below_log_start(bounds, item, record, times)
    return missing(below, record.planned if record else RangeSet()) if below else RangeSet()


def start_in_doubt(spec: PipelineSpec, item: PartitionSnapshot, times: Times) -> OffsetRange | None:
    """Return which offsets are gone that may be of the time at which new streams start."""
    at = spec.start.timestamp_ms
    return None if at is None else gone_since(at, item, times)


def _start_gone(spec: PipelineSpec, item: PartitionSnapshot, gone: OffsetRange, first_ms: int | None) -> PlanBlock:
    first, at = _moment(first_ms), _moment(spec.start.timestamp_ms)
    return PlanBlock.of(
        item.stream,
        f"offsets {gone} are gone, and what is to be read from {at} on may begin among them: the log starts at "
        f"{item.log_start}{f', with a record of {first}' if first else ''}. To begin with what is left, write "
        'start = "earliest" into the pipeline, or a later time',
    )


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else timestamp(instant(at_ms))


def _origin(
    spec: PipelineSpec, item: PartitionSnapshot, times: Times, *, start_snapshot: PartitionSnapshot, expanded: bool
) -> int:
    if expanded:
        return item.log_start
    match spec.start.kind:
        case PolicyKind.EARLIEST:
            return item.log_start
        case PolicyKind.LATEST:
            return item.readable_end(spec.isolation)
        case PolicyKind.GROUP:
            return _group_origin(spec.start, start_snapshot)
        case PolicyKind.TIMESTAMP:
            return min(item.readable_end(spec.isolation), times.at(spec.start.timestamp_ms or 0, item))
        case PolicyKind.OFFSETS:
            return _explicit_origin(spec.start, item)


def _group_origin(policy: Policy, item: PartitionSnapshot) -> int:
    """Return where a group is; an origin that the log has not reached would pass records up to it unread."""
    offset = _group_offset(policy, item, "start")
    if offset > item.high_watermark:
        raise GroupOffsetError(
            f"group {policy.group!r} has committed offset {offset} on {item.stream.topic} partition "
            f"{item.stream.partition}, and the "
            f"log ends at {item.high_watermark}: it is the offset of another log. Let the group commit anew, or write "
            "another [source] start into the pipeline",
            group=policy.group,
            **item.stream.facts,
        )
    return offset


def _explicit_origin(policy: Policy, item: PartitionSnapshot) -> int:
    offset = _explicit(policy, item)
    if offset > item.high_watermark:
        raise RangeBeyondEndError(
            f"the offsets file starts {item.stream.topic} partition {item.stream.partition} at {offset}, and the "
            "log ends at "
            f"{item.high_watermark}: what is written up to there would be passed unread. Correct the file",
            **item.stream.facts,
            high_watermark=item.high_watermark,
        )
    return offset


def _explicit(policy: Policy, item: PartitionSnapshot) -> int:
    offset = policy.offset_for(item.stream.topic, item.stream.partition)
    if offset is None:
        raise UsageError(
            f"the offsets file names no offset for {item.stream.topic} partition {item.stream.partition}: add one",
            **item.stream.facts,
        )
    return offset


def _policy_end(spec: PipelineSpec, item: PartitionSnapshot, times: Times) -> int:
    readable = item.readable_end(spec.isolation)
    match spec.end.kind:
        case PolicyKind.LATEST | PolicyKind.EARLIEST:
            return readable
        case PolicyKind.GROUP:
            return min(readable, _group_offset(spec.end, item, "end"))
        case PolicyKind.TIMESTAMP:
            return min(readable, times.at(spec.end.timestamp_ms or 0, item))
        case PolicyKind.OFFSETS:
            return min(readable, _explicit(spec.end, item))


def _group_offset(policy: Policy, item: PartitionSnapshot, key: str) -> int:
    where = f"group {policy.group!r} on {item.stream.topic} partition {item.stream.partition}"
    facts = item.stream.facts
    match item.group_offset_state:
        case GroupOffsetState.KNOWN if item.group_offset is not None:
            return item.group_offset
        case GroupOffsetState.UNSTABLE:
            raise PendingCommitError(
                f"{where} has a commit in an open transaction: repeat when it has ended", group=policy.group, **facts
            )
        case GroupOffsetState.NONE:
            raise GroupOffsetError(
                f"{where} has no committed offset: let it commit first, or write another [source] {key}", **facts
            )
        case _:
            raise UnavailableError(f"{where} could not be read: repeat the call", **facts)


def together(failed: Sequence[KafkaLakeError], whole: Sequence[Stream]) -> KafkaLakeError:
    """Return one error for all partitions: of pending commits, which are of one group, or else of offsets that are
    gone; of the `whole` streams none are."""
    pending = [error for error in failed if isinstance(error, PendingCommitError)]
    return _all_pending(pending) if pending else _all_expired(failed, whole)


def _all_pending(pending: Sequence[PendingCommitError]) -> PendingCommitError:
    first = pending[0].facts
    partitions = [[item.facts["topic"], item.facts["partition"]] for item in pending]
    named = ", ".join(f"{topic}/{partition}" for topic, partition in partitions)
    return PendingCommitError(
        f"group {first['group']!r} has commits in open transactions on {named}, and what it had committed before is "
        "not taken for them: nothing was planned. Repeat when they have ended",
        **first,
        partitions=partitions,
    )


def _all_expired(found: Sequence[KafkaLakeError], whole: Sequence[Stream]) -> RangeExpiredError:
    first = found[0]
    others = [f"{error.facts['topic']}/{error.facts['partition']}" for error in found[1:]]
    same = f". The same in {some(others, NAMED, 'partition')}" if others else ""
    topics = {stream.topic for stream in whole} | {error.facts["topic"] for error in found}
    numbers = " ".join(str(stream.partition) for stream in whole)
    alone = f". Without offsets that are gone: --partition {numbers}" if whole and len(topics) == 1 else ""
    return RangeExpiredError(f"{first.message}{same}{alone}", **first.facts)


def _bound(bound: int | datetime, item: PartitionSnapshot, times: Times) -> int:
    return bound if isinstance(bound, int) else times.at(milliseconds(bound), item)


def _refuse_beyond_end(item: PartitionSnapshot, asked: int, what: str, isolation: Isolation) -> None:
    end = item.readable_end(isolation)
    if asked > end:
        name = "last stable offset" if isolation is Isolation.READ_COMMITTED else "high watermark"
        raise RangeBeyondEndError(
            f"{item.stream.topic} partition {item.stream.partition}: {what} is beyond the {name} {end}. Ask for "
            f"offsets up to {end}; without an end, all up to there are read",
            **item.stream.facts,
            last_stable=item.last_stable,
        )


def _refuse_expired(item: PartitionSnapshot, start: int, end: int, record: StreamRecord | None) -> None:
    gone = RangeSet.between(start, min(end, item.log_start))
    if expired := gone - record.planned if record else gone:
        raise _expired(item, expired)


def _expired(
    item: PartitionSnapshot, gone: RangeSet, first_ms: int | None = None, bounds: Bounds | None = None
) -> RangeExpiredError:
    """Return the refusal of offsets that are gone; of a period by time, `bounds`, they may be."""
    first, later = _moment(first_ms), _moment(None if first_ms is None else first_ms + 1)
    end = bounds.end if bounds else None
    is_past = isinstance(end, datetime) and first_ms is not None and milliseconds(end) <= first_ms
    return RangeExpiredError(
        f"{item.stream.topic} partition {item.stream.partition}: offsets {gone.describe()} are gone, "
        f"{'and the period may begin among them: ' if bounds else ''}the log starts at {item.log_start}"
        f"{f', with a record of {first}' if first else ''}. "
        f"{'All of the period is older: is its year the right one? ' if is_past else ''}"
        f"Ask from offset {item.log_start} on"
        f"{f', or from {later} on, without the records up to then' if later else ''}",
        **item.stream.facts,
        log_start=item.log_start,
        **({"earliest": first} if first else {}),
    )
