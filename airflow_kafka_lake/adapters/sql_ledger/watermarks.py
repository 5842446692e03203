"""`advance`: the one write that is one set-based pass over all streams, and decides in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger as Big
from sqlalchemy import Connection, cast, exists, func, select, update

from airflow_kafka_lake.adapters.sql_ledger import events
from airflow_kafka_lake.adapters.sql_ledger.reading import stream_of
from airflow_kafka_lake.adapters.sql_ledger.tables import move, range_, stream
from airflow_kafka_lake.adapters.sql_ledger.types import now
from airflow_kafka_lake.adapters.sql_ledger.values import insert_columns, rows
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Entry
from airflow_kafka_lake.core.ledger.moves import advanced
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.ledger.waves import (
    RESOLVED,
)


def advance(connection: Connection, name: str, actor: str) -> tuple[Advance, ...]:
    """See `ports.Ledger.advance`: one set-based pass over the streams whose next range is resolved."""
    next_one = (range_.c.stream == stream.c.id, range_.c.start_offset == stream.c.watermark)
    ready = exists().where(*next_one, range_.c.state.in_(RESOLVED))
    locked = select(stream.c.id).where(stream.c.pipeline == name, ready).order_by(stream.c.id).with_for_update()
    ids = connection.execute(locked).scalars().all()
    if not ids:
        return ()
    found = connection.execute(_reached(connection, ids)).all()
    reached = sorted(found, key=attrgetter("topic", "topic_id", "partition"))
    if not reached:
        return ()
    values = (
        {"id": row.id, "version": row.version, "start_offset": row.watermark, "end_offset": row.end_offset}
        for row in reached
    )
    given = rows(connection, [stream.c.id, stream.c.version, move.c.start_offset, move.c.end_offset], values)
    guard = (stream.c.version == given.c.version, stream.c.watermark == given.c.start_offset)
    moved = connection.execute(
        update(stream)
        .where(stream.c.id == given.c.id, *guard)
        .values(watermark=given.c.end_offset, version=stream.c.version + 1)
    )
    if moved.rowcount != len(reached):
        raise guards.overtaken(f"Streams of pipeline {name} were decided about by another writer meanwhile.")
    return _record_moves(connection, name, reached, actor)


def _reached(connection: Connection, ids: Sequence[int]) -> Any:
    """Build the query for each stream's new watermark: the farthest end that the running sum of spans reaches."""
    given = rows(connection, [stream.c.id], ({"id": item} for item in ids))
    order: Any = {"partition_by": range_.c.stream, "order_by": range_.c.start_offset}
    key = (stream.c.id, stream.c.version, stream.c.watermark, stream.c.topic, stream.c.topic_id, stream.c.partition)
    span = range_.c.end_offset - range_.c.start_offset
    run = (
        select(
            *key,
            range_.c.end_offset,
            func.sum(span).over(**order).label("total"),
            func.sum(func.coalesce(range_.c.row_count, 0)).over(**order).label("row_count"),
        )
        .join(stream, stream.c.id == range_.c.stream)
        .join(given, given.c.id == stream.c.id)
        .where(range_.c.state.in_(RESOLVED), range_.c.start_offset >= stream.c.watermark)
        .subquery("run")
    )
    same = [run.c[column.name] for column in key]
    return (
        select(
            *same,
            func.max(run.c.end_offset).label("end_offset"),
            cast(func.max(run.c.row_count), Big).label("row_count"),
        )
        .where(run.c.end_offset - run.c.watermark == run.c.total)
        .group_by(*same)
    )


def _record_moves(connection: Connection, name: str, reached: Sequence[Any], actor: str) -> tuple[Advance, ...]:
    events.lock_sequences(connection)
    last = connection.execute(select(func.coalesce(func.max(move.c.sequence), 0))).scalar_one()
    moves = tuple(
        Advance(
            stream=stream_of(row), sequence=sequence, start=row.watermark, end=row.end_offset, rows=int(row.row_count)
        )
        for sequence, row in enumerate(reached, last + 1)
    )
    inserted: dict[str, list[Any]] = {
        "sequence": [item.sequence for item in moves],
        "pipeline": [name] * len(moves),
        "stream": [row.id for row in reached],
        "start_offset": [item.start for item in moves],
        "end_offset": [item.end for item in moves],
        "row_count": [item.rows for item in moves],
    }
    insert_columns(connection, move, inserted, at=now())
    detail = advanced(moves)
    events.record_event(connection, Entry(pipeline=name, actor=actor, kind="advance", subject=name, detail=detail))
    return moves
