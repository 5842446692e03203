"""From what is asked to a plan: cut into ranges by weight, packed into waves."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, UnknownPartition, waiting_for_stable
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.layout_changes import LayoutPlan
from airflow_kafka_lake.core.ordering.segments import Graph, Levels
from airflow_kafka_lake.core.planning.plan import Asked, Blocked, Plan, PlannedRange, PlannedStream, PlannedWave
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec

MAX_WAVE_RANGES = 10_000
"""Spark plans `assign` reads quadratically above about 20,000 partitions."""


MAX_WAVE_OFFSETS = 100_000_000
"""Every second one may be a gap, of which the worker that audits the wave keeps sixteen bytes."""

UNMEASURED_BYTES_PER_OFFSET = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Estimated bytes per offset, in Kafka's bytes: of a stream, else of its topic, else a fallback.

    `source` says where they are known from.
    """

    by_stream: Mapping[Stream, float]
    by_topic: Mapping[str, float] = field(default_factory=dict)
    fallback: float = UNMEASURED_BYTES_PER_OFFSET
    source: str = ""

    def bytes_of(self, stream: Stream, span: int) -> int:
        """Estimate the bytes of `span` offsets, at least one."""
        of_topic = self.by_topic.get(stream.topic, self.fallback)
        return max(1, round(self.by_stream.get(stream, of_topic) * span))


def missing(asked: OffsetRange, planned: RangeSet) -> RangeSet:
    """Return what of a slice is neither planned nor committed (law L2)."""
    return RangeSet((asked,)) - planned


