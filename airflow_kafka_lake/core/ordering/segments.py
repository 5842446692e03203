"""Segments: slices of streams under one layout of their topic, and which must be finished before which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import FEW, count, some
from airflow_kafka_lake.core.errors import GateClosedError, HeldError, StateError
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRecord, explained
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, grouped
from airflow_kafka_lake.core.remedies import Remedy

# Segments: slices of streams under one layout of their topic, and which must be finished before which (law L14).
#
# A segment is sealed once its end is known for good, and drained once every offset below its seal is committed, or
# skipped with the order acknowledged. Both are computed from rows, never stored.

SegmentKey = tuple[Stream, int]
"""`(stream, first offset)`: the identity of a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A slice of a stream from `start` on, written while the topic had `layout` partitions.

    `seal` is its end, exclusive, None while it is open. A seal that a person declared counts from the moment it was
    checked a second time: until then `declared_at` is set and `sealed` is False.
    """

    stream: Stream
    start: int
    layout: int
    seal: int | None = None
    sealed: bool = False
    declared_at: datetime | None = None
    parents: frozenset[SegmentKey] = frozenset()

    @property
    def key(self) -> SegmentKey:
        """Identity within the pipeline."""
        return (self.stream, self.start)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing can ever lie in it."""
        return self.seal == self.start

    def __str__(self) -> str:
        return f"{self.stream} from {self.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """An ancestor that is not drained, and the segment that waits for it.

    `missing` are its offsets that are not committed or skipped, `unacknowledged` the ones skipped without acknowledging
    the order; both are empty, and `sealed` is False, where its end is not known yet.
    """

    child: SegmentKey
    parent: Segment
    missing: RangeSet
    unacknowledged: RangeSet

    @property
    def sealed(self) -> bool:
        """Return whether the ancestor's end is known."""
        return self.parent.sealed

    @property
    def lacks_acknowledgement(self) -> bool:
        """Whether nothing of the ancestor is open, and only a person's word about the order is missing."""
        return self.sealed and not self.missing


class Graph:
    """The segments of a pipeline by stream and start, and their ancestors."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._by_key = {item.key: item for item in segments}
        ordered = sorted(self._by_key.values(), key=lambda item: item.key)
        self._by_stream = grouped((item.stream, item) for item in ordered)
        self._children = grouped((parent, item.key) for item in ordered for parent in item.parents)
        self._by_topic = grouped((stream.topic, stream) for stream in self._by_stream)

    def __iter__(self) -> Iterator[Segment]:
        for found in self._by_stream.values():
            yield from found

    def __getitem__(self, key: SegmentKey) -> Segment:
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def of(self, stream: Stream) -> tuple[Segment, ...]:
        """Return a stream's segments by start."""
        return tuple(self._by_stream.get(stream, ()))

    def of_topic(self, name: str) -> tuple[tuple[Segment, ...], ...]:
        """Return the segments of each stream of a topic of this name, whatever its id, by stream and start."""
        return tuple(self.of(stream) for stream in self._by_topic.get(name, ()))

    def at(self, stream: Stream, offset: int) -> Segment | None:
        """Return the segment that an offset lies in; None where the ledger knows none."""
        return max(
            (item for item in self.of(stream) if item.start <= offset), key=lambda item: item.start, default=None
        )

    def limit(self, stream: Stream) -> int | None:
        """Return the end of a stream whose last segment has a seal; None where it goes on."""
        return self._by_stream[stream][-1].seal if stream in self._by_stream else None

    def known_end(self, stream: StreamRecord) -> int:
        """Return the end that a stream's log had once: as far as a plan could read, or its last seal."""
        return max([stream.end_seen, *self.edges(stream.key)])

    def edges(self, stream: Stream) -> tuple[int, ...]:
        """Return the offsets at which ranges of a stream are cut."""
        found = self.of(stream)
        return tuple(sorted({item.start for item in found} | {item.seal for item in found if item.seal is not None}))

    def with_segments(self, segments: Iterable[Segment]) -> Graph:
        """Return the graph with some segments added or replaced; StateError when it would have a cycle."""
        graph = Graph({**self._by_key, **{item.key: item for item in segments}}.values())
        for key, item in graph._by_key.items():
            if item.parents and key in graph.ancestors(key):
                raise StateError(
                    f"the segment of {item} would wait for itself: a topic cannot continue one that continues it. "
                    "Nothing was recorded"
                )
        return graph

    def ancestors(self, key: SegmentKey) -> frozenset[SegmentKey]:
        """Return all segments that must be drained before one may start."""
        return frozenset(self._reached(key, lambda at: self._by_key[at].parents))

    def descendants(self, key: SegmentKey) -> tuple[Segment, ...]:
        """Return all segments that wait for one."""
        found = self._reached(key, lambda at: self._children.get(at, ()))
        return tuple(self._by_key[child] for child in sorted(found))

    def _reached(self, key: SegmentKey, beside: Callable[[SegmentKey], Iterable[SegmentKey]]) -> set[SegmentKey]:
        """Return all segments to which steps from one to those `beside` it lead."""
        found: set[SegmentKey] = set()
        left = [key] if key in self._by_key else []
        while left:
            new = {at for at in beside(left.pop()) if at in self._by_key} - found
            found |= new
            left += new
        return found


