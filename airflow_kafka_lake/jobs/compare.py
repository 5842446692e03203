"""The Spark job of a deep audit: its request, the comparison by digest, its result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.kafka.batches import SPARK_EARLIEST_MS, SPARK_LATEST_MS
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, SliceSet, Stream, grouped, offsets_by
from airflow_kafka_lake.core.spark.job import CAREFUL_POLL, StageJob, effort
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.driver import run
from airflow_kafka_lake.jobs.formats import at_snapshot, table_name
from airflow_kafka_lake.jobs.shared_consumer import SETTING, frame_of
from airflow_kafka_lake.jobs.stage import Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET = 10_000
"""Offsets that are digested together at first."""

MOST_PER_SLICE = 4_000_000
"""Offsets that are read between two signs of progress."""

SLICE_SECONDS = 20
"""How long one slice of a read at a given rate shall take: the rate holds on average over that time."""


class Mismatch(StrEnum):
    """The part in which a row and a record differ."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TYPE = "timestamp type"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareJob(Document):
    """Everything a comparing job needs but settings that may hold secrets.

    `snapshot` is the table's snapshot that is read. The slices are disjoint, and Kafka has all of them.
    `bytes_per_second` bounds, on average, the reading from Kafka; None: as fast as it comes. Where something behind a
    slice must not be touched, its last records are in `singly`, as in `StageJob`, and slices without a record in
    `unread`. `epochs` are leader epochs, as in `StageJob`.
    """

    pipeline: str
    table: str
    snapshot: int
    isolation: Isolation
    slices: tuple[Slice, ...]
    bucket: int = BUCKET
    per_slice: int = MOST_PER_SLICE
    bytes_per_second: int | None = None
    singly: tuple[Slice, ...] = ()
    unread: tuple[Slice, ...] = ()
    epochs: tuple[tuple[Stream, int], ...] = ()
    program = "jobs/compare.py"
    left = "nothing was changed: audit again"

    @property
    def task(self) -> str:
        return f"compares {self.table} with Kafka"

    @property
    def advice(self) -> Mapping[str, str]:
        return {"data-loss": f"Retention or deletion passed offsets while they were compared; {self.left}."}

    @property
    def effort(self) -> int:
        return effort(sum(item.range.span for item in self.slices), is_compared=True)

    @property
    def name(self) -> str:
        return f"kafka-lake {self.pipeline} audit of {self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentDifference(Document):
    """How many offsets of a stream differ in one way, and the first of them."""

    stream: Stream
    mismatch: Mismatch
    first: int
    offsets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentComparison(Document):
    """The findings of a job: records and bytes of keys and values that Kafka gave, and every difference, sorted."""

    records: int
    bytes: int
    differences: tuple[ContentDifference, ...]

    def __add__(self, other: ContentComparison) -> ContentComparison:
        return ContentComparison(
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            differences=self.differences + other.differences,
        )


NOTHING = ContentComparison(records=0, bytes=0, differences=())


def per_slice(bytes_per_second: int | None, bytes_per_offset: float | None) -> int:
    """Return how many offsets one slice has: so many that, at the rate, it takes about `SLICE_SECONDS`."""
    if bytes_per_second is None:
        return MOST_PER_SLICE
    weight = max(1.0, bytes_per_offset or 1024.0)
    return min(MOST_PER_SLICE, max(1, int(bytes_per_second * SLICE_SECONDS / weight)))


def parts_of(job: CompareJob) -> tuple[tuple[Slice, ...], ...]:
    """Cut the slices into slices of `per_slice` offsets; a bucket that is in two of them is compared in parts."""
    found: list[list[Slice]] = [[]]
    room = job.per_slice
    for item in sorted(job.slices, key=lambda s: (*s.stream, s.range)):
        left: OffsetRange | None = item.range
        while left is not None:
            if room <= 0:
                found.append([])
                room = job.per_slice
            part = OffsetRange(left.start, min(left.end, left.start + room))
            found[-1].append(item.part(part))
            room -= part.span
            left = OffsetRange(part.end, left.end) if part.end < left.end else None
    return tuple(tuple(part) for part in found if part)


