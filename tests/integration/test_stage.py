"""The staging job with a real Kafka, Spark and Iceberg."""

from __future__ import annotations

import gc
import json
import logging
import math
import random
import re
import secrets
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, ListType, NestedField, StringType, StructType
from pyspark.sql import Row, SparkSession

from airflow_kafka_lake.adapters.iceberg.schema import LANDING
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.jars.cache import CACHE_VARIABLE
from airflow_kafka_lake.adapters.spark_submit.failures import recognised
from airflow_kafka_lake.adapters.spark_submit.runner import SparkJobs, SparkSubmitRunner, archive_path, make_archive
from airflow_kafka_lake.cli.entry_point import main as kafka_lake
from airflow_kafka_lake.core.accounting import Fate, account
from airflow_kafka_lake.core.ddl import changes
from airflow_kafka_lake.core.decoding import Decoder, Format
from airflow_kafka_lake.core.errors import UNREADABLE_RECORD, JobFailedError, StaleFenceError
from airflow_kafka_lake.core.kafka.batches import EARLIEST_MS, LATEST_MS, SPARK_EARLIEST_MS
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, SliceSet, Stream
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import FEWEST, StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs import formats, shared_consumer
from airflow_kafka_lake.jobs.compare import CompareJob, compare
from airflow_kafka_lake.jobs.decoding.decode import decoded
from airflow_kafka_lake.jobs.driver import (
    _ROWS,
    PROGRESS_FILE,
    Counts,
    await_counts,
    newest_query,
    report_progress,
    written,
)
from airflow_kafka_lake.jobs.formats import STAGED_BY
from airflow_kafka_lake.jobs.java import java_of
from airflow_kafka_lake.jobs.shared_consumer import SETTING, frame_of
from airflow_kafka_lake.jobs.stage import Steps, stage
from airflow_kafka_lake.local.processes import free_ports
from tests import markers
from tests.canaries import planted
from tests.consumer_jar import SOURCE, read_with
from tests.integration import test_accounting as accounting
from tests.silence import SilentServer
from tests.spark_lake import SparkLake as Lake

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.integration.test_accounting import Truth

pytestmark = [
    pytest.mark.integration,
    # PySpark leaves the closing of its sockets to the collector, which comes when it likes: see `collected`.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SENTINEL = "canary-sentinel"
TWO_MB = bytes(range(256)) * 8192
DAY_MS = 24 * 60 * 60 * 1000


class Topic:
    """A topic of its own for a test, and what was produced to it."""

    def __init__(self, kafka: LocalKafka, partitions: int = 1, **settings: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.bootstrap = kafka.bootstrap
        self.name = f"stage-{secrets.token_hex(4)}"
        self.id = secrets.token_urlsafe(16)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = NewTopic(self.name, partitions, config={"max.message.bytes": "4000000"} | config)
        self.admin.create_topics([new])[self.name].result()

    def send(self, *records: dict[str, Any], end: str | None = None) -> None:
        """Produce in this order; with `end`, in a transaction that is committed or aborted."""
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.bootstrap, "message.max.bytes": 4_000_000, "linger.ms": 20}
        producer = Producer(settings | ({"transactional.id": f"t-{secrets.token_hex(4)}"} if end else {}))
        if end:
            producer.init_transactions(120)
            producer.begin_transaction()
        for record in records:
            producer.produce(self.name, **({"partition": 0} | record))
        assert producer.flush(120) == 0
        if end:
            written = {(self.name, record.get("partition", 0)) for record in records}
            markers.end(producer, self.bootstrap, written, commit=end == "commit")

    def slice_(self, start: int, end: int, partition: int = 0) -> Slice:
        return Slice(Stream(self.name, self.id, partition), OffsetRange(start, end))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Let no socket of PySpark be closed in the test of another module."""
    yield
    gc.collect()


def job(table: Table, *slices: Slice, tasks: int = 1, limit: int | None = None) -> StageJob:
    return StageJob(
        pipeline="p",
        wave="w1",
        attempt=secrets.token_hex(8),
        table=".".join(table.name()),
        isolation=Isolation.READ_COMMITTED,
        slices=slices,
        tasks=tasks,
        max_records_per_partition=limit,
    )


def run(spark: SparkSession, topic: Topic, work: StageJob) -> None:
    stage(spark, work, {"bootstrap.servers": topic.bootstrap})


def staged(table: Table, work: StageJob) -> Snapshot:
    """Return the head of the attempt's branch."""
    snapshot = table.refresh().snapshot_by_name(work.branch)
    assert snapshot is not None
    return snapshot


def summary(snapshot: Snapshot) -> dict[str, str]:
    assert snapshot.summary is not None
    return snapshot.summary.additional_properties


def rows(table: Table, work: StageJob) -> list[dict[str, Any]]:
    """Return what the attempt staged, in the order of Kafka."""
    found = table.scan(snapshot_id=staged(table, work).snapshot_id).to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]))


def offsets(table: Table, work: StageJob) -> list[int]:
    return [row["kafka_offset"] for row in rows(table, work)]


