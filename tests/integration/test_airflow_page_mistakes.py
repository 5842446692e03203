"""What Airflow's page shows of a newcomer's mistakes, in a real browser, under the real supervisor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from airflow_kafka_lake.local.airflow_api import AirflowApiError
from tests.airflow_lanes import MANUAL, World, until, world_of
from tests.airflow_ui import LOG_HEIGHT, AirflowUi, logged_in, run_path

NAME = "orders"
WRONG = "kafka_lake.payments"
"""The Dag of a pipeline file that does not validate."""

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


def _mark_failed(world: World, run_id: str, task: str) -> None:
    path = f"/dags/{MANUAL}/dagRuns/{quote(run_id)}/taskInstances/{task}"
    world.airflow.api("PATCH", path, {"new_state": "failed"})
