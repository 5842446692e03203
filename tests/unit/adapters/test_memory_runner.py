"""The job runner without Spark."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from tests.kit.memory_lake import MemoryLake
from tests.kit.memory_runner import Headers, MemoryRunner

ATTEMPT = "0123456789abcdef"


class Evens:
    """A topic whose odd offsets were compacted away."""

    def read(
        self, topic: str, partition: int, slice_: OffsetRange, isolation: Isolation, *, any_time: bool = False
    ) -> list[tuple[int, bytes | None, bytes | None, Headers, int]]:
        return [(offset, b"key", None, (), 0) for offset in range(slice_.start, slice_.end) if offset % 2 == 0]


def job(end: int = 5) -> StageJob:
    """Ask for offsets `[0, end)` of one partition."""
    return StageJob(
        pipeline="orders",
        wave="wave-1",
        attempt=ATTEMPT,
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=(Slice(Stream("orders", "id", 0), OffsetRange(0, end)),),
        tasks=1,
        max_records_per_partition=None,
    )


@pytest.fixture
def lake() -> MemoryLake:
    """A lake with an empty table."""
    made = MemoryLake()
    made.table("raw.orders").ensure("")
    return made


def run(runner: MemoryRunner) -> list[str]:
    """Run a job; return what was called, in order."""
    calls: list[str] = []
    runner.stage(job(), started=lambda name: calls.append(f"started {name}"), heartbeat=lambda: calls.append("beat"))
    return calls


def test_job_stages_what_a_reader_sees(lake: MemoryLake) -> None:
    """Holes stay holes, and nothing reaches main."""
    assert run(MemoryRunner(Evens(), lake)) == ["started memory-1", "beat"]
    staged = lake.table("raw.orders").staged(ATTEMPT)
    assert staged is not None
    assert [content.offsets for content in staged.streams] == [RangeSet.of((0, 1), (2, 3), (4, 5))]
    assert lake.table("raw.orders").rows() == ()


def test_failed_job_says_its_last_words_and_stages_nothing(lake: MemoryLake) -> None:
    """The next job after the failures succeeds."""
    runner = MemoryRunner(Evens(), lake)
    runner.failures.append("out of memory")
    with pytest.raises(JobFailedError, match="out of memory"):
        run(runner)
    assert lake.table("raw.orders").staged(ATTEMPT) is None
    run(runner)
    assert lake.table("raw.orders").staged(ATTEMPT) is not None


def test_killed_driver_leaves_no_result(lake: MemoryLake) -> None:
    """A job may end without a word and without a commit."""
    runner = MemoryRunner(Evens(), lake)
    runner.unfinished = 1
    run(runner)
    assert lake.table("raw.orders").staged(ATTEMPT) is None
