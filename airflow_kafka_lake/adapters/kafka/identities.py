"""The ids of topics, asked of every broker of the cluster: one alone may be behind, or have just started."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import FAILED, MetadataRequest, ask_brokers, errors, raise_for
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.ports import Clock

_MISSING = {errors.UnknownTopicOrPartitionError.errno, errors.InvalidTopicError.errno}
_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIds:
    """The ids that brokers have for each topic, None where a broker knows no such topic; `silent` has the brokers
    without an answer, each with the reason. `epochs` are the newest leader epochs that one of them has heard of."""

    ids: Mapping[str, frozenset[str | None]]
    silent: Mapping[int, str]
    epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def doubts(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the topics whose id, or existence, is not certain, each with the reason."""
        return {topic: doubt for topic in topics if (doubt := self._doubt(topic))}

    def _doubt(self, topic: str) -> str:
        ids = self.ids[topic]
        if len(ids) != 1:
            listed = ", ".join(sorted(found or "no such topic" for found in ids)) or "nothing"
            return f"the brokers do not agree about topic {topic!r}: they say {listed}"
        if ids == {None} and self.silent:
            broker, reason = next(iter(sorted(self.silent.items())))
            return f"broker {broker} did not say whether topic {topic!r} exists: {reason}"
        return ""


def every_broker(settings: KafkaSettings, topics: Iterable[str], *, timeout: float, clock: Clock) -> TopicIds:
    """Ask every broker that the cluster lists. Raises UnavailableError when none of them answers, and
    ConnectionSettingsError when one of the topics may not be described."""
    try:
        return ask_brokers(settings, partial(_ask, topics=sorted(set(topics))), timeout=timeout, clock=clock)
    except FAILED as error:
        where = f"Kafka at {settings.bootstrap} (connection {settings.connection!r})"
        facts = {"connection": settings.connection, "bootstrap_servers": settings.bootstrap}
        if isinstance(error, errors.AuthorizationError):
            message = f"{where} refused describing topics: {error}. Give the connection's user the operation Describe."
            raise ConnectionSettingsError(message, **facts) from None
        message = f"{where} did not answer while describing topics: {error}. Check that it is reachable, then repeat."
        raise UnavailableError(message, **facts) from None


async def _ask(manager: Any, *, topics: Iterable[str]) -> TopicIds:
    manager.cluster.update_metadata(await manager.send(_request(())))
    brokers = [item.node_id for item in manager.cluster.brokers()]
    calls = {broker: manager.call_soon(_ids_of, manager, broker, topics) for broker in brokers}
    ids: dict[str, set[str | None]] = {topic: set() for topic in topics}
    silent: dict[int, str] = {}
    epochs: dict[tuple[str, int], int] = {}
    for broker, answer in calls.items():
        try:
            found, led = await answer
            for topic, topic_id in found.items():
                ids[topic].add(topic_id)
            epochs |= {key: epoch for key, epoch in led.items() if epoch > epochs.get(key, -1)}
        except errors.AuthorizationError:
            raise
        except FAILED as error:
            silent[broker] = str(error)
    return TopicIds(ids={topic: frozenset(its) for topic, its in ids.items()}, silent=silent, epochs=epochs)


async def _ids_of(
    manager: Any, broker: int, topics: Iterable[str]
) -> tuple[Mapping[str, str | None], Mapping[tuple[str, int], int]]:
    """Return ids and leader epochs, as one broker has them."""
    response = await manager.send(_request(topics), node_id=broker)
    found: dict[str, str | None] = {}
    for topic in response.topics:
        if topic.error_code == errors.TopicAuthorizationFailedError.errno:
            raise_for(topic.error_code)
        topic_id = base64.urlsafe_b64encode((topic.topic_id or _NO_ID).bytes).decode().rstrip("=")
        found[topic.name] = None if topic.error_code in _MISSING else topic_id
    epochs = {
        (topic.name, item.partition_index): item.leader_epoch
        for topic in response.topics
        for item in topic.partitions or ()
        if item.leader_epoch is not None
    }
    return found, epochs


def _request(topics: Iterable[str]) -> Any:
    named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)
