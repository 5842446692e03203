"""A write in one transaction: its scope is loaded under lock, it decides, and its change is applied."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter, is_not
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, ScalarSelect, Table, delete, func, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from airflow_kafka_lake.adapters.sql_ledger import queries, tables
from airflow_kafka_lake.adapters.sql_ledger.database import is_overlap
from airflow_kafka_lake.adapters.sql_ledger.queries import PROGRESS, lock_sequences, record_event
from airflow_kafka_lake.adapters.sql_ledger.tables import (
    attempt,
    binding,
    given_of,
    insert_columns,
    notified,
    now,
    pipeline,
    range_,
    rows,
    skip,
    stream,
    wave,
)
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    BindingRow,
    Change,
    ConfigurationRow,
    Edit,
    LayoutRow,
    NotifiedRow,
    PipelineLock,
    PlanRecord,
    PlanRow,
    Records,
    RequestRow,
    SegmentRow,
    SkipRow,
    SnapshotRow,
    Write,
    WriteScope,
)
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.history import place_of
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import OPEN, AttemptRecord, RangeState
from airflow_kafka_lake.core.offsets import Stream, grouped

# How each row of `core` is stored: its columns, which of them name it, and which must be as they were read.

Ids = Mapping[Stream, int]
"""The number that the database gave each stream of the pipeline."""

Value = Callable[[Any, Ids], Any]

PLANS_KEPT = 1_000
"""The ledger keeps the snapshots of so many newest plans of all pipelines: six weeks of one plan an hour."""

FORGOTTEN_AT_ONCE = 100_000
"""One plan deletes at most so many snapshots of older plans."""


REQUESTS_KEPT = timedelta(days=1)
"""A request that nothing has renewed for so long is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMapping:
    """How one kind of row is stored: each column with the field it comes from, and how.

    `required` are compared beside the key whenever a row is changed or removed (law L10). `computed` are columns whose
    value is one expression for all new rows. `then` is called when rows of this kind have been written.
    """

    table: Table
    columns: Mapping[str, tuple[str, Value]]
    key: tuple[str, ...]
    required: tuple[str, ...] = ()
    computed: Mapping[str, Callable[[Sequence[Any]], ColumnElement[Any]]] = field(default_factory=dict)
    then: Callable[[Connection, Sequence[Edit], dict[Stream, int]], None] = lambda _connection, _edits, _ids: None


def _plain(*names: str, within: str = "", **renamed: str) -> dict[str, tuple[str, Value]]:
    """Return columns that are fields, or fields `within` one; `renamed` have fields of another name, or a path."""
    inside = f"{within}." if within else ""
    return {
        column: (path.partition(".")[0], _field(attrgetter(path)))
        for column, path in ({name: inside + name for name in names} | renamed).items()
    }


def _field(get: Callable[[Any], Any]) -> Value:
    return lambda row, _: get(row)


def _within(part: str, name: str) -> tuple[str, Value]:
    return part, lambda row, _: None if (found := getattr(row, part)) is None else getattr(found, name)


def _learn_numbers(connection: Connection, edits: Sequence[Edit], ids: dict[Stream, int]) -> None:
    """Learn the numbers of new streams, which later rows refer to."""
    new: list[Any] = [edit.after for edit in edits if edit.before is None]
    if new:
        query = select(stream.c.id, *queries.KEY).where(stream.c.pipeline == new[0].pipeline)
        found = connection.execute(query.join(*queries.same_streams(connection, [row.key for row in new])))
        ids.update({queries.stream_of(row): row.id for row in found})


def _plan_number(snapshots: Sequence[Any]) -> ScalarSelect[int]:
    return select(tables.plan.c.number).where(tables.plan.c.id == snapshots[0].plan).scalar_subquery()


def _forget_old_snapshots(connection: Connection, edits: Sequence[Edit], _: Ids) -> None:
    """Delete the snapshots of older plans, a bounded number at once: the first plan after an upgrade stays quick."""
    number = _plan_number([edit.after for edit in edits])
    key = (tables.snapshot.c.plan, tables.snapshot.c.stream)
    old = select(*key).where(tables.snapshot.c.number <= number - PLANS_KEPT).order_by(tables.snapshot.c.number)
    connection.execute(delete(tables.snapshot).where(tuple_(*key).in_(old.limit(FORGOTTEN_AT_ONCE))))


