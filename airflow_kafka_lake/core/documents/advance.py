"""`advance --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_lake.core.ledger.records import Advance

Json = dict[str, Any]


def advance_document(pipeline: str, moves: Sequence[Advance]) -> Json:
    """Return `advance --json`."""
    return {
        "pipeline": pipeline,
        "streams": [
            {
                "topic": m.stream.topic,
                "topic_id": m.stream.topic_id,
                "partition": m.stream.partition,
                "from": m.start,
                "to": m.end,
            }
            for m in moves
        ],
        "rows": sum(move.rows for move in moves),
        "sequence": max((move.sequence for move in moves), default=None),
    }
