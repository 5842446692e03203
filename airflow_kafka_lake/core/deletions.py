"""Rows that are gone from the lake on purpose: what was recorded of them, and what could be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.records import RangeRecord, ReceiptRow, range_receipt
from airflow_kafka_lake.core.streams import StreamKey

RECEIPT = "deleted"
"""The kind of the receipts that say so."""

_Reading = tuple[str, StreamKey, OffsetRange, int]
"""One reading of a range: the wave that brought it, and how often it was reopened before."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """Which rows of each settled range were deleted on purpose.

    A receipt says how many rows of its range are gone in all, and at which offsets no row was: one that is there again
    is not deleted any more, and excuses no other. What is read again, after a reopen or after a roll-back, is of
    another generation or wave, of which nothing was deleted yet.

    Of several receipts of a range the one counts that excuses most: two people who record the same rows at once excuse
    them once, not twice. One without offsets is of an older version, and counts whichever rows are gone.
    """

    by_range: Mapping[_Reading, Sequence[ReceiptRow]]

    @classmethod
    def of(cls, receipts: Iterable[ReceiptRow]) -> Deletions:
        """Collect what was recorded of each range."""
        found: dict[_Reading, list[ReceiptRow]] = defaultdict(list)
        for row in receipts:
            if row.kind == RECEIPT:
                found[_reading(row)].append(row)
        return cls(found)

    def rows(self, item: RangeRecord | ReceiptRow, there: RangeSet) -> int:
        """Return how many rows of a range are gone on purpose, where rows are `there`."""
        told = self.by_range.get(_reading(item), ())
        return max((0, *(row.rows - ((row.offsets or NOTHING) & there).span for row in told)))

    def offsets(self, item: RangeRecord, there: RangeSet) -> RangeSet:
        """Return at which offsets of a range no row is, on purpose or because none ever was."""
        told = self.by_range.get(_reading(item), ())
        return RangeSet.union(row.offsets for row in told if row.offsets) - there

    def by_stream(self, settled: Iterable[RangeRecord], seen: Mapping[StreamKey, RangeSet]) -> Mapping[StreamKey, int]:
        """Return how many rows of whole streams are gone on purpose, of what is settled."""
        found: dict[StreamKey, int] = defaultdict(int)
        for item in settled:
            found[item.stream] += self.rows(item, seen.get(item.stream, NOTHING))
        return found


def _reading(item: RangeRecord | ReceiptRow) -> _Reading:
    return (item.wave, item.stream, item.range, item.generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A settled range of which rows are gone, and nothing says yet that they should be; `before` are those of which
    something says it already, and `offsets` are those without a row of which it is said now."""

    item: RangeRecord
    rows: int
    offsets: RangeSet
    before: int = 0

    def receipt(self, decision: str, at: datetime) -> ReceiptRow:
        """Return what the lake is told of the decision."""
        bare = range_receipt(RECEIPT, self.item, attempt=decision, fence=0, at=at)
        told = replace(bare, first_offset=None, last_offset=None, accounting=Accounting())
        return replace(told, rows=self.before + self.rows, offsets=self.offsets)


def unrecorded(
    settled: Iterable[RangeRecord], seen: Mapping[StreamKey, RangeSet], known: Deletions, asked: OffsetRange | None
) -> Iterator[Deleted]:
    """Yield the settled ranges of which rows are missing; of one that crosses an edge of `asked`, no more rows than it
    has offsets without a row inside."""
    for item in settled:
        inside = OffsetRange(0, item.range.end) if asked is None else asked
        if item.accounting is None or not item.range.overlaps(inside):
            continue
        there = seen.get(item.stream, NOTHING).within(item.range)
        before = known.rows(item, there)
        missing = item.accounting.visible - before - there.span
        bare = (RangeSet((item.range,)) & RangeSet((inside,))) - there
        if (rows := min(missing, bare.span)) > 0:
            yield Deleted(item=item, rows=rows, offsets=bare | known.offsets(item, there), before=before)