def _forget_old_requests(connection: Connection, edits: Sequence[Edit], _: Ids) -> None:
    """With a new request, delete those whose tasks were gone long ago and could not end them."""
    if any(edit.before is None for edit in edits):
        connection.execute(delete(tables.request).where(tables.request.c.until < now(-REQUESTS_KEPT)))


_SLICE: Mapping[str, tuple[str, Value]] = {
    "stream": ("slice", lambda row, ids: ids[row.slice.stream]),
    **_plain(start_offset="slice.range.start", end_offset="slice.range.end"),
}
_SEEN = ("leader_epoch", "log_start", "last_stable", "high_watermark", "group_offset", "group_offset_state")

STORED: Mapping[type, RowMapping] = {
    ConfigurationRow: RowMapping(
        table=tables.pipeline,
        columns={
            **_plain("version", "recorded_at", name="spec.name", digest="spec.digest"),
            "spec": ("spec", lambda row, _: json.dumps(row.spec.to_json(), sort_keys=True)),
        },
        key=("name", "version"),
    ),
    BindingRow: RowMapping(
        table=tables.binding, columns=_plain("pipeline", "uuid", table_name="table"), key=("pipeline", "table_name")
    ),
    PlanRow: RowMapping(
        table=tables.plan,
        columns={
            **_plain("id", "observed_at", "recorded_at", "actor", pipeline="spec.name", pipeline_version="version"),
            "detail": ("detail", lambda row, _: json.dumps(row.detail)),
            "dag": ("actor", lambda row, _: (place := place_of(row.actor)) and place.dag),
        },
        key=("id",),
    ),
    PauseRow: RowMapping(
        table=tables.pause, columns=_plain("id", "pipeline", "plan", "reason", "actor", "at"), key=("id",)
    ),
    StreamRow: RowMapping(
        table=tables.stream,
        columns={
            **_plain("pipeline", "origin", "watermark", "version", "end_seen", "leader_epoch", "since"),
            **_plain(*Stream._fields, within="key"),
        },
        key=("pipeline", *Stream._fields),
        required=("version",),
        then=_learn_numbers,
    ),
    WaveRow: RowMapping(
        table=tables.wave,
        columns={
            **_plain("id", "plan", "ordinal", "pipeline", "state", "fence", "attempt", "lease_until", "committed_at"),
            **_plain(table_name="table", snapshot_id="snapshot"),
            "lease_holder": ("holder", lambda row, _: None if row.holder is None else str(row.holder)),
        },
        key=("id",),
        required=("fence", "attempt", "state"),
    ),
    AttemptRecord: RowMapping(
        table=tables.attempt,
        columns={
            **_plain("wave", "fence", "attempt", "job", "base", "audited", "staged_bytes", "outcome", "error", "cause"),
            **_plain("started_at", "ended_at", "actor", "application", lease_holder="holder"),
            **{column: _within("progress", name) for column, name in PROGRESS.items()},
        },
        key=("wave", "fence", "attempt"),
        required=("outcome",),
    ),
    SkipRow: RowMapping(
        table=tables.skip,
        columns={**_plain("id", "offsets", "reason", "actor", "at", acknowledge_order="acknowledged"), **_SLICE},
        key=("id",),
    ),
    RangeRecord: RowMapping(
        table=tables.range_,
        columns={
            **_plain("id", "skip", "generation", "state", "reason", "held_for", "fewer_accepted", "leader_epoch"),
            **_plain("cause", "estimated_bytes", "first_offset", "last_offset", row_count="rows"),
            **_SLICE,
            "plan": ("plan", lambda row, _: None if row.plan == row.skip else row.plan),
            "wave": ("wave", lambda row, _: None if row.wave == row.skip else row.wave),
            **{name: _within("accounting", name) for name in tables.SUMS},
        },
        key=("id",),
        required=("wave", "state", "start_offset", "end_offset"),
    ),
    LayoutRow: RowMapping(
        table=tables.layout,
        columns={
            **_plain("pipeline"),
            **_plain("topic", "topic_id", "partitions", "seen_at", within="layout"),
            "in_force": ("layout", lambda row, _: int(row.layout.in_force)),
        },
        key=("pipeline", "topic_id", "partitions"),
    ),
    SegmentRow: RowMapping(
        table=tables.segment,
        columns={
            "stream": ("segment", lambda row, ids: ids[row.segment.stream]),
            **_plain("layout", "seal", "declared_at", within="segment", start_offset="segment.start"),
            "sealed": ("segment", lambda row, _: int(row.segment.sealed)),
        },
        key=("stream", "start_offset"),
        required=("seal",),
        then=queries.write_parents,
    ),
    SnapshotRow: RowMapping(
        table=tables.snapshot,
        columns={
            **_plain("plan", "reason"),
            **_plain(*_SEEN, within="seen"),
            "stream": ("seen", lambda row, ids: ids[row.seen.stream]),
            "start_offset": ("range", lambda row, _: row.range[0]),
            "end_offset": ("range", lambda row, _: row.range[1]),
        },
        key=("plan", "stream"),
        computed={"number": _plan_number},
        then=_forget_old_snapshots,
    ),
    NotifiedRow: RowMapping(
        table=tables.notified,
        columns=_plain("pipeline", "sequence", "through", lease_holder="holder", lease_until="until"),
        key=("pipeline",),
        required=("sequence", "lease_holder"),
    ),
    RequestRow: RowMapping(
        table=tables.request,
        columns=_plain("id", "pipeline", "wave", "actor", "at", "until", "bytes_per_second", "answer"),
        key=("id",),
        required=("answer",),
        then=_forget_old_requests,
    ),
}
"""In the order in which rows refer to each other."""

