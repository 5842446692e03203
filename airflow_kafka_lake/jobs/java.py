"""The Java behind a PySpark session: PySpark keeps it to itself, so whatever reaches for it does so here.

Three private members, there in PySpark 4.0.0, 4.1.0, 4.1.3 and 4.2.0; `tests/contracts/test_private_members.py` tells
which version has changed one. All that is asked of Java itself is public there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
