"""Decisions about ranges and streams: take, release, skip, advance. Locks in one order: streams, waves, ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import BigInteger as Big
from sqlalchemy import Connection, cast, delete, exists, func, insert, select, update

from airflow_kafka_lake.adapters.sql_ledger import chronicle, reading
from airflow_kafka_lake.adapters.sql_ledger.claiming import FREE, abandon
from airflow_kafka_lake.adapters.sql_ledger.recording import latch, record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import move, outbox, range_, stream, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import Offsets, insert_rows, now, rows
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.cutting import cut_for_taking, parts_of
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, Verdict
from airflow_kafka_lake.core.ledger.waves import (
    ON_HOLD,
    RESOLVED,
    UNRESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    RangeState,
    WaveState,
)


def take(
    connection: Connection,
    name: str,
    fence: int,
    attempt: str | None,
    verdicts: Sequence[Verdict],
    actor: str,
    apart: str | None = None,
) -> None:
    """See `ports.Ledger.take`."""
    guards.check_verdicts(verdicts, apart)
    sources, _ = transition = WAVE_TRANSITIONS[Act.CANCEL]
    mine = (attempt_.c.wave == name, attempt_.c.fence == fence)
    holder = ~exists().where(*mine) if attempt is None else exists().where(*mine, attempt_.c.attempt == attempt)
    where = (wave.c.id == name, wave.c.fence == fence, holder)
    written = connection.execute(
        update(wave).where(*where, wave.c.state.in_(sources)).values(state=WaveState.PLANNED, **FREE)
    )
    if written.rowcount != 1:
        found = reading.one_wave(connection, name)
        if connection.execute(select(wave.c.id).where(*where)).first():
            raise guards.forbidden(name, found.pipeline, found.state, transition)
        raise guards.stale(AttemptKey(wave=name, fence=fence, attempt=attempt or "-"), found.state, found.fence)
    verdicts = _cut(connection, name, verdicts)
    given = rows(
        connection,
        [range_.c.id, range_.c.state, range_.c.reason, range_.c.held_for],
        (
            {"id": i.range_id, "state": i.state, "reason": i.reason, "held_for": Offsets.text(i.held_for)}
            for i in verdicts
        ),
    )
    taken = connection.execute(
        update(range_)
        .where(range_.c.id == given.c.id, range_.c.wave == name, range_.c.state == RangeState.PLANNED)
        .values(state=given.c.state, reason=given.c.reason, held_for=given.c.held_for)
    )
    if taken.rowcount != len(verdicts):
        raise guards.not_planned(_not_taken(connection, name, verdicts), name)
    if apart is not None:
        _set_apart(connection, name, apart, [item.range_id for item in verdicts if item.state is RangeState.PLANNED])
    give_back(connection, [name])
    owner = connection.execute(select(wave.c.pipeline).where(wave.c.id == name)).scalar_one()
    record_event(connection, owner, actor, "take", name, history.taken(verdicts))


def _cut(connection: Connection, name: str, verdicts: Sequence[Verdict]) -> Sequence[Verdict]:
    """Cut the ranges that verdicts speak of in part; return the verdicts about whole pieces.

    What is cut shrinks before its other pieces are inserted: at no moment do two ranges overlap.
    """
    if not (names := parts_of(verdicts)):
        return verdicts
    given = rows(connection, [range_.c.id], ({"id": item} for item in names))
    chosen = range_.c.id.in_(select(given.c.id))
    found = {item.id: item for item in reading.ranges(connection, chosen)}
    streams = {row.id: row.stream for row in connection.execute(select(range_.c.id, range_.c.stream).where(chosen))}
    pieces, whole = cut_for_taking(name, found, verdicts)
    given = rows(
        connection,
        [range_.c.id, range_.c.end_offset, range_.c.estimated_bytes],
        (
            {"id": item.id, "end_offset": item.range.end, "estimated_bytes": item.estimated_bytes}
            for item in pieces
            if item.id in found
        ),
    )
    connection.execute(
        update(range_)
        .where(range_.c.id == given.c.id)
        .values(end_offset=given.c.end_offset, estimated_bytes=given.c.estimated_bytes)
    )
    by_stream = {item.stream: streams[item.id] for item in found.values()}
    new = [
        {
            "id": item.id,
            "stream": by_stream[item.stream],
            "plan": item.plan,
            "start_offset": item.range.start,
            "end_offset": item.range.end,
            "generation": item.generation,
            "fewer_accepted": item.fewer_accepted,
            "leader_epoch": item.leader_epoch,
            "estimated_bytes": item.estimated_bytes,
        }
        for item in pieces
        if item.id not in found
    ]
    insert_rows(connection, range_, new, wave=name, state=RangeState.PLANNED)
    return whole


def _set_apart(connection: Connection, name: str, new: str, moved: Sequence[str]) -> None:
    """Move ranges, as they are, to a wave of their own."""
    home = lock_waves(connection, [name])[name]
    new_wave(connection, new, home, _named(connection, moved))
    given = rows(connection, [range_.c.id], ({"id": item} for item in moved))
    connection.execute(update(range_).where(range_.c.id == given.c.id).values(wave=new, reason=None))


def _not_taken(connection: Connection, name: str, verdicts: Sequence[Verdict]) -> str:
    wanted = {item.range_id: (name, item.state) for item in verdicts}
    given = rows(connection, [range_.c.id], ({"id": item} for item in wanted))
    now_there = connection.execute(
        select(range_.c.id, range_.c.wave, range_.c.state).join(given, given.c.id == range_.c.id)
    )
    right = {row.id for row in now_there if (row.wave, row.state) == wanted[row.id]}
    return min(wanted.keys() - right, default=min(wanted))


def give_back(connection: Connection, names: Sequence[str]) -> None:
    """Leave waves, after ranges went from them, to their next claims: or to none, when they are empty."""
    if not names:
        return
    states: dict[str, set[RangeState]] = {name: set() for name in names}
    query = select(range_.c.wave, range_.c.state).where(range_.c.wave.in_(names)).distinct()
    for row in connection.execute(query):
        states[row.wave].add(row.state)
    becomes: dict[WaveState, list[str]] = {}
    for name, left in states.items():
        state = WaveState.PLANNED if RangeState.PLANNED in left else guards.emptied(left)
        becomes.setdefault(state, []).append(name)
    for state, group in becomes.items():
        connection.execute(update(wave).where(wave.c.id.in_(group)).values(state=state, **FREE))
    abandon(connection, names, guards.ENDED_BY_CLAIM)


def dissolve_empty(connection: Connection, names: Iterable[str]) -> None:
    """End CANCELLED waves whose last unresolved range went elsewhere."""
    left = exists().where(range_.c.wave == wave.c.id, range_.c.state.in_(UNRESOLVED))
    connection.execute(
        update(wave)
        .where(wave.c.id.in_(sorted(names)), wave.c.state == WaveState.CANCELLED, ~left)
        .values(state=WAVE_TRANSITIONS[Act.DISSOLVE][1])
    )


def lock_waves(connection: Connection, names: Iterable[str]) -> dict[str, Any]:
    """Lock waves in a fixed order and return their rows."""
    query = select(wave).where(wave.c.id.in_(sorted(set(names)))).order_by(wave.c.id).with_for_update()
    return {row.id: row for row in connection.execute(query)}


def release(connection: Connection, names: Sequence[str], new: str, actor: str, reason: str | None) -> str:
    """See `ports.Ledger.release`."""
    if not names:
        raise ValueError("no range is named to be released")
    wanted = list(dict.fromkeys(names))
    sources = lock_waves(connection, {item.wave for item in _named(connection, wanted)})
    found = _named(connection, wanted)
    for item in found:
        if item.state not in ON_HOLD:
            raise guards.wrong_state(item.id, item.state, "CANCELLED or HELD")
        if item.wave not in sources:
            raise guards.overtaken(f"Range {item.id} was moved by somebody else.")
    if len({(row.pipeline, row.table_name) for row in sources.values()}) > 1:
        raise guards.mixed_tables()
    home = sources[found[0].wave]
    target = home.id if _all_of(connection, sources, wanted) else new_wave(connection, new, home, found)
    given = rows(connection, [range_.c.id], ({"id": item} for item in wanted))
    connection.execute(
        update(range_)
        .where(range_.c.id == given.c.id)
        .values(state=RangeState.PLANNED, reason=None, held_for=None, wave=target)
    )
    if target == home.id:
        connection.execute(update(wave).where(wave.c.id == target).values(state=WAVE_TRANSITIONS[Act.RELEASE][1]))
    dissolve_empty(connection, sources)
    record_event(connection, home.pipeline, actor, "release", target, history.released(len(found), reason))
    return target


def _named(connection: Connection, names: Sequence[str]) -> list[RangeRecord]:
    given = rows(connection, [range_.c.id], ({"id": name} for name in names))
    found = {item.id: item for item in reading.ranges(connection, range_.c.id.in_(select(given.c.id)))}
    for name in names:
        if name not in found:
            raise guards.unknown("range", name)
    return [found[name] for name in names]


def _all_of(connection: Connection, sources: dict[str, Any], wanted: Sequence[str]) -> bool:
    home, *others = sources.values()
    if others or home.state not in WAVE_TRANSITIONS[Act.RELEASE][0]:
        return False
    query = select(range_.c.id).where(range_.c.wave == home.id, range_.c.state.in_(UNRESOLVED))
    return set(connection.execute(query).scalars()) <= set(wanted)


def new_wave(connection: Connection, new: str, home: Any, found: Sequence[RangeRecord]) -> str:
    """Add a wave beside another one, to the newest plan of the ranges that go there; returns its id."""
    if connection.execute(select(wave.c.id).where(wave.c.id == new)).first():
        raise guards.taken_id("wave", new)
    plans = sorted({item.plan for item in found})
    newest = select(plan_.c.id).where(plan_.c.id.in_(plans)).order_by(plan_.c.number.desc()).limit(1)
    plan = connection.execute(newest).scalar_one()
    ordinal = select(func.max(wave.c.ordinal) + 1).where(wave.c.plan == plan).scalar_subquery()
    same = {"pipeline": home.pipeline, "table_name": home.table_name}
    connection.execute(
        insert(wave).values(id=new, plan=plan, ordinal=ordinal, state=WaveState.PLANNED, fence=0, **same)
    )
    return new


def advance(connection: Connection, name: str, actor: str) -> tuple[Advance, ...]:
    """See `ports.Ledger.advance`: one set-based pass over the streams whose next range is resolved."""
    next_one = (range_.c.stream == stream.c.id, range_.c.start_offset == stream.c.watermark)
    ready = exists().where(*next_one, range_.c.state.in_(RESOLVED))
    locked = select(stream.c.id).where(stream.c.pipeline == name, ready).order_by(stream.c.id).with_for_update()
    ids = connection.execute(locked).scalars().all()
    if not ids:
        return ()
    reached = connection.execute(_reached(connection, ids)).all()
    values = [
        {
            "id": row.id,
            "version": row.version,
            "stream": row.id,
            "start_offset": row.watermark,
            "end_offset": row.end_offset,
            "row_count": int(row.row_count),
        }
        for row in sorted(reached, key=lambda row: (row.topic, row.topic_id, row.partition))
    ]
    if not values:
        return ()
    given = rows(connection, [stream.c.id, stream.c.version, move.c.start_offset, move.c.end_offset], values)
    guard = (stream.c.version == given.c.version, stream.c.watermark == given.c.start_offset)
    moved = connection.execute(
        update(stream)
        .where(stream.c.id == given.c.id, *guard)
        .values(watermark=given.c.end_offset, version=stream.c.version + 1)
    )
    if moved.rowcount != len(values):
        raise guards.overtaken(f"Streams of pipeline {name} were decided about by somebody else meanwhile.")
    return _tell_moves(connection, name, values, actor)


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


def _tell_moves(connection: Connection, name: str, values: list[dict[str, Any]], actor: str) -> tuple[Advance, ...]:
    latch(connection)
    last = connection.execute(select(func.coalesce(func.max(move.c.sequence), 0))).scalar_one()
    columns = ("stream", "start_offset", "end_offset", "row_count")
    numbered = [{"sequence": last + n, **{c: value[c] for c in columns}} for n, value in enumerate(values, 1)]
    insert_rows(connection, move, numbered, pipeline=name, at=now())
    moves = chronicle.moves(connection, move.c.pipeline == name, move.c.sequence > last)
    record_event(connection, name, actor, "advance", name, history.advanced(moves))
    return moves


def forget_sent(connection: Connection, items: Sequence[int]) -> None:
    """See `ports.Ledger.sent`."""
    given = rows(connection, [outbox.c.id], ({"id": item} for item in items))
    connection.execute(delete(outbox).where(outbox.c.id.in_(select(given.c.id))))
