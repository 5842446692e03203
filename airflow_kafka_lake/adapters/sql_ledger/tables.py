"""The ledger's tables: column types that SQLite and PostgreSQL spell differently, and many rows in one statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Float,
    FunctionElement,
    Integer,
    MetaData,
    String,
    Subquery,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    cast,
    column,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.ledger.waves import AttemptCause, AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet
from airflow_kafka_lake.core.remedies import Cause
from airflow_kafka_lake.core.reports.progress import Step
from airflow_kafka_lake.core.slices import Slice

# Column types and expressions that SQLite and PostgreSQL spell differently.

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


class ChoiceType(TypeDecorator[StrEnum]):
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
    """Free text from anywhere; characters that a database cannot store (NUL, broken UTF-8) are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Bind the storable form."""
        return None if value is None else clean(value)


class JsonText(TypeDecorator[Any]):
    """A value as JSON; an empty one is NULL. `kind` is one of `_JSON`."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self._empty, self._dump, self._load = _JSON[kind]

    def text(self, value: Any) -> str | None:
        """Return the stored text."""
        return json.dumps(self._dump(value)) if value else None

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Bind the text."""
        return self.text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002 (SQLAlchemy's signature)
        """Return the value."""
        return self._empty if value is None else self._load(json.loads(value))


_JSON: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "offsets": (NOTHING, RangeSet.to_pairs, lambda pairs: RangeSet.of(*pairs)),
    "cause": (None, Cause.to_json, Cause.from_json),
    "slices": ((), lambda items: [item.to_json() for item in items], lambda found: tuple(map(Slice.from_json, found))),
}
"""For each kind its empty value, its JSON, and the value of such JSON."""


def clean(text: str) -> str:
    """Replace the characters that a database cannot store."""
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


# Many rows in one statement: a value that all rows share is bound once, the rest is one JSON document.


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
    return Text() if isinstance(kind, (ChoiceType, LongText, JsonText, String)) else BigInteger()


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that knows `on_conflict_…`, in the database's dialect."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRows:
    """Values inside a statement, by name; `relation` is None where there is one row, or all rows are the same."""

    values: Mapping[str, ColumnElement[Any]]
    relation: Subquery | None

    def __getitem__(self, name: str) -> ColumnElement[Any]:
        return self.values[name]


def given_of(
    connection: Connection, columns: Mapping[str, ColumnElement[Any]], values: Mapping[str, Sequence[Any]]
) -> BoundRows:
    """Return rows, column by column, for a statement; `columns` gives the type of each name."""
    same = {name: found for name, found in values.items() if found.count(found[0]) == len(found)}
    found: dict[str, ColumnElement[Any]] = {name: literal(same[name][0], columns[name].type) for name in same}
    varying = [name for name in values if name not in same]
    if not varying:
        return BoundRows(values=found, relation=None)
    shape: list[Any] = [column(name, columns[name].type) for name in varying]
    zone = "" if connection.dialect.name == "sqlite" else "+00"
    written = (_json(values[name], columns[name].type, zone) for name in varying)
    relation = rows(connection, shape, (dict(zip(varying, row, strict=True)) for row in zip(*written, strict=True)))
    return BoundRows(values=found | {name: relation.c[name] for name in varying}, relation=relation)


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
    if isinstance(kind, JsonText):
        return [kind.text(value) for value in values]
    if isinstance(kind, LongText):
        return [None if value is None else clean(value) for value in values]
    if isinstance(kind, Timestamp):
        return [None if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}{zone}" for value in values]
    return values


# The ledger's tables, with the names and types that statements use.
#
# Constraints of the database (uniqueness, checks, no overlap) are in `migrations`.

PREFIX = "kafka_lake_"
VERSION_TABLE = PREFIX + "alembic_version"
SUMS = ("visible", "control", "aborted", "compacted", "skipped", "unexplained")
"""The columns of an accounting."""

metadata = MetaData()


def _table(name: str, *columns: Column[object]) -> Table:
    return Table(PREFIX + name, metadata, *columns)


def _id(name: str, *, key: bool = False, null: bool = False) -> Column[object]:
    return Column(name, String(200), primary_key=key, nullable=null)


def _offset(name: str, *, null: bool = False) -> Column[object]:
    return Column(name, BigInteger, nullable=null)


def _accounting(*, null: bool) -> list[Column[object]]:
    names = ("row_count", "first_offset", "last_offset", *SUMS)
    return [_offset(name, null=null or name.endswith("_offset")) for name in names]


meta = _table("meta", Column("key", String(40), primary_key=True), Column("value", Text, nullable=False))
"""`ledger_id`. Its row is also the sequence lock that makes sequences grow in commit order."""

pipeline = _table(
    "pipeline",
    _id("name", key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("digest", String(16), nullable=False),
    Column("spec", Text, nullable=False),
    Column("recorded_at", Timestamp, nullable=False),
)
binding = _table(
    "table_binding",
    _id("pipeline", key=True),
    Column("table_name", String(600), primary_key=True),
    Column("uuid", String(100), nullable=False),
)
stream = _table(
    "stream",
    Column("id", Number, primary_key=True),
    _id("pipeline"),
    Column("topic", String(249), nullable=False),
    Column("topic_id", String(40), nullable=False),
    Column("partition", Integer, nullable=False),
    _offset("origin"),
    _offset("watermark"),
    Column("version", BigInteger, nullable=False),
    _offset("end_seen"),
    Column("leader_epoch", Integer),
    Column("since", Timestamp),
)
layout = _table(
    "layout",
    _id("pipeline", key=True),
    Column("topic", String(249), nullable=False),
    Column("topic_id", String(40), primary_key=True),
    Column("partitions", Integer, primary_key=True, autoincrement=False),
    Column("seen_at", Timestamp, nullable=False),
    Column("in_force", Integer, nullable=False),
)
segment = _table(
    "segment",
    Column("id", Number, primary_key=True),
    Column("stream", BigInteger, nullable=False),
    _offset("start_offset"),
    Column("layout", Integer, nullable=False),
    _offset("seal", null=True),
    Column("sealed", Integer, nullable=False),
    Column("declared_at", Timestamp),
)
segment_parent = _table(
    "segment_parent",
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("parent", BigInteger, primary_key=True, autoincrement=False),
)
plan = _table(
    "plan",
    Column("number", Number, primary_key=True),
    _id("id"),
    _id("pipeline"),
    Column("pipeline_version", Integer, nullable=False),
    Column("observed_at", Timestamp, nullable=False),
    Column("recorded_at", Timestamp, nullable=False),
    Column("actor", LongText, nullable=False),
    Column("detail", Text, nullable=False),
    Column("dag", String(250)),
)
pause = _table(
    "pause",
    _id("id", key=True),
    _id("pipeline"),
    _id("plan", null=True),
    Column("reason", LongText, nullable=False),
    Column("actor", LongText, nullable=False),
    Column("at", Timestamp, nullable=False),
)
snapshot = _table(
    "snapshot",
    _id("plan", key=True),
    Column("stream", BigInteger, primary_key=True, autoincrement=False),
    Column("leader_epoch", Integer),
    _offset("log_start"),
    _offset("last_stable"),
    _offset("high_watermark"),
    _offset("group_offset", null=True),
    Column("group_offset_state", ChoiceType(GroupOffsetState), nullable=False),
    _offset("start_offset"),
    _offset("end_offset"),
    Column("reason", LongText, nullable=False),
    Column("number", BigInteger),
)
"""The offsets of its streams that a plan saw: for people, of the newest plans only; no decision reads them."""
wave = _table(
    "wave",
    _id("id", key=True),
    _id("plan"),
    Column("ordinal", Integer, nullable=False),
    _id("pipeline"),
    Column("table_name", String(600), nullable=False),
    Column("state", ChoiceType(WaveState), nullable=False),
    Column("fence", BigInteger, nullable=False),
    _id("attempt", null=True),
    Column("lease_holder", String(400)),
    Column("lease_until", Timestamp),
    Column("snapshot_id", BigInteger),
    Column("committed_at", Timestamp),
)
attempt = _table(
    "attempt",
    _id("wave", key=True),
    Column("fence", BigInteger, primary_key=True, autoincrement=False),
    _id("attempt"),
    Column("lease_holder", String(400), nullable=False),
    Column("job", LongText),
    Column("base", BigInteger),
    Column("audited", BigInteger),
    Column("staged_bytes", BigInteger),
    Column("outcome", ChoiceType(AttemptOutcome), nullable=False),
    Column("error", LongText),
    Column("cause", ChoiceType(AttemptCause)),
    Column("started_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    Column("step", ChoiceType(Step)),
    Column("rows_done", BigInteger),
    Column("rows_expected", BigInteger),
    Column("bytes_done", BigInteger),
    Column("bytes_expected", BigInteger),
    Column("step_at", Timestamp),
    Column("progress_at", Timestamp),
    Column("actor", LongText),
    Column("application", String(200)),
)
skip = _table(
    "skip",
    _id("id", key=True),
    Column("stream", BigInteger, nullable=False),
    _offset("start_offset"),
    _offset("end_offset"),
    Column("offsets", BigInteger, nullable=False),
    Column("reason", LongText, nullable=False),
    Column("actor", LongText, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("acknowledge_order", Boolean, nullable=False),
)
range_ = _table(
    "range",
    _id("id", key=True),
    Column("stream", BigInteger, nullable=False),
    _id("plan", null=True),
    _id("wave", null=True),
    _id("skip", null=True),
    _offset("start_offset"),
    _offset("end_offset"),
    Column("generation", Integer, nullable=False),
    Column("state", ChoiceType(RangeState), nullable=False),
    Column("reason", LongText),
    Column("held_for", JsonText("offsets")),
    Column("cause", JsonText("cause")),
    Column("fewer_accepted", Boolean, nullable=False),
    Column("leader_epoch", Integer),
    Column("estimated_bytes", BigInteger, nullable=False),
    *_accounting(null=True),
)
move = _table(
    "advance",
    Column("sequence", Number, primary_key=True),
    _id("pipeline"),
    Column("stream", BigInteger, nullable=False),
    Column("at", Timestamp, nullable=False),
    _offset("start_offset"),
    _offset("end_offset"),
    Column("row_count", BigInteger, nullable=False),
)
notified = _table(
    "notified",
    _id("pipeline", key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("through", BigInteger),
    Column("lease_holder", LongText),
    Column("lease_until", Timestamp),
)
request = _table(
    "request",
    _id("id", key=True),
    _id("pipeline"),
    _id("wave"),
    Column("actor", LongText, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("until", Timestamp, nullable=False),
    Column("bytes_per_second", BigInteger),
    Column("answer", LongText),
)
event = _table(
    "event",
    Column("sequence", Number, primary_key=True),
    Column("at", Timestamp, nullable=False),
    _id("pipeline"),
    Column("actor", LongText, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("subject", LongText, nullable=False),
    Column("detail", LongText, nullable=False),
    Column("slices", JsonText("slices")),
)
outbox = _table(
    "outbox",
    Column("id", Number, primary_key=True),
    _id("pipeline"),
    Column("table_name", String(600), nullable=False),
    Column("kind", String(20), nullable=False),
    _id("wave"),
    _id("attempt"),
    Column("fence", BigInteger, nullable=False),
    Column("stream", BigInteger, nullable=False),
    _offset("start_offset"),
    _offset("end_offset"),
    Column("generation", Integer, nullable=False),
    *_accounting(null=False),
    Column("recorded_at", Timestamp, nullable=False),
    Column("offsets", JsonText("offsets")),
)
