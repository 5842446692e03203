"""Where leader epochs ended, asked of the partitions' leaders."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import (
    FAILED,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ask_brokers,
    errors,
    raise_for,
)
from airflow_kafka_lake.core.kafka.epochs import EpochEnds, EpochKey
from airflow_kafka_lake.ports import Clock

_LOG = logging.getLogger(__name__)
_OfTopic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic


def epoch_ends(
    settings: KafkaSettings,
    epochs: Iterable[EpochKey],
    known: Mapping[tuple[str, int], int],
    *,
    timeout: float,
    clock: Clock,
) -> EpochEnds:
    """Return each epoch's end, None where its leader does not know it; epochs without an answer are left out.

    A broker whose metadata have an older leader epoch than a `known` one is asked no further, and a leader answers only
    under the epoch that the metadata name.
    """
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
        ask_brokers(settings, ask, timeout=timeout, clock=clock)
    except FAILED as error:
        _LOG.warning("Where %d leader epochs ended is not known: %s", len(wanted) - len(found), str(error))
    return found


async def _leaders(manager: Any, topics: Iterable[str]) -> Mapping[tuple[str, int], tuple[int, int]]:
    """Return leader and leader epoch of each existing partition; a negative number is none."""
    named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    response = await manager.send(MetadataRequest(topics=named, allow_auto_topic_creation=False))
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
    rounds: dict[tuple[int, int], list[EpochKey]] = defaultdict(list)
    depth: dict[tuple[str, int], int] = defaultdict(int)
    for key in epochs:
        if (leader := leaders.get(key[:2], -1)) >= 0:
            rounds[depth[key[:2]], leader].append(key)
            depth[key[:2]] += 1
    return [(leader, tuple(keys)) for (_, leader), keys in sorted(rounds.items())]


async def _ends(
    manager: Any, leader: int, epochs: Iterable[EpochKey], present: Mapping[tuple[str, int], int]
) -> EpochEnds:
    """Ask one leader; a partition that it no longer leads is left out."""
    by_partition = {key[:2]: key for key in epochs}
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for topic, partition, epoch in by_partition.values():
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
                raise_for(item.error_code)
            if item.error_code == 0:
                end = item.end_offset if item.end_offset >= 0 else None
                found[by_partition[topic.topic, item.partition]] = end
    return found
