"""Run the steps of a staging job on one row, so that Java can archive the classes that they load."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.driver import run
from airflow_kafka_lake.jobs.formats import append, create_branch, drop_branch, table_name
from airflow_kafka_lake.jobs.stage import branch_name, columns, stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "500", "request.timeout.ms": "400"}
_RECORDS = """
    SELECT key, value, headers, topic, partition, offset, timestamp, timestampType FROM VALUES
    (X'01', X'02', array(named_struct('key', 'h', 'value', X'03')), 'class_loading', 0, 0L, TIMESTAMP '2020-01-01', 0)
    AS record(key, value, headers, topic, partition, offset, timestamp, timestampType)
"""
JOB = StageJob(
    pipeline="class_loading",
    wave="class_loading",
    attempt="0" * 16,
    table="class_loading.landing",
    isolation=Isolation.READ_COMMITTED,
    slices=(Slice(Stream("class_loading", "class_loading", 0), OffsetRange(0, 1)),),
    tasks=1,
    max_records_per_partition=None,
)


def load_classes(spark: SparkSession) -> None:
    """Stage one row onto a branch of a new table of the catalog `lake`, and read from a Kafka that does not exist."""
    table = table_name(JOB)
    spark.sql("CREATE NAMESPACE lake.class_loading")
    rows = spark.sql(_RECORDS).selectExpr(*columns(JOB)).coalesce(1)
    rows.writeTo(table).create()
    create_branch(spark, table, branch_name(JOB), days=7)
    append(rows, table, JOB.branch, staged_by=JOB.attempt)
    drop_branch(spark, table, JOB.branch)
    with suppress(Exception):
        stage(spark, JOB, _NOWHERE)


if __name__ == "__main__":
    run(sys.argv[1:], lambda spark, *_: load_classes(spark))
