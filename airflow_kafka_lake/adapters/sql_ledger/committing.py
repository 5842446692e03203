"""A write in one transaction: its scope is loaded under lock, it decides, and its change is applied (law L10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter, is_not
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, delete, select, update
from sqlalchemy.exc import IntegrityError

from airflow_kafka_lake.adapters.sql_ledger.database import ErrorKind, error_kind
from airflow_kafka_lake.adapters.sql_ledger.events import record_event
from airflow_kafka_lake.adapters.sql_ledger.loading import Loading
from airflow_kafka_lake.adapters.sql_ledger.stored import OUTBOX, STORED, Ids, Stored
from airflow_kafka_lake.adapters.sql_ledger.values import Given, given_of, insert_columns
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Write
from airflow_kafka_lake.core.slices import Stream

_NEW = "new_"
"""Begins the name of a value that a column gets, beside the one that it must have."""

T = TypeVar("T")


def commit(connection: Connection, write: Write[T]) -> T:
    """Return what a write answers, once its change is written."""
    loading = Loading(connection, write.scope())
    change = write.decide(loading.load())
    try:
        apply(connection, change, loading.ids)
    except IntegrityError as error:
        if refusal := write.refused(overlap=error_kind(error) is ErrorKind.OVERLAP):
            raise refusal from None
        raise
    return change.result


def apply(connection: Connection, change: Change[Any], ids: dict[Stream, int]) -> None:
    """Write a change with one statement for each kind of row and of edit, whatever the number of rows.

    Each WHERE clause has what must be as it was read, and the number of rows is compared (law L10): ConcurrentError if
    one is missing. `ids` learns the numbers of new streams.
    """
    by_kind: dict[type, list[Edit]] = defaultdict(list)
    for edit in change.edits:
        by_kind[type(edit.row)].append(edit)
    for kind, stored in STORED.items():
        if edits := by_kind.pop(kind, None):
            _apply(connection, stored, edits, ids)
            stored.then(connection, edits, ids)
    assert not by_kind, by_kind.keys()
    if change.outbox:
        _insert(connection, OUTBOX, change.outbox, ids)
    for entry in change.entries:
        record_event(connection, entry)


def _apply(connection: Connection, stored: Stored, edits: Sequence[Edit], ids: Ids) -> None:
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


def _insert(connection: Connection, stored: Stored, rows: Sequence[Any], ids: Ids) -> None:
    values = {name: [get(row, ids) for row in rows] for name, (_, get) in stored.columns.items()}
    computed = {name: expression(rows) for name, expression in stored.computed.items()}
    insert_columns(connection, stored.table, values, **computed)


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
