"""Tables, branches, columns and appends in Spark's SQL, by table format; there is one, Iceberg."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from airflow_kafka_lake.core.ddl import changes
from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.spec import TABLE_PART
from airflow_kafka_lake.core.wire import PREFIX
from airflow_kafka_lake.jobs.java import java_map, java_of, java_session
from airflow_kafka_lake.jobs.shared_consumer import frame_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from airflow_kafka_lake.core.spark.job import StageJob


# Add and widen a table's columns for decoded values, and cast rows to the table's types.

WIDEN_TRIES = 3


def widen(spark: SparkSession, table: str, wanted: Sequence[StructField], whose: str) -> None:
    """Add the columns that the table lacks; another job may do the same at the same time."""
    from pyspark.sql.types import StructType

    for turn in range(WIDEN_TRIES):
        try:
            for change in changes(spark.table(table).schema.jsonValue(), StructType([*wanted]).jsonValue(), whose):
                spark.sql(f"ALTER TABLE {table} {change}")
        except Exception as error:  # PySpark leaves some of Java's errors to Py4J, which Connect does not have
            if isinstance(error, RefusedError) or turn + 1 == WIDEN_TRIES:
                raise
            # Another job may have added the same columns, and this session's plan was of the table before.
            spark.catalog.refreshTable(table)
        else:
            return


def field_of(table: StructType, name: str) -> StructField | None:
    return next((field for field in table.fields if field.name.lower() == name.lower()), None)


def aligned(column: Column, there: DataType, wanted: DataType) -> Column:
    """Return a column of type `there` as the table's type: wider numbers, and nulls for fields it does not have."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if there == wanted:
        return column
    if isinstance(there, StructType) and isinstance(wanted, StructType):
        fields = []
        for field in wanted.fields:
            mine = field_of(there, field.name)
            value = f.lit(None).cast(field.dataType)
            if mine is not None:
                value = aligned(column.getField(mine.name), mine.dataType, field.dataType)
            fields.append(value.alias(field.name))
        # A struct of nulls is not null: where there was no value there shall be none.
        return f.when(column.isNotNull(), f.struct(*fields))
    if isinstance(there, ArrayType) and isinstance(wanted, ArrayType):
        return f.transform(column, lambda item: aligned(item, there.elementType, wanted.elementType))
    if isinstance(there, MapType) and isinstance(wanted, MapType):
        return f.transform_values(column, lambda _, item: aligned(item, there.valueType, wanted.valueType))
    return column.cast(wanted)


# Tables, branches and appends in Spark's SQL for Iceberg.

CATALOG = "lake"
CATALOG_CLASS, REST_CLASS = "org.apache.iceberg.spark.SparkCatalog", "airflow_kafka_lake.RestCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""Branches need them."""
# The worker commits to the same tables: a cached one would be old.
SETTINGS = {
    f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    f"spark.sql.catalog.{CATALOG}.hadoop.fs.file.impl": "airflow_kafka_lake.LocalFiles",
    f"spark.sql.catalog.{CATALOG}.hadoop.fs.file.impl.disable.cache": "true",
}
"""The default settings of every session; a connection may override them."""
STAGED_BY, DECODED_AS = PREFIX + "staged-by", PREFIX + "decoded-as"
USUAL = {"spark.extraListeners": "", "spark.sql.queryExecutionListeners": "", "spark.sql.extensions": EXTENSIONS}
"""Settings by which queries may be watched, as by OpenLineage's agent or rules about rights, where nothing watches."""
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
    """Return the table as a quoted SQL identifier in the catalog `lake`. Raises RefusedError without a namespace."""
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
        java_session(spark).sessionState().catalogManager().catalog(CATALOG).icebergCatalog().close()


def at_snapshot(table: str, snapshot: int) -> str:
    """Return the FROM expression of a table's snapshot."""
    return f"{table} VERSION AS OF {int(snapshot)}"


def create_branch(spark: SparkSession, job: OfTable, branch: str, days: int) -> None:
    """Create a branch at main's head, kept for some days; an existing one is an error."""
    table, age_ms = table_name(job), int(days) * 24 * 3_600_000
    if (catalog := _catalog(spark)) is None:
        repeated(lambda: spark.sql(f"ALTER TABLE {table} CREATE BRANCH `{branch}` RETAIN {int(days)} DAYS"))
        return
    name = java_of(spark).org.apache.iceberg.catalog.TableIdentifier.parse(job.table)

    def created() -> None:
        refs = catalog.icebergCatalog().loadTable(name).manageSnapshots()
        refs.createBranch(branch).setMaxRefAgeMs(branch, age_ms).commit()

    repeated(created)


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


def append(spark: SparkSession, records: Any, job: StageJob) -> None:
    """Write rows, a data frame or `shared_rows`, to the attempt's branch in one commit, also of no rows; its summary
    names the attempt and the decoding.

    Where that fails, the branch is looked at once: a commit that is there was made, whatever was answered.
    """
    table, summary = table_name(job), {STAGED_BY: job.attempt} | ({DECODED_AS: job.decoding} if job.decoding else {})
    options = WRITE_OPTIONS | {f"snapshot-property.{name}": text for name, text in summary.items()}
    try:
        if not _is_written(spark, records, [*job.table.split("."), f"branch_{job.branch}"], options):
            frame_of(spark, records).writeTo(f"{table}.`branch_{job.branch}`").options(**options).append()
    except Exception:
        if not _is_staged(spark, table, job.branch, job.attempt):
            raise


def _is_written(spark: SparkSession, rows: Any, path: Sequence[str], options: Mapping[str, str]) -> bool:
    """Write `shared_rows` without a query; False, with nothing written, where rows, table or a listener need one."""
    from pyspark.sql import DataFrame

    if isinstance(rows, DataFrame) or (catalog := _catalog(spark)) is None:
        return False
    writer = java_of(spark).airflow_kafka_lake.TableAppend
    return bool(writer.append(catalog, "\n".join(path), java_map(spark, options), rows))


def _catalog(spark: SparkSession) -> Any | None:
    """Return the catalog to do without SQL, whose plan takes a fifth of a second and more; None where a listener wants
    to see SQL, and where the session has no Java of its own (Spark Connect)."""
    if any(spark.conf.get(name, usual) != usual for name, usual in USUAL.items()):
        return None
    with suppress(Exception):
        return java_session(spark).sessionState().catalogManager().catalog(CATALOG)
    return None


def _is_staged(spark: SparkSession, table: str, branch: str, staged_by: str) -> bool:
    """Return whether the rows are on the branch though no answer, or a refusal, came to their commit: a layer below may
    have lost the answer, or sent the commit twice."""
    heads = (
        f"SELECT s.summary['{STAGED_BY}'] AS staged_by FROM {table}.refs AS r "
        f"JOIN {table}.snapshots AS s ON s.snapshot_id = r.snapshot_id WHERE r.name = '{branch}'"
    )
    with suppress(Exception):  # the error to raise is that of the commit
        return [row["staged_by"] for row in spark.sql(heads).collect()] == [staged_by]
    return False
