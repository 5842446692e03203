"""How each row of `core` is stored: its columns, which of them name it, and which must be as they were read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Table, delete, select, tuple_

from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.streams import stream_ids, write_parents
from airflow_kafka_lake.adapters.sql_ledger.types import now
from airflow_kafka_lake.core.actors import dag_of
from airflow_kafka_lake.core.ledger.changes import Edit
from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRow
from airflow_kafka_lake.core.ledger.rows import (
    BindingRow,
    ConfigurationRow,
    LayoutRow,
    NotifiedRow,
    PlanRow,
    RequestRow,
    SegmentRow,
    SkipRow,
    SnapshotRow,
)
from airflow_kafka_lake.core.ledger.streams import StreamRow
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.core.slices import Stream

Ids = Mapping[Stream, int]
"""The number that the database gave each stream of the pipeline."""

Value = Callable[[Any, Ids], Any]

PLANS_KEPT = 1_000
"""The ledger keeps the snapshots of so many newest plans of all pipelines: six weeks of one plan an hour."""

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

FORGOTTEN_AT_ONCE = 100_000
"""One plan deletes at most so many snapshots of older plans."""


REQUESTS_KEPT = timedelta(days=1)
"""A request that nothing has renewed for so long is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
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


def _plain(*names: str, **renamed: str) -> dict[str, tuple[str, Value]]:
    """Return columns that are fields; `renamed` are those whose field has another name."""
    return {
        column: (name, _field(attrgetter(name)))
        for column, name in {**{name: name for name in names}, **renamed}.items()
    }


def _field(get: Callable[[Any], Any]) -> Value:
    return lambda row, _: get(row)


def _sum(name: str) -> Value:
    return lambda row, _: None if row.accounting is None else getattr(row.accounting, name)


def _of_progress(name: str) -> Value:
    return lambda row, _: None if row.progress is None else getattr(row.progress, name)


def _of_receipt(path: str) -> Value:
    get = attrgetter(path)
    return lambda item, _: get(item[1])


def _stream_of(row: Any, ids: Ids) -> int:
    return ids[row.slice.stream]


def _learn_numbers(connection: Connection, edits: Sequence[Edit], ids: dict[Stream, int]) -> None:
    """Learn the numbers of new streams, which later rows refer to."""
    new: list[Any] = [edit.after for edit in edits if edit.before is None]
    if new:
        ids.update(stream_ids(connection, new[0].pipeline, [row.key for row in new]))


def _write_parents(connection: Connection, edits: Sequence[Edit], _: Ids) -> None:
    written: list[Any] = [edit.after for edit in edits if edit.after is not None]
    if written:
        write_parents(connection, written[0].pipeline, [row.segment for row in written])


def _plan_number(snapshots: Sequence[Any]) -> ScalarSelect[int]:
    return select(tables.plan.c.number).where(tables.plan.c.id == snapshots[0].plan).scalar_subquery()


def _forget_old_snapshots(connection: Connection, edits: Sequence[Edit], _: Ids) -> None:
    """Delete what older plans saw, a bounded number at once, so that the first plan after an upgrade is not slow."""
    number = _plan_number([edit.after for edit in edits])
    key = (tables.snapshot.c.plan, tables.snapshot.c.stream)
    old = select(*key).where(tables.snapshot.c.number <= number - PLANS_KEPT).order_by(tables.snapshot.c.number)
    connection.execute(delete(tables.snapshot).where(tuple_(*key).in_(old.limit(FORGOTTEN_AT_ONCE))))


def _forget_old_requests(connection: Connection, edits: Sequence[Edit], _: Ids) -> None:
    """With a new request, delete those whose tasks were gone long ago and could not end them."""
    if any(edit.before is None for edit in edits):
        connection.execute(delete(tables.request).where(tables.request.c.until < now(-REQUESTS_KEPT)))


_SLICE: Mapping[str, tuple[str, Value]] = {
    "stream": ("slice", _stream_of),
    "start_offset": ("slice", _field(attrgetter("slice.range.start"))),
    "end_offset": ("slice", _field(attrgetter("slice.range.end"))),
}
_SEEN = ("leader_epoch", "log_start", "last_stable", "high_watermark", "group_offset", "group_offset_state")