def narrowed(slices: Iterable[Slice], buckets: Iterable[tuple[str, int, int]], size: int) -> tuple[Slice, ...]:
    """Return the parts of the slices in some buckets, each `(topic id, partition, number)`."""
    sets = offsets_by(
        ((topic_id, partition), OffsetRange(number * size, (number + 1) * size))
        for topic_id, partition, number in buckets
    )
    return tuple(
        item.part(part)
        for item in slices
        if (chosen := sets.get((item.stream.topic_id, item.stream.partition)))
        for part in chosen.within(item.range)
    )


# Compare the rows of a table with the records that Kafka still has, by digest, in Spark.
#
# Every record and every row becomes one digest per field. Per bucket of offsets they are counted and combined on both
# sides; only where a bucket differs are its offsets compared one by one, in a second read. A few numbers per bucket
# leave the executors, so memory is bounded whatever is compared.
#
# A field's digest tells a null from an empty value, and a header's place from another's. Kafka is read slice by
# slice; between two slices the job waits as long as the asked rate needs, and says how far it is.

PER_TASK = 200_000
"""Offsets of one read task."""

MOST_PARTS = 20
"""Slices of a slice that the driver reads one by one; nearer ones are read together."""

_NO_ATTEMPT = "0" * 16

FIELDS: Mapping[str, str] = {
    "key": "xxhash64(key IS NULL, length(key), key)",
    "value": "xxhash64(value IS NULL, length(value), value)",
    # Nulls leave a hash unchanged, so each part adds whether it is null, and its length. A null list of headers, as
    # Spark writes it, and an empty one are the same.
    "headers": "xxhash64(IF(headers IS NULL, 0, size(headers)), transform(headers, h -> struct("
    "h IS NULL AS a, h.key IS NULL AS b, length(h.key) AS c, h.key AS d, "
    "h.value IS NULL AS e, length(h.value) AS f, h.value AS g)))",
    "timestamp": ("xxhash64(kafka_timestamp IS NULL, unix_micros(kafka_timestamp), kafka_timestamp_raw)"),
    "timestamp type": "xxhash64(kafka_timestamp_type IS NULL, kafka_timestamp_type)",
}
"""Field → its digest, as an expression over a row of the landing table: equal fields have equal digests."""

_NAMES = {mismatch: f"d{number}" for number, mismatch in enumerate(map(Mismatch, FIELDS))}
DIGESTS = [f"{expression} AS {_NAMES[Mismatch(field)]}" for field, expression in FIELDS.items()]
_BUCKET_OF = [
    "count(*) AS n",
    # The offset is part of it: records that changed places differ.
    "bit_xor(d) AS x",
    "sum(d & 4294967295) AS s",
    "sum(size) AS bytes",
]


def compare(
    spark: SparkSession,
    job: CompareJob,
    kafka: Mapping[str, str],
    *,
    progress: Callable[[str], object] = lambda _: None,
) -> ContentComparison:
    """Compare every slice of the job; `kafka` holds Java client settings, `say` gets a sentence after each slice.

    Spark's own errors pass through.
    """
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    throughput = _Throughput(job.bytes_per_second)
    parts = parts_of(job)
    table = _buckets(_lake(spark, job, parts), job.bucket).persist()
    read, wrong = NOTHING, list[tuple[str, int, int]]()
    try:
        for number, part in enumerate(parts):
            found, buckets = _compare_buckets(spark, job, part, kafka=kafka, lake=table.filter(f"slice = {number}"))
            read, wrong = read + found, wrong + buckets
            progress(
                f"compared slice {number + 1:,} of {len(parts):,}: {count(read.records, 'record')}, "
                f"{count(len(wrong), 'bucket differs', 'buckets differ')}"
            )
            throughput.after(found.bytes)
    finally:
        table.unpersist()
    again = replace(job, slices=narrowed(job.slices, wrong, job.bucket))
    for number, part in enumerate(parts := parts_of(again)):
        progress(f"looking closer at slice {number + 1:,} of {len(parts):,} that differ")
        found = _compare_offsets(spark, again, part, kafka)
        read += replace(found, records=0, bytes=0)
        throughput.after(found.bytes)
    return replace(read, differences=_added(read.differences))


class _Throughput:
    """Waits between slices until the bytes read are no more than the rate allows."""

    def __init__(self, rate: int | None) -> None:
        self._rate, self._begun = rate, time.monotonic()

    def after(self, size: int) -> None:
        if self._rate is not None and (pause := self._begun + size / self._rate - time.monotonic()) > 0:
            time.sleep(pause)
        self._begun = time.monotonic()


