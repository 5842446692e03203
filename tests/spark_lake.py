"""A Spark in the test's own process, and a lake that it shares with PyIceberg."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from airflow_kafka_lake.adapters.iceberg.schema import LANDING, partition_spec
from airflow_kafka_lake.jobs.formats import EXTENSIONS
from tests.lean_spark import lean_home

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


class SparkLake:
    """A SQLite catalog that Spark and PyIceberg share."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        (folder / "warehouse").mkdir()
        self.warehouse = f"file://{folder}/warehouse"
        self.database = folder / "catalog.db"
        self.catalog: SqlCatalog = SqlCatalog("lake", uri=f"sqlite:///{self.database}", warehouse=self.warehouse)
        self.catalog.create_namespace("raw")

    def spark(self) -> dict[str, str]:
        return {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{self.database}",
            "spark.sql.catalog.lake.warehouse": self.warehouse,
            "spark.sql.catalog.lake.jdbc.schema-version": "V1",
            "spark.sql.catalog.lake.cache-enabled": "false",
        }

    def create(self, partition_by: str = "") -> Table:
        name = f"raw.t_{secrets.token_hex(4)}"
        return self.catalog.create_table(name, LANDING, partition_spec=partition_spec(partition_by, LANDING))


@contextmanager
def started(
    lake: SparkLake, jars: Sequence[Path], master: str = "local[2]", further: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield one Spark, in a JVM that ends with it, of some `further` settings."""
    settings = {
        **lake.spark(),
        "spark.sql.extensions": EXTENSIONS,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.heartbeatInterval": "1s",
        **(further or {}),
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable  # a session takes it from nowhere else
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with lean_home(jars, "1g"):
        session = builder.getOrCreate()
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(120)
    # PySpark would ask the ended JVM for the next session of this process.
    SparkContext._gateway = SparkContext._jvm = None
