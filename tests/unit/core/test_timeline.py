"""What became of each slice of a stream."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.audit.timeline import Bounds, OffsetStatus, timeline
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, Stream

pytestmark = pytest.mark.unit


def ranged(start: int, end: int, state: RangeState, reason: str | None = None) -> RangeRecord:
    return RangeRecord(
        id=str(start),
        pipeline="orders",
        plan="p",
        wave="w",
        slice=Slice(Stream("orders", "id", 0), OffsetRange(start, end)),
        state=state,
        reason=reason,
        estimated_bytes=0,
    )


RANGES = (
    ranged(10, 20, RangeState.COMMITTED),
    ranged(20, 30, RangeState.COMMITTED),
    ranged(30, 40, RangeState.HELD, "no file"),
    ranged(40, 50, RangeState.CANCELLED, "not now"),
    ranged(50, 60, RangeState.SKIPPED, "broken"),
    ranged(70, 80, RangeState.PLANNED),
)


def shown(bounds: Bounds | None) -> list[tuple[int, int, OffsetStatus, str]]:
    return [(p.range.start, p.range.end, p.status, p.message) for p in timeline(10, RANGES, bounds)]


def test_every_state_of_a_range_has_its_band() -> None:
    """Committed neighbours are one piece; what nobody has planned is not there while Kafka was not asked."""
    assert shown(None) == [
        (10, 30, OffsetStatus.COMMITTED, ""),
        (30, 40, OffsetStatus.HELD, "no file"),
        (40, 50, OffsetStatus.HELD, "not now"),
        (50, 60, OffsetStatus.SKIPPED, "broken"),
        (70, 80, OffsetStatus.PLANNED, ""),
    ]


def test_what_kafka_has_and_nobody_has_planned_is_unread() -> None:
    """Between the ranges and behind them."""
    assert [piece for piece in shown(Bounds(log_start=0, readable_end=90)) if piece[2] is OffsetStatus.UNREAD] == [
        (60, 70, OffsetStatus.UNREAD, ""),
        (80, 90, OffsetStatus.UNREAD, ""),
    ]


def test_what_retention_has_passed_unread_is_lost() -> None:
    """Committed and skipped offsets are not: nobody needs them from Kafka any more."""
    assert shown(Bounds(log_start=75, readable_end=80)) == [
        (10, 30, OffsetStatus.COMMITTED, ""),
        (30, 40, OffsetStatus.LOST, "Kafka's log starts at 75; no file"),
        (40, 50, OffsetStatus.LOST, "Kafka's log starts at 75; not now"),
        (50, 60, OffsetStatus.SKIPPED, "broken"),
        (60, 75, OffsetStatus.LOST, "Kafka's log starts at 75"),
        (75, 80, OffsetStatus.PLANNED, ""),
    ]


def test_a_stream_of_nothing_has_an_empty_timeline() -> None:
    """Nothing planned, nothing in Kafka."""
    assert timeline(5, (), Bounds(log_start=5, readable_end=5)) == ()
