"""For whom an attempt works, its Spark application, and what ended it, as a value.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

from alembic import op

from airflow_kafka_lake.adapters.sql_ledger.migrations import parts

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add three columns: of earlier attempts none is known. A wave is halved for what happens to it from now on."""
    op.add_column("kafka_lake_attempt", parts.text("actor", None, null=True))
    op.add_column("kafka_lake_attempt", parts.text("application", null=True))
    op.add_column("kafka_lake_attempt", parts.text("cause", 20, null=True))
