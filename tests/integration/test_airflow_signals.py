"""Links, metrics and lineage of a run under the real supervisor, with Spark's page and OpenLineage's own listener."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pyarrow as pa
import pytest

from airflow_kafka_lake.links import PAGE, SNAPSHOT, SPARK
from airflow_kafka_lake.local.airflow import AirflowApiError
from airflow_kafka_lake.local.processes import free_ports
from tests.airflow_lanes import MANUAL, RUN_SECONDS, Lane, World, until, world_of
from tests.canaries import planted

pytestmark = [pytest.mark.timeout(600), pytest.mark.nightly]

LANE, ROWS = "seen", 400
HISTORY = "https://history.example.org:18480"


class Collector:
    """What arrives at a StatsD collector."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        while text := self._socket.recv(65536):
            self.lines += text.decode().splitlines()

    def close(self) -> None:
        """Let the thread end by a message without text."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def ours(self) -> dict[str, str]:
        """Return the newest value of each of our metrics, with its kind, by name and tags."""
        return dict(line.split(":", 1) for line in self.lines if line.startswith("airflow.kafka_lake."))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("signals")


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], folder: Path, collector: Collector) -> Iterator[World]:
    """An Airflow that sends metrics and lineage, a Spark with a page and an event log, a lake with pages; every secret
    setting of both connections is a canary."""
    home, events = folder / "lanes", folder / "events"
    events.mkdir()
    lake = {
        "format": "iceberg", "catalog": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse",
        "snapshot_url": "https://catalog.example.org/{table}/{snapshot}", **planted("lake"),
    }  # fmt: skip
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_ports(1)[0]),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        **planted("Spark"),
    }
    spark = {"conn_type": "spark", "host": "local[2]", "extra": {"history-server": HISTORY, "conf": conf}}
    transport = {"type": "file", "log_file_path": str(folder / "lineage.jsonl"), "append": True}
    further = {
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": lake}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_PORT": str(collector.port),
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
    }
    with world_of(folder, {LANE: 2}, further=further) as made:
        yield made


def links_of(world: World, run: str, task: str, index: int = -1) -> dict[str, str | None]:
    """Return a task's links, as Airflow's page asks for them."""
    path = f"/dags/{MANUAL}/dagRuns/{quote(run)}/taskInstances/{task}/links?map_index={index}"
    try:
        return dict(world.airflow.api("GET", path)["extra_links"])
    except AirflowApiError as error:
        if error.facts.get("status") == 404:  # the scheduler has not mapped the task yet
            return {}
        raise


def xcoms_of(world: World, run: str) -> list[dict[str, Any]]:
    """Return every XCom of a run with its value."""
    tasks = f"/dags/{MANUAL}/dagRuns/{quote(run)}/taskInstances"
    return [
        world.airflow.api("GET", f"{tasks}/{item['task_id']}/xcomEntries/{item['key']}?map_index={item['map_index']}")
        for item in world.airflow.api("GET", f"{tasks}/~/xcomEntries?limit=500")["xcom_entries"]
    ]


def watched(world: World, run: str) -> dict[str, int]:
    """Follow the link to Spark until the run has ended; return the status with which each address was answered."""
    found: dict[str, int] = {}

    def ended() -> bool:
        address = links_of(world, run, "kafka_lake.ingest", 0).get(SPARK.name)
        if address and address.startswith("http://") and address not in found:
            found[address] = httpx2.get(address, follow_redirects=True, trust_env=False).status_code
        return world.airflow.api("GET", f"/dags/{MANUAL}/dagRuns/{quote(run)}")["state"] in {"success", "failed"}

    until(ended, RUN_SECONDS)
    return found


def events_of(file: Path, job: str, kind: str) -> list[dict[str, Any]]:
    """Return the events of a job that OpenLineage's listener has written; it does so after the task's end."""

    def found() -> list[dict[str, Any]]:
        events = [json.loads(line) for line in file.read_text().splitlines() if line.strip()] if file.exists() else []
        return [event for event in events if event["job"]["name"] == job and event["eventType"] == kind]

    return until(found)


def test_run_is_seen_in_links_metrics_and_lineage_without_a_secret(
    world: World, folder: Path, collector: Collector
) -> None:
    """Spark's page opens from the task while Spark works; afterwards all that there is to see is linked, counted and
    named, and no canary is in any of it."""
    lane = world.lanes[LANE]
    lane.produce(ROWS)
    run = world.airflow.trigger(MANUAL, {"pipeline": LANE})
    opened = watched(world, run)
    assert world.end(MANUAL, run).state == "success"
    lane.assert_exact()
    ledger = lane.open_ledger()
    (wave,) = ledger.waves(LANE)
    (attempt,) = ledger.attempts(wave.id)
    ledger.close()

    assert list(opened.values()) == [200], opened
    application = _assert_links(world, run, wave.id, f"https://catalog.example.org/{lane.table}/{wave.snapshot}")
    log = world.log(run, "kafka_lake.ingest", 0)
    for name in (wave.id, attempt.attempt, str(wave.snapshot), application, f"{ROWS} rows"):
        assert name in next(line for line in log.splitlines() if f" is in {lane.table}, " in line)
    spark = "".join(pa.input_stream(file, compression="zstd").read().decode() for file in folder.rglob("*.zstd"))
    _assert_metrics(collector, lane)
    lineage = _assert_lineage(folder, world, wave.id, wave.snapshot, spark)

    xcoms = xcoms_of(world, run)
    assert SNAPSHOT.xcom_key in {item["key"] for item in xcoms}
    everything = [log, world.log(run, "kafka_lake.advance"), json.dumps(xcoms), *collector.lines, lineage, spark]
    assert [text[:300] for text in everything if "canary-" in text] == []


def _assert_links(world: World, run: str, wave: str, snapshot: str) -> str:
    """Every task leads to the page of its pipeline, which is there; returns the Spark application."""
    found = links_of(world, run, "kafka_lake.ingest", 0)
    page = f"{world.airflow.base_url}/kafka-lake/pipelines/{LANE}"
    history = str(found[SPARK.name])
    application = history.removeprefix(f"{HISTORY}/history/").rstrip("/")
    assert found == {
        PAGE.name: f"{page}/waves/{wave}",
        SPARK.name: f"{HISTORY}/history/{application}/",
        SNAPSHOT.name: snapshot,
    }
    for task in ("plan", "advance", "finish"):
        assert links_of(world, run, f"kafka_lake.{task}") == {PAGE.name: page}
    token = httpx2.post(
        f"{world.airflow.base_url}/auth/token",
        json={"username": world.airflow.user, "password": world.airflow.password()},
        trust_env=False,
    ).json()["access_token"]
    for address in (page, str(found[PAGE.name])):
        answer = httpx2.get(address, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        assert answer.status_code == 200
    return application


def _assert_metrics(collector: Collector, lane: Lane) -> None:
    """Rows, outcomes, lags and times, by pipeline and topic."""
    found = until(
        lambda: found if f"airflow.kafka_lake.observed.seconds,pipeline={LANE}" in (found := collector.ours()) else None
    )
    here = f"pipeline={LANE}"
    assert found[f"airflow.kafka_lake.rows,{here},topic={lane.topic}"] == f"{ROWS}|c"
    assert found[f"airflow.kafka_lake.waves,{here},outcome=committed"] == "1|c"
    assert found[f"airflow.kafka_lake.lag.records,{here},topic={lane.topic}"] == "0|g"
    assert found[f"airflow.kafka_lake.holds,{here}"] == "0|g"
    for step in ("read", "audit", "publish"):
        assert found[f"airflow.kafka_lake.step.duration,{here},step={step}"].endswith("|ms")


def _assert_lineage(folder: Path, world: World, wave: str, snapshot: int | None, spark: str) -> str:
    """The listener has sent topic and table, and Spark names the very run of that event as its parent."""
    job = f"{MANUAL}.kafka_lake.ingest"
    (event,) = events_of(folder / "lineage.jsonl", job, "COMPLETE")
    ((topic,), (table,)) = event["inputs"], event["outputs"]
    assert (topic["namespace"], topic["name"]) == (f"kafka://{world.kafka.bootstrap}", LANE)
    assert topic["inputFacets"]["kafkaLake_offsets"]["offsets"] == ROWS
    assert (table["namespace"], table["name"]) == ("file", f"{folder}/lanes/warehouse/raw/{LANE}")
    assert table["facets"]["version"]["datasetVersion"] == str(snapshot)
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == ROWS
    assert event["run"]["facets"]["kafkaLake_wave"]["wave"] == wave
    settings = next(json.loads(line) for line in spark.splitlines() if "SparkListenerEnvironmentUpdate" in line)
    assert settings["Spark Properties"]["spark.openlineage.parentRunId"] == event["run"]["runId"]
    assert settings["Spark Properties"]["spark.openlineage.parentJobName"] == job
    return (folder / "lineage.jsonl").read_text()
