"""What every `BatchReader` does: the Kafka in memory and a real broker pass the same tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader
from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.accounting import Explanation, Fate
from airflow_kafka_lake.core.errors import IdentityError, UnavailableError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import record_digest
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.local.processes import wait_until
from airflow_kafka_lake.ports import BatchReader
from tests import markers
from tests.kit.memory_kafka import MemoryKafka

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
QUIET = {"log_level": 0}


class World(Protocol):
    """A cluster as its administrator and its producers see it."""

    reader: BatchReader

    def create(self, topic: str, partitions: int = 1) -> str: ...
    def delete(self, topic: str) -> None: ...
    def produce(self, topic: str, count: int, *, partition: int = 0) -> None: ...
    def produce_at(self, topic: str, timestamp: int) -> None: ...
    def begin(self, topic: str, count: int, *, partition: int = 0) -> str: ...
    def end(self, transaction: str, *, commit: bool) -> None: ...
    def delete_before(self, topic: str, offset: int) -> None: ...
    def impatient(self) -> BatchReader: ...
    def unreachable(self) -> BatchReader: ...
    def close(self) -> None: ...


class MemoryWorld:
    """The Kafka in memory."""

    def __init__(self) -> None:
        self.reader = MemoryKafka()
        self._begun = 0

    def create(self, topic: str, partitions: int = 1) -> str:
        return self.reader.create_topic(topic, partitions)

    def delete(self, topic: str) -> None:
        self.reader.delete_topic(topic)

    def produce(self, topic: str, count: int, *, partition: int = 0) -> None:
        self.reader.produce(topic, partition, *[b"x"] * count)

    def produce_at(self, topic: str, timestamp: int) -> None:
        self.reader.produce(topic, 0, b"x", timestamp_ms=timestamp)

    def begin(self, topic: str, count: int, *, partition: int = 0) -> str:
        self._begun += 1
        self.reader.produce(topic, partition, *[b"x"] * count, transaction=f"t{self._begun}")
        return f"t{self._begun}"

    def end(self, transaction: str, *, commit: bool) -> None:
        self.reader.end(transaction, commit=commit)

    def delete_before(self, topic: str, offset: int) -> None:
        self.reader.log(topic, 0).delete_before(offset)

    def impatient(self) -> BatchReader:
        return self.reader

    def unreachable(self) -> BatchReader:
        away = MemoryKafka()
        away.down = True
        return away

    def close(self) -> None: ...


class BrokerWorld:
    """A real broker, acted on by confluent-kafka's clients."""

    def __init__(self, bootstrap: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, **QUIET}
        self._admin = AdminClient(self._settings)
        self._running: dict[str, tuple[Producer, tuple[str, int]]] = {}
        self._servers = {"bootstrap.servers": bootstrap}
        self.reader = KafkaBatchReader(KafkaSettings.parse(self._servers), timeout_seconds=10)

    def create(self, topic: str, partitions: int = 1) -> str:
        ids: list[str] = []

        def created() -> bool:
            # A name is free, and a topic known, a moment after the controller has answered.
            with suppress(KafkaException):
                if topic not in self._admin.list_topics(timeout=10).topics:
                    self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(120)
                ids.append(str(self._admin.describe_topics(TopicCollection([topic]))[topic].result(120).topic_id))
            return bool(ids)

        wait_until(created, timeout=120, failed=AssertionError)
        return ids[0].replace("+", "-").replace("/", "_").rstrip("=")

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(120)
        wait_until(lambda: topic not in self._admin.list_topics(timeout=10).topics, timeout=120, failed=AssertionError)

    def produce(self, topic: str, count: int, *, partition: int = 0) -> None:
        self._write(Producer(self._settings), topic, count, partition)

    def produce_at(self, topic: str, timestamp: int) -> None:
        change = ConfigEntry(
            "message.timestamp.after.max.ms", str(2**63 - 1), incremental_operation=AlterConfigOpType.SET
        )
        asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        self._admin.incremental_alter_configs([asked])[asked].result(120)
        producer = Producer(self._settings)
        producer.produce(topic, b"x", partition=0, timestamp=timestamp)
        assert producer.flush(120) == 0

    def begin(self, topic: str, count: int, *, partition: int = 0) -> str:
        name = uuid.uuid4().hex
        producer = Producer({**self._settings, "transactional.id": name})
        producer.init_transactions(120)
        producer.begin_transaction()
        self._running[name] = (producer, (topic, partition))
        self._write(producer, topic, count, partition)
        return name

    def end(self, transaction: str, *, commit: bool) -> None:
        producer, partition = self._running.pop(transaction)
        markers.end(producer, self._settings["bootstrap.servers"], {partition}, commit=commit)

    def delete_before(self, topic: str, offset: int) -> None:
        deleted = self._admin.delete_records([TopicPartition(topic, 0, offset)])
        next(iter(deleted.values())).result(120)

    def impatient(self) -> BatchReader:
        return KafkaBatchReader(KafkaSettings.parse(self._servers), timeout_seconds=2)

    def unreachable(self) -> BatchReader:
        return KafkaBatchReader(KafkaSettings.parse({"bootstrap.servers": "127.0.0.1:1"}), timeout_seconds=1)

    def close(self) -> None:
        for transaction in list(self._running):
            self.end(transaction, commit=False)

    def _write(self, producer: Producer, topic: str, count: int, partition: int) -> None:
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(120) == 0


