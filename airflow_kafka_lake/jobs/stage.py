"""Stage the records of one attempt: Kafka batch reads, and one append to a branch that no reader sees."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.errors import JobFailedError, RefusedError
from airflow_kafka_lake.core.kafka.batches import EARLIEST_MS, LATEST_MS, NO_TIMESTAMP, SPARK_EARLIEST_MS
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import (
    CAREFUL_POLL,
    RECORD_DIGEST,
    RETAIN_DAYS,
    StageJob,
    Tip,
    abreast,
    divided,
    evenly,
)
from airflow_kafka_lake.core.spec import TOPIC_NAME, Isolation
from airflow_kafka_lake.jobs.driver import leave, run
from airflow_kafka_lake.jobs.formats import append, create_branch, drop_branch, table_name
from airflow_kafka_lake.jobs.java import java_map, java_of, java_session
from airflow_kafka_lake.jobs.shared_consumer import (
    SETTING,
    Pace,
    condition,
    consumer_settings,
    fetch_bytes,
    frame_of,
    pace_of,
    shared_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_kafka_lake.jobs.decoding.decode import DecodedRows


# Read, in the driver, the records whose timestamps overflow in Spark's Kafka source, with the same Java client.

TIMEOUT_SECONDS = 120.0
_POLL_MS = 500
_SHAPE = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, "
    "offset bigint, timestamp bigint, timestampType int"
)


def overflowing_rows(spark: SparkSession, job: StageJob, kafka: Mapping[str, str]) -> tuple[DataFrame, tuple[Tip, ...]]:
    """Return the records of the job's overflowing slices, as Spark's Kafka source has them, and the last one of each
    slice; `timestamp` is a number.

    They are few (`core.spark.halving.MOST_OVERFLOWING`), because each passes through this Python process.
    """
    tips: dict[Slice, Tip] = {}
    rows = [row for part in job.overflowing for row in _read(spark, job, part, kafka, tips=tips)]
    return spark.createDataFrame(rows, _SHAPE).coalesce(1), tuple(tips.values())


def _read(
    spark: SparkSession, job: StageJob, part: Slice, kafka: Mapping[str, str], *, tips: dict[Slice, Tip]
) -> Iterator[tuple[Any, ...]]:
    jvm = java_of(spark)
    client = jvm.org.apache.kafka
    fixed = {
        "isolation.level": job.isolation.value,
        "enable.auto.commit": "false",
        "auto.offset.reset": "none",
        "max.poll.records": "500",
    }
    settings = java_map(spark, {**kafka, **fixed})
    # Nothing of a group is used, and a user without a right to one may read.
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


# Stage the records of one attempt: Kafka batch reads, one append to a branch that no reader of main sees.
#
# The branch is `kafka_lake_<attempt>`. It exists as soon as the job begins, and its head is then an ordinary
# snapshot (main's, or an empty one on an empty table). The append, also one of zero rows, commits a snapshot whose
# summary holds `kafka-lake.staged-by = <attempt>` (`STAGED_BY`). So a reader tells the three cases apart by the
# branch's head:
#
# - no branch: the job never began;
# - a head without this STAGED_BY: the job began and did not finish;
# - a head with STAGED_BY = attempt: the job finished; its rows are the ones that this snapshot added.
#
# The same function runs under spark-submit and under Spark Connect: where a session has no Java of its own, it uses
# DataFrames and SQL text only.

_ATTEMPT = re.compile(r"[0-9a-f]{16}")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_+/=-]{1,64}")
_FEWEST_PER_POLL, _MOST_PER_POLL = 500, 50_000
_POLLS_PER_TASK = 16

OF_SPARKS_SOURCE = (
    f"unix_millis(timestamp_millis(IF(unix_millis(timestamp) < {SPARK_EARLIEST_MS}, {2**63 - 1}, "
    "unix_millis(timestamp))))"
)
"""Kafka's time of a record of Spark's source. Where that may have read another number, this fails as the source itself
does with a number that is too large: the driver then reads such records."""


Tips = list[Callable[[], Iterable[Tip]]]
"""Of each reader a function that returns, once the rows are written, the last records that it has read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Slices that are read alike: split into parts of `split` records, or gathered into `tasks` tasks; each poll takes
    `per_poll` records, None: as many as is fast."""

    slices: tuple[Slice, ...]
    split: int | None
    tasks: int | None
    per_poll: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one job in their order; a driver may die between any two."""

    spark: SparkSession
    job: StageJob
    kafka: Mapping[str, str]
    tips: Tips = field(default_factory=list)
    looked_up: Tips = field(default_factory=list)
    """As `tips`, of readers that do not tell by themselves: the rows are read for it."""

    def read(self) -> DataFrame | DecodedRows | Any:
        """Return the job's records as rows of the table, a data frame or `shared_rows`; nothing is fetched yet, and the
        table is left as it is."""
        rows = _rows(self)
        if not self.job.decoders:
            return rows

        from airflow_kafka_lake.jobs.decoding.decode import decode  # pandas and more, for pipelines that decode

        found = decode(self.spark, frame_of(self.spark, rows), self.job.decoders, table_name(self.job))
        for topic, why in found.refused.items():
            sys.stderr.write(f"values of {topic} land as bytes alone, they are not decoded: {why}\n")
        return found

    def branch(self) -> None:
        """Create the attempt's branch; an existing one is an error."""
        create_branch(self.spark, self.job, branch_name(self.job), RETAIN_DAYS)

    def append(self, records: DataFrame | DecodedRows | Any) -> tuple[Tip, ...]:
        """Give the table the columns that the rows need, and write them to the branch in one commit; return the last
        record that each consumer has read of a slice."""
        if self.job.decoders:
            records = records.fitted(table_name(self.job))
        try:
            append(self.spark, records, self.job)
        except Exception as error:
            # The rows may be there, and only the answer lost: the last reads are known all the same.
            leave(error, document_of([tip for tips in self.tips for tip in tips()]))
            raise
        tips = [*self.tips, *self.looked_up]
        return tuple(tip for told in tips for tip in told())


