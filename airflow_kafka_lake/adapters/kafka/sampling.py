"""Read a few records at the start of some slices, to estimate the records' size and age."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, TopicPartition

from airflow_kafka_lake.adapters.kafka.client import LogToPython
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.kafka.snapshots import Sample
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import Isolation

SLICES = 16
SECONDS = 5.0
RECORDS = 300
BYTES = 1024 * 1024
_SLICE_SECONDS = 1.5


def sample(settings: KafkaSettings, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
    """Read at the start of at most `SLICES` slices, spread evenly over all, within `SECONDS` altogether.

    A slice without a record within that time is left out. Nothing is committed to a group.
    """
    if not slices:
        return ()
    until = time.monotonic() + SECONDS
    consumer = Consumer(_settings(settings, isolation), logger=LogToPython())
    try:
        chosen = slices[:: math.ceil(len(slices) / SLICES)]
        found = [_read(consumer, slice_, min(until, time.monotonic() + _SLICE_SECONDS)) for slice_ in chosen]
    finally:
        consumer.close()
    return tuple(item for item in found if item)


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
            "fetch.wait.max.ms": 10,
            "log.connection.close": False,
        }
    )


def _read(consumer: Consumer, slice_: Slice, until: float) -> Sample | None:
    wanted = slice_.range
    consumer.assign([TopicPartition(slice_.stream.topic, slice_.stream.partition, wanted.start)])
    records = weight = 0
    seen_to = wanted.start
    first: int | None = None
    last: int | None = None
    for message in _messages(consumer, slice_, until):
        if message.offset() >= wanted.end:
            seen_to = wanted.end
            break
        kind, milliseconds = message.timestamp()
        last = None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds
        if not records:
            first = last
        records += 1
        weight += _weight(message)
        seen_to = message.offset() + 1
        if records >= RECORDS or weight >= BYTES or seen_to == wanted.end:
            break
    if not records:
        return None
    span = seen_to - wanted.start
    return Sample(
        stream=slice_.stream,
        bytes_per_offset=weight / span,
        records_per_offset=records / span,
        first_timestamp_ms=first,
        last_timestamp_ms=last,
    )


def _messages(consumer: Consumer, slice_: Slice, until: float) -> Iterator[Message]:
    """Yield a partition's records until its end, an error of it, or the time."""
    while (left := until - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None or (message.topic(), message.partition()) != (
            slice_.stream.topic,
            slice_.stream.partition,
        ):
            continue
        if message.error():
            return
        if message.offset() >= slice_.range.start:
            yield message


def _weight(message: Message) -> int:
    headers = message.headers() or []
    return len(message.key() or b"") + len(message.value() or b"") + sum(len(k) + len(v or b"") for k, v in headers)
