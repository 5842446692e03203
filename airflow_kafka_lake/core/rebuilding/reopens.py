"""What the lake records as reopened: which receipts that undoes, and what is to be read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.ledger.records import ReceiptRow
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream

Reopened = Sequence[tuple[OffsetRange, int]]
"""Slices with the generation in which they are to be read again."""


@dataclass(frozen=True, slots=True)
class Reopens:
    """The reopened slices of each stream."""

    by_stream: Mapping[Stream, Reopened]

    @classmethod
    def of(cls, receipts: Iterable[ReceiptRow]) -> Reopens:
        """Collect them from receipts; those without a generation accept a loss, and are about one attempt only."""
        found: dict[Stream, list[tuple[OffsetRange, int]]] = defaultdict(list)
        for row in receipts:
            if row.kind == "reopen" and row.generation:
                found[row.stream].append((row.range, row.generation))
        return cls(found)

    def undo(self, stream: Stream, part: OffsetRange, generation: int) -> bool:
        """Return whether some of a range was reopened after it was committed in a generation; what is left of it then
        has records of its own."""
        return any(newer > generation and item.overlaps(part) for item, newer in self.by_stream.get(stream, ()))

    def undo_receipt(self, row: ReceiptRow) -> bool:
        """Return the same of a receipt."""
        return self.undo(row.stream, row.range, row.generation)

    def later_than(self, stream: Stream, generation: int) -> RangeSet:
        """Return what of a stream was reopened after a generation."""
        return RangeSet(item for item, newer in self.by_stream.get(stream, ()) if newer > generation)

    def open(self, since: Iterable[ReceiptRow]) -> Iterator[tuple[Stream, OffsetRange, int]]:
        """Yield what was neither committed nor skipped since it was reopened, with its newest generation."""
        done: dict[Stream, list[ReceiptRow]] = defaultdict(list)
        for row in since:
            done[row.stream].append(row)
        for stream, slices in sorted(self.by_stream.items()):
            edges = sorted({edge for item, _ in slices for edge in (item.start, item.end)})
            for item in RangeSet(item for item, _ in slices):
                for part in item.split_at(edges):
                    newest = max(generation for other, generation in slices if other.overlaps(part))
                    ended = RangeSet(row.range for row in done[stream] if row.generation >= newest)
                    yield from ((stream, left, newest) for left in RangeSet((part,)) - ended)
