"""The ledger's queries: rows in, values of `core` out; each function is one or two statements."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    null,
    select,
    true,
    union_all,
)

from airflow_kafka_lake.adapters.sql_ledger.tables import (
    SUMS,
    binding,
    event,
    layout,
    meta,
    move,
    notified,
    now,
    outbox,
    pause,
    pipeline,
    range_,
    request,
    rows,
    segment,
    segment_parent,
    skip,
    stream,
    upsert,
    wave,
)
from airflow_kafka_lake.adapters.sql_ledger.tables import attempt as attempt_
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import LedgerSchemaError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Edit, Entry, RequestRow
from airflow_kafka_lake.core.ledger.guards import PauseRow, lease_is_live
from airflow_kafka_lake.core.ledger.history import Event, EventRef
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    PipelineRecord,
    PublishedWave,
    RangeRecord,
    ReceiptRow,
    StreamRecord,
    StreamRow,
    WaveRecord,
    WaveRow,
)
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import (
    RESOLVED,
    AttemptOutcome,
    AttemptRecord,
    LeaseHolder,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, grouped, offsets_by
from airflow_kafka_lake.core.ordering.layouts import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Graph, Segment, SegmentKey, gate_of
from airflow_kafka_lake.core.planning.costs import TopicCost, WaveCost
from airflow_kafka_lake.core.reports.progress import Progress
from airflow_kafka_lake.core.spec import Ordering, PipelineSpec

# The ledger's queries: rows in, values of `core` out; each function is one or two statements.

T = TypeVar("T")

KEY = tuple(stream.c[name] for name in Stream._fields)
"""The columns of a `Stream`."""


def stream_of(row: Any) -> Stream:
    return Stream(row.topic, row.topic_id, row.partition)


def ledger_id(connection: Connection) -> str:
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


def pipeline_record(connection: Connection, name: str) -> PipelineRecord | None:
    """Return a pipeline with its newest configuration, its table bindings and its pauses."""
    newest = select(pipeline.c.spec).where(pipeline.c.name == name).order_by(pipeline.c.version.desc()).limit(1)
    spec = connection.execute(newest).scalar()
    if spec is None:
        return None
    query = select(binding.c.table_name, binding.c.uuid).where(binding.c.pipeline == name)
    return PipelineRecord(
        spec=spec_of(spec),
        tables={row.table_name: row.uuid for row in connection.execute(query)},
        pauses=pauses(connection, name),
    )


def pauses(connection: Connection, name: str) -> tuple[PauseRow, ...]:
    """Return the pauses of a pipeline and of its plans, oldest first."""
    query = select(pause).where(pause.c.pipeline == name).order_by(pause.c.at, pause.c.id)
    return tuple(made(PauseRow, row) for row in connection.execute(query))


@cache
def _names(kind: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))  # type: ignore[arg-type]


def made(kind: Callable[..., T], row: Any, **other: Any) -> T:
    """Make a value whose fields are columns of the same names, but for some `other` ones."""
    return kind(**{name: getattr(row, name) for name in _names(kind) if name not in other}, **other)


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
    return made(StreamRow, row, key=stream_of(row))


def wave_row(row: Any) -> WaveRow:
    holder = None if row.lease_holder is None else LeaseHolder.parse(row.lease_holder)
    return made(WaveRow, row, table=row.table_name, holder=holder, snapshot=row.snapshot_id)


def waves_of(
    connection: Connection, name: str, states: Collection[WaveState] | None = None, *, crossing: Slice | None = None
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
    return _only("wave", name, waves(connection, wave.c.id == name))


def _only(kind: str, name: str, found: Sequence[T]) -> T:
    if not found:
        raise guards.unknown(kind, name)
    return found[0]


def ranges(
    connection: Connection, *where: ColumnElement[bool], ids: dict[Stream, int] | None = None
) -> tuple[RangeRecord, ...]:
    """Return ranges, sorted by stream and start; `ids` learns the number of each of their streams."""
    query = select(range_, stream.c.pipeline, *KEY).join(stream, stream.c.id == range_.c.stream).where(*where)
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
    return made(
        RangeRecord,
        row,
        plan=row.plan or row.skip,
        wave=row.wave or row.skip,
        slice=Slice(key, OffsetRange(row.start_offset, row.end_offset)),
        rows=row.row_count,
        accounting=None if row.visible is None else accounting_of(row),
    )


def accounting_of(row: Any) -> Accounting:
    return Accounting(**{name: getattr(row, name) for name in SUMS})


def ranges_of(
    connection: Connection,
    *,
    pipeline: str | None = None,
    wave: str | None = None,
    plan: str | None = None,
    states: Collection[RangeState] | None = None,
    crossing: Slice | None = None,
) -> tuple[RangeRecord, ...]:
    """Return the ranges of one pipeline, wave or plan; raises ValueError for none or several."""
    chosen = [
        column == value
        for column, value in ((stream.c.pipeline, pipeline), (range_.c.wave, wave), (range_.c.plan, plan))
        if value is not None
    ]
    if len(chosen) != 1:
        raise ValueError("name exactly one of pipeline, wave and plan")
    if states is not None:
        chosen.append(range_.c.state.in_(list(states)))
    return ranges(connection, *chosen, *(sharing(crossing) if crossing is not None else ()))


def sharing(item: Slice) -> list[ColumnElement[bool]]:
    """Return the condition of the ranges, joined with their streams, that share offsets with a slice."""
    mine = (column == value for column, value in zip(KEY, item.stream, strict=True))
    return [*mine, *overlapping(item.range)]


def overlapping(offsets: OffsetRange) -> list[ColumnElement[bool]]:
    """Return the condition of the ranges of one stream that have some offsets."""
    return [range_.c.start_offset < offsets.end, range_.c.end_offset > offsets.start]


def one_range(connection: Connection, name: str) -> RangeRecord:
    """Return one range; UnknownSubjectError when there is none."""
    return _only("range", name, ranges(connection, range_.c.id == name))


def attempts(
    connection: Connection, name: str | None = None, *, pipeline: str | None = None
) -> tuple[AttemptRecord, ...]:
    """Return the attempts of one wave, or of a pipeline, by wave and fence."""
    if pipeline is None:
        return attempts_where(connection, attempt_.c.wave == name)
    return attempts_where(connection, attempt_.c.wave.in_(select(wave.c.id).where(wave.c.pipeline == pipeline)))


def attempts_where(connection: Connection, where: ColumnElement[bool]) -> tuple[AttemptRecord, ...]:
    """Return some attempts, by wave and fence."""
    query = select(attempt_).where(where).order_by(attempt_.c.wave, attempt_.c.fence)
    return tuple(_attempt(row) for row in connection.execute(query))


PROGRESS: Mapping[str, str] = {
    "step": "step",
    "rows_done": "rows",
    "rows_expected": "rows_expected",
    "bytes_done": "bytes",
    "bytes_expected": "bytes_expected",
    "step_at": "since",
    "progress_at": "at",
}
"""The columns of an attempt's progress; all are NULL where it has none."""


