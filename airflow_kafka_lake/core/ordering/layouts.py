"""Layouts of a topic: more partitions, a new generation, a declared seal, and the segments that follow from them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from itertools import chain
from math import gcd
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, grouped, merged
from airflow_kafka_lake.core.ordering.segments import Graph, Segment, SegmentKey
from airflow_kafka_lake.core.spec import Ordering, Partitioner, PipelineSpec
from airflow_kafka_lake.core.wire import timestamp

# A plan's additions to the segments of its topics, and their facts.


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

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return self.stream.facts | {"until": timestamp(self.until), "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """A plan's additions to the segments: layouts, and segments that are opened, sealed or given more parents."""

    layouts: tuple[Layout, ...] = ()
    segments: tuple[Segment, ...] = ()
    in_grace: tuple[GraceWait, ...] = ()
    overruns: tuple[tuple[Stream, str], ...] = ()
    """Streams whose logs go on past the seals that were declared for them, each with the reason."""

    def __bool__(self) -> bool:
        return bool(self.layouts or self.segments)

    @property
    def waiting(self) -> frozenset[Stream]:
        """Streams of which nothing is planned yet: the ones of a layout that is not in force."""
        return frozenset(item.stream for item in self.in_grace if item.is_new)

    def __or__(self, other: LayoutChange) -> LayoutChange:
        return LayoutChange.of_all((self, other))

    @classmethod
    def of_all(cls, changes: Iterable[LayoutChange]) -> LayoutChange:
        """Return the sum of several changes, in their order."""
        every = tuple(changes)
        parts = {
            item.name: tuple(chain.from_iterable(getattr(change, item.name) for change in every))
            for item in fields(cls)
        }
        return cls(**parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLayouts:
    """A pipeline's streams, segments and layouts in the ledger."""

    streams: Mapping[Stream, StreamRecord]
    graph: Graph
    layouts: Sequence[Layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """A topic as one snapshot has it: its number of partitions, and the ones that were observed and are asked for."""

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


# How the segments of a topic come about: its first layout, more partitions, a new generation, a declared migration.
#
# Kafka's producers send a key to `hash(key) mod partitions`, and learn of new partitions up to
# `metadata.max.age.ms` late (5 minutes by default). So an expansion is seen first, and its old segments are sealed
# a layout grace later, at the ends that the logs have by then. Old partition i and new partition j can share a key
# exactly when i = j modulo the greatest common divisor of the old and the new number of partitions. A topic that
# grows again within the grace was written under both numbers meanwhile: a segment holds records of every layout
# that was seen while it was open.


def topics_seen(snapshot: Snapshot, asked: Collection[Stream]) -> tuple[ObservedTopic, ...]:
    """Return the topics of a snapshot; the number of partitions counts the unobserved ones too."""
    seen = grouped((item.stream[:2], (item.stream.partition, item)) for item in snapshot.partitions)
    last_unseen = merged(max, ((gap.topic, gap.partition) for gap in snapshot.unknown))
    wanted = grouped((key[:2], key.partition) for key in sorted(asked))
    return tuple(
        ObservedTopic(
            name=name,
            id=topic_id,
            partitions=1 + max(*dict(found), last_unseen.get(name, 0)),
            seen=dict(found),
            asked=wanted[name, topic_id],
            at=snapshot.observed_at,
        )
        for (name, topic_id), found in sorted(seen.items())
    )


def evolve(spec: PipelineSpec, topic: ObservedTopic, known: KnownLayouts) -> LayoutChange:
    """Decide the segments of a topic; partitions that must wait are in `in_grace`.

    More partitions matter to ordering by key only: in the other modes an old partition just goes on.
    """
    in_force = [item.partitions for item in _layouts(topic, known) if item.in_force]
    first = LayoutChange(layouts=(_layout(topic, in_force=True),)) if not in_force else LayoutChange()
    current = max(in_force, default=topic.partitions)
    if topic.partitions > current and spec.ordering is Ordering.KEY:
        return first | _expand(spec, topic, known, current)
    return first | LayoutChange(segments=_roots(spec, topic, known, topic.partitions))


def _layouts(topic: ObservedTopic, known: KnownLayouts) -> list[Layout]:
    return [item for item in known.layouts if item.topic_id == topic.id]


def _layout(topic: ObservedTopic, *, in_force: bool) -> Layout:
    return Layout(topic=topic.name, topic_id=topic.id, partitions=topic.partitions, seen_at=topic.at, in_force=in_force)


def _roots(spec: PipelineSpec, topic: ObservedTopic, known: KnownLayouts, below: int) -> tuple[Segment, ...]:
    """Open the first segment of every asked partition that has none; it continues an older generation's, if any."""
    new = [p for p in sorted(topic.asked) if p < below and not known.graph.of(topic.stream(p))]
    if not new:
        return ()
    before = _older_generation(topic, known)
    older = Older(spec, before, known.layouts)
    opened = [_first_of(topic, known, partition=p, layout=below, older=older) for p in new]
    return (*_sealed_where_they_end(before, known), *opened)


def _first_of(topic: ObservedTopic, known: KnownLayouts, *, partition: int, layout: int, older: Older) -> Segment:
    """Return the first segment of a partition that the topic has since it had `layout` partitions."""
    first = Segment(stream=topic.stream(partition), start=0, layout=layout)
    return replace(first, parents=older.related(partition, written_under(first, known.layouts) | {topic.partitions}))


def _older_generation(topic: ObservedTopic, known: KnownLayouts) -> list[Segment]:
    """Return the last segment of every stream of the same topic with another id."""
    return [segments[-1] for segments in known.graph.of_topic(topic.name) if segments[0].stream.topic_id != topic.id]


def _sealed_where_they_end(older: Iterable[Segment], known: KnownLayouts) -> Iterator[Segment]:
    """Seal the open segments of a topic that is gone: nothing more of them can ever be planned."""
    for segment in older:
        if not segment.sealed:
            record = known.streams[segment.stream]
            end = max([segment.start, record.end_seen, *(item.end for item in record.planned)])
            yield replace(segment, seal=segment.seal or end, sealed=True)


def _expand(spec: PipelineSpec, topic: ObservedTopic, known: KnownLayouts, current: int) -> LayoutChange:
    """Wait until the grace of an expansion is over, then seal the open segments and open the new layout's."""
    pending = max((i for i in _layouts(topic, known) if not i.in_force), key=lambda i: i.partitions, default=None)
    is_new = pending is None or pending.partitions != topic.partitions
    seen_at = topic.at if is_new or pending is None else pending.seen_at
    until = seen_at + timedelta(seconds=spec.layout_grace)
    if topic.at >= until and topic.is_whole:
        return LayoutChange(layouts=(_layout(topic, in_force=True),), segments=_relayed(spec, topic, known, current))
    waiting = (
        f"the topic went from {current} to {topic.partitions} partitions, seen at {timestamp(seen_at)}: producers may "
        f"use the old ones until {timestamp(until)}"
    )
    if topic.at >= until:
        waiting = f"the topic went from {current} to {topic.partitions} partitions: plan it without naming partitions"
    return LayoutChange(
        layouts=(_layout(topic, in_force=False),) if is_new else (),
        segments=_roots(spec, topic, known, current),
        in_grace=tuple(
            GraceWait(stream=topic.stream(p), until=until, reason=waiting, is_new=True)
            for p in sorted(topic.asked)
            if p >= current
        ),
    )


def _relayed(spec: PipelineSpec, topic: ObservedTopic, known: KnownLayouts, current: int) -> tuple[Segment, ...]:
    """Return the old segments, sealed where their logs end now, and the new layout's.

    Old are also the partitions of a layout that was outgrown before it was in force: they continue the segments before
    them, and are continued.
    """
    older = _older_generation(topic, known)
    old: dict[int, Segment] = {}
    below = 0
    pending = sorted(item.partitions for item in _layouts(topic, known) if not item.in_force)
    for layout in (current, *(n for n in pending if current < n < topic.partitions)):
        before = Older(spec, list(old.values()) or older, known.layouts)
        for p in range(below, layout):
            found = known.graph.of(topic.stream(p))
            open_ = found[-1] if found else _first_of(topic, known, partition=p, layout=layout, older=before)
            end = topic.seen[p].high_watermark if open_.seal is None else open_.seal
            old[p] = replace(open_, seal=end, sealed=True)
        below = layout
    outgrown = Older(spec, old.values(), known.layouts)
    opened = []
    for p in range(topic.partitions):
        own = old.get(p)
        inherited = own.parents if own and own.is_empty else frozenset()
        opened.append(
            Segment(
                stream=topic.stream(p),
                start=(own.seal or 0) if own else 0,
                layout=topic.partitions,
                parents=inherited | outgrown.related(p, {topic.partitions}),
            )
        )
    return (*_sealed_where_they_end(older, known), *(item for item in old.values() if not item.is_empty), *opened)


def written_under(segment: Segment, layouts: Iterable[Layout]) -> frozenset[int]:
    """Return the layouts under which records of a segment may have been written: its own, and the topic's others before
    the next one came into force."""
    later = [item for item in layouts if item.topic_id == segment.stream.topic_id and item.partitions > segment.layout]
    following = min((item.partitions for item in later if item.in_force), default=None)
    seen = {item.partitions for item in later if following is None or item.partitions < following}
    return frozenset({segment.layout} | seen)


class Older:
    """Older segments, to be asked which of them a partition continues: the ones that can hold records of the same keys.

    They are kept by the remainder of their partitions modulo a number of partitions, so that asking for every partition
    of a topic takes as long as it has partitions and parents.
    """

    def __init__(self, spec: PipelineSpec, segments: Iterable[Segment], layouts: Iterable[Layout]) -> None:
        self._spec = spec
        self._layouts = tuple(layouts)
        self._by_layouts = grouped((written_under(item, self._layouts), item) for item in segments)
        self._alike: dict[tuple[frozenset[int], int], Mapping[int, Sequence[Segment]]] = {}

    def related(self, partition: int, under: Collection[int]) -> frozenset[SegmentKey]:
        """Return the segments that a partition which is written `under` some layouts continues; an empty one is
        replaced by its parents."""
        found: set[SegmentKey] = set()
        for written, segments in self._by_layouts.items():
            for modulus in self._moduli(written, under):
                if (written, modulus) not in self._alike:
                    alike = grouped((item.stream.partition % modulus, item) for item in segments)
                    self._alike[written, modulus] = alike
                for item in self._alike[written, modulus].get(partition % modulus, ()):
                    found |= item.parents if item.is_empty else {item.key}
        return frozenset(found)

    def _moduli(self, written: Collection[int], under: Collection[int]) -> set[int]:
        """Return modulo which numbers two partitions must be alike, any of them, to share a key."""
        if self._spec.ordering is Ordering.PARTITION:
            return {sys.maxsize}  # only the same partition
        if self._spec.partitioner is Partitioner.UNKNOWN:
            return {1}
        return {gcd(then, now) for then in written for now in under}


# Seals that a person declared, by `seal` or `migrate`: checked twice a layout grace apart, never moved.


def check_seals(spec: PipelineSpec, topic: ObservedTopic, known: KnownLayouts) -> LayoutChange:
    """Check the declared seals: a log that runs past its seal is an error, one that still ends there a layout grace
    later is sealed for good."""
    changes = []
    for partition, seen in sorted(topic.seen.items()):
        segments = known.graph.of(topic.stream(partition))
        if segments and segments[-1].seal is not None and segments[-1].declared_at is not None:
            record = known.streams[topic.stream(partition)]
            changes.append(_check_seal(spec, topic, seen, segment=segments[-1], record=record))
    return LayoutChange.of_all(changes)


def _check_seal(
    spec: PipelineSpec, topic: ObservedTopic, seen: PartitionSnapshot, *, segment: Segment, record: StreamRecord
) -> LayoutChange:
    assert segment.seal is not None
    assert segment.declared_at is not None
    if excess := RangeSet.between(segment.seal, seen.high_watermark) - record.planned:
        reason = (
            f"the log ends at {seen.high_watermark}, past its declared seal {segment.seal}: a producer still writes to "
            f"it. Stop the producers; pass what they wrote with: "
            f"{remedies.skip(spec.name, Slice(seen.stream, OffsetRange(segment.seal, excess.ranges[-1].end)))}"
        )
        return LayoutChange(overruns=((seen.stream, reason),))
    if segment.sealed:
        return LayoutChange()
    until = segment.declared_at + timedelta(seconds=spec.layout_grace)
    if topic.at >= until and seen.last_stable >= segment.seal:
        return LayoutChange(segments=(replace(segment, sealed=True),))
    waits = "an open transaction ends" if topic.at >= until else "a second look"
    reason = f"the seal {segment.seal} was declared at {timestamp(segment.declared_at)} and waits for {waits}"
    return LayoutChange(in_grace=(GraceWait(stream=seen.stream, until=until, reason=reason, is_new=False),))


def declared(topic: ObservedTopic, partition: int, at: int, known: KnownLayouts) -> Segment:
    """Return a stream's last segment with its declared end. Raises StateError unless its log ends exactly there now."""
    where = f"{topic.name}/{partition}"
    facts = {"topic": topic.name, "partition": partition}
    if not (found := known.graph.of(topic.stream(partition))):
        raise StateError(f"{where} has not committed yet, the topic got more partitions: plan when it has", **facts)
    last = found[-1]
    if last.seal is not None and last.seal != at:
        raise StateError(f"{where} is sealed at {last.seal}: a seal is never moved", **facts)
    seen = topic.seen[partition]
    if not seen.last_stable == seen.high_watermark == at:
        open_ = "" if seen.last_stable == seen.high_watermark else f" and is stable only to {seen.last_stable}"
        raise StateError(
            f"the log of {where} ends at {seen.high_watermark}{open_}, not at {at}: stop its producers, let open "
            "transactions end, and declare the end that it has then",
            **facts,
        )
    return replace(last, seal=at, declared_at=last.declared_at or topic.at)


def migrated(
    spec: PipelineSpec, source: ObservedTopic, target: ObservedTopic, *, seals: Mapping[int, int], known: KnownLayouts
) -> LayoutChange:
    """Return the change that makes one topic continue another: declared seals, and edges from old to new segments.

    `known` holds the segments that both topics have, or get by the same plan. Raises StateError as `declared`.
    """
    old = [declared(source, partition, seal, known) for partition, seal in sorted(seals.items())]
    older = Older(spec, old, known.layouts)
    new = []
    for partition in range(target.partitions):
        if not (found := known.graph.of(target.stream(partition))):
            raise StateError(
                f"{target.name}/{partition} has not committed yet, the topic got more partitions: plan when it has"
            )
        under = written_under(found[0], known.layouts)
        new.append(replace(found[0], parents=found[0].parents | older.related(partition, under)))
    return LayoutChange(segments=(*old, *new))
