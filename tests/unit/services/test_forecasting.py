"""What a plan weighs, in Kafka's bytes and in the lake's, and how long it will take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.planning.plan import Plan
from tests.world import SPEC, World

pytestmark = pytest.mark.unit

KIB = 1024


def fill(world: World, count: int, size: int, topic: str = "orders") -> None:
    """Append records of one size, half of it the key."""
    for _ in range(count):
        world.kafka.produce(topic, 0, b"v" * (size // 2), key=b"k" * (size // 2))


def bytes_of(plan: Plan, topic: str) -> int:
    return sum(item.estimated_bytes for item in plan.ranges if item.stream.topic == topic)


def test_waves_without_rows_do_not_make_the_backlog_one_range() -> None:
    """What ten waves of aborted records wrote to the lake says nothing of the weight of Kafka's next records."""
    world = World(spec=replace(SPEC, target_range_bytes=10 * KIB, max_wave_bytes=20 * KIB))
    for number in range(10):
        world.produce(2, transaction=f"bad {number}")
        world.end(f"bad {number}", commit=False)
        world.run()
    fill(world, 100, KIB)
    plan = world.plan()
    assert (len(plan.ranges), len(plan.waves)) == (10, 5)
    assert plan.forecast.bytes == 100 * KIB
    assert all(sum(item.estimated_bytes for item in wave.ranges) <= 20 * KIB for wave in plan.waves)


def test_empty_records_weigh_something() -> None:
    """Tombstones without a key are cut into ranges too: each is an offset to read, to write and to account for."""
    world = World(spec=replace(SPEC, target_range_bytes=KIB))
    world.kafka.produce("orders", 0, *[None] * 1000)
    plan = world.plan()
    assert plan.forecast.bytes == 16_000
    assert len(plan.ranges) == 16


def test_bytes_are_kafkas_after_the_first_run_too(world: World) -> None:
    """Rows that take five times the room in the lake make the next plan no heavier; the lake's bytes have a name."""
    fill(world, 10, 16)
    first = world.plan().forecast
    assert (first.bytes, first.bytes_state) == (160, "from a sample of reads")
    assert (first.lake_bytes, first.lake_bytes_state) == (None, "not known before a wave with rows has committed")
    world.run()
    written = world.table.rows()[0].weight
    fill(world, 20, 16)
    then = world.plan().forecast
    assert (then.bytes, then.bytes_state) == (320, "from a sample of reads")
    assert (then.lake_bytes, then.lake_bytes_state) == (20 * written, "from the last waves")


def test_each_topic_has_its_own_weight() -> None:
    """Heavy records do not make light ones heavy, and a topic of many partitions does not hide one of few."""
    world = World(spec=replace(SPEC, topics=("heavy", "light"), table="raw.{topic}"))
    world.create("heavy")
    world.create("light", 40)
    fill(world, 5, 10 * KIB, "heavy")
    for partition in range(40):
        world.kafka.produce("light", partition, *[b"v" * 100] * 10)
    plan = world.plan()
    assert (bytes_of(plan, "heavy"), bytes_of(plan, "light")) == (50 * KIB, 40_000)
    world.run()
    written = {topic: world.lake.table(f"raw.{topic}").rows()[0].weight for topic in ("heavy", "light")}
    fill(world, 5, 10 * KIB, "heavy")
    heavy = world.plan().forecast
    world.kafka.produce("light", 0, *[b"v" * 100] * 10)
    light = world.plan().forecast
    assert (heavy.bytes, light.bytes) == (50 * KIB, 1000)
    assert heavy.lake_bytes == 5 * written["heavy"]
    assert light.lake_bytes == 10 * written["light"]


def test_a_topic_that_gives_no_record_weighs_what_it_weighed_before() -> None:
    """The reads have a bound: what they leave out is taken from the topic's earlier plans, not from other topics."""
    world = World(spec=replace(SPEC, topics=("big", "quiet")))
    world.create("big")
    world.create("quiet")
    fill(world, 5, 10 * KIB, "big")
    fill(world, 5, 100, "quiet")
    world.run()
    fill(world, 5, 10 * KIB, "big")
    world.kafka.produce("quiet", 0, *[b"v"] * 5, transaction="bad")
    world.kafka.end("bad", commit=False)
    plan = world.plan()
    assert (bytes_of(plan, "big"), bytes_of(plan, "quiet")) == (50 * KIB, 600)
    assert plan.forecast.bytes_state == "from a sample of reads, of 1 topic from earlier plans"
