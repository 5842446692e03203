"""The whole schema of a ledger.

It must not change, because existing ledgers have it; a later revision is a file of its own beside it.

Revision ID: 0012
Revises:
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
SUMS = ("visible", "control", "aborted", "compacted", "skipped")
RANGE_STATES = ("PLANNED", "CANCELLED", "HELD", "COMMITTED", "SKIPPED")
WAVE_STATES = ("PLANNED", "CLAIMED", "STAGED", "PUBLISHING", "COMMITTED", "CANCELLED", "DISSOLVED")
OUTCOMES = ("running", "staged", "committed", "rejected", "failed", "unknown", "abandoned")


def upgrade() -> None:
    """Create everything."""
    _subjects()
    _layouts()
    _plans()
    _waves()
    _skips()
    _ranges()
    _index_ranges()
    _histories()
    _steering()
    meta = sa.table("kafka_lake_meta", sa.column("key"), sa.column("value"))
    op.get_bind().execute(sa.insert(meta).values(key="ledger_id", value=secrets.token_hex(16)))


def _subjects() -> None:
    table("meta", text("key", 40), text("value", None), sa.PrimaryKeyConstraint("key"))
    table(
        "pipeline",
        text("name"),
        small("version"),
        text("digest", 16),
        text("spec", None),
        time("recorded_at"),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    table(
        "table_binding",
        text("pipeline"),
        text("table_name", 600),
        text("uuid", 100),
        sa.PrimaryKeyConstraint("pipeline", "table_name"),
    )
    table(
        "stream",
        number("id"),
        text("pipeline"),
        text("topic", 249),
        text("topic_id", 40),
        small("partition"),
        *map(big, ("origin", "watermark", "version", "end_seen")),
        small("leader_epoch", null=True),
        time("since", null=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pipeline", "topic_id", "partition"),
        sa.CheckConstraint("origin >= 0 AND watermark >= origin"),
    )


def _layouts() -> None:
    table(
        "layout",
        text("pipeline"),
        text("topic", 249),
        text("topic_id", 40),
        small("partitions"),
        time("seen_at"),
        small("in_force"),
        sa.PrimaryKeyConstraint("pipeline", "topic_id", "partitions"),
        sa.CheckConstraint("partitions > 0"),
    )
    table(
        "segment",
        number("id"),
        big("stream"),
        big("start_offset"),
        small("layout"),
        big("seal", null=True),
        small("sealed"),
        time("declared_at", null=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("stream", "start_offset"),
        to("stream"),
        sa.CheckConstraint("start_offset >= 0 AND layout > 0"),
        sa.CheckConstraint("seal IS NULL OR seal >= start_offset"),
        sa.CheckConstraint("sealed = 0 OR seal IS NOT NULL"),
    )
    table(
        "segment_parent",
        *map(big, ("segment", "parent")),
        sa.PrimaryKeyConstraint("segment", "parent"),
        to("segment"),
        to("segment", "parent"),
        sa.CheckConstraint("segment <> parent"),
    )


def _plans() -> None:
    table(
        "plan",
        number("number"),
        text("id"),
        text("pipeline"),
        small("pipeline_version"),
        *map(time, ("observed_at", "recorded_at")),
        text("actor", None),
        text("detail", None),
        text("dag", 250, null=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.ForeignKeyConstraint(
            ["pipeline", "pipeline_version"], ["kafka_lake_pipeline.name", "kafka_lake_pipeline.version"]
        ),
    )
    op.create_index("kafka_lake_plan_by_dag", "kafka_lake_plan", ["pipeline", "dag"])
    table(
        "snapshot",
        text("plan"),
        big("stream"),
        small("leader_epoch", null=True),
        *map(big, ("log_start", "last_stable", "high_watermark")),
        big("group_offset", null=True),
        text("group_offset_state", 20),
        big("start_offset"),
        big("end_offset"),
        text("reason", None),
        big("number", null=True),
        sa.PrimaryKeyConstraint("plan", "stream"),
        *map(to, ("plan", "stream")),
    )
    op.create_index("kafka_lake_snapshot_number", "kafka_lake_snapshot", ["number"])


def _waves() -> None:
    table(
        "wave",
        *map(text, ("id", "plan")),
        small("ordinal"),
        text("pipeline"),
        text("table_name", 600),
        text("state", 20),
        big("fence"),
        text("attempt", null=True),
        text("lease_holder", 400, null=True),
        time("lease_until", null=True),
        big("snapshot_id", null=True),
        time("committed_at", null=True),
        sa.PrimaryKeyConstraint("id"),
        to("plan"),
        one_of("state", WAVE_STATES),
        sa.CheckConstraint("fence >= 0"),
    )
    op.create_index("kafka_lake_wave_by_state", "kafka_lake_wave", ["pipeline", "state"])
    op.create_index("kafka_lake_wave_by_plan", "kafka_lake_wave", ["plan"])
    table(
        "attempt",
        text("wave"),
        big("fence"),
        text("attempt"),
        text("lease_holder", 400),
        text("job", None, null=True),
        *(big(name, null=True) for name in ("base", "audited", "staged_bytes")),
        text("outcome", 20),
        text("error", None, null=True),
        time("started_at"),
        time("ended_at", null=True),
        text("step", 20, null=True),
        *(big(name, null=True) for name in ("rows_done", "rows_expected", "bytes_done", "bytes_expected")),
        *(time(name, null=True) for name in ("step_at", "progress_at")),
        text("actor", None, null=True),
        text("application", null=True),
        text("cause", 20, null=True),
        sa.PrimaryKeyConstraint("wave", "fence"),
        sa.UniqueConstraint("attempt"),
        to("wave"),
        one_of("outcome", OUTCOMES),
    )


def _skips() -> None:
    table(
        "skip",
        text("id"),
        big("stream"),
        *interval(),
        big("offsets"),
        text("reason", None),
        text("actor", None),
        time("at"),
        sa.Column("acknowledge_order", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        to("stream"),
    )


def _ranges() -> sa.Table:
    proof = " + ".join(f"coalesce({name}, 0)" for name in SUMS)
    return table(
        "range",
        text("id"),
        big("stream"),
        *(text(name, null=True) for name in ("plan", "wave", "skip")),
        *interval(),
        small("generation"),
        text("state", 20),
        text("reason", None, null=True),
        big("estimated_bytes"),
        *accounting(null=True),
        sa.Column("fewer_accepted", sa.Boolean(), nullable=False, server_default=sa.false()),
        text("held_for", None, null=True),
        small("leader_epoch", null=True),
        sa.PrimaryKeyConstraint("id"),
        *map(to, ("stream", "plan", "wave", "skip")),
        one_of("state", RANGE_STATES),
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
    table(
        "advance",
        number("sequence"),
        text("pipeline"),
        big("stream"),
        time("at"),
        *interval(),
        big("row_count"),
        sa.PrimaryKeyConstraint("sequence"),
        to("stream"),
    )
    op.create_index("kafka_lake_advance_by_pipeline", "kafka_lake_advance", ["pipeline", "sequence"])
    table(
        "event",
        number("sequence"),
        time("at"),
        text("pipeline"),
        text("actor", None),
        text("kind", 20),
        text("subject", None),
        text("detail", None),
        sa.PrimaryKeyConstraint("sequence"),
    )
    op.create_index("kafka_lake_event_by_pipeline", "kafka_lake_event", ["pipeline", "sequence"])
    table(
        "outbox",
        number("id"),
        text("pipeline"),
        text("table_name", 600),
        text("kind", 20),
        *map(text, ("wave", "attempt")),
        *map(big, ("fence", "stream")),
        *interval(),
        small("generation"),
        *accounting(null=False),
        time("recorded_at"),
        text("offsets", None, null=True),
        sa.PrimaryKeyConstraint("id"),
        to("stream"),
    )
    op.create_index("kafka_lake_outbox_by_pipeline", "kafka_lake_outbox", ["pipeline", "id"])


def _steering() -> None:
    table(
        "notified",
        text("pipeline"),
        big("sequence"),
        big("through", null=True),
        text("lease_holder", None, null=True),
        time("lease_until", null=True),
        sa.PrimaryKeyConstraint("pipeline"),
    )
    table(
        "pause",
        *map(text, ("id", "pipeline")),
        text("plan", null=True),
        *(text(name, None) for name in ("reason", "actor")),
        time("at"),
        sa.PrimaryKeyConstraint("id"),
        to("plan"),
    )
    op.create_index("kafka_lake_pause_by_pipeline", "kafka_lake_pause", ["pipeline"])
    table(
        "request",
        *map(text, ("id", "pipeline", "wave")),
        text("actor", None),
        *map(time, ("at", "until")),
        big("bytes_per_second", null=True),
        text("answer", None, null=True),
        sa.PrimaryKeyConstraint("id"),
        to("wave"),
    )
    op.create_index("kafka_lake_request_by_wave", "kafka_lake_request", ["wave"])


def table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    """Create a table of the ledger."""
    # AUTOINCREMENT: a number that was deleted (outbox) is never given again.
    return op.create_table(f"kafka_lake_{name}", *items, sqlite_autoincrement=True)


def text(name: str, length: int | None = 200, *, null: bool = False) -> sa.Column[str]:
    """Return a column of text; without a length of any."""
    return sa.Column(name, sa.Text() if length is None else sa.String(length), nullable=null)


def big(name: str, *, null: bool = False) -> sa.Column[int]:
    """Return a column of numbers of 64 bits."""
    return sa.Column(name, sa.BigInteger(), nullable=null)


def small(name: str, *, null: bool = False) -> sa.Column[int]:
    """Return a column of numbers of 32 bits."""
    return sa.Column(name, sa.Integer(), nullable=null)


def time(name: str, *, null: bool = False) -> sa.Column[object]:
    """Return a column of times."""
    return sa.Column(name, sa.DateTime(timezone=True), nullable=null)


def number(name: str) -> sa.Column[int]:
    """Return a column that the database counts up itself."""
    return sa.Column(name, NUMBER, autoincrement=True, nullable=False)


def interval() -> list[sa.schema.SchemaItem]:
    """Return the columns of a range of offsets that is not empty."""
    return [
        big("start_offset"),
        big("end_offset"),
        sa.CheckConstraint("start_offset >= 0 AND end_offset > start_offset"),
    ]


def one_of(column: str, words: tuple[str, ...]) -> sa.CheckConstraint:
    """Return the constraint that a column holds one of some words."""
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(word) for word in words)})")


def to(table: str, column: str | None = None) -> sa.ForeignKeyConstraint:
    """Return a reference to the id of another table, by the column of its name or another one."""
    return sa.ForeignKeyConstraint([column or table], [f"kafka_lake_{table}.id"])


def accounting(*, null: bool) -> list[sa.Column[int]]:
    """Return the columns of an accounting."""
    return [
        big("row_count", null=null),
        *(big(name, null=True) for name in ("first_offset", "last_offset")),
        *(big(name, null=null) for name in (*SUMS, "unexplained")),
    ]
