"""What the staging job asks of Spark, decided without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import CAREFUL_POLL, StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.driver import run
from airflow_kafka_lake.jobs.formats import COMMIT_TRIES, create_branch, repeated, table_name
from airflow_kafka_lake.jobs.stage import (
    branch_name,
    columns,
    reads,
    source_options,
    work,
)

pytestmark = pytest.mark.unit


def slice_(partition: int, start: int, end: int, topic: str = "orders", topic_id: str = "AAAA-_+/=") -> Slice:
    return Slice(Stream(topic, topic_id, partition), OffsetRange(start, end))


def job(*slices: Slice, tasks: int = 1, limit: int | None = None) -> StageJob:
    return StageJob(
        pipeline="orders",
        wave="w1",
        attempt="00112233aabbccdd",
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=slices,
        tasks=tasks,
        max_records_per_partition=limit,
    )


def test_offsets_are_explicit_at_both_ends() -> None:
    """A read names every partition's start and end as numbers, and nothing decides for a missing offset."""
    work = job(slice_(0, 5, 9), slice_(3, 0, 7), slice_(0, 1, 2, topic="other"))
    options = source_options(work, work.slices, {})
    assert json.loads(options["assign"]) == {"orders": [0, 3], "other": [0]}
    assert json.loads(options["startingOffsets"]) == {"orders": {"0": 5, "3": 0}, "other": {"0": 1}}
    assert json.loads(options["endingOffsets"]) == {"orders": {"0": 9, "3": 7}, "other": {"0": 2}}
    assert options["failOnDataLoss"] == "true"
    assert options["includeHeaders"] == "true"


def test_isolation_of_the_job_wins_over_a_client_setting() -> None:
    """The plan, the job and the audit use one isolation, whatever the connection says."""
    work = job(slice_(0, 0, 1))
    assert source_options(work, work.slices, {"isolation.level": "read_uncommitted"})["kafka.isolation.level"] == (
        "read_committed"
    )


def test_client_settings_win_over_the_fast_ones() -> None:
    """The connection's settings get Spark's prefix and replace our defaults."""
    work = job(slice_(0, 0, 1))
    options = source_options(work, work.slices, {"bootstrap.servers": "b:1", "fetch.max.wait.ms": "100"})
    assert options["kafka.bootstrap.servers"] == "b:1"
    assert options["kafka.fetch.max.wait.ms"] == "100"
    assert options["kafka.receive.buffer.bytes"] == "-1"
    assert int(source_options(work, work.slices, {})["kafka.fetch.max.wait.ms"]) < 500, "Kafka's own default"


@pytest.mark.parametrize(("span", "tasks", "per_poll"), [(10, 1, 500), (160_000, 1, 10_000), (10**9, 2, 50_000)])
def test_polls_grow_with_the_records_of_a_task(span: int, tasks: int, per_poll: int) -> None:
    """Tasks are alike in bytes, so a task of many records has light ones, and a poll may take more of them."""
    work = job(slice_(0, 0, span), tasks=tasks)
    assert source_options(work, work.slices, {})["kafka.max.poll.records"] == str(per_poll)


def test_pieces_of_heavy_slices_are_not_gathered_with_light_ones() -> None:
    """What is split stays apart from what is gathered, and the light ones fill tasks of the same weight."""
    heavy, light = slice_(0, 0, 1000), [slice_(partition, 0, 10) for partition in range(1, 51)]
    split, gathered = reads(job(heavy, *light, tasks=15, limit=100))
    assert (split.slices, split.split, split.tasks) == ((heavy,), 100, None)
    assert (gathered.slices, gathered.split, gathered.tasks) == (tuple(light), None, 5)


def test_few_light_slices_are_left_alone() -> None:
    """Fewer input partitions than tasks are not gathered."""
    (read,) = reads(job(slice_(0, 0, 10), slice_(1, 0, 10), tasks=2))
    assert (read.split, read.tasks) == (None, None)


def test_many_small_slices_are_gathered_into_the_tasks_of_the_job() -> None:
    """Without a split, as many tasks write as the job says."""
    (read,) = reads(job(*(slice_(partition, 0, 10) for partition in range(50)), tasks=3))
    assert read.tasks == 3


def test_topic_ids_come_from_a_literal_map() -> None:
    """A row's topic id is the planned one of its topic."""
    selected = columns(job(slice_(0, 0, 1, topic="a", topic_id="A1"), slice_(0, 0, 1, topic="b", topic_id="B1")))
    assert "map('a', 'A1', 'b', 'B1')[topic] AS kafka_topic_id" in selected
    assert "'00112233aabbccdd' AS ingest_attempt" in selected