class Levels:
    """Depth of segments in the graph of undrained ones: 0 waits for nothing.

    A wave never holds two levels, so no wave waits for itself.
    """

    def __init__(self, graph: Graph, streams: Mapping[Stream, StreamRecord]) -> None:
        self._graph = graph
        self._streams = streams
        self._known: dict[SegmentKey, int] = {}

    def at(self, stream: Stream, offset: int) -> int:
        """Return the level of the segment that an offset lies in."""
        segment = self._graph.at(stream, offset)
        return self._level(segment) if segment else 0

    def _level(self, segment: Segment) -> int:
        if not segment.parents:
            return 0
        if segment.key not in self._known:
            open_ = [0]
            for key in segment.parents:
                if key in self._graph:
                    parent = self._graph[key]
                    open_.append(self._level(parent) + (0 if is_drained(parent, self._streams) else 1))
            self._known[segment.key] = max(open_)
        return self._known[segment.key]


def is_drained(segment: Segment, streams: Mapping[Stream, StreamRecord]) -> bool:
    """Return whether a segment's end is known and every offset below it is committed, or skipped with the order
    acknowledged."""
    missing, unacknowledged = _open(segment, streams.get(segment.stream))
    return segment.sealed and not missing and not unacknowledged


def _open(segment: Segment, record: StreamRecord | None) -> tuple[RangeSet, RangeSet]:
    """Return the open offsets, and the offsets skipped without acknowledging the order.

    It counts from the stream's origin. Retention that passes an offset does not drain it (law L14).
    """
    if segment.seal is None or not segment.sealed:
        return RangeSet(), RangeSet()
    if record is None:
        return RangeSet.between(segment.start, segment.seal), RangeSet()
    needed = RangeSet.between(max(segment.start, record.origin), segment.seal)
    return needed - record.covered, needed & record.unacknowledged


def blockers(
    graph: Graph, streams: Mapping[Stream, StreamRecord], wanted: Iterable[tuple[Stream, OffsetRange]]
) -> tuple[Blocker, ...]:
    """Return the ancestors that keep ranges from starting, each once, nearest stream first by name."""
    found: dict[SegmentKey, Blocker] = {}
    for key in sorted({item.key for stream, range_ in wanted if (item := graph.at(stream, range_.start))}):
        for parent in graph.ancestors(key):
            segment = graph[parent]
            if parent not in found and not is_drained(segment, streams):
                missing, unacknowledged = _open(segment, streams.get(segment.stream))
                found[parent] = Blocker(child=key, parent=segment, missing=missing, unacknowledged=unacknowledged)
    return tuple(found[key] for key in sorted(found))


def started_after(
    graph: Graph, streams: Iterable[StreamRecord], stream: Stream, interval: OffsetRange
) -> tuple[Segment, ...]:
    """Return the segments that continue a slice of a stream and hold committed offsets already."""
    covered = {item.key: item.covered for item in streams}
    touched = [item for item in graph.of(stream) if item.seal is None or item.seal > interval.start]
    later = {item.key: item for own in touched if own.start < interval.end for item in graph.descendants(own.key)}
    return tuple(
        item
        for _, item in sorted(later.items())
        if item.stream in covered and covered[item.stream] - RangeSet.between(0, item.start)
    )


def gate_of(graph: Graph, streams: Iterable[StreamRecord], wanted: Iterable[RangeRecord]) -> tuple[Blocker, ...]:
    """Return the blockers of a wave with these PLANNED ranges; a range on hold waits for nothing."""
    return blockers(graph, {item.key: item for item in streams}, [(item.stream, item.range) for item in wanted])


def waiting(graph: Graph, streams: Iterable[StreamRecord], planned: Iterable[RangeRecord]) -> frozenset[str]:
    """Return the waves of some PLANNED ranges that something keeps from starting."""
    known = {item.key: item for item in streams}
    return frozenset(item.wave for item in planned if blockers(graph, known, [(item.stream, item.range)]))


def gate_closed(wave: str, pipeline: str, closed: Sequence[Blocker]) -> GateClosedError | HeldError:
    """Return the refusal: it names the first blockers of a wave; HeldError when only a person can go on."""
    first = closed[0]
    more = f", and {len(closed) - 1} more" if len(closed) > 1 else ""
    for_a_person = all(blocker.lacks_acknowledgement for blocker in closed)
    return (HeldError if for_a_person else GateClosedError)(
        f"wave {wave} waits for its turn: {describe(first, pipeline)}{more}. Nothing of it was published",
        wave=wave,
        **first.parent.stream.facts,
    )


