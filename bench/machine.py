"""On what a run was measured: commit, versions, cores, memory, and how busy the machine was before."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from airflow_kafka_lake.adapters.jars.cache import JarSet, pinned
from bench.connect_jars import ICEBERG_CONNECT, listed

ROOT = Path(__file__).parents[1]
PACKAGES = ("apache-airflow", "confluent-kafka", "pyarrow", "pyiceberg", "pyspark")


def described() -> dict[str, Any]:
    """Return everything that numbers of two runs must share before they may be compared."""
    return {
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "at": _git("show", "-s", "--format=%cs", "HEAD"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "processor": _processor(),
            "system": f"{platform.system()} {platform.release()}",
            "load": os.getloadavg()[0],
        },
        "versions": versions(),
    }


def versions() -> Mapping[str, str]:
    """Return the versions of everything that an arm runs on."""
    jars = {jar.artifact: jar.version for jar in pinned(JarSet.SPARK)}
    broker = {jar.artifact: jar.version for jar in pinned(JarSet.KAFKA_BROKER)}
    connect = {jar.artifact: jar.version for jar in listed(ICEBERG_CONNECT)}
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "kafka": broker["kafka_2.13"],
        "kafka-clients of Spark": jars["kafka-clients"],
        "iceberg-spark-runtime": jars["iceberg-spark-runtime-4.1_2.13"],
        "iceberg-kafka-connect": connect["iceberg-kafka-connect"],
        "connect-runtime": connect["connect-runtime"],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*words: str) -> str:
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()
