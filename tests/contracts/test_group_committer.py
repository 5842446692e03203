"""What every `GroupCommitter` does: the Kafka in memory and a real broker pass the same tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from airflow_kafka_lake.adapters.clocks import SystemClock
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.features.group_sync.kafka import KafkaGroupCommitter
from airflow_kafka_lake.features.group_sync.port import GroupCommitter
from airflow_kafka_lake.local.processes import wait_until
from tests.contracts.test_offset_source import QUIET, BrokerWorld, MemoryWorld

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka


class Mirror:
    """A topic of two partitions, a group, and what the group has committed."""

    def __init__(self, world: Any, mirror: GroupCommitter, bootstrap: str | None) -> None:
        self.world, self.mirror, self.bootstrap = world, mirror, bootstrap
        self.topic = self.group = f"mirrored-{uuid.uuid4().hex[:8]}"
        world.create(self.topic, 2)
        world.produce(self.topic, 5)

    def key(self, partition: int = 0) -> Stream:
        return Stream(self.topic, self.world.source.describe([self.topic])[0].topic_id, partition)

    def told(self) -> dict[int, int | None]:
        seen = self.world.source.snapshot([self.topic], self.group).partitions
        return {item.stream.partition: item.group_offset for item in seen}

    def consume(self) -> Any:
        """Let somebody consume with the group."""
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
def mirror(request: pytest.FixtureRequest) -> Iterator[Mirror]:
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


def test_offsets_are_committed(mirror: Mirror) -> None:
    """For the partitions that are named, and no others."""
    assert mirror.mirror.commit(mirror.group, {mirror.key(0): 3}) == {}
    assert mirror.told() == {0: 3, 1: None}
    assert mirror.mirror.commit(mirror.group, {mirror.key(0): 5, mirror.key(1): 0}) == {}
    assert mirror.told() == {0: 5, 1: 0}


def test_group_that_is_consumed_with_refuses_by_partition(mirror: Mirror) -> None:
    """The broker raises nothing; what it said quietly is returned."""
    consumer = mirror.consume()
    try:
        refused = mirror.mirror.commit(mirror.group, {mirror.key(0): 3})
    finally:
        if consumer is not None:
            consumer.close()
    assert list(refused) == [mirror.key(0)]
    assert "UNKNOWN_MEMBER_ID" in refused[mirror.key(0)]
    assert mirror.told() == {0: None, 1: None}


def test_offset_of_another_generation_is_refused(mirror: Mirror) -> None:
    """The name is the same; the offset means nothing in it."""
    stranger = Stream(mirror.topic, mirror.key().topic_id[::-1], 0)
    refused = mirror.mirror.commit(mirror.group, {stranger: 3, mirror.key(1): 0})
    assert list(refused) == [stranger]
    assert "another id" in refused[stranger]
    assert mirror.told() == {0: None, 1: 0}
