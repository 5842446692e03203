"""Reopen: whether fewer rows are accepted; ranges of a stream never overlap, of whatever generations they are.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and let a stream's ranges of any generation exclude each other."""
    column: sa.Column[bool] = sa.Column("fewer_accepted", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("kafka_lake_range", column)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE kafka_lake_range DROP CONSTRAINT kafka_lake_range_no_overlap")
        fold = "stream::numeric * 9223372036854775808"
        op.execute(
            "ALTER TABLE kafka_lake_range ADD CONSTRAINT kafka_lake_range_no_overlap EXCLUDE USING gist "
            f"(numrange({fold} + start_offset, {fold} + end_offset) WITH &&)"
        )
        return
    for name, when in (("insert", "INSERT"), ("update", "UPDATE OF stream, start_offset, end_offset")):
        op.execute(f"DROP TRIGGER kafka_lake_range_no_overlap_{name}")
        op.execute(
            f"CREATE TRIGGER kafka_lake_range_no_overlap_{name} BEFORE {when} ON kafka_lake_range BEGIN "
            "SELECT RAISE(ABORT, 'kafka_lake: ranges of a stream never overlap') WHERE NEW.start_offset < ("
            "SELECT end_offset FROM kafka_lake_range WHERE stream = NEW.stream "
            "AND start_offset < NEW.end_offset AND id <> NEW.id ORDER BY start_offset DESC LIMIT 1); END"
        )
