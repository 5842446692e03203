"""What the driver reads by itself of a topic, from a client that a test scripts: no Spark and no Java is started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob, Tip
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs import stage

pytestmark = pytest.mark.unit

PART = Slice(Stream("orders", "AAAA", 0), OffsetRange(5, 7))


@dataclass
class Java:
    """The Java client of a log whose records are at these offsets, all of them in one poll; `settings` are its."""

    offsets: Sequence[int]
    settings: dict[str, str] = field(default_factory=dict)
    at: int = 0
    epoch: int | None = None
    closed: bool = False

    def spark(self) -> Any:
        """Return a session with this client behind it."""
        made = SimpleNamespace(put=self.settings.__setitem__, remove=lambda key: self.settings.pop(key, None))
        clients = SimpleNamespace(
            consumer=SimpleNamespace(KafkaConsumer=lambda *_: self, OffsetAndMetadata=lambda *its: its)
        )
        common = SimpleNamespace(
            TopicPartition=lambda topic, partition: (topic, partition),
            serialization=SimpleNamespace(ByteArrayDeserializer=lambda: None),
        )
        java = SimpleNamespace(
            util=SimpleNamespace(
                HashMap=lambda: made,
                Collections=SimpleNamespace(singletonList=lambda one: [one]),
                Optional=SimpleNamespace(of=lambda known: known),
            ),
            time=SimpleNamespace(Duration=SimpleNamespace(ofMillis=lambda number: number)),
        )
        apache = SimpleNamespace(kafka=SimpleNamespace(clients=clients, common=common))
        return SimpleNamespace(_jvm=SimpleNamespace(java=java, org=SimpleNamespace(apache=apache)))

    def assign(self, places: list[Any]) -> None:
        assert places == [("orders", 0)]

    def seek(self, _: Any, to: tuple[int, int, str]) -> None:
        self.at, self.epoch, _ = to

    def position(self, _: Any) -> int:
        return self.at

    def poll(self, _: int) -> Any:
        # Java's client gives whole batches, from their first record on.
        found = [self._record(offset) for offset in self.offsets]
        self.at = max(self.offsets, default=self.at - 1) + 1
        return SimpleNamespace(records=lambda _: found)

    def close(self) -> None:
        self.closed = True

    def _record(self, offset: int) -> Any:
        told = {
            "key": None, "value": b"%d" % offset, "topic": "orders", "partition": 0, "offset": offset, "timestamp": 1,
            "timestampType": SimpleNamespace(ordinal=lambda: 1), "headers": SimpleNamespace(toArray=list),
            "leaderEpoch": SimpleNamespace(orElse=lambda _: 3),
        }  # fmt: skip
        return SimpleNamespace(**{name: lambda value=value: value for name, value in told.items()})


def read(java: Java, tips: dict[Slice, Tip] | None = None, **kafka: str) -> Iterator[tuple[Any, ...]]:
    """Read the slice as a job does, which was seen under leader epoch 4."""
    job = StageJob(
        pipeline="orders",
        wave="w",
        attempt="0" * 16,
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=(),
        tasks=1,
        max_records_per_partition=None,
        overflowing=(PART,),
        epochs=((PART.stream, 4),),
    )
    return stage._read(java.spark(), job, PART, kafka, tips={} if tips is None else tips)


def test_only_the_records_of_the_slice_are_taken() -> None:
    """A poll gives its neighbours too, which others read: taken here they would land twice."""
    java, tips = Java([4, 5, 6, 7, 8]), dict[Slice, Tip]()
    assert [row[5] for row in read(java, tips)] == [5, 6]
    assert java.closed
    assert (java.epoch, tips[PART]) == (4, Tip(slice=PART, leader_epoch=3))


def test_what_the_job_needs_wins_over_the_connection() -> None:
    """Nothing decides for an offset that is gone, aborted records are left out, and no group is joined."""
    java = Java([5, 6])
    told = {"group.id": "mine", "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
    list(read(java, **{**told, "bootstrap.servers": "kafka:9092"}))
    assert java.settings == {
        "bootstrap.servers": "kafka:9092",
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "max.poll.records": "500",
    }


def test_end_that_does_not_come_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read until then is no result: the slice would look complete."""
    monkeypatch.setattr(stage, "TIMEOUT_SECONDS", 0.01)
    java = Java([])
    with pytest.raises(JobFailedError, match="did not return orders/0 5-7 in time"):
        list(read(java))
    assert java.closed
