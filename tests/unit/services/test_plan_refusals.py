"""What a plan refuses, and what it leaves out because the log is not the one it was."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_lake.core.errors import (
    GroupOffsetError,
    KafkaLakeError,
    RangeBeyondEndError,
    RangeExpiredError,
    UnknownPartitionError,
    UnknownTopicError,
    UsageError,
)
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.services import decisions
from tests.unit.services.test_planning import pieces
from tests.world import World

pytestmark = pytest.mark.unit


def refused(world: World, bounds: Bounds, kind: type[KafkaLakeError]) -> str:
    """Plan what is refused, see that nothing was written, return the message."""
    state = world.ledger.snapshot()
    with pytest.raises(kind) as caught:
        world.plan(bounds)
    assert world.ledger.snapshot() == state
    return caught.value.message


def test_period_beyond_last_stable_is_refused(world: World) -> None:
    """Offsets of an open transaction cannot be asked for; the message names where to end."""
    world.produce(4)
    world.produce(2, transaction="open")
    assert "last stable offset 4" in refused(world, Bounds(start=0, end=5), RangeBeyondEndError)
    assert "offset 7 is beyond" in refused(world, Bounds(start=7), RangeBeyondEndError)
    assert pieces(world.plan(Bounds(start=0, end=4))) == [(0, OffsetRange(0, 4))]


def test_expired_period_is_refused(world: World) -> None:
    """What retention has passed cannot be asked for, unless it is committed already."""
    world.produce(6)
    world.run(Bounds(start=0, end=2))
    world.retain_from(4)
    assert "offsets 2-4 are gone" in refused(world, Bounds(start=0, end=6), RangeExpiredError)
    assert pieces(world.plan(Bounds(start=4, end=6))) == [(0, OffsetRange(4, 6))]


def test_expired_period_names_all_partitions_with_a_gap_and_those_without() -> None:
    """Who corrects one partition after the other would be refused as often."""
    world = World(4)
    for partition in range(4):
        world.produce(6, partition)
    for partition in (1, 2, 3):
        world.retain_from(partition, partition)
    message = refused(world, Bounds(start=1, end=6), RangeExpiredError)
    assert message.startswith("orders partition 2: offsets 1-2 are gone")
    assert message.endswith("The same in orders/3. Without offsets that are gone: --partition 0 1")
    assert len(pieces(world.plan(Bounds(start=1, end=6, partitions=(0, 1))))) == 2


@pytest.mark.parametrize(("start", "end"), [(3, 3), (4, 2)])
def test_from_at_or_after_to_is_refused(world: World, start: int, end: int) -> None:
    """A range is half-open and never empty."""
    world.produce(6)
    assert f"from {start} is not before to {end}" in refused(world, Bounds(start=start, end=end), UsageError)


def test_period_by_time_that_ends_before_it_begins_is_refused(world: World) -> None:
    """The same by time."""
    world.produce(6)
    now = world.clock.now()
    refused(world, Bounds(start=now, end=now - timedelta(seconds=1)), UsageError)


def test_zero_partitions_is_refused(world: World) -> None:
    """Naming no partition is a mistake, not everything and not nothing."""
    assert "no partition was named" in refused(world, Bounds(partitions=()), UsageError)


def test_unknown_topic_and_partition_are_refused(world: World) -> None:
    """The message names what there is."""
    world.produce(1)
    assert "it has orders" in refused(world, Bounds(topic="order"), UnknownTopicError)
    assert "it has 0 to 0" in refused(world, Bounds(partitions=(1,)), UnknownPartitionError)
    world.with_spec(topics=("nothing",))
    refused(world, Bounds(), UnknownTopicError)
    world.with_spec(topics=(), topic_pattern="nothing.*")
    refused(world, Bounds(), UnknownTopicError)


def test_group_without_an_offset_is_refused(world: World) -> None:
    """Where a policy needs a group's offset, none is not zero."""
    world.with_spec(start=Policy(kind=PolicyKind.GROUP, group="live"))
    world.produce(1)
    assert "has no committed offset" in refused(world, Bounds(), GroupOffsetError)


def test_offsets_file_must_name_every_partition(world: World) -> None:
    """A partition that an explicit policy forgets has no start."""
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 1, 0),)))
    assert "names no offset for orders partition 0" in refused(world, Bounds(), UsageError)


