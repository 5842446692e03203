"""Rows that are written without a query, on a cluster whose tasks fail, are tried again, or lose their executor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_kafka_lake.adapters.spark_submit.submission import all_jars
from airflow_kafka_lake.jobs import formats
from airflow_kafka_lake.jobs.stage import stage
from tests.consumer_jar import SOURCE, read_with
from tests.faults.test_reading import staged_by_a_thread
from tests.hosts import HERE
from tests.integration.test_stage import Topic, job, rows, staged
from tests.spark_cluster import QUICK, Cluster, wait_for
from tests.spark_lake import SparkLake, started

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_kafka_lake.core.spark.job import StageJob
    from airflow_kafka_lake.local.kafka import LocalKafka

pytestmark = [
    pytest.mark.faults,
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark closes no socket of a session that has ended
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

GIVEN = "ConsumerRecord record = (ConsumerRecord) records.removeFirst();"
FAILS = """
    if (record.offset() % 300 == 299 && task.attemptNumber() == 0) {
        throw new IllegalStateException("the first attempt of a task fails at its last row");
    }
"""
STANDS = """
    if (record.offset() == %d) {
        boolean stands = %s;
        java.io.File here = new java.io.File("%s/stands");
        if (stands) {
            here.mkdir();
        }
        while (stands ? !(%s) : !here.exists()) {
            java.util.concurrent.locks.LockSupport.parkNanos(100000000L);
        }
    }
"""
"""Some attempts of a task stand at an offset until they may go; the others go on once one stands."""
TRIED_TWICE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def cluster(service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers; executors of one host's address are not given a second attempt of its tasks."""
    made = Cluster(tmp_path_factory.mktemp("cluster"), [HERE, HERE, dataclasses.replace(HERE, address="127.0.0.2")], {})
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    return SparkLake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def spark(cluster: Cluster, lake: SparkLake, spark_jars: list[Path]) -> Iterator[SparkSession]:
    """A Spark with an executor on each worker."""
    jars = ",".join(map(str, all_jars(spark_jars)))
    further = {"spark.jars": jars, "spark.executor.memory": "512m", "spark.cores.max": "2"}
    with started(
        lake, spark_jars, cluster.master, {**further, **TRIED_TWICE, "spark.executor.extraJavaOptions": QUICK}
    ) as session:
        yield session


@pytest.fixture
def topic(kafka: LocalKafka, spark: SparkSession, cluster: Cluster) -> Topic:
    """A topic of nine hundred records, and two executors that can read it."""
    wait_for(lambda: len(cluster.executors()) == 2)
    made = Topic(kafka)
    made.send(*({"value": b"v%d" % number, "key": b"k%d" % number} for number in range(900)))
    return made


@pytest.fixture(autouse=True)
def without_a_query(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test writes without one."""
    taken: list[bool] = []
    written = formats._is_written
    monkeypatch.setattr(formats, "_is_written", lambda *given: taken.append(written(*given)) or taken[-1])
    yield
    assert taken == [True]


def reads_so(java: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jobs do something more with each record, in Java."""
    text = SOURCE.read_text(encoding="utf-8")
    assert text.count(GIVEN) == 1
    read_with(text.replace(GIVEN, f"{GIVEN} {java}"), monkeypatch)


def assert_written_once(table: Table, work: StageJob) -> None:
    """Each row is there once, and no file is that the commit does not name."""
    assert sorted(row["kafka_offset"] for row in rows(table, work)) == list(range(900))
    assert files(table) == named(table, work)


def named(table: Table, work: StageJob) -> set[str]:
    """Return the names of the files of a job's commit."""
    table.refresh()
    found = table.inspect.files(staged(table, work).snapshot_id).to_pylist()
    return {file["file_path"].rsplit("/", 1)[1] for file in found}


def files(table: Table) -> set[str]:
    """Return the names of all data files of a table that are in its folder."""
    return {path.name for path in (Path(table.location().removeprefix("file://")) / "data").rglob("*.parquet")}


def test_a_task_that_fails_leaves_no_file_and_its_next_attempt_lands(
    spark: SparkSession, lake: SparkLake, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt of every task fails at its last row, with a file of each bucket open."""
    reads_so(FAILS, monkeypatch)
    table = lake.create("bucket(3, key)")
    work = job(table, *(topic.slice_(start, start + 300) for start in (0, 300, 600)), tasks=3)
    read = stage(spark, work, {"bootstrap.servers": topic.bootstrap})
    assert_written_once(table, work)
    assert sorted(tip.slice.range.end for tip in read) == [300, 600, 900]


def test_an_attempt_that_outlives_its_job_shows_nothing_and_leaves_no_file(
    spark: SparkSession, lake: SparkLake, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task was tried a second time, which came first; it hears that it is over only after its last record."""
    reads_so(STANDS % (299, "task.attemptNumber() == 0", tmp_path, "task.isInterrupted()"), monkeypatch)
    table = lake.create("bucket(2, key)")
    work = job(table, topic.slice_(0, 300), topic.slice_(300, 900), tasks=2)
    read = stage(spark, work, {"bootstrap.servers": topic.bootstrap})
    assert sorted(tip.slice.range.end for tip in read) == [300, 900]
    before = named(table, work)
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    wait_for(lambda: all(its.numRunningTasks() == 0 for its in tracker.getExecutorInfos()))
    wait_for(lambda: files(table) == named(table, work))
    assert named(table, work) == before
    assert_written_once(table, work)


def test_rows_of_an_executor_that_dies_in_mid_write_are_written_by_another(
    spark: SparkSession,
    cluster: Cluster,
    lake: SparkLake,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks that had ended there are not repeated: their files are there, and named."""
    reads_so(STANDS % (899, "true", tmp_path, f'new java.io.File("{tmp_path}/goes").exists()'), monkeypatch)
    table = lake.create("bucket(2, key)")
    work = job(table, *(topic.slice_(start, start + 300) for start in (0, 300, 600)), tasks=3)
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(staged_by_a_thread, spark, work, {"bootstrap.servers": topic.bootstrap})
        try:
            wait_for(lambda: (tmp_path / "stands").exists() or outcome.done())
            assert not outcome.done(), outcome.exception()
            for executor in cluster.executors():
                executor.kill()
        finally:
            (tmp_path / "goes").mkdir()
        outcome.result()
    assert sorted(row["kafka_offset"] for row in rows(table, work)) == list(range(900))
    assert named(table, work) <= files(table)
