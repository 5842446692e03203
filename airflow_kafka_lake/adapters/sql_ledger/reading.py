"""The ledger's queries: rows in, values of `core` out; each function is one or two statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, exists, func, select

from airflow_kafka_lake.adapters.sql_ledger.tables import SUMS, binding, meta, pause, pipeline, range_, stream, wave
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import now
from airflow_kafka_lake.adapters.sql_ledger.values import rows
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import LedgerSchemaError
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.ledger.records import PipelineRecord, Published, RangeRecord, WaveRecord, WaveRow
from airflow_kafka_lake.core.ledger.streams import StreamRow
from airflow_kafka_lake.core.ledger.waves import (
    AttemptOutcome,
    AttemptRecord,
    LeaseHolder,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.progress import Progress
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec


def stream_of(row: Any) -> Stream:
    """Return the stream that a row names."""
    return Stream(row.topic, row.topic_id, row.partition)


def ledger_id(connection: Connection) -> str:
    """Return the id given at creation."""
    return connection.execute(select(meta.c.value).where(meta.c.key == "ledger_id")).scalar_one()


def spec_of(text: str) -> PipelineSpec:
    """Read a stored configuration; LedgerSchemaError when it lacks something, for nothing of it is ever guessed."""
    try:
        return PipelineSpec.from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerSchemaError(
            f"A pipeline's configuration on record cannot be read: {error}. Nothing was touched; restore the ledger, "
            f"or make it anew with: {remedies.rebuild()}"
        ) from None


def newest_spec(connection: Connection, name: str) -> Any | None:
    """Return version, digest and spec of a pipeline's newest configuration."""
    query = select(pipeline.c.version, pipeline.c.digest, pipeline.c.spec).where(pipeline.c.name == name)
    return connection.execute(query.order_by(pipeline.c.version.desc()).limit(1)).first()


def pipeline_record(connection: Connection, name: str) -> PipelineRecord | None:
    """Return a pipeline with its table bindings and its pauses."""
    found = newest_spec(connection, name)
    if found is None:
        return None
    query = select(binding.c.table_name, binding.c.uuid).where(binding.c.pipeline == name)
    return PipelineRecord(
        spec=spec_of(found.spec),
        tables={row.table_name: row.uuid for row in connection.execute(query)},
        pauses=pauses(connection, name),
    )


def pauses(connection: Connection, name: str) -> tuple[PauseRow, ...]:
    """Return the pauses of a pipeline and of its plans, oldest first."""
    query = select(pause).where(pause.c.pipeline == name).order_by(pause.c.at, pause.c.id)
    return tuple(
        PauseRow(pipeline=row.pipeline, plan=row.plan, reason=row.reason, actor=row.actor, at=row.at)
        for row in connection.execute(query)
    )


def pipelines(connection: Connection) -> tuple[str, ...]:
    """Return all names, sorted."""
    return tuple(sorted(connection.execute(select(pipeline.c.name).distinct()).scalars()))


def waves(connection: Connection, *where: ColumnElement[bool]) -> tuple[WaveRecord, ...]:
    """Return waves, oldest plan first, in plan order."""
    mine = range_.c.wave == wave.c.id
    # Not a second condition: SQLite would look for all committed ranges of the ledger, once for each wave.
    committed = case((range_.c.state == RangeState.COMMITTED, range_.c.row_count))
    query = (
        select(
            wave,
            now().label("now"),
            select(func.count()).where(mine).scalar_subquery().label("ranges"),
            select(func.sum(committed)).where(mine).scalar_subquery().label("row_count"),
        )
        .join(plan_, plan_.c.id == wave.c.plan)
        .where(*where)
        .order_by(plan_.c.number, wave.c.ordinal, wave.c.id)
    )
    return tuple(
        WaveRecord.of(
            wave_row(row), now=row.now, ranges=row.ranges, rows=None if row.row_count is None else int(row.row_count)
        )
        for row in connection.execute(query)
    )


