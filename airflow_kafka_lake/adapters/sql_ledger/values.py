"""Many rows in one statement: what is the same in every row is bound once, the rest is one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    DateTime,
    String,
    Subquery,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from airflow_kafka_lake.adapters.sql_ledger.types import Choice, LongText, Offsets, Timestamp, clean
from airflow_kafka_lake.core.offsets import RangeSet


def rows(connection: Connection, columns: Sequence[Any], values: Iterable[Mapping[str, Any]]) -> Subquery:
    """Return values as a relation inside a statement: one bound JSON document, whatever the number of rows.

    `columns` gives the names and types; each value is a mapping of JSON values by column name.
    """
    document = bindparam(None, json.dumps([dict(value) for value in values]), Text)
    if connection.dialect.name == "sqlite":
        each = func.json_each(document).table_valued("value", name="each")
        parts = [func.json_extract(each.c.value, f"$.{c.name}", type_=c.type).label(c.name) for c in columns]
        # Without the limit the planner merges this into the outer query, and parses the document once per row there.
        return select(*parts).limit(-1).subquery("given")
    shape = [column(c.name, _plain(c.type)) for c in columns]
    each = func.json_to_recordset(cast(document, JSON)).table_valued(*shape, name="each")
    return select(each.render_derived(with_types=True)).subquery("given")


def _plain(kind: Any) -> Any:
    if isinstance(kind, Boolean):
        return Boolean()
    if isinstance(kind, Timestamp):
        return DateTime(timezone=True)
    return Text() if isinstance(kind, (Choice, LongText, Offsets, String)) else BigInteger()


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that knows `on_conflict_…`, in the database's dialect."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Values inside a statement, by name; `relation` is None where there is one row, or all rows are the same."""

    values: Mapping[str, ColumnElement[Any]]
    relation: Subquery | None

    def __getitem__(self, name: str) -> ColumnElement[Any]:
        return self.values[name]


def given_of(
    connection: Connection, columns: Mapping[str, ColumnElement[Any]], values: Mapping[str, Sequence[Any]]
) -> Given:
    """Return rows, column by column, for a statement; `columns` gives the type of each name."""
    same = {name: found for name, found in values.items() if found.count(found[0]) == len(found)}
    found: dict[str, ColumnElement[Any]] = {name: literal(same[name][0], columns[name].type) for name in same}
    varying = [name for name in values if name not in same]
    if not varying:
        return Given(values=found, relation=None)
    shape: list[Any] = [column(name, columns[name].type) for name in varying]
    zone = "" if connection.dialect.name == "sqlite" else "+00"
    written = (_json(values[name], columns[name].type, zone) for name in varying)
    relation = rows(connection, shape, (dict(zip(varying, row, strict=True)) for row in zip(*written, strict=True)))
    return Given(values=found | {name: relation.c[name] for name in varying}, relation=relation)


def insert_columns(
    connection: Connection, table: Table, values: Mapping[str, Sequence[Any]], **same: ColumnElement[Any]
) -> None:
    """Insert rows, column by column, with one statement; `same` are expressions for every row."""
    if len(next(iter(values.values()))) == 1:
        connection.execute(insert(table).values({name: found[0] for name, found in values.items()} | same))
        return
    given = given_of(connection, {name: table.c[name] for name in values}, values)
    every = {name: given[name] for name in values} | same
    source = select(*(value.label(name) for name, value in every.items()))
    if given.relation is not None:
        source = source.select_from(given.relation)
    connection.execute(insert(table).from_select(list(every), source))


def _json(values: Sequence[Any], kind: Any, zone: str) -> Sequence[Any]:
    """Return values as JSON has them, times in UTC."""
    if isinstance(kind, Offsets):
        return [Offsets.text(value) if isinstance(value, RangeSet) else None for value in values]
    if isinstance(kind, LongText):
        return [None if value is None else clean(value) for value in values]
    if isinstance(kind, Timestamp):
        return [None if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}{zone}" for value in values]
    return values
