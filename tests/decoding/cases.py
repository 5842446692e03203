"""What a drawn topic is, and how a landed row is judged: it says what an independent library says, or it has an error.

A case is one record under one version of a schema. A peculiarity is what a case or its topic has beside the ordinary;
its name is how known faults are listed.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Decoding, RegisteredSchema
from airflow_kafka_lake.core.spark.job import LANDED, METADATA_COLUMNS

_Item = TypeVar("_Item")

NONE, ANY = "no row can be right", "any row is right"
"""What is expected where only an error is right, and where the library cannot say."""

PREFIX = "value_"
"""Before a column whose field has the name of a column that every table has."""

MAY_REFUSE = frozenset({
    "avro: a type becomes one that the table does not widen to",
    "avro: names that differ in case only",
    "avro: the scale of a decimal changes",
    "avro: the unit of a time changes",
    "avro: a logical type is dropped",
    "json: a name that no path in a table can have",
    "json: a type that the table does not have",
})  # fmt: skip
"""What a table cannot have, or not beside what it has: an error beside the bytes of every record is right."""

WORDS = (
    "id",
    "amount",
    "order",
    "select",
    "group",
    "element",
    "timestamp",
    "date",
    "null",
    "member0",
    "x",
    "Zip",
    "a_b",
)
"""Ordinary names, among them words of SQL."""

CLASHES = ("value", "key", "headers", "kafka_offset", "Value", "decode_error", "value_schema_id", "_file", "_pos")
"""Names of columns that every table has, or Iceberg keeps to itself."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Draw(random.Random):
    """Random choices, and the peculiarities that they have brought."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self.met: set[str] = set()

    def chance(self, share: float) -> bool:
        return self.random() < share

    def pick(self, items: Sequence[_Item]) -> _Item:
        return items[self.randrange(len(items))]

    def odd(self, items: Mapping[str, _Item]) -> _Item:
        """Return one of some peculiar things, and remember its name."""
        name = self.pick(sorted(items))
        self.met.add(name)
        return items[name]

    def noted(self) -> frozenset[str]:
        """Return what was met since the last call."""
        found = frozenset(self.met)
        self.met.clear()
        return found

    def names(self, count: int, *, clash: float = 0.0) -> list[str]:
        """Return so many names that differ, whatever their case."""
        found = self.sample(WORDS, min(count, len(WORDS)))
        if clash and found and self.chance(clash):
            self.met.add("name of a column that every table has")
            found[0] = self.pick(CLASHES)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A value, what it means by an independent library (columns by name, or NONE), and whether an error is wrong."""

    value: bytes | None
    expected: Any
    must: bool = False
    peculiar: frozenset[str] = frozenset()


Agrees = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[str]]
"""Takes what is expected and a row; yields what in the row is something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is registered by then, what the pipeline asks for, and the records that land then."""

    asked: Decoding
    versions: tuple[RegisteredSchema, ...]
    cases: tuple[Case, ...]
    agrees: Agrees


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A topic with the versions of its schema, oldest first."""

    name: str
    stages: tuple[Stage, ...]
    peculiar: frozenset[str]
    versions: tuple[str, ...]
    """Each in words, for a person."""

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(sorted(self.peculiar)) or 'ordinary'}): {' -> '.join(self.versions)}"


def judged(stage: Stage, case: Case, row: Mapping[str, Any], *, must: bool) -> str | None:
    """Return what is wrong with a row of the table, by the columns of one reader; None: it is right."""
    if row["value"] != case.value:
        return "other bytes than were sent"
    error = row.get(ERROR_COLUMN)
    if case.value is None or error is not None:
        kept = [name for name, item in row.items() if item is not None and name not in {*LANDED, ERROR_COLUMN}]
        if error is None or case.value is None or set(kept) - {SCHEMA_ID_COLUMN}:
            wrong = set(kept) or error is not None
            return f"an error or no value, with columns {kept}, error {error}" if wrong else None
        return f"must decode, and: {error}" if must else None
    if case.expected is NONE:
        there = {name: item for name, item in row.items() if name not in LANDED and item is not None}
        return f"no row can be right, and there is {there!r:.300}"
    return None if case.expected is ANY else next(stage.agrees(case.expected, row), None)


def column(row: Mapping[str, Any], name: str) -> Any:
    """Return the column of a field, by the rules for names; a column that is not there is null."""
    taken = {item.lower() for item in (*LANDED, ERROR_COLUMN, SCHEMA_ID_COLUMN)} | METADATA_COLUMNS
    wanted = f"{PREFIX}{name}" if name.lower() in taken else name
    by_lower = {key.lower(): item for key, item in row.items()}
    return row.get(wanted, by_lower.get(wanted.lower()))


def part(record: Any, name: str) -> Any:
    """Return the part of a nested record, whatever the case of its name."""
    return record.get(name, {key.lower(): item for key, item in record.items()}.get(name.lower()))


def same_float(one: Any, other: Any, *, narrow: bool = False) -> bool:
    """Return whether two numbers are the same bits, or both are none."""
    if not isinstance(one, float | int | Decimal) or not isinstance(other, float | int | Decimal):
        return False
    a, b = float(one), float(other)
    if narrow:
        a, b = narrowed(a), narrowed(b)
    return (math.isnan(a) and math.isnan(b)) or struct.pack(">d", a) == struct.pack(">d", b)


def narrowed(number: float) -> float:
    """Return a number as one of 32 bits."""
    try:
        found: float = struct.unpack(">f", struct.pack(">f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


def entries(found: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a map as any reader has it."""
    return list(found.items()) if isinstance(found, dict) else [tuple(item) for item in found]


def legal(name: str) -> str:
    """Return a name as Iceberg writes it into files: Avro, whose rules it keeps, has letters, digits and _ alone."""
    found = "".join(c if c.isalnum() or c == "_" else f"_x{ord(c):X}" for c in name)
    return f"_{found}" if found[:1].isdigit() else found


def plain(value: Any) -> Any:
    """Return what a reader gave in a form that is equal for all readers."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return {legal(key).lower(): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value] or None  # PyIceberg has no list for an empty one
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def as_micros(value: Any) -> int | None:
    """Return a time, or a day, or an hour of a day as microseconds; None for anything else."""
    micro = timedelta(microseconds=1)
    match value:
        case datetime():
            return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // micro
        case date():
            return (value - date(1970, 1, 1)).days * 86_400_000_000
        case time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return None
