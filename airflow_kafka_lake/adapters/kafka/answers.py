"""librdkafka's answers as values of `core`: topics, bounds, and the snapshot that they make."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from confluent_kafka import Uuid

from airflow_kafka_lake.adapters.kafka.client import Key
from airflow_kafka_lake.core.errors import IdentityError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.slices import Stream

GroupOffset = tuple[int | None, GroupOffsetState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as described: `led` has the partitions with a leader, a subset of `partitions`."""

    id: str
    partitions: frozenset[int]
    led: frozenset[int]

    @property
    def identity(self) -> tuple[str, frozenset[int]]:
        return self.id, self.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One partition's bounds, read one after the other."""

    log_start: int
    last_stable: int
    high_watermark: int
    leader_epoch: int | None

    @property
    def contradiction(self) -> str:
        """Why these numbers cannot be true together (deletion or truncation came between), empty when they can."""
        if 0 <= self.log_start <= self.last_stable <= self.high_watermark:
            return ""
        return (
            f"its bounds contradict each other: log start {self.log_start}, last stable {self.last_stable}, "
            f"high watermark {self.high_watermark}"
        )


def assembled(
    observed_at: datetime,
    topics: Mapping[str, Topic],
    *,
    bounds: Mapping[Key, Bounds],
    unknown: Mapping[Key, str],
    committed: Mapping[Key, GroupOffset],
) -> Snapshot:
    reasons = {**unknown, **{key: item.contradiction for key, item in bounds.items() if item.contradiction}}
    return Snapshot(
        observed_at=observed_at,
        partitions=tuple(
            PartitionSnapshot(
                stream=Stream(key[0], topics[key[0]].id, key[1]),
                leader_epoch=item.leader_epoch,
                log_start=item.log_start,
                last_stable=item.last_stable,
                high_watermark=item.high_watermark,
                group_offset=committed[key][0],
                group_offset_state=committed[key][1],
            )
            for key, item in sorted(bounds.items())
            if key not in reasons
        ),
        unknown=tuple(
            UnknownPartition(topic=key[0], partition=key[1], reason=reason, topic_id=topics[key[0]].id)
            for key, reason in sorted(reasons.items())
        ),
    )


def topic_id(topic: str, uuid: Uuid) -> str:
    """Return the id as Kafka's tools print it: URL-safe base64 without padding."""
    halves = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    if halves == (0, 0):
        raise IdentityError(
            f"The broker gives topic {topic!r} no id, so a re-created topic could not be told from this one. "
            "Topic ids need Kafka 2.8 or newer (inter.broker.protocol.version too).",
            topic=topic,
        )
    raw = b"".join((half % 2**64).to_bytes(8, "big") for half in halves)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
