"""The schema; ledgers of revision 0008, which had other words for some of it, are upgraded.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import hashlib
import json
import secrets

import sqlalchemy as sa
from alembic import op

from airflow_kafka_lake.adapters.sql_ledger.migrations import parts

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

RANGE_STATES = ("PLANNED", "CANCELLED", "HELD", "COMMITTED", "SKIPPED")
WAVE_STATES = ("PLANNED", "CLAIMED", "STAGED", "PUBLISHING", "COMMITTED", "CANCELLED", "DISSOLVED")
OUTCOMES = ("running", "staged", "committed", "rejected", "failed", "unknown", "abandoned")

RENAMED_SETTINGS = {"settle_time": "layout_grace", "mirror_group": "sync_group"}
PIPELINE = sa.table("kafka_lake_pipeline", *map(sa.column, ("name", "version", "digest", "spec")))


def upgrade() -> None:
    """Create everything; where the tables of revision 0008 stand, upgrade them."""
    if sa.inspect(op.get_bind()).has_table("kafka_lake_told"):
        _rename_settings()
        _rename_columns()
        return
    _subjects()
    _layouts()
    _plans()
    _waves()
    _skips()
    _ranges()
    _index_ranges()
    _histories()
    _notified()
    meta = sa.table("kafka_lake_meta", sa.column("key"), sa.column("value"))
    op.get_bind().execute(sa.insert(meta).values(key="ledger_id", value=secrets.token_hex(16)))


def _rename_settings() -> None:
    """Write each configuration and its digest anew, so that the same pipeline file does not count as another."""
    connection = op.get_bind()
    for row in connection.execute(sa.select(PIPELINE)).all():
        spec = {RENAMED_SETTINGS.get(key, key): value for key, value in json.loads(row.spec).items()}
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
        found = (PIPELINE.c.name == row.name) & (PIPELINE.c.version == row.version)
        connection.execute(
            sa.update(PIPELINE).where(found).values(spec=json.dumps(spec, sort_keys=True), digest=digest)
        )


def _rename_columns() -> None:
    """Rename a column; make the tables anew whose name or constraints change: no other table refers to them."""
    op.execute("ALTER TABLE kafka_lake_wave RENAME COLUMN settled_at TO committed_at")
    for table in ("wave", "attempt"):
        op.execute(f"ALTER TABLE kafka_lake_{table} RENAME COLUMN holder TO lease_holder")
    _notified()
    op.execute("INSERT INTO kafka_lake_notified (pipeline, sequence) SELECT pipeline, sequence FROM kafka_lake_told")
    op.drop_table("kafka_lake_told")
    op.execute("CREATE TABLE kafka_lake_range_before AS SELECT * FROM kafka_lake_range")
    op.execute("UPDATE kafka_lake_range_before SET state = 'COMMITTED' WHERE state = 'SETTLED'")
    op.drop_table("kafka_lake_range")
    names = ", ".join(f'"{column.name}"' for column in _ranges().columns)
    op.execute(f"INSERT INTO kafka_lake_range ({names}) SELECT {names} FROM kafka_lake_range_before")
    op.drop_table("kafka_lake_range_before")
    _index_ranges()  # over all rows at once


def _subjects() -> None:
    parts.table("meta", parts.text("key", 40), parts.text("value", None), sa.PrimaryKeyConstraint("key"))
    parts.table(
        "pipeline",
        parts.text("name"),
        parts.small("version"),
        parts.text("digest", 16),
        parts.text("spec", None),
        parts.time("recorded_at"),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    parts.table(
        "table_binding",
        parts.text("pipeline"),
        parts.text("table_name", 600),
        parts.text("uuid", 100),
        sa.PrimaryKeyConstraint("pipeline", "table_name"),
    )
    parts.table(
        "stream",
        parts.number("id"),
        parts.text("pipeline"),
        parts.text("topic", 249),
        parts.text("topic_id", 40),
        parts.small("partition"),
        *map(parts.big, ("origin", "watermark", "version", "end_seen")),
        parts.small("leader_epoch", null=True),
        parts.time("since", null=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pipeline", "topic_id", "partition"),
        sa.CheckConstraint("origin >= 0 AND watermark >= origin"),
    )


def _layouts() -> None:
    parts.table(
        "layout",
        parts.text("pipeline"),
        parts.text("topic", 249),
        parts.text("topic_id", 40),
        parts.small("partitions"),
        parts.time("seen_at"),
        parts.small("in_force"),
        sa.PrimaryKeyConstraint("pipeline", "topic_id", "partitions"),
        sa.CheckConstraint("partitions > 0"),
    )
    parts.table(
        "segment",
        parts.number("id"),
        parts.big("stream"),
        parts.big("start_offset"),
        parts.small("layout"),
        parts.big("seal", null=True),
        parts.small("sealed"),
        parts.time("declared_at", null=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("stream", "start_offset"),
        parts.to("stream"),
        sa.CheckConstraint("start_offset >= 0 AND layout > 0"),
        sa.CheckConstraint("seal IS NULL OR seal >= start_offset"),
        sa.CheckConstraint("sealed = 0 OR seal IS NOT NULL"),
    )
    parts.table(
        "segment_parent",
        *map(parts.big, ("segment", "parent")),
        sa.PrimaryKeyConstraint("segment", "parent"),
        parts.to("segment"),
        parts.to("segment", "parent"),
        sa.CheckConstraint("segment <> parent"),
    )


def _plans() -> None:
    parts.table(
        "plan",
        parts.number("number"),
        parts.text("id"),
        parts.text("pipeline"),
        parts.small("pipeline_version"),
        *map(parts.time, ("observed_at", "recorded_at")),
        parts.text("actor", None),
        parts.text("detail", None),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.ForeignKeyConstraint(
            ["pipeline", "pipeline_version"], ["kafka_lake_pipeline.name", "kafka_lake_pipeline.version"]
        ),
    )
    parts.table(
        "snapshot",
        parts.text("plan"),
        parts.big("stream"),
        parts.small("leader_epoch", null=True),
        *map(parts.big, ("log_start", "last_stable", "high_watermark")),
        parts.big("group_offset", null=True),
        parts.text("group_offset_state", 20),
        parts.big("start_offset"),
        parts.big("end_offset"),
        parts.text("reason", None),
        parts.big("number", null=True),
        sa.PrimaryKeyConstraint("plan", "stream"),
        *map(parts.to, ("plan", "stream")),
    )
    op.create_index("kafka_lake_snapshot_number", "kafka_lake_snapshot", ["number"])


def _waves() -> None:
    parts.table(
        "wave",
        *map(parts.text, ("id", "plan")),
        parts.small("ordinal"),
        parts.text("pipeline"),
        parts.text("table_name", 600),
        parts.text("state", 20),
        parts.big("fence"),
        parts.text("attempt", null=True),
        parts.text("lease_holder", 400, null=True),
        parts.time("lease_until", null=True),
        parts.big("snapshot_id", null=True),
        parts.time("committed_at", null=True),
        sa.PrimaryKeyConstraint("id"),
        parts.to("plan"),
        parts.one_of("state", WAVE_STATES),
        sa.CheckConstraint("fence >= 0"),
    )
    op.create_index("kafka_lake_wave_by_state", "kafka_lake_wave", ["pipeline", "state"])
    op.create_index("kafka_lake_wave_by_plan", "kafka_lake_wave", ["plan"])
    parts.table(
        "attempt",
        parts.text("wave"),
        parts.big("fence"),
        parts.text("attempt"),
        parts.text("lease_holder", 400),
        parts.text("job", None, null=True),
        *(parts.big(name, null=True) for name in ("base", "audited", "staged_bytes")),
        parts.text("outcome", 20),
        parts.text("error", None, null=True),
        parts.time("started_at"),
        parts.time("ended_at", null=True),
        sa.PrimaryKeyConstraint("wave", "fence"),
        sa.UniqueConstraint("attempt"),
        parts.to("wave"),
        parts.one_of("outcome", OUTCOMES),
    )


def _skips() -> None:
    parts.table(
        "skip",
        parts.text("id"),
        parts.big("stream"),
        *parts.interval(),
        parts.big("offsets"),
        parts.text("reason", None),
        parts.text("actor", None),
        parts.time("at"),
        sa.Column("acknowledge_order", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        parts.to("stream"),
    )


def _ranges() -> sa.Table:
    proof = " + ".join(f"coalesce({name}, 0)" for name in parts.SUMS)
    return parts.table(
        "range",
        parts.text("id"),
        parts.big("stream"),
        *(parts.text(name, null=True) for name in ("plan", "wave", "skip")),
        *parts.interval(),
        parts.small("generation"),
        parts.text("state", 20),
        parts.text("reason", None, null=True),
        parts.big("estimated_bytes"),
        *parts.accounting(null=True),
        sa.Column("fewer_accepted", sa.Boolean(), nullable=False, server_default=sa.false()),
        parts.text("held_for", None, null=True),
        parts.small("leader_epoch", null=True),
        sa.PrimaryKeyConstraint("id"),
        *map(parts.to, ("stream", "plan", "wave", "skip")),
        parts.one_of("state", RANGE_STATES),
        # Law L8 in the database: nothing counts as resolved before each of its offsets is accounted for.
        sa.CheckConstraint(
            "state NOT IN ('COMMITTED', 'SKIPPED') "
            f"OR (coalesce(unexplained, 0) = 0 AND {proof} = end_offset - start_offset)"
        ),
        sa.CheckConstraint("state = 'SKIPPED' OR wave IS NOT NULL"),
        sa.CheckConstraint("state <> 'SKIPPED' OR skip IS NOT NULL"),
    )


def _index_ranges() -> None:
    op.create_index("kafka_lake_range_by_stream", "kafka_lake_range", ["stream", "start_offset"])
    op.create_index("kafka_lake_range_by_wave", "kafka_lake_range", ["wave"])
    op.create_index("kafka_lake_range_by_plan", "kafka_lake_range", ["plan"])
    op.create_index("kafka_lake_range_by_state", "kafka_lake_range", ["state", "stream"])
    _forbid_overlap()


def _forbid_overlap() -> None:
    """Law L2 by constraint. PostgreSQL: stream and offset folded into one number need no extension."""
    if op.get_bind().dialect.name == "postgresql":
        fold = "stream::numeric * 9223372036854775808"
        op.execute(
            "ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_no_overlap EXCLUDE USING gist "
            f"(numrange({fold} + start_offset, {fold} + end_offset) WITH &&)"
        )
        return
    for name, when in (("insert", "INSERT"), ("update", "UPDATE OF stream, start_offset, end_offset")):
        # Recorded ranges do not overlap each other, so only the last one that starts before the new end can.
        op.execute(
            f"CREATE TRIGGER kafka_lake_range_no_overlap_{name} BEFORE {when} ON kafka_lake_range BEGIN "
            "SELECT RAISE(ABORT, 'kafka_lake: ranges of a stream never overlap') WHERE NEW.start_offset < ("
            "SELECT end_offset FROM kafka_lake_range WHERE stream = NEW.stream "
            "AND start_offset < NEW.end_offset AND id <> NEW.id ORDER BY start_offset DESC LIMIT 1); END"
        )


def _histories() -> None:
    parts.table(
        "advance",
        parts.number("sequence"),
        parts.text("pipeline"),
        parts.big("stream"),
        parts.time("at"),
        *parts.interval(),
        parts.big("row_count"),
        sa.PrimaryKeyConstraint("sequence"),
        parts.to("stream"),
    )
    op.create_index("kafka_lake_advance_by_pipeline", "kafka_lake_advance", ["pipeline", "sequence"])
    parts.table(
        "event",
        parts.number("sequence"),
        parts.time("at"),
        parts.text("pipeline"),
        parts.text("actor", None),
        parts.text("kind", 20),
        parts.text("subject", None),
        parts.text("detail", None),
        sa.PrimaryKeyConstraint("sequence"),
    )
    op.create_index("kafka_lake_event_by_pipeline", "kafka_lake_event", ["pipeline", "sequence"])
    parts.table(
        "outbox",
        parts.number("id"),
        parts.text("pipeline"),
        parts.text("table_name", 600),
        parts.text("kind", 20),
        *map(parts.text, ("wave", "attempt")),
        *map(parts.big, ("fence", "stream")),
        *parts.interval(),
        parts.small("generation"),
        *parts.accounting(null=False),
        parts.time("recorded_at"),
        parts.text("offsets", None, null=True),
        sa.PrimaryKeyConstraint("id"),
        parts.to("stream"),
    )
    op.create_index("kafka_lake_outbox_by_pipeline", "kafka_lake_outbox", ["pipeline", "id"])


def _notified() -> None:
    parts.table("notified", parts.text("pipeline"), parts.big("sequence"), sa.PrimaryKeyConstraint("pipeline"))
