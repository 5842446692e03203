"""Layouts, segments and the gate: what must be drained before a wave may start (law L14)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, exists, func, literal, or_, select, true

from airflow_kafka_lake.adapters.sql_ledger import reading, streams
from airflow_kafka_lake.adapters.sql_ledger.tables import layout, pipeline, segment, segment_parent, stream, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import Timestamp, rows, upsert
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.ordering.growth import Growth, Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Graph, Segment, SegmentKey, gate_of
from airflow_kafka_lake.core.slices import Stream
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
    keys: dict[int, SegmentKey] = {row.id: (_key(row), row.start_offset) for row in found}
    parents: dict[int, set[SegmentKey]] = defaultdict(set)
    for child, parent in connection.execute(_edges(name)):
        parents[child].add(keys[parent])
    made = (
        Segment(
            stream=_key(row),
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


def _key(row: Any) -> Stream:
    return Stream(row.topic, row.topic_id, row.partition)


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


def grow(connection: Connection, name: str, growth: Growth, at: datetime) -> None:
    """Write what a plan adds to the segments; a seal that is there is never moved."""
    _write_layouts(connection, name, growth.layouts, at)
    if not growth.segments:
        return
    ids = _stream_ids(connection, name, growth.segments)
    _write_segments(connection, growth.segments, ids, at)
    _write_parents(connection, name, growth.segments)


def _write_layouts(connection: Connection, name: str, seen: Sequence[Layout], at: datetime) -> None:
    if not seen:
        return
    values = [
        {"topic": i.topic, "topic_id": i.topic_id, "partitions": i.partitions, "in_force": int(i.in_force)}
        for i in seen
    ]
    columns = ("topic", "topic_id", "partitions", "in_force")
    given = rows(connection, [layout.c[column] for column in columns], values)
    source = select(*given.c, literal(name), literal(at, Timestamp)).where(true())
    statement = upsert(connection, layout).from_select([*columns, "pipeline", "seen_at"], source)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["pipeline", "topic_id", "partitions"], set_={"in_force": statement.excluded.in_force}
        )
    )


def _stream_ids(connection: Connection, name: str, wanted: Sequence[Segment]) -> dict[Stream, int]:
    values = [dict(zip(_STREAM, key, strict=True)) for key in sorted({item.stream for item in wanted})]
    given = rows(connection, [stream.c[column] for column in _STREAM], values)
    same = (stream.c.topic_id == given.c.topic_id) & (stream.c.partition == given.c.partition)
    query = select(stream.c.id, *(stream.c[column] for column in _STREAM)).join(given, same)
    return {_key(row): row.id for row in connection.execute(query.where(stream.c.pipeline == name))}


def _write_segments(connection: Connection, wanted: Sequence[Segment], ids: dict[Stream, int], at: datetime) -> None:
    values = [
        {
            "stream": ids[item.stream],
            "start_offset": item.start,
            "layout": item.layout,
            "seal": item.seal,
            "sealed": int(item.sealed),
            "id": int(item.declared_at is not None),
        }
        for item in wanted
    ]
    columns = ("stream", "start_offset", "layout", "seal", "sealed")
    given = rows(connection, [segment.c[column] for column in (*columns, "id")], values)
    declared_at = case((given.c.id == 1, literal(at, Timestamp)))
    source = select(*(given.c[column] for column in columns), declared_at).where(true())
    statement = upsert(connection, segment).from_select([*columns, "declared_at"], source)
    new = statement.excluded
    written = connection.execute(
        statement.on_conflict_do_update(
            index_elements=["stream", "start_offset"],
            set_={
                "layout": new.layout,
                "seal": new.seal,
                "sealed": case((segment.c.sealed == 1, 1), else_=new.sealed),
                "declared_at": func.coalesce(segment.c.declared_at, new.declared_at),
            },
            where=or_(segment.c.seal.is_(None), segment.c.seal == new.seal),
        )
    )
    if written.rowcount != len(values):
        raise guards.overtaken("A segment was sealed by somebody else first, and a seal is never moved.")


def _write_parents(connection: Connection, name: str, wanted: Sequence[Segment]) -> None:
    edges = [(item.key, parent) for item in wanted for parent in sorted(item.parents)]
    if not edges:
        return
    found = {
        (_key(row), row.start_offset): row.id
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
