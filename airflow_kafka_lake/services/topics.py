"""Which topics are there, and are they those that were recorded? Each is asked for by name: a list may lack some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from airflow_kafka_lake.core.errors import IdentityError, TopicDeletedError, TopicRecreatedError, UnknownTopicError
from airflow_kafka_lake.core.snapshots import TopicDescription
from airflow_kafka_lake.ports import OffsetSource, Ports


def described(source: OffsetSource, topics: Iterable[str]) -> dict[str, TopicDescription]:
    """Return the topics that are there, by name; one that is left out does not exist, as the brokers have confirmed."""
    left = set(topics)
    while left:
        try:
            return {item.topic: item for item in source.describe(sorted(left))}
        except UnknownTopicError as error:
            left -= set(missing(error))
    return {}


def missing(error: UnknownTopicError) -> tuple[str, ...]:
    """Return the topics that do not exist."""
    return cast("tuple[str, ...]", error.facts["topics"])


def changed_topics(ports: Ports, expected: Iterable[tuple[str, str]]) -> dict[tuple[str, str], IdentityError]:
    """Return, for each `(topic, topic_id)` that Kafka no longer has, what is there instead."""
    pairs = sorted(set(expected))
    there = {name: item.topic_id for name, item in described(ports.source, {topic for topic, _ in pairs}).items()}
    return {
        (topic, topic_id): _instead_of(topic, topic_id, there.get(topic))
        for topic, topic_id in pairs
        if there.get(topic) != topic_id
    }


def _instead_of(topic: str, topic_id: str, found: str | None) -> IdentityError:
    facts = {"topic": topic, "topic_id": topic_id}
    if found is None:
        return TopicDeletedError(f"topic {topic} (id {topic_id}) was deleted", **facts)
    return TopicRecreatedError(f"topic {topic} was re-created: its id is {found}, planned was {topic_id}", **facts)
