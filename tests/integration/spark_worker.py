"""A Spark session in a process of its own: one JSON request per line in, one JSON answer per line out.

Argument: a JSON file of Spark settings. Requests: `{"sql": text}` answers with rows, `{"stage": {"table", "attempt",
"select"}}` does to a branch what the staging job does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_lake.core.staging import branch_of
from airflow_kafka_lake.jobs.stage import STAGED_BY, WRITE_OPTIONS


def stage(spark: SparkSession, table: str, attempt: str, select: str) -> None:
    """Create the attempt's branch and append a query's rows to it."""
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH `{branch_of(attempt)}` RETAIN 7 DAYS")
    writer = spark.sql(select).writeTo(f"{table}.`branch_{branch_of(attempt)}`")
    for key, value in {**WRITE_OPTIONS, f"snapshot-property.{STAGED_BY}": attempt}.items():
        writer = writer.option(key, value)
    writer.append()


def answer(spark: SparkSession, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Do what a request asks for."""
    if "stage" in request:
        stage(spark, **request["stage"])
        return []
    return [row.asDict() for row in spark.sql(request["sql"]).collect()]


def main() -> None:
    """Answer until the input ends."""
    builder = SparkSession.builder.master("local[1]")
    for key, value in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        try:
            reply: dict[str, Any] = {"rows": answer(spark, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the test decides what an error means
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply, default=str), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
