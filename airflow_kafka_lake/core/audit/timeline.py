"""What became of each stretch of a stream's offsets: the strip that a report draws, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet


class Band(StrEnum):
    """What a piece of a strip shows, the most urgent last."""

    SETTLED = "settled"
    SKIPPED = "skipped"
    PLANNED = "planned"
    UNREAD = "unread"
    HELD = "held"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One stretch that shows one thing; `words` says why, where there is more to say."""

    range: OffsetRange
    band: Band
    words: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"from": self.range.start, "to": self.range.end, "band": self.band.value, "words": self.words}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What Kafka has of a stream now: `[log_start, readable_end)`, and what the end policy's group has committed."""

    log_start: int
    readable_end: int
    group_offset: int | None = None


def strip(origin: int, ranges: Sequence[RangeRecord], bounds: Bounds | None) -> tuple[Piece, ...]:
    """Cut a stream into pieces, sorted and disjoint: its ranges, and between them what is not planned.

    Offsets that are not resolved and lie below the log start are lost; without `bounds` nothing is said of offsets
    that is not planned.
    """
    known = [_of_range(item) for item in sorted(ranges, key=lambda item: item.range)]
    if bounds is None:
        return _joined(known)
    unplanned = RangeSet.between(origin, bounds.readable_end) - RangeSet(item.range for item in ranges)
    pieces = [*known, *(Piece(range=item, band=Band.UNREAD) for item in unplanned)]
    return _joined(part for item in sorted(pieces, key=lambda p: p.range) for part in _lost(item, bounds.log_start))


def _of_range(item: RangeRecord) -> Piece:
    match item.state:
        case RangeState.SETTLED:
            return Piece(range=item.range, band=Band.SETTLED)
        case RangeState.SKIPPED:
            return Piece(range=item.range, band=Band.SKIPPED, words=item.reason or "")
        case RangeState.PLANNED:
            return Piece(range=item.range, band=Band.PLANNED)
        case RangeState.HELD | RangeState.CANCELLED:
            return Piece(range=item.range, band=Band.HELD, words=item.reason or "")
        case _:
            assert_never(item.state)


def _lost(piece: Piece, log_start: int) -> Iterator[Piece]:
    """Cut what retention has passed off a piece that was not read."""
    if piece.band in {Band.SETTLED, Band.SKIPPED} or piece.range.start >= log_start:
        yield piece
        return
    words = f"Kafka's log starts at {log_start}"
    for part in piece.range.split_at((log_start,)):
        if part.start < log_start:
            yield Piece(range=part, band=Band.LOST, words=f"{words}; {piece.words}" if piece.words else words)
        else:
            yield Piece(range=part, band=piece.band, words=piece.words)


def _joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Join neighbours that show the same."""
    found: list[Piece] = []
    for item in pieces:
        last = found[-1] if found else None
        if last and (last.range.end, last.band, last.words) == (item.range.start, item.band, item.words):
            found[-1] = Piece(range=OffsetRange(last.range.start, item.range.end), band=item.band, words=item.words)
        else:
            found.append(item)
    return tuple(found)
