"""Whether topics, and their planned offsets, are still in Kafka as they were recorded.

Each topic is asked for by name: Kafka's list of topics may lack some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from airflow_kafka_lake.core.errors import (
    IdentityError,
    KafkaLakeError,
    TopicDeletedError,
    TopicRecreatedError,
    UnknownTopicError,
)
from airflow_kafka_lake.core.kafka.losses import LogFacts, Losses
from airflow_kafka_lake.core.kafka.snapshots import TopicDescription
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.ports import OffsetSource, Ports

T = TypeVar("T")

TopicKey = tuple[str, str]
"""`(topic, topic_id)`."""

Problems = dict[str, KafkaLakeError]
"""Why nothing is known of a topic; UnknownTopicError where brokers have confirmed that it does not exist."""


def ask_about(ask: Callable[[Sequence[str]], Iterable[T]], topics: Iterable[str]) -> tuple[tuple[T, ...], Problems]:
    """Return the answers about the topics that exist, and the problems of the others.

    An error that names topics, in its fact `topics`, is about those only; any other is raised.
    """
    left, problems = set(topics), Problems()
    while left:
        try:
            return tuple(ask(sorted(left))), problems
        except KafkaLakeError as error:
            named = left.intersection(cast("Iterable[str]", error.facts.get("topics", ())))
            if not named:
                raise
            problems |= dict.fromkeys(sorted(named), error)
            left -= named
    return (), problems


def existing_topics(source: OffsetSource, topics: Iterable[str]) -> tuple[dict[str, TopicDescription], Problems]:
    """Return the topics that exist, by name, and the problems of the others."""
    found, problems = ask_about(source.describe, topics)
    return {item.topic: item for item in found}, problems


def compare_topics(
    source: OffsetSource, expected: Iterable[TopicKey]
) -> tuple[dict[TopicKey, IdentityError], Problems]:
    """Return, for each `(topic, topic_id)` that Kafka no longer has, its present one; and the unknown topics."""
    pairs = sorted(set(expected))
    found, problems = existing_topics(source, {topic for topic, _ in pairs})
    ids = {name: item.topic_id for name, item in found.items()}
    unknown = {name: error for name, error in problems.items() if not isinstance(error, UnknownTopicError)}
    changed = {
        (topic, topic_id): _instead_of(topic, topic_id, ids.get(topic))
        for topic, topic_id in pairs
        if topic not in unknown and ids.get(topic) != topic_id
    }
    return changed, unknown


def changed_topics(ports: Ports, expected: Iterable[TopicKey]) -> dict[TopicKey, IdentityError]:
    """Return, for each `(topic, topic_id)` that Kafka no longer has, its present one; raises an unknown one's error."""
    changed, unknown = compare_topics(ports.source, expected)
    for error in unknown.values():
        raise error
    return changed


def _instead_of(topic: str, topic_id: str, found: str | None) -> IdentityError:
    facts = {"topic": topic, "topic_id": topic_id}
    if found is None:
        return TopicDeletedError(f"topic {topic} (id {topic_id}) was deleted", **facts)
    return TopicRecreatedError(f"topic {topic} was re-created: its id is {found}, planned was {topic_id}", **facts)


def planned_epochs(ranges: Iterable[RangeRecord]) -> dict[Stream, int]:
    """Return the newest leader epoch under which each stream was planned: an older leader has been deposed since."""
    found: dict[Stream, int] = {}
    for item in ranges:
        if item.leader_epoch is not None:
            found[item.stream] = max(found.get(item.stream, 0), item.leader_epoch)
    return found


def check_losses(ports: Ports, ranges: Sequence[RangeRecord]) -> Losses:
    """Ask Kafka for topic ids, log starts, ends and leader epochs, and compare them with the plan."""
    changed, problems = compare_topics(ports.source, {(item.stream.topic, item.stream.topic_id) for item in ranges})
    facts = LogFacts(changed=changed, problems=problems)
    if topics := facts.to_observe(ranges):
        only = {(item.stream.topic, item.stream.partition) for item in ranges if item.stream.topic in topics}
        facts = replace(facts, snapshot=ports.source.snapshot(topics, None, only))
    if doubts := facts.in_doubt(ranges):
        facts = replace(facts, ends=ports.source.epoch_ends(doubts, facts.leader_epochs()))
    return facts.losses(ranges)


def moved(ports: Ports, starts: Mapping[Stream, int]) -> list[Stream]:
    """Return the streams whose log does not begin where it did, or is not known to: retention went on since."""
    partitions = {(stream.topic, stream.partition) for stream in starts}
    now = ports.source.snapshot(sorted({topic for topic, _ in partitions}), None, partitions)
    return sorted(stream for stream, _ in starts.items() - {(item.stream, item.log_start) for item in now.partitions})
