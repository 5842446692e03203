"""Leader epochs beside the ranges that were planned under them; what plans saw besides is kept for the newest only.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Copy the epochs to the ranges, and drop what was seen of streams of which nothing was planned."""
    op.add_column("kafka_lake_range", sa.Column("leader_epoch", sa.Integer()))
    op.add_column("kafka_lake_snapshot", sa.Column("number", sa.BigInteger()))
    op.execute(
        "UPDATE kafka_lake_range SET leader_epoch = (SELECT seen.leader_epoch FROM kafka_lake_snapshot seen "
        "WHERE seen.plan = kafka_lake_range.plan AND seen.stream = kafka_lake_range.stream)"
    )
    op.execute(
        "DELETE FROM kafka_lake_snapshot WHERE (plan, stream) NOT IN "
        "(SELECT plan, stream FROM kafka_lake_range WHERE plan IS NOT NULL)"
    )
    op.execute(
        "UPDATE kafka_lake_snapshot SET number = "
        "(SELECT made.number FROM kafka_lake_plan made WHERE made.id = kafka_lake_snapshot.plan)"
    )
    op.create_index("kafka_lake_snapshot_number", "kafka_lake_snapshot", ["number"])
