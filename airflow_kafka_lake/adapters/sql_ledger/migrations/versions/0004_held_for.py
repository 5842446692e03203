"""Holds: the offsets that a range is held for.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a hold from before is due to its range as a whole, and is released by hand."""
    op.add_column("kafka_lake_range", sa.Column("held_for", sa.Text()))
