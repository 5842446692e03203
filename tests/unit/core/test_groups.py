"""Streams put together, worst first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.kafka.snapshots import Age
from airflow_kafka_lake.core.reports.status import groups_of, worst_first
from airflow_kafka_lake.core.reports.streams import StreamState, StreamStatus
from airflow_kafka_lake.services import reporting
from tests.world import World, in_state

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def landed() -> StreamStatus:
    """A partition of which all has landed."""
    world = World()
    world.produce(5)
    world.run()
    (found,) = reporting.status(world.worker(), world.spec).streams
    return found


def behind(like: StreamStatus, partition: int, lag: int, seconds: int) -> StreamStatus:
    """Return a partition that is behind by so many offsets and seconds."""
    return replace(in_state(like, partition, StreamState.BEHIND, lag=lag), age=Age(seconds=seconds, below=None))


def test_two_thousand_partitions_are_a_few_groups(landed: StreamStatus) -> None:
    """Each group has its partitions as ranges, the sum of their lags and the largest age."""
    streams = [in_state(landed, n, StreamState.UP_TO_DATE) for n in range(2_000)]
    streams[17] = behind(landed, 17, 40, 7_200)
    streams[18] = behind(landed, 18, 2, 60)
    streams[900] = in_state(landed, 900, StreamState.UNKNOWN)
    groups = [
        (item.state, item.partitions, item.numbers.to_pairs(), item.lag, item.behind_seconds)
        for item in groups_of(streams)
    ]
    assert groups == [
        ("unknown", 1, [[900, 901]], None, None),
        ("behind", 2, [[17, 19]], 42, 7_200),
        ("up to date", 1_997, [[0, 17], [19, 900], [901, 2_000]], 0, 0),
    ]


def test_worst_stream_is_first(landed: StreamStatus) -> None:
    """By state, then by time, then by lag."""
    streams = [
        in_state(landed, 0, StreamState.UP_TO_DATE),
        behind(landed, 1, 5, 60),
        behind(landed, 2, 9, 60),
        behind(landed, 3, 1, 120),
        in_state(landed, 4, StreamState.BLOCKED, lag=1),
        in_state(landed, 5, StreamState.GONE),
        in_state(landed, 6, StreamState.LOST),
    ]
    assert [item.key.partition for item in worst_first(streams)] == [4, 6, 3, 2, 1, 0, 5]


@pytest.mark.parametrize("state", [state for state in StreamState if state is not StreamState.NOT_PLANNED])
def test_simulated_stream_is_in_its_state(landed: StreamStatus, state: StreamState) -> None:
    """As the product tells it from ranges and bounds."""
    assert in_state(landed, 7, state).state is state