def stream_row(row: Any) -> StreamRow:
    """Return a stream from its row."""
    return StreamRow(
        pipeline=row.pipeline,
        key=stream_of(row),
        origin=row.origin,
        watermark=row.watermark,
        version=row.version,
        end_seen=row.end_seen,
        leader_epoch=row.leader_epoch,
        since=row.since,
    )


def wave_row(row: Any) -> WaveRow:
    """Return a wave from its row."""
    return WaveRow(
        id=row.id,
        pipeline=row.pipeline,
        plan=row.plan,
        ordinal=row.ordinal,
        table=row.table_name,
        state=row.state,
        fence=row.fence,
        attempt=row.attempt,
        holder=None if row.lease_holder is None else LeaseHolder.parse(row.lease_holder),
        lease_until=row.lease_until,
        snapshot=row.snapshot_id,
        committed_at=row.committed_at,
    )


def waves_of(
    connection: Connection, name: str, states: Iterable[WaveState] | None, crossing: Slice | None
) -> tuple[WaveRecord, ...]:
    """Return a pipeline's waves in some states, or with ranges that share offsets with a slice."""
    where = [wave.c.pipeline == name]
    if states is not None:
        where.append(wave.c.state.in_(list(states)))
    if crossing is not None:
        mine = select(range_.c.wave).join(stream, stream.c.id == range_.c.stream)
        where.append(wave.c.id.in_(mine.where(stream.c.pipeline == name, *sharing(crossing))))
    return waves(connection, *where)


def one_wave(connection: Connection, name: str) -> WaveRecord:
    """Return one wave; UnknownSubjectError when there is none."""
    found = waves(connection, wave.c.id == name)
    if not found:
        raise guards.unknown("wave", name)
    return found[0]


def ranges(
    connection: Connection, *where: ColumnElement[bool], ids: dict[Stream, int] | None = None
) -> tuple[RangeRecord, ...]:
    """Return ranges, sorted by stream and start; `ids` learns the number of each of their streams."""
    key = (stream.c.pipeline, stream.c.topic, stream.c.topic_id, stream.c.partition)
    query = select(range_, *key).join(stream, stream.c.id == range_.c.stream).where(*where)
    found: dict[int, list[RangeRecord]] = {}
    streams: dict[int, Stream] = {}
    for row in connection.execute(query.order_by(range_.c.stream, range_.c.start_offset, range_.c.end_offset)):
        if row.stream not in streams:
            streams[row.stream], found[row.stream] = stream_of(row), []
        found[row.stream].append(_range(row, streams[row.stream]))
    if ids is not None:
        ids.update({key: number for number, key in streams.items()})
    return tuple(item for number in sorted(streams, key=lambda one: streams[one]) for item in found[number])


def _range(row: Any, key: Stream) -> RangeRecord:
    return RangeRecord(
        id=row.id,
        pipeline=row.pipeline,
        plan=row.plan or row.skip,
        wave=row.wave or row.skip,
        slice=Slice(key, OffsetRange(row.start_offset, row.end_offset)),
        state=row.state,
        reason=row.reason,
        estimated_bytes=row.estimated_bytes,
        rows=row.row_count,
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        accounting=None if row.visible is None else accounting_of(row),
        leader_epoch=row.leader_epoch,
        generation=row.generation,
        fewer_accepted=bool(row.fewer_accepted),
        held_for=row.held_for,
        skip=row.skip,
    )


def accounting_of(row: Any) -> Accounting:
    return Accounting(**{name: getattr(row, name) for name in SUMS})


def ranges_by(
    pipeline: str | None, wave: str | None, plan: str | None, states: Iterable[RangeState] | None
) -> list[ColumnElement[bool]]:
    """Return the condition of the ranges of one pipeline, wave or plan."""
    chosen = [
        column == value
        for column, value in ((stream.c.pipeline, pipeline), (range_.c.wave, wave), (range_.c.plan, plan))
        if value is not None
    ]
    if len(chosen) != 1:
        raise ValueError("name exactly one of pipeline, wave and plan")
    if states is not None:
        chosen.append(range_.c.state.in_(list(states)))
    return chosen


