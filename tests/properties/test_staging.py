"""A job reads every slice once, in reads that Spark can make."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.offsets import Slice, SliceSet
from airflow_kafka_lake.core.spark.job import StageJob, packing
from airflow_kafka_lake.core.spec import Isolation
from tests.properties.strategies import as_set, slices

pytestmark = pytest.mark.properties


def _job(items: tuple[Slice, ...]) -> StageJob:
    return StageJob(
        pipeline="orders",
        wave="w",
        attempt="00ff00ff00ff00ff",
        table="raw.t",
        isolation=Isolation.READ_UNCOMMITTED,
        slices=items,
        tasks=1,
        max_records_per_partition=3,
    )


def _offsets(items: list[Slice] | tuple[Slice, ...]) -> set[tuple[str, str, int, int]]:
    return {
        (s.stream.topic, s.stream.topic_id, s.stream.partition, offset) for s in items for offset in as_set([s.range])
    }


@given(slices)
def test_scans_cover_each_slice_once(items: list[Slice]) -> None:
    """No slice is lost or read twice."""
    assert Counter(s for scan in _job(tuple(items)).scans() for s in scan) == Counter(items)


@given(slices)
def test_scan_has_one_slice_per_partition(items: list[Slice]) -> None:
    """Spark's `assign` takes one start and end per partition; there are no more reads than that needs."""
    scans = _job(tuple(items)).scans()
    for scan in scans:
        assert len({(s.stream.topic, s.stream.partition) for s in scan}) == len(scan)
    assert len(scans) == max(Counter((s.stream.topic, s.stream.partition) for s in items).values(), default=0)


@given(slices)
def test_merging_keeps_every_offset(items: list[Slice]) -> None:
    """Joined slices hold the same offsets, each once, and nothing touches."""
    joined = tuple(SliceSet(items))
    assert _offsets(joined) == _offsets(items)
    assert sum(s.range.span for s in joined) == len(_offsets(items))
    assert tuple(SliceSet(joined)) == joined


@given(slices)
def test_job_reads_back(items: list[Slice]) -> None:
    """What the driver gets is what was asked."""
    job = _job(tuple(items))
    assert StageJob.from_json(json.loads(json.dumps(job.to_json()))) == job


@given(slices, st.integers(min_value=0, max_value=10**6), st.integers(min_value=1, max_value=10**5))
def test_packing_gives_tasks_of_the_asked_size(items: list[Slice], size: int, task: int) -> None:
    """There are as many tasks as the bytes need, and no piece is longer than a task's share of the offsets."""
    tasks, longest = packing(items, size, task)
    total = sum(s.range.span for s in items)
    assert tasks == (max(1, math.ceil(size / task)) if items else 1)
    if longest is None:
        assert tasks == 1 or max(s.range.span for s in items) <= math.ceil(total / tasks)
    else:
        assert 1 <= longest < max(s.range.span for s in items)
        assert longest * tasks >= total
