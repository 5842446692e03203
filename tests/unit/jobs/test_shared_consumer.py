"""What a task's consumer is told, and when Spark's own Kafka source reads instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs import shared_consumer
from airflow_kafka_lake.jobs.shared_consumer import (
    CLASS,
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


@pytest.mark.parametrize("fails", [False, True])
def test_class_is_compiled_once_also_where_that_began_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """While Spark starts; what fails then is tried again when a job needs it."""
    compiled: list[object] = []

    def cooked(jvm: object, _: str) -> Any:
        compiled.append(jvm)
        if fails and len(compiled) == 1:
            raise RuntimeError("Java is not ready")
        loader = SimpleNamespace(loadClass=lambda name: name)
        return SimpleNamespace(getBytecodes=lambda: {CLASS: b"code"}, getClassLoader=lambda: loader)

    monkeypatch.setattr(shared_consumer, "_cooked", cooked)
    monkeypatch.setattr(shared_consumer, "_compiled", {})
    monkeypatch.setattr(shared_consumer, "_early", [])
    java = SimpleNamespace(addJar=lambda _: None)
    context = SimpleNamespace(applicationId="app-1", _jsc=java, _temp_dir=str(tmp_path))
    spark: Any = SimpleNamespace(_jvm="jvm", sparkContext=context)
    shared_consumer.compile_early("jvm")
    assert [shared_consumer._class_of(spark) for _ in range(2)] == [CLASS, CLASS]
    assert compiled == ["jvm"] * (2 if fails else 1)


def test_both_readers_count_and_sleep_alike() -> None:
    """What a record costs does not depend on who reads it: the Java text has the numbers of the SQL."""
    text = shared_consumer.source()
    for line in (
        f"long OVERHEAD_BYTES = {OVERHEAD_BYTES};",
        f"long SHORTEST_SLEEP_MS = {SHORTEST_SLEEP_MS};",
        f"long LONGEST_NANOS = {LONGEST_SLEEP_MS} * NANOS_PER_MS;",
    ):
        assert line in text
