"""What the owner of a table does beside us: SQL in a Spark of its own, and a writer of foreign rows."""

from __future__ import annotations

import json
import subprocess

from tests import spark_sql as spark
from tests.soak.place import Place

SPARK_SECONDS = 240


def spark_sql(place: Place, *statements: str) -> tuple[bool, str]:
    """Run statements with the lake's catalog; returns whether they succeeded and what was printed."""
    extra = json.loads(place.connections()["AIRFLOW_CONN_LAKE_DEFAULT"])["extra"]
    try:
        done = spark.spark_sql(
            extra,
            statements,
            folder=place.home,
            timeout=SPARK_SECONDS,
            env=place.environment(),
            conf={"spark.local.dir": str(place.home / "tmp")},
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
