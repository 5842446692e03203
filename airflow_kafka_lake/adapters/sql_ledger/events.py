"""History: events, watermark moves, receipts that wait for the lake, and what waves cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, delete, exists, func, insert, literal, null, select

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import (
    event,
    meta,
    move,
    notified,
    outbox,
    range_,
    stream,
    wave,
)
from airflow_kafka_lake.adapters.sql_ledger.types import now
from airflow_kafka_lake.adapters.sql_ledger.values import rows, upsert
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Entry
from airflow_kafka_lake.core.ledger.events import Event, Line
from airflow_kafka_lake.core.ledger.records import Advance, OutboxItem, ReceiptRow
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.estimates import TopicCost, WaveCost
from airflow_kafka_lake.core.slices import Slice

_COLUMNS = ("pipeline", "actor", "kind", "subject", "detail")


def throughput(connection: Connection, name: str) -> tuple[WaveCost, ...]:
    """Return what the last committed waves of each table cost."""
    last = (
        select(wave.c.id, wave.c.table_name, wave.c.committed_at)
        .where(wave.c.pipeline == name, wave.c.state == WaveState.COMMITTED)
        .order_by(wave.c.committed_at.desc())
        .limit(guards.THROUGHPUT_HISTORY)
        .subquery()
    )
    rank = func.row_number().over(partition_by=last.c.table_name, order_by=last.c.committed_at.desc())
    ranked = select(last.c.id, rank.label("rank")).subquery()
    cost = (attempt_.c.wave, attempt_.c.staged_bytes, attempt_.c.started_at, attempt_.c.ended_at)
    query = (
        select(
            *cost,
            stream.c.topic,
            func.sum(range_.c.end_offset - range_.c.start_offset).label("offsets"),
            func.sum(range_.c.estimated_bytes).label("weight"),
        )
        .join(ranked, ranked.c.id == attempt_.c.wave)
        .join(range_, range_.c.wave == attempt_.c.wave)
        .join(stream, stream.c.id == range_.c.stream)
        .where(ranked.c.rank <= guards.THROUGHPUT_WAVES, range_.c.state == RangeState.COMMITTED)
        .where(attempt_.c.outcome == AttemptOutcome.COMMITTED, attempt_.c.lease_holder != guards.RESTORED_HOLDER)
        .group_by(*cost, stream.c.topic)
        .order_by(attempt_.c.wave, stream.c.topic)
    )
    found = connection.execute(query).all()
    return tuple(_cost(list(rows)) for _, rows in groupby(found, key=lambda row: row.wave))


def _cost(rows: Sequence[Any]) -> WaveCost:
    first = rows[0]
    return WaveCost(
        seconds=_seconds(first.started_at, first.ended_at),
        lake_bytes=first.staged_bytes,
        topics=tuple(TopicCost(topic=row.topic, offsets=int(row.offsets), kafka_bytes=int(row.weight)) for row in rows),
    )


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def knows(connection: Connection, token: Token, line: Line | None) -> Line | None:
    """See `ports.Ledger.knows`."""
    ours = event.c.pipeline == token.pipeline
    if line and _newest(connection, ours, event.c.sequence == line.sequence) != line:
        return None
    mine = (attempt_.c.wave == token.wave, attempt_.c.fence == token.fence, attempt_.c.attempt == token.attempt)
    given_out = () if token.wave == guards.OWNER_WAVE else (exists().where(*mine),)
    return _newest(connection, ours, *given_out)


def _newest(connection: Connection, *where: ColumnElement[bool]) -> Line | None:
    found = events(connection, where, 1, newest=True)
    return found[0].line if found else None


def _event(row: Any) -> Event:
    return Event(
        sequence=row.sequence, at=row.at, actor=row.actor, kind=row.kind, subject=row.subject, detail=row.detail
    )


def of(pipeline: str, after: int, kind: str | None, actor: str | None) -> list[ColumnElement[bool]]:
    """Return the condition of the events of a pipeline above a sequence; of a kind, of an actor."""
    chosen = [
        column == value
        for column, value in ((event.c.pipeline, pipeline), (event.c.kind, kind), (event.c.actor, actor))
        if value is not None
    ]
    return [*chosen, event.c.sequence > after]


def events(
    connection: Connection, where: Iterable[ColumnElement[bool]], limit: int, *, newest: bool = False
) -> tuple[Event, ...]:
    """Return events by sequence: of those that are chosen the first, or the last, `limit`."""
    order = event.c.sequence.desc() if newest else event.c.sequence
    found = [_event(row) for row in connection.execute(select(event).where(*where).order_by(order).limit(limit))]
    return tuple(reversed(found) if newest else found)


def unnotified(connection: Connection, name: str) -> tuple[Advance, ...]:
    """Return the moves after the notified position."""
    position = select(notified.c.sequence).where(notified.c.pipeline == name).scalar_subquery()
    return moves(connection, move.c.pipeline == name, move.c.sequence > func.coalesce(position, 0))


def moves(connection: Connection, *where: ColumnElement[bool]) -> tuple[Advance, ...]:
    """Return watermark moves by sequence."""
    query = select(move, stream.c.topic, stream.c.topic_id, stream.c.partition).join(
        stream, stream.c.id == move.c.stream
    )
    return tuple(
        Advance(
            stream=reading.stream_of(row),
            sequence=row.sequence,
            start=row.start_offset,
            end=row.end_offset,
            rows=row.row_count,
        )
        for row in connection.execute(query.where(*where).order_by(move.c.sequence))
    )


def outbox_items(connection: Connection, name: str, kind: str | None) -> tuple[OutboxItem, ...]:
    """Return the receipts, all or of one kind, that the lake does not have yet, oldest first."""
    key = (stream.c.topic, stream.c.topic_id, stream.c.partition)
    query = select(outbox, *key).join(stream, stream.c.id == outbox.c.stream).where(outbox.c.pipeline == name)
    if kind is not None:
        query = query.where(outbox.c.kind == kind)
    return tuple(
        OutboxItem(id=row.id, table=row.table_name, row=_receipt(row))
        for row in connection.execute(query.order_by(outbox.c.id))
    )


def _receipt(row: Any) -> ReceiptRow:
    return ReceiptRow(
        pipeline=row.pipeline,
        wave=row.wave,
        attempt=row.attempt,
        fence=row.fence,
        kind=row.kind,
        slice=Slice(reading.stream_of(row), OffsetRange(row.start_offset, row.end_offset)),
        generation=row.generation,
        rows=row.row_count,
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        accounting=reading.accounting_of(row),
        recorded_at=row.recorded_at,
        offsets=row.offsets or None,
    )


def lock_sequences(connection: Connection) -> None:
    """Hold the ledger's one sequence lock until the transaction ends, so that sequences grow in the order of commits.

    Taken last, after all other locks: a reader that has seen sequence n never misses a smaller one.
    """
    connection.execute(select(meta.c.value).where(meta.c.key == "ledger_id").with_for_update())


def record_event(connection: Connection, entry: Entry) -> None:
    """Write one line of history, as the last statement of a transaction."""
    locked = select(meta.c.value).where(meta.c.key == "ledger_id").with_for_update().subquery("locked")
    values = [literal(getattr(entry, name), event.c[name].type) for name in _COLUMNS]
    connection.execute(insert(event).from_select([*_COLUMNS, "at"], select(*values, now()).select_from(locked)))


def mark_notified(connection: Connection, name: str, sequence: int) -> None:
    """See `ports.Ledger.mark_notified`."""
    statement = upsert(connection, notified).values(pipeline=name, sequence=sequence)
    given = statement.excluded.sequence
    goes_on = notified.c.through > given
    delivery = {
        column: case((goes_on, notified.c[column]), else_=null())
        for column in ("through", "lease_holder", "lease_until")
    }
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["pipeline"], set_={"sequence": given, **delivery}, where=notified.c.sequence < given
        )
    )


def forget_sent(connection: Connection, items: Sequence[int]) -> None:
    """See `ports.Ledger.sent`."""
    given = rows(connection, [outbox.c.id], ({"id": item} for item in items))
    connection.execute(delete(outbox).where(outbox.c.id.in_(select(given.c.id))))
