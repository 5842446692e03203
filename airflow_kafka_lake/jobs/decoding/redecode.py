"""Decode once more the raw bytes of a table: on a branch of its own, compared before it is shown."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ddl import leaves, quoted
from airflow_kafka_lake.core.decoding import ERROR_COLUMN, VALUE_COLUMN, Decoder
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.ledger.waves import DECODE, Token
from airflow_kafka_lake.core.spark.job import LANDED, LIGHT, RETAIN_DAYS, branch_of
from airflow_kafka_lake.jobs.compare import FIELDS
from airflow_kafka_lake.jobs.driver import REFUSED, leave, run
from airflow_kafka_lake.jobs.formats import create_branch, drop_branch, table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RedecodeJob(Document):
    """Everything a decoding job needs but settings that may hold secrets.

    The rows are those of the decoders' topics, with `only_failed` only rows that did not decode before. `id` is 16 hex
    digits.
    """

    id: str
    pipeline: str
    table: str
    decoders: tuple[Decoder, ...]
    only_failed: bool
    program = "jobs/decoding/redecode.py"
    left = "nothing was changed: repeat it"
    effort = LIGHT + 1
    """More than a light job's: how many rows the job will read is not known."""

    @property
    def name(self) -> str:
        return f"kafka-lake {self.pipeline} decode {self.table}"

    @property
    def staged_as(self) -> str:
        """The branch's name, as `LakeTable.drop` takes it: never an attempt's, whose branch others may drop."""
        return f"{DECODE}_{self.id}"

    @property
    def branch(self) -> str:
        return branch_of(self.staged_as)

    @property
    def token(self) -> Token:
        """The token in the commit that publishes the rows."""
        return Token(pipeline=self.pipeline, wave=DECODE, attempt=self.staged_as, fence=0, ranges="", kind=DECODE)

    @property
    def task(self) -> str:
        return f"decodes {self.table} again"

    @property
    def advice(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedecodeResult:
    """The result of a job: rows that it decoded, how many of them do not decode, and how many of these did before.

    `filled` is how many of the rows have a value, and something in each decoded column, by its path, and `remark` a
    sentence about that. `base` is the snapshot of main that it read, and `staged` the one on its branch, with the same
    rows; both are None when it found no row to decode and left no branch.
    """

    rows: int
    failed: int
    worse: int = 0
    filled: Mapping[str, int] = field(default_factory=dict)
    base: int | None = None
    staged: int | None = None
    remark: str = ""

    def to_json(self) -> dict[str, int]:
        return {"rows": self.rows, "failed": self.failed}

    def __str__(self) -> str:
        left = f"{self.failed:,} of them did not decode" if self.failed else "all of them decode"
        left += f", of which {self.worse:,} did before: their columns are empty now" if self.worse else ""
        told = "; ".join(filter(None, (f"{count(self.rows, 'row')} decoded again", left, self.remark)))
        return told if self.rows else "no such rows"


# Decode a table's rows once more, from their raw bytes: on a branch of its own, compared with the rows before.
#
# The job makes nothing visible: it returns a branch with the same rows, as many, and of the decoded ones the same bytes
# at the same positions. The worker publishes the branch if main is still where the job began.

ROW = ("kafka_topic_id", "kafka_partition", "kafka_offset", "ingest_attempt")
"""The key of one row: an offset that was read again has another attempt's row."""

_SOURCE = "kafka_lake_decoded"


def redecode(
    spark: SparkSession, job: RedecodeJob, progress: Callable[[str], object] = lambda _: None
) -> RedecodeResult:
    """Decode the job's rows once more on its branch; a table without such rows is left alone.

    Raises RefusedError for a schema that the table cannot take; errors of Spark and of the table pass through. No
    branch is left then; columns that were added stay.
    """
    from airflow_kafka_lake.jobs.decoding.decode import decode  # needs Spark, and a worker asks without

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = table_name(job)
    base = _snapshot(spark, table, "main")
    if base is None:
        return RedecodeResult(rows=0, failed=0)
    rows = _rows(spark, job, table, base)
    progress(f"decoding rows of {job.table}")
    decoded = decode(spark, rows.select(*LANDED), job.decoders, table)
    for topic, why in decoded.refused.items():
        raise RefusedError(f"[decode] values of {topic} cannot be decoded: {why}. Nothing was changed.")
    found = decoded.fitted(table)
    names = [name for name in found.columns if name not in LANDED]
    create_branch(spark, job, job.branch, RETAIN_DAYS)
    try:
        found.select(*ROW, *names).createOrReplaceTempView(_SOURCE)
        where = " AND ".join(f"t.{name} = s.{name}" for name in ROW)
        sets = ", ".join(f"t.`{name}` = s.`{name}`" for name in names)
        spark.sql(
            f"MERGE INTO {table}.`branch_{job.branch}` t USING {_SOURCE} s ON {where} "
            f"WHEN MATCHED THEN UPDATE SET {sets}"
        )
        progress("comparing the rows with those that were there")
        columns = leaves(json.loads(found.select(*names).schema.json()))
        done = _compared(spark, job, table, base, columns=[(VALUE_COLUMN,), *columns])
    except BaseException:
        drop_branch(spark, table, job.branch)
        raise
    if not done.rows:
        drop_branch(spark, table, job.branch)
        return done
    return dataclasses.replace(done, base=base, staged=_snapshot(spark, table, job.branch))


def _snapshot(spark: SparkSession, table: str, branch: str) -> int | None:
    found = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = '{branch}'").collect()
    return int(found[0][0]) if found else None


def _rows(spark: SparkSession, job: RedecodeJob, table: str, snapshot: int) -> DataFrame:
    """Return the rows of a snapshot that the job is about."""
    from pyspark.sql import functions as f

    rows = spark.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot}")
    topics = sorted({topic for decoder in job.decoders for topic in decoder.topics})
    # Rows that name no attempt are of other writers.
    mine = rows.filter(f.col("ingest_attempt").isNotNull() & f.col("kafka_topic").isin(topics))
    if not job.only_failed:
        return mine
    return mine.filter(f.col(ERROR_COLUMN).isNotNull()) if ERROR_COLUMN in rows.columns else mine.limit(0)