def test_a_plain_range_is_staged_in_one_commit(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Exactly the range's records come, with position, topic id and attempt, in one commit that names the attempt."""
    topic, table = Topic(kafka), lake.create()
    topic.send(*({"value": b"v%d" % number, "key": b"k", "timestamp": 1_700_000_000_123} for number in range(100)))
    work = job(table, topic.slice_(10, 90))
    run(spark, topic, work)
    found = rows(table, work)
    assert [row["kafka_offset"] for row in found] == list(range(10, 90))
    first = found[0]
    assert (first["key"], first["value"], first["headers"] or []) == (b"k", b"v10", [])
    assert (first["kafka_topic"], first["kafka_topic_id"], first["kafka_partition"]) == (topic.name, topic.id, 0)
    assert first["kafka_timestamp"].timestamp() == 1_700_000_000.123
    assert (first["kafka_timestamp_type"], first["ingest_attempt"]) == (0, work.attempt)
    head = staged(table, work)
    assert summary(head)[STAGED_BY] == work.attempt
    assert summary(head)["added-data-files"] == "1"
    (file,) = table.inspect.files(head.snapshot_id).to_pylist()
    assert file["file_format"] == "PARQUET"


def test_nothing_of_a_record_is_dropped(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Null keys, tombstones, empty values, repeated and null headers and 2 MB values come byte for byte."""
    topic, table = Topic(kafka), lake.create()
    topic.send(
        {"key": None, "value": b"no key"},
        {"key": b"gone", "value": None},
        {"key": b"", "value": b""},
        {"key": b"\x00\xff", "value": TWO_MB},
        {"value": b"h", "headers": [("a", b"1"), ("a", b"\x00\xff"), ("none", None), ("", b"")]},
    )
    work = job(table, topic.slice_(0, 5))
    run(spark, topic, work)
    found = rows(table, work)
    assert [(row["key"], row["value"]) for row in found[:3]] == [(None, b"no key"), (b"gone", None), (b"", b"")]
    assert (found[3]["key"], found[3]["value"]) == (b"\x00\xff", TWO_MB)
    assert [(header["key"], header["value"]) for header in found[4]["headers"]] == [
        ("a", b"1"),
        ("a", b"\x00\xff"),
        ("none", None),
        ("", b""),
    ]


def test_columns_that_another_job_adds_meanwhile_are_taken(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of a backfill begin at once, each with a new table's columns to add: the one that comes last goes on."""
    table = lake.create()
    name = f"lake.{'.'.join(table.name())}"
    asked: list[list[str]] = []

    def meanwhile(*given: Any) -> list[str]:
        found = list(changes(*given))
        asked.append(found)
        if len(asked) == 1:
            for change in found:
                spark.sql(f"ALTER TABLE {name} {change}")
            # Of an error of Java's that PySpark has no class for, Py4J's is raised.
            java_of(spark).java.util.ArrayDeque().pop()
        return found

    monkeypatch.setattr(formats, "changes", meanwhile)
    wanted = spark.sql("SELECT cast(null AS int) AS amount, cast(null AS string) AS city").schema.fields
    formats.widen(spark, name, wanted, "the pipeline file")
    assert [bool(found) for found in asked] == [True, False]
    assert {"amount", "city"} <= set(table.refresh().schema().column_names)


def test_aborted_records_are_not_staged(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Under read_committed neither aborted records nor markers become rows."""
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"a"}, {"value": b"b"}, end="commit")
    topic.send({"value": b"never"}, {"value": b"never"}, end="abort")
    topic.send({"value": b"c"})
    work = job(table, topic.slice_(0, 7))
    run(spark, topic, work)
    assert [(row["kafka_offset"], row["value"]) for row in rows(table, work)] == [(0, b"a"), (1, b"b"), (6, b"c")]


def test_a_range_without_rows_ends_in_a_commit(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Zero rows are told from an unfinished job by the commit that names the attempt, also on an empty table."""
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"never"}, {"value": b"never"}, end="abort")
    topic.send({"value": b"a"}, end="commit")
    work = job(table, topic.slice_(0, 3), topic.slice_(4, 5))
    run(spark, topic, work)
    assert summary(staged(table, work))[STAGED_BY] == work.attempt
    assert rows(table, work) == []


def test_disjoint_slices_of_one_partition_are_one_commit(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Islands of a partition are read apart and committed together, with what other partitions have."""
    topic, table = Topic(kafka, 2), lake.create()
    topic.send(*({"value": b"v", "partition": number % 2} for number in range(100)))
    work = job(table, topic.slice_(0, 5), topic.slice_(10, 12), topic.slice_(40, 50), topic.slice_(3, 4, 1))
    run(spark, topic, work)
    found = [(row["kafka_partition"], row["kafka_offset"]) for row in rows(table, work)]
    assert found == [(0, offset) for offset in (*range(5), 10, 11, *range(40, 50))] + [(1, 3)]
    assert len([s for s in table.snapshots() if summary(s).get(STAGED_BY) == work.attempt]) == 1


def test_an_uneven_topic_is_split(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """A heavy slice becomes several files, a light one goes beside them, and every offset comes once."""
    topic, table = Topic(kafka, 2), lake.create()
    topic.send(*({"value": b"v"} for _ in range(3000)), *({"value": b"v", "partition": 1} for _ in range(30)))
    work = job(table, topic.slice_(0, 3000), topic.slice_(0, 30, 1), tasks=4, limit=800)
    run(spark, topic, work)
    assert offsets(table, work) == [*range(3000), *range(30)]
    files = table.inspect.files(staged(table, work).snapshot_id).column("record_count").to_pylist()
    assert sorted(files) == [30, 750, 750, 750, 750]


@pytest.mark.nightly
def test_small_partitions_are_gathered_into_few_files(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Fifty quiet partitions are read by the tasks the job asks for, and every record comes once."""
    topic, table = Topic(kafka, 50), lake.create()
    topic.send(*({"value": b"v", "partition": number % 50} for number in range(150)))
    work = job(table, *(topic.slice_(0, 3, partition) for partition in range(50)), tasks=3)
    run(spark, topic, work)
    assert offsets(table, work) == [0, 1, 2] * 50
    assert summary(staged(table, work))["added-data-files"] == "3"


@pytest.mark.nightly
@pytest.mark.parametrize("rate", [None, 10**9])
def test_days_of_a_table_get_few_files(spark: SparkSession, lake: Lake, kafka: LocalKafka, rate: int | None) -> None:
    """Two tasks share four days by time, not by partition: a file for each day, and every record once."""
    topic, table, count = Topic(kafka, 2), lake.create("days(kafka_timestamp)"), 2 * FEWEST
    today = time.time_ns() // 10**6 // DAY_MS
    times = [(today - 4 + index * 4 // count) * DAY_MS for index in range(count)]
    topic.send(*({"value": b"v", "partition": place, "timestamp": at} for place in range(2) for at in times))
    work = job(table, topic.slice_(0, count), topic.slice_(0, count, 1), tasks=2)
    run(spark, topic, replace(work, by_time=True, rate=rate))
    assert offsets(table, work) == [*range(count)] * 2
    assert summary(staged(table, work))["added-data-files"] == "4"


def test_an_existing_branch_stops_the_job(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """An attempt that was begun before is not written to again."""
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"v"})
    work = job(table, topic.slice_(0, 1))
    run(spark, topic, work)
    before = staged(table, work)
    with pytest.raises(Exception, match="already exists"):
        run(spark, topic, work)
    assert staged(table, work) == before


def test_staged_rows_are_invisible_on_main(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """No reader of main sees a staged row, before and beside what main has."""
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"v"})
    work = job(table, topic.slice_(0, 1))
    run(spark, topic, work)
    name = f"lake.{work.table}"
    assert table.refresh().current_snapshot() is None
    assert spark.table(name).count() == 0
    table.append(table.scan(snapshot_id=staged(table, work).snapshot_id).to_arrow())
    later = job(table, topic.slice_(0, 1))
    run(spark, topic, later)
    assert spark.table(name).count() == 1


@pytest.fixture(
    params=[
        pytest.param("true", id="shared consumer"),
        pytest.param("false", id="Spark's source", marks=pytest.mark.nightly),
    ]
)
def reader(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Each of the two ways to read Kafka."""
    spark.conf.set(SETTING, request.param)
    yield
    spark.conf.unset(SETTING)


@pytest.mark.usefixtures("reader")
def test_offsets_below_the_log_start_stop_the_job(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """Lost offsets are an error and nothing is staged as finished."""
    from confluent_kafka import TopicPartition

    topic, table = Topic(kafka), lake.create()
    topic.send(*({"value": b"v"} for _ in range(10)))
    (deleted,) = topic.admin.delete_records([TopicPartition(topic.name, 0, 5)]).values()
    deleted.result()
    work = job(table, topic.slice_(0, 10))
    with pytest.raises(Exception, match=r"may have been lost|KAFKA_DATA_LOSS") as failure:
        run(spark, topic, work)
    found = recognised(str(failure.value).splitlines())
    assert found is not None
    assert found.name == "data-loss"
    assert STAGED_BY not in summary(staged(table, work))


@pytest.mark.usefixtures("reader")
def test_offsets_behind_the_end_of_the_log_stop_the_job(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """A log that was cut off, or whose last transaction is open, is not waited for; other partitions do not hide it."""
    topic, table = Topic(kafka, 2), lake.create()
    topic.send(*({"value": b"v", "partition": number % 2} for number in range(10)))
    work = job(table, topic.slice_(0, 5), topic.slice_(0, 9, 1))
    with pytest.raises(Exception, match=r"may have been lost|KAFKA_DATA_LOSS") as failure:
        run(spark, topic, work)
    found = recognised(str(failure.value).splitlines())
    assert found is not None
    assert found.name == "data-loss"
    assert STAGED_BY not in summary(staged(table, work))


@pytest.mark.usefixtures("reader")
def test_topic_that_is_gone_stops_the_job_and_stays_gone(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """It is named as such, soon, and not created by being read."""
    topic, table = Topic(kafka), lake.create()
    topic.admin.delete_topics([topic.name])[topic.name].result()
    work = job(table, topic.slice_(0, 1))
    with pytest.raises(Exception, match="UnknownTopicOrPartition") as failure:
        run(spark, topic, work)
    found = recognised(str(failure.value).splitlines())
    assert found is not None
    assert found.name == "unknown-topic"
    assert topic.name not in topic.admin.list_topics(timeout=30).topics


FAR = 253_402_300_800_000
"""A time of the year 10000, which is kept as a number."""


@pytest.fixture(scope="module")
def mixed(kafka: LocalKafka) -> tuple[str, tuple[Slice, ...]]:
    """Nulls, headers, transactions, aborted records, both kinds of time, a log that starts within a batch; slices that
    begin and end in gaps, and islands; returns Kafka's address and the slices."""
    from confluent_kafka import TopicPartition

    topic = Topic(kafka, 4, message_timestamp_after_max_ms=str(2**63 - 1))
    appended = Topic(kafka, 1, message_timestamp_type="LogAppendTime")
    topic.send(
        {"key": None, "value": b"no key", "timestamp": 1_700_000_000_123},
        {"key": b"gone", "value": None, "timestamp": 1},
        {"key": b"", "value": b"", "timestamp": FAR},
        {"value": b"h", "headers": [("a", b"1"), ("a", b"\x00\xff"), ("none", None), ("", b""), ("ä", b"2")]},
        *({"value": b"v%d" % number * 50, "partition": 1, "timestamp": number} for number in range(200)),
        *({"value": b"d%d" % number, "partition": 3} for number in range(10)),
    )
    (deleted,) = topic.admin.delete_records([TopicPartition(topic.name, 3, 4)]).values()
    deleted.result()
    topic.send({"value": b"t", "partition": 2}, {"value": b"t", "partition": 1}, end="commit")
    topic.send({"value": b"never", "partition": 2}, {"value": b"never", "partition": 1}, end="abort")
    topic.send({"value": b"last", "partition": 2}, {"value": b"last", "partition": 1}, end="commit")
    appended.send({"value": b"x", "timestamp": 7}, {"value": b"y"})
    ranges = {0: [(0, 2), (2, 3), (3, 4)], 1: [(0, 3), (7, 150), (190, 206)], 2: [(1, 3), (3, 5), (5, 6)], 3: [(4, 10)]}
    found = [topic.slice_(*each, partition) for partition, its in ranges.items() for each in its]
    return topic.bootstrap, (*found, appended.slice_(0, 2))


def read(spark: SparkSession, work: StageJob, bootstrap: str, shared: str) -> list[Row]:
    """Return the rows of a job, in an order of their own, by one of the two ways to read Kafka."""
    spark.conf.set(SETTING, shared)
    try:
        rows = frame_of(spark, Steps(spark, work, {"bootstrap.servers": bootstrap}).read())
        shown = rows.selectExpr("*", "hex(key) AS k", "hex(value) AS v").drop("key", "value")
        return sorted(shown.collect(), key=str)
    finally:
        spark.conf.unset(SETTING)


@pytest.mark.parametrize("isolation", Isolation)
def test_both_readers_return_the_same(
    spark: SparkSession,
    lake: Lake,
    mixed: tuple[str, tuple[Slice, ...]],
    isolation: Isolation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every field of every record, and nothing of what lies outside of the slices."""
    for name, value in (("_OF_FEW", 1000), ("WIDTH", 2)):  # so that partitions come in turns, and in several polls
        monkeypatch.setattr(shared_consumer, name, value)
    bootstrap, slices = mixed
    work = replace(job(lake.create(), *slices, tasks=2), isolation=isolation)
    found = read(spark, work, bootstrap, "true")
    assert len(found) == (171 if isolation is Isolation.READ_COMMITTED else 173)
    assert found == read(spark, work, bootstrap, "false")


TIMES: Mapping[int, str | None] = {
    EARLIEST_MS - 1: None,
    -1: None,
    -2: "1969-12-31T23:59:59.998+00:00",
    EARLIEST_MS: "0001-01-01T00:00:00+00:00",
    -14_831_683_200_000: "1500-01-02T00:00:00+00:00",
    -14_826_585_600_000: "1500-03-02T00:00:00+00:00",
    -14_826_672_000_000: "1500-03-01T00:00:00+00:00",
    -12_219_292_800_001: "1582-10-14T23:59:59.999000+00:00",
    SPARK_EARLIEST_MS - 1: "1900-01-01T23:59:59.999000+00:00",
    SPARK_EARLIEST_MS: "1900-01-02T00:00:00+00:00",
    LATEST_MS: "9999-12-31T23:59:59.999000+00:00",
    LATEST_MS + 1: None,
}
"""What a producer may write as a time, and the time that it is; None: none that a table can hold."""


@pytest.mark.parametrize("shared", ["true", pytest.param("false", marks=pytest.mark.nightly)])
def test_every_time_is_kafkas_or_keeps_its_number(
    spark: SparkSession, lake: Lake, kafka: LocalKafka, shared: str
) -> None:
    """No time is another one, whatever reads it: also before the calendar of today, and where a record has none."""
    from confluent_kafka import TopicCollection

    topic, table = Topic(kafka, message_timestamp_after_max_ms=str(2**63 - 1)), lake.create("hours(kafka_timestamp)")
    topic.send(*({"value": b"%d" % number, "timestamp": number} for number in TIMES))
    whole = topic.slice_(0, len(TIMES))
    work = job(table, whole)
    spark.conf.set(SETTING, shared)
    try:
        if shared == "false":
            with pytest.raises(Exception, match="ArithmeticException: long overflow") as failed:
                run(spark, topic, work)
            assert recognised(str(failed.value).splitlines()).name == UNREADABLE_RECORD  # type: ignore[union-attr]
            described = topic.admin.describe_topics(TopicCollection([topic.name]))[topic.name].result(30)
            topic.id = str(described.topic_id).translate(str.maketrans("+/", "-_"))
            whole = topic.slice_(0, len(TIMES))
            batches = accounting.reader(kafka)
            (said,) = batches.explain([whole], Isolation.READ_COMMITTED).values()
            late = [replace(whole, range=item.range) for item in said if item.fate is Fate.OVERFLOWING]
            few = SliceSet((whole,)) - SliceSet(late)
            work = replace(job(table, *few), overflowing=tuple(late))
        run(spark, topic, work)
        snapshot = staged(table, work).snapshot_id
        audit = CompareJob(
            pipeline="p", table=work.table, snapshot=snapshot, isolation=Isolation.READ_COMMITTED, slices=(whole,)
        )
        assert compare(spark, audit, {"bootstrap.servers": topic.bootstrap}).differences == ()
    finally:
        spark.conf.unset(SETTING)
    found = rows(table, work)
    assert [int(row["value"]) for row in found] == list(TIMES)
    for row, (number, moment) in zip(found, TIMES.items(), strict=True):
        assert row["kafka_timestamp"] == (None if moment is None else datetime.fromisoformat(moment)), number
        assert row["kafka_timestamp_raw"] == (number if moment is None else None)
    before = table.scan("kafka_timestamp < '1582-01-01T00:00:00+00:00'", snapshot_id=snapshot).to_arrow()
    assert before.num_rows == 4  # by the hours of their partitions


truths = accounting.truths


@pytest.mark.nightly
@pytest.mark.parametrize("isolation", Isolation)
def test_both_readers_account_alike_for_every_offset(
    spark: SparkSession,
    lake: Lake,
    kafka: LocalKafka,
    truths: Sequence[Truth],
    isolation: Isolation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slices cut anywhere out of interleaved transactions, markers, cleaned and compressed batches and moved starts:
    the rows are equal, they are those of the log dump, and they leave no offset unexplained."""
    monkeypatch.setattr(shared_consumer, "WIDTH", 3)
    dice, table, batches = random.Random(), lake.create(), accounting.reader(kafka)
    for limit in (None, 40):
        asked = {truth.gap(item.start, item.end): truth for truth, item in accounting.random_ranges(truths, dice)}
        work = replace(job(table, *asked, tasks=3, limit=limit), isolation=isolation)
        found = read(spark, work, kafka.bootstrap, "true")
        assert found == read(spark, work, kafka.bootstrap, "false"), asked.keys()
        offsets = Counter((row.kafka_topic, row.kafka_offset) for row in found)
        assert set(offsets.values()) == {1}
        for slice_, truth in asked.items():
            seen = RangeSet(OffsetRange(at, at + 1) for topic, at in offsets if topic == truth.topic)
            rows = RangeSet((slice_.range,)) & seen
            said = batches.explain([slice_.part(gap) for gap in RangeSet((slice_.range,)) - rows], isolation)
            numbers = account(slice_.range, rows, [each for its in said.values() for each in its])
            assert numbers.unexplained == 0, slice_
            if isolation is Isolation.READ_COMMITTED:
                assert numbers == truth.numbers(slice_.range, truth.visible()), slice_
            else:
                assert numbers.visible == sum(at in slice_.range for at in truth.present), slice_


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".offset() < end", ".offset() >= 0"),
        ("seek(place, slice(place));", ""),
        ("position >= slice(place)[1]", "position >= slice(place)[1] - 1"),
    ],
    ids=["what a poll finds behind a slice", "the next slice of a partition", "the last offset"],
)
def test_java_without_a_guard_is_noticed(
    spark: SparkSession,
    lake: Lake,
    mixed: tuple[str, tuple[Slice, ...]],
    old: str,
    new: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The comparison of the two readers fails for each guard that is taken out of the Java text."""
    text = SOURCE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    read_with(text.replace(old, new), monkeypatch)
    for attribute, value in {"_OF_FEW": 1000, "WIDTH": 2}.items():
        monkeypatch.setattr(shared_consumer, attribute, value)
    bootstrap, slices = mixed
    work = job(lake.create(), *slices, tasks=2)
    assert read(spark, work, bootstrap, "true") != read(spark, work, bootstrap, "false")


@pytest.fixture
def sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[int]]:
    """Has a shared consumer note its sleeps, in milliseconds, on a clock that stands: the last is the sum of all."""
    text = SOURCE.read_text(encoding="utf-8")
    sleep = "Thread.sleep(early);"
    assert text.count(sleep) == 1
    noted = f'Thread.sleep(0L); new java.io.File("{tmp_path}/" + early).mkdir();'
    read_with(text.replace(sleep, noted).replace("System.nanoTime()", "0L"), monkeypatch)
    return lambda: sorted(int(each.name) for each in tmp_path.iterdir())


def test_a_shared_consumer_sleeps_for_every_byte(
    spark: SparkSession, lake: Lake, kafka: LocalKafka, sleeps: Callable[[], list[int]]
) -> None:
    """Of keys, values and headers, and for 16 more of each record; so that all of it shows."""
    topic, table = Topic(kafka), lake.create()
    topic.send(*({"key": b"k" * 100, "value": b"v" * 880, "headers": [("ab", b"cd"), ("", None)]} for _ in range(50)))
    topic.send({"key": None, "value": None}, {"value": b"v" * 1_000_000})
    work = replace(job(table, topic.slice_(0, 51)), rate=10_000)
    run(spark, topic, work)
    assert offsets(table, work) == list(range(51))
    assert sleeps() == [*range(100, 5001, 100), 5001]
    last = replace(job(lake.create(), topic.slice_(51, 52)), rate=10_000)
    run(spark, topic, last)
    assert sleeps()[-1] == 60_000, "a record costs a minute at most"


def given_rows(counts: Counts) -> int:
    """Return how many rows the reads of the query that read Kafka have given, whatever is left out behind them."""
    (number,) = (number for number, query in counts.queries.items() if query.kafka)
    nodes, values = counts._sql().planGraph(number).allNodes(), counts._sql().executionMetrics(number).toString()
    found = dict(re.findall(r"(\d+) -> (\d+)", values))
    read = (node for node in map(nodes.apply, range(nodes.size())) if node.name().startswith("Scan ExistingRDD"))
    listed = (node.metrics().apply(place) for node in read for place in range(node.metrics().size()))
    return sum(int(found[str(metric.accumulatorId())]) for metric in listed if metric.name() == _ROWS)


def test_a_shared_consumer_sleeps_for_aborted_records(
    spark: SparkSession, lake: Lake, kafka: LocalKafka, sleeps: Callable[[], list[int]]
) -> None:
    """Kafka sends them, and the client gives none of them: but for what it may hold, each of their bytes costs time."""
    from confluent_kafka import Producer

    topic, table = Topic(kafka), lake.create()
    settings = {"transactional.id": topic.name, "batch.size": 10_000, "compression.type": "none"}
    producer = Producer({"bootstrap.servers": topic.bootstrap, **settings})
    producer.init_transactions(60)
    for ends, count in ((producer.abort_transaction, 200), (producer.commit_transaction, 1)):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic.name, b"v" * 10_000, partition=0)
        producer.flush(60)
        ends(60)
    work = replace(job(table, topic.slice_(0, 202)), rate=64 * 1024)
    before = newest_query(spark)
    run(spark, topic, work)
    assert offsets(table, work) == [201]
    await_counts(spark)
    counts = Counts(spark, before=before, written=written(spark))
    assert json.loads(counts.read())["rows"] == 1
    assert given_rows(counts) > 1, "a sign of life now and then, of which nothing lands"
    (record, aborted), ahead = (10_016, 2_000_000), 2 * 64 * 1024
    least, most = ((each + record) * 1000 / (64 * 1024) for each in (aborted - 2 * ahead, 1.2 * aborted))
    assert least < sleeps()[-1] < most


@pytest.mark.nightly
def test_few_tasks_of_heavy_records_fit_into_the_heap(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """A rate leaves few tasks, and 2 MB that a codec has made tiny come by the hundred in one fetch: more than a heap
    of 1 GB, if they were unpacked together."""
    from confluent_kafka import Producer

    topic, count = Topic(kafka, 20), 800
    settings = {"message.max.bytes": 4_000_000, "compression.type": "zstd", "queue.buffering.max.kbytes": 100_000}
    producer = Producer({"bootstrap.servers": topic.bootstrap, **settings})
    for number in range(count):
        producer.produce(topic.name, bytes(len(TWO_MB)), partition=number % 20)
        producer.flush(120)
    slices = (topic.slice_(0, count // 20, partition) for partition in range(20))
    estimated = count * len(TWO_MB) // (64 * 1024 * 1024)
    work = replace(job(lake.create(), *slices, tasks=estimated), rate=10**12)
    rows = frame_of(spark, Steps(spark, work, {"bootstrap.servers": topic.bootstrap}).read())
    rows.where("octet_length(value) = 2097152").write.format("noop").mode("overwrite").save()


def test_columns_beside_ours_are_filled_with_null(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """A table may have further nullable columns."""
    topic, table = Topic(kafka), lake.create()
    with table.update_schema() as change:
        change.add_column("decoded", StringType())
    topic.send({"value": b"v"})
    work = job(table, topic.slice_(0, 1))
    run(spark, topic, work)
    assert [row["decoded"] for row in rows(table, work)] == [None]


@pytest.mark.nightly
def test_table_that_was_changed_since_gets_the_same_rows(
    spark: SparkSession, lake: Lake, mixed: tuple[str, tuple[Slice, ...]]
) -> None:
    """Its columns moved, its partitioning evolved, its rows sorted: each value is in the column of its name."""
    (bootstrap, slices), found = mixed, list[list[dict[str, Any]]]()
    for order in ("", "UNORDERED", "ORDERED BY kafka_topic DESC, kafka_timestamp, kafka_offset DESC"):
        table = lake.create("hours(kafka_timestamp)")
        if order:
            with table.update_schema() as change:
                change.move_first("ingest_attempt")
                change.move_after("key", "kafka_offset")
                change.move_before("kafka_timestamp_raw", "kafka_topic")
            name = ".".join(table.name())
            for term in ("kafka_topic", "bucket(4, kafka_topic_id)", "truncate(3, value)"):
                spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD {term}")
            spark.sql(f"ALTER TABLE lake.{name} WRITE {order}")
        work = job(table, *slices, tasks=2)
        stage(spark, work, {"bootstrap.servers": bootstrap})
        found.append([row | {"ingest_attempt": ""} for row in rows(table, work)])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 171


FILED = ("record_count", "file_size_in_bytes", "column_sizes", "value_counts", "null_value_counts", "lower_bounds")
FILED += ("upper_bounds", "split_offsets", "sort_order_id", "spec_id", "partition", "file_format")
"""What a manifest says of a file, but for its name."""


def filed(table: Table, work: StageJob) -> list[str]:
    """Return what the attempt's manifest says of its files."""
    found = table.inspect.files(staged(table, work).snapshot_id).to_pylist()
    return sorted(str([file.get(name) for name in FILED]) for file in found)


@pytest.mark.parametrize("partition_by", ["", "days(kafka_timestamp), bucket(3, key)"])
def test_rows_are_written_without_a_query_as_a_query_writes_them(
    spark: SparkSession,
    lake: Lake,
    mixed: tuple[str, tuple[Slice, ...]],
    partition_by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows, files with their sizes, statistics and order, and the summary of the commit are the same."""
    bootstrap, slices = mixed
    plain, queried = lake.create(partition_by), lake.create(partition_by)
    work = job(plain, *slices, tasks=2)
    before = newest_query(spark)
    stage(spark, work, {"bootstrap.servers": bootstrap})
    await_counts(spark)
    assert newest_query(spark) <= before + 1, "of the branch, none of the rows"
    again = replace(work, table=".".join(queried.name()))
    monkeypatch.setattr(formats, "_is_written", lambda *_: False)
    stage(spark, again, {"bootstrap.servers": bootstrap})
    assert rows(plain, work) == rows(queried, again)
    assert filed(plain, work) == filed(queried, again)
    assert summary(staged(plain, work)) == summary(staged(queried, again))


@pytest.mark.parametrize("is_required", [(True, False), (False, True)], ids=["header", "its key"])
def test_rows_land_in_a_table_whose_headers_may_not_be_null(
    spark: SparkSession, lake: Lake, kafka: LocalKafka, is_required: tuple[bool, bool]
) -> None:
    """A query writes there: Iceberg refuses rows whose types say less, whatever their values are."""
    of_a_header, its_key = is_required
    key, value = NestedField(12, "key", StringType(), required=its_key), NestedField(13, "value", BinaryType())
    stricter = NestedField(3, "headers", ListType(11, StructType(key, value), element_required=of_a_header))
    fields = [stricter if field.name == "headers" else field for field in LANDING.fields]
    table = lake.catalog.create_table(f"raw.t_{secrets.token_hex(4)}", Schema(*fields))
    topic = Topic(kafka)
    topic.send({"value": b"v", "headers": [("a", b"1")]}, {"value": b"w"})
    work = job(table, topic.slice_(0, 2))
    run(spark, topic, work)
    found = spark.sql(f"SELECT headers FROM lake.{work.table} VERSION AS OF '{work.branch}' ORDER BY kafka_offset")
    assert [row.headers for row in found.collect()] == [[Row(key="a", value=bytearray(b"1"))], None]


def test_rows_are_sorted_where_the_table_wants_it(spark: SparkSession, lake: Lake, kafka: LocalKafka) -> None:
    """A table with an order of its own gets it, which takes a query."""
    topic, table = Topic(kafka), lake.create()
    spark.sql(f"ALTER TABLE lake.{'.'.join(table.name())} WRITE ORDERED BY kafka_offset DESC")
    topic.send(*({"value": b"v"} for _ in range(10)))
    work = job(table, topic.slice_(0, 10))
    run(spark, topic, work)
    found = table.scan(snapshot_id=staged(table, work).snapshot_id).to_arrow()
    assert found.column("kafka_offset").to_pylist() == list(reversed(range(10)))


@pytest.mark.parametrize("usual", [{"spark.app.name": ""}, {"spark.sql.extensions": ""}], ids=["listener", "rules"])
def test_what_watches_queries_is_told_of_one(
    spark: SparkSession, lake: Lake, kafka: LocalKafka, usual: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What learns of a write from Spark's queries, such as OpenLineage's agent or rules about rights, still does."""
    monkeypatch.setattr(formats, "USUAL", usual)
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"v"})
    before = newest_query(spark)
    run(spark, topic, job(table, topic.slice_(0, 1)))
    await_counts(spark)
    assert newest_query(spark) > before + 1


def test_rows_that_tasks_have_written_are_counted_while_they_run(
    spark: SparkSession, lake: Lake, kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, before their task ends and after it; a task that fails has written nothing."""
    text = SOURCE.read_text(encoding="utf-8")
    taken = "ConsumerRecord record = (ConsumerRecord) records.removeFirst();"
    assert text.count(taken) == 1
    slow = "try { Thread.sleep(20L); } catch (InterruptedException error) { throw new IllegalStateException(error); }"
    read_with(text.replace(taken, f"{taken} {slow}"), monkeypatch)
    topic, table, counts = (
        Topic(kafka),
        lake.create(),
        Counts(spark, before=newest_query(spark), written=written(spark)),
    )
    topic.send(*({"value": b"v"} for _ in range(300)))
    seen: list[int] = []
    ended = threading.Event()

    def count() -> None:
        while not ended.wait(0.1):
            seen.append(json.loads(counts.read())["rows"])

    teller = threading.Thread(target=count)
    teller.start()
    try:
        run(spark, topic, job(table, topic.slice_(0, 200), topic.slice_(200, 300), tasks=2))
    finally:
        ended.set()
        teller.join()
    assert seen == sorted(seen)
    assert len(set(seen) - {0, 300}) > 2
    assert json.loads(counts.read())["rows"] == 300


def test_rows_of_a_task_that_runs_are_signs_of_progress(spark: SparkSession, kafka: LocalKafka, tmp_path: Path) -> None:
    """One task may take longer than a driver may be silent: what it has read so far shows, in a local master too."""
    topic, file = Topic(kafka), tmp_path / PROGRESS_FILE
    topic.send(*({"value": b"v"} for _ in range(400)))
    signs: list[str] = []

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            signs.append(file.read_text())
            return super().wait(0.2)

    ended = Ended()
    counts = Counts(spark, before=newest_query(spark), written=written(spark))
    teller = threading.Thread(target=report_progress, args=(counts, file, ended))
    teller.start()
    options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, "startingOffsets": "earliest"}
    records = spark.read.format("kafka").options(**options).load()
    slow = records.selectExpr("reflect('java.lang.Thread', 'sleep', 20L) AS slept")
    slow.write.format("noop").mode("overwrite").save()
    await_counts(spark)
    ended.set()
    teller.join()
    read = [found for sign in signs if (found := Counters.from_json(sign))]
    assert len({found.rows for found in read if found.rows < 400}) > 2, signs
    context = spark.sparkContext
    told = Counters(rows=400, application=context.applicationId, page=context.uiWebUrl)
    assert Counters.from_json(file.read_text()) == told


def runner(lake: Lake, topic: Topic, spark_jars: list[Path], **changes: Any) -> SparkSubmitRunner:
    given = {
        "master": "local[2]",
        "catalog": lake.spark(),
        "kafka": {"bootstrap.servers": topic.bootstrap},
        "jars": spark_jars,
        "conf": {"spark.hadoop.test.secret": SENTINEL},
        "driver_memory": "1g",
    }
    return SparkSubmitRunner(**(given | changes))


def application(port: int) -> str:
    """Return the id of the one application of a driver's web pages; empty before they are there."""
    found = re.search(r'"id" : "([^"]+)"', page_of(port, "api/v1/applications"))
    return found[1] if found else ""


def page_of(port: int, path: str) -> str:
    """Return a page of a driver; empty when it is not there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.nightly  # by day: submitted jobs of two runs at once (test_run.py)
def test_a_submitted_job_stages_and_leaves_nothing_behind(
    lake: Lake,
    kafka: LocalKafka,
    spark_jars: list[Path],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """spark-submit does the same as the session, and its files are gone.

    No documented secret is on a command line, in an environment, on Spark's web pages, in its event log or in its log.
    """
    caplog.set_level(logging.DEBUG, logger="airflow_kafka_lake")
    topic, table = Topic(kafka), lake.create()
    topic.send(*({"value": b"v"} for _ in range(10)))
    work = replace(job(table, topic.slice_(0, 10)), rate=200)  # its pages have to live for a look
    refs: list[str] = []
    shown: list[str] = []
    pages: list[str] = []
    signs: set[str] = set()
    events, temporary, port = tmp_path / "events", tmp_path / "temporary", free_ports(1)[0]
    events.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    extra = {"catalog": "sql", "uri": f"sqlite:///{lake.database}", "warehouse": lake.warehouse, **planted("lake")}
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required password="{SENTINEL}";'
    secretive: dict[str, Any] = {
        "catalog": LakeSettings.parse("lake_default", extra).spark(),
        "kafka": {"bootstrap.servers": topic.bootstrap, "sasl.jaas.config": login, "ssl.key.password": SENTINEL},
        "conf": {
            **planted("Spark"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.log.level": "INFO",
            "spark.logConf": "true",
        },
    }

    def heartbeat() -> None:
        environments = ("environment/", f"api/v1/applications/{application(port)}/environment")
        pages.extend(page_of(port, page) for page in environments)
        signs.update(file.read_text() for file in temporary.glob(f"*/{PROGRESS_FILE}"))
        driver = psutil.Process(LeaseHolder.parse(refs[0]).pid)
        for process in [driver, *driver.children(recursive=True)]:
            try:
                shown.append(f"{process.cmdline()} {process.environ()}")
            except psutil.Error:
                continue

    submit = runner(lake, topic, spark_jars, heartbeat_seconds=0.3, **secretive)
    submit.stage(work, started=refs.append, heartbeat=heartbeat)
    assert offsets(table, work) == list(range(10))
    assert summary(staged(table, work))[STAGED_BY] == work.attempt
    logged = [pa.input_stream(file, compression="zstd").read().decode() for file in events.rglob("*.zstd")]
    for kind, word in ((shown, "stage.py"), (pages, "s3.sse.key"), (logged, "s3.sse.key"), ([caplog.text], "sse.key")):
        assert any(word in text for text in kind)
        assert not [text for text in kind if "canary" in text]
    assert signs
    assert list(temporary.iterdir()) == []


@pytest.mark.nightly
def test_a_rehearsed_driver_maps_its_class_archive(lake: Lake, kafka: LocalKafka, spark_jars: list[Path]) -> None:
    """`jars fetch` makes the archive that jobs look for, and it fits their driver: with sharing forced, Java would
    refuse to start."""
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"v"})
    work = job(table, topic.slice_(0, 1))
    assert kafka_lake(["jars", "fetch"]) == 0
    assert SparkJobs(master="local[2]", conf={}, catalog={}, kafka={})._jars == tuple(spark_jars)
    assert archive_path(spark_jars).exists()
    forced = {"spark.driver.extraJavaOptions": "-Xshare:on"}
    runner(lake, topic, spark_jars, conf=forced).stage(work, started=lambda _: None, heartbeat=lambda: None)
    assert offsets(table, work) == [0]


@pytest.mark.nightly
def test_a_class_archive_is_made_once(spark_jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second class loading is none."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    made = make_archive(spark_jars)
    when = made.stat().st_mtime_ns
    assert make_archive(spark_jars) == made
    assert made.stat().st_mtime_ns == when


@pytest.mark.nightly
def test_a_failed_submit_says_what_to_do(
    lake: Lake, kafka: LocalKafka, spark_jars: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A missing table is recognised from the driver's words, and no secret is among them."""
    caplog.set_level(logging.DEBUG, logger="airflow_kafka_lake")
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"v"})
    work = job(table, topic.slice_(0, 1))
    lake.catalog.drop_table(work.table)
    with pytest.raises(JobFailedError) as failure:
        runner(lake, topic, spark_jars).stage(work, started=lambda _: None, heartbeat=lambda: None)
    assert failure.value.facts["reason"] == "table-not-found"
    assert SENTINEL not in caplog.text + str(failure.value)


