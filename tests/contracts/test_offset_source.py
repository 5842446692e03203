"""What every `OffsetSource` does: the Kafka in memory and a real broker pass the same tests."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.errors import (
    PipelineFileError,
    UnavailableError,
    UnknownPartitionError,
    UnknownTopicError,
)
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.local.processes import wait_until
from airflow_kafka_lake.ports import OffsetSource
from tests.kit.memory_kafka import MemoryKafka

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka

COMMITTED = Isolation.READ_COMMITTED
QUIET = {"log_level": 0}


class World(Protocol):
    """A cluster as its administrator and its producers see it."""

    source: OffsetSource

    def create(self, topic: str, partitions: int = 1, **config: str) -> None: ...
    def recreate(self, topic: str) -> None: ...
    def grow(self, topic: str, partitions: int) -> None: ...
    def produce(self, topic: str, count: int, *, partition: int = 0, at: int | None = None) -> None: ...
    def begin(self, topic: str, count: int) -> str: ...
    def end(self, transaction: str, *, commit: bool) -> None: ...
    def commit(self, group: str, topic: str, offset: int) -> None: ...
    def commit_pending(self, group: str, topic: str, offset: int) -> None: ...
    def delete_before(self, topic: str, offset: int) -> None: ...
    def unreachable(self) -> OffsetSource: ...
    def close(self) -> None: ...


class MemoryWorld:
    """The Kafka in memory."""

    def __init__(self) -> None:
        self.source = MemoryKafka()

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        retention = {key: int(value) for key, value in config.items() if key.startswith("retention_")}
        policy = config.get("cleanup_policy", "delete")
        self.source.create_topic(topic, partitions, cleanup_policy=policy, **retention)

    def recreate(self, topic: str) -> None:
        self.source.create_topic(topic)

    def grow(self, topic: str, partitions: int) -> None:
        self.source.add_partitions(topic, partitions)

    def produce(self, topic: str, count: int, *, partition: int = 0, at: int | None = None) -> None:
        self.source.produce(topic, partition, *[b"x" * 100] * count, timestamp_ms=at)

    def begin(self, topic: str, count: int) -> str:
        self.source.produce(topic, 0, *[b"x" * 100] * count, transaction="t")
        return "t"

    def end(self, transaction: str, *, commit: bool) -> None:
        self.source.end(transaction, commit=commit)

    def commit(self, group: str, topic: str, offset: int) -> None:
        self.source.commit_group(group, topic, 0, offset)

    def commit_pending(self, group: str, topic: str, offset: int) -> None:
        self.source.commit_group(group, topic, 0, None, GroupOffsetState.UNSTABLE)

    def delete_before(self, topic: str, offset: int) -> None:
        self.source.log(topic, 0).delete_before(offset)

    def unreachable(self) -> OffsetSource:
        away = MemoryKafka()
        away.down = True
        return away

    def close(self) -> None: ...


class BrokerWorld:
    """A real broker, acted on by confluent-kafka's clients."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, **QUIET}
        self._admin = AdminClient(self._settings)
        self._transactions: dict[str, Producer] = {}
        self.source = KafkaOffsetSource(KafkaSettings.parse({"bootstrap.servers": bootstrap}), clock=SystemClock())

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        named = {key.replace("_", "."): value for key, value in config.items()}
        self._admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(120)

        def led() -> bool:
            # The broker learns of a topic a moment after the controller has answered.
            with suppress(UnknownTopicError):
                return len(self.source.snapshot([topic], None).partitions) == partitions
            return False

        wait_until(led, timeout=120, failed=AssertionError)

    def recreate(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(120)

        def created() -> bool:
            with suppress(KafkaException):
                self.create(topic)
                return True
            return False

        wait_until(created, timeout=120, failed=AssertionError)

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(120)
        wait_until(
            lambda: self.source.describe([topic])[0].partitions == partitions, timeout=120, failed=AssertionError
        )

    def produce(self, topic: str, count: int, *, partition: int = 0, at: int | None = None) -> None:
        producer = Producer(self._settings)
        for _ in range(count):
            producer.produce(topic, b"x" * 100, partition=partition, **({} if at is None else {"timestamp": at}))
        assert producer.flush(120) == 0

    def begin(self, topic: str, count: int) -> str:
        name = uuid.uuid4().hex
        producer = Producer({**self._settings, "transactional.id": name})
        producer.init_transactions(120)
        producer.begin_transaction()
        self._transactions[name] = producer
        for _ in range(count):
            producer.produce(topic, b"x" * 100, partition=0)
        assert producer.flush(120) == 0
        return name

    def end(self, transaction: str, *, commit: bool) -> None:
        producer = self._transactions.pop(transaction)
        producer.commit_transaction(120) if commit else producer.abort_transaction(120)

    def commit(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()

    def commit_pending(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        transaction = self.begin(topic, 1)
        self._transactions[transaction].send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 30
        )
        consumer.close()

    def delete_before(self, topic: str, offset: int) -> None:
        deleted = self._admin.delete_records([TopicPartition(topic, 0, offset)])
        next(iter(deleted.values())).result(120)

    def unreachable(self) -> OffsetSource:
        settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"})
        return KafkaOffsetSource(settings, clock=SystemClock(), timeout_seconds=1)

    def close(self) -> None:
        for transaction in list(self._transactions):
            self.end(transaction, commit=False)


@pytest.fixture(params=["memory", "broker"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One cluster of each kind; the real one is shared, so that tests name topics of their own."""
    if request.param == "memory":
        made: World = MemoryWorld()
    else:
        broker: LocalKafka = request.getfixturevalue("kafka")
        made = BrokerWorld(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"t-{uuid.uuid4().hex}"


def seen(world: World, topic: str, group: str | None = None) -> PartitionSnapshot:
    """Partition 0 of a topic."""
    return world.source.snapshot([topic], group).partitions[0]


def stable(world: World, topic: str) -> int:
    return seen(world, topic).last_stable


def test_empty_partition_is_at_zero(world: World, name: str) -> None:
    """A new topic has bounds of 0 everywhere and no group offset."""
    world.create(name, 3)
    snapshot = world.source.snapshot([name], None)
    assert snapshot.unknown == ()
    assert [item.stream.partition for item in snapshot.partitions] == [0, 1, 2]
    assert {(p.log_start, p.last_stable, p.high_watermark) for p in snapshot.partitions} == {(0, 0, 0)}
    assert {(p.group_offset, p.group_offset_state) for p in snapshot.partitions} == {(None, GroupOffsetState.NONE)}


def test_bounds_follow_the_records(world: World, name: str) -> None:
    """Both ends are exclusive, each partition has its own, and the leader's epoch is told."""
    world.create(name, 2)
    world.produce(name, 5)
    world.produce(name, 3, partition=1)
    both = world.source.snapshot([name], None).partitions
    assert [(p.log_start, p.last_stable, p.high_watermark, p.leader_epoch) for p in both] == [
        (0, 5, 5, 0),
        (0, 3, 3, 0),
    ]


def test_open_transaction_holds_last_stable(world: World, name: str) -> None:
    """Records of an open transaction, and all after them, lie above the last stable offset."""
    world.create(name)
    world.produce(name, 2)
    world.begin(name, 3)
    world.produce(name, 4)
    found = seen(world, name)
    assert (found.last_stable, found.high_watermark) == (2, 9)
    assert (found.readable_end(Isolation.READ_COMMITTED), found.readable_end(Isolation.READ_UNCOMMITTED)) == (2, 9)


@pytest.mark.parametrize("commit", [True, False])
def test_ended_transaction_leaves_a_marker(world: World, name: str, commit: bool) -> None:
    """A commit and an abort alike take one offset, and last stable moves past it."""
    world.create(name)
    world.end(world.begin(name, 3), commit=commit)
    wait_until(lambda: stable(world, name) == 4, timeout=120, failed=AssertionError)
    assert seen(world, name).high_watermark == 4


def test_log_start_moves_with_deletion(world: World, name: str) -> None:
    """Deleted records move the log start, nothing else."""
    world.create(name)
    world.produce(name, 10)
    world.delete_before(name, 6)
    found = seen(world, name)
    assert (found.log_start, found.last_stable, found.high_watermark) == (6, 10, 10)


def test_group_offset_is_told_when_committed(world: World, name: str) -> None:
    """A committed offset is known; a partition without one has none, not zero."""
    world.create(name, 2)
    world.produce(name, 5)
    world.commit(name, name, 3)
    found = world.source.snapshot([name], name).partitions
    assert [(p.group_offset, p.group_offset_state) for p in found] == [
        (3, GroupOffsetState.KNOWN),
        (None, GroupOffsetState.NONE),
    ]


def test_group_offset_zero_is_a_number(world: World, name: str) -> None:
    """Committed at 0 is not the same as never committed."""
    world.create(name)
    world.commit(name, name, 0)
    found = seen(world, name, name)
    assert (found.group_offset, found.group_offset_state) == (0, GroupOffsetState.KNOWN)


def test_unknown_group_has_no_offset(world: World, name: str) -> None:
    """A group that never was is no error."""
    world.create(name)
    found = seen(world, name, f"never-{name}")
    assert (found.group_offset, found.group_offset_state) == (None, GroupOffsetState.NONE)


def test_pending_group_offset_is_unstable(world: World, name: str) -> None:
    """An offset committed inside an open transaction is unstable, and the number before it is not told."""
    world.create(name)
    world.produce(name, 5)
    world.commit(name, name, 2)
    world.commit_pending(name, name, 4)
    found = seen(world, name, name)
    assert (found.group_offset, found.group_offset_state) == (None, GroupOffsetState.UNSTABLE)


def test_only_pending_group_offset_is_not_none(world: World, name: str) -> None:
    """A group whose one and only commit is pending is unstable too."""
    world.create(name)
    world.commit_pending(name, name, 1)
    assert seen(world, name, name).group_offset_state is GroupOffsetState.UNSTABLE


def test_topic_id_is_as_kafkas_tools_print_it(world: World, name: str) -> None:
    """22 characters of URL-safe base64, the same in a description and in a snapshot."""
    world.create(name)
    described = world.source.describe([name])[0].topic_id
    assert len(described) == 22
    assert set(described) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert seen(world, name).stream.topic_id == described


def test_recreated_topic_has_another_id(world: World, name: str) -> None:
    """The same name is another topic."""
    world.create(name)
    world.produce(name, 3)
    before = seen(world, name)
    world.recreate(name)
    after = seen(world, name)
    assert after.stream.topic_id != before.stream.topic_id
    assert after.high_watermark == 0


def test_new_partitions_are_seen(world: World, name: str) -> None:
    """A grown topic keeps its id and shows all its partitions."""
    world.create(name)
    before = seen(world, name)
    world.grow(name, 3)
    after = world.source.snapshot([name], None).partitions
    assert [(p.stream.topic_id, p.stream.partition) for p in after] == [
        (before.stream.topic_id, number) for number in range(3)
    ]


def test_description_tells_retention(world: World, name: str) -> None:
    """Retention and cleanup are told; unlimited is None."""
    world.create(name, 2, cleanup_policy="compact", retention_ms="60000", retention_bytes="1000000")
    found = world.source.describe([name])[0]
    assert (found.topic, found.partitions, found.cleanup_policy) == (name, 2, "compact")
    assert (found.retention_ms, found.retention_bytes) == (60000, 1000000)
    world.create(f"{name}-b", cleanup_policy="delete")
    assert world.source.describe([f"{name}-b"])[0].retention_bytes is None


def test_unknown_topic_is_named(world: World, name: str) -> None:
    """Every call that takes topics refuses a missing one by name, whatever else it was asked for."""
    world.create(name)
    missing = f"missing-{name}"
    for call in (
        lambda: world.source.snapshot([name, missing], None),
        lambda: world.source.describe([name, missing]),
        lambda: world.source.topics([name, missing], None),
    ):
        with pytest.raises(UnknownTopicError, match=missing):
            call()


def test_asking_for_nothing_finds_nothing(world: World) -> None:
    """No topics are no error and not all topics."""
    snapshot = world.source.snapshot([], "some-group")
    assert (snapshot.partitions, snapshot.unknown) == ((), ())
    assert world.source.topics([], None) == ()
    assert world.source.describe([]) == ()
    assert world.source.offsets_at([], 0) == {}
    assert world.source.sample([], COMMITTED) == ()


def test_pattern_matches_whole_names(world: World, name: str) -> None:
    """A pattern speaks of the name from start to end; names that were given are always there; the result is sorted."""
    for suffix in ("-b", "-a", "-ab"):
        world.create(name + suffix)
    assert world.source.topics([], f"{name}-.") == (f"{name}-a", f"{name}-b")
    assert world.source.topics([f"{name}-ab"], None) == (f"{name}-ab",)
    assert world.source.topics([], "nothing-is-called-this") == ()


def test_pattern_leaves_internal_topics_out(world: World, name: str) -> None:
    """Kafka's own topics match nothing, not even everything, unless the pattern asks for them; by name they are topics
    like all others."""
    world.create(name)
    internal = f"__{name}"
    world.create(internal)
    for pattern in (internal, f"^__{name}.*$"):
        assert world.source.topics([], pattern) == (internal,)
    assert world.source.topics([internal], None) == (internal,)
    assert world.source.describe([internal])[0].partitions == 1
    world.commit(name, name, 0)
    found = world.source.topics([], ".*")
    assert name in found
    assert not [topic for topic in found if topic.startswith("__")]


def test_pattern_that_is_none_is_refused(world: World) -> None:
    """A broken regular expression is the pipeline file's mistake."""
    with pytest.raises(PipelineFileError, match="regular expression"):
        world.source.topics([], "orders(")


def test_time_finds_the_first_offset_not_older(world: World, name: str) -> None:
    """The exact time of a record finds it; a time after the last one is None, which means the end."""
    world.create(name)
    now = int(time.time() * 1000)
    for age in (3000, 2000, 1000):
        world.produce(name, 2, at=now - age)
    key = (name, 0)
    found = [world.source.offsets_at([key], now - age)[key] for age in (9000, 3000, 2999, 1000, 999)]
    assert found == [0, 0, 2, 4, None]


def test_each_partition_may_have_its_own_time(world: World, name: str) -> None:
    """One call asks all leaders, each partition about another moment."""
    world.create(name, 2)
    now = int(time.time() * 1000)
    for partition in (0, 1):
        for age in (3000, 2000):
            world.produce(name, 1, partition=partition, at=now - age)
    keys = [(name, 0), (name, 1)]
    assert world.source.offsets_at(keys, {keys[0]: now - 3000, keys[1]: now - 2000}) == {keys[0]: 0, keys[1]: 1}
    assert world.source.offsets_at(keys, {keys[0]: now - 1, keys[1]: -1}) == {keys[0]: None, keys[1]: 0}


def test_times_out_of_order_are_answered_by_the_first_record_that_is_as_late(world: World, name: str) -> None:
    """Also where producers' clocks differ: what is older may lie behind it, and what is as late before another."""
    now = int(time.time() * 1000)
    world.create(name)
    for age in (9000, 4000, 7000, 6000, 3000, 5000):
        world.produce(name, 1, at=now - age)
    found = [world.source.offsets_at([(name, 0)], now - age)[name, 0] for age in (9000, 7000, 5000, 3000, 2999)]
    assert found == [0, 1, 1, 4, None]


def test_time_finds_what_an_open_transaction_holds(world: World, name: str) -> None:
    """A time is an offset, whether or not what lies there is decided: a period is never shortened unseen."""
    world.create(name)
    now = int(time.time() * 1000)
    world.produce(name, 3, at=now - 60_000)
    transaction = world.begin(name, 2)
    key = (name, 0)
    assert [world.source.offsets_at([key], at)[key] for at in (now - 60_000, now - 30_000)] == [0, 3]
    world.end(transaction, commit=False)


def test_negative_time_is_the_beginning(world: World, name: str) -> None:
    """-1 and -2 are Kafka's symbols for the two ends; here they are times before everything."""
    world.create(name)
    world.produce(name, 3)
    key = (name, 0)
    assert [world.source.offsets_at([key], time)[key] for time in (-1, -2, 0)] == [0, 0, 0]


def test_time_in_an_unknown_partition_is_refused(world: World, name: str) -> None:
    """A partition that is not there has no offset at any time."""
    world.create(name)
    with pytest.raises(UnknownPartitionError, match="7"):
        world.source.offsets_at([(name, 7)], 0)


def test_open_transactions_are_named(world: World, name: str) -> None:
    """By the id that their owner chose, with their first offset and their start; one that has ended is not there."""
    world.create(name, 2)
    world.produce(name, 2)
    began = datetime.fromtimestamp(int(time.time()), UTC)
    transaction = world.begin(name, 3)
    found = world.source.transactions([(name, 0), (name, 1)], None)
    assert [(item.topic, item.partition, item.first_offset) for item in found] == [(name, 0, 2)]
    assert found[0].transactional_id == transaction
    assert found[0].started_at is not None
    assert began <= found[0].started_at <= datetime.now(UTC)
    assert found[0].timeout is not None
    world.end(transaction, commit=True)
    wait_until(lambda: not world.source.transactions([(name, 0)], None), timeout=60, failed=AssertionError)


def test_pending_commits_name_their_transaction(world: World, name: str) -> None:
    """What a group's commits wait for is looked up where they are written."""
    world.create(name)
    world.produce(name, 3)
    world.commit_pending(name, name, 2)
    assert len(world.source.transactions([], name)) >= 1


def test_epoch_ends_where_the_log_ends_while_it_lasts(world: World, name: str) -> None:
    """An epoch that no leader knows has no end; of what is not there nothing is said."""
    world.create(name, 2)
    world.produce(name, 5)
    epochs = [(name, 0, 0), (name, 1, 0), (name, 0, 7), (f"{name}-gone", 0, 0), (name, 9, 0)]
    assert world.source.epoch_ends(epochs) == {(name, 0, 0): 5, (name, 1, 0): 0, (name, 0, 7): None}
    assert world.source.epoch_ends(epochs[:1], {(name, 0): 0}) == {(name, 0, 0): 5}


def part(name: str, wanted: OffsetRange) -> Slice:
    """Return offsets of the first partition."""
    return Slice(Stream(name, "", 0), wanted)


def test_sample_weighs_records(world: World, name: str) -> None:
    """Bytes and records are per offset; a slice without a visible record gives nothing, not its neighbour's."""
    world.create(name)
    now = int(time.time() * 1000)
    world.produce(name, 10, at=now - 5000)
    world.end(world.begin(name, 4), commit=False)
    # The broker writes the marker after it has answered: what comes next must come after it.
    wait_until(lambda: stable(world, name) == 15, timeout=120, failed=AssertionError)
    world.produce(name, 2)
    wait_until(lambda: stable(world, name) == 17, timeout=120, failed=AssertionError)
    whole, aborted = OffsetRange(0, 10), OffsetRange(10, 15)
    (found,) = world.source.sample([part(name, whole), part(name, aborted)], COMMITTED)
    assert (found.stream, found.bytes_per_offset) == (Stream(name, "", 0), 100.0)
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (now - 5000, now - 5000)
    (both,) = world.source.sample([part(name, OffsetRange(10, 14))], Isolation.READ_UNCOMMITTED)
    assert both.read == OffsetRange(10, 14)


def test_both_ends_of_a_partition_are_sampled(world: World, name: str) -> None:
    """One after the other, so that the newest time is that of the last record."""
    world.create(name)
    now = int(time.time() * 1000)
    for age in (9000, 5000, 1000):
        world.produce(name, 400, at=now - age)
    wait_until(lambda: stable(world, name) == 1200, timeout=120, failed=AssertionError)
    found = world.source.sample([part(name, OffsetRange(0, 1200)), part(name, OffsetRange(1190, 1200))], COMMITTED)
    assert [(item.read and item.read.start, item.last_timestamp_ms) for item in found] == [
        (0, now - 9000),
        (1190, now - 1000),
    ]
    assert found[1].read == OffsetRange(1190, 1200)
    assert found[0].read != OffsetRange(0, 1200)


def test_what_is_gone_is_left_out_of_a_sample(world: World, name: str) -> None:
    """A topic may be re-created with fewer partitions, or deleted, while a plan is made."""
    world.create(name)
    world.produce(name, 3)
    missing = Slice(stream=Stream(name, "-", 7), range=OffsetRange(0, 3))
    gone = Slice(stream=Stream(f"{name}-gone", "-", 0), range=OffsetRange(0, 3))
    found = world.source.sample([missing, part(name, OffsetRange(0, 3)), gone], COMMITTED)
    assert [item.stream.partition for item in found] == [0]


def test_sample_never_resets_to_another_offset(world: World, name: str) -> None:
    """A slice below the log start gives nothing, rather than what lies elsewhere."""
    world.create(name)
    world.produce(name, 10)
    world.delete_before(name, 5)
    assert world.source.sample([part(name, OffsetRange(0, 4))], COMMITTED) == ()


def test_cluster_out_of_reach_ends_every_call(world: World) -> None:
    """Nothing is guessed when no broker answers, and nothing waits for it for ever."""
    away = world.unreachable()
    calls = (
        lambda: away.topics([], ".*"),
        lambda: away.describe(["a"]),
        lambda: away.snapshot(["a"], "g"),
        lambda: away.offsets_at([("a", 0)], 0),
    )
    for call in calls:
        with pytest.raises(UnavailableError):
            call()


def test_snapshot_of_some_partitions_has_no_others(world: World, name: str) -> None:
    """In the same order; one that there is not is in no answer."""
    topics = [f"{name}-a", f"{name}-b"]
    for topic in topics:
        world.create(topic, 3)
    found = world.source.snapshot(topics, name, {(topics[1], 2), (topics[1], 0), (topics[0], 1), (topics[0], 9)})
    assert [item.stream[::2] for item in found.partitions] == [(topics[0], 1), (topics[1], 0), (topics[1], 2)]
    assert found.unknown == ()


def test_order_of_the_snapshot_is_by_topic_and_partition(world: World, name: str) -> None:
    """Topics given twice or out of order appear once and in order."""
    topics = [f"{name}-b", f"{name}-a"]
    for topic in topics:
        world.create(topic, 2)
    found = world.source.snapshot([*topics, topics[0]], None).partitions
    assert [(p.stream.topic, p.stream.partition) for p in found] == list(itertools.product(sorted(topics), range(2)))