OUTBOX = RowMapping(
    table=tables.outbox,
    columns={
        **_plain("pipeline", "kind", "wave", "attempt", "fence", "generation", "recorded_at", "offsets"),
        **_plain("first_offset", "last_offset", row_count="rows"),
        **_plain(*tables.SUMS, within="accounting"),
        **_SLICE,
    },
    key=("id",),
)
"""How receipts wait for the lake, each beside the name of its table."""


# Load the scope of a write: streams are locked first, then waves, each in a fixed order.

BOUND_ONE_BY_ONE = 1000
"""More names than this are bound as one document, because SQLite takes at most 32,766 values."""


@dataclass(slots=True)
class ScopeLoader:
    """Loads one scope; `ids` are the numbers of the streams that it has read."""

    connection: Connection
    scope: WriteScope
    ids: dict[Stream, int] = field(default_factory=dict)
    now: datetime | None = None

    def load(self) -> Records:
        """Lock and read the whole scope."""
        scope = self.scope
        if scope.alone:
            lock_sequences(self.connection)
        mine = self._take_turn(scope.turn) if scope.turn else None
        locked = self._streams()
        chosen = self._chosen()
        waves = self._waves({*scope.waves, *(self._homes(*chosen) if chosen and scope.follow else ())})
        if scope.planned:
            chosen = [self._among(range_.c.wave, waves), range_.c.state == RangeState.PLANNED]
        ranges = queries.ranges(self.connection, *chosen, ids=self.ids) if chosen else ()
        told = self._notified() if scope.notified else None
        return Records(
            now=self.now or self.connection.execute(select(now())).scalar_one(),
            ledger_id=queries.ledger_id(self.connection) if scope.ledger_id else "",
            streams=locked,
            waves=waves,
            ranges=ranges,
            counts=self._counts(waves) if scope.counts else {},
            attempts=self._attempts(waves) if scope.attempts else (),
            plans=self._plans(waves.values(), ranges),
            tables=self._tables(waves) if scope.tables else {},
            gate=queries.gate(self.connection, *waves) if scope.gate and waves else (),
            skips=self._skips() if scope.skips else (),
            configurations=self._configurations(scope.pipeline or mine) if scope.configurations else (),
            pauses=queries.pauses(self.connection, mine) if mine else (),
            notified=told,
            requests=queries.of_waves(self.connection, scope.waves) if scope.requests else (),
            at_work=self._at_work(mine) if mine and scope.turn is PipelineLock.CLAIM else (),
            **(self._layouts(scope.pipeline) if scope.layouts and scope.pipeline else {}),
        )

    def _take_turn(self, turn: PipelineLock) -> str | None:
        """Lock the oldest configuration of the pipeline, a row that stays; return the pipeline's name, None before its
        first one.

        The three locks are those of PostgreSQL: plans share theirs with each other and with a claim.
        """
        name: Any = self.scope.pipeline
        if name is None:
            name = select(wave.c.pipeline).where(self._among(wave.c.id, self.scope.waves)).scalar_subquery()
        oldest = select(func.min(pipeline.c.version)).where(pipeline.c.name == name).scalar_subquery()
        query = select(pipeline.c.name).where(pipeline.c.name == name, pipeline.c.version == oldest)
        locked = query.with_for_update(read=turn is PipelineLock.PLAN, key_share=turn is not PipelineLock.PAUSE)
        return self.connection.execute(locked).scalar()

    def _streams(self) -> dict[Stream, StreamRow]:
        if not self.scope.streams and not self.scope.every:
            return {}
        query = select(stream).where(stream.c.pipeline == self.scope.pipeline)
        if not self.scope.every:
            query = query.join(*queries.same_streams(self.connection, self.scope.streams))
        locked = query.order_by(stream.c.id).with_for_update(of=stream)
        found = {row.id: queries.stream_row(row) for row in self._locked(locked)}
        self.ids |= {item.key: number for number, item in found.items()}
        return {item.key: item for item in found.values()}

    def _locked(self, query: Any) -> list[Any]:
        """Read rows under lock, and the database's clock when the last of them is locked."""
        found = list(self.connection.execute(select(query.cte("locked"), now().label("now"))))
        if found:
            self.now = found[-1].now
        return found

    def _waves(self, names: Collection[str]) -> dict[str, WaveRow]:
        if not names and not self.scope.every:
            return {}
        chosen = self._among(wave.c.id, names)
        if self.scope.every:
            chosen = chosen | (wave.c.pipeline == self.scope.pipeline)
        query = select(wave).where(chosen).order_by(wave.c.id).with_for_update()
        return {row.id: queries.wave_row(row) for row in self._locked(query)}

    def _chosen(self) -> list[ColumnElement[bool]]:
        """Return the condition of the ranges that the scope names itself."""
        if self.scope.every:
            return [stream.c.pipeline == self.scope.pipeline]
        if self.scope.ranges:
            given = rows(self.connection, [range_.c.id], ({"id": name} for name in self.scope.ranges))
            return [range_.c.id.in_(select(given.c.id))]
        if (asked := self.scope.crossing) is not None:
            return [range_.c.stream == self.ids.get(asked.stream), *queries.overlapping(asked.range)]
        return []

    def _among(self, column: Column[str], names: Collection[str]) -> ColumnElement[bool]:
        if len(names) <= BOUND_ONE_BY_ONE:
            return column.in_(sorted(names))
        return column.in_(select(rows(self.connection, [column], ({column.name: name} for name in sorted(names)))))

    def _homes(self, *chosen: ColumnElement[bool]) -> set[str]:
        query = select(range_.c.wave).where(*chosen, range_.c.wave.is_not(None)).distinct()
        return set(self.connection.execute(query).scalars())

    def _counts(self, waves: Collection[str]) -> Mapping[str, Mapping[RangeState, int]]:
        query = select(range_.c.wave, range_.c.state, func.count()).where(self._among(range_.c.wave, waves))
        found: dict[str, dict[RangeState, int]] = defaultdict(dict)
        for name, state, number in self.connection.execute(query.group_by(range_.c.wave, range_.c.state)):
            found[name][state] = number
        return found

    def _attempts(self, waves: Collection[str]) -> tuple[AttemptRecord, ...]:
        mine = [self._among(attempt.c.wave, waves)]
        if self.scope.every:
            mine = [attempt.c.wave.in_(select(wave.c.id).where(wave.c.pipeline == self.scope.pipeline))]
        if self.scope.attempt_ids:
            mine.append(self._among(attempt.c.attempt, self.scope.attempt_ids))
        return queries.attempts_where(self.connection, or_(*mine))

    def _plans(self, waves: Collection[WaveRow], ranges: Collection[RangeRecord]) -> dict[str, PlanRecord]:
        names = {*self.scope.plan_ids}
        if self.scope.plans:
            names |= {item.plan for item in waves} | {item.plan for item in ranges}
        if not names:
            return {}
        version = (pipeline.c.name == plan_.c.pipeline) & (pipeline.c.version == plan_.c.pipeline_version)
        last = select(func.max(wave.c.ordinal)).where(wave.c.plan == plan_.c.id).scalar_subquery().label("last")
        query = select(plan_.c.id, plan_.c.number, last, pipeline.c.spec).join(pipeline, version)
        return {
            row.id: PlanRecord(
                id=row.id, number=row.number, next_ordinal=(row.last or 0) + 1, spec=queries.spec_of(row.spec)
            )
            for row in self.connection.execute(query.where(self._among(plan_.c.id, names)))
        }

    def _notified(self) -> NotifiedRow | None:
        query = select(notified).where(notified.c.pipeline == self.scope.pipeline).with_for_update()
        for row in self._locked(query):
            return queries.made(NotifiedRow, row, holder=row.lease_holder, until=row.lease_until)
        return None

    def _skips(self) -> Collection[str]:
        query = select(skip.c.id).where(self._among(skip.c.id, self.scope.skips))
        return frozenset(self.connection.execute(query).scalars())

    def _at_work(self, name: str) -> Collection[str]:
        """Return the waves whose leases are live, by the clock of this moment: claims wait for each other's turn."""
        live = (wave.c.lease_until > now()) & (wave.c.lease_until <= now(2 * guards.MAX_LEASE))
        query = select(wave.c.id).where(wave.c.pipeline == name, wave.c.state.in_(OPEN), live)
        return self.connection.execute(query).scalars().all()

    def _configurations(self, name: str | None) -> tuple[ConfigurationRow, ...]:
        mine = pipeline.c.name == name
        newest = select(func.max(pipeline.c.version)).where(mine).scalar_subquery()
        wanted = or_(pipeline.c.version == newest, pipeline.c.digest == self.scope.digest)
        return tuple(
            ConfigurationRow(version=row.version, spec=queries.spec_of(row.spec), recorded_at=row.recorded_at)
            for row in self.connection.execute(select(pipeline).where(mine, wanted).order_by(pipeline.c.version))
        )

    def _layouts(self, name: str) -> dict[str, Any]:
        layouts = queries.layouts(self.connection, name)
        segments = queries.segments(self.connection, name)
        return {
            "layouts": tuple(LayoutRow(pipeline=name, layout=item) for item in layouts),
            "segments": tuple(SegmentRow(pipeline=name, segment=item) for item in segments),
        }

    def _tables(self, waves: Mapping[str, WaveRow]) -> dict[str, str]:
        names = {row.pipeline for row in waves.values()} | {self.scope.pipeline}
        query = select(binding.c.table_name, binding.c.uuid).where(binding.c.pipeline.in_(sorted(names - {None})))
        return {row.table_name: row.uuid for row in self.connection.execute(query)}


