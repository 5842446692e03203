"""The evidence of Kafka's raw record batches on offsets that have no row."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet


class Control(StrEnum):
    """The record of a control batch; OTHER is a kind of no meaning here, or a marker whose record is gone."""

    COMMIT = "commit"
    ABORT = "abort"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The facts of one record batch, which owns the offsets `[base_offset, last_offset]`.

    `present` are those of them that have a record, at least among the offsets that are asked about; `producer_id` is
    None for a producer without one, `control` is None for a batch of data. `damage` says why nothing in it can be read;
    `overflowing` are records whose time no job can read, `latest_ms` is the latest time of the batch.
    """

    base_offset: int
    last_offset: int
    present: RangeSet
    producer_id: int | None = None
    is_transactional: bool = False
    control: Control | None = None
    damage: str = ""
    overflowing: RangeSet = NOTHING
    latest_ms: int = -1

    @property
    def range(self) -> OffsetRange:
        """The offsets the batch owns, with or without a record."""
        return OffsetRange(self.base_offset, self.last_offset + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One line of the list that a Fetch at isolation 1 returns; the transaction ends at its producer's next marker."""

    producer_id: int
    first_offset: int


class Pieces:
    """Asked offsets, taken away from the front."""

    def __init__(self, asked: RangeSet) -> None:
        self._left = list(reversed(asked))

    @property
    def next(self) -> int | None:
        """The first offset that is left."""
        return self._left[-1].start if self._left else None

    def upto(self, end: int = sys.maxsize) -> Iterator[OffsetRange]:
        """Take the offsets below `end`, or all that is left."""
        while self._left and self._left[-1].start < end:
            piece = self._left.pop()
            if piece.end > end:
                self._left.append(OffsetRange(end, piece.end))
                piece = OffsetRange(piece.start, end)
            yield piece


def explain(
    asked: RangeSet,
    batches: Iterable[Batch],
    aborted: Iterable[AbortedTransaction],
    *,
    log_start: int,
    end_known: int | None = None,
) -> tuple[Explanation, ...]:
    """Give every asked offset exactly one fate, from batches read in one go, in offset order.

    The read began at or below the first asked offset that is not below `log_start` (or inside the batch that owns it),
    and `aborted` lists every aborted transaction that overlaps it; where aborted records have rows (read_uncommitted)
    the list is empty. An offset without a record is COMPACTED only when a later batch follows, or when it is below
    `end_known`, the end up to which nothing more can come. All else is UNEXPLAINED. The result is sorted, disjoint and
    covers exactly `asked`. A record that a job cannot read is UNREADABLE or OVERFLOWING, the latter unless an abort
    hides it from every reader.
    """
    pieces = Pieces(asked)
    found = [_said(piece, Fate.UNEXPLAINED, f"below the log start {log_start}") for piece in pieces.upto(log_start)]
    transactions = _OpenAborts(aborted)
    for batch in batches:
        transaction = transactions.over(batch)
        found += [_said(hole, Fate.COMPACTED, "no batch owns it") for hole in pieces.upto(batch.base_offset)]
        if inside := RangeSet(pieces.upto(batch.last_offset + 1)):
            found += _in_batch(inside, batch, transaction)
    if end_known is not None:
        found += [_said(hole, Fate.COMPACTED, "no batch owns it") for hole in pieces.upto(end_known)]
    found += [_said(rest, Fate.UNEXPLAINED, "beyond what Kafka returned") for rest in pieces.upto()]
    return tuple(joined(found))


def unexplained(asked: RangeSet, seen: str) -> tuple[Explanation, ...]:
    """Return of all asked offsets that nothing is known, and why."""
    return tuple(_said(piece, Fate.UNEXPLAINED, seen) for piece in asked)


def joined(found: Iterable[Explanation]) -> Iterator[Explanation]:
    """Join neighbours that say the same; the explanations come sorted and disjoint."""
    last: Explanation | None = None
    for item in found:
        if last and (last.range.end, last.fate, last.seen) == (item.range.start, item.fate, item.seen):
            last = _said(OffsetRange(last.range.start, item.range.end), item.fate, item.seen)
            continue
        if last:
            yield last
        last = item
    if last:
        yield last


def lost(explanations: Iterable[Explanation], why: str) -> tuple[Explanation, ...]:
    """Take back every COMPACTED: where no cleaner works, an offset without a record is UNEXPLAINED."""
    return tuple(
        _said(item.range, Fate.UNEXPLAINED, f"{item.seen}, {why}") if item.fate is Fate.COMPACTED else item
        for item in explanations
    )


def divided(
    explanations: Sequence[Explanation], gaps: Iterable[OffsetRange]
) -> Mapping[OffsetRange, tuple[Explanation, ...]]:
    """Cut sorted, disjoint explanations to each of the gaps."""
    starts = [item.range.start for item in explanations]
    parts: dict[OffsetRange, tuple[Explanation, ...]] = {}
    for gap in gaps:
        first = max(0, bisect_right(starts, gap.start) - 1)
        last = bisect_right(starts, gap.end - 1)
        cut = ((item, item.range.intersection(gap)) for item in explanations[first:last])
        parts[gap] = tuple(_said(part, item.fate, item.seen) for item, part in cut if part)
    return parts


class _OpenAborts:
    """Which aborted transaction of each producer is open at the current batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=lambda item: item.first_offset, reverse=True)
        self._open: dict[int, AbortedTransaction] = {}

    def over(self, batch: Batch) -> AbortedTransaction | None:
        """Return the aborted transaction that a batch of data belongs to; batches come in offset order."""
        while self._ahead and self._ahead[-1].first_offset <= batch.base_offset:
            transaction = self._ahead.pop()
            self._open[transaction.producer_id] = transaction
        if batch.producer_id is None or not batch.is_transactional:
            return None
        if batch.control is not None:
            # Any marker of the producer ends its transaction. It is its ABORT while that exists; should the cleaner
            # have taken it, records behind the next marker must not be believed to be aborted.
            self._open.pop(batch.producer_id, None)
            return None
        return self._open.get(batch.producer_id)


def _in_batch(inside: RangeSet, batch: Batch, transaction: AbortedTransaction | None) -> list[Explanation]:
    if batch.damage:
        return [_said(part, Fate.UNREADABLE, f"{batch.damage}, batch {batch.range}") for part in inside]
    fate, seen = _of_records(batch, transaction)
    overflowing = inside & batch.overflowing if fate is Fate.UNEXPLAINED else RangeSet()
    too_far = (
        f"its time, up to {batch.latest_ms} in its batch, is beyond what Spark's Kafka source reads "
        f"({SPARK_EARLIEST_MS} to {SPARK_LATEST_MS} ms): does the producer count nanoseconds where Kafka counts "
        "milliseconds?"
    )
    said = [_said(part, Fate.OVERFLOWING, too_far) for part in overflowing]
    said += [_said(part, fate, seen) for part in (inside & batch.present) - overflowing]
    said += [_said(part, Fate.COMPACTED, "its batch has no such record") for part in inside - batch.present]
    return sorted(said, key=lambda item: item.range)


def _of_records(batch: Batch, transaction: AbortedTransaction | None) -> tuple[Fate, str]:
    producer = "a producer without id" if batch.producer_id is None else f"producer {batch.producer_id}"
    match batch.control:
        case Control.COMMIT | Control.ABORT:
            return Fate.CONTROL, f"{batch.control} marker of {producer}"
        case Control.OTHER:
            return Fate.CONTROL, f"control record of {producer}"
        case None if transaction is not None:
            return Fate.ABORTED, f"aborted transaction of {producer} from offset {transaction.first_offset}"
        case None:
            return Fate.UNEXPLAINED, f"Kafka holds a record of {producer} in batch {batch.range}"
        case _:
            assert_never(batch.control)


def _said(interval: OffsetRange, fate: Fate, seen: str) -> Explanation:
    return Explanation(range=interval, fate=fate, seen=seen)


# Which of the numbers that producers write as a record's time a table and its readers can hold as a time.
#
# Kafka takes any number for milliseconds since 1970; producers that mean microseconds or nanoseconds are common.

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999. Python, the transforms of table formats in it and most databases hold no others as a time."""

NO_TIMESTAMP = -1
"""Kafka's time of a record without one; it is no moment of 1969."""

SPARK_EARLIEST_MS = -2_208_902_400_000
"""The second day of 1900. Spark's Kafka source takes an earlier time for one of the calendar before 1582, in the zone
of its Java as it was then: other numbers come out, and some of them become the same."""

SPARK_LATEST_MS = (2**63 - 1) // 1000
"""The last number that Spark's Kafka source reads: it counts microseconds in 64 bits, and fails above (year 294247)."""


def is_beyond_spark(timestamp_ms: int) -> bool:
    """Return whether Spark's Kafka source fails on a record with this number as its time, or reads another."""
    return not SPARK_EARLIEST_MS <= timestamp_ms <= SPARK_LATEST_MS
