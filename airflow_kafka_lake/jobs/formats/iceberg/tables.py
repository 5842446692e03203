"""Tables, branches and appends in Spark's SQL for Iceberg."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.spec import TABLE_PART
from airflow_kafka_lake.core.wire import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "lake"
CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""Branches need them."""
# The worker commits to the same tables: a cached one would be old.
SETTINGS = {f"spark.sql.catalog.{CATALOG}.cache-enabled": "false"}
"""The default settings of every session; a connection may override them."""
STAGED_BY, DECODED_AS = PREFIX + "staged-by", PREFIX + "decoded-as"
COMMIT_TRIES = 10
COMMIT_PAUSE_SECONDS = 0.3

_REFUSED_COMMIT = "org.apache.iceberg.exceptions.CommitFailedException"
WRITE_OPTIONS = {
    "write-format": "parquet",
    "compression-codec": "zstd",
    "compression-level": "1",
    # Files stay in offset order, and no row crosses the network: no shuffle, no sort by partition value.
    "distribution-mode": "none",
    "fanout-enabled": "true",
}


class OfTable(Protocol):
    """A job that works on a table."""

    @property
    def table(self) -> str:
        """The table as `namespace.table`."""


def table_name(job: OfTable) -> str:
    """Return the table as a quoted SQL identifier in the catalog `lake`."""
    parts = job.table.split(".")
    if len(parts) < 2:
        raise RefusedError(f"The table {job.table!r} has no namespace: use namespace.table.", table=job.table)
    return ".".join(f"`{_checked(part)}`" for part in (CATALOG, *parts))


def _checked(part: str) -> str:
    if not TABLE_PART.fullmatch(part):
        raise RefusedError(f"The table {part!r} has characters that no table has; nothing was staged.")
    return part


def close_catalog(spark: SparkSession) -> None:
    """Close the connections that a session has opened to the catalog; it is of no use afterwards.

    Each session opens the catalog for itself, and Spark closes none. A catalog that cannot be closed, such as one that
    a connection wraps in a cache, is left to Java.
    """
    with suppress(Exception):
        manager = spark._jsparkSession.sessionState().catalogManager()  # noqa: SLF001 - no public door in Python
        manager.catalog(CATALOG).icebergCatalog().close()


def at_snapshot(table: str, snapshot: int) -> str:
    """Return the FROM expression of a table's snapshot."""
    return f"{table} VERSION AS OF {int(snapshot)}"


def create_branch(spark: SparkSession, table: str, branch: str, days: int) -> None:
    """Create a branch at main's head, kept for some days; an existing one is an error."""
    repeated(lambda: spark.sql(f"ALTER TABLE {table} CREATE BRANCH `{branch}` RETAIN {int(days)} DAYS"))


def drop_branch(spark: SparkSession, table: str, branch: str) -> None:
    """Drop a branch, if it exists."""
    repeated(lambda: spark.sql(f"ALTER TABLE {table} DROP BRANCH IF EXISTS `{branch}`"))


def repeated(statement: Callable[[], object], sleep: Callable[[float], object] = time.sleep) -> None:
    """Run a statement, and repeat it a bounded number of times while another commit to the table came first.

    Iceberg repeats appends by itself, but not statements like CREATE BRANCH: beside a busy writer one lost race would
    cost a whole job. A refused commit changed nothing, and a branch that another process made meanwhile is an error.
    """
    for turn in range(COMMIT_TRIES):
        try:
            statement()
        except Exception as error:
            if _REFUSED_COMMIT not in str(error) or turn + 1 == COMMIT_TRIES:
                raise
            sleep(random.uniform(0.5, 1.5) * COMMIT_PAUSE_SECONDS)
        else:
            return


def append(records: DataFrame, table: str, branch: str, *, staged_by: str, decoded_as: str | None = None) -> None:
    """Write rows to a branch in one commit, also of no rows; its summary names the attempt and the decoding.

    Where that fails, the branch is looked at once: a commit that is there was made, whatever was answered.
    """
    writer = records.writeTo(f"{table}.`branch_{branch}`")
    summary = {STAGED_BY: staged_by, **({DECODED_AS: decoded_as} if decoded_as else {})}
    for key, value in {
        **WRITE_OPTIONS,
        **{f"snapshot-property.{name}": text for name, text in summary.items()},
    }.items():
        writer = writer.option(key, value)
    try:
        writer.append()
    except Exception:
        if not _is_staged(records.sparkSession, table, branch, staged_by):
            raise


def _is_staged(spark: SparkSession, table: str, branch: str, staged_by: str) -> bool:
    """Return whether the rows are on the branch though no answer, or a refusal, came to their commit: a layer below may
    have lost the answer, or sent the commit twice."""
    heads = (
        f"SELECT s.summary['{STAGED_BY}'] AS staged_by FROM {table}.refs AS r "
        f"JOIN {table}.snapshots AS s ON s.snapshot_id = r.snapshot_id WHERE r.name = '{branch}'"
    )
    with suppress(Exception):  # what has failed is the commit
        return [row["staged_by"] for row in spark.sql(heads).collect()] == [staged_by]
    return False