# A write in one transaction: its scope is loaded under lock, it decides, and its change is applied (law L10).

_NEW = "new_"
"""Begins the name of a value that a column gets, beside the one that it must have."""

T = TypeVar("T")


def commit(connection: Connection, write: Write[T]) -> T:
    """Let a write decide, apply its change, and return its answer."""
    loading = ScopeLoader(connection, write.scope())
    change = write.decide(loading.load())
    try:
        apply(connection, change, loading.ids)
    except IntegrityError as error:
        if refusal := write.refused(overlap=is_overlap(error)):
            raise refusal from None
        raise
    return change.result


def apply(connection: Connection, change: Change[Any], ids: dict[Stream, int]) -> None:
    """Write a change with one statement for each kind of row and of edit, whatever the number of rows.

    Each WHERE clause repeats the values that were read, and the number of rows is compared (law L10): ConcurrentError
    if one is missing. `ids` learns the numbers of new streams.
    """
    by_kind = grouped((type(edit.row), edit) for edit in change.edits)
    for kind, stored in STORED.items():
        if edits := by_kind.pop(kind, None):
            _apply(connection, stored, edits, ids)
            stored.then(connection, edits, ids)
    assert not by_kind, by_kind.keys()
    if change.outbox:
        names, receipts = zip(*change.outbox, strict=True)
        _insert(connection, OUTBOX, receipts, ids, table_name=names)
    for entry in change.entries:
        record_event(connection, entry)


