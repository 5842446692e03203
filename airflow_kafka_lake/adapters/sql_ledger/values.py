"""Many rows in one statement: what is the same in every row is bound once, the rest is one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from sqlalchemy import ColumnElement, Connection, Subquery, Table, column, insert, literal, select

from airflow_kafka_lake.adapters.sql_ledger.types import LongText, Offsets, Timestamp, clean, rows
from airflow_kafka_lake.core.offsets import RangeSet


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
