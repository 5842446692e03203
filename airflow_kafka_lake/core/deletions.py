"""Rows that are gone from the lake on purpose: what was recorded of them, and what could be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.records import RangeRecord, ReceiptRow, range_receipt
from airflow_kafka_lake.core.streams import StreamKey

RECEIPT = "deleted"
"""The kind of the receipts that say so."""

_Reading = tuple[str, StreamKey, OffsetRange, int]
"""One reading of a range: the wave that brought it, and how often it was reopened before."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """How many rows of each settled range were deleted on purpose.

    A number for each range is exact: a range has as many rows as were published, less these; one more that is gone is
    missing. What is read again, after a reopen or after a roll-back, is of another generation or wave, of which nothing
    was deleted yet.

    Each receipt says how many rows of its range are gone in all, so that the largest counts: two people who record the
    same rows at once excuse them once, not twice.
    """

    by_range: Mapping[_Reading, int]

    @classmethod
    def of(cls, receipts: Iterable[ReceiptRow]) -> Deletions:
        """Collect what was recorded, of each range the largest number."""
        found: dict[_Reading, int] = defaultdict(int)
        for row in receipts:
            if row.kind == RECEIPT:
                found[_reading(row)] = max(found[_reading(row)], row.rows)
        return cls(found)

    def rows(self, item: RangeRecord | ReceiptRow) -> int:
        """Return how many rows of a range were deleted."""
        return self.by_range.get(_reading(item), 0)

    def by_stream(self, settled: Iterable[RangeRecord]) -> Mapping[StreamKey, int]:
        """Return the same for whole streams, of what is settled."""
        found: dict[StreamKey, int] = defaultdict(int)
        for item in settled:
            found[item.stream] += self.rows(item)
        return found


def _reading(item: RangeRecord | ReceiptRow) -> _Reading:
    return (item.wave, item.stream, item.range, item.generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A settled range of which rows are gone, and nothing says yet that they should be; `before` are those of which
    something says it already."""

    item: RangeRecord
    rows: int
    before: int = 0

    def receipt(self, decision: str, at: datetime) -> ReceiptRow:
        """Return what the lake is told of the decision."""
        bare = range_receipt(RECEIPT, self.item, attempt=decision, fence=0, at=at)
        return replace(bare, rows=self.before + self.rows, first_offset=None, last_offset=None, accounting=Accounting())


def unrecorded(
    settled: Iterable[RangeRecord], seen: Mapping[StreamKey, RangeSet], known: Deletions, asked: OffsetRange | None
) -> Iterator[Deleted]:
    """Yield the settled ranges of which rows are missing; of one that crosses an edge of `asked`, no more rows than it
    has offsets without a row inside."""
    for item in settled:
        inside = OffsetRange(0, item.range.end) if asked is None else asked
        if item.accounting is None or not item.range.overlaps(inside):
            continue
        there = seen.get(item.stream, RangeSet())
        missing = item.accounting.visible - known.rows(item) - there.within(item.range).span
        bare = (RangeSet((item.range,)) & RangeSet((inside,))) - there
        if (rows := min(missing, bare.span)) > 0:
            yield Deleted(item=item, rows=rows, before=known.rows(item))
