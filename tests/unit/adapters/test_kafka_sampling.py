"""Which records of a poll weigh in a sample: those of its slice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from airflow_kafka_lake.adapters.kafka import source
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.kafka.snapshots import Sample
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spec import Isolation

pytestmark = pytest.mark.unit

AT_MS = 1_700_000_000_000


def message(offset: int, *, partition: int = 0, weight: int = 10, error: object = None) -> Any:
    """A record of so many bytes."""
    return SimpleNamespace(
        topic=lambda: "orders",
        partition=lambda: partition,
        offset=lambda: offset,
        error=lambda: error,
        timestamp=lambda: (1, AT_MS + offset),
        key=lambda: None,
        value=lambda: b"x" * weight,
        headers=lambda: None,
    )


class FakeConsumer:
    """Gives these messages, and notes what is assigned and paused."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._left = iter(messages)
        self.assigned: list[tuple[str, int, int]] = []
        self.paused: list[int] = []
        self.resumed: list[int] = []

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned += [(item.topic, item.partition, item.offset) for item in places]

    def resume(self, places: Sequence[TopicPartition]) -> None:
        self.resumed += [item.partition for item in places]

    def poll(self, _: float) -> Any:
        return next(self._left)

    def pause(self, places: Sequence[TopicPartition]) -> None:
        self.paused += [item.partition for item in places]


def reading(start: int, end: int, partition: int = 0) -> source.SampleReading:
    """Return one of a slice."""
    return source.SampleReading(Slice(Stream("orders", "", partition), OffsetRange(start, end)))


def read(messages: Sequence[Any], *readings: source.SampleReading) -> FakeConsumer:
    """Read slices of a consumer that gives these messages."""
    consumer = FakeConsumer(messages)
    source._read(consumer, readings, time.monotonic() + 60)  # type: ignore[arg-type]
    return consumer


def sampled(messages: Sequence[Any], start: int, end: int) -> Sample | None:
    """Return the sample of one slice."""
    one = reading(start, end)
    read(messages, one)
    return one.sample()


def test_partitions_are_read_side_by_side() -> None:
    """One assignment serves all of them, and one that is through is asked for no more."""
    first, second = reading(0, 2), reading(5, 100, partition=1)
    broken = KafkaError(KafkaError.UNKNOWN)
    mixed = [message(5, partition=1), message(0), message(6, partition=1), message(1)]
    mixed.append(message(7, partition=1, error=broken))
    consumer = read(mixed, first, second)
    assert consumer.assigned == [("orders", 0, 0), ("orders", 1, 5)]
    assert (consumer.paused, consumer.resumed) == ([0, 1], [0, 1])
    found = [item.sample() for item in (first, second)]
    assert [(item.bytes_per_offset, item.first_timestamp_ms) for item in found if item] == [
        (10, AT_MS),
        (10, AT_MS + 5),
    ]


def test_slices_of_one_partition_are_read_one_after_another() -> None:
    """A consumer is at one place of a partition."""
    head, other, tail = reading(0, 9), reading(0, 9, partition=1), reading(90, 99)
    assert list(source._of_different_partitions([head, other, tail])) in (
        [[head, other], [tail]],
        [[other, head], [tail]],
    )


def test_records_of_an_earlier_assignment_do_not_weigh() -> None:
    """The client may still hand out what it had fetched before."""
    found = sampled([message(0, partition=1, weight=10**6), message(2, weight=10**6), message(5), message(6)], 5, 7)
    assert found is not None
    assert found.bytes_per_offset == 10
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (AT_MS + 5, AT_MS + 6)


def test_record_behind_the_slice_says_that_the_rest_is_empty() -> None:
    """It does not weigh itself; the offsets up to the end do count, for nothing lies there."""
    found = sampled([message(0), message(90, weight=10**6)], 0, 10)
    assert found is not None
    assert found.bytes_per_offset == 1


def test_partition_that_fails_gives_no_sample() -> None:
    """Not to know is not a weight of nothing."""
    assert sampled([message(0, error=KafkaError(KafkaError.UNKNOWN))], 0, 10) is None


def test_end_of_the_partition_is_the_end_of_the_slice() -> None:
    """Behind the last record there may be only a marker, which no reader is given."""
    ended = message(10, error=KafkaError(KafkaError._PARTITION_EOF))
    found = sampled([message(7), ended], 5, 10)
    assert found is not None
    assert found.read == OffsetRange(5, 10)
    early = sampled([message(7), message(9, error=KafkaError(KafkaError._PARTITION_EOF))], 5, 10)
    assert early is not None
    assert early.read == OffsetRange(5, 8)


def test_sample_whose_time_is_over_reads_nothing() -> None:
    """A partition may have no end to come to."""
    one, consumer = reading(0, 10), FakeConsumer(())
    source._read(consumer, [one], time.monotonic() - 1)  # type: ignore[arg-type]
    assert one.sample() is None


def test_sample_decides_for_no_missing_offset() -> None:
    """It reads as the pipeline does, commits nothing, and makes no topic."""
    told = source._settings(KafkaSettings.parse({"bootstrap.servers": "kafka:9092"}), Isolation.READ_COMMITTED)
    wanted = {
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        "isolation.level": "read_committed",
    }
    assert wanted.items() <= told.items()
