"""Streams as the ledger has them: watermark, coverage, and what was skipped without acknowledging the order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select, union_all

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.tables import range_, skip, stream
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet


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
            StreamRecord(
                key=reading.stream_of(row),
                origin=row.origin,
                watermark=row.watermark,
                version=row.version,
                planned=RangeSet((*passed, *planned[row.id])),
                covered=RangeSet((*passed, *covered[row.id])),
                end_seen=row.end_seen,
                leader_epoch=row.leader_epoch,
                since=row.since,
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
    pieces: dict[int, list[OffsetRange]] = defaultdict(list)
    for key, start, end in found:
        pieces[key].append(OffsetRange(start, end))
    return {key: RangeSet(slices) for key, slices in pieces.items()}
