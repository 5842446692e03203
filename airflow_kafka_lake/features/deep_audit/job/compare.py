"""Compare the rows of a table with the records that Kafka still has, by digest, in Spark.

Every record and every row becomes one digest per field. Per bucket of offsets they are counted and combined on both
sides; only where a bucket differs are its offsets compared one by one, in a second read. What leaves the executors is a
few numbers per bucket, so memory is bounded whatever is compared.

A field's digest tells a null from an empty value, and a header's place from another's. Kafka is read slice by slice;
between two slices the job waits as long as the asked rate needs, and says how far it is.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.kafka.timestamps import SPARK_EARLIEST_MS, SPARK_LATEST_MS
from airflow_kafka_lake.core.lake.staging import CAREFUL_POLL, StageJob
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice, SliceSet, Stream
from airflow_kafka_lake.features.deep_audit.job.comparing import (
    NOTHING,
    CompareJob,
    Comparison,
    Difference,
    Mismatch,
    narrowed,
    parts_of,
)
from airflow_kafka_lake.jobs.digests import FIELDS
from airflow_kafka_lake.jobs.driver import run
from airflow_kafka_lake.jobs.formats import at_snapshot, table_name
from airflow_kafka_lake.jobs.shared_consumer import SETTING
from airflow_kafka_lake.jobs.stage import Steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PER_TASK = 200_000
"""Offsets of one read task."""

MOST_PARTS = 20
"""Slices of a slice that the driver reads one by one; nearer ones are read together."""

_NO_ATTEMPT = "0" * 16

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
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Compare every slice of the job; `kafka` holds Java client settings, `say` gets a sentence after each slice.

    Spark's own errors pass through.
    """
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    throughput = _Throughput(job.bytes_per_second, sleep, now)
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
    """Waits between slices until what was read is no more than the rate allows."""

    def __init__(self, rate: int | None, sleep: Callable[[float], None], now: Callable[[], float]) -> None:
        self._rate, self._sleep, self._now = rate, sleep, now
        self._begun = now()

    def after(self, size: int) -> None:
        if self._rate is not None and (pause := self._begun + size / self._rate - self._now()) > 0:
            self._sleep(pause)
        self._begun = self._now()


def _compare_buckets(
    spark: SparkSession, job: CompareJob, part: Sequence[Slice], *, kafka: Mapping[str, str], lake: DataFrame
) -> tuple[Comparison, list[tuple[str, int, int]]]:
    """Read one slice of Kafka; return what was read, and the buckets that differ from the table's."""
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
    return Comparison(records=records or 0, bytes=size or 0, differences=()), [tuple(place) for place in places]


def _compare_offsets(
    spark: SparkSession, job: CompareJob, part: Sequence[Slice], kafka: Mapping[str, str]
) -> Comparison:
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
    return Comparison(
        records=0,
        bytes=int(sum(size or 0 for *_, size in rows)),
        differences=tuple(
            Difference(
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
    """Return digests of what Kafka has of some slices; read as a staging job reads."""
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
    return _digested(Steps(spark, asked, kafka).read())


def _overflowing(spark: SparkSession, job: CompareJob, part: Sequence[Slice]) -> tuple[Slice, ...]:
    """Return where the table has records with a time that what reads Kafka here cannot read."""
    beyond = f"kafka_timestamp_raw NOT BETWEEN {-SPARK_LATEST_MS} AND {SPARK_LATEST_MS}"
    if job.singly or spark.conf.get(SETTING, "true").lower() == "false":
        beyond += f" OR coalesce(kafka_timestamp_raw, unix_millis(kafka_timestamp)) < {SPARK_EARLIEST_MS}"
    found = spark.sql(
        "SELECT kafka_topic_id, kafka_partition, kafka_offset "
        f"FROM {at_snapshot(table_name(job), job.snapshot)} WHERE {beyond}"
    ).collect()
    offsets: dict[tuple[str, int], list[OffsetRange]] = defaultdict(list)
    for topic_id, partition, offset in found:
        offsets[topic_id, partition].append(OffsetRange(offset, offset + 1))
    return tuple(
        replace(item, range=late)
        for item in part
        for late in RangeSet(offsets[item.stream.topic_id, item.stream.partition]).within(item.range).joined(MOST_PARTS)
    )


def _lake(spark: SparkSession, job: CompareJob, parts: Sequence[Sequence[Slice]]) -> DataFrame:
    """Return digests of what the table's snapshot has of the slices, each with the number of its slice."""
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
    text = "SELECT inline(from_json(:slices, :shape))"
    asked = spark.sql(text, {"slices": json.dumps(slices), "shape": shape})
    rows = spark.sql(f"SELECT * FROM {at_snapshot(table_name(job), job.snapshot)}")
    lowest, highest = min(item["a"] for item in slices), max(item["b"] for item in slices)
    # What the bounds of a file can tell is said of its columns; the rest is the join's.
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


def _added(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Add up what several slices found of the same stream."""
    by_kind: dict[tuple[Any, ...], list[Difference]] = defaultdict(list)
    for item in found:
        by_kind[(*item.stream, item.mismatch)].append(item)
    return tuple(
        replace(items[0], first=min(item.first for item in items), offsets=sum(item.offsets for item in items))
        for _, items in sorted(by_kind.items())
    )


def work(spark: SparkSession, request: Mapping[str, Any], progress: Callable[[str], object]) -> Mapping[str, Any]:
    """Do the job of a request, `{"job": …, "kafka": …}`; returns its document."""
    return compare(spark, CompareJob.from_json(request["job"]), request["kafka"], progress=progress).to_json()


if __name__ == "__main__":
    run(sys.argv[1:], work)
