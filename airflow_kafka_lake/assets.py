"""The asset of a pipeline, and the extras of its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.slices import Stream

if TYPE_CHECKING:
    from airflow.sdk import Asset

ALIAS = "kafka-lake"
"""Every event comes through this asset alias: which pipeline moved is known only when the task runs."""

MAX_STREAMS = 100
"""How many streams one event names."""


def pipeline_asset(pipeline: str) -> Asset:
    """Return the asset of a pipeline, to schedule a Dag on: its events come when a watermark has moved."""
    from airflow.sdk import Asset

    return Asset(f"kafka-lake://{pipeline}")


def event_extras(pipeline: str, plan: str | None, moves: Sequence[Advance], *, after: int) -> list[dict[str, Any]]:
    """Return the extras of the events for the watermark moves after move `after`, in order (docs/reference/json.md).

    Each has one slice per stream, of at most `MAX_STREAMS`; its `sequence` is that of its last move, and its `after`
    the `sequence` of the event before: so they show which event came twice, and that none is missing.
    """
    groups: list[list[Advance]] = []
    streams: set[Stream] = set()
    for move in sorted(moves, key=lambda move: move.sequence):
        if not groups or len(streams | {move.stream}) > MAX_STREAMS:
            groups.append([])
            streams = set()
        streams.add(move.stream)
        groups[-1].append(move)
    befores = [after, *(group[-1].sequence for group in groups)]
    return [_extra(pipeline, plan, group, before) for group, before in zip(groups, befores, strict=False)]


def _extra(pipeline: str, plan: str | None, moves: Sequence[Advance], after: int) -> dict[str, Any]:
    slices: dict[Stream, tuple[int, int]] = {}
    for move in moves:
        start, end = slices.get(move.stream, (move.start, move.end))
        slices[move.stream] = (min(start, move.start), max(end, move.end))
    return {
        "pipeline": pipeline,
        "plan": plan,
        "after": after,
        "sequence": max(move.sequence for move in moves),
        "streams": [
            {"topic": topic, "partition": partition, "from": start, "to": end}
            for (topic, _, partition), (start, end) in sorted(slices.items())
        ],
        "rows": sum(move.rows for move in moves),
    }
