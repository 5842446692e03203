"""Where offsets went."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.accounting import (
    Accounting,
    Explanation,
    Fate,
    Tally,
    account,
    receipt,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream

pytestmark = pytest.mark.unit

STREAM = Stream("orders", "id", 0)


def _why(start: int, end: int, fate: Fate) -> Explanation:
    return Explanation(range=OffsetRange(start, end), fate=fate)


def _tally(left: RangeSet, *said: Explanation) -> Tally:
    tally = Tally()
    tally.add(left, said)
    return tally


def test_full_range_needs_no_explanation() -> None:
    """Rows equal to the span are proof on their own."""
    assert account(OffsetRange(10, 16), RangeSet.of((10, 16)), []) == Accounting(visible=6)


def test_gap_without_explanation_is_unexplained() -> None:
    """Silence is not an explanation (law L5)."""
    assert account(OffsetRange(10, 16), RangeSet.of((10, 15)), []) == Accounting(visible=5, unexplained=1)


def test_every_fate_has_its_number() -> None:
    """Markers, aborted and compacted offsets are told apart; UNEXPLAINED from the reader stays so."""
    staged = RangeSet.of((0, 2))
    said = [
        _why(2, 3, Fate.CONTROL),
        _why(3, 5, Fate.ABORTED),
        _why(5, 9, Fate.COMPACTED),
        _why(9, 10, Fate.UNEXPLAINED),
    ]
    assert account(OffsetRange(0, 11), staged, said) == Accounting(
        visible=2, control=1, aborted=2, compacted=4, unexplained=2
    )


def test_overlapping_explanations_count_once_for_the_first() -> None:
    """The order of the evidence decides, and no offset is counted twice."""
    control, aborted = _why(2, 6, Fate.CONTROL), _why(4, 8, Fate.ABORTED)
    asked, staged = OffsetRange(0, 8), RangeSet.of((0, 2))
    assert account(asked, staged, [control, aborted]) == Accounting(visible=2, control=4, aborted=2)
    assert account(asked, staged, [aborted, control]) == Accounting(visible=2, control=2, aborted=4)


def test_explanation_outside_the_gaps_is_ignored() -> None:
    """An offset with a row is visible whatever the batches say; beyond the range nothing counts."""
    said = [_why(0, 4, Fate.ABORTED), _why(6, 9, Fate.CONTROL)]
    assert account(OffsetRange(1, 6), RangeSet.of((1, 6)), said) == Accounting(visible=5)


def test_staged_rows_outside_the_range_are_ignored() -> None:
    """Rows of a neighbour are the neighbour's."""
    assert account(OffsetRange(5, 8), RangeSet.of((0, 6), (7, 20)), []) == Accounting(visible=2, unexplained=1)
    assert RangeSet.of((0, 6), (7, 20)).gaps(OffsetRange(5, 8)) == RangeSet.of((6, 7))


def test_numbers_add_up_by_field() -> None:
    """Sums over ranges keep the five numbers apart."""
    total = Accounting(visible=1, control=2) + Accounting(visible=3, skipped=4, unexplained=5)
    assert total == Accounting(visible=4, control=2, skipped=4, unexplained=5)
    assert total.span == 15
    assert list(total.to_json()) == ["visible", "control", "aborted", "compacted", "skipped", "unexplained"]


def test_receipt_of_rows_with_a_marker_behind() -> None:
    """First and last offset are those of rows, not of the range."""
    tally = _tally(RangeSet.of((10, 11), (15, 16)), _why(10, 16, Fate.CONTROL))
    got = receipt("r1", Slice(STREAM, OffsetRange(10, 16)), RangeSet.of((11, 15)), tally)
    assert (got.rows, got.first_offset, got.last_offset) == (4, 11, 14)
    assert got.accounting == Accounting(visible=4, control=2)
    assert got.accounting.span == got.range.span


def test_receipt_of_zero_rows() -> None:
    """A range may hold only markers and still be complete (law L6)."""
    tally = _tally(RangeSet.of((10, 12)), _why(10, 12, Fate.CONTROL))
    got = receipt("r1", Slice(STREAM, OffsetRange(10, 12)), RangeSet(), tally)
    assert (got.rows, got.first_offset, got.last_offset) == (0, None, None)
    assert got.accounting == Accounting(control=2)


@pytest.mark.slow
def test_many_small_gaps_are_accounted_in_one_sweep() -> None:
    """A topic of one-record transactions has a marker behind every row; quadratic work would never end."""
    count = 100_000
    staged = RangeSet(OffsetRange(2 * i, 2 * i + 1) for i in range(count))
    said = [_why(2 * i + 1, 2 * i + 2, Fate.CONTROL) for i in range(count)]
    assert account(OffsetRange(0, 2 * count), staged, said) == Accounting(visible=count, control=count)


def test_what_was_not_asked_about_is_unexplained() -> None:
    """A receipt speaks of every offset of its range."""
    got = receipt("r1", Slice(STREAM, OffsetRange(0, 10)), RangeSet.of((0, 4)), Tally())
    assert got.accounting == Accounting(visible=4, unexplained=6)


def test_tallies_add_up_part_by_part() -> None:
    """What is not explained is kept by its offsets, and what was seen there in words, once each and not for ever."""
    tally = _tally(RangeSet.of((1, 3), (5, 6)), _why(1, 2, Fate.CONTROL))
    lost = [Explanation(range=OffsetRange(n, n + 1), fate=Fate.UNEXPLAINED, seen=f"record {n}") for n in range(8, 30)]
    tally.add(RangeSet.of((8, 30)), lost)
    assert tally.accounting == Accounting(control=1, unexplained=24)
    assert tally.unexplained == RangeSet.of((2, 3), (5, 6), (8, 30))
    assert tally.seen == [f"record {n}" for n in range(8, 18)]
