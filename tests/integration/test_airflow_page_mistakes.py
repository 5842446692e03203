"""What Airflow's page shows of a newcomer's mistakes and of accidents, in a real browser, under the real supervisor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from airflow_kafka_lake.local.airflow import AirflowApiError
from tests.airflow_lanes import MANUAL, World, drivers, until, world_of
from tests.airflow_ui import LOG_HEIGHT, SENTENCE_HEIGHT, AirflowUi, logged_in, run_path

NAME = "orders"
WRONG = "kafka_lake.payments"
"""The Dag of a pipeline file that does not validate."""
INGEST = "kafka_lake.ingest"
FILE_BYTES = 65_536
"""How long a file of a Spark driver may become: for what writes it, the disk is full then."""

pytestmark = [pytest.mark.timeout(1500), pytest.mark.nightly]


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    down = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    with world_of(
        tmp_path_factory.mktemp("world"), {NAME: 2}, further={"AIRFLOW_CONN_KAFKA_DOWN": json.dumps(down)}
    ) as made:
        lane = made.lanes[NAME]
        text = lane.file.read_text()
        (lane.home / "payments.toml").write_text(text.replace("topics", "topcs").replace(NAME, "payments"))
        (lane.home / "down.toml").write_text(
            text.replace("[source]", '[source]\nconnection = "kafka_down"').replace(f'"{NAME}"', '"down"', 1)
        )
        yield made


@pytest.fixture
def ui(world: World, tmp_path: Path) -> Iterator[AirflowUi]:
    with logged_in(world.airflow, tmp_path / "browser") as found:
        yield found


def test_mistakes_are_answered_on_the_page_of_the_task_that_fails(world: World, ui: AirflowUi) -> None:
    """A wrong year, a wrong key in the pipeline file, a broker that is down: each in one sentence with what to do."""
    world.lanes[NAME].produce(20)
    year = {"from": "2016-03-01T00:00:00Z", "to": "2016-03-08T00:00:00Z"}
    wrong = world.run(MANUAL, {"pipeline": NAME, **year})
    assert (wrong.state, wrong.tasks["kafka_lake.plan"]) == ("failed", "failed"), wrong.tasks
    ui.open(
        run_path(MANUAL, wrong.id, "/tasks/kafka_lake.plan"),
        "EmptyPeriodError: nothing lies in the period from 2016-03-01T00:00:00.000Z to 2016-03-08T00:00:00.000Z",
    )
    ui.picture("wrong-year", height=LOG_HEIGHT)

    world.airflow.unpause(WRONG)
    refused = world.run(WRONG)
    assert refused.tasks == {"invalid_file": "failed"}
    ui.open(run_path(WRONG, refused.id, "/tasks/invalid_file"), "[source] topcs: found an unknown key")
    ui.sees("did you mean 'topics'?")
    ui.picture("wrong-key", height=LOG_HEIGHT)

    down: list[str] = []

    def offered() -> bool:
        with suppress(AirflowApiError):
            down.append(world.airflow.trigger(MANUAL, {"pipeline": "down", "dry_run": True}))
        return bool(down)

    until(offered)
    until(lambda: world.airflow.task_states(MANUAL, down[0]).get("review") == "up_for_retry")
    ui.open(run_path(MANUAL, down[0], "/tasks/review"), "(connection 'kafka_down') did not answer")
    ui.sees("Check that it runs and is reachable, then repeat")
    ui.picture("broker-down", height=LOG_HEIGHT)
    _mark_failed(world, down[0], "review")
    assert world.end(MANUAL, down[0]).state == "failed"


def test_accidents_are_answered_on_the_page_and_the_next_try_goes_on(world: World, ui: AirflowUi) -> None:
    """A task that is marked failed while Spark reads, a full disk, a finished task that is cleared: every record is in
    the table once at the end."""
    lane = world.lanes[NAME]
    lane.produce(3000, size=1000, begin=1000, dense=True)
    killed = world.airflow.trigger(MANUAL, {"pipeline": NAME, "bytes_per_second": "100 kB"})
    driver = until(lambda: next(iter(drivers(lane)), None))
    _mark_failed(world, killed, f"{INGEST}/0")
    assert world.end(MANUAL, killed).state == "failed"
    until(lambda: not driver.is_running())
    ui.open(run_path(MANUAL, killed, f"/tasks/{INGEST}/mapped/0"), "the task was killed: the Spark driver is ended")
    ui.picture("interrupted", height=LOG_HEIGHT)

    full = world.airflow.trigger(MANUAL, {"pipeline": NAME})
    driver = until(lambda: next(iter(drivers(lane)), None))
    for process in (driver, *driver.children(recursive=True)):
        process.rlimit(psutil.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    until(lambda: world.airflow.task_states(MANUAL, full).get(f"{INGEST}[0]") == "up_for_retry")
    first = run_path(MANUAL, full, f"/tasks/{INGEST}/mapped/0?try_number=1")
    ui.open(first, "A disk is full: that of the warehouse or the catalog")
    ui.sees("nothing was published, the wave is unharmed and can be run again")
    disk = "A disk is full: that of the warehouse or the catalog"
    ui.picture("full-disk", height=LOG_HEIGHT, of=disk, kept=SENTENCE_HEIGHT)
    ended = world.end(MANUAL, full)
    assert ended.state == "success", ended.tasks
    lane.assert_exact()

    cleared = {"dry_run": False, "dag_run_id": full, "task_ids": [INGEST], "only_failed": False}
    world.airflow.api("POST", f"/dags/{MANUAL}/clearTaskInstances", cleared)
    assert world.end(MANUAL, full).state == "success"
    ui.open(run_path(MANUAL, full, f"/tasks/{INGEST}/mapped/0"), "is in the lake since")
    ui.picture("cleared", height=LOG_HEIGHT)
    lane.assert_exact()


def _mark_failed(world: World, run_id: str, task: str) -> None:
    path = f"/dags/{MANUAL}/dagRuns/{quote(run_id)}/taskInstances/{task}"
    world.airflow.api("PATCH", path, {"new_state": "failed"})
