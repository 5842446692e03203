"""What every `GroupCommitter` does: the Kafka in memory and a real broker pass the same tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from airflow_kafka_lake.adapters.kafka.source import KafkaGroupCommitter
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.local.processes import wait_until
from airflow_kafka_lake.ports import GroupCommitter
from tests.contracts.test_offset_source import QUIET, BrokerWorld, MemoryWorld

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka


class Mirror:
    """A topic of two partitions, a group, and what the group has committed."""

    def __init__(self, world: Any, group_sync: GroupCommitter, bootstrap: str | None) -> None:
        self.world, self.group_sync, self.bootstrap = world, group_sync, bootstrap
        self.topic = self.group = f"synced-{uuid.uuid4().hex[:8]}"
        world.create(self.topic, 2)
        world.produce(self.topic, 5)

    def key(self, partition: int = 0) -> Stream:
        return Stream(self.topic, self.world.source.describe([self.topic])[0].topic_id, partition)

    def told(self) -> dict[int, int | None]:
        seen = self.world.source.snapshot([self.topic], self.group).partitions
        return {item.stream.partition: item.group_offset for item in seen}

    def consume(self) -> Any:
        """Let a consumer consume with the group."""
        if self.bootstrap is None:
            self.world.source.consumed.add(self.group)
            return None
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "enable.auto.commit": False}
        consumer = Consumer({**settings, **QUIET})
        consumer.subscribe([self.topic])

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until(joined, timeout=60, failed=AssertionError)
        return consumer


@pytest.fixture(params=["memory", "broker"])
def group_sync(request: pytest.FixtureRequest) -> Iterator[Mirror]:
    """A mirror of each kind."""
    if request.param == "memory":
        world = MemoryWorld()
        yield Mirror(world, world.source, None)
        return
    broker: LocalKafka = request.getfixturevalue("kafka")
    settings = KafkaSettings.parse({"bootstrap.servers": broker.bootstrap})
    real = BrokerWorld(broker.bootstrap)
    yield Mirror(real, KafkaGroupCommitter(settings, clock=SystemClock()), broker.bootstrap)
    with suppress(Exception):
        real.close()


def test_offsets_are_committed(group_sync: Mirror) -> None:
    """For the partitions that are named, and no others."""
    assert group_sync.group_sync.commit(group_sync.group, {group_sync.key(0): 3}) == {}
    assert group_sync.told() == {0: 3, 1: None}
    assert group_sync.group_sync.commit(group_sync.group, {group_sync.key(0): 5, group_sync.key(1): 0}) == {}
    assert group_sync.told() == {0: 5, 1: 0}


def test_group_that_is_consumed_with_refuses_by_partition(group_sync: Mirror) -> None:
    """The broker raises nothing; what it said quietly is returned."""
    consumer = group_sync.consume()
    try:
        refused = group_sync.group_sync.commit(group_sync.group, {group_sync.key(0): 3})
    finally:
        if consumer is not None:
            consumer.close()
    assert list(refused) == [group_sync.key(0)]
    assert "UNKNOWN_MEMBER_ID" in refused[group_sync.key(0)]
    assert group_sync.told() == {0: None, 1: None}


def test_offset_of_another_generation_is_refused(group_sync: Mirror) -> None:
    """The name is the same; the offset means nothing in it."""
    foreign = Stream(group_sync.topic, group_sync.key().topic_id[::-1], 0)
    refused = group_sync.group_sync.commit(group_sync.group, {foreign: 3, group_sync.key(1): 0})
    assert list(refused) == [foreign]
    assert "another id" in refused[foreign]
    assert group_sync.told() == {0: None, 1: 0}
