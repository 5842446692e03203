"""Plan: observe, decide, record. A dry run is the same without the last step (law L16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_kafka_lake.core.errors import (
    GroupOffsetError,
    PendingCommitError,
    UsageError,
)
from airflow_kafka_lake.core.kafka.epochs import EpochEnds, epochs_in_doubt
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ordering.growth import Grown, Growth, Known, Layout, Topic, grown
from airflow_kafka_lake.core.ordering.layouts import develop, topics_seen
from airflow_kafka_lake.core.ordering.sealing import check_seals
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.packing import build_plan
from airflow_kafka_lake.core.planning.plan import Asked, Blocked, Plan
from airflow_kafka_lake.core.planning.policies import Bounds, asked_of, generation_gap, together
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec, PolicyKind
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.claiming import host_clock
from airflow_kafka_lake.services.forecasting import forecast, weigh
from airflow_kafka_lake.services.identity import take_possession
from airflow_kafka_lake.services.observing import Observed, look_at_tables, observe
from airflow_kafka_lake.services.periods import period_of, times_of
from airflow_kafka_lake.services.settlement import flush
from airflow_kafka_lake.services.stability import hanging, holders, once_stable


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and whether it was recorded (not for a dry run, and not when it changes nothing)."""

    plan: Plan
    recorded: bool


def plan(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    *,
    plan_id: str,
    dry_run: bool = False,
    patience: timedelta = timedelta(0),
) -> Planned:
    """Decide what is read next and record it; group offsets that are not stable are waited for with `patience`.

    Raises PendingCommitError when they stay so, RefusedError leaves for bounds that cannot be met (nothing is changed),
    ConcurrentError when another planner was first, UnavailableError when Kafka, ledger or catalog is out of reach.
    """
    check_bounds(bounds)

    def observe_and_decide() -> tuple[Observed, Plan]:
        seen = look_at_tables(ports, spec, observe(ports, spec, bounds))
        return seen, decide(ports, spec, bounds, seen, plan_id)

    seen, decided = once_stable(ports, observe_and_decide, patience)
    holding = holders(ports, decided.waiting_for_stable)
    decided = replace(
        decided,
        forecast=forecast(ports, decided, exact=dry_run),
        transactions=holding,
        hanging=hanging(decided, holding, bounds),
    )
    if not dry_run and decided.changes_nothing and seen.known:
        ports.ledger.save_pipeline(spec)  # what was planned before is decoded as the file says now
    if dry_run or decided.changes_nothing:
        return Planned(plan=decided, recorded=False)
    record(ports, decided, seen)
    return Planned(plan=decided, recorded=True)


def record(ports: Ports, decided: Plan, seen: Observed) -> None:
    """Record a plan, after its tables are there and ours."""
    spec = decided.spec
    ports.ledger.save_pipeline(spec)
    for table, topic_ids in seen.tables(spec).items():
        take_possession(ports, spec.name, table, spec.partition_by, topic_ids)
    ports.ledger.record_plan(decided, ports.actor, host_clock(ports))
    if any(stream.version is None for stream in decided.streams):
        flush(ports, spec.name)  # their origins, before the first of their rows is there


def check_bounds(bounds: Bounds) -> None:
    """Refuse bounds that no partition could meet, before anything is asked of anybody."""
    if bounds.partitions is not None and not bounds.partitions:
        raise UsageError("no partition was named: give at least one, or leave partitions out for all of them")
    start, end = bounds.start, bounds.end
    if isinstance(start, int) and isinstance(end, int) and start >= end:
        raise UsageError(f"from {start} is not before to {end}: a range is [from, to)")
    if isinstance(start, datetime) and isinstance(end, datetime) and start >= end:
        raise UsageError(f"from {start.isoformat()} is not before to {end.isoformat()}: a period is [from, to)")


Declare = Callable[[Known, Sequence[Topic]], Growth]


def _declare_nothing(_known: Known, _topics: Sequence[Topic]) -> Growth:
    return Growth()


