"""Half-open offset ranges and sets of them, with their algebra; streams, and slices of them."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple, Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")

NAMED = 10
"""Ranges that a sentence names."""

_SLICES_PAY = 8
"""From how many times as many ranges on one side on it is cheaper to cut slices out of it than to walk through both."""


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
        """Return whether the two ranges share an offset."""
        return self.start < other.end and other.start < self.end

    def intersection(self, other: OffsetRange) -> OffsetRange | None:
        """Return the shared slice, or None."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return OffsetRange(start, end) if start < end else None

    def split_at(self, offsets: Iterable[int]) -> tuple[OffsetRange, ...]:
        """Cut at every given offset that lies strictly inside."""
        cuts = sorted({offset for offset in offsets if self.start < offset < self.end})
        edges = [self.start, *cuts, self.end]
        return tuple(OffsetRange(a, b) for a, b in itertools.pairwise(edges))

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"


class RangeSet:
    """A set of offsets as sorted, disjoint, non-touching ranges; equal sets compare equal. Never changes.

    `starts` and `ends` are those of its ranges: two machine integers each and nothing else, because a wave may have a
    hundred million gaps.
    """

    __slots__ = ("ends", "starts")
    starts: array[int]
    ends: array[int]

    def __init__(self, ranges: Iterable[OffsetRange] = ()) -> None:
        self.starts, self.ends = _joined((item.start, item.end) for item in ranges)

    @classmethod
    def _of(cls, starts: array[int], ends: array[int]) -> Self:
        made = cls.__new__(cls)
        made.starts, made.ends = starts, ends
        return made

    @classmethod
    def of(cls, *pairs: tuple[int, int]) -> RangeSet:
        """Build from `(start, end)` pairs."""
        return cls(OffsetRange(start, end) for start, end in pairs)

    @classmethod
    def between(cls, start: int, end: int) -> RangeSet:
        """Return `[start, end)` as a set; empty when `end <= start`."""
        return cls((OffsetRange(start, end),)) if start < end else cls()

    @classmethod
    def of_sorted(cls, starts: memoryview, ends: memoryview) -> RangeSet:
        """Build from native 64-bit integers whose ranges are sorted and neither overlap nor touch."""
        made = cls()
        made.starts.frombytes(starts.cast("B"))
        made.ends.frombytes(ends.cast("B"))
        return made

    @classmethod
    def union(cls, sets: Iterable[RangeSet]) -> RangeSet:
        """Return the union of some sets; sets that lie one behind the other are only put together."""
        together: list[list[RangeSet]] = []
        reached = 0
        for item in sorted((some for some in sets if some), key=lambda some: some.first):
            if not together or item.first >= reached:
                together.append([])
            together[-1].append(item)
            reached = max(reached, item.last + 1)
        starts, ends = array("q"), array("q")
        for several in together:
            pairs = [zip(some.starts, some.ends, strict=True) for some in several]
            more = _joined(heapq.merge(*pairs)) if len(several) > 1 else (several[0].starts, several[0].ends)
            touches = int(bool(ends) and ends[-1] == more[0][0])
            del ends[len(ends) - touches :]
            starts.extend(more[0][touches:])
            ends.extend(more[1])
        return cls._of(starts, ends)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self.starts == other.starts and self.ends == other.ends

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.ends.tobytes()))

    def __repr__(self) -> str:
        return f"RangeSet({self.describe()})"

    def __iter__(self) -> Iterator[OffsetRange]:
        return map(OffsetRange, self.starts, self.ends)

    def __reversed__(self) -> Iterator[OffsetRange]:
        return map(OffsetRange, reversed(self.starts), reversed(self.ends))

    def __bool__(self) -> bool:
        return bool(self.starts)

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        at = bisect_right(self.starts, offset)
        return at > 0 and offset < self.ends[at - 1]

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The ranges, in order; of a large set rather iterate."""
        return tuple(self)

    @property
    def range_count(self) -> int:
        """Number of ranges."""
        return len(self.starts)

    @property
    def span(self) -> int:
        """Number of offsets in the set."""
        return sum(self.ends) - sum(self.starts)

    @property
    def first(self) -> int:
        """The first offset; the set is not empty."""
        return self.starts[0]

    @property
    def last(self) -> int:
        """The last offset; the set is not empty."""
        return self.ends[-1] - 1

    def __or__(self, other: RangeSet) -> RangeSet:
        return RangeSet.union((self, other))

    def __and__(self, other: RangeSet) -> RangeSet:
        few, many = (self, other) if self.range_count < other.range_count else (other, self)
        if few.range_count == 1:
            return many.within(OffsetRange(few.starts[0], few.ends[0]))
        if few.range_count * _SLICES_PAY < many.range_count:
            return RangeSet.union(map(many.within, few))
        starts, ends = array("q"), array("q")
        i = j = 0
        while i < len(few.starts) and j < len(many.starts):
            start, end = max(few.starts[i], many.starts[j]), min(few.ends[i], many.ends[j])
            if start < end:
                starts.append(start)
                ends.append(end)
            if few.ends[i] <= many.ends[j]:
                i += 1
            else:
                j += 1
        return RangeSet._of(starts, ends)

    def __sub__(self, other: RangeSet) -> RangeSet:
        if not self or not other:
            return self
        return self & other.gaps(OffsetRange(self.first, self.last + 1))

    def within(self, interval: OffsetRange) -> RangeSet:
        """Return the part of the set in one slice, without a walk through all the rest."""
        first, last = bisect_right(self.ends, interval.start), bisect_left(self.starts, interval.end)
        if first >= last:
            return RangeSet()
        starts, ends = self.starts[first:last], self.ends[first:last]
        starts[0], ends[-1] = max(starts[0], interval.start), min(ends[-1], interval.end)
        return RangeSet._of(starts, ends)

    def gaps(self, interval: OffsetRange) -> RangeSet:
        """Return the offsets of one slice that this set lacks: gaps begin at the end of a range, and end at a start."""
        inside = self.within(interval)
        starts, ends = array("q", (interval.start,)) + inside.ends, inside.starts + array("q", (interval.end,))
        for edge in (0, -1):
            if starts and starts[edge] == ends[edge]:  # the set reaches over this edge of the slice
                del starts[edge], ends[edge]
        return RangeSet._of(starts, ends)

    def sliced(self, size: int) -> Iterator[RangeSet]:
        """Yield the set in parts of so many ranges."""
        for at in range(0, self.range_count, size):
            yield RangeSet._of(self.starts[at : at + size], self.ends[at : at + size])

    def unbroken_end(self, start: int) -> int:
        """Return the end of the unbroken run that begins at `start`; `start` itself when there is none."""
        at = bisect_right(self.starts, start)
        return max(start, self.ends[at - 1]) if at else start

    def joined(self, most: int) -> RangeSet:
        """Return at most so many ranges that hold the set: the nearest ones are joined over their gaps."""
        between = sorted((b.start - a.end for a, b in itertools.pairwise(self.ranges)), reverse=True)
        if len(self.ranges) <= most:
            return self
        widest = between[most - 1]
        joins = (OffsetRange(a.end, b.start) for a, b in itertools.pairwise(self.ranges) if b.start - a.end <= widest)
        return self | RangeSet(joins)

    def at_most(self, number: int) -> RangeSet:
        """Return the set, or a larger one of at most so many ranges: the surplus ones are one, with all between."""
        if self.range_count <= number:
            return self
        first = itertools.islice(self, number - 1)
        return RangeSet((*first, OffsetRange(self.starts[number - 1], self.ends[-1])))

    def to_pairs(self) -> list[list[int]]:
        """Return the wire form `[[start, end], ...]`."""
        return [[start, end] for start, end in zip(self.starts, self.ends, strict=True)]

    def __str__(self) -> str:
        return ", ".join(map(str, self)) or "nothing"

    def named(self, count: int) -> str:
        """Return the first few ranges for a sentence."""
        return ", ".join(map(str, itertools.islice(self, count)))

    def describe(self) -> str:
        """Return the set for a sentence: of many ranges the first few, and how many there are."""
        if self.range_count <= NAMED:
            return str(self)
        return f"{self.named(NAMED)}, … ({self.span:,} offsets in {self.range_count:,} ranges)"


def _joined(pairs: Iterable[tuple[int, int]]) -> tuple[array[int], array[int]]:
    """Join ranges that overlap or touch, at once where they come in order; returns starts and ends, sorted."""
    starts, ends = array("q"), array("q")
    in_order, start_before, reached = True, -1, -1
    for start, end in pairs:
        if start_before <= start <= reached:
            if end > reached:
                ends[-1] = reached = end
            continue
        in_order = in_order and start > reached
        starts.append(start)
        ends.append(end)
        start_before, reached = start, end
    return (starts, ends) if in_order else _joined(sorted(zip(starts, ends, strict=True)))


NOTHING = RangeSet()
"""No offset."""


# Streams and slices: one partition of one generation of a topic, and a contiguous range of its offsets.


class Stream(NamedTuple):
    """A partition of a topic that has this id: a topic that was created anew under its name is another one.

    `topic_id` is 22 characters of URL-safe base64, as Kafka's own tools print it. Streams sort by topic, id, partition.
    """

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition, without the id, as Kafka is asked."""
        return self.topic, self.partition

    @property
    def facts(self) -> dict[str, Any]:
        """Topic and partition, as errors and documents have them."""
        return {"topic": self.topic, "partition": self.partition}


