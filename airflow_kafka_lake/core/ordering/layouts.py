"""How the segments of a topic come about: its first layout, more partitions, a new generation, a declared migration.

Kafka's producers send a key to `hash(key) mod partitions`, and learn of new partitions up to `metadata.max.age.ms` late
(5 minutes by default). So an expansion is seen first, and its old segments are sealed a layout grace later, at the ends
that the logs have by then. Old partition i and new partition j can share a key exactly when i = j modulo the greatest
common divisor of the old and the new number of partitions. A topic that grows again within the grace was written
under both numbers meanwhile: a segment holds records of every layout that was seen while it was open.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import gcd

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.ordering.layout_changes import GraceWait, KnownLayouts, Layout, LayoutChange, Topic
from airflow_kafka_lake.core.ordering.segments import Segment, SegmentKey
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import Ordering, Partitioner, PipelineSpec
from airflow_kafka_lake.core.wire import timestamp


def topics_seen(snapshot: Snapshot, asked: Collection[Stream]) -> tuple[Topic, ...]:
    """Return the topics of a snapshot; the number of partitions counts those that could not be observed."""
    seen: dict[tuple[str, str], dict[int, PartitionSnapshot]] = defaultdict(dict)
    for item in snapshot.partitions:
        seen[item.stream.topic, item.stream.topic_id][item.stream.partition] = item
    last_unseen: dict[str, int] = {}
    for gap in snapshot.unknown:
        last_unseen[gap.topic] = max(gap.partition, last_unseen.get(gap.topic, 0))
    wanted: dict[tuple[str, str], list[int]] = defaultdict(list)
    for name, topic_id, partition in sorted(asked):
        wanted[name, topic_id].append(partition)
    return tuple(
        Topic(
            name=name,
            id=topic_id,
            partitions=1 + max(*found, last_unseen.get(name, 0)),
            seen=found,
            asked=wanted[name, topic_id],
            at=snapshot.observed_at,
        )
        for (name, topic_id), found in sorted(seen.items())
    )


def evolve(spec: PipelineSpec, topic: Topic, known: KnownLayouts) -> LayoutChange:
    """Decide what becomes of a topic's segments; partitions that must wait are in `in_grace`.

    More partitions matter to ordering by key only: in the other modes an old partition just goes on.
    """
    in_force = [item.partitions for item in _layouts(topic, known) if item.in_force]
    first = LayoutChange(layouts=(_layout(topic, in_force=True),)) if not in_force else LayoutChange()
    current = max(in_force, default=topic.partitions)
    if topic.partitions > current and spec.ordering is Ordering.KEY:
        return first | _expand(spec, topic, known, current)
    return first | LayoutChange(segments=_roots(spec, topic, known, topic.partitions))


def _layouts(topic: Topic, known: KnownLayouts) -> list[Layout]:
    return [item for item in known.layouts if item.topic_id == topic.id]


def _layout(topic: Topic, *, in_force: bool) -> Layout:
    return Layout(topic=topic.name, topic_id=topic.id, partitions=topic.partitions, seen_at=topic.at, in_force=in_force)


def _roots(spec: PipelineSpec, topic: Topic, known: KnownLayouts, below: int) -> tuple[Segment, ...]:
    """Open the first segment of every asked partition that has none; it continues an older generation's, if any."""
    new = [p for p in sorted(topic.asked) if p < below and not known.graph.of(topic.stream(p))]
    if not new:
        return ()
    before = _older_generation(topic, known)
    older = Older(spec, before, known.layouts)
    opened = [_first_of(topic, known, partition=p, layout=below, older=older) for p in new]
    return (*_sealed_where_they_end(before, known), *opened)


def _first_of(topic: Topic, known: KnownLayouts, *, partition: int, layout: int, older: Older) -> Segment:
    """Return the first segment of a partition that the topic has since it had `layout` partitions."""
    first = Segment(stream=topic.stream(partition), start=0, layout=layout)
    under = written_under(first, known.layouts) | {topic.partitions}
    return replace(first, parents=older.related(partition, under))


def _older_generation(topic: Topic, known: KnownLayouts) -> list[Segment]:
    """Return the last segment of every stream of the same topic with another id."""
    return [segments[-1] for segments in known.graph.of_topic(topic.name) if segments[0].stream.topic_id != topic.id]


def _sealed_where_they_end(older: Iterable[Segment], known: KnownLayouts) -> Iterator[Segment]:
    """Seal the open segments of a topic that is gone: nothing more of them can ever be planned."""
    for segment in older:
        if not segment.sealed:
            record = known.streams[segment.stream]
            end = max([segment.start, record.end_seen, *(item.end for item in record.planned)])
            yield replace(segment, seal=segment.seal or end, sealed=True)


def _expand(spec: PipelineSpec, topic: Topic, known: KnownLayouts, current: int) -> LayoutChange:
    """Wait until the grace of an expansion is over, then seal what is open and open the new layout's segments."""
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


def _relayed(spec: PipelineSpec, topic: Topic, known: KnownLayouts, current: int) -> tuple[Segment, ...]:
    """Return the old segments, sealed where their logs end now, and those of the new layout.

    Old are also the partitions of a layout that was outgrown before it was in force: they continue what was there
    before them, and are continued.
    """
    older = _older_generation(topic, known)
    old: dict[int, Segment] = {}
    below = 0
    for layout in (current, *(n for n in _pending(topic, known) if current < n < topic.partitions)):
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


def _pending(topic: Topic, known: KnownLayouts) -> list[int]:
    """Return the numbers of partitions that a topic was seen to have and that are not in force yet."""
    return sorted(item.partitions for item in _layouts(topic, known) if not item.in_force)


def written_under(segment: Segment, layouts: Iterable[Layout]) -> frozenset[int]:
    """Return the layouts under which records of a segment may have been written: its own, and those that the topic was
    seen in before the next one came into force."""
    later = [item for item in layouts if item.topic_id == segment.stream.topic_id and item.partitions > segment.layout]
    following = min((item.partitions for item in later if item.in_force), default=None)
    seen = {item.partitions for item in later if following is None or item.partitions < following}
    return frozenset({segment.layout} | seen)


class Older:
    """Older segments, to be asked which of them a partition continues: those that can hold records of the same keys.

    They are kept by what their partitions leave modulo a number of partitions, so that asking for every partition of a
    topic takes as long as it has partitions and parents.
    """

    def __init__(self, spec: PipelineSpec, segments: Iterable[Segment], layouts: Iterable[Layout]) -> None:
        self._spec = spec
        self._layouts = tuple(layouts)
        self._by_layouts: dict[frozenset[int], list[Segment]] = defaultdict(list)
        for item in segments:
            self._by_layouts[written_under(item, self._layouts)].append(item)
        self._alike: dict[tuple[frozenset[int], int], Mapping[int, Sequence[Segment]]] = {}

    def related(self, partition: int, under: Collection[int]) -> frozenset[SegmentKey]:
        """Return the segments that a partition which is written `under` some layouts continues; an empty one is
        replaced by its parents."""
        found: set[SegmentKey] = set()
        for written, segments in self._by_layouts.items():
            for modulus in self._moduli(written, under):
                if (written, modulus) not in self._alike:
                    self._alike[written, modulus] = _by_residue(segments, modulus)
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


def _by_residue(segments: Iterable[Segment], modulus: int) -> Mapping[int, Sequence[Segment]]:
    found: dict[int, list[Segment]] = defaultdict(list)
    for item in segments:
        found[item.stream.partition % modulus].append(item)
    return found
