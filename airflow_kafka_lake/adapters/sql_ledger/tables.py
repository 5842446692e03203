"""The ledger's tables: column types that SQLite and PostgreSQL spell differently, and many rows in one statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    Enum,
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
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet, Slice
from airflow_kafka_lake.core.remedies import Cause
from airflow_kafka_lake.core.reports.progress import Step

# Column types and expressions that SQLite and PostgreSQL spell differently.

Number = BigInteger().with_variant(Integer, "sqlite")
"""A key that the database counts up itself."""


class Timestamp(TypeDecorator[datetime]):
    """An aware time in UTC; SQLite keeps it as text of fixed width, so that text order is time order."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def choice(of: type[StrEnum]) -> Enum:
    """Return the type of one of a closed set of choices, stored as its text."""
    return Enum(of, native_enum=False, length=20, values_callable=lambda kind: [item.value for item in kind])


class LongText(TypeDecorator[str]):
    """Free text from anywhere; characters that a database cannot store (NUL, broken UTF-8) are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        return None if value is None else clean(value)


class JsonText(TypeDecorator[Any]):
    """A value as JSON; the empty one of its kind is NULL. `kind` is one of `_JSON`."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self._empty, self._dump, self._load = _JSON[kind]

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's signature)
        return None if value == self._empty else json.dumps(self._dump(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002 (SQLAlchemy's signature)
        return self._empty if value is None else self._load(json.loads(value))


_JSON: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "offsets": (NOTHING, RangeSet.to_pairs, lambda pairs: RangeSet.of(*pairs)),
    "known offsets": (None, RangeSet.to_pairs, lambda pairs: RangeSet.of(*pairs)),
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
    return Text() if isinstance(kind, (LongText, JsonText, String)) else BigInteger()


def upsert(connection: Connection, table: Table) -> Any:
    """Return an INSERT that knows `on_conflict_…`, in the database's dialect."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


def given_of(
    connection: Connection, columns: Mapping[str, ColumnElement[Any]], values: Mapping[str, Sequence[Any]]
) -> tuple[Mapping[str, ColumnElement[Any]], Subquery | None]:
    """Return rows, column by column, for a statement; `columns` gives the type of each name. The relation of their
    values is None where there is one row, or all rows are the same."""
    same = {name: found for name, found in values.items() if found.count(found[0]) == len(found)}
    found: dict[str, ColumnElement[Any]] = {name: literal(same[name][0], columns[name].type) for name in same}
    varying = [name for name in values if name not in same]
    if not varying:
        return found, None
    shape: list[Any] = [column(name, columns[name].type) for name in varying]
    written = (_json(values[name], columns[name].type, connection.dialect) for name in varying)
    relation = rows(connection, shape, (dict(zip(varying, row, strict=True)) for row in zip(*written, strict=True)))
    return found | {name: relation.c[name] for name in varying}, relation


def insert_columns(
    connection: Connection, table: Table, values: Mapping[str, Sequence[Any]], **same: ColumnElement[Any]
) -> None:
    """Insert rows, column by column, with one statement; `same` are expressions for every row."""
    if len(next(iter(values.values()))) == 1:
        connection.execute(insert(table).values({name: found[0] for name, found in values.items()} | same))
        return
    given, relation = given_of(connection, {name: table.c[name] for name in values}, values)
    every = {name: given[name] for name in values} | same
    source = select(*(value.label(name) for name, value in every.items()))
    if relation is not None:
        source = source.select_from(relation)
    connection.execute(insert(table).from_select(list(every), source))


def _json(values: Sequence[Any], kind: Any, dialect: Dialect) -> Sequence[Any]:
    """Return values as JSON has them, times in UTC."""
    if isinstance(kind, (JsonText, LongText)):
        return [kind.process_bind_param(value, dialect) for value in values]
    if isinstance(kind, Timestamp):
        zone = "" if dialect.name == "sqlite" else "+00"
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

_TYPES: dict[str, Any] = {
    **dict.fromkeys(("id", "name", "pipeline", "plan", "wave", "attempt", "skip", "application"), String(200)),
    **dict.fromkeys(("value", "spec", "actor", "reason", "detail", "subject", "job", "error", "answer"), LongText()),
    **dict.fromkeys(("partition", "partitions", "in_force", "layout", "sealed"), Integer()),
    **dict.fromkeys(("leader_epoch", "pipeline_version", "ordinal", "generation"), Integer()),
    **dict.fromkeys(("at", "until", "since", "recorded_at", "seen_at", "observed_at", "declared_at"), Timestamp()),
    **dict.fromkeys(("lease_until", "committed_at", "started_at", "ended_at", "step_at", "progress_at"), Timestamp()),
    **dict.fromkeys(("acknowledge_order", "fewer_accepted"), Boolean()),
    **dict.fromkeys(("topic_id", "key"), String(40)),
    "table_name": String(600),
    "topic": String(249),
    "uuid": String(100),
    "dag": String(250),
    "digest": String(16),
    "kind": String(20),
    "lease_holder": String(400),
}
"""The types of columns by their names, where a table gives none of its own: all others are numbers of 64 bits."""


def _table(name: str, key: str, needed: str, optional: str = "", **types: Any) -> Table:
    kinds = _TYPES | types

    def columns(names: str, **options: Any) -> list[Column[object]]:
        return [Column(each, kinds.get(each, BigInteger()), **options) for each in names.split()]

    # Numbers of a key are given by us, but for the type `Number`: SQLAlchemy counts up a key of one column alone.
    keys = columns(key, primary_key=True)
    return Table(PREFIX + name, metadata, *keys, *columns(needed, nullable=False), *columns(optional, nullable=True))


_INTERVAL = "start_offset end_offset"
_BOUNDS = "first_offset last_offset"
_ACCOUNTING = "row_count " + " ".join(SUMS)

meta = _table("meta", "key", "value")
"""`ledger_id`. Its row is also the sequence lock that makes sequences grow in commit order."""

pipeline = _table("pipeline", "name version", "digest spec recorded_at", version=Integer())
binding = _table("table_binding", "pipeline table_name", "uuid")
stream = _table(
    "stream",
    key="id",
    needed="pipeline topic topic_id partition origin watermark version end_seen",
    optional="leader_epoch since",
    id=Number,
)
layout = _table("layout", "pipeline topic_id partitions", "topic seen_at in_force")
segment = _table("segment", "id", "stream start_offset layout sealed", "seal declared_at", id=Number)
segment_parent = _table("segment_parent", "segment parent", "")
plan = _table(
    "plan",
    key="number",
    needed="id pipeline pipeline_version observed_at recorded_at actor detail",
    optional="dag",
    number=Number,
)
pause = _table("pause", "id", "pipeline reason actor at", "plan")
snapshot = _table(
    "snapshot",
    key="plan stream",
    needed=f"log_start last_stable high_watermark group_offset_state {_INTERVAL} reason",
    optional="leader_epoch group_offset number",
    group_offset_state=choice(GroupOffsetState),
)
"""The offsets of its streams that a plan saw: for people, of the newest plans only; no decision reads them."""
wave = _table(
    "wave",
    key="id",
    needed="plan ordinal pipeline table_name state fence",
    optional="attempt lease_holder lease_until snapshot_id committed_at",
    state=choice(WaveState),
)
attempt = _table(
    "attempt",
    key="wave fence",
    needed="attempt lease_holder outcome started_at",
    optional="job base audited staged_bytes error cause ended_at actor application "
    "step step_at progress_at rows_done rows_expected bytes_done bytes_expected",
    outcome=choice(AttemptOutcome),
    cause=choice(AttemptCause),
    step=choice(Step),
)
skip = _table("skip", "id", f"stream {_INTERVAL} offsets reason actor at acknowledge_order")
range_ = _table(
    "range",
    key="id",
    needed=f"stream {_INTERVAL} generation state fewer_accepted estimated_bytes",
    optional=f"plan wave skip reason held_for cause leader_epoch {_BOUNDS} {_ACCOUNTING}",
    state=choice(RangeState),
    held_for=JsonText("offsets"),
    cause=JsonText("cause"),
)
move = _table("advance", "sequence", f"pipeline stream at {_INTERVAL} row_count", sequence=Number)
notified = _table("notified", "pipeline", "sequence", "through lease_holder lease_until", lease_holder=LongText())
request = _table("request", "id", "pipeline wave actor at until", "bytes_per_second answer")
event = _table(
    "event", "sequence", "at pipeline actor kind subject detail", "slices", sequence=Number, slices=JsonText("slices")
)
outbox = _table(
    "outbox",
    key="id",
    needed=f"pipeline table_name kind wave attempt fence stream {_INTERVAL} generation recorded_at {_ACCOUNTING}",
    optional=f"offsets {_BOUNDS}",
    id=Number,
    offsets=JsonText("known offsets"),
)
