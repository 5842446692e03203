"""The open transactions of partitions: producers from the partitions' leaders, names from the coordinators."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_lake.adapters.kafka.client import Key
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.adapters.kafka_python import FAILED, KafkaAdminClient, TopicPartition, errors
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.kafka.transactions import OpenTransaction
from airflow_kafka_lake.core.wire import instant

_LOG = logging.getLogger(__name__)
_GROUP_OFFSETS = "__consumer_offsets"
_NONE_OPEN = -1


def open_transactions(
    settings: KafkaSettings, keys: Iterable[Key], group: str | None, *, timeout: float
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions of the partitions and of a group's commits.

    Raises UnavailableError when no broker answers: that is not the same as none.
    """
    milliseconds = int(timeout * 1000)
    limits = {"request_timeout_ms": milliseconds, "bootstrap_timeout_ms": milliseconds}
    try:
        with closing(KafkaAdminClient(**settings.kafka_python(), **limits)) as admin:
            wanted = [TopicPartition(*key) for key in keys]
            if group is not None:
                wanted.append(TopicPartition(_GROUP_OFFSETS, _home(admin, group)))
            return _described(admin, _producers(admin, wanted))
    except FAILED as error:
        said = str(error)  # as text: an error that is raised from it would keep its frames, and with them its sockets
    raise UnavailableError(
        f"Kafka at {settings.bootstrap} (connection {settings.connection!r}) did not say which transactions are open: "
        f"{said}. Check that it is reachable and that its user may describe topics, then repeat.",
        connection=settings.connection,
        bootstrap_servers=settings.bootstrap,
    )


def _home(admin: Any, group: str) -> int:
    """Return the partition that a group's commits are written to, as the brokers compute it."""
    (topic,) = admin.describe_topics([_GROUP_OFFSETS])
    return partition_of(group, len(topic["partitions"]))


def partition_of(group: str, partitions: int) -> int:
    """Compute Java's `abs(group.hashCode()) % partitions`."""
    value = 0
    encoded = group.encode("utf-16-be")
    for first, second in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (first << 8) + second) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % partitions


def _producers(admin: Any, wanted: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return `(partition, producer)` of every open transaction."""
    return [
        (partition, producer)
        for partition, state in admin.describe_producers(wanted).items()
        for producer in state.active_producers
        if producer.current_transaction_start_offset > _NONE_OPEN
    ]


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
