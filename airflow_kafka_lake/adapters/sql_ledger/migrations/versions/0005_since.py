"""Streams: by when everything below the origin had been written.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


FILL = """
UPDATE kafka_lake_stream SET since = (
    SELECT min(p.observed_at) FROM kafka_lake_snapshot s JOIN kafka_lake_plan p ON p.id = s.plan
    WHERE s.stream = kafka_lake_stream.id AND s.high_watermark >= kafka_lake_stream.origin
)
"""


def upgrade() -> None:
    """Add the column; streams from before get the first observation of a log that reached to their origin."""
    op.add_column("kafka_lake_stream", sa.Column("since", sa.DateTime(timezone=True)))
    op.execute(FILL)
