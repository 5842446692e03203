"""Consumer groups of a real broker, as others use them: members that live, and commits, also in a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_kafka_lake.local.processes import wait_until

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[Consumer]:
    """Consume a topic with a group as long as the block lasts; commits nothing."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        wait_until(
            lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), timeout=60, failed=AssertionError
        )
        yield consumer
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets by partition to a group without consumers."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    asked = [ConsumerGroupTopicPartitions(group, positions)]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it answers as long as it is referenced

    def is_done() -> bool:
        (future,) = admin.alter_consumer_group_offsets(asked).values()
        return not any(item.error for item in future.result(30).topic_partitions)

    wait_until(is_done, timeout=30, failed=AssertionError)  # a new broker first loads its groups


def commit_in(producer: Producer, bootstrap: str, group: str, topic: str, partition: int, offset: int) -> None:
    """Commit an offset to a group in a producer's open transaction."""
    from confluent_kafka import TopicPartition

    with member(bootstrap, group, topic) as consumer:
        position = TopicPartition(topic, partition, offset)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), 60)


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Return what a group has committed, by partition; where it has nothing, nothing."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    positions = [TopicPartition(topic, number) for number in range(partitions)]
    asked = [ConsumerGroupTopicPartitions(group, positions)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets(asked).values()
    return {item.partition: item.offset for item in future.result(30).topic_partitions if item.offset >= 0}