def _compare_buckets(
    spark: SparkSession, job: CompareJob, part: Sequence[Slice], *, kafka: Mapping[str, str], lake: DataFrame
) -> tuple[ContentComparison, list[tuple[str, int, int]]]:
    """Read one slice of Kafka; return the findings, and the buckets that differ from the table's."""
    theirs = _buckets(_kafka(spark, job, part, kafka), job.bucket)
    keys = ("kafka_topic_id", "kafka_partition", "bucket")
    on = _expr(" AND ".join(f"k.{name} = l.{name}" for name in keys))
    both = theirs.alias("k").join(lake.alias("l"), on=on, how="full")
    where = ", ".join(f"coalesce(k.{name}, l.{name})" for name in keys)
    same = "k.n <=> l.n AND k.x <=> l.x AND k.s <=> l.s"
    (row,) = (
        both.selectExpr("k.n AS n", "k.bytes AS bytes", f"CASE WHEN NOT ({same}) THEN struct({where}) END AS place")
        .selectExpr("sum(n)", "sum(bytes)", "collect_list(place)")
        .collect()
    )
    records, size, places = row
    return ContentComparison(records=records or 0, bytes=size or 0, differences=()), [tuple(place) for place in places]


def _compare_offsets(
    spark: SparkSession, job: CompareJob, part: Sequence[Slice], kafka: Mapping[str, str]
) -> ContentComparison:
    """Read one slice on both sides and compare it offset by offset."""
    names = list(_NAMES.values())
    theirs = _kafka(spark, job, part, kafka).selectExpr("*", "true AS k")
    ours = _lake(spark, job, [part]).drop("slice").selectExpr("*", "false AS k")
    sides = ["count_if(k) AS theirs", "count_if(NOT k) AS ours", "sum(IF(k, size, 0)) AS bytes"]
    for name in names:
        # A row that is there twice must be right twice.
        sides += [f"max(IF(k, {name}, NULL)) AS k_{name}", f"min(IF(k, NULL, {name})) AS a_{name}"]
        sides += [f"max(IF(k, NULL, {name})) AS b_{name}"]
    offsets = theirs.unionByName(ours).groupBy("kafka_topic_id", "kafka_partition", "kafka_offset")
    wrong = ["IF(ours = 0, 'missing', NULL)", "IF(theirs = 0, 'unknown', NULL)"]
    for mismatch, name in _NAMES.items():
        differs = f"theirs > 0 AND ours > 0 AND (k_{name} <> a_{name} OR k_{name} <> b_{name})"
        wrong.append(f"IF({differs}, '{mismatch.value}', NULL)")
    judged = offsets.agg(*map(_expr, sides)).selectExpr(
        "kafka_topic_id",
        "kafka_partition",
        "kafka_offset",
        "bytes",
        f"array_compact(array({', '.join(wrong)})) AS wrong",
    )
    found = judged.selectExpr("*", "explode_outer(wrong) AS mismatch").groupBy(
        "kafka_topic_id", "kafka_partition", "mismatch"
    )
    rows = found.agg(*map(_expr, ("min(kafka_offset)", "count(*)", "sum(bytes / greatest(1, size(wrong)))"))).collect()
    topics = {item.stream.topic_id: item.stream.topic for item in part}
    return ContentComparison(
        records=0,
        bytes=int(sum(size or 0 for *_, size in rows)),
        differences=tuple(
            ContentDifference(
                stream=Stream(topics[topic_id], topic_id, partition),
                mismatch=Mismatch(mismatch),
                first=first,
                offsets=count,
            )
            for topic_id, partition, mismatch, first, count, _ in rows
            if mismatch is not None
        ),
    )


