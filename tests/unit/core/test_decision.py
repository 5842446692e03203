"""A plan is a function of facts: nothing is asked, and what is asked next follows from what is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Sample, Snapshot
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.costs import heaviest
from airflow_kafka_lake.core.planning.decision import (
    Observation,
    PlanFacts,
    decide,
    start_group,
    start_offsets,
    want,
)
from airflow_kafka_lake.core.planning.plan import PlanBlock
from airflow_kafka_lake.core.planning.policies import Bounds, Times
from airflow_kafka_lake.core.spec import PipelineSpec, Policy, PolicyKind

pytestmark = pytest.mark.unit

SPEC = PipelineSpec(name="orders", topics=("orders",), table="raw.orders")
ID = "A" * 22


def partition(number: int, end: int, start: int = 0) -> PartitionSnapshot:
    """A partition that holds [start, end)."""
    stream = Stream("orders", ID, number)
    return PartitionSnapshot(stream=stream, leader_epoch=0, log_start=start, last_stable=end, high_watermark=end)


def facts(*partitions: PartitionSnapshot, bounds: Bounds | None = None, **more: object) -> PlanFacts:
    """What is known of a pipeline that has planned nothing yet."""
    snapshot = Snapshot(observed_at=datetime(2026, 1, 1, tzinfo=UTC), partitions=partitions)
    return PlanFacts(
        plan_id="p",
        spec=SPEC,
        bounds=bounds or Bounds(),
        seen=Observation(snapshot=snapshot, selected=partitions, known={}, **more),  # type: ignore[arg-type]
        times=Times({}),
        starts={},
        ends={},
        graph=Graph(()),
        layouts=(),
        costs=(),
    )


def test_plan_follows_from_facts_and_a_sample() -> None:
    """The same ones give the same plan; what is sampled weighs what is planned."""
    known = facts(partition(0, 10), partition(1, 4))
    wanted = want(known)
    assert [str(item) for item in heaviest(wanted.slices)] == ["orders/0 0-10", "orders/1 0-4"]
    sample = Sample(stream=Stream("orders", ID, 0), bytes_per_offset=100.0, first_timestamp_ms=None)
    plan = decide(known, wanted, [sample])
    assert plan == decide(known, want(known), [sample])
    assert [(str(item.slice), item.estimated_bytes) for item in plan.ranges] == [
        ("orders/0 0-10", 1000),
        ("orders/1 0-4", 400),
    ]


@pytest.mark.parametrize(
    ("end", "blocked", "empty"),
    [(0, (), True), (3, (), False), (0, (PlanBlock(topic="others", partition=None, reason="gone"),), False)],
)
def test_period_holds_nothing_only_where_everything_was_looked_at(
    end: int, blocked: tuple[PlanBlock, ...], *, empty: bool
) -> None:
    """What could not be looked at may have lain in it."""
    wanted = want(facts(partition(0, end), bounds=Bounds(start=0), blocked=blocked))
    assert wanted.holds_nothing is empty


def test_start_group_is_asked_for_new_streams_only_and_where_it_is_another() -> None:
    """The end policy's group was observed with the partitions."""
    mine, others = Policy(kind=PolicyKind.GROUP, group="mine"), Policy(kind=PolicyKind.GROUP, group="others")
    seen = facts(partition(0, 3)).seen
    assert start_group(replace(SPEC, start=mine, end=others), seen) == "mine"
    assert start_group(replace(SPEC, start=mine, end=mine), seen) is None
    assert start_group(replace(SPEC, start=mine, end=others), replace(seen, selected=())) is None


def test_partition_that_a_group_says_nothing_of_has_no_offset() -> None:
    """What the other group has there is none of its own."""
    other = replace(partition(0, 3), group_offset=2, group_offset_state=GroupOffsetState.KNOWN)
    (found,) = start_offsets(facts(other).seen, ()).values()
    assert (found.group_offset, found.group_offset_state) == (None, GroupOffsetState.UNKNOWN)
