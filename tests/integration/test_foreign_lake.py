"""A lake of another make, as the documents say how to connect it: Iceberg REST with OAuth, its files in S3."""

from __future__ import annotations

import json

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from tests.kit.local_lake import KEY, SECRET, LocalLake
from tests.sandbox import Sandbox, drivers

LAKE, SPARK = "AIRFLOW_CONN_LAKE_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT"


def test_a_pipeline_lands_in_a_rest_catalog_over_s3(sandbox: Sandbox, foreign_lake: LocalLake) -> None:
    """Each command is a process and the job a real submit; neither its command line nor Spark's event log has a secret,
    and what is there is what was produced."""
    place, table = sandbox, f"s3.{sandbox.name.replace('-', '_')}"
    place.write_pipeline(table=table)
    place.produce(300)
    events = place.home / "events"
    events.mkdir()
    spark = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    env = {
        LAKE: json.dumps(foreign_lake.connection()),
        SPARK: json.dumps({"conn_type": "spark", "host": "local[2]", "extra": spark}),
    }

    planned = place.end(place.start("plan", str(place.file), "--dry-run", env=env))
    assert planned.code == 0, planned.err
    started = place.start("run", str(place.file), "--json", env=env)
    place.wait_for_job(started)
    (driver,) = drivers(started.pid)
    words = driver.cmdline()
    ran = place.end(started)
    assert ran.code == 0, ran.err or ran.out
    assert ran.document["rows"] == 300
    logged = "".join(log.read_text() for log in events.rglob("*") if log.is_file())
    assert "spark.sql.catalog.lake.s3.endpoint" in logged
    assert not [text for text in (SECRET, KEY) if text in " ".join(words) or text in logged]

    audited = place.command("audit", str(place.file), "--json", env={LAKE: env[LAKE]})
    assert audited.code == 0, audited.err or audited.out
    assert place.acknowledged == _rows(foreign_lake, table)


def _rows(lake: LocalLake, table: str) -> dict[tuple[int, int], bytes]:
    connection = lake.connection()
    settings = LakeSettings.parse("lake_default", connection["extra"], connection["password"], connection["login"])
    opened = IcebergLake(settings)
    try:
        rows = opened.catalog.load(table).scan().to_arrow().to_pylist()
    finally:
        opened.close()
    return {(row["kafka_partition"], row["kafka_offset"]): row["value"] for row in rows}
