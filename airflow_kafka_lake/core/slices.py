"""Streams and slices: one partition of one generation of a topic, and a contiguous range of its offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet


class Stream(NamedTuple):
    """A partition of a topic that has this id: a topic that was created anew under its name is another one.

    `topic_id` is 22 characters of URL-safe base64, as Kafka's own tools print it. Streams sort by topic, id, partition.
    """

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


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


class SliceSet:
    """Offsets of several streams: for each stream a RangeSet that is not empty, sorted by stream. Never changes."""

    __slots__ = ("_offsets",)

    def __init__(self, slices: Iterable[Slice] = ()) -> None:
        grouped: dict[Stream, list[OffsetRange]] = defaultdict(list)
        for item in slices:
            grouped[item.stream].append(item.range)
        self._offsets = {stream: RangeSet(grouped[stream]) for stream in sorted(grouped)}

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