def stage(
    spark: SparkSession,
    job: StageJob,
    kafka: Mapping[str, str],
    steps: Callable[[SparkSession, StageJob, Mapping[str, str]], Any] = Steps,
) -> tuple[Tip, ...]:
    """Write every record of the job's slices to the attempt's new branch, in one commit; return the last ones read.

    `kafka` holds Java client settings (`bootstrap.servers`, …). A branch that exists already stops the job before it
    writes: another process began this attempt. Spark's own errors pass through. `steps` makes the steps of the job.
    """
    work = steps(spark, job, kafka)
    # The session of a warm driver, or of Spark Connect, may have been given another zone.
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    records = work.read()
    work.branch()
    return tuple(work.append(records))


def work(
    spark: SparkSession,
    request: Mapping[str, Any],
    _: Callable[[str], object],
    steps: Callable[[SparkSession, StageJob, Mapping[str, str]], Any] = Steps,
) -> Mapping[str, Any]:
    """Do the job of a request, `{"job": …, "kafka": …}`, and return its document, `{"read": …}`; `steps` makes its
    steps, as in `stage`. Without a request only load the classes of a job."""
    if not request:
        _load_classes(spark)
        return {}
    return document_of(stage(spark, StageJob.from_json(request["job"]), request["kafka"], steps))


def document_of(read: Iterable[Tip]) -> dict[str, Any]:
    """Return the document of a staging job: the last record that each of its consumers has read of a slice."""
    return {"read": [tip.to_json() for tip in read]}


def branch_name(job: StageJob) -> str:
    """Return the attempt's staging branch; RefusedError for an illegal attempt id."""
    _checked(_ATTEMPT, job.attempt, "attempt id")
    return job.branch


