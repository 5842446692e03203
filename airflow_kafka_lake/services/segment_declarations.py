"""A person's declarations about segments: where a stream ends, and which topic continues which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import StateError, UnavailableError, UnknownTopicError, UsageError
from airflow_kafka_lake.core.ledger.records import RangeRecord, Verdict
from airflow_kafka_lake.core.ledger.revoking import Release
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import UNFINISHED, RangeState
from airflow_kafka_lake.core.ordering.layout_changes import KnownLayouts, LayoutChange, Topic, apply_layout_change
from airflow_kafka_lake.core.ordering.seals import declared, migrated
from airflow_kafka_lake.core.ordering.segments import Graph, Levels, Segment
from airflow_kafka_lake.core.planning.decision import Declare
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.claims import new_id
from airflow_kafka_lake.services.fencing import revoke
from airflow_kafka_lake.services.planning import observe_and_gather, plan_from, record


def seal(ports: Ports, spec: PipelineSpec, stream: StreamRecord, at: int) -> Segment:
    """Declare the end of a stream; it counts once a plan has found it unchanged a layout grace later.

    Refused with StateError unless the log ends exactly there, with no open transaction; a seal is never moved.
    """

    def declare(known: KnownLayouts, topics: Sequence[Topic]) -> LayoutChange:
        topic = _topic(topics, stream.key.topic)
        if topic.id != stream.key.topic_id:
            raise StateError(f"topic {stream.key.topic} of id {stream.key.topic_id} is gone: it ends where it ended")
        _refuse_unobserved(topic, [stream.key.partition])
        return LayoutChange(segments=(declared(topic, stream.key.partition, at, known),))

    decided = _record(ports, spec, Bounds(topic=stream.key.topic), declare)
    return next(item for item in decided.layout_change.segments if item.stream == stream.key and item.declared_at)


def migrate(
    ports: Ports, spec: PipelineSpec, source: str, *, target: str, seals: Mapping[int, int]
) -> tuple[Segment, ...]:
    """Declare that one topic continues another, whose partitions end at `seals`; returns the segments that wait.

    Each end counts once a plan has found it unchanged a layout grace later; until then nothing more of the target is
    published. Waves that would wait for themselves are split first. Refused with UsageError or StateError when a
    partition is missing, a log does not end at its seal, or a segment would wait for itself.
    """
    if source == target:
        raise UsageError(f"topic {source} cannot continue itself: give two topics")

    def declare(known: KnownLayouts, topics: Sequence[Topic]) -> LayoutChange:
        old, new = _topic(topics, source), _topic(topics, target)
        if missing := sorted(set(range(old.partitions)) ^ set(seals)):
            partitions = count(old.partitions, "partition")
            raise UsageError(f"the seals of {source} must name each of its {partitions} once: look at {missing}")
        _refuse_unobserved(old, range(old.partitions))
        _refuse_unobserved(new, range(new.partitions))
        return migrated(spec, old, new, seals=seals, known=known)

    decided = _record(ports, spec, Bounds(), declare)
    return tuple(item for item in decided.layout_change.segments if item.stream.topic == target)


def _record(ports: Ports, spec: PipelineSpec, bounds: Bounds, declare: Declare) -> Plan:
    """Record what was declared as a plan that reads nothing: under the same guards as every plan."""
    facts = observe_and_gather(ports, spec, bounds, plan_id=new_id())
    decided = plan_from(ports, facts, declare)
    graph = apply_layout_change(facts.graph, decided.layout_change).graph
    _split(ports, spec.name, graph, graph.levels(facts.seen.known))
    record(ports, replace(decided, waves=()), facts.seen)
    return decided


def _topic(topics: Sequence[Topic], name: str) -> Topic:
    found = next((item for item in topics if item.name == name), None)
    if found is None:
        raise UnknownTopicError(
            f"topic {name!r} is not one of the pipeline's, or could not be observed: add it to its topics", topic=name
        )
    return found


def _refuse_unobserved(topic: Topic, partitions: Iterable[int]) -> None:
    if left := sorted(set(partitions) - (topic.seen.keys() & set(topic.asked))):
        raise UnavailableError(
            f"{topic.name}: partitions {left} could not be observed, or are not in order: see what {remedies.plan()} "
            "says of them, then repeat the call",
            topic=topic.name,
        )


def _split(ports: Ports, pipeline: str, graph: Graph, levels: Levels) -> None:
    """Move ranges that would wait for their own wave into waves of their own, level by level."""
    for wave in ports.ledger.waves(pipeline, UNFINISHED):
        ranges = ports.ledger.ranges(wave=wave.id, states=(RangeState.PLANNED,))
        moved = _waiting_for_each_other(graph, ranges)
        if not moved:
            continue
        reason = "it continues what the same wave reads, and goes into a wave of its own"
        verdicts = [Verdict(range_id=item.id, state=RangeState.CANCELLED, reason=reason) for item in moved]
        revoke(ports, wave, verdicts, by_force=True)
        by_level: dict[int, list[str]] = defaultdict(list)
        for item in moved:
            by_level[levels.at(item.stream, item.range.start)].append(item.id)
        for _, ids in sorted(by_level.items()):
            ports.ledger.commit(Release(ranges=ids, wave=f"{new_id()}-w0", actor=ports.actor, reason=reason))


def _waiting_for_each_other(graph: Graph, ranges: Sequence[RangeRecord]) -> list[RangeRecord]:
    segments = {item.id: graph.at(item.stream, item.range.start) for item in ranges}
    there = {segment.key for segment in segments.values() if segment}
    return [item for item in ranges if (segment := segments[item.id]) and graph.ancestors(segment.key) & there]
