"""Streams of a status, worst first and put together, so that thousands of partitions fit on a screen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.status.streams import WORST_FIRST

Json = Mapping[str, Any]
_RANK = {state.value: number for number, state in enumerate(WORST_FIRST)}


def worst_first(streams: Iterable[Json]) -> list[Json]:
    """Sort streams of a status document: the worst state first, in it those that are behind by most."""
    return sorted(
        streams,
        key=lambda item: (
            _RANK[item["state"]],
            -(item["behind_seconds"] or 0),
            -(item["lag"] or 0),
            item["topic"],
            item["topic_id"],
            item["partition"],
        ),
    )


def groups_of(streams: Iterable[Json]) -> list[dict[str, Any]]:
    """Put streams of one topic and one state together, the worst state first.

    `numbers` are the partitions as `[[first, last + 1], …]`.
    """
    found: dict[tuple[int, str, str], list[Json]] = defaultdict(list)
    for item in streams:
        found[_RANK[item["state"]], item["topic"], item["topic_id"]].append(item)
    return [
        {
            "topic": topic,
            "topic_id": topic_id,
            "state": items[0]["state"],
            "partitions": len(items),
            "numbers": RangeSet(OffsetRange(i["partition"], i["partition"] + 1) for i in items).to_pairs(),
            "lag": _sum([item["lag"] for item in items]),
            "behind_seconds": _largest([item["behind_seconds"] for item in items]),
        }
        for (_, topic, topic_id), items in sorted(found.items(), key=lambda one: one[0])
    ]


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _largest(numbers: Sequence[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)