def topic_ids(job: StageJob) -> dict[str, str]:
    """Return the id of each topic of the job. Raises RefusedError for a topic of two ids, or of illegal characters."""
    ids = dict(sorted({(slice_.stream.topic, slice_.stream.topic_id) for slice_ in job.parts}))
    for slice_ in job.parts:
        if ids[slice_.stream.topic] != slice_.stream.topic_id:
            raise RefusedError(f"Topic {slice_.stream.topic} has two ids in one job; only its present one can be read.")
    return {_checked(TOPIC_NAME, topic, "topic"): _checked(_TOPIC_ID, its, "topic id") for topic, its in ids.items()}


def columns(job: StageJob, number: str = OF_SPARKS_SOURCE) -> list[str]:
    """Return the SELECT list that turns a record, as Spark's Kafka source has it, into a row of the table; `number` is
    Kafka's time of the record. Raises the errors of `topic_ids`."""
    holdable = f"({number} BETWEEN {EARLIEST_MS} AND {LATEST_MS} AND {number} <> {NO_TIMESTAMP})"
    pairs = ", ".join(f"'{topic}', '{topic_id}'" for topic, topic_id in topic_ids(job).items())
    return [
        "key",
        "value",
        "headers",
        "topic AS kafka_topic",
        # A job without records reads nothing, and its rows still need their types.
        f"{f'map({pairs})[topic]' if pairs else 'CAST(NULL AS STRING)'} AS kafka_topic_id",
        "partition AS kafka_partition",
        "offset AS kafka_offset",
        # No reader, and no partition transform, needs to hold a time of the year 57,000, or one that is none.
        f"IF({holdable}, timestamp_millis({number}), NULL) AS kafka_timestamp",
        "timestampType AS kafka_timestamp_type",
        f"IF({holdable}, NULL, {number}) AS kafka_timestamp_raw",
        f"'{_checked(_ATTEMPT, job.attempt, 'attempt id')}' AS ingest_attempt",
    ]


def reads(job: StageJob) -> tuple[Read, ...]:
    """Divide the job into slices heavier than a task, which are split, and the others, which are gathered.

    Where ends of slices are read one record at a time, the polls of the rest are small, so that they do not reach
    beyond those ends.

    Gathering counts input partitions, whatever their size: heavy slices are not gathered, so that no task gets several
    of their parts while another gets only light slices.
    """
    if job.singly:
        carefully = Read(slices=job.slices, split=None, tasks=None, per_poll=CAREFUL_POLL)
        found = (carefully, Read(slices=job.singly, split=None, tasks=None, per_poll=1))
        return tuple(read for read in found if read.slices)
    limit = job.max_records_per_partition
    heavy = tuple(s for s in job.slices if limit is not None and s.range.span > limit)
    light = tuple(s for s in job.slices if limit is None or s.range.span <= limit)
    tasks = job.tasks if limit is None else math.ceil(sum(s.range.span for s in light) / limit)
    gathered = Read(slices=light, split=None, tasks=tasks if len(light) > tasks else None)
    return tuple(read for read in (Read(slices=heavy, split=limit, tasks=None), gathered) if read.slices)


def parts_of_source(job: StageJob) -> list[Slice]:
    """Return the part of each consumer of Spark's own source: the slices, split as Spark splits them."""
    parts: list[Slice] = []
    for read in reads(job):
        for item in read.slices:
            start, count = item.range.start, 1 if read.split is None else math.ceil(item.range.span / read.split)
            for left in range(count, 0, -1):
                end = start + (item.range.end - start) // left
                parts.append(item.part(OffsetRange(start, end)))
                start = end
    return parts


