"""Times of records: which offsets they lie at, which of them a table can hold, and how old an unread record is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.offsets import OffsetRange

# Where times lie in Kafka's offsets, and which part of a period may be gone. Pure.

FIRST = 0
"""The time that Kafka's first record answers to."""


@dataclass(frozen=True, slots=True)
class Times:
    """Offsets by time, as Kafka answered: time in milliseconds → `(topic, partition)` → offset, None for "no record
    is that late". `firsts` are the times of first records, in milliseconds, where they were asked for."""

    answers: Mapping[int, Mapping[tuple[str, int], int | None]]
    firsts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def at(self, timestamp_ms: int, snapshot: PartitionSnapshot) -> int:
        """Return the first offset at or after a time, stable or not; no record that late means the high watermark."""
        found = self.found(timestamp_ms, snapshot)
        return snapshot.high_watermark if found is None else found

    def found(self, timestamp_ms: int, snapshot: PartitionSnapshot) -> int | None:
        """Return the first offset at or after a time; None: no record is that late. Raises UnavailableError."""
        key = (snapshot.stream.topic, snapshot.stream.partition)
        answers = self.answers[timestamp_ms]
        if key not in answers:
            raise UnavailableError(
                f"Kafka gave no offset by time for {key[0]} partition {key[1]}: repeat the call",
                topic=key[0],
                partition=key[1],
            )
        return answers[key]


def milliseconds(at: datetime) -> int:
    """Return Kafka's unit of time, milliseconds since the epoch, rounded up: no record before `at` may slip in."""
    return -((datetime(1970, 1, 1, tzinfo=UTC) - at) // timedelta(milliseconds=1))


def gone_since(start_ms: int, item: PartitionSnapshot, times: Times) -> OffsetRange | None:
    """Return where below the log start records of a time or later may have been: no record that is left is older.

    A record of the very same millisecond proves nothing: others of it may lie below. `times` must know `FIRST` too.
    """
    if item.log_start == 0 or times.found(FIRST, item) != times.found(start_ms, item):
        return None
    return OffsetRange(0, item.log_start)


# Which of the numbers that producers write as a record's time a table and its readers can hold as a time.
#
# Kafka takes any number for milliseconds since 1970; producers that mean microseconds or nanoseconds are common.

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999. Python, the transforms of table formats in it and most databases hold no others as a time."""

NO_TIMESTAMP = -1
"""Kafka's time of a record without one; it is no moment of 1969."""

SPARK_EARLIEST_MS = -2_208_902_400_000
"""The second day of 1900. Spark's Kafka source takes an earlier time for one of the calendar before 1582, in the zone
of its Java as it was then: other numbers come out, and some of them become the same."""

SPARK_LATEST_MS = (2**63 - 1) // 1000
"""The last number that Spark's Kafka source reads: it counts microseconds in 64 bits, and fails above (year 294247)."""


def is_beyond_spark(timestamp_ms: int) -> bool:
    """Return whether Spark's Kafka source fails on a record with this number as its time, or reads another."""
    return not SPARK_EARLIEST_MS <= timestamp_ms <= SPARK_LATEST_MS


# How old the first unread record of each partition is, found by asking Kafka for offsets by time.
#
# A search by halves over fixed ages, for all partitions at once: a few calls, whatever the number of partitions, and no
# record is read. Kafka's answers go by the records' own timestamps, as producers or the broker wrote them.

_MINUTE, _HOUR, _DAY, _MILLI = 60, 3600, 86_400, 1000
AGES = (
    *(_MINUTE * number for number in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)),
    *(_HOUR * number // 4 for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 60, 72, 84)),
    *(_DAY * number // 4 for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 36, 44, 56, 68)),
    *(
        _DAY * number
        for number in (21, 25, 30, 35, 42, 50, 60, 75, 90, 110, 135, 165, 200, 250, 300, 365, 450, 550, 700)
    ),
)
"""Seconds that are asked about, 63 of them, so that six questions find one's place: round ones, from a minute to almost
two years. From three minutes on none is more than a third above the one before."""

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
            passed = found is None or found > self.heads[key]
            (young if passed else old)[key] = self._middle(key)
        return replace(self, young=young, old=old)

    def ages(self) -> dict[Unread, Age]:
        """Return the ages, as far as they are known."""
        return {
            (key, head): Age(
                seconds=0 if self.young[key] < 0 else AGES[self.young[key]],
                below=None if self.old[key] == len(AGES) else AGES[self.old[key]],
            )
            for key, head in self.heads.items()
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
