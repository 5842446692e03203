"""Read a few records at the start of some slices, to estimate the records' size and age."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, TopicPartition

from airflow_kafka_lake.adapters.kafka.client import LogToPython
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.kafka.snapshots import Sample
from airflow_kafka_lake.core.kafka.timestamps import NO_TIMESTAMP
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import Isolation

SLICES = 16
SECONDS = 5.0
RECORDS = 300
BYTES = 1024 * 1024
_TOGETHER_SECONDS = 2.5


def sample(settings: KafkaSettings, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
    """Read at the start of at most `SLICES` slices, spread evenly over all, within `SECONDS` altogether.

    A slice without a record within that time is left out. Nothing is committed to a group.
    """
    if not slices:
        return ()
    until = time.monotonic() + SECONDS
    readings = [Reading(slice_) for slice_ in slices[:: math.ceil(len(slices) / SLICES)]]
    consumer = Consumer(_settings(settings, isolation), logger=LogToPython())
    try:
        for together in _of_different_partitions(readings):
            _read(consumer, together, min(until, time.monotonic() + _TOGETHER_SECONDS))
    finally:
        consumer.close()
    return tuple(found for reading in readings if (found := reading.sample()))


class Reading:
    """What was read of a slice so far."""

    def __init__(self, slice_: Slice) -> None:
        self.slice = slice_
        self.place = (slice_.stream.topic, slice_.stream.partition)
        self._records = self._bytes = 0
        self._seen_to = slice_.range.start
        self._first: int | None = None
        self._last: int | None = None

    def is_over_with(self, message: Message) -> bool:
        """Take a record, the partition's end or its error; return whether it ends the reading."""
        end = self.slice.range.end
        if error := message.error():
            if error.name() == "_PARTITION_EOF" and message.offset() >= end:
                self._seen_to = end
            return True
        if message.offset() < self.slice.range.start:
            return False
        if message.offset() >= end:
            self._seen_to = end
            return True
        kind, milliseconds = message.timestamp()
        self._last = None if kind == TIMESTAMP_NOT_AVAILABLE or milliseconds == NO_TIMESTAMP else milliseconds
        if not self._records:
            self._first = self._last
        self._records += 1
        self._bytes += _weight(message)
        self._seen_to = message.offset() + 1
        return self._records >= RECORDS or self._bytes >= BYTES or self._seen_to == end

    def sample(self) -> Sample | None:
        """Return what the records weigh; None without any."""
        if not self._records:
            return None
        span = self._seen_to - self.slice.range.start
        return Sample(
            stream=self.slice.stream,
            bytes_per_offset=self._bytes / span,
            records_per_offset=self._records / span,
            first_timestamp_ms=self._first,
            last_timestamp_ms=self._last,
            read=OffsetRange(self.slice.range.start, self._seen_to),
        )


def _settings(settings: KafkaSettings, isolation: Isolation) -> dict[str, object]:
    return settings.librdkafka(
        **{
            # librdkafka wants a group name even where none is joined; without commits it leaves no trace.
            "group.id": "kafka-lake-sample",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "allow.auto.create.topics": False,
            "enable.partition.eof": True,
            "isolation.level": isolation.value,
            "max.partition.fetch.bytes": BYTES // 4,
            "queued.max.messages.kbytes": 2 * BYTES // 1024,
            "fetch.queue.backoff.ms": 10,  # librdkafka waits a second for room in a full queue, unless told
            "fetch.wait.max.ms": 10,
            "log.connection.close": False,
        }
    )


def _of_different_partitions(readings: Sequence[Reading]) -> Iterator[list[Reading]]:
    """Yield readings that one assignment can serve: a consumer is at one place of a partition."""
    left = list(readings)
    while left:
        together: dict[tuple[str, int], Reading] = {}
        for reading in left:
            together.setdefault(reading.place, reading)
        yield list(together.values())
        left = [reading for reading in left if together[reading.place] is not reading]


def _read(consumer: Consumer, readings: Sequence[Reading], until: float) -> None:
    """Read slices of different partitions side by side. One after another, each new topic would cost about a second
    until librdkafka has its metadata."""
    waiting = {reading.place: reading for reading in readings}
    places = [TopicPartition(*place, reading.slice.range.start) for place, reading in waiting.items()]
    consumer.assign(places)
    consumer.resume(places)  # what an earlier assignment has paused stays paused
    while waiting and (left := until - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        reading = waiting.get(place)
        if reading and reading.is_over_with(message):
            del waiting[place]
            consumer.pause([TopicPartition(*place)])


def _weight(message: Message) -> int:
    headers = message.headers() or []
    return len(message.key() or b"") + len(message.value() or b"") + sum(len(k) + len(v or b"") for k, v in headers)
