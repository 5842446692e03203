"""The shared consumer while leaders die, hang, lose their end, or Kafka deletes what it reads."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_kafka_lake.adapters.spark_submit.failures import recognised
from airflow_kafka_lake.jobs.formats import STAGED_BY
from airflow_kafka_lake.jobs.stage import stage
from airflow_kafka_lake.local.processes import wait_until
from tests.brokers import Brokers
from tests.consumer_jar import SOURCE, read_with
from tests.integration import conftest as sharing
from tests.integration.test_stage import Lake, Topic, job, offsets, staged, summary

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_kafka_lake.core.spark.job import StageJob

pytestmark = [
    pytest.mark.faults,
    pytest.mark.nightly,
    # PySpark closes no socket by which it has collected rows, as it does after a failed commit.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
lake, spark = sharing.lake, sharing.spark

SMALL = {"max.partition.fetch.bytes": "16384", "fetch.max.bytes": "16384"}
"""So that much is left to be fetched whenever a reader is stopped."""


RECEIVED = """
    for (Object item : consumer.metrics().values()) {{
        org.apache.kafka.common.Metric it = (org.apache.kafka.common.Metric) item;
        if (it.metricName().name().equals("incoming-byte-total") && it.metricName().tags().containsKey("node-id")) {{
            long bytes = ((Double) it.metricValue()).longValue();
            new java.io.File("{folder}/" + it.metricName().tags().get("node-id") + "=" + bytes).mkdir();
        }}
    }}
"""
"""Leaves a folder whose name says how many bytes a consumer has had from each broker."""


class Placed(Topic):
    """A topic whose partitions have these replicas, the first of each its leader."""

    def __init__(self, brokers: Brokers, *replicas: list[int], **settings: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.bootstrap, self.name = brokers.bootstrap, f"placed-{secrets.token_hex(4)}"
        self.id = secrets.token_urlsafe(16)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(
            self.name, len(replicas), replica_assignment=list(replicas), config={"min.insync.replicas": "1"} | config
        )
        self.admin.create_topics([new])[self.name].result()

    def fill(self, partition: int, records: int) -> None:
        """Produce records of a kilobyte in batches of ten, so that a fetch brings a few."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, "batch.num.messages": 10, "linger.ms": 5})
        for _ in range(records):
            producer.produce(self.name, b"v" * 1000, partition=partition)
        assert producer.flush(120) == 0

    def leads(self, leader: int) -> Callable[[], bool]:
        """Return whether a broker leads partition 0, as Kafka says; -1: none does. A broker that hangs may be asked."""
        from confluent_kafka import KafkaException

        def leads() -> bool:
            try:
                found = self.admin.list_topics(timeout=5)
            except KafkaException:
                return False
            return bool(found.topics[self.name].partitions[0].leader == leader)

        return leads


def staged_by_a_thread(spark: SparkSession, work: StageJob, settings: Mapping[str, str]) -> None:
    """Stage, and close the thread's connection to Java, which py4j would leave to the garbage collector."""
    try:
        stage(spark, work, settings)
    finally:
        spark.sparkContext._gateway._gateway_client.get_thread_connection().close()  # type: ignore[union-attr]


class Gate:
    """Stops the reader, in the middle of a poll's records, until the test lets it go on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, when: str = "true", first: str = "") -> None:
        """At the first poll that brings records and meets the condition `when`, which does `first`: both in Java."""
        self._reached, self._open = folder / "reached", folder / "open"
        text, poll = SOURCE.read_text(encoding="utf-8"), "take(consumer.poll(POLL));"
        assert text.count(poll) == 1
        stop = f"""{poll}
            if (!records.isEmpty() && {when}) {{
                {first}
                new java.io.File("{self._reached}").mkdir();
                while (!new java.io.File("{self._open}").exists()) {{
                    java.util.concurrent.locks.LockSupport.parkNanos(10000000L);
                }}
            }}"""
        read_with(text.replace(poll, stop), monkeypatch)

    @contextmanager
    def reading(self, spark: SparkSession, work: StageJob, topic: Topic, **kafka: str) -> Iterator[Future[None]]:
        """Begin a job, and give its outcome to a block that begins when the reader stands at the gate."""
        settings = {"bootstrap.servers": topic.bootstrap, **SMALL, **kafka}
        with ThreadPoolExecutor(1) as pool:
            outcome = pool.submit(staged_by_a_thread, spark, work, settings)
            try:
                wait_until(lambda: self._reached.exists() or outcome.done(), timeout=120, failed=AssertionError)
                assert not outcome.done(), outcome.exception()
                yield outcome
            finally:
                self.open()

    def open(self) -> None:
        """Let the reader go on."""
        self._open.mkdir(exist_ok=True)


@pytest.fixture(scope="module")
def cluster(service: None) -> Iterator[Brokers]:
    replicated = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.lag.time.max.ms": "5000",
    }
    with Brokers(3, replicated) as started:
        yield started


@pytest.fixture
def brokers(cluster: Brokers) -> Iterator[Brokers]:
    """All brokers live when a test begins, and afterwards again."""
    yield cluster
    cluster.restore()


def failure(outcome: Future[None], table: Table, work: StageJob) -> str:
    """Return the usual reason of a job that ended with an error, and staged nothing as finished."""
    error = outcome.exception(timeout=300)
    assert error is not None
    assert STAGED_BY not in summary(staged(table, work))
    found = recognised(str(error).splitlines())
    assert found is not None, error
    return found.name


def test_leader_that_dies_in_mid_read_is_followed(
    spark: SparkSession, lake: Lake, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record comes once, from the partitions that have lost their leader and from the others."""
    topic, table = Placed(brokers, [2, 3], [3, 2], [2, 3]), lake.create()
    for partition in range(3):
        topic.fill(partition, 400)
    work = job(table, *(topic.slice_(0, 400, partition) for partition in range(3)))
    gate = Gate(tmp_path, monkeypatch)
    with gate.reading(spark, work, topic) as outcome:
        brokers[2].kill()
        gate.open()
        assert outcome.result(timeout=300) is None
    assert offsets(table, work) == [*range(400)] * 3


