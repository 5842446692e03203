"""A job's slices are divided among tasks that weigh about the same."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import (
    FEWEST,
    abreast,
    divided,
    evenly,
    is_by_time,
)
from tests.properties.strategies import slices

pytestmark = pytest.mark.properties

counts = st.integers(min_value=1, max_value=12)
limits = st.none() | st.integers(min_value=1, max_value=70)


def _offsets(items: list[Slice] | tuple[Slice, ...]) -> Counter[tuple[str, int, int]]:
    return Counter((s.stream.topic, s.stream.partition, at) for s in items for at in range(s.range.start, s.range.end))


@given(slices, counts, limits)
def test_every_offset_is_read_by_one_task(items: list[Slice], tasks: int, limit: int | None) -> None:
    """As often as it was asked for, and no task is without a slice."""
    found = divided(items, tasks, limit)
    assert _offsets([item for task in found for item in task]) == _offsets(items)
    assert all(found)


@given(slices, counts, limits)
def test_tasks_weigh_about_the_same(items: list[Slice], tasks: int, limit: int | None) -> None:
    """No part is heavier than the limit, and no task of others exceeds its share by more than one of its slices."""
    found = divided(items, tasks, limit)
    light = [item.range.span for item in items if limit is None or item.range.span <= limit]
    parts = sum(math.ceil(s.range.span / limit) for s in items if s.range.span > limit) if limit else 0
    spans = [sum(item.range.span for item in task) for task in found]
    assert all(span <= (limit or 0) for span in spans[:parts])
    assert sum(spans[parts:]) == sum(light)
    count = tasks if limit is None else math.ceil(sum(light) / limit)
    assert len(spans) - parts <= count
    assert all(span <= sum(light) / count + max(light) for span in spans[parts:])


@given(slices, counts, limits)
def test_neighbours_stay_together(items: list[Slice], tasks: int, limit: int | None) -> None:
    """Slices that are not split keep their order over all tasks, so that a file holds few partitions."""
    light = sorted(item for item in items if limit is None or item.range.span <= limit)
    found = [item for task in divided(items, tasks, limit) for item in task]
    assert found[len(found) - len(light) :] == light


@given(slices, counts)
@example([Slice(Stream("a", "id", 0), OffsetRange(0, 7)), Slice(Stream("a", "id", 0), OffsetRange(0, 36))], 8)
def test_tasks_of_a_rate_weigh_the_same(items: list[Slice], tasks: int) -> None:
    """Every offset is read by one of so many tasks at most, and none has more than an offset beyond its share."""
    found = evenly(items, tasks)
    assert _offsets([item for task in found for item in task]) == _offsets(items)
    assert len(found) <= tasks
    share = sum(item.range.span for item in items) / tasks
    assert all(sum(item.range.span for item in task) <= share + 2 for task in found)


@given(st.integers(min_value=1, max_value=2000), st.integers(min_value=1, max_value=40))
def test_equal_slices_fill_equal_tasks(partitions: int, tasks: int) -> None:
    """A thousand quiet partitions of one size are spread evenly."""
    items = [Slice(Stream("quiet", "id", number), OffsetRange(0, 10)) for number in range(partitions)]
    sizes = [len(task) for task in divided(items, tasks, None)]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == min(tasks, partitions)


@given(slices, counts)
def test_tasks_abreast_have_the_same_stretch_of_every_slice(items: list[Slice], tasks: int) -> None:
    """Every offset is read by one task, and none has more than an offset of each slice beyond its share."""
    found = abreast(items, tasks, fewest=0) or ()
    assert _offsets([item for task in found for item in task]) == _offsets(items)
    assert len(found) <= tasks
    assert all(found)
    share = sum(math.ceil(item.range.span / tasks) for item in items)
    assert all(sum(part.range.span for part in task) <= share for task in found)


def test_tasks_abreast_begin_together() -> None:
    """What was written at the same time to several partitions comes to the same task."""
    found = abreast([_whole(0, 4 * FEWEST), _whole(1, 8 * FEWEST)], 4)
    cuts = [(number * FEWEST, (number + 1) * FEWEST) for number in range(4)]
    assert found == tuple(
        (Slice(_stream(0), OffsetRange(start, end)), Slice(_stream(1), OffsetRange(2 * start, 2 * end)))
        for start, end in cuts
    )


def test_short_slices_are_not_cut() -> None:
    """A consumer would ask for many partitions and get few records of each."""
    assert abreast([_whole(number, FEWEST) for number in range(4)], 2) is None


@pytest.mark.parametrize(
    ("partition_by", "expected"),
    [
        ("", False),
        ("days(kafka_timestamp)", True),
        ("hour(kafka_timestamp), bucket(4,key)", True),
        ("bucket(4,key)", False),
        ("kafka_topic, days(kafka_timestamp)", False),
        ("months(kafka_timestamp), bucket(8,kafka_partition)", False),
    ],
)
def test_tables_by_time(partition_by: str, expected: bool) -> None:
    """Where Kafka's own partitions divide the table too, neighbours had better stay together."""
    assert is_by_time(partition_by) is expected


def _stream(partition: int) -> Stream:
    return Stream("orders", "id", partition)


def _whole(partition: int, end: int) -> Slice:
    return Slice(_stream(partition), OffsetRange(0, end))
