"""Receipts on their way to the lake: the offsets of rows that were deleted on purpose.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; what is on its way has a number of rows, which counts as before."""
    op.add_column("kafka_lake_outbox", sa.Column("offsets", sa.Text()))
