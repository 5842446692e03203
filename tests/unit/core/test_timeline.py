"""What became of each slice of a stream."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.audit.report import (
    OffsetStatus,
    StreamBounds,
    TimelineSlice,
    fewer,
    timeline,
)
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream

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


def shown(bounds: StreamBounds | None) -> list[tuple[int, int, OffsetStatus, str]]:
    return [(p.range.start, p.range.end, p.status, p.message) for p in timeline(10, RANGES, bounds)]


def test_every_state_of_a_range_has_its_band() -> None:
    """Committed neighbours are one piece; what is not planned is not there while Kafka was not asked."""
    assert shown(None) == [
        (10, 30, OffsetStatus.COMMITTED, ""),
        (30, 40, OffsetStatus.HELD, "no file"),
        (40, 50, OffsetStatus.HELD, "not now"),
        (50, 60, OffsetStatus.SKIPPED, "broken"),
        (70, 80, OffsetStatus.PLANNED, ""),
    ]


def test_what_kafka_has_and_no_plan_has_is_unread() -> None:
    """Between the ranges and behind them."""
    assert [
        piece for piece in shown(StreamBounds(log_start=0, readable_end=90)) if piece[2] is OffsetStatus.UNREAD
    ] == [
        (60, 70, OffsetStatus.UNREAD, ""),
        (80, 90, OffsetStatus.UNREAD, ""),
    ]


def test_what_retention_has_passed_unread_is_lost() -> None:
    """Committed and skipped offsets are not: no run needs them from Kafka any more."""
    assert shown(StreamBounds(log_start=75, readable_end=80)) == [
        (10, 30, OffsetStatus.COMMITTED, ""),
        (30, 40, OffsetStatus.LOST, "Kafka's log starts at 75; no file"),
        (40, 50, OffsetStatus.LOST, "Kafka's log starts at 75; not now"),
        (50, 60, OffsetStatus.SKIPPED, "broken"),
        (60, 75, OffsetStatus.LOST, "Kafka's log starts at 75"),
        (75, 80, OffsetStatus.PLANNED, ""),
    ]


def test_a_stream_of_nothing_has_an_empty_timeline() -> None:
    """Nothing planned, nothing in Kafka."""
    assert timeline(5, (), StreamBounds(log_start=5, readable_end=5)) == ()


def parts(*spans: tuple[int, OffsetStatus]) -> list[TimelineSlice]:
    """Return parts of so many offsets, one behind the other."""
    found, at = [], 0
    for span, status in spans:
        found.append(TimelineSlice(range=OffsetRange(at, at + span), status=status))
        at += span
    return found


def test_a_timeline_of_few_parts_is_as_it_is() -> None:
    """Nothing is joined that has room."""
    few = parts((5, OffsetStatus.COMMITTED), (1, OffsetStatus.HELD))
    assert fewer(few, 2) == tuple(few)


def test_the_shortest_parts_of_many_are_joined_and_keep_the_most_urgent_status() -> None:
    """Long parts stay exact; a hold of one offset is seen."""
    many = parts(
        (1_000, OffsetStatus.COMMITTED),
        *[(1, OffsetStatus.PLANNED if n % 2 else OffsetStatus.COMMITTED) for n in range(500)],
        (1, OffsetStatus.HELD),
        (2_000, OffsetStatus.COMMITTED),
    )
    assert [(item.range.start, item.range.end, item.status) for item in fewer(many, 4)] == [
        (0, 1_000, OffsetStatus.COMMITTED),
        (1_000, 1_501, OffsetStatus.HELD),
        (1_501, 3_501, OffsetStatus.COMMITTED),
    ]


def test_parts_of_one_length_are_joined_too() -> None:
    """The number is kept, whatever the lengths."""
    many = parts(*[(1, OffsetStatus.PLANNED if n % 2 else OffsetStatus.COMMITTED) for n in range(1_001)])
    found = fewer(many, 10)
    assert len(found) <= 10
    assert (found[0].range.start, found[-1].range.end) == (0, 1_001)
    assert {item.status for item in found} == {OffsetStatus.PLANNED}
