"""Periods by offset and by time, several partitions and whole topics: each stream by itself, all or none of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    RangeBeyondEndError,
    RangeExpiredError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.planning.selection import SelectedSlice, Selection
from airflow_kafka_lake.services import decisions, reopening
from airflow_kafka_lake.services.stream_choice import all_or_nothing, choose, one_by_one
from tests.gates import Before
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> World:
    """Two partitions of three old records and then two new ones, all in the lake."""
    world = World(2)
    for partition in (0, 1):
        world.produce(3, partition)
    world.clock.advance(timedelta(hours=1))
    for partition in (0, 1):
        world.produce(2, partition)
    assert world.run().exit_code == 0
    return world


def chosen(world: World, **selection: object) -> list[str]:
    """Return what a selection means, in words."""
    return [str(item) for item in choose(world.worker(), "orders", Selection(topic="orders", **selection))]  # type: ignore[arg-type]


def test_whole_topic_is_meant_where_no_partition_is_named(world: World) -> None:
    """By offset the same slice of each; by time what each has of the period, to the end of its log."""
    assert chosen(world, start=1, end=4) == ["orders/0 1-4", "orders/1 1-4"]
    hour_ago = world.clock.now() - timedelta(minutes=30)
    assert chosen(world, start=hour_ago, end=world.clock.now() + timedelta(days=1)) == ["orders/0 3-5", "orders/1 3-5"]
    assert chosen(world, partitions=frozenset({1}), start=0, end=hour_ago) == ["orders/1 0-3"]


def test_period_by_time_says_how_times_choose_offsets(world: World) -> None:
    """And which partitions have none; offsets need no such word."""
    world.said.clear()
    chosen(world, start=1, end=4)
    assert world.said == []
    world.clock.advance(timedelta(days=2))
    world.produce(1, 1)
    yesterday = world.clock.now() - timedelta(days=1)
    assert chosen(world, start=yesterday, end=world.clock.now() + timedelta(days=1)) == ["orders/1 5-6"]
    assert world.said[0].startswith("by time: from each partition's first record at or after its begin")
    assert world.said[1] == "no offset of the period lies in orders/0"


def test_period_without_an_offset_is_refused(world: World) -> None:
    """A wrong year is said; so is a partition that the pipeline has not."""
    later = world.clock.now() + timedelta(days=365)
    with pytest.raises(UsageError, match="no partition of orders has an offset in this period"):
        chosen(world, start=later, end=later + timedelta(days=1))
    with pytest.raises(UnknownSubjectError, match="has no stream orders/7"):
        chosen(world, partitions=frozenset({0, 7}), start=0, end=1)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_period_whose_records_retention_takes_while_it_is_asked_for_is_refused(world: World, nth: int) -> None:
    """The rest of it would be taken for all of it."""
    hour_ago = world.clock.now() - timedelta(minutes=30)
    worker = world.worker(Before("source.offsets_at", lambda: world.retain_from(4), nth=nth))
    period = Selection(topic="orders", start=hour_ago, end=world.clock.now() + timedelta(seconds=1))
    with pytest.raises((UnavailableError, RangeExpiredError), match=r"Kafka deleted records of orders/0|are gone"):
        choose(worker, "orders", period)


def test_reopen_of_a_topic_is_shown_and_then_done(world: World) -> None:
    """The dry run counts offsets, rows and waves and changes nothing; then every partition is read again."""
    ports = world.worker()
    some = choose(ports, "orders", Selection(topic="orders", start=1, end=4))
    before = world.ledger.snapshot()
    prepared = all_or_nothing(
        some, lambda item: reopening.prepare(ports, world.spec, item.stream, item.interval, reason="again")
    )
    assert [(part.offsets, part.rows, len(part.waves), part.watermark) for part in prepared] == [(3, 3, 1, 1)] * 2
    assert world.ledger.snapshot() == before
    one_by_one(some, prepared, lambda part: reopening.carry_out(ports, world.spec, part))
    assert [world.stream(partition).watermark for partition in (0, 1)] == [1, 1]
    done = world.run()
    assert (done.exit_code, sum(wave.rows or 0 for wave in done.waves)) == (0, 6)
    world.check()


def test_nothing_is_done_while_any_part_is_refused(world: World) -> None:
    """Each refusal is named; one partition alone is refused in its own words."""
    world.produce(2, 1)
    world.plan()
    ports = world.worker()
    some = choose(ports, "orders", Selection(topic="orders", start=3, end=7))

    def prepare(item: SelectedSlice) -> reopening.PreparedReopen:
        return reopening.prepare(ports, world.spec, item.stream, item.interval, reason="again")

    with pytest.raises(StateError, match=r"nothing was done: 2 of 2 .* orders/0 3-7: .*; orders/1 3-7: range 5-7 "):
        all_or_nothing(some, prepare)
    with pytest.raises(StateError, match=r"^offsets 5-7 of orders/0"):
        all_or_nothing(some[:1], prepare)
    assert [stream.watermark for stream in world.ledger.streams("orders")] == [5, 5]


def test_what_was_done_before_a_failure_is_named(world: World) -> None:
    """Each partition is one decision; what comes between leaves the rest as it was, to be repeated."""
    ports = world.worker()
    some = choose(ports, "orders", Selection(topic="orders", start=1, end=4))
    prepared = [reopening.prepare(ports, world.spec, i.stream, i.interval, reason="again") for i in some]
    decisions.skip(ports, "orders", some[1].stream, some[1].interval, reason="meanwhile", acknowledge_order=False)
    with pytest.raises(ConcurrentError, match=r"Done: orders/0 1-4\. Not done: orders/1 1-4\. Repeat") as failed:
        one_by_one(some, prepared, lambda part: reopening.carry_out(ports, world.spec, part))
    assert failed.value.facts == {"done": ["orders/0 1-4"], "not_done": ["orders/1 1-4"]}
    assert [world.stream(partition).watermark for partition in (0, 1)] == [1, 5]


def test_skip_is_shown_before_it_is_done(world: World) -> None:
    """How many offsets it would pass, from which waves, and what would go on; beyond the log it is refused."""
    world.produce(4, 0)
    wave = world.planned_wave()
    ports, stream = world.worker(), world.stream(0)
    (some,) = choose(ports, "orders", Selection(topic="orders", partitions=frozenset({0}), start=3, end=7))
    before = world.ledger.snapshot()
    shown = decisions.preview_skip(ports, "orders", some.stream, some.interval, reason="bad")
    assert (shown.offsets, shown.waves, shown.fenced, shown.goes_on) == (2, (wave,), (), RangeSet())
    assert world.ledger.snapshot() == before
    done = decisions.skip(ports, "orders", stream, some.interval, reason="bad", acknowledge_order=False)
    assert done.offsets == shown.offsets
    (beyond,) = choose(ports, "orders", Selection(topic="orders", partitions=frozenset({0}), start=3, end=70))
    with pytest.raises(RangeBeyondEndError):
        decisions.preview_skip(ports, "orders", beyond.stream, beyond.interval, reason="bad")


def test_skip_shows_what_would_go_on(world: World) -> None:
    """What is held for the offsets that are passed."""
    world.produce(4, 0)
    wave = world.planned_wave()
    world.runner.tamper = lambda rows: [row for row in rows if row[3] != 6]
    with pytest.raises(Exception, match="held"):
        world.ingest(wave)
    (some,) = choose(world.worker(), "orders", Selection(topic="orders", partitions=frozenset({0}), start=6, end=7))
    shown = decisions.preview_skip(world.worker(), "orders", some.stream, some.interval, reason="bad")
    assert (shown.offsets, shown.goes_on) == (1, RangeSet.of((5, 6), (7, 9)))
