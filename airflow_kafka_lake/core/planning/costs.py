"""The costs of a plan: bytes, rows and time, from a sample of Kafka and from earlier waves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.kafka.snapshots import Sample, TopicDescription
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream, dealt, grouped, merged, summed
from airflow_kafka_lake.core.planning.plan import UNMEASURED_BYTES_PER_OFFSET, Forecast, Plan, StreamDemand, Weights
from airflow_kafka_lake.core.wire import instant

# The weight and duration of the next waves, from a sample of Kafka and from the costs of the last waves.
#
# Two weights, never mixed: Kafka's bytes are those of keys, values and headers, uncompressed; the lake's are those
# of the files that a job writes of them.

SAMPLED_SLICES = 16

LEAST_BYTES_PER_OFFSET = 16.0
"""The size of Kafka's framing of a record, about: a tombstone, a marker or an aborted record is work too."""

JOB_START_SECONDS = 12.0
BYTES_PER_SECOND = 20e6
"""The speed of a wave before one has committed: cautious figures for two cores, in Kafka's bytes."""

_START_DOUBT_SECONDS = 12.0
_SLOPE_DOUBT = 1 / BYTES_PER_SECOND
_JITTER_SECONDS, _JITTER_SHARE = 5.0, 0.1
"""By how much two runs of the same wave differ: so many seconds, and such a share of its duration."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TopicCost:
    """A committed wave's part of one topic; `kafka_bytes` as its plan estimated them."""

    topic: str
    offsets: int
    kafka_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveCost:
    """The costs of one committed wave: the seconds of its attempt, the bytes of the files it wrote (None: adopted
    without them), and its part of each topic, sorted."""

    seconds: float
    lake_bytes: int | None
    topics: tuple[TopicCost, ...]

    @property
    def kafka_bytes(self) -> int:
        """The estimated weight of the wave in Kafka."""
        return sum(item.kafka_bytes for item in self.topics)


def to_read(asked: Iterable[StreamDemand], known: Mapping[Stream, StreamRecord]) -> Iterator[Slice]:
    """Give the slices of some streams that may be read: nothing that the log or the watermark has passed."""
    for item in asked:
        record = known.get(item.snapshot.stream)
        start = max(item.start, item.snapshot.log_start, record.watermark if record else 0)
        if start < item.end:
            yield Slice(item.snapshot.stream, OffsetRange(start, item.end))


def heaviest(slices: Sequence[Slice]) -> list[Slice]:
    """Choose the longest slice of every topic, then the second longest, so that no topic hides another."""
    longest = sorted((-item.range.span, item) for item in slices)
    rounds = dealt((one[1].stream.topic, one) for one in longest)
    return [item for some in rounds for _, item in sorted(some)][:SAMPLED_SLICES]


