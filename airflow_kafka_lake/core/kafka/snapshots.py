"""What was seen of Kafka's partitions at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation


class GroupOffsetState(StrEnum):
    """What a group's committed offset is; only KNOWN has a number (law L5)."""

    KNOWN = "known"
    NONE = "none"
    UNSTABLE = "unstable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSnapshot:
    """One partition's bounds; `last_stable` and `high_watermark` are exclusive ends.

    `topic_id` is 22 characters of URL-safe base64, as Kafka's own tools print it; `leader_epoch` is None where the
    broker does not tell.
    """

    stream: Stream
    leader_epoch: int | None
    log_start: int
    last_stable: int
    high_watermark: int
    group_offset: int | None = None
    group_offset_state: GroupOffsetState = GroupOffsetState.NONE

    def readable_end(self, isolation: Isolation) -> int:
        """Return the exclusive end of what may be planned under an isolation (law L7)."""
        return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def readable(self, isolation: Isolation) -> Slice | None:
        """Return what can be read under an isolation; None where that is nothing."""
        end = self.readable_end(isolation)
        return Slice(self.stream, OffsetRange(self.log_start, end)) if self.log_start < end else None


LEFT_OUT = "Kafka's answer leaves it out, repeat the call"
"""Why nothing is known of a partition that is there: the broker that answered is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPartition:
    """A partition that could not be observed; never read as empty, zero or gone (law L5)."""

    topic: str
    partition: int
    reason: str
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All partitions asked for, observed in the safe order; `observed_at` is when the reading began.

    `silent` are topics of which nothing could be said, with the reason: never read as deleted (law L5).
    """

    observed_at: datetime
    partitions: tuple[PartitionSnapshot, ...]
    unknown: tuple[UnknownPartition, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """The topics of which a partition was observed, or is unknown."""
        return frozenset(item.stream.topic for item in self.partitions) | {item.topic for item in self.unknown}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the broker describes it; retention values are None where unlimited."""

    topic: str
    topic_id: str
    partitions: int
    cleanup_policy: str = "delete"
    retention_ms: int | None = None
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A small read at one offset range: how heavy its records are, and how old the first and the last one read are.

    `read` is how far it came; a last record is the newest one only where that is the end.
    """

    stream: Stream
    bytes_per_offset: float
    records_per_offset: float
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None = None
    read: OffsetRange | None = None


def waiting_for_stable(partitions: Iterable[PartitionSnapshot], isolation: Isolation) -> tuple[PartitionSnapshot, ...]:
    """Return the partitions that a reader sees end at an open transaction; none under read_uncommitted."""
    if isolation is not Isolation.READ_COMMITTED:
        return ()
    return tuple(item for item in partitions if item.last_stable < item.high_watermark)
