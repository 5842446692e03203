"""The watermark is the end of the unbroken committed run, and never passes what is unresolved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.ledger.records import first_held, lag, watermark
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from tests.properties.strategies import as_set, offsets, partitions_of_a_stream, range_sets

pytestmark = pytest.mark.properties


@given(offsets, range_sets())
def test_watermark_is_the_end_of_the_unbroken_committed_run(origin: int, coverage: RangeSet) -> None:
    """Counting up from the origin while the offset is committed gives the watermark (law L2)."""
    expected = origin
    while expected in as_set(coverage):
        expected += 1
    assert watermark(origin, coverage) == expected


@given(partitions_of_a_stream(), st.data())
def test_watermark_never_passes_the_hold(ranges: list[OffsetRange], data: st.DataObject) -> None:
    """Whatever is committed, the watermark is at most the hold, and equals it where nothing is unplanned (law L1)."""
    committed = data.draw(st.lists(st.sampled_from(ranges), unique=True))
    origin = data.draw(st.sampled_from([item.start for item in ranges]))
    unresolved = [item for item in ranges if item not in committed]
    mark = watermark(origin, RangeSet(committed))
    held = first_held(mark, unresolved)
    assert held is None or mark <= held
    above = [item.start for item in unresolved if item.start >= origin]
    assert mark == (min(above) if above else ranges[-1].end)


@given(offsets, range_sets(), range_sets())
def test_watermark_never_moves_back_while_more_is_committed(origin: int, before: RangeSet, more: RangeSet) -> None:
    """Committing anything at all keeps or raises it."""
    assert watermark(origin, before | more) >= watermark(origin, before)


@given(partitions_of_a_stream(), st.randoms(use_true_random=False))
def test_islands_join_when_the_gap_closes(ranges: list[OffsetRange], random: object) -> None:
    """In whatever order ranges are committed, the last one brings the watermark to the end (law L4)."""
    order = list(ranges)
    random.shuffle(order)  # type: ignore[attr-defined]
    coverage, marks = RangeSet(), [0]
    for item in order:
        coverage |= RangeSet((item,))
        marks.append(watermark(0, coverage))
    assert marks == sorted(marks)
    assert marks[-1] == ranges[-1].end
    assert all(mark < ranges[-1].end for mark in marks[: order.index(ranges[0]) + 1])


@given(offsets, offsets)
def test_lag_counts_up_to_the_readable_end(mark: int, end: int) -> None:
    """Lag is a number of offsets, zero at the end."""
    assert lag(mark, end) == len(range(mark, end))