STORED: Mapping[type, Stored] = {
    ConfigurationRow: Stored(
        table=tables.pipeline,
        columns={
            **_plain("name", "version", "digest", "recorded_at"),
            "spec": ("spec", lambda row, _: json.dumps(row.spec.to_json(), sort_keys=True)),
        },
        key=("name", "version"),
    ),
    BindingRow: Stored(
        table=tables.binding, columns=_plain("pipeline", "uuid", table_name="table"), key=("pipeline", "table_name")
    ),
    PlanRow: Stored(
        table=tables.plan,
        columns={
            **_plain("id", "pipeline", "observed_at", "recorded_at", "actor", pipeline_version="version"),
            "detail": ("detail", lambda row, _: json.dumps(row.detail)),
            "dag": ("actor", lambda row, _: dag_of(row.actor)),
        },
        key=("id",),
    ),
    PauseRow: Stored(
        table=tables.pause, columns=_plain("id", "pipeline", "plan", "reason", "actor", "at"), key=("id",)
    ),
    StreamRow: Stored(
        table=tables.stream,
        columns={
            **_plain("pipeline", "origin", "watermark", "version", "end_seen", "leader_epoch", "since"),
            **{name: ("key", _field(attrgetter(f"key.{name}"))) for name in Stream._fields},
        },
        key=("pipeline", *Stream._fields),
        required=("version",),
        then=_learn_numbers,
    ),
    WaveRow: Stored(
        table=tables.wave,
        columns={
            **_plain("id", "plan", "ordinal", "pipeline", "state", "fence", "attempt", "lease_until", "committed_at"),
            **_plain(table_name="table", snapshot_id="snapshot"),
            "lease_holder": ("holder", lambda row, _: None if row.holder is None else str(row.holder)),
        },
        key=("id",),
        required=("fence", "attempt", "state"),
    ),
    AttemptRecord: Stored(
        table=tables.attempt,
        columns={
            **_plain("wave", "fence", "attempt", "job", "base", "audited", "staged_bytes", "outcome", "error", "cause"),
            **_plain("started_at", "ended_at", "actor", "application", lease_holder="holder"),
            **{column: ("progress", _of_progress(name)) for column, name in PROGRESS.items()},
        },
        key=("wave", "fence", "attempt"),
        required=("outcome",),
    ),
    SkipRow: Stored(
        table=tables.skip,
        columns={**_plain("id", "offsets", "reason", "actor", "at", acknowledge_order="acknowledged"), **_SLICE},
        key=("id",),
    ),
    RangeRecord: Stored(
        table=tables.range_,
        columns={
            **_plain("id", "skip", "generation", "state", "reason", "held_for", "fewer_accepted", "leader_epoch"),
            **_plain("estimated_bytes", "first_offset", "last_offset", row_count="rows"),
            **_SLICE,
            "plan": ("plan", lambda row, _: None if row.plan == row.skip else row.plan),
            "wave": ("wave", lambda row, _: None if row.wave == row.skip else row.wave),
            **{name: ("accounting", _sum(name)) for name in tables.SUMS},
        },
        key=("id",),
        required=("wave", "state", "start_offset", "end_offset"),
    ),
    LayoutRow: Stored(
        table=tables.layout,
        columns={
            **_plain("pipeline"),
            **{
                name: ("layout", _field(attrgetter(f"layout.{name}")))
                for name in ("topic", "topic_id", "partitions", "seen_at")
            },
            "in_force": ("layout", lambda row, _: int(row.layout.in_force)),
        },
        key=("pipeline", "topic_id", "partitions"),
    ),
    SegmentRow: Stored(
        table=tables.segment,
        columns={
            "stream": ("segment", lambda row, ids: ids[row.segment.stream]),
            "start_offset": ("segment", _field(attrgetter("segment.start"))),
            **{name: ("segment", _field(attrgetter(f"segment.{name}"))) for name in ("layout", "seal", "declared_at")},
            "sealed": ("segment", lambda row, _: int(row.segment.sealed)),
        },
        key=("stream", "start_offset"),
        required=("seal",),
        then=_write_parents,
    ),
    SnapshotRow: Stored(
        table=tables.snapshot,
        columns={
            **_plain("plan", "reason"),
            **{name: ("seen", _field(attrgetter(f"seen.{name}"))) for name in _SEEN},
            "stream": ("seen", lambda row, ids: ids[row.seen.stream]),
            "start_offset": ("range", lambda row, _: row.range[0]),
            "end_offset": ("range", lambda row, _: row.range[1]),
        },
        key=("plan", "stream"),
        computed={"number": _plan_number},
        then=_forget_old_snapshots,
    ),
    NotifiedRow: Stored(
        table=tables.notified,
        columns=_plain("pipeline", "sequence", "through", lease_holder="holder", lease_until="until"),
        key=("pipeline",),
        required=("sequence", "lease_holder"),
    ),
    RequestRow: Stored(
        table=tables.request,
        columns=_plain("id", "pipeline", "wave", "actor", "at", "until", "bytes_per_second", "answer"),
        key=("id",),
        required=("answer",),
        then=_forget_old_requests,
    ),
}
"""In the order in which rows refer to each other."""

OUTBOX = Stored(
    table=tables.outbox,
    columns={
        "table_name": ("table", lambda item, _: item[0]),
        **{
            column: (column, _of_receipt(path))
            for column, path in {
                **{name: name for name in ("pipeline", "kind", "wave", "attempt", "fence", "generation")},
                **{name: name for name in ("first_offset", "last_offset", "recorded_at", "offsets")},
                **{name: f"accounting.{name}" for name in tables.SUMS},
                "row_count": "rows",
                "start_offset": "slice.range.start",
                "end_offset": "slice.range.end",
            }.items()
        },
        "stream": ("slice", lambda item, ids: ids[item[1].slice.stream]),
    },
    key=("id",),
)
"""How receipts wait for the lake: pairs of a table's name and a receipt."""
