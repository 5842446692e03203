"""Kafka's partitions as they were observed at one moment: bounds, group offsets, open transactions, ages of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import HangingTransactionError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.core.wire import milliseconds, timestamp

# Kafka's partitions as seen at one moment.


class GroupOffsetState(StrEnum):
    """The state of a group's committed offset; only KNOWN has a number (law L5)."""

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
        """Return the exclusive end of the offsets that may be planned under an isolation (law L7)."""
        return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def readable(self, isolation: Isolation) -> Slice | None:
        """Return the offsets that can be read under an isolation; None without any."""
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
    """A small read at one offset range: how heavy its records are, and the times of the first and last one read and of
    the earliest.

    `read` is how far it came; a last record is the newest one only where that is the end.
    """

    stream: Stream
    bytes_per_offset: float
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None = None
    earliest_timestamp_ms: int | None = None
    read: OffsetRange | None = None


def waiting_for_stable(partitions: Iterable[PartitionSnapshot], isolation: Isolation) -> tuple[PartitionSnapshot, ...]:
    """Return the partitions that a reader sees end at an open transaction; none under read_uncommitted."""
    if isolation is not Isolation.READ_COMMITTED:
        return ()
    return tuple(item for item in partitions if item.last_stable < item.high_watermark)


# Transactions that are open in a partition, and when one of them hangs.

OBSERVED = "observed"
"""The state of transactions of which Kafka has told; any other says why it has not."""

BROKERS_LIMIT = timedelta(minutes=15)
"""`transaction.max.timeout.ms` as brokers come: the longest that a transaction that no broker describes may take."""

GRACE = timedelta(seconds=60)
"""A coordinator looks for transactions that are overdue only every few seconds, and writes their markers then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has written to a partition, its first record at `first_offset`, and has not ended.

    `transactional_id`, `started_at` and `timeout` are the coordinator's, None where it does not know the producer's
    transaction any more; `last_written_at` is the partition's.
    """

    topic: str
    partition: int
    producer_id: int
    first_offset: int
    transactional_id: str | None = None
    started_at: datetime | None = None
    last_written_at: datetime | None = None
    timeout: timedelta | None = None

    def hangs(self, now: datetime) -> bool:
        """Return whether it is open for longer than the broker lets any transaction be: no broker will end it."""
        since = self.started_at or self.last_written_at
        return since is not None and now - since > (self.timeout or BROKERS_LIMIT) + GRACE

    def describe(self, now: datetime) -> str:
        """Name it for a person, and its remedy when it hangs."""
        unnamed = "a transaction that its coordinator does not know"
        name = f"transaction {self.transactional_id!r}" if self.transactional_id else unnamed
        since = f"open since {timestamp(self.started_at)}" if self.started_at else "open since an unknown time"
        text = f"{name} of producer {self.producer_id}, from offset {self.first_offset} on, {since}"
        if not self.hangs(now):
            return text
        return (
            f"{text}, which hangs: no coordinator has ended it in time. Its owner ends it by starting again under the "
            "same transactional id, an administrator with: kafka-transactions.sh --bootstrap-server BROKER abort "
            f"--topic {self.topic} --partition {self.partition} --start-offset {self.first_offset}"
        )

    def to_json(self, now: datetime) -> dict[str, Any]:
        """Return the wire form."""
        return {
            "producer_id": self.producer_id,
            "transactional_id": self.transactional_id,
            "first_offset": self.first_offset,
            "started_at": timestamp(self.started_at),
            "last_written_at": timestamp(self.last_written_at),
            "timeout_seconds": self.timeout.total_seconds() if self.timeout else None,
            "hanging": self.hangs(now),
        }


def hanging_error(transactions: Sequence[OpenTransaction], now: datetime) -> HangingTransactionError:
    """Return which transactions keep records from being read; the first of them is described."""
    first = transactions[0]
    more = (
        f". {count(len(transactions) - 1, 'more partition is', 'more partitions are')} held so"
        if len(transactions) > 1
        else ""
    )
    return HangingTransactionError(
        f"{first.topic}/{first.partition} is read no further than offset {first.first_offset}, nor will it be: "
        f"{first.describe(now)}{more}",
        topic=first.topic,
        partition=first.partition,
        transactions=[{"topic": item.topic, "partition": item.partition, **item.to_json(now)} for item in transactions],
    )


