"""What a plan will cost, and until when it can wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from airflow_kafka_lake.core.kafka.snapshots import Sample, TopicDescription
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.estimates import duration, lake_bytes, weights
from airflow_kafka_lake.core.planning.packing import Weights
from airflow_kafka_lake.core.planning.plan import Asked, Forecast, Plan
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import instant
from airflow_kafka_lake.ports import Ports

SAMPLED_STRETCHES = 16


def weigh(ports: Ports, spec: PipelineSpec, asked: Iterable[Asked], known: Mapping[Stream, StreamRecord]) -> Weights:
    """Estimate Kafka's bytes per offset: from a small sample of reads, else as the topic's last waves were planned."""
    stretches = []
    for item in asked:
        record = known.get(item.snapshot.stream)
        start = max(item.start, item.snapshot.log_start, record.watermark if record else 0)
        if start < item.end:
            stretches.append(Slice(item.snapshot.stream, OffsetRange(start, item.end)))
    samples = ports.source.sample(_heaviest(stretches), spec.isolation) if stretches else ()
    return weights({item.stream.topic for item in stretches}, samples, ports.ledger.pace(spec.name))


def forecast(ports: Ports, plan: Plan, *, exact: bool) -> Forecast:
    """Return records, bytes, seconds and the retention deadline of a plan.

    `exact` reads the first record of the planned stretches for the deadline; without it the deadline is left open
    and its state says so.
    """
    if not plan.waves:
        return Forecast(records=0, bytes=0, lake_bytes=0, seconds=0.0)
    costs = ports.ledger.pace(plan.spec.name)
    by_topic: Counter[str] = Counter()
    for item in plan.ranges:
        by_topic[item.stream.topic] += item.estimated_bytes
    in_lake, known_from = lake_bytes(by_topic, costs)
    seconds = duration(costs, (sum(item.estimated_bytes for item in wave.ranges) for wave in plan.waves))
    deadline, state, stream = _deadline(ports, plan) if exact else (None, "not asked for: use --dry-run", None)
    return Forecast(
        records=sum(item.range.span for item in plan.ranges),
        bytes=by_topic.total(),
        bytes_state=plan.weighed,
        lake_bytes=in_lake,
        lake_bytes_state=known_from,
        seconds=round(seconds, 1),
        retention_deadline=deadline,
        retention_deadline_state=state,
        retention_stream=stream,
    )


def _heaviest(stretches: Sequence[Slice]) -> list[Slice]:
    """Choose the longest stretch of every topic, then the second longest, so that no topic hides another."""
    taken: Counter[str] = Counter()
    ranked = []
    for item in sorted(stretches, key=lambda item: -item.range.span):
        ranked.append((taken[item.stream.topic], -item.range.span, item))
        taken[item.stream.topic] += 1
    return [item for _, _, item in sorted(ranked)[:SAMPLED_STRETCHES]]


def _deadline(ports: Ports, plan: Plan) -> tuple[datetime | None, str, Stream | None]:
    topics = ports.source.describe(sorted({item.stream.topic for item in plan.ranges}))
    if any(_size_rules(topic) for topic in topics):
        return None, "size-based retention rules: no time can be told", None
    retention = {topic.topic: topic.retention_ms for topic in topics if topic.retention_ms is not None}
    firsts: dict[Stream, OffsetRange] = {}
    for item in plan.ranges:
        if item.stream.topic in retention:
            firsts[item.stream] = min(item.range, firsts.get(item.stream, item.range))
    if not firsts:
        return None, "retention is unlimited", None
    stretches = [Slice(stream, first) for stream, first in firsts.items()]
    samples = ports.source.sample(_heaviest(stretches), plan.spec.isolation)
    return _earliest(samples, retention, complete=len(samples) == len(stretches))


def _earliest(
    samples: Iterable[Sample], retention: Mapping[str, int], *, complete: bool
) -> tuple[datetime | None, str, Stream | None]:
    ends = [
        (sample.first_timestamp_ms + retention[sample.stream.topic], sample.stream)
        for sample in samples
        if sample.first_timestamp_ms is not None
    ]
    if not ends:
        return None, "no first record could be read in time", None
    dated = [(at, stream) for end, stream in ends if (at := instant(end)) is not None]
    if not dated:
        return None, "no date: it lies outside of the years 1 to 9999", None
    state = "observed" if complete else f"observed on {len(ends)} of the planned partitions, the largest"
    at, stream = min(dated)
    return at, state, stream


def _size_rules(topic: TopicDescription) -> bool:
    return topic.retention_bytes is not None and topic.retention_bytes >= 0 and "delete" in topic.cleanup_policy
