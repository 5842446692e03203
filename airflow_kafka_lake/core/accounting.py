"""Where every offset of a range went, and when that counts as proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from heapq import heappop, heappush
from itertools import pairwise

from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.offsets import HasSlice, OffsetRange, RangeSet, Slice, Stream

SEEN = 10
"""How many descriptions of unexplained offsets are kept."""


class Fate(StrEnum):
    """Why an offset of a gap has no visible row."""

    CONTROL = "control"
    ABORTED = "aborted"
    COMPACTED = "compacted"
    UNREADABLE = "unreadable"
    """Kafka has the bytes of a record there, and they cannot be read."""
    OVERFLOWING = "overflowing"
    """Kafka has a record there whose time Spark's Kafka source cannot read."""
    UNEXPLAINED = "unexplained"


EXPLAINED = frozenset({Fate.CONTROL, Fate.ABORTED, Fate.COMPACTED})
"""Fates that account for an offset without a row; all others are a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting(Document):
    """The numbers of one range, in offsets."""

    visible: int = 0
    control: int = 0
    aborted: int = 0
    compacted: int = 0
    skipped: int = 0
    unexplained: int = 0

    @property
    def span(self) -> int:
        """The sum of all: how many offsets the numbers count."""
        return self.visible + self.control + self.aborted + self.compacted + self.skipped + self.unexplained

    def __add__(self, other: Accounting) -> Accounting:
        return Accounting(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The fate of one slice of a gap, by the raw batches; `seen` describes the evidence."""

    range: OffsetRange
    fate: Fate
    seen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamContent:
    """The content of data files of one stream: distinct offsets, and rows beyond one per offset."""

    stream: Stream
    offsets: RangeSet
    duplicates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(HasSlice):
    """The content of the staged files for one range, read back, with its accounting.

    `range_id` is the ledger's; `first_offset` and `last_offset` (inclusive) are None for zero rows; `leader_epoch` is
    the epoch of the read, for a ledger that does not know the range.
    """

    range_id: str
    slice: Slice
    rows: int
    first_offset: int | None
    last_offset: int | None
    accounting: Accounting
    generation: int = 0
    leader_epoch: int | None = None


@dataclass(slots=True, kw_only=True)
class Tally:
    """The fates of a range's offsets without a row, as far as asked: numbers, and the offsets left unexplained.

    `seen` describes the evidence where an explanation is missing, a few of them.
    """

    accounting: Accounting = field(default_factory=Accounting)
    unexplained: RangeSet = field(default_factory=RangeSet)
    seen: list[str] = field(default_factory=list)

    def add(self, left: RangeSet, explanations: Sequence[Explanation]) -> None:
        """Count some offsets without a row once each.

        Overlapping explanations count for the first one given; explanations of other offsets are ignored.
        """
        by_fate: dict[Fate, list[OffsetRange]] = {fate: [] for fate in Fate}
        for interval, fate in _once_each(explanations):
            by_fate[fate].append(interval)
        known = {fate: left & RangeSet(by_fate[fate]) for fate in EXPLAINED}
        lost = left - RangeSet.union(known.values())
        self.accounting += Accounting(
            control=known[Fate.CONTROL].span,
            aborted=known[Fate.ABORTED].span,
            compacted=known[Fate.COMPACTED].span,
            unexplained=lost.span,
        )
        self.unexplained |= lost
        why = dict.fromkeys(item.seen for item in explanations if item.fate not in EXPLAINED and item.seen)
        self.seen = list(dict.fromkeys((*self.seen, *why)))[:SEEN]


def account(asked: OffsetRange, staged: RangeSet, explanations: Iterable[Explanation]) -> Accounting:
    """Count every offset of a range once; one without an explanation is unexplained."""
    tally = Tally()
    tally.add(staged.gaps(asked), tuple(explanations))
    return Accounting(visible=staged.within(asked).span) + tally.accounting


def _once_each(explanations: Sequence[Explanation]) -> Iterator[tuple[OffsetRange, Fate]]:
    """Cut explanations where they overlap, the first given wins: one sweep, for a topic may have millions of gaps."""
    edges = sorted({edge for item in explanations for edge in (item.range.start, item.range.end)})
    coming = sorted(range(len(explanations)), key=lambda index: explanations[index].range.start, reverse=True)
    here: list[int] = []
    for start, end in pairwise(edges):
        while coming and explanations[coming[-1]].range.start <= start:
            heappush(here, coming.pop())
        while here and explanations[here[0]].range.end <= start:
            heappop(here)
        if here:
            yield OffsetRange(start, end), explanations[here[0]].fate


def receipt(range_id: str, asked: Slice, staged: RangeSet, tally: Tally) -> Receipt:
    """Build the receipt of one range from its staged rows and the fates of the rest; an offset that was not asked about
    is unexplained."""
    inside = staged.within(asked.range)
    found = Accounting(visible=inside.span) + tally.accounting
    return Receipt(
        range_id=range_id,
        slice=asked,
        rows=inside.span,
        first_offset=inside.first if inside else None,
        last_offset=inside.last if inside else None,
        accounting=found + Accounting(unexplained=asked.range.span - found.span),
    )


CLASSES = ("control", "aborted", "compacted")
"""The classes of offsets without a row that a committed range counts."""


def shares(
    whole: Accounting, pieces: Sequence[OffsetRange], visible: RangeSet, found: Iterable[Explanation]
) -> tuple[Accounting, ...]:
    """Return the accounting of each piece: they add up to the whole, class by class, and each to its piece's span.

    `visible` are the offsets with a row, which are exact; `found` are the fates of the others by Kafka's batches now,
    and counts as far as the whole's numbers allow (an aborted record may have been compacted since). The remainder is
    shared out in the order of the pieces. Raises ValueError when `visible` is not as many as the whole counts.
    """
    explanations = tuple(found)
    known = [account(piece, visible, explanations) for piece in pieces]
    if sum(item.visible for item in known) != whole.visible or whole.span != sum(piece.span for piece in pieces):
        raise ValueError(f"{visible} are not the {whole.visible} visible offsets of a range of {whole.span}")
    left = {name: getattr(whole, name) for name in CLASSES}
    given = [_at_most(item, left) for item in known]
    return tuple(
        _filled(Accounting(visible=item.visible, **numbers), piece.span, left)
        for item, numbers, piece in zip(known, given, pieces, strict=True)
    )


def _at_most(item: Accounting, left: dict[str, int]) -> dict[str, int]:
    """Take the fates found in a piece out of the remainder of each class."""
    taken = {name: min(getattr(item, name), left[name]) for name in CLASSES}
    for name, number in taken.items():
        left[name] -= number
    return taken


def _filled(item: Accounting, span: int, left: dict[str, int]) -> Accounting:
    """Take from the remainder all that a piece still lacks: no class can run out, because both sides add up."""
    missing = span - item.span
    for name in CLASSES:
        number = min(missing, left[name])
        left[name] -= number
        missing -= number
        item += Accounting(**{name: number})
    return item
