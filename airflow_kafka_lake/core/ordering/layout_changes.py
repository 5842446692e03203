"""What a plan adds to the segments of its topics, and what that was decided from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import chain

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ordering.segments import Graph, Segment
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A number of partitions that a topic was seen to have; `in_force` once its segments were opened."""

    topic: str
    topic_id: str
    partitions: int
    seen_at: datetime
    in_force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceWait:
    """A stream that waits until a layout or a seal is in force: nothing need be done but plan again then."""

    stream: Stream
    until: datetime
    reason: str
    is_new: bool
    """Whether its partition came with the layout that waits, and so has nothing that could be read now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """A stream whose log goes on past the seal that was declared for it."""

    stream: Stream
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """What a plan adds to the segments: layouts, and segments that are opened, sealed or given more parents."""

    layouts: tuple[Layout, ...] = ()
    segments: tuple[Segment, ...] = ()
    in_grace: tuple[GraceWait, ...] = ()
    overruns: tuple[Overrun, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.layouts or self.segments)

    @property
    def waiting(self) -> frozenset[Stream]:
        """Streams of which nothing is planned yet: those that only a layout has that is not in force."""
        return frozenset(item.stream for item in self.in_grace if item.is_new)

    def __or__(self, other: LayoutChange) -> LayoutChange:
        return LayoutChange.of_all((self, other))

    @classmethod
    def of_all(cls, changes: Iterable[LayoutChange]) -> LayoutChange:
        """Return what several changes add together, in their order."""
        every = tuple(changes)
        parts = {
            item.name: tuple(chain.from_iterable(getattr(change, item.name) for change in every))
            for item in fields(cls)
        }
        return cls(**parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLayouts:
    """What the ledger knows of a pipeline's streams, segments and layouts."""

    streams: Mapping[Stream, StreamRecord]
    graph: Graph
    layouts: Sequence[Layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as one snapshot has it: its number of partitions, and those that were observed and are asked for."""

    name: str
    id: str
    partitions: int
    seen: Mapping[int, PartitionSnapshot]
    asked: Collection[int]
    at: datetime

    def stream(self, partition: int) -> Stream:
        """Return the stream of a partition."""
        return Stream(self.name, self.id, partition)

    @property
    def is_whole(self) -> bool:
        """Return whether every partition was observed and is asked for."""
        everyone = set(range(self.partitions))
        return everyone <= self.seen.keys() and everyone <= set(self.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPlan:
    """The graph as it is after a layout change, for the plan that causes it."""

    layout_change: LayoutChange = field(default_factory=LayoutChange)
    graph: Graph = field(default_factory=Graph)


def apply_layout_change(graph: Graph, layout_change: LayoutChange) -> LayoutPlan:
    """Apply a change, the last one of each segment; StateError when a segment would wait for itself."""
    if not layout_change.segments:
        return LayoutPlan(layout_change=layout_change, graph=graph)
    segments = tuple({item.key: item for item in layout_change.segments}.values())
    return LayoutPlan(layout_change=replace(layout_change, segments=segments), graph=graph.with_segments(segments))
