"""Read the slices of a task with one Kafka consumer, and no faster than asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob, Tip
from airflow_kafka_lake.jobs.java import java_context, java_map, java_of, java_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Read no faster than asked: each record costs its task the time that its bytes may take.
#
# A shared consumer sleeps by itself (`SharedConsumer.java`), also for data of Kafka that is no record. Spark's Kafka
# source has no rate of its own in a batch read, but a task fetches only as its plan takes records, so a filter that
# sleeps keeps the Kafka client from fetching. It sleeps in SQL, by Java's own `Thread.sleep`, and needs neither Python
# workers nor a class of ours on the executors.

FEWEST_PER_TASK = 250_000
"""Bytes per second of one task: with fewer, a large record would keep it silent for long."""

LONGEST_SLEEP_MS = 60_000
"""The most that one record costs: far below the time after which a silent job counts as hanging."""

SHORTEST_SLEEP_MS = 20
"""Shorter sleeps are drawn: one record of several sleeps so long, so that all together sleep as long as they should."""

OVERHEAD_BYTES = 16
"""The bytes counted for a record beside key, value and headers, so that empty ones cost something too."""

LEAST_FETCH, MOST_FETCH = 64 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many tasks a job has, all of which read at the same time, and how many bytes per second each of them."""

    tasks: int
    rate: int


