"""The asset that stands for what a pipeline has landed, and what its events say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.records import Advance

if TYPE_CHECKING:
    from airflow.sdk import Asset

ALIAS = "kafka-lake"
"""Every event comes through this asset alias: which pipeline moved is known only when the task runs."""

MAX_STREAMS = 100


def pipeline_asset(pipeline: str) -> Asset:
    """Return the asset of a pipeline, to schedule a Dag on: its events come when a watermark has moved."""
    from airflow.sdk import Asset

    return Asset(f"kafka-lake://{pipeline}")


def event_extra(pipeline: str, plan: str | None, moves: Sequence[Advance]) -> dict[str, Any]:
    """Return the extra of an event (WIRE.md): one stretch per stream, at most `MAX_STREAMS`, then `more_streams`.

    `sequence` tells an event that is told twice; `moves` must not be empty.
    """
    stretches: dict[tuple[str, str, int], tuple[int, int]] = {}
    for move in moves:
        key = (move.topic, move.topic_id, move.partition)
        start, end = stretches.get(key, (move.start, move.end))
        stretches[key] = (min(start, move.start), max(end, move.end))
    told = sorted(stretches.items())
    extra: dict[str, Any] = {
        "pipeline": pipeline,
        "plan": plan,
        "sequence": max(move.sequence for move in moves),
        "streams": [
            {"topic": topic, "partition": partition, "from": start, "to": end}
            for (topic, _, partition), (start, end) in told[:MAX_STREAMS]
        ],
        "rows": sum(move.rows for move in moves),
    }
    if len(told) > MAX_STREAMS:
        extra["more_streams"] = len(told) - MAX_STREAMS
    return extra
