"""The first schema.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True)
RANGE_STATES = ("PLANNED", "CANCELLED", "HELD", "SETTLED", "SKIPPED")
WAVE_STATES = ("PLANNED", "CLAIMED", "STAGED", "PUBLISHING", "COMMITTED", "CANCELLED", "DISSOLVED")
OUTCOMES = ("running", "staged", "committed", "rejected", "failed", "unknown", "abandoned")
SUMS = ("visible", "control", "aborted", "compacted", "skipped")


def _table(name: str, *parts: sa.schema.SchemaItem) -> None:
    # AUTOINCREMENT: a number that was deleted (outbox) is never given again.
    op.create_table(f"kafka_lake_{name}", *parts, sqlite_autoincrement=True)


def _text(name: str, length: int | None = 200, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text() if length is None else sa.String(length), nullable=null)


def _big(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=null)


def _small(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=null)


def _time(name: str, *, null: bool = False) -> sa.Column[object]:
    return sa.Column(name, TIME, nullable=null)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, NUMBER, autoincrement=True, nullable=False)


def _stretch() -> list[sa.schema.SchemaItem]:
    return [
        _big("start_offset"),
        _big("end_offset"),
        sa.CheckConstraint("start_offset >= 0 AND end_offset > start_offset"),
    ]


def _one_of(column: str, words: tuple[str, ...]) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(word) for word in words)})")


def _to(table: str, *columns: str, key: str = "id") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(columns, [f"kafka_lake_{table}.{key}"])


def _accounting(*, null: bool) -> list[sa.Column[int]]:
    return [
        _big("row_count", null=null),
        _big("first_offset", null=True),
        _big("last_offset", null=True),
        *(_big(name, null=null) for name in (*SUMS, "unexplained")),
    ]


def upgrade() -> None:
    """Create everything."""
    _subjects()
    _plans()
    _waves()
    _ranges()
    _histories()
    _forbid_overlap()
    meta = sa.table("kafka_lake_meta", sa.column("key"), sa.column("value"))
    op.get_bind().execute(sa.insert(meta).values(key="ledger_id", value=secrets.token_hex(16)))


def _subjects() -> None:
    _table("meta", _text("key", 40), _text("value", None), sa.PrimaryKeyConstraint("key"))
    _table(
        "pipeline",
        _text("name"),
        _small("version"),
        _text("digest", 16),
        _text("spec", None),
        _time("recorded_at"),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    _table(
        "table_binding",
        _text("pipeline"),
        _text("table_name", 600),
        _text("uuid", 100),
        sa.PrimaryKeyConstraint("pipeline", "table_name"),
    )
    _table(
        "stream",
        _number("id"),
        _text("pipeline"),
        _text("topic", 249),
        _text("topic_id", 40),
        _small("partition"),
        _big("origin"),
        _big("watermark"),
        _big("version"),
        _big("end_seen"),
        _small("leader_epoch", null=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pipeline", "topic_id", "partition"),
        sa.CheckConstraint("origin >= 0 AND watermark >= origin"),
    )


def _plans() -> None:
    _table(
        "plan",
        _number("number"),
        _text("id"),
        _text("pipeline"),
        _small("pipeline_version"),
        _time("observed_at"),
        _time("recorded_at"),
        _text("actor", None),
        _text("detail", None),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.ForeignKeyConstraint(
            ["pipeline", "pipeline_version"], ["kafka_lake_pipeline.name", "kafka_lake_pipeline.version"]
        ),
    )
    _table(
        "snapshot",
        _text("plan"),
        _big("stream"),
        _small("leader_epoch", null=True),
        _big("log_start"),
        _big("last_stable"),
        _big("high_watermark"),
        _big("group_offset", null=True),
        _text("group_offset_state", 20),
        _big("start_offset"),
        _big("end_offset"),
        _text("reason", None),
        sa.PrimaryKeyConstraint("plan", "stream"),
        _to("plan", "plan"),
        _to("stream", "stream"),
    )


def _waves() -> None:
    _table(
        "wave",
        _text("id"),
        _text("plan"),
        _small("ordinal"),
        _text("pipeline"),
        _text("table_name", 600),
        _text("state", 20),
        _big("fence"),
        _text("attempt", null=True),
        _text("holder", 400, null=True),
        _time("lease_until", null=True),
        _big("snapshot_id", null=True),
        _time("settled_at", null=True),
        sa.PrimaryKeyConstraint("id"),
        _to("plan", "plan"),
        _one_of("state", WAVE_STATES),
        sa.CheckConstraint("fence >= 0"),
    )
    op.create_index("kafka_lake_wave_by_state", "kafka_lake_wave", ["pipeline", "state"])
    op.create_index("kafka_lake_wave_by_plan", "kafka_lake_wave", ["plan"])
    _table(
        "attempt",
        _text("wave"),
        _big("fence"),
        _text("attempt"),
        _text("holder", 400),
        _text("job", None, null=True),
        _big("base", null=True),
        _big("audited", null=True),
        _big("staged_bytes", null=True),
        _text("outcome", 20),
        _text("error", None, null=True),
        _time("started_at"),
        _time("ended_at", null=True),
        sa.PrimaryKeyConstraint("wave", "fence"),
        sa.UniqueConstraint("attempt"),
        _to("wave", "wave"),
        _one_of("outcome", OUTCOMES),
    )


def _ranges() -> None:
    _table(
        "skip",
        _text("id"),
        _big("stream"),
        *_stretch(),
        _big("offsets"),
        _text("reason", None),
        _text("actor", None),
        _time("at"),
        sa.Column("acknowledge_order", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        _to("stream", "stream"),
    )
    proof = " + ".join(f"coalesce({name}, 0)" for name in SUMS)
    _table(
        "range",
        _text("id"),
        _big("stream"),
        _text("plan", null=True),
        _text("wave", null=True),
        _text("skip", null=True),
        *_stretch(),
        _small("generation"),
        _text("state", 20),
        _text("reason", None, null=True),
        _big("estimated_bytes"),
        *_accounting(null=True),
        sa.PrimaryKeyConstraint("id"),
        _to("stream", "stream"),
        _to("plan", "plan"),
        _to("wave", "wave"),
        _to("skip", "skip"),
        _one_of("state", RANGE_STATES),
        # Law L8 in the database: nothing counts as resolved before each of its offsets is accounted for.
        sa.CheckConstraint(
            "state NOT IN ('SETTLED', 'SKIPPED') "
            f"OR (coalesce(unexplained, 0) = 0 AND {proof} = end_offset - start_offset)"
        ),
        sa.CheckConstraint("state = 'SKIPPED' OR wave IS NOT NULL"),
        sa.CheckConstraint("state <> 'SKIPPED' OR skip IS NOT NULL"),
    )
    op.create_index("kafka_lake_range_by_stream", "kafka_lake_range", ["stream", "start_offset"])
    op.create_index("kafka_lake_range_by_wave", "kafka_lake_range", ["wave"])
    op.create_index("kafka_lake_range_by_plan", "kafka_lake_range", ["plan"])
    op.create_index("kafka_lake_range_by_state", "kafka_lake_range", ["state", "stream"])


def _histories() -> None:
    _table(
        "advance",
        _number("sequence"),
        _text("pipeline"),
        _big("stream"),
        _time("at"),
        *_stretch(),
        _big("row_count"),
        sa.PrimaryKeyConstraint("sequence"),
        _to("stream", "stream"),
    )
    op.create_index("kafka_lake_advance_by_pipeline", "kafka_lake_advance", ["pipeline", "sequence"])
    _table("told", _text("pipeline"), _big("sequence"), sa.PrimaryKeyConstraint("pipeline"))
    _table(
        "event",
        _number("sequence"),
        _time("at"),
        _text("pipeline"),
        _text("actor", None),
        _text("kind", 20),
        _text("subject", None),
        _text("detail", None),
        sa.PrimaryKeyConstraint("sequence"),
    )
    op.create_index("kafka_lake_event_by_pipeline", "kafka_lake_event", ["pipeline", "sequence"])
    _table(
        "outbox",
        _number("id"),
        _text("pipeline"),
        _text("table_name", 600),
        _text("kind", 20),
        _text("wave"),
        _text("attempt"),
        _big("fence"),
        _big("stream"),
        *_stretch(),
        _small("generation"),
        *_accounting(null=False),
        _time("recorded_at"),
        sa.PrimaryKeyConstraint("id"),
        _to("stream", "stream"),
    )
    op.create_index("kafka_lake_outbox_by_pipeline", "kafka_lake_outbox", ["pipeline", "id"])


def _forbid_overlap() -> None:
    """Law L2 by constraint. PostgreSQL: stream, generation and offset folded into one number need no extension."""
    if op.get_bind().dialect.name == "postgresql":
        fold = "(stream::numeric * 1000000 + generation) * 9223372036854775808"
        op.execute(
            "ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_no_overlap EXCLUDE USING gist "
            f"(numrange({fold} + start_offset, {fold} + end_offset) WITH &&)"
        )
        return
    for name, when in (("insert", "INSERT"), ("update", "UPDATE OF stream, generation, start_offset, end_offset")):
        # Recorded ranges do not overlap each other, so only the last one that starts before the new end can.
        op.execute(
            f"CREATE TRIGGER kafka_lake_range_no_overlap_{name} BEFORE {when} ON kafka_lake_range BEGIN "
            "SELECT RAISE(ABORT, 'kafka_lake: ranges of a stream never overlap') WHERE NEW.start_offset < ("
            "SELECT end_offset FROM kafka_lake_range WHERE stream = NEW.stream AND generation = NEW.generation "
            "AND start_offset < NEW.end_offset AND id <> NEW.id ORDER BY start_offset DESC LIMIT 1); END"
        )