def cut(interval: OffsetRange, bytes_per_offset: float, target_bytes: int) -> tuple[OffsetRange, ...]:
    """Cut a slice into equal ranges of at most about `target_bytes`, but never into more than a wave can hold."""
    by_weight = min(interval.span, MAX_WAVE_RANGES, -(-int(bytes_per_offset * interval.span) // target_bytes))
    pieces = max(by_weight, -(-interval.span // MAX_WAVE_OFFSETS))
    step, extra = divmod(interval.span, pieces)
    edges = [interval.start]
    for index in range(pieces):
        edges.append(edges[-1] + step + (1 if index < extra else 0))
    return tuple(OffsetRange(a, b) for a, b in itertools.pairwise(edges))


def build_plan(
    plan_id: str,
    spec: PipelineSpec,
    observed_at: datetime,
    *,
    asked: Iterable[Asked],
    known: Mapping[Stream, StreamRecord],
    weights: Weights,
    blocked: Iterable[Blocked] = (),
    unknown: Iterable[UnknownPartition] = (),
    segments: LayoutPlan | None = None,
    acknowledge_order: bool = False,
) -> Plan:
    """Decide ranges and waves for what is asked and not yet planned.

    A slice is also cut at the stream's origin, so that the watermark always lies on a range's edge, and at its
    segments. Nothing is read past a declared seal. What retention has passed is left out and named in `blocked`; the
    rest goes on.
    """
    of = segments or LayoutPlan()
    streams: list[PlannedStream] = []
    pieces: list[tuple[PartitionSnapshot, OffsetRange]] = []
    refused = list(blocked)
    refused += [Blocked(topic=u.topic, partition=u.partition, reason=f"not observed: {u.reason}") for u in unknown]
    for item in asked:
        snapshot = item.snapshot
        record = known.get(snapshot.stream)
        origin = record.origin if record else item.origin
        streams.append(
            PlannedStream(
                snapshot=snapshot,
                origin=origin,
                version=record.version if record else None,
                start=item.start,
                end=item.end,
                reason=item.reason,
            )
        )
        limit = of.graph.limit(snapshot.stream)
        end = item.end if limit is None else min(item.end, limit)
        if item.start >= end:
            continue
        wanted = missing(OffsetRange(item.start, end), record.planned if record else RangeSet())
        expired = wanted & RangeSet.between(0, snapshot.log_start)
        refused += [_expired(spec.name, snapshot, interval) for interval in expired]
        late = RangeSet() if acknowledge_order or record is None else _out_of_turn(of.graph, record, wanted - expired)
        refused += [_too_late(spec.name, snapshot, interval) for interval in late]
        for interval in wanted - expired - late:
            pieces += [(snapshot, part) for part in interval.split_at((origin, *of.graph.edges(snapshot.stream)))]
    waves = pack(plan_id, spec, pieces, weights=weights, levels=of.graph.levels(known))
    return Plan(
        id=plan_id,
        spec=spec,
        observed_at=observed_at,
        streams=tuple(streams),
        waves=waves,
        blocked=tuple(refused),
        layout_change=of.layout_change,
        weighed=weights.source,
        waiting_for_stable=waiting_for_stable((stream.snapshot for stream in streams), spec.isolation),
    )


def _out_of_turn(graph: Graph, record: StreamRecord, wanted: RangeSet) -> RangeSet:
    """Return what lies below the origin in segments that others continue: drained counts from the origin, so those
    others may be in the lake already."""
    below = wanted & RangeSet.between(0, record.origin)
    continued = (item for item in graph.of(record.key) if below and graph.descendants(item.key))
    return below & RangeSet(OffsetRange(item.start, item.seal or record.origin) for item in continued)


def _too_late(pipeline: str, snapshot: PartitionSnapshot, interval: OffsetRange) -> Blocked:
    return Blocked.of(
        snapshot.stream,
        f"offsets {interval} lie below the origin, and later segments do not wait for them: they may be in the "
        f"lake already. If their order does not matter: "
        f"{remedies.run_below_origin(pipeline, Slice(snapshot.stream, interval))}",
    )


def _expired(pipeline: str, snapshot: PartitionSnapshot, interval: OffsetRange) -> Blocked:
    return Blocked.of(
        snapshot.stream,
        f"offsets {interval} are gone: the log starts at {snapshot.log_start}. Skip them with: "
        f"{remedies.skip(pipeline, Slice(snapshot.stream, interval))}",
    )


def pack(
    plan_id: str,
    spec: PipelineSpec,
    pieces: Iterable[tuple[PartitionSnapshot, OffsetRange]],
    *,
    weights: Weights,
    levels: Levels,
) -> tuple[PlannedWave, ...]:
    """Cut pieces to range size and pack them into waves, early offsets of every stream first.

    A wave holds one table and one level, so that none waits for itself; lower levels come first.
    """
    groups: dict[tuple[int, str], list[tuple[int, PartitionSnapshot, OffsetRange]]] = defaultdict(list)
    depth: dict[Stream, int] = defaultdict(int)
    for snapshot, piece in pieces:
        per_offset = weights.bytes_of(snapshot.stream, piece.span) / piece.span
        group = (levels.at(snapshot.stream, piece.start), spec.table_for(snapshot.stream.topic))
        for part in cut(piece, per_offset, spec.target_range_bytes):
            groups[group].append((depth[snapshot.stream], snapshot, part))
            depth[snapshot.stream] += 1
    waves: list[PlannedWave] = []
    for group in sorted(groups):
        ordered = sorted(groups[group], key=lambda entry: (entry[0], entry[1].stream.topic, entry[1].stream.partition))
        for batch in _batches(ordered, spec.max_wave_bytes, weights):
            wave_id = f"{plan_id}-w{len(waves)}"
            waves.append(PlannedWave(id=wave_id, table=group[1], ranges=_ranges(wave_id, batch, weights)))
    return tuple(waves)


def _batches(
    ordered: list[tuple[int, PartitionSnapshot, OffsetRange]], limit: int, weights: Weights
) -> Iterable[list[tuple[PartitionSnapshot, OffsetRange]]]:
    batch: list[tuple[PartitionSnapshot, OffsetRange]] = []
    size = offsets = 0
    for _, snapshot, part in ordered:
        weight = weights.bytes_of(snapshot.stream, part.span)
        full = size + weight > limit or offsets + part.span > MAX_WAVE_OFFSETS or len(batch) >= MAX_WAVE_RANGES
        if batch and full:
            yield batch
            batch, size, offsets = [], 0, 0
        batch.append((snapshot, part))
        size, offsets = size + weight, offsets + part.span
    if batch:
        yield batch


def _ranges(
    wave_id: str, batch: list[tuple[PartitionSnapshot, OffsetRange]], weights: Weights
) -> tuple[PlannedRange, ...]:
    return tuple(
        PlannedRange(
            id=f"{wave_id}r{index}",
            slice=Slice(snapshot.stream, part),
            estimated_bytes=weights.bytes_of(snapshot.stream, part.span),
        )
        for index, (snapshot, part) in enumerate(batch)
    )
