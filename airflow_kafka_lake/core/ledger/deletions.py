"""Rows that were deleted from the lake on purpose: their records, and the check of new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.amounts import NAMED, count, some
from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Entry, Records, Write, WriteScope, range_receipt
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow
from airflow_kafka_lake.core.ledger.waves import RESOLVED
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream, grouped, summed

RECEIPT = "deleted"
"""The kind of the receipts that record it."""

KIND = "accept-deletes"
"""The kind of its line in the history."""

_Reading = tuple[str, Stream, OffsetRange, int]
"""One reading of a range: the wave that brought it, and how often it was reopened before."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """The rows of each committed range that were deleted on purpose.

    A receipt records how many rows of its range are deleted in all, and at which offsets no row was: one that is there
    again is not deleted any more, and excuses no other. A range read again, after a reopen or after a roll-back, is of
    another generation or wave, of which nothing was deleted yet.

    Of several receipts of a range the one counts that excuses most: two people who record the same rows at once excuse
    them once, not twice. One without offsets is of an older version, and counts whichever rows are gone.
    """

    by_range: Mapping[_Reading, Sequence[ReceiptRow]]

    @classmethod
    def of(cls, receipts: Iterable[ReceiptRow]) -> Deletions:
        """Collect the records of each range."""
        return cls(grouped((_reading(row), row) for row in receipts if row.kind == RECEIPT))

    def rows(self, item: RangeRecord | ReceiptRow, there: RangeSet) -> int:
        """Return how many rows of a range are gone on purpose, where rows are `there`."""
        recorded = self.by_range.get(_reading(item), ())
        return max((0, *(_gone(row, there) for row in recorded)))

    def offsets(self, item: RangeRecord, there: RangeSet) -> RangeSet:
        """Return at which offsets of a range those rows were, and at which beside them no row ever was."""
        recorded = self.by_range.get(_reading(item), ())
        counts = max(recorded, key=lambda row: (_gone(row, there), row.offsets is not None), default=None)
        return NOTHING if counts is None or counts.offsets is None else counts.offsets - there

    def by_stream(self, committed: Iterable[RangeRecord], seen: Mapping[Stream, RangeSet]) -> Mapping[Stream, int]:
        """Return the number of committed rows of whole streams that are gone on purpose."""
        return summed((item.stream, self.rows(item, seen.get(item.stream, NOTHING))) for item in committed)


def _reading(item: RangeRecord | ReceiptRow) -> _Reading:
    return (item.wave, item.stream, item.range, item.generation)


def _gone(row: ReceiptRow, there: RangeSet) -> int:
    return row.rows - ((row.offsets or NOTHING) & there).span


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRange:
    """A committed range of which rows are missing that are not recorded as deleted.

    `asked` is the part of it that was asked for. `rows` are missing from that part for certain, and `doubtful` more may
    be: there, and beside it, offsets never had a row, and only their number is on record. `before` is how many rows are
    recorded as deleted already, `offsets` are those without a row that the new receipt covers.
    """

    item: RangeRecord
    asked: OffsetRange
    rows: int
    doubtful: int
    offsets: RangeSet
    before: int = 0

    @property
    def needed(self) -> OffsetRange:
        """The offsets to ask for, so that it is certain which rows are missing."""
        return self.item.range if self.doubtful else self.asked

    def receipt(self, decision: str, at: datetime) -> ReceiptRow:
        """Return the receipt of the decision."""
        bare = range_receipt(RECEIPT, self.item, attempt=decision, fence=0, at=at)
        empty = replace(bare, first_offset=None, last_offset=None, accounting=Accounting())
        return replace(empty, rows=self.before + self.rows, offsets=self.offsets)


def unrecorded(
    committed: Iterable[RangeRecord], seen: Mapping[Stream, RangeSet], known: Deletions, asked: OffsetRange | None
) -> Iterator[DeletedRange]:
    """Yield the committed ranges of which rows are missing, as far as they may have been among the offsets of `asked`.

    A receipt says how many rows a range had, and at which offset the first and the last: between them, it does not say
    which offsets never had one. Of a part, all rows are gone that cannot have been beside it.
    """
    for item in committed:
        inside = item.range if asked is None else item.range.intersection(asked)
        if item.accounting is None or inside is None:
            continue
        there = seen.get(item.stream, NOTHING).within(item.range)
        before, recorded = known.rows(item, there), known.offsets(item, there)
        missing = item.accounting.visible - before - there.span
        bare = RangeSet((_rows_of(item),)) - there - recorded
        within = bare.within(inside)
        if (most := min(missing, within.span)) > 0:
            least = max(0, missing - (bare - within).span)
            yield DeletedRange(
                item=item,
                asked=inside,
                rows=least,
                doubtful=most - least,
                offsets=(RangeSet((inside,)) - there) | recorded,
                before=before,
            )


def _rows_of(item: RangeRecord) -> OffsetRange:
    """Return from where to where a range had rows."""
    if item.first_offset is None or item.last_offset is None:
        return item.range
    return OffsetRange(item.first_offset, item.last_offset + 1)


def undecided(found: Sequence[DeletedRange]) -> str | None:
    """Return why it is uncertain which rows of the parts that were asked for are missing, and the offsets to ask for;
    None when all are certain."""
    doubtful = [one for one in found if one.doubtful]
    if not doubtful:
        return None
    first = doubtful[0].item
    assert first.accounting is not None
    never = first.range.span - first.accounting.visible
    more = f" (the first of {len(doubtful)} such ranges)" if len(doubtful) > 1 else ""
    needed = [one.needed for one in found if one.item.stream == first.stream]
    whole = Slice(first.stream, OffsetRange(min(part.start for part in needed), max(part.end for part in needed)))
    return (
        f"{first.stream}: rows of range {first.range} are gone, and how many of them were in "
        f"{doubtful[0].asked} cannot be told, {doubtful[0].rows:,} to {doubtful[0].rows + doubtful[0].doubtful:,}"
        f"{more}: {never:,} of its offsets never had a row (markers, aborted or compacted records), and only their "
        "number is on record. Nothing was recorded. Ask for the whole of it: "
        f"{remedies.accept_deletes(first.pipeline, whole)}"
    )


class AcceptDeletes(Write[None]):
    """Record that rows were deleted from the lake on purpose: an event, and the receipts, with their tables, in the
    outbox. No range changes: committed ones stay so. ConcurrentError where one of `ranges` is another since: a slice
    that is read again has all of its rows again."""

    pipeline: str
    receipts: Sequence[tuple[str, ReceiptRow]]
    ranges: Sequence[RangeRecord]
    decision: str
    reason: str
    actor: str

    def scope(self) -> WriteScope:
        ids = [item.id for item in self.ranges]
        return WriteScope(pipeline=self.pipeline, streams={item.stream for item in self.ranges}, ranges=ids)

    def decide(self, records: Records) -> Change[None]:
        now = {_reading(item) for item in records.ranges if item.state in RESOLVED}
        if now != set(map(_reading, self.ranges)):
            raise ConcurrentError("These offsets were decided about meanwhile. Nothing was recorded; repeat the call.")
        rows = summed((str(row.stream), row.rows) for _, row in self.receipts)
        named = (f"{name}: {count(number, 'row')} in all" for name, number in sorted(rows.items()))
        told = f"{some(named, NAMED)}: {self.reason}"
        kind, of = KIND, self.decision
        return Change(
            result=None,
            edits=tuple(Edit(before=row, after=row.next_version) for row in records.streams.values()),
            outbox=tuple((table, replace(row, recorded_at=records.now)) for table, row in self.receipts),
            entries=(Entry(pipeline=self.pipeline, actor=self.actor, kind=kind, subject=of, detail=told),),
        )
