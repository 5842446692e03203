"""Questions for coordinators, leaders and every broker: group offsets, leader epochs, topic ids, open transactions."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from airflow_kafka_lake.adapters.kafka.client import NONE, UNKNOWN, GroupOffset, Key, TopicIds
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import (
    FAILED,
    FindCoordinatorRequest,
    KafkaAdminClient,
    MetadataRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    TopicPartition,
    arguments,
    ask_brokers,
    errors,
    failure,
    raise_for,
    text_of,
)
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.kafka.losses import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, OpenTransaction
from airflow_kafka_lake.core.offsets import dealt, grouped
from airflow_kafka_lake.core.wire import instant
from airflow_kafka_lake.ports import Clock

# The offsets that a consumer group has committed, with pending commits as a state of their own.
#
# Read with kafka-python, because librdkafka's admin call for it ends the whole process (a segmentation fault, its
# issue 5040, seen with 2.16.0) when the coordinator is just moving or loading.

_LOG = logging.getLogger(__name__)
STABLE = 7
"""The first version of OffsetFetch that can refuse pending commits; all brokers since 2.5 know it."""


def committed(
    settings: KafkaSettings, group: str, keys: Iterable[Key], *, timeout: float, clock: Clock
) -> dict[Key, GroupOffset]:
    """Return every partition's committed offset; UNKNOWN for those without an answer within the timeout."""
    wanted = sorted(keys)
    ask = partial(_ask_coordinator, group=group, keys=wanted)
    try:
        topics = ask_brokers(settings, ask, f"reading the offsets of group {group!r}", timeout=timeout, clock=clock)
    except UnavailableError as error:
        _LOG.warning("Not known: %s", error.message)
        return dict.fromkeys(wanted, UNKNOWN)
    return dict.fromkeys(wanted, NONE) if topics is None else answers(topics, wanted)


def answers(topics: Iterable[Any], wanted: Iterable[Key]) -> dict[Key, GroupOffset]:
    """Read an answer's topics; a partition that was asked for and is not in it is UNKNOWN."""
    found = {(topic.name, item.partition_index): _offset(item) for topic in topics for item in topic.partitions}
    return {key: found.get(key, UNKNOWN) for key in wanted}


def _offset(item: Any) -> GroupOffset:
    if item.error_code == errors.UnstableOffsetCommitError.errno:
        return None, GroupOffsetState.UNSTABLE
    if item.error_code != errors.NoError.errno:
        return UNKNOWN
    if item.committed_offset >= 0:
        return item.committed_offset, GroupOffsetState.KNOWN
    # Kafka answers -1 for a partition that the group never committed.
    return NONE if item.committed_offset == -1 else UNKNOWN


async def _ask_coordinator(manager: Any, *, group: str, keys: Iterable[Key]) -> list[Any] | None:
    # From version 4 on the request names several groups, and is answered in another form.
    coordinator = await manager.send(FindCoordinatorRequest(key=group, key_type=0, max_version=3))
    raise_for(coordinator.error_code, "Describe", "group", group)
    response = await manager.send(request(group, keys), node_id=coordinator.node_id)
    if response.error_code == errors.GroupIdNotFoundError.errno:
        return None
    raise_for(response.error_code, "Describe", "group", group)
    return list(response.topics)


def request(group: str, keys: Iterable[Key]) -> Any:
    """Ask for stable offsets of named partitions: the answer for "all" leaves out those with only a pending one."""
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = [of_topic(name=name, partition_indexes=numbers) for name, numbers in grouped(keys).items()]
    bounds = {"require_stable": True, "min_version": STABLE, "max_version": STABLE}
    return OffsetFetchRequest(group_id=group, topics=topics, **bounds)


_OfTopic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic


