"""Where times lie in Kafka's offsets, and what of a time may be gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.offsets import OffsetRange

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
        """Return the first offset at or after a time; None: no record is that late."""
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
