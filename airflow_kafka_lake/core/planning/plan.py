"""A plan: offsets cut into ranges by weight and packed into waves, for a period or for everything that is missing."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import NAMED, count, some
from airflow_kafka_lake.core.kafka.snapshots import (
    OBSERVED,
    OpenTransaction,
    PartitionSnapshot,
    UnknownPartition,
    waiting_for_stable,
)
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import HasSlice, OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.ordering.layouts import LayoutChange, LayoutPlan
from airflow_kafka_lake.core.ordering.segments import Graph, Levels
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp

# The parts of a period that are in Kafka, in the lake, and still to come.

BY_TIME = (
    "by time: from each partition's first record at or after its begin to the first at or after its end; "
    "where timestamps are not in the order of offsets, others have its times too"
)


def none_of(partitions: Iterable[Stream]) -> str:
    """Say that some partitions have offsets, and none of a period."""
    return f"no offset of the period lies in {some(partitions, NAMED, 'partition')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The content of a period, in offsets over all partitions that can be read.

    `landed` of the `offsets` were committed or skipped before, `planned` were planned before and are not in the lake
    yet. `unended` are the partitions in which no record is as late as the end `until`, `without` those that have
    offsets, but none of the period. `landed_below`: offsets below a log start that may be of the period were planned
    before; their number is unknown. Where Kafka has no other, `deleted_rows` of the table are of its times. `by_time`:
    a bound is a time, of which Kafka says where the first record is.
    """

    offsets: int = 0
    landed: int = 0
    planned: int = 0
    landed_below: bool = False
    deleted_rows: int = 0
    by_time: bool = False
    until: datetime | None = None
    unended: tuple[Stream, ...] = ()
    without: tuple[Stream, ...] = ()

    def describe(self) -> tuple[str, ...]:
        """Return the number of offsets in the period, and of the earlier ones; then the ones that may still come, or be
        of it and are not known."""
        new = self.offsets - self.landed - self.planned
        parts = {"in the lake already": self.landed, "planned earlier": self.planned, "not planned before": new}
        known = [f"{number:,} {words}" for words, number in parts.items() if number]
        if self.landed_below:
            known.append("what Kafka has no longer was planned or skipped earlier")
        return (
            f"{count(self.offsets, 'offset lies', 'offsets lie')} in the period: {', '.join(known)}",
            *self._doubts(),
        )

    def _doubts(self) -> Iterator[str]:
        if self.unended:
            text = f"Kafka has no record as late as {timestamp(self.until)} in {some(self.unended, NAMED, 'partition')}"
            yield f"{text}: read as far as they go; what is written there later needs another run"
        if self.landed_below and not self.offsets:
            yield f"of this period Kafka has no record, and the table {count(self.deleted_rows, 'row')}"
        if self.without:
            yield none_of(self.without)
        if self.by_time:
            yield f"{BY_TIME}, and are not read"

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "offsets": self.offsets,
            "in_lake": self.landed,
            "planned": self.planned,
            "gone_and_planned": self.landed_below,
            "unended": [[item.topic, item.partition] for item in self.unended],
            "without": [[item.topic, item.partition] for item in self.without],
            "messages": list(self.describe()),
        }


# A plan: which offsets are read next, cut into ranges, packed into waves, and why.
#
# Dry run and real run read the same `Plan` value (law L16).


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDemand:
    """The demand of one stream: `[start, end)`, and the origin it would get if it is new; in a plan also the `version`
    of the stream that it was decided from, None where the ledger does not know the stream yet."""

    snapshot: PartitionSnapshot
    origin: int
    start: int
    end: int
    reason: str
    landed_below: bool = False
    """Whether the period may begin below the log start, where everything is planned or in the lake already."""
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange(HasSlice):
    """One immutable piece of a stream."""

    id: str
    slice: Slice
    estimated_bytes: int
    """In Kafka's bytes: keys, values and headers, uncompressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWave:
    """Ranges that one Spark job reads and one commit publishes, all of one table."""

    id: str
    table: str
    ranges: tuple[PlannedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBlock:
    """A part that the plan leaves out, and why: a whole topic, or a partition in whole or in part."""

    topic: str
    partition: int | None
    reason: str

    @classmethod
    def of(cls, stream: Stream, reason: str) -> PlanBlock:
        """Return a partition, in whole or in part, that is left out."""
        return cls(topic=stream.topic, partition=stream.partition, reason=reason)

    @property
    def where(self) -> str:
        """Name the topic or the partition."""
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """How many offsets of a topic are committed in another table than the one that its pipeline names now."""

    topic: str
    table: str
    offsets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The costs of a plan; each None has its reason in the `_state` beside it.

    `bytes` are Kafka's: keys, values and headers, uncompressed; `lake_bytes` those of the files written of them.
    """

    records: int | None = None
    bytes: int | None = None
    bytes_state: str = "nothing to read"
    lake_bytes: int | None = None
    lake_bytes_state: str = "nothing to read"
    seconds: float | None = None
    retention_deadline: datetime | None = None
    retention_deadline_state: str = "nothing to read"
    retention_stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A frozen decision; `spec` is the configuration it was made with.

    `waiting_for_stable` are the partitions that end at an open transaction: their high watermark is where they go on
    to. `transactions` names the first of each, or `transactions_state` says why none is known; `hanging` are the ones
    that no producer will end and that keep the demand from being read. `weighed` says where the bytes are known from.
    `notes` are the effects of a changed pipeline file (`decision.EFFECTS`).
    """

    id: str
    spec: PipelineSpec
    observed_at: datetime
    streams: tuple[StreamDemand, ...]
    waves: tuple[PlannedWave, ...]
    blocked: tuple[PlanBlock, ...] = ()
    waiting_for_stable: tuple[PartitionSnapshot, ...] = ()
    layout_change: LayoutChange = field(default_factory=LayoutChange)
    transactions: tuple[OpenTransaction, ...] = ()
    transactions_state: str = OBSERVED
    hanging: tuple[OpenTransaction, ...] = ()
    weighed: str = ""
    forecast: Forecast = field(default_factory=Forecast)
    period: Period | None = None
    notes: tuple[str, ...] = ()

    @property
    def ranges(self) -> tuple[PlannedRange, ...]:
        """All ranges, in wave order."""
        return tuple(item for wave in self.waves for item in wave.ranges)

    def since(self, stream: StreamDemand) -> datetime | None:
        """Return by when everything below a new stream's origin had been written: the log was seen to reach to it."""
        return self.observed_at if stream.origin <= stream.snapshot.high_watermark else None

    @property
    def changes_nothing(self) -> bool:
        """Return whether recording this plan would add neither a range, nor a stream, nor anything to the segments."""
        return not self.waves and not self.layout_change and all(stream.version is not None for stream in self.streams)


