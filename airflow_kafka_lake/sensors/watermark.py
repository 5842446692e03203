"""Wait until watermarks reach an offset or a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from os import PathLike
from typing import Any

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.kafka.times import milliseconds
from airflow_kafka_lake.operators.boundary import bounds_of, text_of
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.sensors.waiting import LedgerSensor
from airflow_kafka_lake.triggers.waits import WatermarkTrigger


class WatermarkSensor(LedgerSensor):
    """Waits until everything below an offset, or before a time, is committed from each stream's origin on.

    A time is reached only once Kafka has a record at or after it: until then, an earlier one may still come.

    :param pipeline: a `Pipeline`, a pipeline file, or a name (templated)
    :param topic: topic (templated)
    :param partition: one partition; None means all (templated)
    :param offset: end, exclusive; either this or `time` (templated)
    :param time: RFC 3339 time with its offset from UTC (templated)
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param deferrable: wait in the triggerer, without a worker slot; `[operators] default_deferrable` where left out
    """

    template_fields: Sequence[str] = ("pipeline", "topic", "partition", "offset", "time", "ledger_conn_id")

    def __init__(
        self,
        *,
        pipeline: Pipeline | str | PathLike[str],
        topic: str,
        partition: int | str | None = None,
        offset: int | str | None = None,
        time: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pipeline=pipeline, **kwargs)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.time = time

    def topics(self) -> tuple[str]:
        """See `LedgerSensor`."""
        return (self.topic,)

    def trigger(self, pipeline: str) -> WatermarkTrigger:
        """See `LedgerSensor`."""
        if (self.offset is None) == (self.time is None):
            raise UsageError("either offset or time is needed, and exactly one")
        topic = text_of(self.topic, "topic")
        partitions = None if self.partition in (None, "") else [number_of(self.partition, "partition")]
        bounds = bounds_of(topic, partitions, None, self.time)
        if self.time is not None and bounds.end is None:
            raise UsageError("time is needed, and none was given")
        return WatermarkTrigger(
            pipeline=pipeline,
            topic=topic,
            partition=bounds.partitions[0] if bounds.partitions else None,
            offset=None if self.offset is None else number_of(self.offset, "offset"),
            at_ms=None if bounds.end is None else time_in_ms(bounds.end),
            ledger_conn_id=self.ledger_conn_id,
        )


def time_in_ms(at: int | datetime) -> int:
    """Return Kafka's time of a bound that was read as a time; an offset is refused."""
    if isinstance(at, int):
        raise UsageError("time must be a time with its offset from UTC; for an offset use offset")
    return milliseconds(at)


def number_of(value: Any, what: str) -> int:
    """Read a whole number, at least 0, as people or templates give it."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) <= 19:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise UsageError(f"{what} must be a whole number, at least 0")
