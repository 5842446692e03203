"""`ports.GroupMirror` of a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_lake.adapters.kafka.client import Client
from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.streams import StreamKey
from airflow_kafka_lake.ports import Clock


class KafkaGroupMirror:
    """Commits offsets to a group that nobody consumes with; connects on first use."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        clock: Clock,
        timeout_seconds: float = 15.0,
        connect: Callable[..., AdminClient] = AdminClient,
    ) -> None:
        self._source = KafkaOffsetSource(settings, clock=clock, timeout_seconds=timeout_seconds, connect=connect)
        self._client = Client(settings, timeout=timeout_seconds, clock=clock, connect=connect)

    def commit(self, group: str, offsets: Mapping[StreamKey, int]) -> Mapping[StreamKey, str]:
        """See `ports.GroupMirror`."""
        ids = {item.topic: item.topic_id for item in self._source.describe(sorted({key[0] for key in offsets}))}
        refused = {key: f"the topic has another id now, {ids[key[0]]}" for key in offsets if ids[key[0]] != key[1]}
        wanted = {(key[0], key[2]): key for key in offsets if key not in refused}
        if not wanted:
            return refused
        positions = [TopicPartition(*place, offsets[key]) for place, key in wanted.items()]
        (future,) = self._client.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, positions)], request_timeout=self._client.timeout
        ).values()
        try:
            answer = self._client.answer(future, "committing to a group")
        except KafkaLakeError as error:
            return refused | dict.fromkeys(wanted.values(), error.message)
        # A group that somebody consumes with is refused per partition, without an exception.
        told = {(item.topic, item.partition): item.error for item in answer.topic_partitions}
        for place, key in wanted.items():
            if place not in told:
                refused[key] = "the broker said nothing of it"
            elif (said := told[place]) is not None:
                refused[key] = f"the broker refused it: {said.str()} ({said.name()})"
        return refused
