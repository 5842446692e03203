"""The timeline of a stream that a report draws: the status of each range of its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet


class OffsetStatus(StrEnum):
    """The status of a part of a timeline, the most urgent last."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    RUNNING = "running"
    PLANNED = "planned"
    WAITING = "waiting"
    UNREAD = "unread"
    HELD = "held"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSlice:
    """A range of offsets with one status; `message` is the reason, if any."""

    range: OffsetRange
    status: OffsetStatus
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"from": self.range.start, "to": self.range.end, "status": self.status.value, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What Kafka has of a stream now: `[log_start, readable_end)`, and the group offset of the end policy; under which
    leader epoch that was told, if it was told."""

    log_start: int
    readable_end: int
    group_offset: int | None = None
    leader_epoch: int | None = None


def timeline(origin: int, ranges: Sequence[RangeRecord], bounds: Bounds | None) -> tuple[TimelineSlice, ...]:
    """Split a stream into sorted, disjoint parts: its ranges, and between them the unplanned offsets.

    Unresolved offsets below the log start are lost; without `bounds` there are no unplanned parts.
    """
    known = [_of_range(item) for item in sorted(ranges, key=lambda item: item.range)]
    if bounds is None:
        return _joined(known)
    unplanned = RangeSet.between(origin, bounds.readable_end) - RangeSet(item.range for item in ranges)
    parts = [*known, *(TimelineSlice(range=item, status=OffsetStatus.UNREAD) for item in unplanned)]
    return _joined(part for item in sorted(parts, key=lambda p: p.range) for part in _lost(item, bounds.log_start))


def _of_range(item: RangeRecord) -> TimelineSlice:
    match item.state:
        case RangeState.COMMITTED:
            return TimelineSlice(range=item.range, status=OffsetStatus.COMMITTED)
        case RangeState.SKIPPED:
            return TimelineSlice(range=item.range, status=OffsetStatus.SKIPPED, message=item.reason or "")
        case RangeState.PLANNED:
            return TimelineSlice(range=item.range, status=OffsetStatus.PLANNED)
        case RangeState.HELD | RangeState.CANCELLED:
            return TimelineSlice(range=item.range, status=OffsetStatus.HELD, message=item.reason or "")
        case _:
            assert_never(item.state)


def _lost(item: TimelineSlice, log_start: int) -> Iterator[TimelineSlice]:
    """Split off what retention has passed, unless the part was read or skipped."""
    if item.status in {OffsetStatus.COMMITTED, OffsetStatus.SKIPPED} or item.range.start >= log_start:
        yield item
        return
    message = f"Kafka's log starts at {log_start}"
    for part in item.range.split_at((log_start,)):
        if part.start < log_start:
            yield TimelineSlice(
                range=part,
                status=OffsetStatus.LOST,
                message=f"{message}; {item.message}" if item.message else message,
            )
        else:
            yield TimelineSlice(range=part, status=item.status, message=item.message)


def _joined(parts: Iterable[TimelineSlice]) -> tuple[TimelineSlice, ...]:
    """Join neighbours of the same status and message."""
    found: list[TimelineSlice] = []
    for item in parts:
        last = found[-1] if found else None
        if last and (last.range.end, last.status, last.message) == (item.range.start, item.status, item.message):
            found[-1] = TimelineSlice(
                range=OffsetRange(last.range.start, item.range.end), status=item.status, message=item.message
            )
        else:
            found.append(item)
    return tuple(found)


def fewer(parts: Sequence[TimelineSlice], most: int) -> tuple[TimelineSlice, ...]:
    """Return at most so many parts: the shortest ones join a neighbour, and each has the most urgent status of its own.

    Nothing urgent is lost by that, and it seems larger than it is.
    """
    if len(parts) <= most:
        return tuple(parts)
    longest = sorted((item.range.span for item in parts), reverse=True)[most // 2 - 1]
    found: list[TimelineSlice] = []
    joins = False
    for item in parts:
        short = item.range.span < longest
        if short and joins:
            last = found[-1]
            worst = max(last.status, item.status, key=_URGENCY.__getitem__)
            found[-1] = TimelineSlice(range=OffsetRange(last.range.start, item.range.end), status=worst)
        else:
            found.append(item)
        joins = short
    return tuple(found) if len(found) <= most else fewer_evenly(found, most)


def fewer_evenly(parts: Sequence[TimelineSlice], most: int) -> tuple[TimelineSlice, ...]:
    """Return at most so many parts, each of as many neighbours."""
    each = -(-len(parts) // most)
    return tuple(
        TimelineSlice(
            range=OffsetRange(some[0].range.start, some[-1].range.end),
            status=max((item.status for item in some), key=_URGENCY.__getitem__),
        )
        for at in range(0, len(parts), each)
        if (some := parts[at : at + each])
    )


_URGENCY = {status: number for number, status in enumerate(OffsetStatus)}
