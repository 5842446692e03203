"""Column types and expressions that SQLite and PostgreSQL spell differently."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    DateTime,
    Dialect,
    Float,
    FunctionElement,
    Integer,
    String,
    Text,
    TypeDecorator,
    literal,
)
from sqlalchemy.ext.compiler import compiles

from airflow_kafka_lake.core.offsets import NOTHING, RangeSet

Number = BigInteger().with_variant(Integer, "sqlite")
"""A key that the database counts up itself."""


class Timestamp(TypeDecorator[datetime]):
    """An aware time in UTC; SQLite keeps it as text of fixed width, so that text order is time order."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Bind as UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Return as UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Choice(TypeDecorator[StrEnum]):
    """One of a closed set of choices, stored as its text."""

    impl = String(20)
    cache_ok = True

    def __init__(self, choices: type[StrEnum]) -> None:
        super().__init__()
        self.choices = choices
        self._members = {word.value: word for word in choices}

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Bind the word."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Return the member."""
        return None if value is None else self._members[value]


class LongText(TypeDecorator[str]):
    """Free text from anywhere: what a database cannot store of it (NUL, broken UTF-8) is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Bind what can be stored."""
        return None if value is None else clean(value)


class Offsets(TypeDecorator[RangeSet]):
    """A set of offsets as JSON, `[[start, end], …]`; an empty one is NULL."""

    impl = Text
    cache_ok = True

    @staticmethod
    def text(value: RangeSet) -> str | None:
        """Return what is stored."""
        return json.dumps(value.to_pairs()) if value else None

    def process_bind_param(self, value: RangeSet | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Bind the text."""
        return None if value is None else self.text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> RangeSet:  # noqa: ARG002 (SQLAlchemy's signature)
        """Return the set."""
        return NOTHING if value is None else RangeSet.of(*json.loads(value))


def clean(text: str) -> str:
    """Replace what a database cannot store."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")


class _Now(FunctionElement[datetime]):
    type = Timestamp()
    inherit_cache = True
    name = "now"


@compiles(_Now, "sqlite")
def _now_sqlite(element: _Now, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.3f seconds', {seconds}))"


@compiles(_Now, "postgresql")
def _now_postgresql(element: _Now, compiler: Any, **kw: Any) -> str:
    return f"(clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **kw)}))"


def now(plus: timedelta = timedelta()) -> ColumnElement[datetime]:
    """Return the database's clock, some time ahead: leases and history never use a worker's."""
    return _Now(literal(plus.total_seconds(), Float))
