"""The offsets that a consumer group has committed, with pending commits as a state of their own.

Read with kafka-python, because librdkafka's admin call for it ends the whole process (a segmentation fault, its issue
5040, seen with 2.16.0) when the coordinator is just moving or loading.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from airflow_kafka_lake.adapters.kafka.answers import GroupOffset
from airflow_kafka_lake.adapters.kafka.client import Key
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import (
    FAILED,
    FindCoordinatorRequest,
    OffsetFetchRequest,
    ask_brokers,
    errors,
    raise_for,
)
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.ports import Clock

_LOG = logging.getLogger(__name__)
_STABLE_SINCE, _MANY_GROUPS_SINCE = 7, 8
"""Versions of OffsetFetch: the first that can refuse pending commits, the first that names several groups."""

UNKNOWN: GroupOffset = (None, GroupOffsetState.UNKNOWN)
NONE: GroupOffset = (None, GroupOffsetState.NONE)


def committed(
    settings: KafkaSettings, group: str, keys: Iterable[Key], *, timeout: float, clock: Clock
) -> dict[Key, GroupOffset]:
    """Return every partition's committed offset; UNKNOWN for those without an answer within the timeout."""
    wanted = sorted(keys)
    try:
        return answers(
            ask_brokers(settings, partial(_ask, group=group, keys=wanted), timeout=timeout, clock=clock), wanted
        )
    except errors.GroupIdNotFoundError:
        return dict.fromkeys(wanted, NONE)
    except FAILED as error:
        # As text: a log record that is kept would keep the error's frames, and with them its sockets.
        _LOG.warning("What group %r has committed is not known: %s", group, str(error))
        return dict.fromkeys(wanted, UNKNOWN)


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
    return NONE if item.committed_offset == -1 else UNKNOWN


async def _ask(manager: Any, *, group: str, keys: Iterable[Key]) -> list[Any]:
    coordinator = await manager.send(FindCoordinatorRequest(key=group, key_type=0, max_version=3))
    raise_for(coordinator.error_code)
    newest = manager.broker_version_data.api_version(OffsetFetchRequest)
    version = _MANY_GROUPS_SINCE if newest >= _MANY_GROUPS_SINCE else _STABLE_SINCE
    response = await manager.send(request(group, keys, version=version), node_id=coordinator.node_id)
    answer = response.groups[0] if version == _MANY_GROUPS_SINCE else response
    raise_for(answer.error_code)
    return list(answer.topics)


def request(group: str, keys: Iterable[Key], *, version: int) -> Any:
    """Ask for stable offsets of named partitions: the answer for "all" leaves out those with only a pending one."""
    bounds = {"require_stable": True, "min_version": version, "max_version": version}
    if version < _MANY_GROUPS_SINCE:
        of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [of_topic(name=name, partition_indexes=numbers) for name, numbers in _by_topic(keys).items()]
        return OffsetFetchRequest(group_id=group, topics=topics, **bounds)
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    of_topic = of_group.OffsetFetchRequestTopics
    topics = [of_topic(name=name, partition_indexes=numbers) for name, numbers in _by_topic(keys).items()]
    return OffsetFetchRequest(groups=[of_group(group_id=group, topics=topics)], **bounds)


def _by_topic(keys: Iterable[Key]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in keys:
        found[topic].append(partition)
    return found
