"""Half-open offset ranges and sets of them, with their algebra."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

NAMED = 10
"""Stretches that a sentence names."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """`[start, end)` in Kafka offsets, never empty; `span` counts positions, not records."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end <= self.start:
            raise ValueError(f"an offset range needs 0 <= start < end, not {self.start}-{self.end}")

    @property
    def span(self) -> int:
        """Number of offset positions, `end - start`."""
        return self.end - self.start

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.start <= offset < self.end

    def overlaps(self, other: OffsetRange) -> bool:
        """Say whether the two ranges share an offset."""
        return self.start < other.end and other.start < self.end

    def intersection(self, other: OffsetRange) -> OffsetRange | None:
        """Return the shared stretch, or None."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return OffsetRange(start, end) if start < end else None

    def split_at(self, offsets: Iterable[int]) -> tuple[OffsetRange, ...]:
        """Cut at every given offset that lies strictly inside."""
        cuts = sorted({offset for offset in offsets if self.start < offset < self.end})
        edges = [self.start, *cuts, self.end]
        return tuple(OffsetRange(a, b) for a, b in itertools.pairwise(edges))

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"


_BOUNDS = attrgetter("start", "end")


def _normalised(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    given = tuple(ranges)
    if len(given) < 2:  # most sets: nothing to sort
        return given
    merged: list[OffsetRange] = []
    for item in sorted(given, key=_BOUNDS):
        if not merged or item.start > merged[-1].end:
            merged.append(item)
        elif item.end > merged[-1].end:
            merged[-1] = OffsetRange(merged[-1].start, item.end)
    return tuple(merged)


@dataclass(frozen=True, slots=True, init=False)
class RangeSet:
    """A set of offsets as sorted, disjoint, non-touching ranges; equal sets compare equal."""

    ranges: tuple[OffsetRange, ...]

    def __init__(self, ranges: Iterable[OffsetRange] = ()) -> None:
        object.__setattr__(self, "ranges", _normalised(ranges))

    @classmethod
    def of(cls, *pairs: tuple[int, int]) -> RangeSet:
        """Build from `(start, end)` pairs."""
        return cls(OffsetRange(start, end) for start, end in pairs)

    @classmethod
    def between(cls, start: int, end: int) -> RangeSet:
        """Return `[start, end)` as a set; empty when `end <= start`."""
        return cls((OffsetRange(start, end),)) if start < end else cls()

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_right(self.ranges, offset, key=lambda item: item.start)
        return at > 0 and offset < self.ranges[at - 1].end

    @property
    def span(self) -> int:
        """Number of offsets in the set."""
        return sum(item.span for item in self.ranges)

    def __or__(self, other: RangeSet) -> RangeSet:
        return RangeSet((*self.ranges, *other.ranges))

    def __and__(self, other: RangeSet) -> RangeSet:
        found: list[OffsetRange] = []
        mine, theirs = list(self.ranges), list(other.ranges)
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if shared := mine[i].intersection(theirs[j]):
                found.append(shared)
            if mine[i].end <= theirs[j].end:
                i += 1
            else:
                j += 1
        return RangeSet(found)

    def __sub__(self, other: RangeSet) -> RangeSet:
        if not self.ranges:
            return self
        return self & other.complement(self.ranges[-1].end)

    def complement(self, end: int) -> RangeSet:
        """Return what of `[0, end)` is not in this set."""
        gaps: list[OffsetRange] = []
        cursor = 0
        for item in self.ranges:
            if item.start >= end:
                break
            if cursor < item.start:
                gaps.append(OffsetRange(cursor, item.start))
            cursor = item.end
        if cursor < end:
            gaps.append(OffsetRange(cursor, end))
        return RangeSet(gaps)

    def within(self, stretch: OffsetRange) -> RangeSet:
        """Return what of the set lies in one stretch, without a walk through all the rest."""
        first = max(0, bisect_right(self.ranges, stretch.start, key=lambda item: item.start) - 1)
        last = bisect_left(self.ranges, stretch.end, lo=first, key=lambda item: item.start)
        return RangeSet(part for item in self.ranges[first:last] if (part := item.intersection(stretch)))

    def unbroken_end(self, start: int) -> int:
        """Return the end of the unbroken run that begins at `start`; `start` itself when there is none."""
        for item in self.ranges:
            if item.start <= start < item.end:
                return item.end
        return start

    def at_most(self, stretches: int) -> RangeSet:
        """Return the set, or a larger one of at most so many stretches: what is too many is one with all between."""
        if len(self.ranges) <= stretches:
            return self
        first, more = self.ranges[: stretches - 1], self.ranges[stretches - 1 :]
        return RangeSet((*first, OffsetRange(more[0].start, more[-1].end)))

    def to_pairs(self) -> list[list[int]]:
        """Return the wire form `[[start, end], ...]`."""
        return [[item.start, item.end] for item in self.ranges]

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self.ranges) or "nothing"

    def in_words(self) -> str:
        """Return the set for a sentence: of many stretches the first few, and how many there are."""
        if len(self.ranges) <= NAMED:
            return str(self)
        first = ", ".join(str(item) for item in self.ranges[:NAMED])
        return f"{first}, … ({self.span:,} offsets in {len(self.ranges):,} stretches)"


NOTHING = RangeSet()
"""No offset."""
