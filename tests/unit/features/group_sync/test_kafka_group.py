"""What a cluster answers to the commits of a group mirror, and what of it counts as told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from airflow_kafka_lake.adapters.kafka.source import KafkaGroupCommitter
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.offsets import Stream
from tests.kit.clock import FakeClock
from tests.kit.memory_kafka import MemoryKafka

pytestmark = pytest.mark.unit

Answer = Callable[[TopicPartition], KafkaError | None]


class Coordinator:
    """Answers commits by partition, call by call, and by the last answer from then on; `leaves_out` is never named."""

    def __init__(self, *answers: Answer, leaves_out: int | None = None) -> None:
        self.answers, self.leaves_out = list(answers) or [lambda _: None], leaves_out
        self.asked: list[dict[int, int]] = []

    def alter_consumer_group_offsets(
        self, asked: Sequence[ConsumerGroupTopicPartitions], **_: object
    ) -> Mapping[str, Future[Any]]:
        ((group, places),) = [(item.group_id, item.topic_partitions) for item in asked]
        self.asked.append({item.partition: item.offset for item in places})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        named = [item for item in places if item.partition != self.leaves_out]
        told = [SimpleNamespace(topic=item.topic, partition=item.partition, error=answer(item)) for item in named]
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(topic_partitions=told))
        return {group: future}


def committed(coordinator: Coordinator, offsets: Mapping[int, int], *, recreated: bool = False) -> Mapping[int, str]:
    """Commit to a group; return the refusals by partition."""
    kafka, clock = MemoryKafka(), FakeClock()
    topic_id = kafka.create_topic("orders", 2)
    if recreated:
        kafka.create_topic("orders", 2)
    settings = KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:9092"})
    group_sync = KafkaGroupCommitter(settings, clock=clock, connect=lambda *_, **__: coordinator)  # type: ignore[arg-type, return-value]
    group_sync._source.describe = kafka.describe  # type: ignore[method-assign]
    keys = {Stream("orders", topic_id, partition): offset for partition, offset in offsets.items()}
    return {key.partition: why for key, why in group_sync.commit("g", keys).items()}


def error(code: int) -> Answer:
    return lambda _: KafkaError(code)


def test_partition_that_the_answer_leaves_out_was_not_told() -> None:
    """Silence is no success."""
    assert committed(Coordinator(leaves_out=1), {0: 3, 1: 4}) == {1: "the broker said nothing of it"}


def test_partition_that_is_refused_was_not_told() -> None:
    """A group with consumers is refused per partition, without an exception."""
    refused = committed(Coordinator(error(KafkaError.UNKNOWN_MEMBER_ID)), {0: 3})
    assert list(refused) == [0]
    assert "UNKNOWN_MEMBER_ID" in refused[0]


def test_coordinator_that_moves_is_asked_again() -> None:
    """It is made for the very first group of a cluster; one that never comes is a refusal."""
    coming = Coordinator(error(KafkaError.COORDINATOR_NOT_AVAILABLE), lambda _: None)
    assert (committed(coming, {0: 3}), coming.asked) == ({}, [{0: 3}, {0: 3}])
    never = Coordinator(error(KafkaError.NOT_COORDINATOR))
    assert list(committed(never, {0: 3})) == [0]
    assert len(never.asked) == 5


def test_offset_of_a_topic_that_was_created_again_is_not_committed() -> None:
    """It would mean another record there, and pass records that were not read."""
    coordinator = Coordinator()
    (why,) = committed(coordinator, {0: 3}, recreated=True).values()
    assert "the topic has another id now" in why
    assert coordinator.asked == []