def _attempt(row: Any) -> AttemptRecord:
    progress = {name: getattr(row, column) for column, name in PROGRESS.items()}
    done = None if row.step is None else Progress(**progress)
    return made(AttemptRecord, row, holder=row.lease_holder, progress=done)


def published(
    connection: Connection, name: str, *, table: str | None = None, newest: int | None = None
) -> tuple[PublishedWave, ...]:
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
        PublishedWave(wave=row.id, table=row.table_name, attempt=row.attempt, snapshot=row.snapshot_id, base=row.base)
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


# The queries of requests.


def of_waves(connection: Connection, waves: Collection[str]) -> tuple[RequestRow, ...]:
    """Return the requests for some waves, oldest first; their rows are locked with the waves."""
    query = select(request).where(request.c.wave.in_(sorted(waves))).order_by(request.c.at, request.c.id)
    return tuple(made(RequestRow, row) for row in connection.execute(query))


def requests(connection: Connection, name: str | None = None) -> tuple[RequestRecord, ...]:
    """Return the requests for one wave, or all waves, in the order of plans and their waves."""
    query = (
        select(request, wave.c.state, wave.c.lease_holder, wave.c.lease_until, now().label("now"))
        .join(wave, wave.c.id == request.c.wave)
        .join(plan_, plan_.c.id == wave.c.plan)
        .order_by(plan_.c.number, wave.c.ordinal, wave.c.id, request.c.at, request.c.id)
    )
    if name is not None:
        query = query.where(request.c.wave == name)
    return tuple(_record(row) for row in connection.execute(query))


