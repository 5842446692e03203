"""Answers that are partial, of another moment or of another broker: never taken for the whole of it (law L5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.actions.offsets import WithdrawAction
from airflow_kafka_lake.core.errors import (
    GroupOffsetError,
    RangeBeyondEndError,
    RangeExpiredError,
    TopicRecreatedError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection, StreamScope
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.stream_choice import choose
from airflow_kafka_lake.triggers import WatermarkTrigger
from tests.unit.services.test_identity import held_reasons
from tests.world import World

pytestmark = pytest.mark.unit

Answer = Callable[..., Snapshot]


@pytest.fixture
def two() -> World:
    """Two partitions with five records each."""
    world = World(partitions=2)
    world.produce(5, 0)
    world.produce(5, 1)
    return world


def without(answer: Answer, partition: int, *, group: str | None = None, reason: str = "") -> Answer:
    """Return how Kafka answers when a partition is left out, or unknown for a reason, in questions about a group."""

    def answered(topics: Sequence[str], asked: str | None, only: Collection[tuple[str, int]] | None = None) -> Snapshot:
        seen = answer(topics, asked, only)
        if group not in (None, asked):
            return seen
        rest = tuple(item for item in seen.partitions if item.stream.partition != partition)
        unknown = (UnknownPartition(topic=topics[0], partition=partition, reason=reason),) if reason else ()
        return replace(seen, partitions=rest, unknown=unknown)

    return answered


def test_known_partition_that_an_answer_leaves_out_is_unknown(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is behind tells fewer partitions: the others are read, and it is no "nothing to do"."""
    two.run()
    two.produce(2, 0)
    two.produce(2, 1)
    with monkeypatch.context() as patch:
        patch.setattr(two.kafka, "snapshot", without(two.kafka.snapshot, 1))
        done = two.run()
        assert (done.exit_code, two.stream(0).watermark, two.stream(1).watermark) == (1, 7, 5)
        assert done.held == ("orders/1: not observed: Kafka's answer leaves it out, repeat the call",)
        assert [item.partition for item in two.plan(Bounds(partitions=(1,))).blocked] == [1]
    assert two.run().exit_code == 0
    two.check()


