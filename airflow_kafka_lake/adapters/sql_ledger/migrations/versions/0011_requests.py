"""What tasks ask workers for, that run outside of Airflow.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_kafka_lake.adapters.sql_ledger.migrations import parts

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table: nothing was asked for before."""
    parts.table(
        "request",
        *map(parts.text, ("id", "pipeline", "wave")),
        parts.text("actor", None),
        *map(parts.time, ("at", "until")),
        parts.big("bytes_per_second", null=True),
        parts.text("answer", None, null=True),
        sa.PrimaryKeyConstraint("id"),
        parts.to("wave"),
    )
    op.create_index("kafka_lake_request_by_wave", "kafka_lake_request", ["wave"])
