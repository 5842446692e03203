"""Generated offsets, streams and worlds: small numbers, so that edges meet often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import strategies as st

from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.planning.plan import Plan, StreamDemand, Weights, build_plan
from airflow_kafka_lake.core.spec import PipelineSpec

TOP = 60
"""Offsets stay below this."""

offsets = st.integers(min_value=0, max_value=TOP)


def as_set(ranges: Iterable[OffsetRange]) -> set[int]:
    """Return the offsets one by one: the model everything is compared with."""
    return {offset for item in ranges for offset in range(item.start, item.end)}


@st.composite
def offset_ranges(draw: st.DrawFn, top: int = TOP) -> OffsetRange:
    """Draw a range below `top`."""
    start = draw(st.integers(min_value=0, max_value=top - 1))
    return OffsetRange(start, draw(st.integers(min_value=start + 1, max_value=top)))


def range_sets() -> st.SearchStrategy[RangeSet]:
    """Draw a set of up to six ranges, which may overlap, touch and lie apart."""
    return st.lists(offset_ranges(), max_size=6).map(RangeSet)


@st.composite
def partitions_of_a_stream(draw: st.DrawFn) -> list[OffsetRange]:
    """Draw `[0, n)` cut into neighbouring ranges: what a stream's plan looks like."""
    edges = sorted(draw(st.sets(st.integers(min_value=1, max_value=TOP), min_size=1, max_size=10)))
    return [OffsetRange(a, b) for a, b in zip([0, *edges], edges, strict=False)]


explanations = st.lists(
    st.builds(lambda item, fate: Explanation(range=item, fate=fate), offset_ranges(), st.sampled_from(Fate)), max_size=8
)

slices = st.lists(
    st.builds(
        lambda topic, partition, item: Slice(Stream(topic, f"id-{topic}", partition), item),
        st.sampled_from(["a", "b"]),
        st.integers(min_value=0, max_value=2),
        offset_ranges(),
    ),
    max_size=12,
)


@dataclass(frozen=True, kw_only=True)
class World:
    """All that a plan is made from."""

    spec: PipelineSpec
    asked: tuple[StreamDemand, ...]
    known: dict[Stream, StreamRecord]
    weights: Weights

    def plan(self) -> Plan:
        """Plan this world."""
        return build_plan(
            "p1", self.spec, datetime(2026, 1, 31, tzinfo=UTC), asked=self.asked, known=self.known, weights=self.weights
        )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw streams with bounds, some of them known and partly planned, and sizes that cut and pack them."""
    streams = draw(st.sets(st.tuples(st.sampled_from(["a", "b.c"]), st.integers(0, 2)), min_size=1, max_size=4))
    target = draw(st.integers(min_value=1, max_value=400))
    spec = PipelineSpec(
        name="orders",
        topics=("a", "b.c"),
        table=draw(st.sampled_from(["raw.all", "raw.{topic}"])),
        target_range_bytes=target,
        max_wave_bytes=draw(st.integers(min_value=target, max_value=1200)),
    )
    weight = st.one_of(st.sampled_from([0.01, 1.0, 1000.0]), st.floats(min_value=0.001, max_value=50.0))
    asked: list[StreamDemand] = []
    known: dict[Stream, StreamRecord] = {}
    for topic, partition in sorted(streams):
        snapshot = draw(_snapshots(topic, partition))
        origin = draw(offsets)
        asked.append(
            StreamDemand(snapshot=snapshot, origin=origin, start=draw(offsets), end=draw(offsets), reason="drawn")
        )
        if draw(st.booleans()):
            known[snapshot.stream] = _record(snapshot, origin=draw(offsets), planned=draw(range_sets()))
    weights = Weights(
        by_stream={item.snapshot.stream: draw(weight) for item in asked if draw(st.booleans())}, fallback=draw(weight)
    )
    return World(spec=spec, asked=tuple(draw(st.permutations(asked))), known=known, weights=weights)


@st.composite
def _snapshots(draw: st.DrawFn, topic: str, partition: int) -> PartitionSnapshot:
    log_start, last_stable, high_watermark = sorted(draw(st.tuples(offsets, offsets, offsets)))
    return PartitionSnapshot(
        stream=Stream(topic, f"id-{topic}", partition),
        leader_epoch=0,
        log_start=log_start,
        last_stable=last_stable,
        high_watermark=high_watermark,
    )


def _record(snapshot: PartitionSnapshot, *, origin: int, planned: RangeSet) -> StreamRecord:
    return StreamRecord(
        pipeline="orders",
        key=snapshot.stream,
        origin=origin,
        watermark=origin,
        version=1,
        planned=planned,
        covered=RangeSet(),
        end_seen=0,
    )
