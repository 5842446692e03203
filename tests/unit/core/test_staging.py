"""What a Spark job is asked to stage."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, SliceSet, Stream
from airflow_kafka_lake.core.spark.job import (
    CAREFUL_POLL,
    StageJob,
    attempts_of,
    branch_of,
    ending,
    packing,
)
from airflow_kafka_lake.core.spec import Isolation

pytestmark = pytest.mark.unit


def _stretch(start: int, end: int, partition: int = 0, topic: str = "orders", topic_id: str = "id") -> Slice:
    return Slice(Stream(topic, topic_id, partition), OffsetRange(start, end))


def _job(*slices: Slice) -> StageJob:
    return StageJob(
        pipeline="orders",
        wave="p1-w0",
        attempt="00ff00ff00ff00ff",
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=slices,
        tasks=2,
        max_records_per_partition=None,
    )


def test_islands_of_a_partition_need_a_read_each() -> None:
    """Spark takes one start and one end per partition."""
    job = _job(_stretch(20, 30), _stretch(0, 10), _stretch(0, 5, partition=1))
    assert job.scans() == ((_stretch(0, 10), _stretch(0, 5, partition=1)), (_stretch(20, 30),))
    assert _job().scans() == ()


def test_job_travels_as_json() -> None:
    """The driver reads the same job again."""
    job = replace(_job(_stretch(20, 30), _stretch(0, 10, partition=1)), singly=(_stretch(30, 40),))
    job = replace(job, overflowing=(_stretch(40, 41),), rate=1000, by_time=True)
    assert job.parts == (*job.slices, *job.singly, *job.overflowing)
    assert StageJob.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_name_and_branch_are_the_attempts() -> None:
    """The same attempt always has the same names, another one never."""
    assert _job().name == "kafka-lake orders p1-w0 00ff00ff00ff00ff"
    assert _job().branch == branch_of("00ff00ff00ff00ff") == "kafka_lake_00ff00ff00ff00ff"


def test_touching_slices_become_one() -> None:
    """Neighbouring ranges are one read; another partition or topic generation is not a neighbour."""
    assert tuple(SliceSet([_stretch(5, 9), _stretch(0, 5), _stretch(10, 12)])) == (_stretch(0, 9), _stretch(10, 12))
    apart = (_stretch(0, 5), _stretch(5, 9, partition=1))
    assert tuple(SliceSet(apart)) == apart
    generations = (_stretch(0, 5, topic_id="id-1"), _stretch(5, 9, topic_id="id-2"))
    assert tuple(SliceSet(generations)) == generations


@pytest.mark.parametrize(
    ("spans", "size", "expected"),
    [
        ([], 1000, (1, None)),
        ([10], 0, (1, None)),
        ([10], 100, (1, None)),
        ([10], 101, (2, 5)),
        ([3, 3, 3, 3], 400, (4, None)),
        ([90, 5, 5], 400, (4, 25)),
    ],
)
def test_packing(spans: list[int], size: int, expected: tuple[int, int | None]) -> None:
    """Small slices share a task; one that is heavier than a task is split."""
    slices = [_stretch(0, span, partition=index) for index, span in enumerate(spans)]
    assert packing(slices, size, 100) == expected


def test_only_our_own_branches_name_attempts() -> None:
    """Branches of others are no attempts, however alike."""
    refs = ("main", "kafka_lake_" + "a" * 16, "kafka_lake_" + "A" * 16, "kafka_lake_copy", "x_kafka_lake_" + "b" * 16)
    assert attempts_of([*refs, branch_of("0" * 16)]) == ("0" * 16, "a" * 16)


@pytest.mark.parametrize(
    ("records", "body", "end"),
    [
        pytest.param([], None, None, id="no record"),
        pytest.param([(3, 4), (9, 10)], None, (3, 10), id="few"),
        pytest.param([(0, CAREFUL_POLL)], None, (0, CAREFUL_POLL), id="as many as a poll"),
        pytest.param([(0, 9000)], (0, 9000 - CAREFUL_POLL), (9000 - CAREFUL_POLL, 9000), id="dense"),
        pytest.param([(0, 5000), (8000, 8010)], (0, 4510), (4510, 8010), id="a gap before the end and in it"),
        pytest.param([(8000, 8000 + CAREFUL_POLL)], (0, 8000), (8000, 8500), id="what is before was not looked at"),
    ],
)
def test_ends_have_as_many_records_as_a_poll(
    records: list[tuple[int, int]], body: tuple[int, int] | None, end: tuple[int, int] | None
) -> None:
    """A poll that begins before the end of a slice finds its records there, and a read stops right behind one."""
    parts = [None if part is None else _stretch(*part) for part in (body, end)]
    assert [*ending(_stretch(0, 10_000), RangeSet.of(*records))] == parts
