"""Withdraw: planned ranges of waves that nobody ever claimed go from the record; an event says which they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, select, update

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.deciding import give_back, lock_waves
from airflow_kafka_lake.adapters.sql_ledger.recording import record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import range_, stream
from airflow_kafka_lake.adapters.sql_ledger.types import Offsets, insert_rows, rows
from airflow_kafka_lake.core.ledger.withdrawing import Withdrawal, refuse_overtaken
from airflow_kafka_lake.core.slices import Stream


def withdraw(connection: Connection, what: Withdrawal, actor: str) -> None:
    """See `ports.Ledger.withdraw`: a fixed number of statements, whatever the number of ranges."""
    streams = _lock_streams(connection, what)
    fences = {name: row.fence for name, row in lock_waves(connection, what.waves).items()}
    given = rows(connection, [range_.c.id], ({"id": item.record.id} for item in what.ranges))
    found = reading.ranges(connection, range_.c.id.in_(select(given.c.id)))
    refuse_overtaken(what, {key: row.version for key, row in streams.items()}, found, fences)
    connection.execute(delete(range_).where(range_.c.id.in_(select(given.c.id))))
    insert_rows(connection, range_, list(_kept(what, {key: row.id for key, row in streams.items()})))
    given = rows(connection, [stream.c.id], ({"id": row.id} for row in streams.values()))
    connection.execute(update(stream).where(stream.c.id == given.c.id).values(version=stream.c.version + 1))
    give_back(connection, what.waves)
    record_event(connection, what.pipeline, actor, "withdraw", what.subject, str(what))


def _lock_streams(connection: Connection, what: Withdrawal) -> dict[Stream, Any]:
    names = ("topic", "topic_id", "partition")
    keys = (dict(zip(names, key, strict=True)) for key in what.versions)
    given = rows(connection, [stream.c[name] for name in names], keys)
    same = [stream.c[name] == given.c[name] for name in names]
    query = (
        select(stream.c.id, stream.c.version, *(stream.c[name] for name in names))
        .join(given, same[0] & same[1] & same[2])
        .where(stream.c.pipeline == what.pipeline)
        .order_by(stream.c.id)
        .with_for_update(of=stream)
    )
    return {Stream(row.topic, row.topic_id, row.partition): row for row in connection.execute(query)}


def _kept(what: Withdrawal, ids: dict[Stream, int]) -> Iterable[dict[str, Any]]:
    for item in what.ranges:
        for piece in item.kept:
            yield {
                "id": piece.id,
                "stream": ids[piece.stream],
                "plan": piece.plan,
                "wave": piece.wave,
                "start_offset": piece.range.start,
                "end_offset": piece.range.end,
                "generation": piece.generation,
                "state": piece.state,
                "reason": piece.reason,
                "held_for": Offsets.text(piece.held_for),
                "fewer_accepted": piece.fewer_accepted,
                "estimated_bytes": piece.estimated_bytes,
                "leader_epoch": piece.leader_epoch,
            }