def spread(slices: Sequence[Slice]) -> list[Slice]:
    """Return where the records of some slices are read to weigh them: at the start and, where the slices are few, at
    one and two thirds too, as the records of a topic grow and shrink with the years."""
    places = max(1, min(3, SAMPLED_SLICES // max(1, len(slices))))
    starts = ((item, item.range.start + item.range.span * k // places) for item in slices for k in range(places))
    return [item.part(OffsetRange(start, item.range.end)) for item, start in starts]


def weights(topics: Collection[str], samples: Iterable[Sample], costs: Iterable[WaveCost]) -> Weights:
    """Return Kafka's bytes per offset for the topics: from samples, else as the topic weighed in earlier plans."""
    read = grouped((sample.stream, max(LEAST_BYTES_PER_OFFSET, sample.bytes_per_offset)) for sample in samples)
    by_stream = {stream: sum(found) / len(found) for stream, found in read.items()}
    of_topic = grouped((stream.topic, weight) for stream, weight in by_stream.items())
    sampled = {topic: sum(found) / len(found) for topic, found in of_topic.items()}
    planned = [item for cost in costs for item in cost.topics if item.kafka_bytes]
    offsets = summed((item.topic, item.offsets) for item in planned)
    sizes = summed((item.topic, item.kafka_bytes) for item in planned)
    earlier = {topic: max(LEAST_BYTES_PER_OFFSET, size / offsets[topic]) for topic, size in sizes.items()}
    by_topic = earlier | sampled
    new = set(topics) - sampled.keys()
    parts = ["from a sample of reads"] if set(topics) & sampled.keys() else []
    parts += [f"of {count(len(known), 'topic')} from earlier plans"] if (known := new & earlier.keys()) else []
    parts += [f"of {count(len(new - known), 'topic')} assumed: no record could be read"] if new - known else []
    return Weights(
        by_stream=by_stream,
        by_topic=by_topic,
        fallback=sum(by_topic.values()) / len(by_topic) if by_topic else UNMEASURED_BYTES_PER_OFFSET,
        source=", ".join(parts),
    )


def lake_bytes(kafka_bytes: Mapping[str, int], costs: Iterable[WaveCost]) -> tuple[int | None, str]:
    """Return the bytes in the lake of each topic's Kafka bytes, and the source of the estimate.

    Topics that share a wave share its files too, each by its weight. Waves that wrote nothing do not count.
    """
    written: dict[str, float] = defaultdict(float)
    read: dict[str, int] = defaultdict(int)
    for cost in costs:
        weight = cost.kafka_bytes
        for item in cost.topics if cost.lake_bytes and weight else ():
            written[item.topic] += (cost.lake_bytes or 0) * item.kafka_bytes / weight
            read[item.topic] += item.kafka_bytes
    whole = sum(read.values())
    if not whole:
        return None, "not known before a wave with rows has committed"
    others = sum(written.values()) / whole
    shares = {topic: written[topic] / size for topic, size in read.items() if size}
    unlike = len(kafka_bytes.keys() - shares.keys())
    total = sum(size * shares.get(topic, others) for topic, size in kafka_bytes.items())
    return round(total), "from the last waves" + (
        f", {count(unlike, 'topic')} taken to be like the others" if unlike else ""
    )


def duration(costs: Iterable[WaveCost], waves: Iterable[int]) -> float:
    """Return the seconds that waves of so many Kafka bytes each take, one after the other: a start and a slope.

    Least squares over the committed waves, begun from the cautious figures: these hold as long as the waves say little,
    so that the jitter of small ones is not taken for the price of a byte.
    """
    start, slope = _line([(cost.kafka_bytes, cost.seconds) for cost in costs])
    return sum(start + slope * size for size in waves)


def _line(measured: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Solve the two normal equations; neither part below zero."""
    prior = (JOB_START_SECONDS, 1 / BYTES_PER_SECOND)
    ones, sizes, squares = _START_DOUBT_SECONDS**-2, 0.0, _SLOPE_DOUBT**-2
    right = [prior[0] * ones, prior[1] * squares]
    for size, seconds in measured:
        trust = (_JITTER_SECONDS + _JITTER_SHARE * seconds) ** -2
        ones, sizes, squares = ones + trust, sizes + trust * size, squares + trust * size * size
        right = [right[0] + trust * seconds, right[1] + trust * size * seconds]
    determinant = ones * squares - sizes * sizes
    start = (right[0] * squares - right[1] * sizes) / determinant
    slope = (right[1] * ones - right[0] * sizes) / determinant
    if start < 0:
        return 0.0, right[1] / squares
    return (right[0] / ones, 0.0) if slope < 0 else (start, slope)


# The costs of a plan, and until when it can wait.


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When retention takes the first record of a plan, and of which stream; None has its reason in `state`."""

    at: datetime | None
    state: str
    stream: Stream | None = None


NOT_ASKED = Deadline(at=None, state="not asked for: a dry run asks")


def forecast(plan: Plan, costs: Sequence[WaveCost], deadline: Deadline = NOT_ASKED) -> Forecast:
    """Return records, bytes, seconds and the retention deadline of a plan."""
    if not plan.waves:
        return Forecast(records=0, bytes=0, lake_bytes=0, seconds=0.0)
    by_topic = summed((item.stream.topic, item.estimated_bytes) for item in plan.ranges)
    in_lake, known_from = lake_bytes(by_topic, costs)
    seconds = duration(costs, (sum(item.estimated_bytes for item in wave.ranges) for wave in plan.waves))
    return Forecast(
        records=sum(item.range.span for item in plan.ranges),
        bytes=sum(by_topic.values()),
        bytes_state=plan.weighed,
        lake_bytes=in_lake,
        lake_bytes_state=known_from,
        seconds=round(seconds, 1),
        retention_deadline=deadline.at,
        retention_deadline_state=deadline.state,
        retention_stream=deadline.stream,
    )


def first_records(plan: Plan, topics: Sequence[TopicDescription]) -> tuple[Slice, ...]:
    """Return where the first record of each stream is planned that retention by time may take."""
    limited = {topic.topic for topic in topics if topic.retention_ms is not None}
    firsts = merged(min, ((item.stream, item.range) for item in plan.ranges if item.stream.topic in limited))
    return tuple(Slice(stream, first) for stream, first in firsts.items())


def undated(topics: Sequence[TopicDescription], firsts: Sequence[Slice]) -> Deadline | None:
    """Return the deadline where no record needs to be read for it."""
    if any(is_limited_by_size(topic) for topic in topics):
        return Deadline(at=None, state="size-based retention rules: no time can be told")
    return None if firsts else Deadline(at=None, state="retention is unlimited")


def deadline(topics: Sequence[TopicDescription], firsts: Sequence[Slice], samples: Sequence[Sample]) -> Deadline:
    """Return when the earliest of some first records goes, as far as they were read."""
    retention = {topic.topic: topic.retention_ms for topic in topics if topic.retention_ms is not None}
    ends = [
        (sample.first_timestamp_ms + retention[sample.stream.topic], sample.stream)
        for sample in samples
        if sample.first_timestamp_ms is not None
    ]
    if not ends:
        return Deadline(at=None, state="no first record could be read in time")
    dated = [(at, stream) for end, stream in ends if (at := instant(end)) is not None]
    if not dated:
        return Deadline(at=None, state="no date: it lies outside of the years 1 to 9999")
    complete = len(samples) == len(firsts)
    state = "observed" if complete else f"observed on {len(ends)} of the planned partitions, the largest"
    at, stream = min(dated)
    return Deadline(at=at, state=state, stream=stream)


def is_limited_by_size(topic: TopicDescription) -> bool:
    """Return whether Kafka deletes old records of a topic once it is too large: no time is known for that."""
    return topic.retention_bytes is not None and topic.retention_bytes >= 0 and "delete" in topic.cleanup_policy
