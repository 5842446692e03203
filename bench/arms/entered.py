"""Everything that takes part, by name, in the order of the tables. A new way joins by one line here."""

from __future__ import annotations

from bench.arms.airflow import OursInAirflow
from bench.arms.arm import Arm
from bench.arms.connect import Connect
from bench.arms.loader import Encode, Loader
from bench.arms.ours import Ours
from bench.arms.parts import OursOnParts
from bench.arms.spark import SparkArm, SubmitForEach
from bench.arms.warm import OursWarm

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Ours(),
        OursWarm(),
        SparkArm("batch", "plain Spark batch job, one append to Iceberg", mode="batch"),
        SparkArm(
            "batch-tuned", "the same with this package's Kafka and write options, in 16 tasks", mode="batch", tuned=True
        ),
        SparkArm("available-now", "Structured Streaming, `AvailableNow`, with a checkpoint", mode="stream"),
        SparkArm("available-now-tuned", "the same with the same options", mode="stream", tuned=True),
        Connect("connect", "Iceberg's sink in a Kafka Connect worker, by its defaults", tuned=False),
        Connect(
            "connect-tuned",
            "Iceberg's sink of Kafka Connect: commits each 10 s, flushes each second, polls of 5,000 records and 4 MiB",
            tuned=True,
        ),
        Loader(),
        OursInAirflow(),
        OursOnParts("secured", "`ours`, logged in to the broker by SASL over TLS", "login"),
        OursOnParts("rest-s3", "`ours`, with a REST catalog over S3 (SeaweedFS)", "lake"),
        OursOnParts("postgresql", "`ours`, with a ledger in PostgreSQL", "ledger"),
        OursOnParts("cluster", "`ours`, with a standalone Spark: a worker for each core", "cluster"),
        OursOnParts("on-parts", "`ours`, with these four together", "login", "lake", "ledger", "cluster"),
        SubmitForEach(),
        SparkArm(
            "read",
            "upper limit: this package's Kafka options, rows go nowhere; Spark's start included",
            mode="read",
            tuned=True,
        ),
        SparkArm(
            "files", "plain Spark batch job to Parquet files by Spark's defaults: no table, no commit", mode="files"
        ),
        Encode(),
    )
}
