"""The cause of a hold beside its reason, and the slices of a decision beside its words in the history.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; existing rows have neither."""
    op.add_column("kafka_lake_range", sa.Column("cause", sa.Text(), nullable=True))
    op.add_column("kafka_lake_event", sa.Column("slices", sa.Text(), nullable=True))
