"""Spark and PyIceberg on one catalog: what one writes the other reads, and publishing keeps its promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.adapters.iceberg import commit
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake, IcebergTable
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Committed, TableHead
from airflow_kafka_lake.core.offsets import RangeSet
from tests import warm
from tests.contracts.lake_worlds import LEDGER, TOPIC_ID, attempt_id, record, token


class Spark:
    """The warm Spark, with the connection's own settings."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings.spark()

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        code, said = warm.spark_sql(self._settings, [text])
        assert code == 0, said
        rows: list[dict[str, Any]] = json.loads(said)
        return rows

    def stage(self, table: str, attempt: str, first: int, end: int) -> None:
        """Stage offsets `[first, end)` of partition 0."""
        select = f"""
            SELECT CAST('key' AS BINARY) AS key, CAST(NULL AS BINARY) AS value,
                   array(named_struct('key', 'trace', 'value', CAST('1' AS BINARY))) AS headers,
                   'orders' AS kafka_topic, '{TOPIC_ID}' AS kafka_topic_id,
                   0 AS kafka_partition, id AS kafka_offset,
                   timestamp_millis(1700000000123 + id) AS kafka_timestamp, 0 AS kafka_timestamp_type,
                   CAST(NULL AS BIGINT) AS kafka_timestamp_raw,
                   '{attempt}' AS ingest_attempt
            FROM range({first}, {end}, 1, 1)"""
        code, said = warm.spark_append(self._settings, f"lake.{table}", attempt, select)
        assert code == 0, said


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> LakeSettings:
    """One SQLite catalog for both engines."""
    folder = tmp_path_factory.mktemp("lake")
    extra = {"catalog": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return LakeSettings.parse("lake_default", extra)


@pytest.fixture(scope="module")
def spark(settings: LakeSettings, spark_jars: list[Path]) -> Spark:
    """A real Spark with the connection's own settings."""
    return Spark(settings)


@pytest.fixture
def lake(settings: LakeSettings) -> Iterator[IcebergLake]:
    """The lake as a worker opens it."""
    opened = IcebergLake(settings)
    yield opened
    opened.close()


def owned(lake: IcebergLake, name: str, partition_by: str = "") -> IcebergTable:
    """Return a new table that is ready for attempts."""
    table = lake.table(name)
    table.ensure(partition_by)
    table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    return table


def publish(table: IcebergTable, attempt: str) -> TableHead:
    """Publish what an attempt has staged; return the head it was published on."""
    staged, head = table.staged(attempt), table.head()
    assert staged is not None
    publication = Publication(head=head, audited=staged.snapshot, token=token(attempt), ledger_id=LEDGER)
    assert isinstance(table.publish(publication), Committed)
    return head


@pytest.mark.parametrize(
    "partition_by", [pytest.param("", marks=pytest.mark.nightly), "days(kafka_timestamp), bucket(4, key)"]
)
def test_staged_by_spark_is_published_and_read_by_spark(
    spark: Spark, lake: IcebergLake, tmp_path: Path, partition_by: str
) -> None:
    """Rows come through with their time to the millisecond; before the publish Spark's main shows none of them."""
    name = f"raw.t{attempt_id()}"
    table, attempt = owned(lake, name, partition_by), attempt_id()
    spark.stage(name, attempt, 10, 20)
    staged = table.staged(attempt)
    assert staged is not None
    assert [(content.offsets, content.duplicates) for content in staged.streams] == [(RangeSet.of((10, 20)), 0)]
    assert spark.sql(f"SELECT count(*) AS n FROM lake.{name}") == [{"n": 0}]
    publish(table, attempt)
    (row,) = spark.sql(
        f"SELECT count(*) AS n, CAST(min(kafka_timestamp) AS STRING) AS first, count(value) AS bodies FROM lake.{name}"
    )
    assert row == {"n": 10, "first": "2023-11-14 22:13:20.133", "bodies": 0}
    assert spark.sql(f"SELECT name FROM lake.{name}.refs") == [{"name": "main"}]


def test_spark_job_without_rows_is_finished(spark: Spark, lake: IcebergLake) -> None:
    """Spark commits a snapshot also for no rows, which tells a finished job from one that died."""
    name = f"raw.t{attempt_id()}"
    table, attempt = owned(lake, name), attempt_id()
    spark.stage(name, attempt, 0, 0)
    staged = table.staged(attempt)
    assert staged is not None
    assert staged.streams == ()
    publish(table, attempt)


def test_branch_on_a_table_without_commits_is_unfinished(spark: Spark, lake: IcebergLake) -> None:
    """Creating a branch of an empty table commits an empty snapshot, which is no result."""
    name = f"raw.t{attempt_id()}"
    table, attempt = lake.table(name), attempt_id()
    table.ensure("")
    spark.sql(f"ALTER TABLE lake.{name} CREATE BRANCH kafka_lake_{attempt} RETAIN 7 DAYS")
    assert table.staged(attempt) is None
    assert table.head().snapshot is None


@pytest.mark.nightly  # by day: a rebuild after Spark's expiry (test_rebuild.py)
def test_files_survive_real_expiry_and_the_rows_testify(spark: Spark, lake: IcebergLake) -> None:
    """Spark's expiry deletes no staged and no published file, and deletes a dropped attempt's."""
    name = f"raw.t{attempt_id()}"
    table, attempt, dropped = owned(lake, name), attempt_id(), attempt_id()
    expire = (
        f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )
    spark.stage(name, attempt, 0, 5)
    spark.stage(name, dropped, 5, 9)
    table.fence(table.head(), LEDGER, token(attempt_id(), kind="fence"))
    assert spark.sql(expire)[0]["deleted_data_files_count"] == 0
    base = publish(table, attempt)
    table.drop(dropped)
    assert spark.sql(expire)[0]["deleted_data_files_count"] == 1
    assert spark.sql(f"SELECT count(*) AS n FROM lake.{name}") == [{"n": 5}]
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    spark.sql(expire)
    assert [holding.offsets for holding in table.attempt_rows([TOPIC_ID])] == [RangeSet.of((0, 5))]
    found = table.find_commit([record(attempt, base)])
    assert (type(found).__name__, getattr(found, "snapshot", 0)) == ("Found", None)


@pytest.mark.nightly  # by day: a run and an audit go on after Spark's DELETE and expiry (test_rebuild.py)
def test_rows_that_spark_deletes_are_no_rollback(spark: Spark, lake: IcebergLake) -> None:
    """Main stands on the publish; the history says how many rows went, and by which engine."""
    name = f"raw.t{attempt_id()}"
    table, attempt = owned(lake, name), attempt_id()
    spark.stage(name, attempt, 0, 10)
    publish(table, attempt)
    spark.sql(f"DELETE FROM lake.{name} WHERE kafka_offset < 3")
    (last,) = (commit for commit in table.commits() if commit.deleted)
    assert (last.deleted, last.token, (last.engine or "")[:6]) == (3, None, "spark ")
    spark.sql(f"DELETE FROM lake.{name}")
    assert [commit.deleted for commit in table.commits() if commit.deleted] == [3, 7]
    assert table.head().lost((LEDGER, "orders")) is None
    spark.sql(f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2999-01-01')")
    assert table.head().lost((LEDGER, "orders")) is None


def test_slow_clock_leaves_metadata_that_spark_reads(spark: Spark, settings: LakeSettings, lake: IcebergLake) -> None:
    """A publisher hours behind writes history that Java accepts."""
    name = f"raw.t{attempt_id()}"
    table, attempt = owned(lake, name), attempt_id()
    spark.stage(name, attempt, 0, 3)
    slow = IcebergLake(settings, now_ms=lambda: 1)
    publish(slow.table(name), attempt)
    slow.close()
    assert spark.sql(f"SELECT count(*) AS n FROM lake.{name}") == [{"n": 3}]
    assert table.head().last


@pytest.mark.nightly  # by day: Spark compacts and reads what was published (test_reopen.py, test_rebuild.py)
def test_spark_reads_deletes_and_compacts_what_was_merged(
    spark: Spark, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests that a publish has merged are Spark's too; a job that leaves dangling deletes out only appends."""
    monkeypatch.setattr(commit, "MOST_SMALL", 2)
    name = f"raw.t{attempt_id()}"
    table = owned(lake, name)
    for first in (0, 3, 6, 9):
        attempt = attempt_id()
        spark.stage(name, attempt, first, first + 3)
        publish(table, attempt)
    assert spark.sql(f"SELECT count(*) AS n FROM lake.{name}.manifests")[0]["n"] <= 2
    spark.sql(f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql(f"DELETE FROM lake.{name} WHERE kafka_offset IN (1, 7)")
    assert [str(holding.offsets) for holding in table.attempt_rows()] == ["0-1, 2-3", "3-6", "6-7, 8-9", "9-12"]
    options = "map('rewrite-all', 'true', 'target-file-size-bytes', '1073741824')"
    for _ in range(2):
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => {options})")
        attempt = attempt_id()
        spark.stage(name, attempt, 12, 13)
        publish(table, attempt)
        spark.sql(f"DELETE FROM lake.{name} WHERE kafka_offset = 12")
    assert spark.sql(f"SELECT count(*) AS n FROM lake.{name}") == [{"n": 10}]
    assert sum(holding.offsets.span for holding in table.attempt_rows()) == 10
