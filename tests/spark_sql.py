"""SQL in a Spark of its own with the lake's catalog: what the owner of a table does beside us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
conf, statements = json.loads(sys.stdin.read())
builder = SparkSession.builder.master("local[1]")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for statement in statements:
    print(json.dumps([row.asDict() for row in spark.sql(statement).collect()], default=str))
spark.stop()
"""


def spark_sql(
    lake: Mapping[str, Any],
    statements: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run statements one after the other; stdout has a line of JSON with the rows of each.

    `lake` are the extras of the lake's connection, `folder` is where Spark runs. Raises subprocess.TimeoutExpired.
    """
    from airflow_kafka_lake.adapters.jars.cache import JarSet, verified
    from tests.lean_spark import lean_home

    stores = verified(JarSet.S3) if any(key.startswith("s3.") for key in lake) else []
    with lean_home([*verified(JarSet.SPARK), *stores], "1g") as home:
        return subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=json.dumps([_settings(lake) | dict(conf or {}), list(statements)]),
            text=True,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=folder,
            env={**(os.environ if env is None else env), "SPARK_HOME": home},
        )


def _settings(lake: Mapping[str, Any]) -> dict[str, str]:
    from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings

    return {
        **LakeSettings.parse("lake_default", lake).spark(),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