def _kafka(spark: SparkSession, job: CompareJob, part: Sequence[Slice], kafka: Mapping[str, str]) -> DataFrame:
    """Return digests of Kafka's records in some slices; read as a staging job reads."""
    late = _overflowing(spark, job, part)
    if job.singly:
        # Also where no slice ends in this slice: a poll of its last piece may reach that far.
        kafka = {**kafka, "max.poll.records": str(CAREFUL_POLL)}
    asked = StageJob(
        pipeline=job.pipeline,
        wave="audit",
        attempt=_NO_ATTEMPT,
        table=job.table,
        isolation=job.isolation,
        slices=tuple(SliceSet(part) - SliceSet((*late, *job.singly, *job.unread))),
        singly=tuple((SliceSet(part) & SliceSet(job.singly)) - SliceSet(late)),
        overflowing=late,
        tasks=max(1, sum(item.range.span for item in part) // PER_TASK),
        max_records_per_partition=PER_TASK,
        epochs=job.epochs,
    )
    return _digested(frame_of(spark, Steps(spark, asked, kafka).read()))


def _overflowing(spark: SparkSession, job: CompareJob, part: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return the slices in which the table has a record whose time Spark's Kafka source cannot read."""
    beyond = f"kafka_timestamp_raw NOT BETWEEN {-SPARK_LATEST_MS} AND {SPARK_LATEST_MS}"
    if job.singly or spark.conf.get(SETTING, "true").lower() == "false":
        beyond += f" OR coalesce(kafka_timestamp_raw, unix_millis(kafka_timestamp)) < {SPARK_EARLIEST_MS}"
    found = spark.sql(
        "SELECT kafka_topic_id, kafka_partition, kafka_offset "
        f"FROM {at_snapshot(table_name(job), job.snapshot)} WHERE {beyond}"
    ).collect()
    offsets = offsets_by(
        ((topic_id, partition), OffsetRange(offset, offset + 1)) for topic_id, partition, offset in found
    )
    return tuple(
        replace(item, range=late)
        for item in part
        for late in offsets[item.stream.topic_id, item.stream.partition].within(item.range).joined(MOST_PARTS)
    )


def _lake(spark: SparkSession, job: CompareJob, parts: Sequence[Sequence[Slice]]) -> DataFrame:
    """Return digests of the rows of the table's snapshot in the slices, each with the number of its slice."""
    slices: list[dict[str, Any]] = [
        {
            "slice": number,
            "i": item.stream.topic_id,
            "p": item.stream.partition,
            "a": item.range.start,
            "b": item.range.end,
        }
        for number, part in enumerate(parts)
        for item in part
    ]
    shape = "array<struct<slice:int,i:string,p:int,a:bigint,b:bigint>>"
    asked = spark.sql("SELECT inline(from_json(:slices, :shape))", {"slices": json.dumps(slices), "shape": shape})
    rows = spark.sql(f"SELECT * FROM {at_snapshot(table_name(job), job.snapshot)}")
    lowest, highest = min(item["a"] for item in slices), max(item["b"] for item in slices)
    # Conditions on columns let the bounds of a file exclude it; the rest is the join's.
    near = rows.filter(f"kafka_offset >= {int(lowest)} AND kafka_offset < {int(highest)}").filter(
        rows["kafka_topic_id"].isin(sorted({item["i"] for item in slices}))
    )
    mine = "kafka_topic_id = i AND kafka_partition = p AND kafka_offset >= a AND kafka_offset < b"
    return _digested(near.join(asked.hint("broadcast"), on=_expr(mine)), "slice")


def _digested(rows: DataFrame, *further: str) -> DataFrame:
    size = "coalesce(length(key), 0) + coalesce(length(value), 0) AS size"
    return rows.selectExpr("kafka_topic_id", "kafka_partition", "kafka_offset", size, *DIGESTS, *further)


def _buckets(rows: DataFrame, size: int) -> DataFrame:
    """Count and combine the digests of each bucket of offsets."""
    whole = f"xxhash64(kafka_offset, {', '.join(_NAMES.values())}) AS d"
    keys = ["kafka_topic_id", "kafka_partition", "bucket", *(["slice"] if "slice" in rows.columns else [])]
    return (
        rows.selectExpr("*", f"kafka_offset DIV {int(size)} AS bucket", whole)
        .groupBy(*keys)
        .agg(*map(_expr, _BUCKET_OF))
    )


def _expr(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def _added(found: Sequence[ContentDifference]) -> tuple[ContentDifference, ...]:
    """Add up the findings of several slices of the same stream."""
    by_kind = grouped(((*item.stream, item.mismatch), item) for item in found)
    return tuple(
        replace(items[0], first=min(item.first for item in items), offsets=sum(item.offsets for item in items))
        for _, items in sorted(by_kind.items())
    )


def work(spark: SparkSession, request: Mapping[str, Any], progress: Callable[[str], object]) -> Mapping[str, Any]:
    """Do the job of a request, `{"job": …, "kafka": …}`; returns its document."""
    return compare(spark, CompareJob.from_json(request["job"]), request["kafka"], progress=progress).to_json()


if __name__ == "__main__":
    run(sys.argv[1:], work)