def tips_of_source(spark: SparkSession, job: StageJob) -> list[Tip]:
    """Return the last row of each consumer of Spark's own source, from the branch.

    The source does not tell the leader epoch of a record. So its digest goes with it, and can be compared.
    """
    parts = parts_of_source(job)
    if not parts:
        return []
    asked = [(item.stream.topic, item.stream.partition, item.range.start, item.range.end) for item in parts]
    shape = "array<struct<t:string,p:int,a:bigint,b:bigint>>"
    staged = f"{table_name(job)}.`branch_{branch_name(job)}`"
    found = spark.sql(
        f"""
        WITH asked AS (SELECT /*+ BROADCAST */ inline(from_json(:parts, :shape))),
        rows AS (SELECT * FROM {staged} WHERE ingest_attempt = '{job.attempt}'),
        last AS (
            SELECT t, p, a, max(kafka_offset) AS o FROM rows JOIN asked
            ON kafka_topic = t AND kafka_partition = p AND kafka_offset >= a AND kafka_offset < b GROUP BY t, p, a)
        SELECT /*+ BROADCAST(last) */ t, p, a, o, {RECORD_DIGEST} AS digest
        FROM rows JOIN last ON kafka_topic = t AND kafka_partition = p AND kafka_offset = o
        """,
        {"parts": json.dumps([dict(zip("tpab", item, strict=True)) for item in asked]), "shape": shape},
    ).collect()
    streams = {item.stream.place: item.stream for item in parts}
    return [
        Tip(slice=Slice(streams[topic, partition], OffsetRange(start, last + 1)), digest=digest)
        for topic, partition, start, last, digest in found
    ]


def source_options(job: StageJob, scan: Iterable[Slice], kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the options of one batch read: `scan` holds at most one slice of each partition.

    Offsets are explicit at both ends, so that a repeated task reads the same; nothing decides for a missing offset.
    Settings of the caller win over those for speed, and the job's isolation over everything.
    """
    slices = tuple(scan)
    return {
        **{f"kafka.{key}": value for key, value in (_fast_settings(job) | dict(kafka)).items()},
        "kafka.isolation.level": job.isolation.value,
        "assign": _by_topic((s.stream.topic, s.stream.partition, None) for s in slices),
        "startingOffsets": _by_topic((s.stream.topic, s.stream.partition, s.range.start) for s in slices),
        "endingOffsets": _by_topic((s.stream.topic, s.stream.partition, s.range.end) for s in slices),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }


def _rows(work: Steps) -> DataFrame | Any:
    pace = None if work.job.rate is None else pace_of(work.spark, work.job.rate, work.job.tasks)
    if (shared := _shared(work.spark, work.job, work.kafka, pace)) is not None:
        rows, tips = shared
        work.tips.append(tips)
        if not (pace or work.job.overflowing):
            return rows
        frames = [frame_of(work.spark, rows)]
    else:
        found = [_gathered(work.spark, work.job, read, work.kafka, pace=pace) for read in reads(work.job)]
        frames = [frame.selectExpr(*columns(work.job)) for frame in found]
        work.looked_up.append(lambda: tips_of_source(work.spark, work.job))
    if work.job.overflowing or not frames:
        overflowing, late = overflowing_rows(work.spark, work.job, work.kafka)
        frames.append(overflowing.selectExpr(*columns(work.job, "timestamp")))
        work.tips.append(lambda: late)
    return _union(frames).coalesce(pace.tasks) if pace else _union(frames)


def is_shared(job: StageJob) -> bool:
    """Return whether one consumer reads all slices of a task: not where the polls of single slices are counted."""
    return bool(job.slices) and not job.singly


def _shared(
    spark: SparkSession, job: StageJob, kafka: Mapping[str, str], pace: Pace | None
) -> tuple[Any, Callable[[], list[Tip]]] | None:
    """Return the rows of tasks with one consumer each; None where Spark's own Kafka source has to read."""
    topic_ids(job)
    if not is_shared(job) or spark.conf.get(SETTING, "true").lower() == "false":
        return None
    tasks, rate = _tasks(job, pace), pace.rate if pace else None
    try:
        settings = consumer_settings(job, tasks, _fast_settings(job) | dict(kafka), rate)
        return shared_rows(spark, job, tasks, settings, rate=rate)
    except Exception as error:  # noqa: BLE001 - whatever a session without Java, or another Spark, raises
        # The text of an error may hold a setting.
        sys.stderr.write(f"Spark's Kafka source reads, with a consumer for each range: {type(error).__name__}\n")
        return None


def _tasks(job: StageJob, pace: Pace | None) -> tuple[tuple[Slice, ...], ...]:
    count = pace.tasks if pace else job.tasks
    if job.by_time and (found := abreast(job.slices, count)):
        return found
    return evenly(job.slices, count) if pace else divided(job.slices, count, job.max_records_per_partition)


def _gathered(
    spark: SparkSession, job: StageJob, read: Read, kafka: Mapping[str, str], *, pace: Pace | None
) -> DataFrame:
    if pace:
        kafka = {"max.partition.fetch.bytes": str(fetch_bytes(pace.rate)), **kafka}
    own = {"maxRecordsPerPartition": str(read.split)} if read.split else {}
    own |= {"kafka.max.poll.records": str(read.per_poll)} if read.per_poll else {}
    scans = (source_options(job, scan, kafka) | own for scan in replace(job, slices=read.slices).scans())
    found = _union(spark.read.format("kafka").options(**options).load() for options in scans)
    found = found.where(condition(pace.rate)) if pace else found
    return found.coalesce(read.tasks) if read.tasks else found


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.union(b), frames)


