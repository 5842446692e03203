"""A plan covers exactly what is missing, in pieces and waves of the sizes that were asked for."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from airflow_kafka_lake.core.planning.plan import Plan, cut
from tests.properties.strategies import World, as_set, offset_ranges, worlds

pytestmark = pytest.mark.properties


def _by_stream(plan: Plan) -> dict[Stream, list[OffsetRange]]:
    found: dict[Stream, list[OffsetRange]] = defaultdict(list)
    for item in plan.ranges:
        found[item.stream].append(item.range)
    return found


def _wanted(world: World) -> dict[Stream, set[int]]:
    wanted = {}
    for item in world.asked:
        record = world.known.get(item.snapshot.stream)
        wanted[item.snapshot.stream] = set(range(item.start, item.end)) - as_set(record.planned if record else ())
    return wanted


@given(worlds())
def test_plan_covers_exactly_what_is_missing(world: World) -> None:
    """The union of the planned ranges is asked minus planned minus expired, and no offset is in two of them."""
    ranges = _by_stream(world.plan())
    wanted = _wanted(world)
    assert set(ranges) <= set(wanted)
    for item in world.asked:
        key = item.snapshot.stream
        readable = {offset for offset in wanted[key] if offset >= item.snapshot.log_start}
        assert as_set(ranges[key]) == readable
        assert sum(piece.span for piece in ranges[key]) == len(readable)


@given(worlds())
def test_every_expired_slice_is_named(world: World) -> None:
    """What a plan leaves out because retention has passed is in `blocked`, slice by slice, and nothing else is."""
    expected = set()
    for item in world.asked:
        gone = {offset for offset in _wanted(world)[item.snapshot.stream] if offset < item.snapshot.log_start}
        for slice_ in RangeSet(OffsetRange(offset, offset + 1) for offset in gone):
            expected.add((item.snapshot.stream.topic, item.snapshot.stream.partition, f"offsets {slice_} are gone"))
    blocked = world.plan().blocked
    assert {(item.topic, item.partition, item.reason.partition(":")[0]) for item in blocked} == expected
    assert len(blocked) == len(expected)


@given(worlds())
def test_waves_keep_the_limits(world: World) -> None:
    """A range is at most the target plus one offset, a wave at most its limit unless it is a single range."""
    spec = world.spec
    for wave in world.plan().waves:
        assert wave.ranges
        assert {spec.table_for(item.stream.topic) for item in wave.ranges} == {wave.table}
        assert sum(item.estimated_bytes for item in wave.ranges) <= spec.max_wave_bytes or len(wave.ranges) == 1
        for item in wave.ranges:
            one = world.weights.by_stream.get(item.stream, world.weights.fallback)
            assert item.estimated_bytes <= spec.target_range_bytes + math.ceil(one) + 2


@given(worlds())
def test_streams_are_planned_in_order(world: World) -> None:
    """Within a stream, earlier offsets are never in a later wave; no range crosses the origin."""
    plan = world.plan()
    for ranges in _by_stream(plan).values():
        assert all(left.end <= right.start for left, right in pairwise(ranges))
    origins = {stream.snapshot.stream: stream.origin for stream in plan.streams}
    for item in plan.ranges:
        assert not item.range.start < origins[item.stream] < item.range.end


@given(worlds())
def test_ids_are_unique_and_tell_their_wave(world: World) -> None:
    """Ids are strings without spaces that never repeat within a plan."""
    plan = world.plan()
    ids = [wave.id for wave in plan.waves] + [item.id for item in plan.ranges]
    assert len(set(ids)) == len(ids)
    assert not any(" " in name for name in ids)


@given(worlds())
def test_planning_again_plans_nothing(world: World) -> None:
    """Once recorded, the same question has an empty answer."""
    plan = world.plan()
    ranges = _by_stream(plan)
    known = {
        key: dataclasses.replace(record, planned=record.planned | RangeSet(ranges[key]))
        for key, record in world.known.items()
    }
    asked = tuple(item for item in world.asked if item.snapshot.stream in known)
    again = dataclasses.replace(world, known=known, asked=asked).plan()
    assert again.waves == ()
    assert again.changes_nothing


@given(worlds(), st.randoms(use_true_random=False))
def test_order_of_the_question_does_not_matter(world: World, random: object) -> None:
    """The same streams in another order make the same waves."""
    shuffled = list(world.asked)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert dataclasses.replace(world, asked=tuple(shuffled)).plan().waves == world.plan().waves


@given(offset_ranges(), st.floats(min_value=0.0001, max_value=1e6), st.integers(min_value=1, max_value=10**6))
def test_cut_is_even_and_complete(slice_: OffsetRange, weight: float, target: int) -> None:
    """Pieces follow each other from start to end, differ by at most one offset, and are not more than needed."""
    pieces = cut(slice_, weight, target)
    assert (pieces[0].start, pieces[-1].end) == (slice_.start, slice_.end)
    assert all(left.end == right.start for left, right in pairwise(pieces))
    spans = [piece.span for piece in pieces]
    assert max(spans) - min(spans) <= 1
    assert weight * max(spans) <= target + weight + 1
    assert len(pieces) <= max(1, math.ceil(weight * slice_.span / target))
