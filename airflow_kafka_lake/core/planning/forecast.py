"""What a plan will cost, and until when it can wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core.kafka.snapshots import Sample, TopicDescription
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.estimates import WaveCost, duration, lake_bytes
from airflow_kafka_lake.core.planning.plan import Forecast, Plan
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.wire import instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When retention takes the first record of a plan, and of which stream; None has its reason in `state`."""

    at: datetime | None
    state: str
    stream: Stream | None = None


NOT_ASKED = Deadline(at=None, state="not asked for: use --dry-run")


def forecast(plan: Plan, costs: Sequence[WaveCost], deadline: Deadline = NOT_ASKED) -> Forecast:
    """Return records, bytes, seconds and the retention deadline of a plan."""
    if not plan.waves:
        return Forecast(records=0, bytes=0, lake_bytes=0, seconds=0.0)
    by_topic: Counter[str] = Counter()
    for item in plan.ranges:
        by_topic[item.stream.topic] += item.estimated_bytes
    in_lake, known_from = lake_bytes(by_topic, costs)
    seconds = duration(costs, (sum(item.estimated_bytes for item in wave.ranges) for wave in plan.waves))
    return Forecast(
        records=sum(item.range.span for item in plan.ranges),
        bytes=by_topic.total(),
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
    firsts: dict[Stream, OffsetRange] = {}
    for item in plan.ranges:
        if item.stream.topic in limited:
            firsts[item.stream] = min(item.range, firsts.get(item.stream, item.range))
    return tuple(Slice(stream, first) for stream, first in firsts.items())


def undated(topics: Sequence[TopicDescription], firsts: Sequence[Slice]) -> Deadline | None:
    """Return the deadline where no record needs to be read for it."""
    if any(is_limited_by_size(topic) for topic in topics):
        return Deadline(at=None, state="size-based retention rules: no time can be told")
    return None if firsts else Deadline(at=None, state="retention is unlimited")


def deadline(topics: Sequence[TopicDescription], firsts: Sequence[Slice], samples: Sequence[Sample]) -> Deadline:
    """Return when the earliest of some first records goes, as far as they were read."""
    retention = {topic.topic: topic.retention_ms for topic in topics if topic.retention_ms is not None}
    return _earliest(samples, retention, complete=len(samples) == len(firsts))


def _earliest(samples: Iterable[Sample], retention: Mapping[str, int], *, complete: bool) -> Deadline:
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
    state = "observed" if complete else f"observed on {len(ends)} of the planned partitions, the largest"
    at, stream = min(dated)
    return Deadline(at=at, state=state, stream=stream)


def is_limited_by_size(topic: TopicDescription) -> bool:
    """Return whether Kafka deletes old records of a topic once it is too large: no time is known for that."""
    return topic.retention_bytes is not None and topic.retention_bytes >= 0 and "delete" in topic.cleanup_policy
