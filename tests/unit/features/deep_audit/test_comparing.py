"""What a comparing job is asked, slice by slice, and what must be found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.compare import (
    MOST_PER_SLICE,
    CompareJob,
    ContentComparison,
    ContentDifference,
    Mismatch,
    narrowed,
    parts_of,
    per_slice,
)
from tests.kit.memory_runner import Record, differences

pytestmark = pytest.mark.unit


def slice_(start: int, end: int, partition: int = 0) -> Slice:
    return Slice(Stream("orders", "id", partition), OffsetRange(start, end))


def job(*slices: Slice, bucket: int = 10, size: int = 25) -> CompareJob:
    return CompareJob(
        pipeline="orders",
        table="raw.orders",
        snapshot=7,
        isolation=Isolation.READ_COMMITTED,
        slices=slices,
        bucket=bucket,
        per_slice=size,
    )


ranges = st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True).map(
    lambda edges: [slice_(a, b) for a, b in zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False)]
)


@given(ranges, st.integers(1, 90))
def test_parts_are_the_slices(given_slices: list[Slice], size: int) -> None:
    """Every offset once, and every slice but the last is full."""
    found = parts_of(job(*given_slices, size=size))
    pieces = [item.range for part in found for item in part]
    assert sum(item.span for item in pieces) == sum(item.range.span for item in given_slices)
    assert RangeSet(pieces) == RangeSet(item.range for item in given_slices)
    sizes = [sum(item.range.span for item in part) for part in found]
    assert set(sizes[:-1]) <= {size}
    assert 0 < sizes[-1] <= size


def test_a_rate_makes_slices_of_some_seconds() -> None:
    """At 1 MiB a second and 1 KiB each, 20 seconds are 20,480 offsets."""
    assert per_slice(1024 * 1024, None) == 20_480
    assert per_slice(1024 * 1024, 100.0) == 209_715
    assert per_slice(1, 1e9) == 1
    assert per_slice(None, 1e9) == MOST_PER_SLICE


def test_only_buckets_that_differ_are_looked_at_again() -> None:
    """Cut at the ends of the slices."""
    found = narrowed([slice_(5, 27), slice_(0, 40, 1)], [("id", 0, 0), ("id", 0, 2), ("id", 1, 1)], 10)
    assert [(item.stream.partition, item.range.start, item.range.end) for item in found] == [
        (0, 5, 10),
        (0, 20, 27),
        (1, 10, 20),
    ]


def test_what_travels_comes_back() -> None:
    """As JSON."""
    asked = replace(job(slice_(3, 9), slice_(0, 1, 2)), singly=(slice_(5, 7),), unread=(slice_(7, 9),))
    assert CompareJob.from_json(json.loads(json.dumps(asked.to_json()))) == asked
    difference = ContentDifference(stream=Stream("t", "i", 1), mismatch=Mismatch.KEY, first=3, offsets=2)
    found = ContentComparison(records=5, bytes=6, differences=(difference,))
    assert ContentComparison.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_every_way_to_differ_is_told_apart() -> None:
    """First offset and number, by stream; what lies outside the slices is not looked at."""
    stream = Stream("orders", "id", 0)
    kafka: dict[int, Record] = dict.fromkeys(range(8), (b"k", b"v", None, 1, 0))
    lake: dict[int, Record] = {**kafka, 99: (b"", b"", None, 1, 0)}
    del lake[0], kafka[7]
    lake |= {1: (b"", b"v", None, 1, 0), 2: (b"k", None, None, 1, 0), 3: (b"k", b"v", (), 1, 0)}
    lake |= {4: (b"k", b"v", None, 2, 0), 5: (b"k", b"v", None, 1, 1), 6: (b"x", b"v", None, 1, 0)}
    found = {d.mismatch: (d.first, d.offsets) for d in differences([slice_(0, 10)], {stream: kafka}, {stream: lake})}
    assert found == {
        Mismatch.MISSING: (0, 1),
        Mismatch.UNKNOWN: (7, 1),
        Mismatch.KEY: (1, 2),
        Mismatch.VALUE: (2, 1),
        Mismatch.HEADERS: (3, 1),
        Mismatch.TIMESTAMP: (4, 1),
        Mismatch.TIMESTAMP_TYPE: (5, 1),
    }
