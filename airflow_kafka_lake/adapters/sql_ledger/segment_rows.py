"""Layouts, segments and the gate: what must be drained before a wave may start (law L14)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, exists, select, true

from airflow_kafka_lake.adapters.sql_ledger import reading, streams
from airflow_kafka_lake.adapters.sql_ledger.tables import layout, pipeline, segment, segment_parent, stream, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import rows, upsert
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Graph, Segment, SegmentKey, gate_of
from airflow_kafka_lake.core.spec import Ordering

_STREAM = ("topic", "topic_id", "partition")


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
        select(segment, *(stream.c[column] for column in _STREAM))
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
    wanted = reading.ranges_by(connection, None, name, None, (RangeState.PLANNED,))
    known = streams.streams(connection, row.pipeline, None, None)
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
            select(segment.c.id, segment.c.start_offset, *(stream.c[column] for column in _STREAM))
            .join(stream, stream.c.id == segment.c.stream)
            .where(stream.c.pipeline == name)
        )
    }
    values = [{"segment": found[child], "parent": found[parent]} for child, parent in edges]
    columns = ("segment", "parent")
    given = rows(connection, [segment_parent.c[column] for column in columns], values)
    statement = upsert(connection, segment_parent).from_select(columns, select(*given.c).where(true()))
    connection.execute(statement.on_conflict_do_nothing())