def oldest(transactions: Iterable[OpenTransaction]) -> tuple[OpenTransaction, ...]:
    """Return the first transaction of each partition: the one that holds its last stable offset; sorted."""
    first: dict[tuple[str, int], OpenTransaction] = {}
    for item in sorted(transactions, key=lambda item: (item.topic, item.partition, item.first_offset)):
        first.setdefault((item.topic, item.partition), item)
    return tuple(first.values())


# How old the first unread record of each partition is, found by asking Kafka for offsets by time.
#
# A search by halves over fixed ages, for all partitions at once: a few calls, whatever the number of partitions, and no
# record is read. Kafka's answers go by the records' own timestamps, as producers or the broker wrote them.

_MINUTE, _HOUR, _DAY, _MILLI = 60, 3600, 86_400, 1000
AGES = (
    *(_MINUTE * number for number in (-1, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)),
    *(_HOUR * number // 4 for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 60, 72, 84)),
    *(_DAY * number // 4 for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 36, 44, 56, 68)),
    *(_DAY * number for number in (21, 28, 35, 42, 50, 60, 75, 90, 110, 135, 165, 200, 250, 300, 365, 450, 550, 700)),
)
"""Seconds that are asked about, 63 of them, so that six questions find one's place: one ahead, then round ones, from a
minute to almost two years. From three minutes on none is more than a third above the one before."""

Key = tuple[str, int]
"""`(topic, partition)`."""

Unread = tuple[Key, int]
"""A partition and the first offset in it that was not read."""

MOST, MOST_READERS = 1_000, 8
"""Of how many partitions, and of how many readers of one partition that are not equally far, ages are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """An age in seconds: at least `seconds`, and at most `below`, which is None beyond the oldest age."""

    seconds: int
    below: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeSearch:
    """The state of a search: for each partition its first unread offset, and the two ages between which its record is.

    `young` is the place in `AGES` of the oldest age that the record has passed, -1 for none; `old` is that of the
    youngest age that it has not passed.
    """

    now_ms: int
    heads: Mapping[Key, int]
    young: Mapping[Key, int]
    old: Mapping[Key, int]

    @classmethod
    def of(cls, heads: Mapping[Key, int], now: datetime) -> Self:
        """Begin for partitions with something unread, each with its first unread offset."""
        return cls(
            now_ms=milliseconds(now), heads=heads, young=dict.fromkeys(heads, -1), old=dict.fromkeys(heads, len(AGES))
        )

    def questions(self) -> dict[Key, int]:
        """Return the time, in milliseconds, to ask each partition about next; none when all is known."""
        return {
            key: self.now_ms - AGES[self._middle(key)] * _MILLI
            for key in self.heads
            if self.old[key] - self.young[key] > 1
        }

    def after(self, answers: Mapping[Key, int | None]) -> Self:
        """Return the search narrowed by Kafka's answers: the first offset at or after each time, or None.

        When that offset lies above the first unread one, everything between is older than the time that was asked for.
        """
        young, old = dict(self.young), dict(self.old)
        for key, found in answers.items():
            (young if found is None or found > self.heads[key] else old)[key] = self._middle(key)
        return replace(self, young=young, old=old)

    def ages(self) -> dict[Unread, Age]:
        """Return the ages; none where a record of the future, not above the first unread one, is every answer."""
        return {
            (key, head): Age(
                seconds=max(0, AGES[self.young[key]]),
                below=None if self.old[key] == len(AGES) else AGES[self.old[key]],
            )
            for key, head in self.heads.items()
            if self.young[key] >= 0
        }

    def _middle(self, key: Key) -> int:
        return (self.young[key] + self.old[key]) // 2


def searches(unread: Mapping[Unread, int], now: datetime) -> tuple[AgeSearch, ...]:
    """Return the searches for some first unread offsets, each with the number unread; of too many, the ones with most.

    Two in one partition need two searches, as Kafka is asked about one time of a partition at once.
    """
    found: list[dict[Key, int]] = []
    for key, first in sorted(unread, key=lambda one: (-unread[one], one)):
        place = next((heads for heads in found if key not in heads), None)
        if place is None and len(found) < MOST_READERS:
            found.append(place := {})
        if place is not None and len(place) < MOST:
            place[key] = first
    return tuple(AgeSearch.of(heads, now) for heads in found)