def decide(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    seen: Observed,
    plan_id: str,
    declare: Declare = _declare_nothing,
) -> Plan:
    """Decide ranges, waves and segments; `declare` adds what a person says about the segments that there are then."""
    snapshot, selected, known = seen.snapshot, seen.selected, seen.known
    times = times_of(ports, spec, bounds, selected, known)
    origins = _start_offsets(ports, spec, selected, known)
    ends = _epoch_ends(ports, selected, known)
    recorded = Known(
        streams=known, graph=Graph(ports.ledger.segments(spec.name)), layouts=ports.ledger.layouts(spec.name)
    )
    sizes = _sizes(snapshot)
    asked: list[Asked] = []
    blocked = list(seen.blocked)
    refused: list[GroupOffsetError] = []
    pending: list[PendingCommitError] = []
    for item in selected:
        older = [stream for key, stream in known.items() if _is_older_generation(key, item, sizes[item.stream.topic])]
        expanded = _is_expanded(spec, item, known, recorded.layouts)
        try:
            answer = generation_gap(spec.name, item, known.get(item.stream), older, recorded.graph, ends) or asked_of(
                spec, bounds, item, known.get(item.stream), times, origins.get(item.stream, item), expanded
            )
        except PendingCommitError as error:
            pending.append(error)
        except GroupOffsetError as error:
            refused.append(error)
            blocked.append(Blocked(topic=item.stream.topic, partition=item.stream.partition, reason=error.message))
        else:
            (blocked if isinstance(answer, Blocked) else asked).append(answer)  # type: ignore[arg-type]
    if pending:
        raise together(pending)
    if refused and not asked:
        raise refused[0]
    wanted = {item.snapshot.stream: item for item in asked}
    unknown = [item for item in snapshot.unknown if bounds.partitions is None or item.partition in bounds.partitions]
    everything = not blocked and not unknown
    period = period_of(ports, spec, bounds, asked, known, times, everything=everything)
    segments = _grown(spec, snapshot, recorded, asked, declare)
    waiting = segments.growth.waiting
    asked = [item for item in asked if (item.snapshot.stream.topic, item.snapshot.stream.partition) not in waiting]
    blocked += [Blocked(topic=i.topic, partition=i.partition, reason=i.reason) for i in segments.growth.overruns]
    weights = weigh(ports, spec, wanted.values(), known)
    at, agreed = snapshot.observed_at, bounds.acknowledge_order
    made = build_plan(plan_id, spec, at, asked, known, weights, blocked, unknown, segments, agreed)
    return replace(made, period=period)


def _grown(
    spec: PipelineSpec,
    snapshot: Snapshot,
    known: Known,
    asked: Sequence[Asked],
    declare: Declare,
) -> Grown:
    """Decide what becomes of the segments of every topic that was observed."""
    topics = topics_seen(snapshot, {item.snapshot.stream for item in asked})
    growth = Growth()
    for topic in topics:
        growth |= check_seals(spec, topic, known) | develop(spec, topic, known)
    then = replace(known, graph=grown(known.graph, growth).graph)
    return grown(known.graph, growth | declare(then, topics))


def _epoch_ends(ports: Ports, selected: Sequence[PartitionSnapshot], known: Mapping[Stream, StreamRecord]) -> EpochEnds:
    """Ask where the leader epochs ended under which streams were planned before; nobody is asked while none changed."""
    doubts = epochs_in_doubt((item, known[item.stream].leader_epoch) for item in selected if item.stream in known)
    return ports.source.epoch_ends(doubts) if doubts else {}


def _sizes(snapshot: Snapshot) -> dict[str, int]:
    """Return how many partitions each topic has."""
    there = [(item.stream.topic, item.stream.partition) for item in snapshot.partitions]
    there += [(item.topic, item.partition) for item in snapshot.unknown]
    return {topic: partition + 1 for topic, partition in sorted(there)}


def _is_older_generation(key: Stream, item: PartitionSnapshot, partitions: int) -> bool:
    """Return whether a stream is of an older generation, and this partition's to judge (of a gone one, another's)."""
    return (
        key.topic == item.stream.topic
        and key.topic_id != item.stream.topic_id
        and key.partition % partitions == item.stream.partition
    )


def _is_expanded(
    spec: PipelineSpec,
    item: PartitionSnapshot,
    known: Mapping[Stream, StreamRecord],
    layouts: Sequence[Layout],
) -> bool:
    """Return whether a partition has come since its topic was first planned.

    One that was there and was not observed or not asked for begins where the policy says; where that is the end, the
    end has moved since, so that only the log's begin is sure to lose nothing.
    """
    siblings = [key.partition for key in known if key[:2] == item.stream[:2]]
    if not siblings:
        return False
    at_first = [layout.partitions for layout in layouts if layout.topic_id == item.stream.topic_id] or [
        max(siblings) + 1
    ]
    return item.stream.partition >= min(at_first) or spec.start.kind is PolicyKind.LATEST


def _start_offsets(
    ports: Ports,
    spec: PipelineSpec,
    selected: Sequence[PartitionSnapshot],
    known: Mapping[Stream, StreamRecord],
) -> dict[Stream, PartitionSnapshot]:
    """Observe the start policy's group where it is another one than the end policy's, for new streams only.

    A partition that is not seen this time has an offset that is not known: the other group's is none of its own.
    """
    needed = spec.start.kind is PolicyKind.GROUP and spec.end.group not in (None, spec.start.group)
    new = [item for item in selected if item.stream not in known]
    if not needed or not new:
        return {}
    seen = ports.source.snapshot(sorted({item.stream.topic for item in new}), spec.start.group)
    unknown = {
        item.stream: replace(item, group_offset=None, group_offset_state=GroupOffsetState.UNKNOWN) for item in new
    }
    return unknown | {item.stream: item for item in seen.partitions}