def describe(blocker: Blocker, pipeline: str) -> str:
    """Return the open offsets of an ancestor, and a person's remedy."""
    parent, (topic, _, partition) = blocker.parent, blocker.parent.stream
    where = f"{topic}/{partition} from {parent.start}"
    if parent.seal is None or not parent.sealed:
        return f"{where} is not sealed yet: plan again when its layout has committed"
    if blocker.missing:
        return f"{where} to its seal {parent.seal} has {count(blocker.missing.span, 'open offset')}: {blocker.missing}"
    return (
        f"{where} to its seal {parent.seal} was skipped at {blocker.unacknowledged} without acknowledging the order: "
        f"{_acknowledging(blocker, pipeline)}"
    )


def _acknowledging(blocker: Blocker, pipeline: str) -> Remedy:
    """Return the skip by which a person accepts a gap in the order of the records."""
    gap = Slice(blocker.parent.stream, blocker.unacknowledged.ranges[0])
    return remedies.skip(pipeline, gap, name_topic_id=True, acknowledge_order=True)


# The order of segments, for people and programs: each with its parents, and its blockers.

Json = dict[str, Any]


class SegmentOrder:
    """The segments of a pipeline beside its streams and unresolved ranges, as one moment had them."""

    def __init__(
        self, pipeline: str, graph: Graph, streams: Iterable[StreamRecord], unresolved: Iterable[RangeRecord]
    ) -> None:
        self.pipeline = pipeline
        self.graph = graph
        self._streams = {item.key: item for item in streams}
        self._open = grouped((item.stream, item) for item in unresolved)

    @property
    def streams(self) -> list[Stream]:
        """The streams that have segments, sorted."""
        return sorted({item.stream for item in self.graph})

    def to_json(self) -> Json:
        """Return `segments --json`: the graph by stream."""
        return {
            "pipeline": self.pipeline,
            "streams": [
                {
                    **key._asdict(),
                    "segments": self.documents(key),
                    "blocked_by": [text for text, _ in self.waits(key)],
                }
                for key in self.streams
            ],
        }

    def documents(self, stream: Stream) -> list[Json]:
        """Return a stream's segments as `status --json` lists them."""
        return [self._document(item) for item in self.graph.of(stream)]

    def state_of(self, segment: Segment) -> str:
        """Return in words whether all of a segment is in the lake, or may begin to be read."""
        if is_drained(segment, self._streams):
            return "drained"
        return "waits" if self._blockers(segment) else "may start"

    def parents(self, segment: Segment) -> list[Segment]:
        """Return the segments that one continues, sorted."""
        return [self.graph[key] for key in sorted(segment.parents)]

    def _document(self, segment: Segment) -> Json:
        return {
            "start": segment.start,
            "seal": segment.seal,
            "sealed": segment.sealed,
            "layout": segment.layout,
            "drained": is_drained(segment, self._streams),
            "launchable": not self._blockers(segment),
            "parents": [
                item.stream._asdict() | {"start": item.start, "seal": item.seal} for item in self.parents(segment)
            ],
        }

    def _blockers(self, segment: Segment) -> tuple[Blocker, ...]:
        here = OffsetRange(segment.start, segment.start + 1)
        return blockers(self.graph, self._streams, [(segment.stream, here)]) if segment.parents else ()

    def waits(self, stream: Stream) -> Iterator[tuple[str, Remedy | None]]:
        """Yield the blockers of each segment of a stream that may not start, down to range and reason, and the
        decision that ends a wait for no range."""
        for segment in self.graph.of(stream):
            for blocker in self._blockers(segment):
                why = f"{describe(blocker, self.pipeline)}{self.because(blocker)}"
                decision = _acknowledging(blocker, self.pipeline) if blocker.lacks_acknowledgement else None
                yield f"order: what lies from {segment.start} on waits: {why}", decision

    def because(self, blocker: Blocker) -> str:
        """Name the ranges of a parent that are in the way."""
        found = [item for item in self._open[blocker.parent.stream] if blocker.missing & RangeSet((item.range,))]
        if not blocker.missing:
            return ""
        if not found:
            return " (not planned yet)"
        named = (blocked_by(item) or f"range {item.range} is planned: wave {item.wave}" for item in found)
        return f" ({some(named, FEW, by='; ')})"

    def needs_person(self, blocker: Blocker) -> bool:
        """Return whether only a person can lead on: something of the parent is held, cancelled, or skipped without the
        order acknowledged."""
        stuck = (i for i in self._open[blocker.parent.stream] if i.state is not RangeState.PLANNED)
        return bool(blocker.unacknowledged) or any(blocker.missing & RangeSet((item.range,)) for item in stuck)


def blocked_by(item: RangeRecord) -> str | None:
    """Return why a range is held and which command leads it out; None for one that is just planned."""
    if item.state is RangeState.PLANNED or item.state not in UNRESOLVED:
        return None
    return f"range {item.range} {item.state.lower()}: {explained(item)} (wave {item.wave})"
