"""Layouts of topics, and the segments that come of them.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables; every stream on record gets a first segment under the layout that it seems to have."""
    op.create_table(
        "kafka_lake_layout",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("topic", sa.String(249), nullable=False),
        sa.Column("topic_id", sa.String(40), nullable=False),
        sa.Column("partitions", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("in_force", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "topic_id", "partitions"),
        sa.CheckConstraint("partitions > 0"),
    )
    op.create_table(
        "kafka_lake_segment",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("stream", sa.BigInteger(), nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False),
        sa.Column("layout", sa.Integer(), nullable=False),
        sa.Column("seal", sa.BigInteger()),
        sa.Column("sealed", sa.Integer(), nullable=False),
        sa.Column("declared_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("stream", "start_offset"),
        sa.ForeignKeyConstraint(["stream"], ["kafka_lake_stream.id"]),
        sa.CheckConstraint("start_offset >= 0 AND layout > 0"),
        sa.CheckConstraint("seal IS NULL OR seal >= start_offset"),
        sa.CheckConstraint("sealed = 0 OR seal IS NOT NULL"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "kafka_lake_segment_parent",
        sa.Column("segment", sa.BigInteger(), nullable=False),
        sa.Column("parent", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("segment", "parent"),
        sa.ForeignKeyConstraint(["segment"], ["kafka_lake_segment.id"]),
        sa.ForeignKeyConstraint(["parent"], ["kafka_lake_segment.id"]),
        sa.CheckConstraint("segment <> parent"),
    )
    _first_segments()


def _first_segments() -> None:
    width = "SELECT pipeline, topic, topic_id, max(partition) + 1 AS partitions FROM kafka_lake_stream GROUP BY 1, 2, 3"
    op.execute(
        "INSERT INTO kafka_lake_layout (pipeline, topic, topic_id, partitions, seen_at, in_force) "
        f"SELECT pipeline, topic, topic_id, partitions, CURRENT_TIMESTAMP, 1 FROM ({width}) AS width"
    )
    op.execute(
        "INSERT INTO kafka_lake_segment (stream, start_offset, layout, sealed) "
        "SELECT stream.id, 0, layout.partitions, 0 FROM kafka_lake_stream AS stream JOIN kafka_lake_layout AS layout "
        "ON layout.pipeline = stream.pipeline AND layout.topic_id = stream.topic_id"
    )
