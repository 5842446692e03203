"""What a task's consumer is told, and when Spark's own Kafka source reads instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.lake.staging import StageJob
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.shared_consumer import PER_POLL, SETTING, WIDTH, consumer_settings
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
    """Addresses, logins and waits."""
    found = consumer_settings(JOB, [JOB.slices], {"bootstrap.servers": "b:1", "sasl.jaas.config": SECRET})
    assert (found["bootstrap.servers"], found["sasl.jaas.config"]) == ("b:1", SECRET)


@pytest.mark.parametrize("slices", [1, 8, 9, 10_000])
def test_what_is_fetched_ahead_is_bounded(slices: int) -> None:
    """However many partitions a task has, and however much lies behind its slices."""
    task = [Slice(Stream("orders", "AAAA", number), OffsetRange(0, 10)) for number in range(slices)]
    given = {"fetch.max.bytes": str(2**30), "max.partition.fetch.bytes": str(2**30), "max.poll.records": "50000"}
    found = consumer_settings(JOB, [task], given)
    ahead = min(slices, WIDTH) * int(found["max.partition.fetch.bytes"])
    assert ahead + int(found["fetch.max.bytes"]) <= 48 * 1024 * 1024
    assert found["max.poll.records"] == str(PER_POLL)


def test_smaller_bounds_of_the_connection_are_kept() -> None:
    """A careful audit polls few records, and a connection may spare a slow network."""
    given = {"fetch.max.bytes": "70000", "max.partition.fetch.bytes": "60000", "max.poll.records": "20"}
    assert given.items() <= consumer_settings(JOB, [JOB.slices], given).items()


def test_jobs_that_count_their_polls_are_read_slice_by_slice() -> None:
    """After a failure no poll may reach behind a slice, and a rate is kept by what one partition gives."""
    assert is_shared(JOB)
    assert not is_shared(replace(JOB, singly=JOB.slices))
    assert not is_shared(replace(JOB, rate=1_000_000))
    assert not is_shared(replace(JOB, slices=()))


def test_session_without_java_is_read_by_sparks_source(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so, without the text of the error; and none where a setting asks for it."""
    assert _shared(WithoutJava(), JOB, {"sasl.jaas.config": SECRET}) is None
    assert capsys.readouterr().err == ("Spark's Kafka source reads, with a consumer for each range: AttributeError\n")
    assert _shared(WithoutJava(**{SETTING: "false"}), JOB, {}) is None
    assert capsys.readouterr().err == ""
