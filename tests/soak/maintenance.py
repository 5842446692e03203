"""What the owner of a table does beside us: SQL in a Spark of its own, and a writer of foreign rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.soak.place import Place

SPARK_SECONDS = 240
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


def spark_sql(place: Place, *statements: str) -> tuple[bool, str]:
    """Run statements with the lake's catalog; returns whether they succeeded and what was printed."""
    from airflow_kafka_lake.adapters.jars import JarSet, verified
    from airflow_kafka_lake.adapters.lake_config import LakeSettings
    from airflow_kafka_lake.adapters.spark_submit import archive_path

    extra = json.loads(place.connections()["AIRFLOW_CONN_LAKE_DEFAULT"])["extra"]
    jars = verified(JarSet.SPARK)
    archive = archive_path(jars)
    conf = {
        **LakeSettings.parse("lake_default", extra).spark(),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": ":".join(str(path) for path in jars),
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={archive}",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(place.home / "tmp"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    return _run(place, conf, statements)


def _run(place: Place, conf: dict[str, str], statements: Sequence[str]) -> tuple[bool, str]:
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=json.dumps([conf, list(statements)]),
            text=True,
            capture_output=True,
            timeout=SPARK_SECONDS,
            check=False,
            cwd=place.home,
            env=place.environment(),
        )
    except subprocess.TimeoutExpired:
        place.journal("spark", statements=list(statements), said=f"ended after {SPARK_SECONDS} s")
        return False, "too slow"
    said = done.stdout[-500:] if done.returncode == 0 else _reason(done.stderr)
    place.journal("spark", statements=list(statements), code=done.returncode, said=said)
    return done.returncode == 0, said


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if "Exception" in line or "Error" in line]
    return "\n".join(lines[-3:])[-600:]
