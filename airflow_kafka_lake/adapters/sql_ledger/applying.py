"""How a change is written: one statement for each kind of row and of edit, whatever the number of rows.

What must be as it was read stands in every WHERE clause, and the number of rows is compared (law L10): one less, and
nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter, is_not
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update

from airflow_kafka_lake.adapters.sql_ledger import segment_rows
from airflow_kafka_lake.adapters.sql_ledger.bookkeeping import keep_snapshots, record_event
from airflow_kafka_lake.adapters.sql_ledger.loading import stream_ids
from airflow_kafka_lake.adapters.sql_ledger.stored import STORED, SUMS, Ids, Stored
from airflow_kafka_lake.adapters.sql_ledger.tables import outbox, snapshot
from airflow_kafka_lake.adapters.sql_ledger.values import Given, given_of, insert_columns
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit
from airflow_kafka_lake.core.ledger.records import ReceiptRow
from airflow_kafka_lake.core.ledger.rows import SegmentRow, StreamRow
from airflow_kafka_lake.core.slices import Stream

_NEW = "new_"
"""Begins the name of a value that a column gets, beside the one that it must have."""


def apply(connection: Connection, change: Change[Any], ids: dict[Stream, int]) -> None:
    """Write a change, or raise ConcurrentError where a row is not what it was decided from; `ids` learns those of new
    streams."""
    by_kind: dict[type, list[Edit]] = defaultdict(list)
    for edit in change.edits:
        by_kind[type(edit.row)].append(edit)
    for kind, stored in STORED.items():
        if edits := by_kind.pop(kind, None):
            _apply(connection, stored, edits, ids)
            _follow(connection, edits, ids)
    assert not by_kind, by_kind.keys()
    if change.outbox:
        _put_into_outbox(connection, change.outbox, ids)
    for entry in change.entries:
        record_event(connection, entry)


def _follow(connection: Connection, edits: Sequence[Edit], ids: dict[Stream, int]) -> None:
    """Learn the numbers of new streams, and write the parents of segments: both refer to what was just written."""
    new = [edit.after for edit in edits if edit.before is None]
    if streams := [row for row in new if isinstance(row, StreamRow)]:
        ids.update(stream_ids(connection, streams[0].pipeline, [row.key for row in streams]))
    if segments := [row for edit in edits if isinstance(row := edit.after, SegmentRow)]:
        segment_rows.write_parents(connection, segments[0].pipeline, [row.segment for row in segments])


def _apply(connection: Connection, stored: Stored, edits: Sequence[Edit], ids: Ids) -> None:
    """Remove and change before inserting: a cut range shrinks before its other pieces come, so that no two overlap."""
    gone = [edit.before for edit in edits if edit.after is None]
    changed = [edit for edit in edits if edit.before is not None and edit.after is not None]
    new = [edit.after for edit in edits if edit.before is None]
    if gone:
        _remove(connection, stored, gone, ids)
    if changed:
        _update(connection, stored, changed, ids)
    if new:
        values = {name: [get(row, ids) for row in new] for name, (_, get) in stored.columns.items()}
        if stored.table is snapshot:
            keep_snapshots(connection, values)
        else:
            insert_columns(connection, stored.table, values)


def _remove(connection: Connection, stored: Stored, rows: Sequence[Any], ids: Ids) -> None:
    same = stored.table.alias("same")
    _, where = _found(connection, stored, _as_read(stored, rows, ids), table=same)
    (key,) = stored.key
    asked = select(same.c[key]).where(*where)
    _execute(connection, delete(stored.table).where(stored.table.c[key].in_(asked)), len(rows))


def _update(connection: Connection, stored: Stored, edits: Sequence[Edit], ids: Ids) -> None:
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


def _as_read(stored: Stored, rows: Sequence[Any], ids: Ids) -> dict[str, list[Any]]:
    """Return, column by column, what names rows and what must be as it was read."""
    return {name: [stored.columns[name][1](row, ids) for row in rows] for name in (*stored.key, *stored.required)}


def _found(
    connection: Connection, stored: Stored, values: dict[str, list[Any]], *, table: Any
) -> tuple[Given, list[ColumnElement[bool]]]:
    """Return the rows as a relation, with what they become, and the condition that each is there and as it was read."""
    given = given_of(connection, {name: table.c[name.removeprefix(_NEW)] for name in values}, values)
    same = [table.c[name] == given[name] for name in stored.key]
    same += [table.c[name].is_not_distinct_from(given[name]) for name in stored.required]
    return given, same


def _execute(connection: Connection, statement: Any, expected: int) -> None:
    if connection.execute(statement).rowcount != expected:
        raise guards.overtaken("What this was decided from was changed by another writer meanwhile.")


def _put_into_outbox(connection: Connection, receipts: Sequence[tuple[str, ReceiptRow]], ids: Ids) -> None:
    rows = [row for _, row in receipts]
    values: dict[str, list[Any]] = {
        "table_name": [table for table, _ in receipts],
        "stream": [ids[row.slice.stream] for row in rows],
        "start_offset": [row.slice.range.start for row in rows],
        "end_offset": [row.slice.range.end for row in rows],
        "row_count": [row.rows for row in rows],
        **{name: [getattr(row.accounting, name) for row in rows] for name in SUMS},
    }
    for name in ("pipeline", "kind", "wave", "attempt", "fence", "generation", "first_offset", "last_offset"):
        values[name] = [getattr(row, name) for row in rows]
    for name in ("recorded_at", "offsets"):
        values[name] = [getattr(row, name) for row in rows]
    insert_columns(connection, outbox, values)