# From demand to a plan: cut into ranges by weight, packed into waves.

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
        return max(1, round(self.by_stream.get(stream, self.by_topic.get(stream.topic, self.fallback)) * span))


def missing(asked: OffsetRange, planned: RangeSet) -> RangeSet:
    """Return the offsets of a slice that are neither planned nor committed (law L2)."""
    return RangeSet((asked,)) - planned


def cut(interval: OffsetRange, bytes_per_offset: float, target_bytes: int) -> tuple[OffsetRange, ...]:
    """Cut a slice into equal ranges of at most about `target_bytes`, but never into more than a wave can hold."""
    by_weight = min(interval.span, MAX_WAVE_RANGES, -(-int(bytes_per_offset * interval.span) // target_bytes))
    pieces = max(by_weight, -(-interval.span // MAX_WAVE_OFFSETS))
    step, extra = divmod(interval.span, pieces)
    edges = [interval.start + index * step + min(index, extra) for index in range(pieces + 1)]
    return tuple(OffsetRange(a, b) for a, b in itertools.pairwise(edges))


def build_plan(
    plan_id: str,
    spec: PipelineSpec,
    observed_at: datetime,
    *,
    asked: Iterable[StreamDemand],
    known: Mapping[Stream, StreamRecord],
    weights: Weights,
    blocked: Iterable[PlanBlock] = (),
    unknown: Iterable[UnknownPartition] = (),
    segments: LayoutPlan | None = None,
    acknowledge_order: bool = False,
) -> Plan:
    """Decide ranges and waves for the demand that is not yet planned.

    A slice is also cut at the stream's origin, so that the watermark always lies on a range's edge, and at its
    segments. Nothing is read past a declared seal. Offsets that retention has passed are left out and named in
    `blocked`; the rest goes on.
    """
    of = segments or LayoutPlan()
    streams: list[StreamDemand] = []
    pieces: list[tuple[PartitionSnapshot, OffsetRange]] = []
    refused = list(blocked)
    refused += [PlanBlock(topic=u.topic, partition=u.partition, reason=f"not observed: {u.reason}") for u in unknown]
    for item in asked:
        snapshot = item.snapshot
        record = known.get(snapshot.stream)
        origin = record.origin if record else item.origin
        streams.append(replace(item, origin=origin, version=record.version if record else None))
        limit = of.graph.limit(snapshot.stream)
        end = item.end if limit is None else min(item.end, limit)
        if item.start >= end:
            continue
        wanted = missing(OffsetRange(item.start, end), record.planned if record else RangeSet())
        expired = wanted & RangeSet.between(0, snapshot.log_start)
        for interval in expired:
            skip = remedies.skip(spec.name, Slice(snapshot.stream, interval))
            gone = f"offsets {interval} are gone: the log starts at {snapshot.log_start}. Skip them with: {skip}"
            refused.append(PlanBlock.of(snapshot.stream, gone))
        late = RangeSet() if acknowledge_order or record is None else _out_of_turn(of.graph, record, wanted - expired)
        for interval in late:
            way = remedies.run_below_origin(spec.name, Slice(snapshot.stream, interval))
            why = (
                f"offsets {interval} lie below the origin, and later segments do not wait for them: they may be in the "
                f"lake already. If their order does not matter: {way}"
            )
            refused.append(PlanBlock.of(snapshot.stream, why))
        for interval in wanted - expired - late:
            pieces += [(snapshot, part) for part in interval.split_at((origin, *of.graph.edges(snapshot.stream)))]
    waves = pack(plan_id, spec, pieces, weights=weights, levels=Levels(of.graph, known))
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
    """Return the offsets below the origin in segments that others continue: drained counts from the origin, so these
    others may be in the lake already."""
    below = wanted & RangeSet.between(0, record.origin)
    continued = (item for item in graph.of(record.key) if below and graph.descendants(item.key))
    return below & RangeSet(OffsetRange(item.start, item.seal or record.origin) for item in continued)


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
            ranges = (
                PlannedRange(
                    id=f"{wave_id}r{index}",
                    slice=Slice(snapshot.stream, part),
                    estimated_bytes=weights.bytes_of(snapshot.stream, part.span),
                )
                for index, (snapshot, part) in enumerate(batch)
            )
            waves.append(PlannedWave(id=wave_id, table=group[1], ranges=tuple(ranges)))
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