def test_log_that_loses_what_was_read_fails_the_job(
    spark: SparkSession, lake: Lake, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unclean leader has less than the reader has read, and grows beyond its slice: that is no end, and no read."""
    topic, table = Placed(brokers, [2, 3], unclean_leader_election_enable="true"), lake.create()
    topic.fill(0, 100)
    brokers[3].kill()
    topic.fill(0, 200)
    work = job(table, topic.slice_(0, 300))
    gate = Gate(tmp_path, monkeypatch, "position((TopicPartition) open.keySet().iterator().next()) > 150")
    with gate.reading(spark, work, topic) as outcome:
        brokers[2].kill()
        brokers[3].start()
        wait_until(topic.leads(3), timeout=120, failed=AssertionError)
        topic.fill(0, 300)
        gate.open()
        assert failure(outcome, table, work) == "data-loss"


def test_leader_that_hangs_is_waited_for(
    spark: SparkSession, lake: Lake, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition without a leader keeps no other from being read; when its only broker goes on, so does the read."""
    topic, table = Placed(brokers, [2], [3]), lake.create()
    for partition in range(2):
        topic.fill(partition, 200)
    work = job(table, *(topic.slice_(0, 200, partition) for partition in range(2)))
    gate = Gate(tmp_path, monkeypatch)
    with gate.reading(spark, work, topic) as outcome, hanging(brokers, 2):
        gate.open()
        wait_until(topic.leads(-1), timeout=120, failed=AssertionError)
    assert outcome.result(timeout=300) is None
    assert offsets(table, work) == [*range(200)] * 2


def test_leader_that_hangs_for_good_fails_the_job(
    spark: SparkSession, lake: Lake, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the client waits for answers: never a short read."""
    topic, table = Placed(brokers, [2]), lake.create()
    topic.fill(0, 200)
    work = job(table, topic.slice_(0, 200))
    gate, waits = Gate(tmp_path, monkeypatch), {"request.timeout.ms": "2000", "default.api.timeout.ms": "4000"}
    with gate.reading(spark, work, topic, **waits) as outcome, hanging(brokers, 2):
        gate.open()
        assert failure(outcome, table, work) == "kafka-unreachable"


@contextmanager
def hanging(brokers: Brokers, number: int) -> Iterator[None]:
    """Stop a broker's process, and let it go on when the block ends."""
    os.killpg(brokers[number].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(brokers[number].pid, signal.SIGCONT)


def test_retention_that_passes_a_running_read_fails_the_job(
    spark: SparkSession, lake: Lake, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not fetched yet is missing, and is not skipped."""
    from confluent_kafka import TopicPartition

    topic, table = Placed(brokers, [2]), lake.create()
    topic.fill(0, 300)
    work = job(table, topic.slice_(0, 300))
    gate = Gate(tmp_path, monkeypatch)
    with gate.reading(spark, work, topic) as outcome:
        (deleted,) = topic.admin.delete_records([TopicPartition(topic.name, 0, 250)]).values()
        deleted.result()
        gate.open()
        assert failure(outcome, table, work) == "data-loss"


def test_replica_of_the_same_rack_is_read(
    spark: SparkSession, lake: Lake, brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `client.rack`, where the brokers choose replicas by rack, the records come from there."""
    topic, table = Placed(brokers, [2, 3], [2, 3]), lake.create()
    for partition in range(2):
        topic.fill(partition, 300)
    work = job(table, *(topic.slice_(0, 300, partition) for partition in range(2)))
    gate = Gate(tmp_path, monkeypatch, "reached > 500", RECEIVED.format(folder=tmp_path))
    with gate.reading(spark, work, topic, **{"client.rack": "rack-3"}) as outcome:
        leader, follower = (int(next(tmp_path.glob(f"node-{number}=*")).name.split("=")[1]) for number in (2, 3))
        gate.open()
        outcome.result(timeout=300)
    assert offsets(table, work) == [*range(300)] * 2
    assert follower > 10 * leader
