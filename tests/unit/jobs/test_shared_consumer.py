"""What a task's consumer is told, and when Spark's own Kafka source reads instead."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import RefusedError
from airflow_kafka_lake.core.kafka.batches import EARLIEST_MS, LATEST_MS
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.shared_consumer import (
    LEAST_FETCH,
    LONGEST_SLEEP_MS,
    OVERHEAD_BYTES,
    PER_POLL,
    SETTING,
    SHORTEST_SLEEP_MS,
    WIDTH,
    Pace,
    consumer_settings,
)
from airflow_kafka_lake.jobs.stage import _shared, is_shared
from tests.consumer_jar import JAVA, SOURCE, SOURCES, TARGET, built

pytestmark = pytest.mark.unit

SECRET = "canary-of-a-setting"
JOB = StageJob(
    pipeline="orders",
    wave="w1",
    attempt="00112233aabbccdd",
    table="raw.orders",
    isolation=Isolation.READ_UNCOMMITTED,
    slices=(Slice(Stream("orders", "AAAA", 0), OffsetRange(0, 10)),),
    tasks=1,
    max_records_per_partition=None,
)


class WithoutJava:
    """A session as Spark Connect has it."""

    def __init__(self, **conf: str) -> None:
        self.conf = conf

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} with {SECRET}")


def test_settings_that_decide_about_records_are_the_jobs() -> None:
    """Whatever the connection says: isolation, no default for a missing offset, no group, no topic that is created."""
    given = {
        "isolation.level": "read_committed",
        "auto.offset.reset": "latest",
        "enable.auto.commit": "true",
        "allow.auto.create.topics": "true",
        "group.id": "g",
    }
    found = consumer_settings(JOB, [JOB.slices], given)
    assert found["isolation.level"] == "read_uncommitted"
    assert found["auto.offset.reset"] == "none"
    assert (found["enable.auto.commit"], found["allow.auto.create.topics"]) == ("false", "false")
    assert "group.id" not in found


def test_settings_of_the_connection_are_kept() -> None:
    """Addresses, logins and waits, and the rack whose replicas are nearest."""
    given = {"bootstrap.servers": "b:1", "sasl.jaas.config": SECRET, "client.rack": "a"}
    assert given.items() <= consumer_settings(JOB, [JOB.slices], given).items()


@pytest.mark.parametrize("slices", [1, 8, 9, 10_000])
def test_what_is_fetched_ahead_is_bounded(slices: int) -> None:
    """However many partitions a task has, however much lies behind its slices, and whatever the connection says."""
    task = [Slice(Stream("orders", "AAAA", number), OffsetRange(0, 10)) for number in range(slices)]
    given = {"fetch.max.bytes": str(2**30), "max.partition.fetch.bytes": str(2**30), "max.poll.records": "50000"}
    found = consumer_settings(JOB, [task], given)
    ahead = min(slices, WIDTH) * int(found["max.partition.fetch.bytes"])
    assert ahead + int(found["fetch.max.bytes"]) <= 48 * 1024 * 1024
    assert int(found["max.poll.records"]) <= PER_POLL


@pytest.mark.parametrize(("records", "tasks", "polled"), [(1_000_000, 2, 500), (1_600, 10, 10), (10, 1, 1)])
def test_a_poll_unpacks_a_part_of_what_a_task_weighs(records: int, tasks: int, polled: int) -> None:
    """Tasks are alike in bytes, so few records mean heavy ones, which a batch may have packed into very little."""
    job = replace(JOB, slices=(Slice(JOB.slices[0].stream, OffsetRange(0, records)),), tasks=tasks)
    assert consumer_settings(job, [job.slices], {})["max.poll.records"] == str(polled)


@pytest.mark.parametrize(("slices", "rate"), [(1, 1_000_000), (8, 250_000), (10_000, 250_000), (10_000, 10_000_000)])
def test_a_paced_consumer_reads_ahead_by_about_a_second(slices: int, rate: int) -> None:
    """Of all its partitions together, or the least that a fetch brings of each; never more than without a rate."""
    task = [Slice(Stream("orders", "AAAA", number), OffsetRange(0, 10)) for number in range(slices)]
    found, unpaced = consumer_settings(JOB, [task], {}, rate), consumer_settings(JOB, [task], {})
    width, each = min(slices, WIDTH), int(found["max.partition.fetch.bytes"])
    assert width * each <= max(rate, width * LEAST_FETCH)
    assert int(found["fetch.max.bytes"]) <= max(rate, LEAST_FETCH)
    assert all(int(found[key]) <= int(unpaced[key]) for key in ("max.partition.fetch.bytes", "fetch.max.bytes"))


def test_smaller_bounds_of_the_connection_are_kept() -> None:
    """A careful audit polls few records, and a connection may spare a slow network."""
    given = {"fetch.max.bytes": "70000", "max.partition.fetch.bytes": "60000", "max.poll.records": "20"}
    job = replace(JOB, slices=(Slice(JOB.slices[0].stream, OffsetRange(0, 10_000)),))
    assert given.items() <= consumer_settings(job, [job.slices], given).items()


def test_jobs_that_count_their_polls_are_read_slice_by_slice() -> None:
    """After a failure no poll may reach behind a slice; a rate is kept by a shared consumer too."""
    assert is_shared(JOB)
    assert is_shared(replace(JOB, rate=1_000_000))
    assert not is_shared(replace(JOB, singly=JOB.slices))
    assert not is_shared(replace(JOB, slices=()))


def test_session_without_java_is_read_by_sparks_source(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so, without the text of the error; and none where a setting asks for it."""
    assert _shared(WithoutJava(), JOB, {"sasl.jaas.config": SECRET}, None) is None
    assert capsys.readouterr().err == ("Spark's Kafka source reads, with a consumer for each range: AttributeError\n")
    assert _shared(WithoutJava(**{SETTING: "false"}), JOB, {}, Pace(tasks=1, rate=1)) is None
    assert capsys.readouterr().err == ""


