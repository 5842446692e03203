"""Land drawn topics by the job's own code into real tables, and read every row by three readers."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.decoding.decode import DecodedRows, decode
from airflow_kafka_lake.jobs.formats import table_name
from airflow_kafka_lake.jobs.stage import Steps, stage
from airflow_kafka_lake.services.reading import plain_decoder, registered_decoder
from tests.decoding.cases import MAY_REFUSE, Case, Drawn, Stage, judged, plain

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tests.spark_lake import SparkLake

_SHAPE = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, kafka_topic string, "
    "kafka_topic_id string, kafka_partition int, kafka_offset bigint, kafka_timestamp timestamp, "
    "kafka_timestamp_type int, kafka_timestamp_raw bigint, ingest_attempt string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What went wrong with a topic, or with one record of it."""

    kind: str
    topic: str
    peculiar: frozenset[str]
    text: str


@dataclass(slots=True)
class Seen:
    """What a run has seen."""

    cases: int = 0
    decoded: int = 0
    findings: list[Finding] = field(default_factory=list)
    peculiar: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Given(Steps):
    """The steps of a job whose records are given."""

    values: Sequence[bytes | None] = ()
    first: int = 0

    def read(self) -> DecodedRows:
        decoder = self.job.decoders[0]
        rows = [
            (None, value, None, decoder.topics[0], "id", 0, self.first + number, None, 0, None, self.job.attempt)
            for number, value in enumerate(self.values)
        ]
        return decode(
            self.spark, self.spark.createDataFrame(rows, _SHAPE).coalesce(1), self.job.decoders, table_name(self.job)
        )


def land(spark: SparkSession, lake: SparkLake, drawn: Drawn, seen: Seen) -> None:
    """Land a topic stage by stage into a table of its own, read it by every reader, and note what is wrong."""
    table = lake.create()
    offset = 0
    wanted = []
    for at in drawn.stages:
        seen.cases += len(at.cases)
        for case in at.cases:
            seen.peculiar.update(case.peculiar | drawn.peculiar)
        try:
            _stage(spark, table, drawn, at, offset)
        except Exception as error:  # noqa: BLE001 - whatever stops a landing is found
            peculiar = drawn.peculiar.union(*(case.peculiar for case in at.cases))
            text = f"{type(error).__name__}: {str(error).strip()[:600]}"
            seen.findings.append(Finding(kind="the landing stops", topic=str(drawn), peculiar=peculiar, text=text))
            continue
        wanted += [(offset + number, at, case) for number, case in enumerate(at.cases)]
        offset += len(at.cases)
    rows = _read(spark, table, drawn, seen)
    for number, at, case in wanted:
        row = rows.get(number)
        if rows and row is None:
            seen.findings.append(Finding(kind="a row is missing", topic=str(drawn), peculiar=drawn.peculiar, text=""))
        elif row is not None:
            seen.decoded += row.get("decode_error") is None
            peculiar = drawn.peculiar | case.peculiar
            if problem := _problem(at, case, row, must=case.must and not peculiar & MAY_REFUSE):
                text = f"{case.value!r:.300}: {problem}"
                seen.findings.append(Finding(kind="a row is wrong", topic=str(drawn), peculiar=peculiar, text=text))


def _problem(at: Stage, case: Case, row: Mapping[str, Any], *, must: bool) -> str | None:
    try:
        return judged(at, case, row, must=must)
    except Exception as error:  # noqa: BLE001 - of ten thousand cases, one that the test cannot judge ends no run
        return f"cannot be judged: {type(error).__name__}: {error}"


def _stage(spark: SparkSession, table: Table, drawn: Drawn, at: Stage, offset: int) -> None:
    if at.asked.format.is_registered:
        decoder = registered_decoder(at.asked, drawn.name, at.versions)
    else:
        decoder = plain_decoder(at.asked, [drawn.name])
    job = StageJob(
        pipeline="p",
        wave="w1",
        attempt=secrets.token_hex(8),
        table=".".join(table.name()),
        isolation=Isolation.READ_COMMITTED,
        slices=(),
        tasks=1,
        max_records_per_partition=None,
        decoders=(decoder,),
    )
    values = [case.value for case in at.cases]
    stage(spark, job, {}, lambda *given: _Given(*given, values=values, first=offset))
    name = ".".join(table.name())
    spark.sql(f"CALL lake.system.fast_forward('{name}', 'main', '{job.branch}')")


def _read(spark: SparkSession, table: Table, drawn: Drawn, seen: Seen) -> Mapping[int, Mapping[str, Any]]:
    """Return the rows by offset as the first reader has them; a reader that fails, or has other rows, is a finding."""
    found = {}
    for reader, read in (("Spark", _by_spark), ("DuckDB", _by_duckdb), ("PyIceberg", _by_pyiceberg)):
        try:
            found[reader] = {row["kafka_offset"]: row for row in read(spark, table)}
        except Exception as error:  # noqa: BLE001 - whatever keeps a reader from its rows is found
            text = f"{type(error).__name__}: {str(error).strip()[:600]}"
            peculiar = drawn.peculiar.union(*(case.peculiar for at in drawn.stages for case in at.cases))
            finding = Finding(kind=f"{reader} cannot read", topic=str(drawn), peculiar=peculiar, text=text)
            seen.findings.append(finding)
    rows = next(iter(found.values()), {})
    for reader, theirs in found.items():
        for text in _differences(rows, theirs):
            seen.findings.append(
                Finding(kind=f"{reader} reads another row", topic=str(drawn), peculiar=drawn.peculiar, text=text)
            )
            break
    return rows


def _differences(rows: Mapping[int, Mapping[str, Any]], theirs: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    if set(rows) != set(theirs):
        yield f"offsets {sorted(set(rows) ^ set(theirs))[:5]}"
    for number, row in rows.items():
        other = theirs.get(number, {})
        for name, value in row.items():
            if name != "ingest_attempt" and plain(value) != plain(other.get(name)):
                yield f"{name} at {number} is {value!r:.200}, and {other.get(name)!r:.200}"


def _by_pyiceberg(_: SparkSession, table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.refresh().scan().to_arrow().to_pylist()
    return found


def _by_duckdb(_: SparkSession, table: Table) -> list[dict[str, Any]]:
    import duckdb

    files = [urlparse(task.file.file_path).path for task in table.refresh().scan().plan_files()]
    if not files:
        return []
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute("SELECT * FROM read_parquet(?, union_by_name = true)", [files])
        rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return rows


def _by_spark(spark: SparkSession, table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = spark.table(f"lake.{'.'.join(table.name())}").toArrow().to_pylist()
    return rows