def pace_of(spark: Any, rate: int, tasks: int) -> Pace:
    """Return the pace of a job of so many tasks: as few as run at the same time, so that each has its share of the rate
    from begin to end. With more of them it would not be known how many read at once."""
    count = readers(rate, cores_of(spark), tasks)
    return Pace(tasks=count, rate=max(1, rate // count))


def readers(rate: int, cores: int, tasks: int) -> int:
    """Return how many tasks read at the same time: no more than have a core each: together they have the rate."""
    return max(1, min(cores, tasks, rate // FEWEST_PER_TASK))


def fetch_bytes(rate: int) -> int:
    """Return how much of a partition one fetch may bring: a second of a task's rate, because the client reads ahead."""
    return min(max(rate, LEAST_FETCH), MOST_FETCH)


def condition(rate: int) -> str:
    """Return the SQL condition that holds for every record, and takes as long as its bytes may."""
    headers = "aggregate(headers, 0L, (n, h) -> n + octet_length(h.key) + coalesce(octet_length(h.value), 0))"
    size = (
        f"{OVERHEAD_BYTES} + coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + coalesce({headers}, 0)"
    )
    cost = f"(({size}) * 1000D / {int(rate)})"
    sleep = "reflect('java.lang.Thread', 'sleep', {})"
    long = sleep.format(f"CAST(least({cost}, {LONGEST_SLEEP_MS}D) AS BIGINT)")
    short = sleep.format(f"{SHORTEST_SLEEP_MS}L")
    drawn = f"IF(rand() < {cost} / {SHORTEST_SLEEP_MS}, {short}, '')"
    # `reflect` is never null and never this text; the optimizer keeps a call that is not deterministic where it stands.
    return f"IF({cost} >= {SHORTEST_SLEEP_MS}, {long}, {drawn}) <> 'awake'"


def cores_of(spark: Any) -> int:
    """Return how many tasks run at the same time; one where the session does not say (Spark Connect)."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001  # whatever a session without a context raises: one task is never too fast
        return 1


# Read the slices of a task with one Kafka consumer, the shared consumer.
#
# Spark's Kafka source gives every range a consumer with a connection of its own, which waits for some ten answers
# before its first record; with a thousand quiet partitions nothing else matters. `SharedConsumer.java` reads all
# slices of a task with one consumer of the same Java client and the same settings, and makes rows of the table, without
# a query of Spark's. It comes as a jar with every submit, before those of Spark's source and of Kafka's client.
#
# Spark has no public way to the same: its Kafka source has a consumer for each range, and rows of Python, or those of
# a public `createDataFrame`, would be converted one by one.

SETTING = "spark.kafka_lake.shared_consumer"
"""A setting of a Spark connection: `false` leaves the reading to Spark's Kafka source."""

JAR = "kafka-lake-shared-consumer.jar"
"""The class in the form that Spark takes, beside this module and its Java source; `make jar` builds it."""

WIDTH = 32
"""Partitions that a consumer reads at the same time: it keeps the last fetch of each of them."""

PER_POLL = 500
"""Records that a poll takes at most, and a task holds: a shared consumer asks for nothing between its polls, so few
cost no more than many."""

_POLLS_PER_TASK = 16

_FETCH_BYTES = 16 * 1024 * 1024
_PARTITION_BYTES, _OF_FEW = 1024 * 1024, 4 * 1024 * 1024
_FEW = 8


def consumer_settings(
    job: StageJob, tasks: Sequence[Sequence[Slice]], kafka: Mapping[str, str], rate: int | None = None
) -> dict[str, str]:
    """Return the settings of a task's consumer: the caller's, and over them the ones that decide about records.

    Nothing decides for a missing offset, and no topic is created by being read. The fetched data of all partitions of a
    consumer stays below `WIDTH` MiB, as Kafka keeps it: compressed. A poll unpacks a part of the weight of one of the
    job's tasks. Only a smaller bound of the caller is kept. `rate`: bytes per second that a task reads; None does not
    bound them.
    """
    most = max(map(len, tasks))
    partition = _OF_FEW if most <= _FEW else _PARTITION_BYTES
    per_task = sum(item.range.span for item in job.slices) // job.tasks
    bounds = {
        "fetch.max.bytes": _FETCH_BYTES if rate is None else fetch_bytes(rate),
        "max.partition.fetch.bytes": partition if rate is None else fetch_bytes(rate // min(most, WIDTH)),
        "max.poll.records": max(1, min(PER_POLL, per_task // _POLLS_PER_TASK)),
    }
    return {
        **{key: value for key, value in kafka.items() if key not in {"group.id", "group.instance.id"}},
        **{key: str(min(bound, int(kafka.get(key, bound)))) for key, bound in bounds.items()},
        "isolation.level": job.isolation.value,
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
    }


def shared_rows(
    spark: SparkSession,
    job: StageJob,
    tasks: Sequence[Sequence[Slice]],
    settings: Mapping[str, str],
    *,
    rate: int | None = None,
) -> tuple[Any, Callable[[], list[Tip]]]:
    """Return the records of the slices of each task, as rows of the table in an RDD of Java's, of which nothing is
    fetched yet; and a function that returns, once they are written, the last record of each slice.

    No task takes more than `rate` bytes per second; None: as fast as Kafka answers. Raises the errors of a session
    without a Java of its own (Spark Connect), or of a Spark without the jar.
    """
    jvm, context = java_of(spark), java_context(spark)
    texts = jvm.java.util.ArrayList()
    epochs = dict(job.epochs)
    for slices in tasks:
        known = ((*item.stream, item.range, epochs.get(item.stream, -1)) for item in slices)
        texts.add("\n".join(f"{name}\t{no}\t{at.start}\t{at.end}\t{era}\t{its}" for name, its, no, at, era in known))
    told = context.collectionAccumulator("last records")
    parts = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context).parallelize(texts, len(tasks))
    reader = consumer_class(spark)(java_map(spark, settings), WIDTH, rate or 0, job.attempt, told)
    rows = parts.mapPartitions(reader).setName("slices").rdd()
    streams = {item.stream.place: item.stream for item in job.slices}
    # In one text: each line of a Java list is a question of its own, and its end an error that Python puts into words.
    return rows, lambda: [_tip(line, streams) for line in jvm.java.lang.String.join("\n", told.value()).splitlines()]


def frame_of(spark: SparkSession, rows: Any) -> DataFrame:
    """Return rows for a query; of `shared_rows` without those of paced tasks that are signs of life, and no records."""
    from pyspark.sql import DataFrame

    if isinstance(rows, DataFrame):
        return rows
    schema = java_of(spark).airflow_kafka_lake.SharedConsumer.schema()
    found = DataFrame(java_session(spark).internalCreateDataFrame(rows, schema, False), spark)
    return found.where("kafka_offset >= 0")


def consumer_class(spark: SparkSession) -> Any:
    """Return the class that reads, as the jar has it."""
    return java_of(spark).airflow_kafka_lake.SharedConsumer


def _tip(line: str, streams: Mapping[tuple[str, int], Stream]) -> Tip:
    topic, *numbers = line.split("\t")
    partition, start, last, epoch = map(int, numbers)
    read = Slice(streams[topic, partition], OffsetRange(start, last + 1))
    return Tip(slice=read, leader_epoch=None if epoch < 0 else epoch)
