"""How long waves take, from what the last ones took."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.planning.costs import (
    BYTES_PER_SECOND,
    JOB_START_SECONDS,
    TopicCost,
    WaveCost,
    duration,
)

pytestmark = pytest.mark.unit

MB = 10**6


def took(kafka_bytes: int, seconds: float) -> WaveCost:
    """Return a wave of kilobyte records."""
    topic = TopicCost(topic="orders", offsets=kafka_bytes // 1000, kafka_bytes=kafka_bytes)
    return WaveCost(seconds=seconds, lake_bytes=kafka_bytes // 12, topics=(topic,))


def test_nothing_committed_is_a_cautious_figure() -> None:
    """Before the first wave there is nothing to learn from."""
    assert duration([], [200 * MB, 200 * MB]) == 2 * (JOB_START_SECONDS + 200 * MB / BYTES_PER_SECOND)


def test_seconds_are_a_start_and_a_slope() -> None:
    """Small waves tell what a start costs, large ones what a byte costs: a mean over offsets would tell neither."""
    costs = [took(size, 20 + size / (50 * MB)) for size in (1000, 5000 * MB, 2000, 9000 * MB, 1000)]
    assert duration(costs, [3000 * MB]) == pytest.approx(80, rel=0.1)


def test_small_waves_do_not_make_a_large_one_endless() -> None:
    """A wave of a few records that takes ten seconds is a start of ten seconds; its jitter tells nothing of bytes."""
    costs = [took(size, seconds) for size, seconds in ((1000, 9), (90_000, 12), (2000, 8), (50_000, 11), (1000, 10))]
    assert duration(costs, [900 * MB]) == pytest.approx(10 + 900 * MB / BYTES_PER_SECOND, rel=0.1)


def test_waves_of_one_size_tell_what_another_of_that_size_takes() -> None:
    """How much of it was the start does not matter then."""
    assert duration([took(900 * MB, 19)] * 5, [900 * MB]) == pytest.approx(19, rel=0.1)


def test_no_part_is_ever_below_zero() -> None:
    """Waves that were slower the smaller they were (a busy machine) make no larger one free."""
    costs = [took(100 * MB, 300), took(5000 * MB, 20), took(9000 * MB, 15)]
    assert duration(costs, [50_000 * MB]) > 0
    assert duration(costs, [1]) > 0
