"""The Java behind a PySpark session: started beside its Python, and reached though PySpark keeps it to itself.

Three private members, there in PySpark 4.0.0, 4.1.0, 4.1.3 and 4.2.0; `tests/contracts/test_private_members.py` tells
which version has changed one. All that is asked of Java itself is public there.
"""

from __future__ import annotations

import os
import runpy
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A driver of this machine: Python starts Java and loads its modules meanwhile, half a second that each has for itself.
#
# As PySpark does when a program starts Spark: Java writes where it listens, and ends when its input ends, so with
# Python however that dies.

BESIDE_JAVA = "import sys; from airflow_kafka_lake.jobs.java import run_beside; run_beside(*sys.argv[1:])"
"""The Python text of such a driver; its arguments are those of `run_beside`."""

_PLACE_VARIABLE, _PLACE = "_PYSPARK_DRIVER_CONN_INFO_PATH", "gateway"
_POLL_SECONDS, _ENDS_SECONDS = 0.005, 0.5
_beside: list[subprocess.Popen[bytes]] = []


def run_beside(program: str, request: str, *java: str) -> None:
    """Run a driver's program, which is given its request's file, beside the Java of a command; end as Java has ended,
    where that failed, because the errors that Python meets then tell less."""
    environment = os.environ | {_PLACE_VARIABLE: str(Path(request).with_name(_PLACE))}
    started = subprocess.Popen(java, stdin=subprocess.PIPE, env=environment)
    _beside.append(started)
    sys.argv = [program, request]
    try:
        runpy.run_path(program, run_name="__main__")
    except Exception:  # noqa: BLE001  # an error of Java's asks Java for its text, which ends below
        with suppress(subprocess.TimeoutExpired):
            sys.exit(started.wait(_ENDS_SECONDS) or 1)
        traceback.print_exc()
        sys.exit(1)
    finally:
        started.communicate()
        if started.returncode < 0:
            os.kill(os.getpid(), -started.returncode)
        if started.returncode:
            sys.exit(started.returncode)


def meet_java(folder: Path) -> None:
    """Wait until the Java beside this Python listens, and tell PySpark where; nothing where Java has started Python."""
    for started in _beside:
        while not (folder / _PLACE).exists():
            if started.poll() is not None:
                sys.exit(1)
            time.sleep(_POLL_SECONDS)
        told = (folder / _PLACE).read_bytes()
        (folder / _PLACE).unlink()  # it holds the secret of the gateway to Java
        port, size = struct.unpack_from(">ii", told)
        os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": told[8 : 8 + size].decode()}


# What PySpark keeps to itself.


def java_of(spark: SparkSession) -> Any:
    """Return the Java of a session, whose classes are attributes by their names.

    Raises the error of a session without a Java of its own (Spark Connect), as all of this module.
    """
    return spark._jvm  # noqa: SLF001


def java_session(spark: SparkSession) -> Any:
    return spark._jsparkSession  # noqa: SLF001


def java_context(spark: SparkSession) -> Any:
    """Return Java's context, which knows stages, accumulators and listeners."""
    return java_session(spark).sparkContext()


def java_map(spark: SparkSession, values: Mapping[str, str]) -> Any:
    """Return a map of Java's."""
    found = java_of(spark).java.util.HashMap()
    for key, value in values.items():
        found.put(key, value)
    return found


def activate(spark: SparkSession) -> None:
    """Make a session the one that this thread's work is planned with, as the only session of a driver is.

    Python and Java keep one each. `createDataFrame` sets both too, and imports pandas.
    """
    from pyspark.sql import SparkSession

    SparkSession._activeSession = spark  # noqa: SLF001
    getattr(java_of(spark), "org.apache.spark.sql.classic.SparkSession").setActiveSession(java_session(spark))
