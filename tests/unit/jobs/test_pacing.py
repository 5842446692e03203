"""How a job keeps to a rate, decided without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_kafka_lake.jobs.shared_consumer import (
    Pace,
    condition,
    cores_of,
    fetch_bytes,
    pace_of,
    readers,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("rate", "cores", "tasks", "count"),
    [(100_000_000, 4, 100, 4), (100_000_000, 4, 2, 2), (600_000, 4, 100, 2), (100_000, 4, 100, 1), (1, 0, 0, 1)],
)
def test_no_more_tasks_read_than_run_at_the_same_time(rate: int, cores: int, tasks: int, count: int) -> None:
    """More of them would have shares of the rate that no task uses; each has enough to be heard of."""
    assert readers(rate, cores, tasks) == count


def test_session_that_does_not_say_how_many_tasks_run_counts_for_one() -> None:
    """One task with the whole rate is never too fast."""
    assert cores_of(SimpleNamespace()) == 1
    assert cores_of(SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=8))) == 8


def test_tasks_share_the_rate() -> None:
    """All that read at the same time have it together."""
    spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=4))
    assert pace_of(spark, 2_000_000, 100) == Pace(tasks=4, rate=500_000)
    assert pace_of(SimpleNamespace(), 2_000_000, 100) == Pace(tasks=1, rate=2_000_000)


@pytest.mark.parametrize(("rate", "fetched"), [(1_000, 65_536), (1_000_000, 1_000_000), (10**9, 4_194_304)])
def test_client_reads_ahead_by_about_a_second(rate: int, fetched: int) -> None:
    """A fetch of megabytes would be many seconds of a slow rate."""
    assert fetch_bytes(rate) == fetched


def test_record_costs_the_time_of_all_its_bytes() -> None:
    """Key, value and headers, of which any may be null; a task's share of the rate is what it is divided by."""
    found = condition(250_000)
    for part in ("octet_length(key)", "octet_length(value)", "aggregate(headers", "* 1000D / 250000", "Thread"):
        assert part in found
