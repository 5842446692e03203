"""Streams put together, worst first."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_lake.core.reports.status import groups_of, worst_first

pytestmark = pytest.mark.unit


def stream(partition: int, state: str, *, lag: int | None = 0, behind: int | None = 0) -> dict[str, Any]:
    """Return what the functions read of a stream of a status document."""
    return {
        "topic": "orders",
        "topic_id": "A" * 22,
        "partition": partition,
        "state": state,
        "lag": lag,
        "behind_seconds": behind,
    }


def test_two_thousand_partitions_are_a_few_groups() -> None:
    """Each group has its partitions as ranges, the sum of their lags and the largest age."""
    streams = [stream(n, "up to date") for n in range(2_000)]
    streams[17] = stream(17, "behind", lag=40, behind=7_200)
    streams[18] = stream(18, "behind", lag=2, behind=60)
    streams[900] = stream(900, "unknown", lag=None, behind=None)
    groups = [
        (item["state"], item["partitions"], item["numbers"], item["lag"], item["behind_seconds"])
        for item in groups_of(streams)
    ]
    assert groups == [
        ("unknown", 1, [[900, 901]], None, None),
        ("behind", 2, [[17, 19]], 42, 7_200),
        ("up to date", 1_997, [[0, 17], [19, 900], [901, 2_000]], 0, 0),
    ]


def test_worst_stream_is_first() -> None:
    """By state, then by time, then by lag."""
    streams = [
        stream(0, "up to date"),
        stream(1, "behind", lag=5, behind=60),
        stream(2, "behind", lag=9, behind=60),
        stream(3, "behind", lag=1, behind=120),
        stream(4, "blocked", lag=1),
        stream(5, "gone", lag=None, behind=None),
        stream(6, "lost"),
    ]
    assert [item["partition"] for item in worst_first(streams)] == [4, 6, 3, 2, 1, 0, 5]