def test_offset_of_the_end_policys_group_is_no_origin(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the start policy's group could not be asked, a stream does not begin at the end policy's group."""
    first, last = (Policy(kind=PolicyKind.GROUP, group=name) for name in ("first", "last"))
    two.with_spec(start=first, end=last)
    for partition in (0, 1):
        two.kafka.commit_group("first", "orders", partition, 1)
        two.kafka.commit_group("last", "orders", partition, 4)
    with monkeypatch.context() as patch:
        asked = without(two.kafka.snapshot, 1, group="first", reason="it has no leader now")
        patch.setattr(two.kafka, "snapshot", asked)
        with pytest.raises(UnavailableError, match="group 'first' on orders partition 1 could not be read"):
            two.run()
    assert two.run().exit_code == 0
    assert two.offsets(0) == two.offsets(1) == [1, 2, 3]


def test_group_that_is_beyond_the_end_is_no_origin(two: World) -> None:
    """It is where another log was: what is written up to there would be passed unread."""
    two.with_spec(start=Policy(kind=PolicyKind.GROUP, group="live"))
    two.kafka.commit_group("live", "orders", 0, 5)
    two.kafka.commit_group("live", "orders", 1, 1000)
    done = two.run()
    assert done.exit_code == 1
    assert "committed offset 1000 on orders partition 1, and the log ends at 5" in done.held[0]
    assert [item.key.partition for item in two.ledger.streams("orders")] == [0]
    with pytest.raises(GroupOffsetError):
        two.plan(Bounds(partitions=(1,)))


def test_offsets_file_that_starts_beyond_the_end_is_refused(world: World) -> None:
    """A start that the log has not reached is a mistake; its very end is none."""
    world.produce(3)
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 4),)))
    with pytest.raises(RangeBeyondEndError, match="starts orders partition 0 at 4, and the log ends at 3"):
        world.plan()
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 3),)))
    world.produce(1)
    assert world.run().exit_code == 0
    assert world.offsets() == [3]


def test_leader_that_was_replaced_proves_no_loss(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is lower and its epoch older: nothing is held for it, and nothing is to be skipped."""
    world.produce(5)
    (stale,) = world.kafka.snapshot(["orders"], None).partitions
    world.kafka.log("orders", 0).elect()
    world.produce(5)
    wave = world.planned_wave()
    with monkeypatch.context() as patch:
        patch.setattr(world.kafka, "snapshot", told(world, stale))
        with pytest.raises(UnavailableError, match="seen under leader epoch 1, and the broker that answers"):
            world.ingest(wave)
        (stop,) = world.plan().blocked
        assert stop.reason.startswith("not observed: orders/0 was seen under leader epoch 1")
    assert held_reasons(world) == []
    assert world.ingest(wave).state is WaveState.COMMITTED
    world.advance()
    world.check()


def test_cluster_that_was_set_back_is_led_out_of_by_a_skip(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older epoch that stays is believed when a person passes what is lost; what follows is read."""
    world.kafka.log("orders", 0).elect()
    world.produce(5)
    world.run()
    (seen,) = world.kafka.snapshot(["orders"], None).partitions
    earlier = replace(seen, leader_epoch=0, last_stable=3, high_watermark=3)
    monkeypatch.setattr(world.kafka, "snapshot", told(world, earlier))
    assert "the cluster was set back to an earlier state: skip" in world.plan().blocked[0].reason
    decisions.skip(
        world.worker(), "orders", world.stream(), OffsetRange(3, 5), reason="set back", acknowledge_order=False
    )
    monkeypatch.setattr(world.kafka, "snapshot", told(world, replace(earlier, last_stable=7, high_watermark=7)))
    plan = world.plan()
    assert ([item.range for item in plan.ranges], plan.blocked) == ([OffsetRange(5, 7)], ())


def told(world: World, item: PartitionSnapshot) -> Answer:
    """Return an answer that has one partition only."""
    return lambda _topics, _group, _only=None: Snapshot(observed_at=world.clock.now(), partitions=(item,))


def test_period_that_may_begin_among_what_is_gone_is_not_taken_for_its_rest(two: World) -> None:
    """A period by time of which Kafka has only the end is refused by name, not shortened; later ones are meant."""
    begin = two.clock.now()
    two.clock.advance(timedelta(hours=1))
    for partition in (0, 1):
        two.produce(3, partition)
    two.clock.advance(timedelta(hours=1))
    later = two.clock.now()
    two.produce(2, 1)
    two.run()
    two.retain_from(2, 0)
    two.retain_from(8, 1)
    period = Selection(topic="orders", start=begin - timedelta(minutes=1), end=later)
    with pytest.raises(RangeExpiredError, match=r"Kafka has no longer: orders/0 0-2, orders/1 0-8\. Nothing was"):
        choose(two.worker(), "orders", period)
    after = replace(period, partitions=frozenset({0}), start=begin + timedelta(minutes=30))
    assert [str(item) for item in choose(two.worker(), "orders", after)] == ["orders/0 5-8"]


def test_period_by_time_of_a_recreated_topic_is_refused_for_that(two: World) -> None:
    """It is not said that Kafka does not answer: repeating would never help."""
    two.run()
    two.create("orders", 2)
    with pytest.raises(TopicRecreatedError, match="Kafka cannot tell times of it: give offsets"):
        choose(two.worker(), "orders", Selection(topic="orders", start=two.clock.now() - timedelta(days=1)))


def test_partition_that_was_not_observed_at_first_begins_where_the_policy_says(two: World) -> None:
    """Only one that the topic did not have then begins at its log start."""
    two.with_spec(start=Policy(kind=PolicyKind.GROUP, group="live"))
    for partition in (0, 1):
        two.kafka.commit_group("live", "orders", partition, 4)
    two.kafka.log("orders", 1).unreachable = "it has no leader now"
    assert two.run().exit_code == 1
    two.kafka.log("orders", 1).unreachable = ""
    two.kafka.add_partitions("orders", 3)
    two.produce(2, 2)
    two.with_spec(layout_grace=0)
    two.run()
    assert two.run().exit_code == 0
    assert (two.offsets(0), two.offsets(1), two.offsets(2)) == ([4], [4], [0, 1])


def test_watermark_of_an_older_generation_reaches_no_time(world: World) -> None:
    """Kafka tells times of the topic as it is: that far, the old topic's watermark has long been."""
    world.produce(50)
    world.run()
    world.create("orders")
    at = milliseconds(world.clock.now())
    world.produce(2)
    reached = WatermarkTrigger(pipeline="orders", topic="orders", at_ms=at)
    reached.source = world.kafka
    assert reached.ask(world.ledger).message == "the ledger knows no stream orders/0 yet"
    world.run()
    assert reached.ask(world.ledger).done


def test_partition_that_a_broker_does_not_know_yet_reaches_no_time(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that answers is behind; a plan has seen the partition: all of a topic is it, too."""
    at = milliseconds(two.clock.now()) + 1
    two.run()
    two.clock.advance(timedelta(seconds=1))
    two.produce(2, 0)
    two.produce(2, 1)
    two.run(Bounds(partitions=(0,)))
    describe = two.kafka.describe
    reached = WatermarkTrigger(pipeline="orders", topic="orders", at_ms=at)
    reached.source = two.kafka
    with monkeypatch.context() as patch:
        patch.setattr(two.kafka, "describe", lambda topics: [replace(item, partitions=1) for item in describe(topics)])
        assert reached.ask(two.ledger).message == "Kafka has no record of orders/1 that late yet"
    two.run()
    assert reached.ask(two.ledger).done


def test_partition_that_was_never_observed_reaches_no_offset(two: World) -> None:
    """All of a topic are also the partitions that no plan could look at yet."""
    two.kafka.log("orders", 1).unreachable = "it has no leader now"
    two.run()
    reached = WatermarkTrigger(pipeline="orders", topic="orders", offset=5)
    assert reached.ask(two.ledger).message == "the ledger knows no stream orders/1 yet"
    two.kafka.log("orders", 1).unreachable = ""
    two.run()
    assert reached.ask(two.ledger).done


def test_partition_that_is_not_there_is_not_audited_as_sound(two: World) -> None:
    """Of several partitions that are named, each must be one of the pipeline's."""
    two.run()
    scope = StreamScope(topic="orders", partitions=frozenset({0, 9}))
    with pytest.raises(UnknownSubjectError, match="has no stream orders/9: it has 0 to 1"):
        pipeline_audit.audit(two.worker(), two.spec, scope=scope)
    assert pipeline_audit.audit(two.worker(), two.spec, scope=replace(scope, partitions=frozenset({0}))).ok


def test_withdrawal_by_time_leaves_nothing_of_its_period_planned_unnamed(world: World) -> None:
    """What is planned and gone may be of the period too: refused, until it is named by offset."""
    begin = world.clock.now()
    world.produce(10)
    world.plan()
    world.retain_from(5)
    period = Selection(start=begin - timedelta(minutes=1))
    with pytest.raises(RangeExpiredError, match="Kafka has no longer: orders/0 0-5"):
        WithdrawAction(selection=period, reason="wrong period").apply(world.worker(), world.spec)
    done = WithdrawAction(selection=Selection(start=0), reason="wrong period").apply(world.worker(), world.spec)
    assert (done.offsets, done.stays) == (10, [])
