"""The ledger's tables, with the names and types that statements use.

Constraints of the database (uniqueness, checks, no overlap) are in `migrations`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, String, Table, Text

from airflow_kafka_lake.adapters.sql_ledger.types import Choice, LongText, Number, Offsets, Timestamp
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.ledger.waves import AttemptCause, AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.progress import Step

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
    Column("group_offset_state", Choice(GroupOffsetState), nullable=False),
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
    Column("state", Choice(WaveState), nullable=False),
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
    Column("outcome", Choice(AttemptOutcome), nullable=False),
    Column("error", LongText),
    Column("cause", Choice(AttemptCause)),
    Column("started_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    Column("step", Choice(Step)),
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
    Column("state", Choice(RangeState), nullable=False),
    Column("reason", LongText),
    Column("held_for", Offsets),
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
    Column("offsets", Offsets),
)