@pytest.mark.nightly
def test_a_silent_catalog_ends_a_submitted_job(lake: Lake, kafka: LocalKafka, spark_jars: list[Path]) -> None:
    """Spark waits for it as long as the lake connection says, and the failure names what was not reached."""
    topic, table = Topic(kafka), lake.create()
    work = job(table, topic.slice_(0, 1))
    with SilentServer() as server:
        extra = {"catalog": "rest", "uri": f"http://127.0.0.1:{server.port}", "rest.client.socket-timeout-ms": 500}
        away = LakeSettings.parse("lake_default", extra).spark()
        submit = runner(lake, topic, spark_jars, catalog=away)
        with pytest.raises(JobFailedError, match="does not reach the lake's catalog") as failure:
            submit.stage(work, started=lambda _: None, heartbeat=lambda: None)
        assert server.asked.is_set()
    assert failure.value.facts["reason"] == "catalog-unreachable"


@pytest.mark.nightly
def test_a_stale_fence_ends_a_submitted_driver(
    lake: Lake, kafka: LocalKafka, spark_jars: list[Path], tmp_path: Path
) -> None:
    """Who lost the wave leaves no driver, no file and nothing that looks finished."""
    topic, table = Topic(kafka), lake.create()
    topic.send({"value": b"v"})
    work = job(table, topic.slice_(0, 1))
    refs: list[str] = []

    def heartbeat() -> None:
        raise StaleFenceError("another holds the wave")

    submit = runner(lake, topic, spark_jars, heartbeat_seconds=0.5)
    with pytest.raises(StaleFenceError):
        submit.stage(work, started=refs.append, heartbeat=heartbeat)
    assert not psutil.pid_exists(LeaseHolder.parse(refs[0]).pid)
    assert list(tmp_path.iterdir()) == []
    assert table.refresh().snapshot_by_name(work.branch) is None


