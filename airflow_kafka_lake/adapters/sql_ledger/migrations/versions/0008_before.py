"""The schema of before, whose ledgers 0009 upgrades; nothing is created in it any more.

Revision ID: 0008
Revises:
"""

from __future__ import annotations

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: what an empty database needs, 0009 creates."""
