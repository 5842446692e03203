"""Watermark and hold: pure functions of what is committed and what is not."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet


def watermark(origin: int, coverage: RangeSet) -> int:
    """Return the end of the unbroken committed run that begins at the origin (law L2)."""
    return coverage.unbroken_end(origin)


def hold(current: int, unresolved: Iterable[OffsetRange]) -> int | None:
    """Return the smallest start, at or above the watermark, of an unresolved range; None when nothing holds."""
    return min((item.start for item in unresolved if item.start >= current), default=None)


def lag(current: int, readable_end: int) -> int:
    """Return how many offsets lie between the watermark and what could be read; never negative."""
    return max(0, readable_end - current)
