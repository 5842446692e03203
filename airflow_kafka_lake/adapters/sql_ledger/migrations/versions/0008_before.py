"""The previous schema, which 0009 upgrades; no new ledger is created in it.

Revision ID: 0008
Revises:
"""

from __future__ import annotations

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: 0009 creates everything that an empty database needs."""