def _apply(connection: Connection, stored: RowMapping, edits: Sequence[Edit], ids: Ids) -> None:
    """Remove and change before inserting: a range that is split shrinks before its other parts come, so that no two
    ranges overlap at any moment."""
    removed = [edit.before for edit in edits if edit.after is None]
    changed = [edit for edit in edits if edit.before is not None and edit.after is not None]
    new = [edit.after for edit in edits if edit.before is None]
    if removed:
        _remove(connection, stored, removed, ids)
    if changed:
        _update(connection, stored, changed, ids)
    if new:
        _insert(connection, stored, new, ids)


def _insert(connection: Connection, stored: RowMapping, rows: Sequence[Any], ids: Ids, **beside: Sequence[Any]) -> None:
    values = {name: [get(row, ids) for row in rows] for name, (_, get) in stored.columns.items()} | beside
    computed = {name: expression(rows) for name, expression in stored.computed.items()}
    insert_columns(connection, stored.table, values, **computed)


def _remove(connection: Connection, stored: RowMapping, rows: Sequence[Any], ids: Ids) -> None:
    same = stored.table.alias("same")
    _, where = _found(connection, stored, _as_read(stored, rows, ids), table=same)
    (key,) = stored.key
    asked = select(same.c[key]).where(*where)
    _execute(connection, delete(stored.table).where(stored.table.c[key].in_(asked)), len(rows))


