"""Plan: observe, decide, record. A dry run is the same without the last step (law L16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_lake.core.epochs import EpochEnds, epochs_in_doubt
from airflow_kafka_lake.core.errors import PipelineFileError, UnknownPartitionError, UnknownTopicError, UsageError
from airflow_kafka_lake.core.packing import build_plan
from airflow_kafka_lake.core.plan import Asked, Blocked, Plan
from airflow_kafka_lake.core.policies import Bounds, Times, asked_of, generation_gap, times_needed
from airflow_kafka_lake.core.snapshots import PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.spec import PipelineSpec, PolicyKind
from airflow_kafka_lake.core.streams import StreamKey, StreamRecord
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.forecasting import forecast, weigh
from airflow_kafka_lake.services.identity import check_settled, look_at_table, take_possession
from airflow_kafka_lake.services.settlement import flush

MAX_TABLE_NAME = 128
RECEIPTS = "__receipts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and whether it was recorded (not for a dry run, and not when it changes nothing)."""

    plan: Plan
    recorded: bool


def plan(ports: Ports, spec: PipelineSpec, bounds: Bounds, *, plan_id: str, dry_run: bool = False) -> Planned:
    """Decide what is read next and record it.

    Raises RefusedError leaves for bounds that cannot be met (nothing is changed), ConcurrentError when another
    planner was first, UnavailableError when Kafka, ledger or catalog is out of reach.
    """
    check_bounds(bounds)
    ports.say(f"observing {spec.name}")
    topics = _topics(ports, spec, bounds)
    snapshot = _observe(ports, spec, topics)
    selected = _selected(snapshot, bounds)
    known = {stream.key: stream for stream in ports.ledger.streams(spec.name)}
    tables = _tables(spec, selected)
    for table, topic_ids in tables.items():
        look_at_table(ports, spec.name, table, topic_ids)
        check_settled(ports, spec.name, table)
    decided = _decide(ports, spec, bounds, snapshot, selected, known, plan_id)
    decided = replace(decided, forecast=forecast(ports, decided, exact=dry_run))
    if dry_run or decided.changes_nothing:
        return Planned(plan=decided, recorded=False)
    ports.ledger.save_pipeline(spec)
    for table, topic_ids in tables.items():
        take_possession(ports, spec.name, table, spec.partition_by, topic_ids)
    ports.ledger.record_plan(decided, ports.actor)
    if any(stream.version is None for stream in decided.streams):
        flush(ports, spec.name)  # their origins, before the first of their rows is there
    return Planned(plan=decided, recorded=True)


def check_bounds(bounds: Bounds) -> None:
    """Refuse bounds that no partition could meet, before anything is asked of anybody."""
    if bounds.partitions is not None and not bounds.partitions:
        raise UsageError("no partition was named: give at least one, or leave partitions out for all of them")
    start, end = bounds.start, bounds.end
    if isinstance(start, int) and isinstance(end, int) and start >= end:
        raise UsageError(f"from {start} is not before to {end}: a range is [from, to)")
    if isinstance(start, datetime) and isinstance(end, datetime) and start >= end:
        raise UsageError(f"from {start.isoformat()} is not before to {end.isoformat()}: a period is [from, to)")


