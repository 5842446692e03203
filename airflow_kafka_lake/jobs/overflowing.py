"""Read, in the driver, the records whose timestamps overflow in Spark's Kafka source, with the same Java client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.lake.staging import StageJob, Tip
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMEOUT_SECONDS = 120.0
_POLL_MS = 500
_SHAPE = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "offset bigint, timestamp bigint, timestampType int"
)
_PER_POLL = "500"


def overflowing_rows(spark: SparkSession, job: StageJob, kafka: Mapping[str, str]) -> tuple[DataFrame, tuple[Tip, ...]]:
    """Return the records of the job's overflowing slices, as Spark's Kafka source has them, and the last one of each
    slice; `timestamp` is a number.

    They are few (`core.lake.halving.MOST_OVERFLOWING`), because each passes through this Python process.
    """
    tips: dict[Slice, Tip] = {}
    rows = [row for part in job.overflowing for row in _read(spark, job, part, kafka, tips=tips)]
    return spark.createDataFrame(rows, _SHAPE).coalesce(1), tuple(tips.values())


def _read(
    spark: SparkSession, job: StageJob, part: Slice, kafka: Mapping[str, str], *, tips: dict[Slice, Tip]
) -> Iterator[tuple[Any, ...]]:
    jvm: Any = spark._jvm  # noqa: SLF001  # Spark has no other door to the client that its jars bring
    client = jvm.org.apache.kafka
    settings = jvm.java.util.HashMap()
    fixed = {
        "isolation.level": job.isolation.value,
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "max.poll.records": _PER_POLL,
    }
    for key, value in {**kafka, **fixed}.items():
        settings.put(key, value)
    settings.remove("group.id")
    bytes_as_they_are = client.common.serialization.ByteArrayDeserializer
    consumer = client.clients.consumer.KafkaConsumer(settings, bytes_as_they_are(), bytes_as_they_are())
    try:
        place = client.common.TopicPartition(part.stream.topic, part.stream.partition)
        consumer.assign(jvm.java.util.Collections.singletonList(place))
        epoch = dict(job.epochs).get(part.stream)
        if epoch is None:
            consumer.seek(place, part.range.start)
        else:
            known = jvm.java.util.Optional.of(epoch)
            consumer.seek(place, client.clients.consumer.OffsetAndMetadata(part.range.start, known, ""))
        until = time.monotonic() + TIMEOUT_SECONDS
        while consumer.position(place) < part.range.end:
            if time.monotonic() > until:
                raise JobFailedError(f"Kafka did not return {part.stream} {part.range} in time")
            for record in consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MS)).records(place):
                if record.offset() in part.range:
                    read = part.part(OffsetRange(part.range.start, record.offset() + 1))
                    tips[part] = Tip(slice=read, leader_epoch=record.leaderEpoch().orElse(None))
                    yield _row(record)
                until = time.monotonic() + TIMEOUT_SECONDS
    finally:
        consumer.close()


def _row(record: Any) -> tuple[Any, ...]:
    headers = [(header.key(), header.value()) for header in record.headers().toArray()]
    return (
        record.key(),
        record.value(),
        # As Spark's Kafka source has it: no headers are no list.
        headers or None,
        record.topic(),
        record.partition(),
        record.offset(),
        record.timestamp(),
        # NO_TIMESTAMP_TYPE is the first of the enumeration, and counts as -1.
        record.timestampType().ordinal() - 1,
    )
