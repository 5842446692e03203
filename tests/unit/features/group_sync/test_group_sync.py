"""A Kafka group that follows the watermarks: strictly forward, each generation its own, and never more than news."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.advance import sync_group
from airflow_kafka_lake.services.running import Run
from tests.gates import Before
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def mirrored() -> World:
    """A pipeline of two partitions with a group that follows it."""
    world = World(partitions=2)
    world.with_spec(sync_group="shown")
    world.produce(3, 0)
    world.produce(4, 1)
    return world


def told(world: World) -> dict[int, int | None]:
    """Return what the group has committed."""
    seen = world.kafka.snapshot(["orders"], "shown").partitions
    return {item.stream.partition: item.group_offset for item in seen}


def refusals(world: World, worker: Any = None) -> list[str]:
    done = sync_group(worker or world.worker(), world.spec)
    assert done is not None
    return sorted(done.refused.values())


def committed(run: Run) -> dict[int, int]:
    """Return what a run says that its group was told, by partition."""
    assert run.group is not None
    return {key.partition: offset for key, offset in run.group.committed.items()}


def test_group_follows_the_watermarks(mirrored: World) -> None:
    """After every advance the group has committed what is committed; without the key no group is told anything."""
    done = mirrored.run()
    assert told(mirrored) == {0: 3, 1: 4}
    assert committed(done) == {0: 3, 1: 4}
    mirrored.produce(2, 1)
    assert mirrored.run().exit_code == 0
    assert told(mirrored) == {0: 3, 1: 6}
    mirrored.with_spec(sync_group=None)
    assert sync_group(mirrored.worker(), mirrored.spec) is None


def test_group_follows_each_wave(mirrored: World) -> None:
    """Not the run alone; and the run says of each partition where its group is at the end."""
    mirrored.with_spec(max_wave_bytes=1, target_range_bytes=1)
    seen: list[dict[int, int | None]] = []
    done = mirrored.run(
        worker=mirrored.worker(lambda call: seen.append(told(mirrored)) if call == "runner.stage" else None)
    )
    assert sum(filter(None, seen[-1].values())) == len(seen) - 1
    assert committed(done) == {0: 3, 1: 4}


def test_group_that_is_ahead_is_never_moved_back(mirrored: World) -> None:
    """Who moved it had a reason; it is reported and left alone."""
    mirrored.kafka.commit_group("shown", "orders", 0, 9)
    assert mirrored.run().exit_code == 0
    assert told(mirrored) == {0: 9, 1: 4}
    assert any("the group is ahead: it has committed 9, the watermark is 3" in line for line in mirrored.said)


@pytest.mark.parametrize("state", [GroupOffsetState.UNSTABLE, GroupOffsetState.UNKNOWN])
def test_offset_that_is_not_known_is_not_written_over(mirrored: World, state: GroupOffsetState) -> None:
    """What cannot be compared could be ahead."""
    mirrored.kafka.commit_group("shown", "orders", 0, None, state)
    mirrored.run()
    assert told(mirrored) == {0: None, 1: 4}
    assert len(refusals(mirrored)) == 1


def test_refusal_of_the_broker_is_reported_and_fails_nothing(mirrored: World) -> None:
    """A group with consumers refuses quietly; the run is as good as without the mirror."""
    mirrored.kafka.consumed.add("shown")
    done = mirrored.run()
    assert done.exit_code == 0
    assert set(done.group.refused.values()) == {"UNKNOWN_MEMBER_ID"}
    assert committed(done) == {}
    assert told(mirrored) == {0: None, 1: None}
    mirrored.check()


@pytest.mark.parametrize("call", ["source.describe", "source.snapshot", "group_sync.commit"])
def test_cluster_out_of_reach_fails_nothing(mirrored: World, call: str) -> None:
    """The watermarks stand in the ledger, also when the group cannot be told."""
    mirrored.with_spec(sync_group=None)
    mirrored.run()
    mirrored.with_spec(sync_group="shown")
    away = Before(call, lambda: setattr(mirrored.kafka, "down", True))
    assert len(refusals(mirrored, mirrored.worker(away))) == 2


def test_new_topic_never_receives_an_old_offset(mirrored: World) -> None:
    """Neither when it was created again before the group is read, nor between reading and committing."""
    mirrored.with_spec(sync_group=None)
    mirrored.run()
    mirrored.with_spec(sync_group="shown")
    between = Before("group_sync.commit", lambda: mirrored.create("orders", 2))
    assert refusals(mirrored, mirrored.worker(between)) == ["another id", "another id"]
    assert told(mirrored) == {0: None, 1: None}
    assert refusals(mirrored) == []
    assert told(mirrored) == {0: None, 1: None}
    mirrored.produce(1, 0)
    mirrored.run()
    assert told(mirrored) == {0: 1, 1: 0}


def test_skipped_offsets_count_as_committed(mirrored: World) -> None:
    """The group is told the watermark, which passes what a person skipped."""
    mirrored.planned_wave()
    decisions.skip(
        mirrored.worker(), "orders", mirrored.stream(0), OffsetRange(0, 3), reason="x", acknowledge_order=True
    )
    mirrored.run()
    assert told(mirrored) == {0: 3, 1: 4}


def test_group_is_not_told_of_a_topic_of_which_nothing_is_known(mirrored: World) -> None:
    """It is refused with the reason, also where that is every topic: an answer with nothing in it would be "done"."""
    mirrored.run()
    mirrored.kafka.doubtful.add("orders")
    assert refusals(mirrored) == ["The brokers do not agree about 'orders'. Repeat."] * 2