def names_of(streams: Iterable[Stream]) -> dict[Stream, str]:
    """Return the names of streams, with the topic's id where it was created anew."""
    known = set(streams)
    anew = created_anew(key[:2] for key in known)
    return {key: f"{key} of {key.topic_id}" if key.topic in anew else str(key) for key in known}


def created_anew(topics: Iterable[tuple[str, str]]) -> set[str]:
    """Return the names under which some topics, given with their ids, are several."""
    return {name for name, ids in Counter(name for name, _ in set(topics)).items() if ids > 1}


@dataclass(frozen=True, slots=True, order=True)
class Slice:
    """A contiguous range of the offsets of one stream."""

    stream: Stream
    range: OffsetRange

    def __str__(self) -> str:
        return f"{self.stream} {self.range}"

    def part(self, part: OffsetRange) -> Slice:
        """Return another range of the same stream."""
        return Slice(self.stream, part)

    def entry(self) -> dict[str, Any]:
        """Return the keys `topic`, `topic_id`, `partition`, `from` and `to` of a document's entry."""
        return self.stream._asdict() | {"from": self.range.start, "to": self.range.end}

    def to_json(self) -> list[Any]:
        """Return `[topic, topic_id, partition, start, end]`."""
        return [*self.stream, self.range.start, self.range.end]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Slice:
        """Read the form that `to_json` returns."""
        *stream, start, end = data
        return cls(Stream(*stream), OffsetRange(start, end))


