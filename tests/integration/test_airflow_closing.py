"""A Dag that runs for each hour that is complete in the lake, once: the real supervisor, a real broker, real jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_kafka_lake.assets import closed_periods, late_records
from tests.airflow_lanes import Lane, World, until, world_of

HOUR = timedelta(hours=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
FIRST = NOW - 3 * HOUR
STORY_SECONDS = 900
DAGS = f"""
from datetime import datetime

from airflow.sdk import DAG, PartitionedAssetTimetable, task
from airflow_kafka_lake.assets import closed_periods, late_records
from airflow_kafka_lake.task_groups import kafka_lake_ingest

with DAG("ingest", schedule=None):
    kafka_lake_ingest(
        pipeline="closing", closes="hour", advance_args={{"since": datetime.fromisoformat("{FIRST.isoformat()}")}}
    )

closed, late = closed_periods("closing"), late_records("closing")
for name, assets in (("hourly", closed), ("again", closed | late)):
    with DAG(name, schedule=PartitionedAssetTimetable(assets=assets), catchup=False):

        @task
        def work(dag_run=None):
            return dag_run.partition_key

        work()
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow and one broker, a Dag that closes hours, one that runs for each, and one that runs again."""
    with world_of(tmp_path_factory.mktemp("world"), {"closing": 2}, {"closing.py": DAGS}) as made:
        for dag in ("ingest", "hourly", "again"):
            made.airflow.unpause(dag)
        yield made


def key(hour: int) -> str:
    """Return the key of an hour, counted from the first."""
    return (FIRST + hour * HOUR).strftime("%Y-%m-%dT%H")


def send(producer: Producer, partition: int, hour: float) -> None:
    """Send a record of a time, and wait until it is written."""
    stamp = int((FIRST + hour * HOUR).timestamp() * 1000)
    producer.produce("closing", b"v", partition=partition, timestamp=stamp)
    assert producer.flush(60) == 0


def keys(world: World, dag: str) -> list[str]:
    """Return the partition keys of all runs of a Dag, once none of them goes on."""

    def ended() -> list[dict[str, Any]] | None:
        runs = world.airflow.api("GET", f"/dags/{dag}/dagRuns?limit=100")["dag_runs"]
        return None if any(run["state"] in {"queued", "running"} for run in runs) else [*runs, {}]

    found = until(ended, STORY_SECONDS)[:-1]
    assert all(run["state"] == "success" for run in found), found
    return sorted(run["partition_key"] for run in found)


def closes(world: World, lane: Lane) -> tuple[list[str], dict[str, int]]:
    """Bring all that is there into the lake; return the hours that were closed, and the late records."""
    ran = world.run("ingest", None, STORY_SECONDS)
    assert ran.state == "success", ran.tasks
    told = world.returned("ingest", ran.id, "kafka_lake.advance")
    assert told["pipeline"] == lane.name
    return told["closed"], told["late"]


def test_dag_runs_once_for_each_hour_that_is_complete(world: World) -> None:
    """Behind an open transaction none is, in a quiet partition all that are over are; a late record closes none, and
    lets a Dag that listens to it too run again for its hour."""
    lane = world.lanes["closing"]
    plain = Producer({"bootstrap.servers": lane.bootstrap})
    hanging = Producer(
        {"bootstrap.servers": lane.bootstrap, "transactional.id": "t", "transaction.timeout.ms": 900_000}
    )
    send(plain, 0, 0.2)
    send(plain, 1, 0.4)
    hanging.init_transactions(60)
    hanging.begin_transaction()
    send(hanging, 0, 1.1)

    assert closes(world, lane) == ([key(0)], {})
    until(lambda: keys(world, "hourly") == [key(0)], STORY_SECONDS)
    assert closes(world, lane) == ([], {}), "the transaction is open"

    hanging.commit_transaction(60)
    send(plain, 1, 0.6)
    closed, late = closes(world, lane)
    assert closed[:2] == [key(1), key(2)]
    assert late == {key(0): 1}
    more, late = closes(world, lane)
    assert late == {}, "it was told"
    every = [key(0), *closed, *more]
    until(lambda: keys(world, "hourly") == every, STORY_SECONDS)
    until(lambda: keys(world, "again") == [key(0), *every], STORY_SECONDS)
    assert keys(world, "hourly") == every

    events = world.airflow.api("GET", "/assets/events?limit=100")["asset_events"]
    told = {asset.uri: [] for asset in (closed_periods("closing"), late_records("closing"))}
    for event in events:
        told.get(event["uri"], []).append(event["partition_key"])
    assert {uri: sorted(found) for uri, found in told.items()} == {
        closed_periods("closing").uri: every,
        late_records("closing").uri: [key(0)],
    }