def epoch_ends(
    settings: KafkaSettings,
    epochs: Iterable[EpochKey],
    known: Mapping[tuple[str, int], int],
    *,
    timeout: float,
    clock: Clock,
) -> EpochEnds:
    """Return each epoch's end, None where its leader does not know it; epochs without an answer are left out. A broker
    of an older epoch than a `known` one is asked no further; a leader answers only under the metadata's epoch."""
    wanted = tuple(epochs)
    found: dict[EpochKey, int | None] = {}

    async def ask(manager: Any) -> None:
        left = [key for key in wanted if key not in found]
        leaders = await _leaders(manager, {key[0] for key in left})
        present = {key: its for key, its in leaders.items() if not 0 <= its[1] < known.get(key, 0)}
        for leader, keys in _rounds(left, {key: broker for key, (broker, _) in present.items()}):
            found.update(await _ends(manager, leader, keys, {key: epoch for key, (_, epoch) in present.items()}))
        if any(key not in found for key in left if key[:2] in leaders):
            raise errors.LeaderNotAvailableError("not every leader has answered")

    try:
        ask_brokers(settings, ask, "asking where leader epochs ended", timeout=timeout, clock=clock)
    except UnavailableError as error:
        _LOG.warning("Where %d leader epochs ended is not known: %s", len(wanted) - len(found), error.message)
    return found


async def _leaders(manager: Any, topics: Iterable[str]) -> Mapping[tuple[str, int], tuple[int, int]]:
    """Return leader and leader epoch of each existing partition; a negative number is none."""
    response = await manager.send(_request(sorted(topics)))
    manager.cluster.update_metadata(response)
    return {
        (topic.name, item.partition_index): (item.leader_id, -1 if item.leader_epoch is None else item.leader_epoch)
        for topic in response.topics
        for item in topic.partitions
    }


def _rounds(
    epochs: Iterable[EpochKey], leaders: Mapping[tuple[str, int], int]
) -> Iterable[tuple[int, tuple[EpochKey, ...]]]:
    """Group by leader, each partition once: an answer does not say which epoch it was asked about."""
    for together in dealt((key[:2], key) for key in epochs if leaders.get(key[:2], -1) >= 0):
        for leader, keys in sorted(grouped((leaders[key[:2]], key) for key in together).items()):
            yield leader, tuple(keys)


async def _ends(
    manager: Any, leader: int, epochs: Iterable[EpochKey], present: Mapping[tuple[str, int], int]
) -> EpochEnds:
    """Ask one leader; a partition that it no longer leads is left out."""
    by_partition = {key[:2]: key for key in epochs}
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for topic, partition, epoch in by_partition.values():
        # A leader of another epoch than the present one then refuses: its log may end elsewhere.
        request = _OfTopic.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=present[topic, partition], leader_epoch=epoch
        )
        by_topic[topic].append(request)
    topics = [_OfTopic(topic=topic, partitions=requests) for topic, requests in by_topic.items()]
    response = await manager.send(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), node_id=leader)
    found: dict[EpochKey, int | None] = {}
    for topic in response.topics:
        for item in topic.partitions:
            if item.error_code == errors.TopicAuthorizationFailedError.errno:
                raise_for(item.error_code, "Describe", "topic", topic.topic)
            if item.error_code == 0:
                end = item.end_offset if item.end_offset >= 0 else None
                found[by_partition[topic.topic, item.partition]] = end
    return found


# The ids of topics, asked of every broker of the cluster: one alone may be behind, or have just started.

_MISSING = {errors.UnknownTopicOrPartitionError.errno, errors.InvalidTopicError.errno}


def every_broker(settings: KafkaSettings, topics: Iterable[str], *, timeout: float, clock: Clock) -> TopicIds:
    """Ask every broker that the cluster lists. Raises UnavailableError when none of them answers, and
    ConnectionSettingsError when one of the topics may not be described."""
    ask = partial(_ask_every_broker, topics=sorted(set(topics)))
    return ask_brokers(settings, ask, "describing topics", timeout=timeout, clock=clock)


async def _ask_every_broker(manager: Any, *, topics: Iterable[str]) -> TopicIds:
    # An empty list asks for the brokers alone; no list would ask for every topic.
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
            raise_for(topic.error_code, "Describe", "topic", topic.name)
        found[topic.name] = None if topic.error_code in _MISSING else text_of(topic.topic_id)
    epochs = {
        (topic.name, item.partition_index): item.leader_epoch
        for topic in response.topics
        for item in topic.partitions or ()
        if item.leader_epoch is not None
    }
    return found, epochs