def test_two_ids_of_one_topic_are_refused() -> None:
    """One name can be read in one generation only."""
    with pytest.raises(RefusedError, match="two ids"):
        columns(job(slice_(0, 0, 1, topic_id="A1"), slice_(1, 0, 1, topic_id="A2")))


def test_identifiers_are_quoted() -> None:
    """Table and branch are single identifiers, whatever words SQL reserves."""
    assert table_name(replace(job(), table="raw.select")) == "`lake`.`raw`.`select`"
    said: list[str] = []
    spark: Any = SimpleNamespace(sql=said.append, conf={})  # as Spark Connect, without a Java of its own
    create_branch(spark, job(), branch_name(job()), days=30)
    assert said == ["ALTER TABLE `lake`.`raw`.`orders` CREATE BRANCH `kafka_lake_00112233aabbccdd` RETAIN 30 DAYS"]


@pytest.mark.parametrize("table", ["orders", "raw.", "raw.a`b", "raw.a b", "raw.a;drop"])
def test_illegal_tables_are_refused(table: str) -> None:
    """Nothing reaches SQL that is not a legal name."""
    with pytest.raises(RefusedError):
        table_name(replace(job(), table=table))


@pytest.mark.parametrize("attempt", ["", "0011", "00112233AABBCCDD", "00112233aabbccd'"])
def test_illegal_attempt_ids_are_refused(attempt: str) -> None:
    """An attempt id is 16 hex digits."""
    broken = replace(job(slice_(0, 0, 1)), attempt=attempt)
    with pytest.raises(RefusedError):
        branch_name(broken)
    with pytest.raises(RefusedError):
        columns(broken)


@pytest.mark.parametrize(("topic", "topic_id"), [("or'ders", "A1"), ("orders", "A'1"), ("orders", "")])
def test_illegal_topics_are_refused(topic: str, topic_id: str) -> None:
    """A topic's name and id go into SQL text only when they look like ones."""
    with pytest.raises(RefusedError):
        columns(job(slice_(0, 0, 1, topic=topic, topic_id=topic_id)))


def test_the_job_takes_exactly_one_argument() -> None:
    """The command line holds a path and nothing else."""
    with pytest.raises(ValueError, match="not enough values"):
        run([], work)


def test_importing_the_job_imports_no_spark() -> None:
    """The worker reads names from the job's module without paying for PySpark."""
    code = "import sys, airflow_kafka_lake.jobs.stage; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Statement:
    """Fails some times with a message of Java's, then succeeds."""

    def __init__(self, said: str, times: int) -> None:
        self.said, self.left, self.calls = said, times, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise RuntimeError(self.said)


LOST_RACE = "An error occurred while calling o51.sql.\n: org.apache.iceberg.exceptions.CommitFailedException: Table"


def test_a_statement_that_lost_a_race_is_run_again() -> None:
    """Another writer's commit to the table costs a pause, not the job."""
    statement, pauses = Statement(LOST_RACE, 3), list[float]()
    repeated(statement, pauses.append)
    assert (statement.calls, len(pauses)) == (4, 3)


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        (LOST_RACE, COMMIT_TRIES),
        ("org.apache.iceberg.exceptions.CommitStateUnknownException: who knows", 1),
        ("java.lang.IllegalArgumentException: Ref kafka_lake_00112233aabbccdd already exists", 1),
    ],
)
def test_other_errors_and_endless_races_pass_on(said: str, calls: int) -> None:
    """What may have been done, and what repeating cannot help, is never repeated."""
    statement = Statement(said, 99)
    with pytest.raises(RuntimeError):
        repeated(statement, lambda _: None)
    assert statement.calls == calls


def test_polls_are_small_where_ends_are_read_singly() -> None:
    """A poll before an end takes no more records than the end has, and nothing is split or gathered."""
    work = replace(job(slice_(0, 0, 999_500), limit=1000), singly=(slice_(0, 999_500, 1_000_000), slice_(1, 5, 8)))
    bodies, ends = reads(work)
    assert (bodies.slices, bodies.per_poll) == (work.slices, CAREFUL_POLL)
    assert (ends.slices, ends.per_poll) == (work.singly, 1)
    assert (bodies.split, ends.split) == (None, None)
    (ends,) = reads(replace(work, slices=()))
    assert ends.slices == work.singly


def test_topics_that_are_read_in_any_way_have_their_ids() -> None:
    """What is read singly, or by the driver, is a row like the others."""
    work = replace(
        job(slice_(0, 0, 1, topic="a", topic_id="A1")),
        singly=(slice_(0, 0, 1, topic="b", topic_id="B1"),),
        overflowing=(slice_(0, 0, 1, topic="c", topic_id="C1"),),
    )
    assert "map('a', 'A1', 'b', 'B1', 'c', 'C1')[topic] AS kafka_topic_id" in columns(work)
