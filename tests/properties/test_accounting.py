"""Every offset of a range is counted once, whatever the evidence looks like."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from airflow_kafka_lake.core.accounting import (
    EXPLAINED,
    Accounting,
    Explanation,
    Fate,
    Tally,
    account,
    receipt,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from tests.properties.strategies import as_set, explanations, offset_ranges, range_sets

pytestmark = pytest.mark.properties


def _offset_by_offset(asked: OffsetRange, staged: RangeSet, said: list[Explanation]) -> Accounting:
    """Account one offset after the other: visible if staged, else by the first explanation that names it."""
    rows = as_set(staged)
    counts: Counter[str] = Counter()
    for offset in range(asked.start, asked.end):
        first = next((item.fate for item in said if offset in item.range), Fate.UNEXPLAINED)
        fate = first if first in EXPLAINED else Fate.UNEXPLAINED
        counts["visible" if offset in rows else fate.value] += 1
    return Accounting(**counts)


@given(offset_ranges(), range_sets(), explanations)
def test_numbers_sum_to_the_span(asked: OffsetRange, staged: RangeSet, said: list[Explanation]) -> None:
    """visible + control + aborted + compacted + skipped + unexplained = span, always."""
    numbers = account(asked, staged, said)
    assert numbers.span == asked.span
    assert min(numbers.to_json().values()) >= 0


@given(offset_ranges(), range_sets(), explanations)
def test_first_explanation_counts(asked: OffsetRange, staged: RangeSet, said: list[Explanation]) -> None:
    """The set arithmetic agrees with looking at one offset after the other, in the order of the evidence."""
    assert account(asked, staged, said) == _offset_by_offset(asked, staged, said)


@given(offset_ranges(), range_sets(), explanations)
def test_what_is_staged_outside_the_range_is_ignored(
    asked: OffsetRange, staged: RangeSet, said: list[Explanation]
) -> None:
    """Rows of neighbouring ranges change no number."""
    assert account(asked, staged & RangeSet((asked,)), said) == account(asked, staged, said)


@given(offset_ranges(), range_sets())
def test_without_evidence_every_gap_is_unexplained(asked: OffsetRange, staged: RangeSet) -> None:
    """Nothing is explained by default."""
    assert account(asked, staged, []).unexplained == staged.gaps(asked).span == len(as_set([asked]) - as_set(staged))


@given(offset_ranges(), range_sets(), explanations)
def test_receipt_tells_the_rows_of_the_range(asked: OffsetRange, staged: RangeSet, said: list[Explanation]) -> None:
    """Rows, first and last offset are those of the staged offsets inside the range."""
    rows = as_set([asked]) & as_set(staged)
    tally = Tally()
    tally.add(staged.gaps(asked), said)
    got = receipt("r", Slice(Stream("t", "id", 0), asked), staged, tally)
    assert got.accounting == account(asked, staged, said)
    assert got.rows == got.accounting.visible == len(rows)
    assert (got.first_offset, got.last_offset) == ((min(rows), max(rows)) if rows else (None, None))


@given(offset_ranges(), range_sets(), explanations)
def test_splitting_a_range_splits_its_numbers(asked: OffsetRange, staged: RangeSet, said: list[Explanation]) -> None:
    """The numbers of the pieces add up to those of the whole."""
    pieces = asked.split_at([(asked.start + asked.end) // 2])
    assert sum((account(piece, staged, said) for piece in pieces), Accounting()) == account(asked, staged, said)
