"""The algebra of range sets agrees with sets of numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from tests.properties.strategies import TOP, as_set, offset_ranges, offsets, range_sets

pytestmark = pytest.mark.properties


@given(range_sets(), range_sets())
def test_algebra_is_that_of_sets(a: RangeSet, b: RangeSet) -> None:
    """Union, intersection and difference hold exactly the offsets they should."""
    assert as_set(a | b) == as_set(a) | as_set(b)
    assert as_set(a & b) == as_set(a) & as_set(b)
    assert as_set(a - b) == as_set(a) - as_set(b)


@given(st.lists(range_sets(), max_size=5), offset_ranges(), st.integers(1, 4))
def test_parts_and_wholes(sets: list[RangeSet], interval: OffsetRange, size: int) -> None:
    """A union holds what any of its sets has, normal as every set; slices put together are the whole again."""
    whole = RangeSet.union(sets)
    assert as_set(whole) == set().union(*map(as_set, sets))
    assert whole == RangeSet(reversed(whole.ranges))
    assert RangeSet.union(whole.sliced(size)) == whole
    assert all(0 < part.range_count <= size for part in whole.sliced(size))
    assert as_set(whole.gaps(interval)) == as_set([interval]) - as_set(whole)
    assert as_set(whole.within(interval)) == as_set([interval]) & as_set(whole)


@given(range_sets(), range_sets())
def test_results_are_normal(a: RangeSet, b: RangeSet) -> None:
    """Ranges of a result are sorted and neither overlap nor touch: equal sets are equal values."""
    for result in (a, a | b, a & b, a - b, a.gaps(OffsetRange(0, TOP))):
        assert all(left.end < right.start for left, right in pairwise(result))
        assert result == RangeSet(reversed(result.ranges))
    assert (a | b) - b == a - b
    assert (a == b) == (as_set(a) == as_set(b))


@given(range_sets(), offsets)
def test_gaps_and_membership(a: RangeSet, end: int) -> None:
    """Gaps are the offsets that are not in the set, and `in` agrees with it."""
    assert as_set(a.gaps(OffsetRange(0, end + 1))) == set(range(end + 1)) - as_set(a)
    assert {offset for offset in range(TOP + 1) if offset in a} == as_set(a)
    assert a.span == len(as_set(a))
    assert bool(a) == bool(as_set(a))


@given(offset_ranges(), offset_ranges())
def test_overlap_is_a_shared_offset(a: OffsetRange, b: OffsetRange) -> None:
    """`overlaps` and `intersection` say the same as the offsets."""
    shared = as_set([a]) & as_set([b])
    both = a.intersection(b)
    assert a.overlaps(b) == b.overlaps(a) == bool(shared)
    assert (as_set([both]) if both else set()) == shared


@given(offset_ranges(), st.lists(offsets, max_size=6))
def test_split_loses_nothing(item: OffsetRange, cuts: list[int]) -> None:
    """The pieces are the range, in order, with an edge at every cut inside."""
    pieces = item.split_at(cuts)
    assert pieces[0].start == item.start
    assert pieces[-1].end == item.end
    assert all(left.end == right.start for left, right in pairwise(pieces))
    assert {piece.start for piece in pieces[1:]} == {cut for cut in cuts if item.start < cut < item.end}


@given(range_sets(), offsets)
def test_unbroken_end_is_the_first_missing_offset(a: RangeSet, start: int) -> None:
    """Every offset of the run is in the set, and the one behind it is not."""
    end = a.unbroken_end(start)
    assert set(range(start, end)) <= as_set(a)
    assert end not in as_set(a)


@given(range_sets())
def test_pairs_read_back(a: RangeSet) -> None:
    """The wire form holds the whole set."""
    assert RangeSet.of(*[(start, end) for start, end in a.to_pairs()]) == a