def sharing(item: Slice) -> list[ColumnElement[bool]]:
    """Return the condition of the ranges, joined with their streams, that share offsets with a slice."""
    key = item.stream
    mine = [stream.c.topic == key.topic, stream.c.topic_id == key.topic_id, stream.c.partition == key.partition]
    return [*mine, *overlapping(item.range)]


def overlapping(offsets: OffsetRange) -> list[ColumnElement[bool]]:
    """Return the condition of the ranges of one stream that have some offsets."""
    return [range_.c.start_offset < offsets.end, range_.c.end_offset > offsets.start]


def one_range(connection: Connection, name: str) -> RangeRecord:
    """Return one range; UnknownSubjectError when there is none."""
    found = ranges(connection, range_.c.id == name)
    if not found:
        raise guards.unknown("range", name)
    return found[0]


def attempts(connection: Connection, name: str | None, of_pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
    """Return the attempts of one wave, or of a pipeline, by wave and fence."""
    if of_pipeline is None:
        return attempts_where(connection, attempt_.c.wave == name)
    mine = select(wave.c.id).where(wave.c.pipeline == of_pipeline)
    return attempts_where(connection, attempt_.c.wave.in_(mine))


def attempts_where(connection: Connection, where: ColumnElement[bool]) -> tuple[AttemptRecord, ...]:
    """Return some attempts, by wave and fence."""
    query = select(attempt_).where(where).order_by(attempt_.c.wave, attempt_.c.fence)
    return tuple(_attempt(row) for row in connection.execute(query))


def _attempt(row: Any) -> AttemptRecord:
    return AttemptRecord(
        wave=row.wave,
        fence=row.fence,
        attempt=row.attempt,
        holder=row.lease_holder,
        job=row.job,
        base=row.base,
        audited=row.audited,
        outcome=row.outcome,
        error=row.error,
        cause=row.cause,
        started_at=row.started_at,
        ended_at=row.ended_at,
        staged_bytes=row.staged_bytes,
        progress=None if row.step is None else _progress(row),
        actor=row.actor,
        application=row.application,
    )


def _progress(row: Any) -> Progress:
    return Progress(
        step=row.step,
        rows=row.rows_done,
        rows_expected=row.rows_expected,
        bytes=row.bytes_done,
        bytes_expected=row.bytes_expected,
        since=row.step_at,
        at=row.progress_at,
    )


def published(connection: Connection, name: str, table: str | None, newest: int | None) -> tuple[Published, ...]:
    """Return the committed waves that brought rows, newest committed first."""
    brought = exists().where(range_.c.wave == wave.c.id, range_.c.state == RangeState.COMMITTED, range_.c.row_count > 0)
    tried = attempt_.alias()
    base = (
        select(tried.c.base)
        .where(tried.c.wave == wave.c.id, tried.c.base.is_not(None))
        .order_by(tried.c.fence.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = (
        select(wave.c.id, wave.c.table_name, wave.c.snapshot_id, attempt_.c.attempt, base.label("base"))
        .join(attempt_, and_(attempt_.c.wave == wave.c.id, attempt_.c.outcome == AttemptOutcome.COMMITTED))
        .where(wave.c.pipeline == name, wave.c.state == WaveState.COMMITTED, brought)
        .order_by(wave.c.committed_at.desc(), wave.c.id)
        .limit(newest)
    )
    if table is not None:
        query = query.where(wave.c.table_name == table)
    return tuple(
        Published(wave=row.id, table=row.table_name, attempt=row.attempt, snapshot=row.snapshot_id, base=row.base)
        for row in connection.execute(query)
    )


def standing(connection: Connection, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
    """Return those attempts that are on record, with the state of their waves."""
    if not attempts:
        return {}
    given = rows(connection, [attempt_.c.attempt], ({"attempt": item} for item in attempts))
    query = (
        select(attempt_, wave.c.state.label("wave_state"))
        .join(wave, wave.c.id == attempt_.c.wave)
        .join(given, given.c.attempt == attempt_.c.attempt)
    )
    return {row.attempt: (_attempt(row), row.wave_state) for row in connection.execute(query)}