class HasSlice:
    """A record of one slice, with short ways to its stream and its range."""

    __slots__ = ()
    slice: Slice

    @property
    def stream(self) -> Stream:
        """The stream of the slice."""
        return self.slice.stream

    @property
    def range(self) -> OffsetRange:
        """The range of the slice."""
        return self.slice.range


def grouped(pairs: Iterable[tuple[K, V]]) -> defaultdict[K, list[V]]:
    """Return values by their keys, as they come; a key that is not there has none."""
    found: defaultdict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def dealt(pairs: Iterable[tuple[K, V]]) -> list[list[V]]:
    """Return the first value of each key, then the second one of each that has so many, and so on."""
    return list(grouped(turn for values in grouped(pairs).values() for turn in enumerate(values)).values())


def merged(join: Callable[[V, V], V], pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Return one value for each key, the keys as they come: its first value, joined with every later one."""
    found: dict[K, V] = {}
    for key, value in pairs:
        found[key] = join(found[key], value) if key in found else value
    return found


def summed(pairs: Iterable[tuple[K, int]]) -> defaultdict[K, int]:
    """Return the sum of the values of each key, the keys as they come; of a key that is not there it is 0."""
    return defaultdict(int, merged(add, pairs))


def offsets_by(pairs: Iterable[tuple[K, OffsetRange]]) -> defaultdict[K, RangeSet]:
    """Return offsets by their keys; a key that is not there has none."""
    return defaultdict(RangeSet, {key: RangeSet(parts) for key, parts in grouped(pairs).items()})


class SliceSet:
    """Offsets of several streams: for each stream a RangeSet that is not empty, sorted by stream. Never changes."""

    __slots__ = ("_offsets",)

    def __init__(self, slices: Iterable[Slice] = ()) -> None:
        self._offsets = dict(sorted(offsets_by((item.stream, item.range) for item in slices).items()))

    @classmethod
    def _of(cls, offsets: Iterable[tuple[Stream, RangeSet]]) -> Self:
        made = cls()
        made._offsets = {stream: found for stream, found in offsets if found}
        return made

    def __getitem__(self, stream: Stream) -> RangeSet:
        """Return the offsets of a stream, none for one that is not here."""
        return self._offsets.get(stream, NOTHING)

    def __iter__(self) -> Iterator[Slice]:
        return (Slice(stream, item) for stream, offsets in self._offsets.items() for item in offsets)

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SliceSet) and self._offsets == other._offsets

    def __hash__(self) -> int:
        return hash(tuple(self._offsets.items()))

    def __sub__(self, other: SliceSet) -> SliceSet:
        return SliceSet._of((stream, offsets - other[stream]) for stream, offsets in self._offsets.items())

    def __and__(self, other: SliceSet) -> SliceSet:
        return SliceSet._of((stream, offsets & other[stream]) for stream, offsets in self._offsets.items())

    def items(self) -> Iterable[tuple[Stream, RangeSet]]:
        """Return each stream with its offsets."""
        return self._offsets.items()


def ranges_digest(slices: Iterable[Slice]) -> str:
    """Return a digest of topic ids, partitions and ranges: 16 hex digits, whatever their order."""
    text = json.dumps(sorted([*item.stream[1:], item.range.start, item.range.end] for item in slices))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
