"""A Spark job as a person writes it: Kafka to an Iceberg table, in a batch or by Structured Streaming.

It runs under spark-submit and imports nothing of this repository. Its only argument names a JSON file; moments go to
`marks.json` in its folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

COLUMNS = (
    "key",
    "value",
    "headers",
    "topic AS kafka_topic",
    "partition AS kafka_partition",
    "offset AS kafka_offset",
    "timestamp AS kafka_timestamp",
)


def main(file: str) -> None:
    """Do what the file asks for."""
    asked = json.loads(Path(file).read_text())
    home = Path(asked["home"])
    spark = SparkSession.builder.getOrCreate()
    marks = {"start": time.monotonic()}
    rows = {"batch": batch, "stream": stream, "read": read, "files": files}[asked["mode"]](spark, asked, home)
    marks["committed"] = time.monotonic()
    (home / "marks.json").write_text(json.dumps(marks))
    if rows is not None:
        print(rows())
    spark.stop()


def batch(spark: SparkSession, asked: dict[str, Any], home: Path) -> None:
    """Append everything that is there, in one commit."""
    rows = shaped(spark.read.format("kafka").options(**asked["kafka"]).load(), asked)
    writer = rows.writeTo(asked["table"])
    for key, value in asked["write"].items():
        writer = writer.option(key, value)
    writer.append()


def stream(spark: SparkSession, asked: dict[str, Any], home: Path) -> None:
    """Append everything that is there and stop, with a checkpoint."""
    rows = shaped(spark.readStream.format("kafka").options(**asked["kafka"]).load(), asked)
    writer = rows.writeStream.format("iceberg").outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).options(**asked["write"])
    query = writer.toTable(asked["table"])
    query.awaitTermination()


def read(spark: SparkSession, asked: dict[str, Any], home: Path) -> Callable[[], int]:
    """Read everything and write nothing: no job on Spark's own source is faster."""
    counted = Observation()
    rows = shaped(spark.read.format("kafka").options(**asked["kafka"]).load(), asked)
    rows.observe(counted, f.expr("count(*) AS rows")).write.format("noop").mode("overwrite").save()
    return lambda: counted.get["rows"]


def files(spark: SparkSession, asked: dict[str, Any], home: Path) -> Callable[[], int]:
    """Write plain Parquet files by Spark's own defaults: no table, and no commit."""
    rows = shaped(spark.read.format("kafka").options(**asked["kafka"]).load(), asked)
    rows.write.parquet(str(home / "files"))
    return lambda: spark.read.parquet(str(home / "files")).count()


def shaped(records: DataFrame, asked: dict[str, Any]) -> DataFrame:
    """Return Kafka's records as rows of the table."""
    rows = records.selectExpr(*COLUMNS)
    if asked["decoded"]:
        value = f.from_json(f.col("value").cast("string"), asked["decoded"])
        rows = rows.withColumn("_decoded", value).select(*rows.columns, "_decoded.*")
    return rows.coalesce(asked["tasks"]) if asked["tasks"] else rows


if __name__ == "__main__":
    main(sys.argv[1])