def _update(connection: Connection, stored: RowMapping, edits: Sequence[Edit], ids: Ids) -> None:
    before, after = [edit.before for edit in edits], [edit.after for edit in edits]
    fields = {field for field, _ in stored.columns.values() if _differs(before, after, field)}
    names = [name for name, (field, _) in stored.columns.items() if field in fields and name != "stream"]
    if not names:
        return
    new = {f"{_NEW}{name}": [stored.columns[name][1](row, ids) for row in after] for name in names}
    given, where = _found(connection, stored, _as_read(stored, before, ids) | new, table=stored.table)
    statement = update(stored.table).where(*where).values({name: given[f"{_NEW}{name}"] for name in names})
    _execute(connection, statement, len(edits))


def _differs(before: Sequence[Any], after: Sequence[Any], field: str) -> bool:
    read = attrgetter(field)
    return any(map(is_not, map(read, before), map(read, after)))


def _as_read(stored: RowMapping, rows: Sequence[Any], ids: Ids) -> dict[str, list[Any]]:
    """Return, column by column, the keys of the rows and the values that must be as they were read."""
    return {name: [stored.columns[name][1](row, ids) for row in rows] for name in (*stored.key, *stored.required)}


def _found(
    connection: Connection, stored: RowMapping, values: dict[str, list[Any]], *, table: Any
) -> tuple[Mapping[str, ColumnElement[Any]], list[ColumnElement[bool]]]:
    """Return the values of the rows, the new ones too, and the condition that each is there and as it was read."""
    given, _ = given_of(connection, {name: table.c[name.removeprefix(_NEW)] for name in values}, values)
    same = [table.c[name] == given[name] for name in stored.key]
    same += [table.c[name].is_not_distinct_from(given[name]) for name in stored.required]
    return given, same


def _execute(connection: Connection, statement: Any, expected: int) -> None:
    if connection.execute(statement).rowcount != expected:
        raise guards.overtaken("What this was decided from was changed by another writer meanwhile.")
