"""Seals that a person declared, by `seal` or `migrate`: checked twice a layout grace apart, never moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.layout_changes import GraceWait, KnownLayouts, LayoutChange, Overrun, Topic
from airflow_kafka_lake.core.ordering.layouts import Older, written_under
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp


def check_seals(spec: PipelineSpec, topic: Topic, known: KnownLayouts) -> LayoutChange:
    """Check what was declared: a log that runs past its seal is an error, one that still ends there a layout grace
    later is sealed for good."""
    changes = []
    for partition, seen in sorted(topic.seen.items()):
        segments = known.graph.of(topic.stream(partition))
        if segments and segments[-1].seal is not None and segments[-1].declared_at is not None:
            record = known.streams[topic.stream(partition)]
            changes.append(_check_seal(spec, topic, seen, segment=segments[-1], record=record))
    return LayoutChange.of_all(changes)


def _check_seal(
    spec: PipelineSpec, topic: Topic, seen: PartitionSnapshot, *, segment: Segment, record: StreamRecord
) -> LayoutChange:
    assert segment.seal is not None
    assert segment.declared_at is not None
    if excess := RangeSet.between(segment.seal, seen.high_watermark) - record.planned:
        reason = (
            f"the log ends at {seen.high_watermark}, past its declared seal {segment.seal}: a producer still writes to "
            f"it. Stop the producers; pass what they wrote with: "
            f"{remedies.skip(spec.name, Slice(seen.stream, OffsetRange(segment.seal, excess.ranges[-1].end)))}"
        )
        return LayoutChange(overruns=(Overrun(stream=seen.stream, reason=reason),))
    if segment.sealed:
        return LayoutChange()
    until = segment.declared_at + timedelta(seconds=spec.layout_grace)
    if topic.at >= until and seen.last_stable >= segment.seal:
        return LayoutChange(segments=(replace(segment, sealed=True),))
    waits = "an open transaction ends" if topic.at >= until else "a second look"
    reason = f"the seal {segment.seal} was declared at {timestamp(segment.declared_at)} and waits for {waits}"
    return LayoutChange(in_grace=(GraceWait(stream=seen.stream, until=until, reason=reason, is_new=False),))


def declared(topic: Topic, partition: int, at: int, known: KnownLayouts) -> Segment:
    """Return a stream's last segment with the end that a person declared, if its log ends exactly there now."""
    where = f"{topic.name}/{partition}"
    facts = {"topic": topic.name, "partition": partition}
    if not (found := known.graph.of(topic.stream(partition))):
        raise StateError(f"{where} has not committed yet, the topic got more partitions: plan when it has", **facts)
    last = found[-1]
    if last.seal is not None and last.seal != at:
        raise StateError(f"{where} is sealed at {last.seal}: a seal is never moved", **facts)
    seen = topic.seen[partition]
    if not seen.last_stable == seen.high_watermark == at:
        open_ = "" if seen.last_stable == seen.high_watermark else f" and is stable only to {seen.last_stable}"
        raise StateError(
            f"the log of {where} ends at {seen.high_watermark}{open_}, not at {at}: stop its producers, let open "
            "transactions end, and declare the end that it has then",
            **facts,
        )
    return replace(last, seal=at, declared_at=last.declared_at or topic.at)


def migrated(
    spec: PipelineSpec, source: Topic, target: Topic, *, seals: Mapping[int, int], known: KnownLayouts
) -> LayoutChange:
    """Return the change that makes one topic continue another: declared seals, and edges from old to new segments.

    `known` holds the segments that both topics have, or get by the same plan.
    """
    old = [declared(source, partition, seal, known) for partition, seal in sorted(seals.items())]
    older = Older(spec, old, known.layouts)
    new = []
    for partition in range(target.partitions):
        if not (found := known.graph.of(target.stream(partition))):
            raise StateError(
                f"{target.name}/{partition} has not committed yet, the topic got more partitions: plan when it has"
            )
        under = written_under(found[0], known.layouts)
        new.append(replace(found[0], parents=found[0].parents | older.related(partition, under)))
    return LayoutChange(segments=(*old, *new))
