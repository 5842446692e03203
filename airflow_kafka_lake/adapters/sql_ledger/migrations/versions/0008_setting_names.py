"""Configurations on record: the names that their settings have now.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

RENAMED = {"leader_wait_seconds": "leader_wait", "stable_wait_seconds": "stable_wait"}
SINCE_THEN = {"settle_time": 300}
"""Settings that the first versions did not have, and what they did."""

PIPELINE = sa.table("kafka_lake_pipeline", *map(sa.column, ("name", "version", "digest", "spec")))


def upgrade() -> None:
    """Write each configuration and its digest anew, so that the same pipeline file does not count as another."""
    connection = op.get_bind()
    for row in connection.execute(sa.select(PIPELINE)).all():
        stored = json.loads(row.spec)
        spec = SINCE_THEN | {RENAMED.get(key, key): value for key, value in stored.items()}
        if spec == stored:
            continue
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
        found = (PIPELINE.c.name == row.name) & (PIPELINE.c.version == row.version)
        connection.execute(
            sa.update(PIPELINE).where(found).values(spec=json.dumps(spec, sort_keys=True), digest=digest)
        )