def _compared(
    spark: SparkSession, job: RedecodeJob, table: str, base: int, *, columns: Sequence[Sequence[str]]
) -> RedecodeResult:
    """Refuse a branch whose rows are not those of the base; return its result, with the number of rows that have
    something in each of some columns."""
    # Which rows had something decoded is known only at the base: one without an error may have landed before [decode].
    rows_before = _rows(spark, job, table, base)
    had = sorted({name for name, *_ in columns[1:]}.intersection(rows_before.columns) - {ERROR_COLUMN})
    decoded = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in had) or "false"
    before = rows_before.selectExpr(*ROW, f"{_digest()} AS was", f"{decoded} AS decoded")
    branch = spark.sql(f"SELECT * FROM {table} VERSION AS OF '{job.branch}'")
    is_there = [f"{'.'.join(map(quoted, path))} IS NOT NULL AS c{n}" for n, path in enumerate(columns)]
    after = branch.selectExpr(*ROW, f"{_digest()} AS is", f"{ERROR_COLUMN} IS NOT NULL AS failed", *is_there)
    numbers = ["count(*)", "count_if(was = is)", "count_if(failed)", "count_if(failed AND decoded)"]
    numbers += [f"count_if(c{n})" for n in range(len(columns))]
    kept, same, failed, worse, *filled = before.join(after, on=list(ROW), how="left").selectExpr(*numbers).collect()[0]
    rows = before.count()
    whole = spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF {base}").collect()[0][0]
    if not rows == kept == same or whole != branch.count():
        raise RefusedError(
            f"[decode] the rows on branch {job.branch} of {job.table} are not those that were there: of {rows}, {same} "
            "are the same. Main was not moved."
        )
    found = dict(zip(map(".".join, columns), filled, strict=True))
    return RedecodeResult(rows=rows, failed=failed, worse=worse, filled=found)


def _digest() -> str:
    return f"xxhash64({', '.join(FIELDS.values())})"


def work(spark: SparkSession, request: Mapping[str, Any], progress: Callable[[str], object]) -> Mapping[str, Any]:
    """Do the job of a request, `{"job": …}`; returns its document."""
    try:
        return dataclasses.asdict(redecode(spark, RedecodeJob.from_json(request["job"]), progress))
    except RefusedError as error:
        leave(error, {REFUSED: error.message})
        raise


if __name__ == "__main__":
    run(sys.argv[1:], work)