def _topics(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> tuple[str, ...]:
    topics = ports.source.topics(spec.topics, spec.topic_pattern)
    if not topics:
        raise UnknownTopicError(f"no topic matches {spec.topic_pattern!r} of pipeline {spec.name}")
    _refuse_tables(spec, topics)
    if bounds.topic is None:
        return topics
    if bounds.topic not in topics:
        raise UnknownTopicError(
            f"topic {bounds.topic!r} is not one of pipeline {spec.name}: it has {', '.join(topics)}", topic=bounds.topic
        )
    return (bounds.topic,)


def _refuse_tables(spec: PipelineSpec, topics: Sequence[str]) -> None:
    """Refuse a `{topic}` whose table is no legal name, or is the receipts table of another topic."""
    for topic in topics:
        table = spec.table_for(topic)
        if table.endswith(RECEIPTS) or len(table.rpartition(".")[2]) > MAX_TABLE_NAME:
            raise PipelineFileError(
                f"topic {topic} would land in table {table}, which is too long, or the receipts table of another one. "
                "Leave the topic out, or give it a pipeline with a table of its own",
                topic=topic,
            )


def _observe(ports: Ports, spec: PipelineSpec, topics: Sequence[str]) -> Snapshot:
    return ports.source.snapshot(topics, spec.end.group or spec.start.group)


def _selected(snapshot: Snapshot, bounds: Bounds) -> tuple[PartitionSnapshot, ...]:
    if bounds.partitions is None:
        return snapshot.partitions
    there = {item.partition for item in snapshot.partitions} | {item.partition for item in snapshot.unknown}
    for partition in bounds.partitions:
        if partition not in there:
            topics = ", ".join(sorted({item.topic for item in snapshot.partitions}))
            raise UnknownPartitionError(
                f"{topics} has no partition {partition}: it has 0 to {max(there, default=0)}", partition=partition
            )
    return tuple(item for item in snapshot.partitions if item.partition in bounds.partitions)


def _tables(spec: PipelineSpec, selected: Sequence[PartitionSnapshot]) -> dict[str, list[str]]:
    tables: dict[str, set[str]] = {}
    for item in selected:
        tables.setdefault(spec.table_for(item.topic), set()).add(item.topic_id)
    return {table: sorted(ids) for table, ids in sorted(tables.items())}


def _decide(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    snapshot: Snapshot,
    selected: Sequence[PartitionSnapshot],
    known: Mapping[StreamKey, StreamRecord],
    plan_id: str,
) -> Plan:
    times = _times(ports, spec, bounds, selected)
    origins = _start_offsets(ports, spec, selected, known)
    ends = _epoch_ends(ports, selected, known)
    asked: list[Asked] = []
    blocked: list[Blocked] = []
    for item in selected:
        older = [stream for key, stream in known.items() if _is_older_generation(key, item)]
        siblings = any(key[:2] == item.key[:2] for key in known)
        answer = generation_gap(spec.name, item, known.get(item.key), older, ends) or asked_of(
            spec, bounds, item, known.get(item.key), times, origins.get(item.key, item), siblings
        )
        (blocked if isinstance(answer, Blocked) else asked).append(answer)  # type: ignore[arg-type]
    wanted = {item.snapshot.key: item for item in asked}
    unknown = [item for item in snapshot.unknown if bounds.partitions is None or item.partition in bounds.partitions]
    weights = weigh(ports, spec, wanted.values(), known)
    return build_plan(plan_id, spec, snapshot.observed_at, asked, known, weights, blocked, unknown)


def _epoch_ends(
    ports: Ports, selected: Sequence[PartitionSnapshot], known: Mapping[StreamKey, StreamRecord]
) -> EpochEnds:
    """Ask where the leader epochs ended under which streams were planned before; nobody is asked while none changed."""
    doubts = epochs_in_doubt((item, known[item.key].leader_epoch) for item in selected if item.key in known)
    return ports.source.epoch_ends(doubts) if doubts else {}


def _is_older_generation(key: StreamKey, item: PartitionSnapshot) -> bool:
    return key[0] == item.topic and key[1] != item.topic_id and key[2] == item.partition


def _times(ports: Ports, spec: PipelineSpec, bounds: Bounds, selected: Sequence[PartitionSnapshot]) -> Times:
    partitions = [(item.topic, item.partition) for item in selected]
    return Times({at: ports.source.offsets_at(partitions, at) for at in times_needed(spec, bounds)})


def _start_offsets(
    ports: Ports,
    spec: PipelineSpec,
    selected: Sequence[PartitionSnapshot],
    known: Mapping[StreamKey, StreamRecord],
) -> dict[StreamKey, PartitionSnapshot]:
    """Observe the start policy's group where it is another one than the end policy's, for new streams only."""
    needed = spec.start.kind is PolicyKind.GROUP and spec.end.group not in (None, spec.start.group)
    topics = sorted({item.topic for item in selected if item.key not in known})
    if not needed or not topics:
        return {}
    return {item.key: item for item in ports.source.snapshot(topics, spec.start.group).partitions}
