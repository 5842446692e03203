"""SQL in a Spark of its own with the lake's catalog: what the owner of a table does beside us."""

from __future__ import annotations

import json
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
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([_settings(lake) | dict(conf or {}), list(statements)]),
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
        cwd=folder,
        env=None if env is None else dict(env),
    )


def _settings(lake: Mapping[str, Any]) -> dict[str, str]:
    from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
    from airflow_kafka_lake.adapters.jars.cache import JarSet, verified
    from airflow_kafka_lake.adapters.spark_submit.runner import archive_path
    from airflow_kafka_lake.adapters.spark_submit.submission import all_jars

    jars = verified(JarSet.SPARK)
    stores = verified(JarSet.S3) if any(key.startswith("s3.") for key in lake) else ()
    # Java passes over an archive that is not there, so this only ever saves time.
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-XX:SharedArchiveFile={archive_path(jars)}")
    return {
        **LakeSettings.parse("lake_default", lake).spark(),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": ":".join(map(str, all_jars([*jars, *stores]))),
        "spark.driver.extraJavaOptions": " ".join(quick),
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
