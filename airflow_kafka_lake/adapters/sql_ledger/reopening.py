"""Reopen: a stretch that was settled or skipped is planned again, and what is beside it keeps its share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, insert, select, update

from airflow_kafka_lake.adapters.sql_ledger import reading
from airflow_kafka_lake.adapters.sql_ledger.deciding import dissolve_empty, lock_waves
from airflow_kafka_lake.adapters.sql_ledger.recording import record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import outbox, range_, snapshot, stream, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import Offsets, insert_rows, now, rows
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.reopening import Cut, Reopening
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState

_HOMES = ("plan", "wave", "skip")
_NUMBERS = ("row_count", "first_offset", "last_offset", *reading.SUMS)
_CHANGED = (
    "end_offset",
    "generation",
    "state",
    "reason",
    "held_for",
    "fewer_accepted",
    "estimated_bytes",
    "leader_epoch",
    *_HOMES,
    *_NUMBERS,
)


def reopen(connection: Connection, what: Reopening, actor: str) -> int:
    """See `ports.Ledger.reopen`."""
    home = _lock(connection, what)
    if connection.execute(select(plan_.c.id).where(plan_.c.id == what.id)).first():
        raise guards.taken_id("plan", what.id)
    _write_plan(connection, what, home.id, actor)
    _write_waves(connection, what, actor)
    _write_ranges(connection, what, home.id)
    _write_receipts(connection, what, home.id)
    dissolve_empty(connection, {item.wave for item in what.sources if item.state is RangeState.CANCELLED})
    watermark = max(home.origin, min(home.watermark, what.stretch.start))
    connection.execute(
        update(stream).where(stream.c.id == home.id).values(watermark=watermark, version=stream.c.version + 1)
    )
    said = history.reopened(what, home.watermark, watermark)
    record_event(connection, what.pipeline, actor, "reopen", what.id, said)
    return watermark


def _lock(connection: Connection, what: Reopening) -> Any:
    """Lock the stream, then the waves of its ranges, and refuse when others have changed any of it since."""
    topic, topic_id, partition = what.stream
    query = (
        select(stream.c.id, stream.c.origin, stream.c.watermark, stream.c.version)
        .where(stream.c.pipeline == what.pipeline, stream.c.topic == topic)
        .where(stream.c.topic_id == topic_id, stream.c.partition == partition)
        .with_for_update()
    )
    home = connection.execute(query).first()
    if home is None or home.version != what.version:
        raise guards.overtaken_reopen(what)
    lock_waves(connection, {item.wave for item in what.sources})
    crossing = (range_.c.start_offset < what.stretch.end, range_.c.end_offset > what.stretch.start)
    if reading.ranges(connection, range_.c.stream == home.id, *crossing) != what.sources:
        raise guards.overtaken_reopen(what)
    return home


def _write_plan(connection: Connection, what: Reopening, key: int, actor: str) -> None:
    newest = reading.newest_spec(connection, what.pipeline)
    assert newest is not None
    number = connection.execute(
        insert(plan_)
        .values(
            id=what.id,
            pipeline=what.pipeline,
            pipeline_version=newest.version,
            observed_at=now(),
            recorded_at=now(),
            actor=actor,
            detail="{}",
        )
        .returning(plan_.c.number)
    ).scalar_one()
    connection.execute(
        insert(snapshot).values(
            plan=what.id,
            stream=key,
            leader_epoch=what.seen.leader_epoch,
            log_start=what.seen.log_start,
            last_stable=what.seen.last_stable,
            high_watermark=what.seen.high_watermark,
            group_offset_state=what.seen.group_offset_state,
            start_offset=what.stretch.start,
            end_offset=what.stretch.end,
            reason=what.reason,
            number=number,
        )
    )


def _write_waves(connection: Connection, what: Reopening, actor: str) -> None:
    token = what.token
    values = [
        {"id": name, "ordinal": number, "fence": token.fence if name == token.wave else 0}
        for number, name in enumerate(what.waves)
    ]
    same = {"plan": what.id, "pipeline": what.pipeline, "table_name": what.table, "state": WaveState.PLANNED}
    insert_rows(connection, wave, values, **same)
    connection.execute(
        insert(attempt_).values(
            wave=token.wave,
            fence=token.fence,
            attempt=token.attempt,
            holder=guards.REOPEN_HOLDER,
            outcome=AttemptOutcome.ABANDONED,
            error=guards.MOVED_MAIN.format(actor=actor),
            started_at=now(),
            ended_at=now(),
        )
    )


def _write_ranges(connection: Connection, what: Reopening, key: int) -> None:
    """Shrink what was cut before its other pieces are inserted: at no moment do two ranges overlap."""
    homes = _homes(connection, what.sources)
    first = [cut for cut in what.cuts if cut.record.id == cut.source.id]
    given = rows(
        connection,
        [range_.c[name] for name in ("id", *_CHANGED)],
        ({"id": cut.record.id, **_values(cut, homes)} for cut in first),
    )
    connection.execute(
        update(range_).where(range_.c.id == given.c.id).values({name: given.c[name] for name in _CHANGED})
    )
    new = [
        {"id": cut.record.id, "start_offset": cut.record.range.start, **_values(cut, homes)}
        for cut in what.cuts
        if cut.record.id != cut.source.id
    ]
    insert_rows(connection, range_, new, stream=key)


def _homes(connection: Connection, sources: Iterable[RangeRecord]) -> dict[str, dict[str, Any]]:
    """Return plan, wave and skip of some ranges as they are stored: a skip of what nobody had planned has no wave."""
    given = rows(connection, [range_.c.id], ({"id": item.id} for item in sources))
    query = select(range_.c.id, *(range_.c[name] for name in _HOMES)).join(given, given.c.id == range_.c.id)
    return {row.id: {name: getattr(row, name) for name in _HOMES} for row in connection.execute(query)}


def _values(cut: Cut, homes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    record = cut.record
    again = {"plan": record.plan, "wave": record.wave, "skip": None}
    return {
        "end_offset": record.range.end,
        "generation": record.generation,
        "state": record.state,
        "reason": record.reason,
        "held_for": Offsets.text(record.held_for),
        "fewer_accepted": record.fewer_accepted,
        "estimated_bytes": record.estimated_bytes,
        "leader_epoch": record.leader_epoch,
        **(again if cut.is_read_again else homes[cut.source.id]),
        **_numbers(record),
    }


def _numbers(record: RangeRecord) -> dict[str, Any]:
    sums = record.accounting.to_json() if record.accounting else dict.fromkeys(reading.SUMS)
    return {
        "row_count": record.rows,
        "first_offset": record.first_offset,
        "last_offset": record.last_offset,
        **sums,
    }


def _write_receipts(connection: Connection, what: Reopening, key: int) -> None:
    brought = _brought(connection, {cut.source.wave for cut in what.cuts if cut.is_kept})
    told = [
        _receipt("reopen", cut, what.token.attempt, what.token.fence)
        if cut.is_reopened
        else _receipt("published", cut, *brought[cut.source.wave])
        for cut in what.cuts
        if cut.is_reopened or cut.is_kept
    ]
    same = {"pipeline": what.pipeline, "table_name": what.table, "stream": key}
    insert_rows(connection, outbox, told, recorded_at=now(), **same)


def _brought(connection: Connection, waves: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return the attempt that brought each wave into the lake, and its fence."""
    query = select(attempt_.c.wave, attempt_.c.attempt, attempt_.c.fence).where(
        attempt_.c.wave.in_(sorted(waves)), attempt_.c.outcome == AttemptOutcome.COMMITTED
    )
    return {row.wave: (row.attempt, row.fence) for row in connection.execute(query)}


def _receipt(kind: str, cut: Cut, attempt: str, fence: int) -> dict[str, Any]:
    record = cut.record
    return {
        "kind": kind,
        "wave": record.wave,
        "attempt": attempt,
        "fence": fence,
        "start_offset": record.range.start,
        "end_offset": record.range.end,
        "generation": record.generation,
        "row_count": record.rows or 0,
        "first_offset": record.first_offset,
        "last_offset": record.last_offset,
        **(record.accounting or Accounting()).to_json(),
    }
