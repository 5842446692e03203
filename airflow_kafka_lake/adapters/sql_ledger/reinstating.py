"""The end of a rebuild: one transaction that makes the record agree with the lake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, literal, select, update

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.chronicle import put_into_outbox
from airflow_kafka_lake.adapters.sql_ledger.deciding import FREE, abandon
from airflow_kafka_lake.adapters.sql_ledger.recording import plan_version, record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import binding, range_, skip, stream, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import Offsets, Timestamp, insert_rows, now, rows, upsert
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.waves import OPEN, AttemptOutcome, WaveState
from airflow_kafka_lake.core.rebuilding.editing import edits
from airflow_kafka_lake.core.rebuilding.restoration import RESTORED, Edits, Placed, Restoration, RestoredWave
from airflow_kafka_lake.core.slices import Stream


def reinstate(connection: Connection, what: Restoration, actor: str) -> Edits:
    """See `ports.Ledger.reinstate`."""
    name = what.spec.name
    _lock(connection, what)
    _write_plan(connection, what, actor)
    ids = _write_streams(connection, what)
    before = reading.ranges(connection, stream.c.pipeline == name)
    states = {row.id: row.state for row in connection.execute(select(wave.c.id, wave.c.state).where(_mine(name)))}
    origins = {key: row.origin for key, row in ids.items()}
    changed = edits(what, before, states, origins)
    _write_waves(connection, what, changed)
    _write_skips(connection, what, ids)
    _write_ranges(connection, changed, ids)
    _write_watermarks(connection, changed, ids)
    put_into_outbox(connection, name, what.receipts, {key: row.id for key, row in ids.items()})
    record_event(connection, name, actor, "rebuild", what.id, history.rebuilt(what))
    return changed


def _mine(name: str) -> Any:
    return wave.c.pipeline == name


def _lock(connection: Connection, what: Restoration) -> None:
    """Lock streams, then waves, and refuse when others have decided or claimed something since.

    All waves, not the open ones only: who claimed a planned one meanwhile would work on ranges that this cuts.
    """
    name = what.spec.name
    found = connection.execute(select(stream).where(stream.c.pipeline == name).order_by(stream.c.id).with_for_update())
    versions = {Stream(row.topic, row.topic_id, row.partition): row.version for row in found}
    held = {(key.wave, key.fence, key.attempt) for key in what.guards}
    columns = select(wave.c.id, wave.c.fence, wave.c.attempt, wave.c.state)
    waves = connection.execute(columns.where(_mine(name)).order_by(wave.c.id).with_for_update())
    open_ = {(row.id, row.fence, row.attempt) for row in waves if row.state in OPEN}
    if versions != dict(what.versions) or open_ != held:
        raise guards.overtaken_rebuild(name)
    if connection.execute(select(plan_.c.id).where(plan_.c.id == what.id)).first():
        raise guards.overtaken_rebuild(name)


def _write_plan(connection: Connection, what: Restoration, actor: str) -> None:
    connection.execute(
        insert(plan_).values(
            id=what.id,
            pipeline=what.spec.name,
            pipeline_version=plan_version(connection, what.spec),
            observed_at=what.observed_at,
            recorded_at=now(),
            actor=actor,
            detail="{}",
        )
    )
    for table, uuid in what.tables.items():
        statement = upsert(connection, binding).values(pipeline=what.spec.name, table_name=table, uuid=uuid)
        connection.execute(
            statement.on_conflict_do_update(index_elements=["pipeline", "table_name"], set_={"uuid": uuid})
        )


def _write_streams(connection: Connection, what: Restoration) -> dict[Stream, Any]:
    new = [
        {
            **item.stream._asdict(),
            "origin": item.origin,
            "watermark": item.origin,
            "end_seen": item.end_seen,
            "leader_epoch": item.leader_epoch,
        }
        for item in what.streams
    ]
    insert_rows(connection, stream, new, pipeline=what.spec.name, version=0)
    found = connection.execute(select(stream).where(stream.c.pipeline == what.spec.name))
    ids = {Stream(row.topic, row.topic_id, row.partition): row for row in found}
    longer = [{"id": ids[key].id, "end_seen": end, "leader_epoch": epoch} for key, (end, epoch) in what.ends.items()]
    given = rows(connection, [stream.c.id, stream.c.end_seen, stream.c.leader_epoch], longer)
    connection.execute(
        update(stream)
        .where(stream.c.id == given.c.id)
        .values(end_seen=given.c.end_seen, leader_epoch=given.c.leader_epoch)
    )
    return ids


def _write_waves(connection: Connection, what: Restoration, changed: Edits) -> None:
    for ordinal, item in enumerate(what.in_order):
        _write_wave(connection, what, item, ordinal)
    new = [
        {"id": name, "table_name": table, "ordinal": ordinal}
        for ordinal, (name, table) in enumerate(changed.new_waves.items(), len(what.in_order))
    ]
    same = {"plan": what.id, "pipeline": what.spec.name, "state": WaveState.PLANNED}
    insert_rows(connection, wave, new, fence=0, **same)
    ended = sorted({*changed.waves, *(key.wave for key in what.guards)})
    given = rows(connection, [wave.c.id, wave.c.state], ({"id": n, "state": s} for n, s in changed.waves.items()))
    connection.execute(update(wave).where(wave.c.id == given.c.id).values(state=given.c.state))
    connection.execute(update(wave).where(wave.c.id.in_(ended)).values(**FREE))
    abandon(connection, ended, guards.ENDED_BY_CLAIM)
    dissolved = [name for name, state in changed.waves.items() if state is WaveState.DISSOLVED]
    abandon(connection, dissolved, (AttemptOutcome.COMMITTED,))
    lost = rows(connection, [wave.c.id], ({"id": name} for name in sorted(what.undone)))
    connection.execute(update(wave).where(wave.c.id == lost.c.id).values(snapshot_id=None))
    seen = rows(connection, [wave.c.id, wave.c.fence], ({"id": n, "fence": f} for n, f in what.fences.items()))
    connection.execute(
        update(wave)
        .where(wave.c.id == seen.c.id, _mine(what.spec.name), wave.c.fence < seen.c.fence)
        .values(fence=seen.c.fence)
    )


def _write_wave(connection: Connection, what: Restoration, item: RestoredWave, ordinal: int) -> None:
    """Record a wave as COMMITTED by an attempt; one that the ledger knows keeps its place and its own fence."""
    new = upsert(connection, wave).values(
        id=item.wave,
        plan=what.id,
        ordinal=ordinal,
        pipeline=what.spec.name,
        table_name=item.table,
        state=WaveState.COMMITTED,
        fence=0,
    )
    connection.execute(new.on_conflict_do_nothing())
    abandon(connection, [item.wave], guards.ENDED_BY_SETTLE)
    place = _place(connection, item)
    connection.execute(
        update(wave)
        .where(wave.c.id == item.wave)
        .values(
            state=WaveState.COMMITTED,
            fence=case((wave.c.fence < place, place), else_=wave.c.fence),
            snapshot_id=item.snapshot,
            settled_at=func.coalesce(wave.c.settled_at, literal(item.at, Timestamp)),
            **FREE,
        )
    )


def _place(connection: Connection, item: RestoredWave) -> int:
    """Record an attempt as the one in the lake; returns the highest fence of its wave.

    Another attempt with its fence was given it by the older ledger, after the lake's: that one gets a new number.
    """
    mine, same = attempt_.c.attempt == item.attempt, attempt_.c.wave == item.wave
    if connection.execute(select(attempt_.c.fence).where(mine)).first():
        ended = {"ended_at": func.coalesce(attempt_.c.ended_at, literal(item.at, Timestamp)), "error": None}
        connection.execute(update(attempt_).where(mine).values(outcome=AttemptOutcome.COMMITTED, **ended))
    else:
        reached = connection.execute(select(wave.c.fence).where(wave.c.id == item.wave)).scalar_one()
        highest = connection.execute(select(func.max(attempt_.c.fence)).where(same)).scalar() or 0
        free = max(reached, highest, item.fence) + 1
        connection.execute(update(attempt_).where(same, attempt_.c.fence == item.fence).values(fence=free))
        connection.execute(
            insert(attempt_).values(
                wave=item.wave,
                fence=item.fence,
                attempt=item.attempt,
                holder=guards.RESTORED_HOLDER,
                outcome=AttemptOutcome.COMMITTED,
                started_at=item.at,
                ended_at=item.at,
            )
        )
    return int(connection.execute(select(func.max(attempt_.c.fence)).where(same)).scalar_one())


def _write_skips(connection: Connection, what: Restoration, ids: Mapping[Stream, Any]) -> None:
    known = set(connection.execute(select(skip.c.id)).scalars())
    for item in what.skips:
        if item.id not in known:
            known.add(item.id)
            connection.execute(
                insert(skip).values(
                    id=item.id,
                    stream=ids[item.stream].id,
                    start_offset=item.passed.ranges[0].start,
                    end_offset=item.passed.ranges[-1].end,
                    offsets=item.passed.span,
                    reason=RESTORED,
                    actor="rebuild",
                    at=item.at,
                    acknowledge_order=False,
                )
            )


def _write_ranges(connection: Connection, changed: Edits, ids: Mapping[Stream, Any]) -> None:
    """Remove what gives way before its pieces come: at no moment do two ranges overlap."""
    gone = rows(connection, [range_.c.id], ({"id": name} for name in sorted(changed.removed)))
    query = select(range_.c.id, range_.c.plan, range_.c.wave, range_.c.skip).join(gone, gone.c.id == range_.c.id)
    homes = {row.id: {"plan": row.plan, "wave": row.wave, "skip": row.skip} for row in connection.execute(query)}
    connection.execute(delete(range_).where(range_.c.id.in_(select(gone.c.id))))
    insert_rows(connection, range_, [_values(item, ids, homes) for item in changed.placed])


def _values(item: Placed, ids: Mapping[Stream, Any], homes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    record = item.record
    if item.source is not None:
        home = homes[item.source]
    elif item.skip is not None:
        home = {"plan": None, "wave": None, "skip": item.skip}
    else:
        home = {"plan": record.plan, "wave": record.wave, "skip": None}
    sums = record.accounting.to_json() if record.accounting else dict.fromkeys(reading.SUMS)
    return {
        "id": record.id,
        "stream": ids[record.stream].id,
        **home,
        "start_offset": record.range.start,
        "end_offset": record.range.end,
        "generation": record.generation,
        "state": record.state,
        "reason": record.reason,
        "held_for": Offsets.text(record.held_for),
        "fewer_accepted": record.fewer_accepted,
        "estimated_bytes": record.estimated_bytes,
        "leader_epoch": record.leader_epoch,
        "row_count": record.rows,
        "first_offset": record.first_offset,
        "last_offset": record.last_offset,
        **sums,
    }


def _write_watermarks(connection: Connection, changed: Edits, ids: Mapping[Stream, Any]) -> None:
    reached = changed.watermarks
    fallen = [{"id": ids[key].id, "watermark": min(ids[key].watermark, end)} for key, end in reached.items()]
    given = rows(connection, [stream.c.id, stream.c.watermark], fallen)
    connection.execute(
        update(stream)
        .where(stream.c.id == given.c.id)
        .values(watermark=given.c.watermark, version=stream.c.version + 1)
    )