def _record(row: Any) -> RequestRecord:
    holder = None if row.lease_holder is None else LeaseHolder.parse(row.lease_holder)
    live = lease_is_live(row.lease_until, row.now)
    return made(RequestRecord, row, live=row.now < row.until, holder=holder, lease_live=live)


# History: events, watermark moves, receipts that wait for the lake, and the costs of waves.

_COLUMNS = ("pipeline", "actor", "kind", "subject", "detail", "slices")


def throughput(connection: Connection, name: str) -> tuple[WaveCost, ...]:
    """Return the costs of each table's last committed waves."""
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
        seconds=(first.ended_at - first.started_at).total_seconds(),
        lake_bytes=first.staged_bytes,
        topics=tuple(TopicCost(topic=row.topic, offsets=int(row.offsets), kafka_bytes=int(row.weight)) for row in rows),
    )


def knows(connection: Connection, token: Token, line: EventRef | None = None) -> EventRef | None:
    ours = event.c.pipeline == token.pipeline
    if line and _newest(connection, ours, event.c.sequence == line.sequence) != line:
        return None
    mine = (attempt_.c.wave == token.wave, attempt_.c.fence == token.fence, attempt_.c.attempt == token.attempt)
    given_out = () if token.wave == guards.OWNER_WAVE else (exists().where(*mine),)
    return _newest(connection, ours, *given_out)


def _newest(connection: Connection, *where: ColumnElement[bool]) -> EventRef | None:
    found = events(connection, where, 1, newest=True)
    return found[0].line if found else None


def events_of(
    connection: Connection,
    name: str,
    after: int = 0,
    limit: int = 100,
    *,
    kind: str | None = None,
    actor: str | None = None,
    newest: bool = False,
) -> tuple[Event, ...]:
    """Return the events of a pipeline above a sequence; of a kind, of an actor."""
    asked = ((event.c.pipeline, name), (event.c.kind, kind), (event.c.actor, actor))
    chosen = [column == value for column, value in asked if value is not None]
    return events(connection, [*chosen, event.c.sequence > after], limit, newest=newest)


def events(
    connection: Connection, where: Iterable[ColumnElement[bool]], limit: int, *, newest: bool = False
) -> tuple[Event, ...]:
    """Return events by sequence: the first, or the last, `limit` of the chosen ones."""
    order = event.c.sequence.desc() if newest else event.c.sequence
    query = select(event).where(*where).order_by(order).limit(limit)
    found = [made(Event, row) for row in connection.execute(query)]
    return tuple(reversed(found) if newest else found)


def unnotified(connection: Connection, name: str, subject: str | None = None) -> tuple[Advance, ...]:
    """Return the moves after the notified position."""
    position = select(notified.c.sequence).where(notified.c.pipeline == (subject or name)).scalar_subquery()
    return moves(connection, move.c.pipeline == name, move.c.sequence > func.coalesce(position, 0))


def moves(connection: Connection, *where: ColumnElement[bool]) -> tuple[Advance, ...]:
    """Return watermark moves by sequence."""
    query = select(move, *KEY).join(stream, stream.c.id == move.c.stream)
    return tuple(
        Advance(
            stream=stream_of(row), sequence=row.sequence, start=row.start_offset, end=row.end_offset, rows=row.row_count
        )
        for row in connection.execute(query.where(*where).order_by(move.c.sequence))
    )


