"""The hook of a Spark master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_kafka_lake.hooks.connection import ConnectionHook
from airflow_kafka_lake.wiring.spark import DEFAULT_SPARK, SparkConnection


class SparkRunnerHook(ConnectionHook):
    """Returns where Spark jobs run, and with which settings.

    :param spark_conn_id: Airflow connection of the master, of type `kafka_lake_spark` or `spark`
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = DEFAULT_SPARK
    conn_type = "kafka_lake_spark"
    hook_name = "Kafka Lake: Spark"

    def __init__(self, spark_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id

    def get_conn(self) -> tuple[str, Mapping[str, str]]:
        """Return the master's address and further Spark settings; nothing is opened before a job is submitted."""
        return SparkConnection(self.spark_conn_id).master_and_conf

    def check(self) -> str:
        """See `ConnectionHook`."""
        return SparkConnection(self.spark_conn_id).check()
