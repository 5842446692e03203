"""`GroupCommitter` of a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_lake.adapters.kafka.client import Client, Key
from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.ports import Clock

_COORDINATING = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
"""Errors while the group's coordinator moves, or is made for the cluster's first group."""

_PAUSES = (0.2, 0.5, 1.0, 2.0)


class KafkaGroupCommitter:
    """Commits offsets to a group without consumers; connects on first use."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        clock: Clock,
        timeout_seconds: float = 15.0,
        connect: Callable[..., AdminClient] = AdminClient,
    ) -> None:
        self._clock = clock
        self._source = KafkaOffsetSource(settings, clock=clock, timeout_seconds=timeout_seconds, connect=connect)
        self._client = Client(settings, timeout=timeout_seconds, clock=clock, connect=connect)

    def commit(self, group: str, offsets: Mapping[Stream, int]) -> Mapping[Stream, str]:
        """See `GroupCommitter`."""
        ids = {item.topic: item.topic_id for item in self._source.describe(sorted({key.topic for key in offsets}))}
        refused = {
            key: f"the topic has another id now, {ids[key.topic]}" for key in offsets if ids[key.topic] != key.topic_id
        }
        wanted = {(key.topic, key.partition): key for key in offsets if key not in refused}
        if not wanted:
            return refused
        for pause in (*_PAUSES, None):
            answers = self._commit(group, {place: offsets[key] for place, key in wanted.items()})
            if pause is None or not any(name in _COORDINATING for name, _ in answers.values()):
                break
            self._clock.sleep(pause)
        return refused | {wanted[place]: why for place, (_, why) in answers.items()}

    def _commit(self, group: str, positions: Mapping[Key, int]) -> dict[Key, tuple[str, str]]:
        """Commit once; return the error name and the message of each refusal. Repeating it changes nothing."""
        asked = [TopicPartition(*place, offset) for place, offset in positions.items()]
        (future,) = self._client.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, asked)], request_timeout=self._client.timeout
        ).values()
        try:
            answer = self._client.answer(future, "committing to a group")
        except KafkaLakeError as error:
            return dict.fromkeys(positions, ("", error.message))
        # A group with consumers is refused per partition, without an exception.
        errors = {(item.topic, item.partition): item.error for item in answer.topic_partitions}
        refused = {place: ("", "the broker said nothing of it") for place in positions if place not in errors}
        return refused | {
            place: (error.name(), f"the broker refused it: {error.str()} ({error.name()})")
            for place, error in errors.items()
            if error is not None
        }