def test_topic_of_two_ids_is_refused_before_anything_reads() -> None:
    """A row has the id of its topic, and a shared consumer knows a topic by its name."""
    other = Slice(Stream("orders", "BBBB", 1), OffsetRange(0, 10))
    with pytest.raises(RefusedError, match="two ids"):
        _shared(WithoutJava(), replace(JOB, slices=(*JOB.slices, other)), {}, None)


def test_jar_is_built_of_the_sources_beside_it() -> None:
    """It carries the texts that it was compiled of."""
    with zipfile.ZipFile(TARGET) as jar:
        for source in SOURCES:
            assert jar.read(f"airflow_kafka_lake/{source.name}") == source.read_bytes(), "run: make jar"


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("javac") is None, reason="no javac in PATH")
def test_jar_is_what_its_sources_compile_to(spark_jars: list[Path]) -> None:
    """Whoever builds it anew, with the compiler of the oldest Java that Spark runs on, has the same bytes."""
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    if not (said.stdout + said.stderr).startswith(f"javac {JAVA}."):
        pytest.skip(f"javac is not that of Java {JAVA}")
    assert TARGET.read_bytes() == built(), "run: make jar"


def test_both_readers_count_sleep_and_hold_alike() -> None:
    """What a record costs, and whether its time is kept as one, does not depend on who reads it: the Java text has the
    numbers of the SQL."""
    text = SOURCE.read_text(encoding="utf-8")
    for line in (
        f"long OVERHEAD_BYTES = {OVERHEAD_BYTES};",
        f"long SHORTEST_SLEEP_MS = {SHORTEST_SLEEP_MS};",
        f"long LONGEST_NANOS = {LONGEST_SLEEP_MS} * NANOS_PER_MS;",
        f"long EARLIEST_MS = {EARLIEST_MS}L;",
        f"long LATEST_MS = {LATEST_MS}L;",
    ):
        assert line in text