@pytest.fixture(params=["memory", "broker"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """One cluster of each kind; the real one is shared, so that tests name topics of their own."""
    if request.param == "memory":
        made: World = MemoryWorld()
    else:
        broker: LocalKafka = request.getfixturevalue("kafka")
        made = BrokerWorld(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"b-{uuid.uuid4().hex}"


def gap(topic: str, topic_id: str, start: int, end: int, partition: int = 0) -> Slice:
    return Slice(Stream(topic, topic_id, partition), OffsetRange(start, end))


def letters(asked: Slice, said: Sequence[Explanation]) -> str:
    """One letter per offset: c(ontrol), a(borted), k (compacted), ! (unreadable), t (overflowing), ? (unexplained)."""
    names = {
        Fate.CONTROL: "c",
        Fate.ABORTED: "a",
        Fate.COMPACTED: "k",
        Fate.UNEXPLAINED: "?",
        Fate.UNREADABLE: "!",
        Fate.OVERFLOWING: "t",
    }
    fates = {at: item.fate for item in said for at in range(item.range.start, item.range.end)}
    return "".join(names[fates.get(at, Fate.UNEXPLAINED)] for at in range(asked.range.start, asked.range.end))


def explained(world: World, asked: Slice, isolation: Isolation = COMMITTED) -> str:
    return letters(asked, world.reader.explain([asked], isolation)[asked])


def transactions(world: World, topic: str) -> str:
    """A topic with records, a commit and an abort: `??` `???c` `aac` `?`."""
    topic_id = world.create(topic)
    world.produce(topic, 2)
    world.end(world.begin(topic, 3), commit=True)
    world.end(world.begin(topic, 2), commit=False)
    world.produce(topic, 1)
    return topic_id


def test_markers_and_aborted_records_are_told_apart_from_losses(world: World, name: str) -> None:
    """Records that a reader should see are unexplained when they have no row."""
    topic_id = transactions(world, name)
    assert explained(world, gap(name, topic_id, 0, 10)) == "?????caac?"


def test_aborted_records_are_visible_under_read_uncommitted(world: World, name: str) -> None:
    """There a missing one is as unexplained as any other; markers are never visible."""
    topic_id = transactions(world, name)
    assert explained(world, gap(name, topic_id, 0, 10), UNCOMMITTED) == "?????c??c?"


def test_records_are_looked_up_where_the_leader_has_them(world: World, name: str) -> None:
    """Each with its digest and its leader epoch; a marker and an offset beyond the end are no record of the kind."""
    stream = Stream(name, world.create(name), 0)
    world.produce(name, 3)
    found = world.reader.held([(stream, 1), (stream, 7)], epochs={stream: 0})
    ((place, tip),) = found.items()
    assert (place, tip.offset, tip.leader_epoch) == ((stream, 1), 1, 0)
    assert (tip.digest or "").startswith(record_digest(None, b"x", 0).rpartition("|")[0])


def test_leader_of_an_older_epoch_is_not_believed(world: World, name: str) -> None:
    """A broker that has not heard of the newest leader says nothing of its log."""
    stream = Stream(name, world.create(name), 0)
    world.produce(name, 3)
    reader = world.impatient()
    assert reader.held([(stream, 1)]), "it answers in that time"
    with pytest.raises(UnavailableError):
        reader.held([(stream, 1)], epochs={stream: 1})
    with pytest.raises(UnavailableError):
        reader.explain([Slice(stream, OffsetRange(0, 1))], COMMITTED, epochs={stream: 1})


def test_every_gap_gets_its_own_answer(world: World, name: str) -> None:
    """Gaps of several partitions and topics, touching and overlapping ones too, come back under themselves."""
    first = transactions(world, name)
    other = f"{name}-other"
    second = world.create(other, 2)
    world.end(world.begin(other, 1, partition=1), commit=False)
    asked = {
        gap(name, first, 5, 6): "c",
        gap(name, first, 6, 8): "aa",
        gap(name, first, 4, 7): "?ca",
        gap(other, second, 0, 2, partition=1): "ac",
    }
    beats: list[int] = []
    said = world.reader.explain(list(asked), COMMITTED, beats.append)
    assert {item: letters(item, said[item]) for item in asked} == asked
    assert beats, "no beat told that the reading goes on"
    assert sum(beats) in (6, 8), "the beats tell how many offsets are explained"


def test_explanations_stay_inside_their_gap(world: World, name: str) -> None:
    """No offset is spoken of twice, and none outside what was asked."""
    topic_id = transactions(world, name)
    asked = gap(name, topic_id, 1, 8)
    said = world.reader.explain([asked], COMMITTED)[asked]
    spoken = [at for item in said for at in range(item.range.start, item.range.end)]
    assert sorted(set(spoken)) == sorted(spoken)
    assert set(spoken) <= set(range(1, 8))


def test_record_whose_time_no_job_can_read_is_named(world: World, name: str) -> None:
    """Nanoseconds are a number like any other to Kafka; microseconds are still within what Spark reads."""
    topic_id = world.create(name)
    world.produce(name, 2)
    for at in (1_700_000_000_000_000_000, 1_700_000_000_000_000):
        world.produce_at(name, at)
    assert explained(world, gap(name, topic_id, 0, 4)) == "??t?"


def test_open_transaction_is_not_explained(world: World, name: str) -> None:
    """At or above the last stable offset anything may still happen."""
    topic_id = world.create(name)
    world.end(world.begin(name, 1), commit=False)
    world.begin(name, 2)
    world.produce(name, 1)
    assert explained(world, gap(name, topic_id, 0, 5)) == "ac???"


def test_deleted_offsets_are_not_explained(world: World, name: str) -> None:
    """Below the log start nothing is known any more, whatever it was."""
    topic_id = transactions(world, name)
    world.delete_before(name, 7)
    assert explained(world, gap(name, topic_id, 4, 10)) == "???ac?"


@pytest.mark.parametrize("isolation", list(Isolation))
def test_offsets_beyond_the_end_are_not_explained(world: World, name: str, isolation: Isolation) -> None:
    """What does not exist has no fate."""
    topic_id = transactions(world, name)
    assert explained(world, gap(name, topic_id, 8, 13), isolation) == "c????"


def test_recreated_topic_is_another_topic(world: World, name: str) -> None:
    """Its batches say nothing of the offsets that were planned."""
    former = transactions(world, name)
    world.delete(name)
    world.create(name)
    with pytest.raises(IdentityError, match=name):
        world.reader.explain([gap(name, former, 5, 6)], COMMITTED)


def test_deleted_topic_has_no_witness(world: World, name: str) -> None:
    """A topic that is gone is not the one that was planned either."""
    former = transactions(world, name)
    world.delete(name)
    with pytest.raises(IdentityError, match=name):
        world.reader.explain([gap(name, former, 5, 6)], COMMITTED)


def test_unreachable_cluster_is_said_to_be_so(world: World, name: str) -> None:
    """No answer is no explanation and worth repeating."""
    with pytest.raises(UnavailableError):
        world.unreachable().explain([gap(name, "A" * 22, 0, 1)], COMMITTED)


def test_nothing_asked_is_nothing_said(world: World) -> None:
    """No gap, no answer."""
    assert world.reader.explain([], COMMITTED) == {}
