"""Half-open ranges and sets of them."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 3), (-3, -1)])
def test_empty_or_negative_range_is_refused(start: int, end: int) -> None:
    """A range holds at least one offset, and offsets are never negative."""
    with pytest.raises(ValueError, match=f"{start}-{end}"):
        OffsetRange(start, end)


def test_end_is_exclusive() -> None:
    """The end belongs to the next range."""
    item = OffsetRange(3, 7)
    assert item.span == 4
    assert [offset for offset in range(10) if offset in item] == [3, 4, 5, 6]
    assert "3" not in item
    assert str(item) == "3-7"


def test_touching_ranges_do_not_overlap() -> None:
    """[0, 5) and [5, 9) share nothing."""
    assert not OffsetRange(0, 5).overlaps(OffsetRange(5, 9))
    assert OffsetRange(0, 6).overlaps(OffsetRange(5, 9))
    assert OffsetRange(0, 5).intersection(OffsetRange(5, 9)) is None
    assert OffsetRange(0, 6).intersection(OffsetRange(5, 9)) == OffsetRange(5, 6)


def test_split_ignores_edges_and_outside() -> None:
    """Only offsets strictly inside cut."""
    assert OffsetRange(2, 8).split_at([8, 5, 2, 5, 99, 0]) == (OffsetRange(2, 5), OffsetRange(5, 8))
    assert OffsetRange(2, 8).split_at([]) == (OffsetRange(2, 8),)


def test_set_merges_overlapping_and_touching_ranges() -> None:
    """Equal sets compare equal, however they were written."""
    assert RangeSet.of((5, 9), (0, 3), (3, 5)) == RangeSet.of((0, 9))
    assert RangeSet.of((0, 9), (2, 4)) == RangeSet.of((0, 9))
    assert hash(RangeSet.of((0, 3), (3, 4))) == hash(RangeSet.of((0, 4)))
    assert RangeSet.of((0, 3), (4, 5)).ranges == (OffsetRange(0, 3), OffsetRange(4, 5))


def test_between_is_empty_when_end_is_not_above_start() -> None:
    """`between` forgives what `OffsetRange` refuses."""
    assert not RangeSet.between(4, 4)
    assert not RangeSet.between(4, 1)
    assert RangeSet.between(1, 4) == RangeSet.of((1, 4))


def test_algebra_on_islands() -> None:
    """Union, intersection and difference work piece by piece."""
    a, b = RangeSet.of((0, 4), (8, 12)), RangeSet.of((2, 9))
    assert a | b == RangeSet.of((0, 12))
    assert a & b == RangeSet.of((2, 4), (8, 9))
    assert a - b == RangeSet.of((0, 2), (9, 12))
    assert b - a == RangeSet.of((4, 8))
    assert RangeSet() - a == RangeSet()
    assert a - RangeSet() == a


def test_unbroken_end_stops_at_gap() -> None:
    """The run that begins at an offset ends at the first missing one."""
    covered = RangeSet.of((0, 4), (5, 9))
    assert covered.unbroken_end(0) == 4
    assert covered.unbroken_end(2) == 4
    assert covered.unbroken_end(4) == 4
    assert covered.unbroken_end(5) == 9
    assert covered.unbroken_end(20) == 20


def test_wire_forms() -> None:
    """A set prints as ranges, or says that there is nothing."""
    assert RangeSet.of((0, 4), (5, 9)).to_pairs() == [[0, 4], [5, 9]]
    assert str(RangeSet.of((0, 4), (5, 9))) == "0-4, 5-9"
    assert str(RangeSet()) == "nothing"
    assert RangeSet.of((0, 4), (5, 9)).span == 8
    assert 5 in RangeSet.of((0, 4), (5, 9))
    assert 4 not in RangeSet.of((0, 4), (5, 9))


def test_many_slices_are_counted_in_words() -> None:
    """A sentence names a few, and says how many there are."""
    few, many = RangeSet.of((0, 1), (2, 3)), RangeSet.of(*((n, n + 1) for n in range(0, 2000, 2)))
    assert few.describe() == "0-1, 2-3"
    assert many.describe().startswith("0-1, 2-3, 4-5")
    assert many.describe().endswith("18-19, … (1,000 offsets in 1,000 ranges)")


def test_a_slice_of_a_set_is_what_both_share() -> None:
    """The same as the intersection, whatever the edges."""
    whole = RangeSet.of((2, 5), (8, 9), (12, 20))
    for start in range(22):
        for end in range(start + 1, 24):
            interval = OffsetRange(start, end)
            assert whole.within(interval) == whole & RangeSet((interval,))


def test_set_of_too_many_slices_grows_at_its_end() -> None:
    """Nothing of it is lost: what is too many becomes one slice with all between."""
    some = RangeSet.of((0, 1), (2, 3), (4, 5), (8, 9))
    assert some.at_most(4) == some
    assert some.at_most(2) == RangeSet.of((0, 1), (2, 9))
    assert some.at_most(1) == RangeSet.of((0, 9))