def _request(topics: Iterable[str]) -> Any:
    named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    # A question must not create its topic, as brokers do by default.
    return MetadataRequest(topics=named, allow_auto_topic_creation=False)


# The open transactions of partitions: producers from the partitions' leaders, names from the coordinators.

_GROUP_OFFSETS = "__consumer_offsets"
_NONE_OPEN = -1


def open_transactions(
    settings: KafkaSettings, keys: Iterable[Key], group: str | None, *, timeout: float
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions of the partitions and of a group's commits. Raises UnavailableError when no broker
    answers: that is not the same as none."""
    limits = dict.fromkeys(("request_timeout_ms", "bootstrap_timeout_ms"), int(timeout * 1000))
    try:
        with closing(KafkaAdminClient(**arguments(settings), **limits)) as admin:
            wanted = [TopicPartition(*key) for key in keys]
            if group is not None:
                wanted.append(TopicPartition(_GROUP_OFFSETS, _home(admin, group)))
            return _described(admin, _producers(admin, wanted))
    except FAILED as error:
        failed = failure(settings, error, "looking for open transactions")
    raise failed


def _home(admin: Any, group: str) -> int:
    """Return the partition that a group's commits are written to, as the brokers compute it."""
    (topic,) = admin.describe_topics([_GROUP_OFFSETS])
    code, partitions = map(topic.get, ("error_code", "partitions"))
    raise_for(code, "Describe", "topic", _GROUP_OFFSETS)
    return partition_of(group, len(partitions))


def partition_of(group: str, partitions: int) -> int:
    """Compute Java's `abs(group.hashCode()) % partitions`."""
    value = 0
    encoded = group.encode("utf-16-be")
    for first, second in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (first << 8) + second) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    # Java's abs of the least number is that number again; Kafka takes 0 for it.
    return (0 if signed == -(2**31) else abs(signed)) % partitions


def _producers(admin: Any, wanted: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return `(partition, producer)` of every open transaction; topic by topic, because an error names none."""
    found = []
    for topic in sorted({partition.topic for partition in wanted}):
        try:
            states = admin.describe_producers([partition for partition in wanted if partition.topic == topic])
        except errors.TopicAuthorizationFailedError as error:
            error.right = "Read", "topic", topic
            raise
        found += [(partition, producer) for partition, its in states.items() for producer in its.active_producers]
    return [item for item in found if item[1].current_transaction_start_offset > _NONE_OPEN]


def _described(admin: Any, producers: Sequence[tuple[Any, Any]]) -> tuple[OpenTransaction, ...]:
    ids = sorted({producer.producer_id for _, producer in producers})
    listed = admin.list_transactions(producer_id_filters=ids).values() if ids else ()
    names = {item.producer_id: item.transactional_id for found in listed for item in found}
    details = _details(admin, sorted(set(names.values())))
    found = []
    for partition, producer in producers:
        detail = details.get(names.get(producer.producer_id))
        found.append(
            OpenTransaction(
                topic=partition.topic,
                partition=partition.partition,
                producer_id=producer.producer_id,
                first_offset=producer.current_transaction_start_offset,
                transactional_id=names.get(producer.producer_id),
                started_at=_time(detail.transaction_start_time_ms) if detail else None,
                last_written_at=_time(producer.last_timestamp),
                timeout=timedelta(milliseconds=detail.transaction_timeout_ms) if detail else None,
            )
        )
    return tuple(found)


def _details(admin: Any, names: Sequence[str]) -> dict[Any, Any]:
    """Describe transactions; without the permission to do so they have neither start nor timeout."""
    try:
        return admin.describe_transactions(names) if names else {}
    except errors.KafkaError as error:
        _LOG.warning("Transactions %s could not be described: %s", ", ".join(names), str(error))
        return {}


def _time(milliseconds: int) -> datetime | None:
    return instant(milliseconds) if milliseconds > 0 else None
