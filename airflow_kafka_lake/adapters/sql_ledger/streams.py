"""Streams, their layouts and segments, and the gate: what must be drained before a wave may start (law L14)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, select, true, union_all

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.tables import (
    layout,
    pipeline,
    range_,
    segment,
    segment_parent,
    skip,
    stream,
    wave,
)
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.values import rows, upsert
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Graph, Segment, SegmentKey, gate_of
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import Ordering


def streams(
    connection: Connection, name: str, topic: str | None, partitions: Sequence[int] | None
) -> tuple[StreamRecord, ...]:
    """Return streams with coverage. Of `[origin, watermark)`, committed for good, no range is read."""
    chosen = [stream.c.pipeline == name]
    if topic is not None:
        chosen.append(stream.c.topic == topic)
    if partitions is not None:
        chosen.append(stream.c.partition.in_(list(partitions)))
    columns = (range_.c.stream, range_.c.start_offset, range_.c.end_offset, range_.c.state)
    base = select(*columns).join(stream, stream.c.id == range_.c.stream).where(*chosen)
    # Two branches, because each can walk the index by (stream, start).
    outside = union_all(
        base.where(range_.c.start_offset >= stream.c.watermark), base.where(range_.c.start_offset < stream.c.origin)
    )
    planned: dict[int, list[OffsetRange]] = defaultdict(list)
    covered: dict[int, list[OffsetRange]] = defaultdict(list)
    for key, start, end, state in connection.execute(outside):
        planned[key].append(OffsetRange(start, end))
        if state in RESOLVED:
            covered[key].append(OffsetRange(start, end))
    unacknowledged = _unacknowledged(connection, chosen)
    found = []
    for row in connection.execute(select(stream).where(*chosen)):
        passed = RangeSet.between(row.origin, row.watermark).ranges
        found.append(
            StreamRecord.of(
                reading.stream_row(row),
                planned=RangeSet((*passed, *planned[row.id])),
                covered=RangeSet((*passed, *covered[row.id])),
                unacknowledged=unacknowledged.get(row.id, RangeSet()),
            )
        )
    return tuple(sorted(found, key=lambda record: record.key))


def _unacknowledged(connection: Connection, chosen: Sequence[ColumnElement[bool]]) -> dict[int, RangeSet]:
    """Return what of each stream was skipped without acknowledging the order, and not acknowledged by a later skip."""
    passed = (
        select(range_.c.stream, range_.c.start_offset, range_.c.end_offset)
        .join(stream, stream.c.id == range_.c.stream)
        .join(skip, and_(skip.c.id == range_.c.skip, skip.c.acknowledge_order.is_(False)))
        .where(range_.c.state == RangeState.SKIPPED, *chosen)
    )
    left = _by_stream(connection.execute(passed))
    if not left:
        return {}
    freed = (
        select(skip.c.stream, skip.c.start_offset, skip.c.end_offset)
        .join(stream, stream.c.id == skip.c.stream)
        .where(skip.c.acknowledge_order.is_(True), *chosen)
    )
    acknowledged = _by_stream(connection.execute(freed))
    return {key: found - acknowledged.get(key, RangeSet()) for key, found in left.items()}


def _by_stream(found: Iterable[Any]) -> dict[int, RangeSet]:
    ranges: dict[int, list[OffsetRange]] = defaultdict(list)
    for key, start, end in found:
        ranges[key].append(OffsetRange(start, end))
    return {key: RangeSet(parts) for key, parts in ranges.items()}


def layouts(connection: Connection, name: str) -> tuple[Layout, ...]:
    """Return the layouts that a pipeline's topics were seen in."""
    query = select(layout).where(layout.c.pipeline == name).order_by(layout.c.topic_id, layout.c.partitions)
    return tuple(
        Layout(
            topic=row.topic,
            topic_id=row.topic_id,
            partitions=row.partitions,
            seen_at=row.seen_at,
            in_force=bool(row.in_force),
        )
        for row in connection.execute(query)
    )


