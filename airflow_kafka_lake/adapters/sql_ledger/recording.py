"""Configurations, plans, events: what is written down as it was decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, tuple_, update

from airflow_kafka_lake.adapters.sql_ledger import reading, segmenting
from airflow_kafka_lake.adapters.sql_ledger.tables import (
    binding,
    event,
    meta,
    outbox,
    pipeline,
    range_,
    snapshot,
    stream,
    told,
    wave,
)
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import insert_rows, now, rows, upsert
from airflow_kafka_lake.core.clocks import HostClock
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.planning.plan import Plan, PlannedStream
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec

PLANS_KEPT = 1_000
"""Of how many plans of all pipelines, the newest, the ledger keeps what they saw: six weeks of one an hour."""

FORGOTTEN_AT_ONCE = 100_000
"""How many streams that older plans saw one plan forgets at most."""


def latch(connection: Connection) -> None:
    """Hold the ledger's one latch until the transaction ends, so that sequences grow in the order of commits.

    Taken last, after all other locks: a reader that has seen sequence n never misses a smaller one.
    """
    connection.execute(select(meta.c.value).where(meta.c.key == "ledger_id").with_for_update())


def record_event(connection: Connection, name: str, actor: str, kind: str, subject: str, detail: str) -> None:
    """Write one line of history, as the last statement of a decision."""
    latch(connection)
    values = {"actor": actor, "kind": kind, "subject": subject, "detail": detail}
    connection.execute(insert(event).values(pipeline=name, at=now(), **values))


def save_pipeline(connection: Connection, spec: PipelineSpec, actor: str) -> None:
    """See `ports.Ledger.save_pipeline`."""
    latch(connection)
    newest = reading.newest_spec(connection, spec.name)
    if newest is not None and newest.digest == spec.digest:
        return
    version = _insert_version(connection, spec, newest)
    record_event(connection, spec.name, actor, "pipeline", spec.name, f"version {version}")


def _insert_version(connection: Connection, spec: PipelineSpec, newest: Any | None) -> int:
    version = newest.version + 1 if newest is not None else 1
    text = json.dumps(spec.to_json(), sort_keys=True)
    connection.execute(
        insert(pipeline).values(name=spec.name, version=version, digest=spec.digest, spec=text, recorded_at=now())
    )
    return version


def bind_table(connection: Connection, name: str, table: str, uuid: str, actor: str) -> str:
    """See `ports.Ledger.bind_table`."""
    statement = upsert(connection, binding).values(pipeline=name, table_name=table, uuid=uuid)
    if connection.execute(statement.on_conflict_do_nothing()).rowcount:
        record_event(connection, name, actor, "table", table, uuid)
    where = (binding.c.pipeline == name, binding.c.table_name == table)
    return connection.execute(select(binding.c.uuid).where(*where)).scalar_one()


def tell(connection: Connection, name: str, sequence: int) -> None:
    """See `ports.Ledger.told`."""
    statement = upsert(connection, told).values(pipeline=name, sequence=sequence)
    newer = told.c.sequence < statement.excluded.sequence
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["pipeline"], set_={"sequence": statement.excluded.sequence}, where=newer
        )
    )


def record_plan(connection: Connection, plan: Plan, actor: str, clock: HostClock | None = None) -> None:
    """See `ports.Ledger.record_plan`."""
    if clock is not None:
        guards.check_clock(clock, connection.execute(select(now())).scalar_one())
    name = plan.spec.name
    known = _lock_streams(connection, plan)
    for item in plan.streams:
        found = known.get(item.snapshot.stream)
        if (found.version if found else None) != item.version:
            raise guards.overtaken(
                f"Stream {item.snapshot.stream} of pipeline {name} was planned by somebody else first."
            )
    if connection.execute(select(plan_.c.number).where(plan_.c.id == plan.id)).first():
        raise guards.overtaken(f"Plan {plan.id} is on record already.")
    guards.check_origins(plan, {key: row.origin for key, row in known.items()})
    version = plan_version(connection, plan.spec)
    ids = _write_streams(connection, plan, {key: row.id for key, row in known.items()})
    number = connection.execute(
        insert(plan_)
        .values(
            id=plan.id,
            pipeline=name,
            pipeline_version=version,
            observed_at=plan.observed_at,
            recorded_at=now(),
            actor=actor,
            detail=json.dumps(_detail(plan)),
        )
        .returning(plan_.c.number)
    ).scalar_one()
    _write_snapshots(connection, plan, number, ids)
    insert_rows(
        connection,
        wave,
        [{"id": item.id, "ordinal": n, "table_name": item.table} for n, item in enumerate(plan.waves)],
        plan=plan.id,
        pipeline=name,
        state=WaveState.PLANNED,
        fence=0,
    )
    insert_rows(
        connection,
        range_,
        _ranges(plan, ids),
        plan=plan.id,
        state=RangeState.PLANNED,
        generation=0,
        fewer_accepted=False,
    )
    _tell_origins(connection, plan, ids)
    segmenting.grow(connection, name, plan.growth, plan.observed_at)
    record_event(connection, name, actor, "plan", plan.id, history.planned(plan))


def _tell_origins(connection: Connection, plan: Plan, ids: dict[Stream, int]) -> None:
    """Put the origins of new streams into the outbox: a rebuild finds them nowhere else."""
    new = [
        {
            "stream": ids[item.snapshot.stream],
            "table_name": plan.spec.table_for(item.snapshot.stream.topic),
            "start_offset": item.origin,
            "end_offset": item.origin + 1,
        }
        for item in plan.streams
        if item.version is None
    ]
    if not new:
        return
    same = {"pipeline": plan.spec.name, "kind": "origin", "wave": plan.id, "attempt": reading.ledger_id(connection)}
    numbers = dict.fromkeys(("fence", "generation", "row_count", *reading.SUMS), 0)
    insert_rows(connection, outbox, new, recorded_at=now(), **same, **numbers)


def _detail(plan: Plan) -> dict[str, Any]:
    cost = plan.forecast
    return {
        "blocked": [[item.topic, item.partition, item.reason] for item in plan.blocked],
        "estimated_records": cost.records,
        "estimated_bytes": cost.bytes,
        "estimated_seconds": cost.seconds,
    }


def plan_version(connection: Connection, spec: PipelineSpec) -> int:
    """Return the version of a configuration, recording it when it is new."""
    where = (pipeline.c.name == spec.name, pipeline.c.digest == spec.digest)
    found = connection.execute(
        select(pipeline.c.version).where(*where).order_by(pipeline.c.version.desc()).limit(1)
    ).scalar()
    if found is not None:
        return int(found)
    return _insert_version(connection, spec, reading.newest_spec(connection, spec.name))


def _stream_values(item: PlannedStream, plan: Plan) -> dict[str, Any]:
    return {
        "topic": item.snapshot.stream.topic,
        "topic_id": item.snapshot.stream.topic_id,
        "partition": item.snapshot.stream.partition,
        "origin": item.origin,
        "watermark": item.origin,
        "end_seen": item.snapshot.readable_end(plan.spec.isolation),
        "leader_epoch": item.snapshot.leader_epoch,
    }


def _lock_streams(connection: Connection, plan: Plan) -> dict[Stream, Any]:
    names = ("topic", "topic_id", "partition")
    given = rows(
        connection,
        [stream.c[name] for name in names],
        (dict(zip(names, item.snapshot.stream, strict=True)) for item in plan.streams),
    )
    query = (
        select(stream.c.id, stream.c.version, stream.c.origin, *(stream.c[name] for name in names))
        .join(given, _same(given, names))
        .where(stream.c.pipeline == plan.spec.name)
        .order_by(stream.c.id)
        .with_for_update(of=stream)
    )
    return {Stream(row.topic, row.topic_id, row.partition): row for row in connection.execute(query)}


def _same(given: Any, names: Sequence[str]) -> ColumnElement[bool]:
    first, *more = [stream.c[name] == given.c[name] for name in names]
    for condition in more:
        first &= condition
    return first


def _write_streams(connection: Connection, plan: Plan, ids: dict[Stream, int]) -> dict[Stream, int]:
    new = [item for item in plan.streams if item.version is None]
    old = [
        {"id": ids[item.snapshot.stream], "version": item.version, **_stream_values(item, plan)}
        for item in plan.streams
        if item.version is not None
    ]
    if old:
        given = rows(connection, [stream.c[n] for n in ("id", "version", "end_seen", "leader_epoch")], old)
        written = connection.execute(
            update(stream)
            .where(stream.c.id == given.c.id, stream.c.version == given.c.version)
            .values(version=stream.c.version + 1, end_seen=given.c.end_seen, leader_epoch=given.c.leader_epoch)
        )
        if written.rowcount != len(old):
            raise guards.overtaken(f"Streams of pipeline {plan.spec.name} were planned by somebody else first.")
    if not new:
        return ids
    for since in (plan.observed_at, None):
        born = [_stream_values(item, plan) for item in new if plan.since(item) == since]
        insert_rows(connection, stream, born, pipeline=plan.spec.name, version=1, since=since)
    return {key: row.id for key, row in _lock_streams(connection, plan).items()}


def _write_snapshots(connection: Connection, plan: Plan, number: int, ids: dict[Stream, int]) -> None:
    """Keep what was seen of the streams of which something is planned, and forget what older plans saw.

    What is forgotten at once has a bound, so that the first plan after an upgrade is not a slow one.
    """
    planned = {item.stream for item in plan.ranges}
    seen = [_snapshot(item, ids) for item in plan.streams if item.snapshot.stream in planned]
    insert_rows(connection, snapshot, seen, plan=plan.id, number=number)
    key = (snapshot.c.plan, snapshot.c.stream)
    old = select(*key).where(snapshot.c.number <= number - PLANS_KEPT).order_by(snapshot.c.number)
    connection.execute(delete(snapshot).where(tuple_(*key).in_(old.limit(FORGOTTEN_AT_ONCE))))


def _snapshot(item: PlannedStream, ids: dict[Stream, int]) -> dict[str, Any]:
    seen = item.snapshot
    return {
        "stream": ids[seen.stream],
        "leader_epoch": seen.leader_epoch,
        "log_start": seen.log_start,
        "last_stable": seen.last_stable,
        "high_watermark": seen.high_watermark,
        "group_offset": seen.group_offset,
        "group_offset_state": seen.group_offset_state,
        "start_offset": item.start,
        "end_offset": item.end,
        "reason": item.reason,
    }


def _ranges(plan: Plan, ids: dict[Stream, int]) -> list[dict[str, Any]]:
    epochs = {item.snapshot.stream: item.snapshot.leader_epoch for item in plan.streams}
    return [
        {
            "id": item.id,
            "wave": group.id,
            "stream": ids[item.stream],
            "start_offset": item.range.start,
            "end_offset": item.range.end,
            "estimated_bytes": item.estimated_bytes,
            "leader_epoch": epochs[item.stream],
        }
        for group in plan.waves
        for item in group.ranges
    ]