def outbox_items(connection: Connection, name: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
    """Return the receipts, all or of one kind, that the lake does not have yet, oldest first."""
    query = select(outbox, *KEY).join(stream, stream.c.id == outbox.c.stream).where(outbox.c.pipeline == name)
    if kind is not None:
        query = query.where(outbox.c.kind == kind)
    items = []
    for row in connection.execute(query.order_by(outbox.c.id)):
        receipt = made(
            ReceiptRow,
            row,
            slice=Slice(stream_of(row), OffsetRange(row.start_offset, row.end_offset)),
            rows=row.row_count,
            accounting=accounting_of(row),
            leader_epoch=None,
        )
        items.append(OutboxItem(id=row.id, table=row.table_name, row=receipt))
    return tuple(items)


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
    given = rows(connection, [outbox.c.id], ({"id": item} for item in items))
    connection.execute(delete(outbox).where(outbox.c.id.in_(select(given.c.id))))


# Streams, their layouts and segments, and the gate: the streams to drain before a wave may start (law L14).


def streams(
    connection: Connection, name: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
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
    found = [(key, OffsetRange(start, end), state) for key, start, end, state in connection.execute(outside)]
    planned = grouped((key, part) for key, part, _ in found)
    covered = grouped((key, part) for key, part, state in found if state in RESOLVED)
    unacknowledged = _unacknowledged(connection, chosen)
    known = []
    for row in connection.execute(select(stream).where(*chosen)):
        passed = RangeSet.between(row.origin, row.watermark).ranges
        known.append(
            made(
                StreamRecord,
                row,
                key=stream_of(row),
                planned=RangeSet((*passed, *planned[row.id])),
                covered=RangeSet((*passed, *covered[row.id])),
                unacknowledged=unacknowledged.get(row.id, RangeSet()),
            )
        )
    return tuple(sorted(known, key=lambda record: record.key))


def _unacknowledged(connection: Connection, chosen: Sequence[ColumnElement[bool]]) -> dict[int, RangeSet]:
    """Return each stream's skipped offsets whose order was not acknowledged, then or by a later skip."""
    passed = (
        select(range_.c.stream, range_.c.start_offset, range_.c.end_offset)
        .join(stream, stream.c.id == range_.c.stream)
        .join(skip, and_(skip.c.id == range_.c.skip, skip.c.acknowledge_order.is_(False)))
        .where(range_.c.state == RangeState.SKIPPED, *chosen)
    )
    left = offsets_by((key, OffsetRange(start, end)) for key, start, end in connection.execute(passed))
    if not left:
        return {}
    freed = (
        select(skip.c.stream, skip.c.start_offset, skip.c.end_offset)
        .join(stream, stream.c.id == skip.c.stream)
        .where(skip.c.acknowledge_order.is_(True), *chosen)
    )
    acknowledged = offsets_by((key, OffsetRange(start, end)) for key, start, end in connection.execute(freed))
    return {key: found - acknowledged[key] for key, found in left.items()}


def layouts(connection: Connection, name: str) -> tuple[Layout, ...]:
    """Return the layouts that a pipeline's topics were seen in."""
    query = select(layout).where(layout.c.pipeline == name).order_by(layout.c.topic_id, layout.c.partitions)
    return tuple(made(Layout, row, in_force=bool(row.in_force)) for row in connection.execute(query))


def segments(connection: Connection, name: str) -> tuple[Segment, ...]:
    """Return a pipeline's segments with their parents, by stream and start."""
    found = _segments_by_key(connection, name)
    keys = {row.id: key for key, row in found.items()}
    parents: dict[int, set[SegmentKey]] = defaultdict(set)
    for child, parent in connection.execute(_edges(name)):
        parents[child].add(keys[parent])
    every = (
        made(Segment, row, stream=key, start=start, sealed=bool(row.sealed), parents=frozenset(parents[row.id]))
        for (key, start), row in found.items()
    )
    return tuple(sorted(every, key=lambda item: item.key))


def _segments_by_key(connection: Connection, name: str) -> dict[SegmentKey, Any]:
    query = select(segment, *KEY).join(stream, stream.c.id == segment.c.stream).where(stream.c.pipeline == name)
    return {(stream_of(row), row.start_offset): row for row in connection.execute(query)}


def _edges(name: str | ColumnElement[str]) -> Any:
    return (
        select(segment_parent.c.segment, segment_parent.c.parent)
        .join(segment, segment.c.id == segment_parent.c.segment)
        .join(stream, stream.c.id == segment.c.stream)
        .where(stream.c.pipeline == name)
        .correlate(wave)
    )


def gate(connection: Connection, name: str) -> tuple[Blocker, ...]:
    """See `ports.LedgerReader.gate`; a pipeline without edges costs one statement."""
    version = (pipeline.c.name == plan_.c.pipeline) & (pipeline.c.version == plan_.c.pipeline_version)
    row = connection.execute(
        select(wave.c.pipeline, pipeline.c.spec, exists(_edges(wave.c.pipeline)).label("ordered"))
        .join(plan_, plan_.c.id == wave.c.plan)
        .join(pipeline, version)
        .where(wave.c.id == name)
    ).first()
    if row is None:
        raise guards.unknown("wave", name)
    if not row.ordered or spec_of(row.spec).ordering is Ordering.NONE:
        return ()
    wanted = ranges(connection, range_.c.wave == name, range_.c.state == RangeState.PLANNED)
    known = streams(connection, row.pipeline)
    return gate_of(Graph(segments(connection, row.pipeline)), known, wanted)


def write_parents(connection: Connection, edits: Iterable[Edit], _: object) -> None:
    """Write which segments come before some others."""
    written: list[Any] = [edit.after for edit in edits if edit.after is not None]
    edges = [(row.segment.key, parent) for row in written for parent in sorted(row.segment.parents)]
    if not edges:
        return
    found = _segments_by_key(connection, written[0].pipeline)
    values = [{"segment": found[child].id, "parent": found[parent].id} for child, parent in edges]
    columns = ("segment", "parent")
    given = rows(connection, [segment_parent.c[column] for column in columns], values)
    statement = upsert(connection, segment_parent).from_select(columns, select(*given.c).where(true()))
    connection.execute(statement.on_conflict_do_nothing())


def same_streams(connection: Connection, streams: Collection[Stream]) -> tuple[Any, ColumnElement[bool]]:
    """Return some streams as a relation, and the condition that a row is of one of them."""
    given = rows(connection, KEY, (key._asdict() for key in streams))
    return given, and_(*(column == given.c[column.name] for column in KEY))


# Reads of Airflow's pages beyond the port: pages of long lists, newest first, and the authors of plans.


def planners(connection: Connection) -> dict[str, frozenset[str]]:
    """Return all pipelines by name, each with the Dags that have planned it."""
    dags = connection.execute(select(plan_.c.pipeline, plan_.c.dag).where(plan_.c.dag.is_not(None)).distinct())
    planned = grouped((row.pipeline, row.dag) for row in dags)
    return {name: frozenset(planned.get(name, ())) for name in pipelines(connection)}


def has_wave(connection: Connection, name: str, wave_id: str) -> bool:
    """Return whether a wave is one of a pipeline's."""
    return _exists(connection, exists().where(wave.c.pipeline == name, wave.c.id == wave_id))


def has_subject(connection: Connection, name: str, subject: str) -> bool:
    """Return whether a wave, a range or a plan of this id is one of a pipeline's."""
    waves = select(wave.c.id).where(wave.c.pipeline == name)
    of_a_plan = exists().where(plan_.c.pipeline == name, plan_.c.id == subject)
    of_a_range = exists().where(range_.c.id == subject, range_.c.wave.in_(waves))
    return has_wave(connection, name, subject) or _exists(connection, of_a_plan | of_a_range)


def _exists(connection: Connection, condition: ColumnElement[bool]) -> bool:
    return bool(connection.execute(select(condition)).scalar_one())


def page_of_waves(
    connection: Connection, name: str, states: Sequence[WaveState], *, skip: int, limit: int
) -> tuple[tuple[WaveRecord, ...], int]:
    """Return a page of a pipeline's waves, newest first, and how many there are; no states are all."""
    mine = [wave.c.pipeline == name, *([wave.c.state.in_(states)] if states else [])]
    newest = select(wave.c.id).join(plan_, plan_.c.id == wave.c.plan).where(*mine)
    page = newest.order_by(plan_.c.number.desc(), wave.c.ordinal.desc(), wave.c.id.desc()).offset(skip).limit(limit)
    ids = connection.execute(page).scalars().all()
    count = connection.execute(select(func.count()).select_from(wave).where(*mine)).scalar_one()
    return tuple(reversed(waves(connection, wave.c.id.in_(ids)))), count


def page_of_events(connection: Connection, name: str, *, before: int | None, limit: int) -> tuple[Event, ...]:
    """Return lines of a pipeline's history, newest first; `before` is the sequence where an earlier page ended."""
    where = [event.c.pipeline == name, *(() if before is None else (event.c.sequence < before,))]
    return tuple(reversed(events(connection, where, limit, newest=True)))