def test_retention_that_passed_unplanned_offsets_blocks_only_them(world: World) -> None:
    """Following names what is gone with the command that leads out, and goes on behind it."""
    world.produce(3)
    world.run()
    world.produce(6)
    world.retain_from(5)
    plan = world.plan()
    assert pieces(plan) == [(0, OffsetRange(5, 9))]
    assert "offsets 3-5 are gone" in plan.blocked[0].reason
    assert "--from 3 --to 5" in plan.blocked[0].reason
    assert world.run().exit_code == 1
    assert world.stream().watermark == 3
    decisions.skip(
        world.worker(), "orders", world.stream(), OffsetRange(3, 5), reason="expired", acknowledge_order=False
    )
    assert world.run().exit_code == 0
    world.check()
    assert world.stream().watermark == 9


def test_shrunken_log_blocks_that_partition_only() -> None:
    """A log that ends earlier than it did has lost records: a stop for this partition, nothing for the others, until a
    person gives up what is lost, and also when the log has grown again."""
    world = World(partitions=2)
    world.produce(5, 0)
    world.produce(5, 1)
    world.run()
    world.kafka.log("orders", 0).truncate(3)
    world.produce(1, 1)
    plan = world.plan()
    assert pieces(plan) == [(1, OffsetRange(5, 6))]
    assert [item.partition for item in plan.blocked] == [0]
    assert "the log ends at 3, it ended at 5 before" in plan.blocked[0].reason
    world.kafka.produce("orders", 0, *[b"written again"] * 4)
    (stop,) = world.plan().blocked
    assert stop.reason.startswith("LogRewrittenError: the log was cut at 3 after leader epoch 0 had reached 5")
    assert "--partition 0 --from 3 --to 5 --reason" in stop.reason
    accept = {"reason": "lost", "acknowledge_order": False}
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(4, 5), **accept)
    assert world.plan().blocked, "a skip that does not reach down to the cut accepts nothing"
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(3, 5), **accept)
    plan = world.plan()
    assert pieces(plan) == [(0, OffsetRange(5, 7))]
    assert plan.blocked == ()


def test_recreated_topic_is_blocked_until_its_old_generation_is_resolved(world: World) -> None:
    """A new id is a new stream from its log start; what is left of the old one is decided first."""
    world.produce(5)
    world.run(Bounds(start=0, end=3))
    old = world.stream()
    world.create("orders")
    world.produce(2)
    plan = world.plan()
    assert plan.waves == ()
    (blocked,) = plan.blocked
    assert f"--topic-id={old.key.topic_id} --partition 0 --from 3 --to 5" in blocked.reason
    assert "--acknowledge-order" in blocked.reason
    decisions.skip(world.worker(), "orders", old, OffsetRange(3, 5), reason="gone", acknowledge_order=True)
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets() == [0, 1]
    assert (world.stream().origin, world.stream().watermark) == (0, 2)


def test_partition_that_a_recreated_topic_lacks_is_not_forgotten() -> None:
    """What is left of it is decided before a partition of the new topic goes on."""
    world = World(3)
    for partition in range(3):
        world.produce(5, partition)
    world.run(Bounds(partitions=(0, 1)))
    world.run(Bounds(partitions=(2,), start=0, end=3))
    old = world.stream(2)
    world.create("orders", 2)
    world.produce(2)
    plan = world.plan()
    assert [(item.topic, item.partition) for item in plan.blocked] == [("orders", 0)]
    (blocked,) = plan.blocked
    assert "committed only up to 3 of 5 in its partition 2" in blocked.reason
    assert f"--topic-id={old.key.topic_id} --partition 2 --from 3 --to 5" in blocked.reason
    decisions.skip(world.worker(), "orders", old, OffsetRange(3, 5), reason="gone", acknowledge_order=True)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1]


def test_recreated_topic_with_everything_committed_goes_on_by_itself(world: World) -> None:
    """No person needs to decide about an old generation that is complete."""
    world.produce(3)
    world.run()
    world.create("orders")
    world.produce(2)
    assert world.run().exit_code == 0
    world.check()
    assert len(world.table.rows()) == 5
