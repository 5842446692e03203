"""Spark jobs by spark-submit in client mode: one driver process per attempt, which can only stage."""

from airflow_kafka_lake.adapters.spark_submit.archive import archive_path, make_archive
from airflow_kafka_lake.adapters.spark_submit.driver import end_orphan
from airflow_kafka_lake.adapters.spark_submit.engine import Engine
from airflow_kafka_lake.adapters.spark_submit.runner import QUIET_SECONDS, SparkSubmitRunner
from airflow_kafka_lake.adapters.spark_submit.submission import require_jars

__all__ = [
    "QUIET_SECONDS",
    "Engine",
    "SparkSubmitRunner",
    "archive_path",
    "end_orphan",
    "make_archive",
    "require_jars",
]
