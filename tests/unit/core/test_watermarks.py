"""Watermark, hold and lag."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.ledger.records import first_held, lag, watermark
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet

pytestmark = pytest.mark.unit


def test_watermark_stops_at_gap() -> None:
    """An island above a gap does not count."""
    assert watermark(0, RangeSet.of((0, 10), (11, 14))) == 10


def test_watermark_jumps_over_island_when_gap_closes() -> None:
    """Success above a hold is remembered and not repeated."""
    assert watermark(0, RangeSet.of((0, 10), (11, 14)) | RangeSet.of((10, 11))) == 14


def test_watermark_begins_at_origin() -> None:
    """Nothing committed at the origin leaves the watermark there, whatever lies below or above."""
    assert watermark(5, RangeSet()) == 5
    assert watermark(5, RangeSet.of((0, 5))) == 5
    assert watermark(5, RangeSet.of((6, 9))) == 5
    assert watermark(5, RangeSet.of((0, 9))) == 9


def test_hold_is_smallest_unresolved_start_at_or_above_watermark() -> None:
    """An ingest below the watermark holds nothing."""
    assert first_held(10, [OffsetRange(11, 14), OffsetRange(10, 11)]) == 10
    assert first_held(10, [OffsetRange(2, 4)]) is None
    assert first_held(10, []) is None


def test_lag_is_never_negative() -> None:
    """A readable end that moved back is the stop of another observation, not a negative lag."""
    assert lag(4, 10) == 6
    assert lag(10, 4) == 0