def _fast_settings(job: StageJob) -> dict[str, str]:
    per_task = sum(s.range.span for s in job.slices) // max(1, job.tasks)
    per_poll = min(max(per_task // _POLLS_PER_TASK, _FEWEST_PER_POLL), _MOST_PER_POLL)
    return {
        # A range that ends at the log's end waits this long for more, once per range; 500 ms is the default.
        "fetch.max.wait.ms": "10",
        # Every poll costs two more ListOffsets calls; tasks are alike in bytes, so many records mean light ones.
        "max.poll.records": str(per_poll),
        "max.partition.fetch.bytes": str(4 * 1024 * 1024),
        "receive.buffer.bytes": "-1",
        "enable.metrics.push": "false",
    }


def _by_topic(items: Iterable[tuple[str, int, int | None]]) -> str:
    """Render `{"topic": {"partition": offset}}`, or `{"topic": [partition]}` where there are no offsets."""
    offsets: dict[str, dict[str, int]] = {}
    partitions: dict[str, list[int]] = {}
    for topic, partition, offset in items:
        if offset is None:
            partitions.setdefault(topic, []).append(partition)
        else:
            offsets.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(offsets or partitions, sort_keys=True)


def _checked(pattern: re.Pattern[str], text: str, what: str) -> str:
    if not pattern.fullmatch(text):
        raise RefusedError(f"The {what} {text!r} has characters that no {what} has; nothing was staged.")
    return text


# The steps of a job on one row, so that Java can archive the classes that they load.

_NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "500", "request.timeout.ms": "400"}
_RECORD = """
    SELECT X'01' AS key, X'02' AS value, array(named_struct('key', 'h', 'value', X'03')) AS headers, 't' AS topic,
    0 AS partition, 0L AS offset, TIMESTAMP '2020-01-01' AS timestamp, 0 AS timestampType
"""
_ONE_ROW = StageJob(
    pipeline="class_loading",
    wave="class_loading",
    attempt="0" * 16,
    table="class_loading.landing",
    isolation=Isolation.READ_COMMITTED,
    slices=(Slice(Stream("class_loading", "class_loading", 0), OffsetRange(0, 1)),),
    tasks=1,
    max_records_per_partition=None,
)


def _load_classes(spark: SparkSession) -> None:
    """Stage one row onto a branch of a new table of the catalog `lake`, and read from a Kafka that does not exist."""
    table = table_name(_ONE_ROW)
    spark.sql("CREATE NAMESPACE lake.class_loading")
    spark.sql(_RECORD).selectExpr(*columns(_ONE_ROW)).coalesce(1).writeTo(table).create()
    create_branch(spark, _ONE_ROW, branch_name(_ONE_ROW), days=7)
    append(spark, java_session(spark).table(table).queryExecution().toRdd(), _ONE_ROW)
    drop_branch(spark, table, _ONE_ROW.branch)
    with suppress(Exception):
        stage(spark, _ONE_ROW, _NOWHERE)


if __name__ == "__main__":
    run(sys.argv[1:], work)