READ_WELL = {
    '{"price": 1.25}': ("price", Decimal("1.25")),
    '{"price": "2.50", "note": "\\\\\\", 5e12345, 1,2"}': ("price", Decimal("2.50")),
    '{"ratio": "Infinity"}': ("ratio", math.inf),
    '{"day": "2024-02-29"}': ("day", date(2024, 2, 29)),
    '{"at": 1700000000}': ("at", datetime.fromtimestamp(1700000000, UTC).astimezone().replace(tzinfo=None)),
    '{"note": "12:30]"}': ("note", "12:30]"),
    '{"note": "\\"Infinity\\"", "times": ["2024-01-01"]}': ("note", '"Infinity"'),
}
MISREAD = (
    '{"price": 1e600000000}',
    '{"lines": [{"price": -1.5E-600000000 }]}',
    '{"price": "1e600000000"}',
    '{"price": "1,2"}',
    '{"day": "20240101"}',
    '{"day": "20240"}',
    '{"day": "1970"}',
    '{"day": "2024-1-1"}',
    '{"at": "2024-01"}',
    '{"times": ["12:30"]}',
    '{"lines": [{"price": "1,2"}]}',
    '{"note": 1e400}',
    '{"at": 1700000000000}',
    '{"at": "12:30"}',
    '{"ratio": 1e400}',
    '{"lines": [{"ratio": 1e300}]}',
    '{"note": "x"}] y',
    '{"note": "x"}, {"note": "y"}',
)


def test_values_that_spark_would_misread_do_not_fit(spark: SparkSession) -> None:
    """A number without end does not keep a job from its end, and nothing becomes another number or another day."""
    decoder = Decoder(
        format=Format.JSON,
        topics=("t",),
        name="the schema",
        schema="price DECIMAL(10,2), day DATE, at TIMESTAMP, ratio DOUBLE, note STRING, "
        "lines ARRAY<STRUCT<price: DECIMAL(10,2), ratio: FLOAT>>, times ARRAY<TIMESTAMP>",
    )
    values = [("t", text.encode()) for text in (*READ_WELL, *MISREAD)]
    found = decoded(spark, spark.createDataFrame(values, "kafka_topic STRING, value BINARY"), [decoder])
    rows = found.collect()
    good, wrong = rows[: len(READ_WELL)], rows[len(READ_WELL) :]
    assert [(row[name], row["decode_error"]) for row, (name, _) in zip(good, READ_WELL.values(), strict=True)] == [
        (value, None) for _, value in READ_WELL.values()
    ]
    assert [bytes(row["value"]).decode() for row in wrong if row["decode_error"] is None] == []