def segments(connection: Connection, name: str) -> tuple[Segment, ...]:
    """Return a pipeline's segments with their parents, by stream and start."""
    found = connection.execute(
        select(segment, *(stream.c[column] for column in Stream._fields))
        .join(stream, stream.c.id == segment.c.stream)
        .where(stream.c.pipeline == name)
    ).all()
    keys: dict[int, SegmentKey] = {row.id: (reading.stream_of(row), row.start_offset) for row in found}
    parents: dict[int, set[SegmentKey]] = defaultdict(set)
    for child, parent in connection.execute(_edges(name)):
        parents[child].add(keys[parent])
    made = (
        Segment(
            stream=reading.stream_of(row),
            start=row.start_offset,
            layout=row.layout,
            seal=row.seal,
            sealed=bool(row.sealed),
            declared_at=row.declared_at,
            parents=frozenset(parents[row.id]),
        )
        for row in found
    )
    return tuple(sorted(made, key=lambda item: item.key))


def _edges(name: str) -> Any:
    return (
        select(segment_parent.c.segment, segment_parent.c.parent)
        .join(segment, segment.c.id == segment_parent.c.segment)
        .join(stream, stream.c.id == segment.c.stream)
        .where(stream.c.pipeline == name)
    )


def gate(connection: Connection, name: str) -> tuple[Blocker, ...]:
    """See `ports.LedgerReader.gate`; a pipeline without edges costs one statement."""
    version = (pipeline.c.name == plan_.c.pipeline) & (pipeline.c.version == plan_.c.pipeline_version)
    row = connection.execute(
        select(wave.c.pipeline, pipeline.c.spec, exists(_edges_of_wave()).label("ordered"))
        .join(plan_, plan_.c.id == wave.c.plan)
        .join(pipeline, version)
        .where(wave.c.id == name)
    ).first()
    if row is None:
        raise guards.unknown("wave", name)
    if not row.ordered or reading.spec_of(row.spec).ordering is Ordering.NONE:
        return ()
    wanted = reading.ranges(connection, range_.c.wave == name, range_.c.state == RangeState.PLANNED)
    known = streams(connection, row.pipeline, None, None)
    return gate_of(Graph(segments(connection, row.pipeline)), known, wanted)


def _edges_of_wave() -> Any:
    mine = (segment.c.id == segment_parent.c.segment) & (stream.c.pipeline == wave.c.pipeline)
    return (
        select(segment_parent.c.segment)
        .join(segment, segment.c.id == segment_parent.c.segment)
        .join(stream, stream.c.id == segment.c.stream)
        .where(mine)
        .correlate(wave)
    )


def write_parents(connection: Connection, name: str, wanted: Sequence[Segment]) -> None:
    """Write which segments come before some others."""
    edges = [(item.key, parent) for item in wanted for parent in sorted(item.parents)]
    if not edges:
        return
    found = {
        (reading.stream_of(row), row.start_offset): row.id
        for row in connection.execute(
            select(segment.c.id, segment.c.start_offset, *(stream.c[column] for column in Stream._fields))
            .join(stream, stream.c.id == segment.c.stream)
            .where(stream.c.pipeline == name)
        )
    }
    values = [{"segment": found[child], "parent": found[parent]} for child, parent in edges]
    columns = ("segment", "parent")
    given = rows(connection, [segment_parent.c[column] for column in columns], values)
    statement = upsert(connection, segment_parent).from_select(columns, select(*given.c).where(true()))
    connection.execute(statement.on_conflict_do_nothing())


def stream_ids(connection: Connection, pipeline: str, streams: Collection[Stream]) -> dict[Stream, int]:
    """Return the numbers of some streams of a pipeline."""
    query = select(stream.c.id, *(stream.c[name] for name in Stream._fields)).where(stream.c.pipeline == pipeline)
    found = connection.execute(query.join(*same_streams(connection, streams)))
    return {reading.stream_of(row): row.id for row in found}


def same_streams(connection: Connection, streams: Collection[Stream]) -> tuple[Any, ColumnElement[bool]]:
    """Return some streams as a relation, and the condition that a row is of one of them."""
    given = rows(connection, [stream.c[name] for name in Stream._fields], (key._asdict() for key in streams))
    same = [stream.c[name] == given.c[name] for name in Stream._fields]
    return given, same[0] & same[1] & same[2]
