"""The local Airflow is a real one: supervisor, triggerer, REST API, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.airflow_api import AirflowApiError

DAG = """
import os
from airflow.sdk import DAG, task

with DAG("echo", schedule=None):

    @task
    def say(dag_run=None):
        print("said", dag_run.conf["word"], os.environ["EXTRA"])

    say()
"""


@pytest.fixture(scope="module")
def airflow(service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    """One Airflow for this module; after it, nothing may be left."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "echo.py").write_text(DAG)
    with LocalAirflow(dags_folder=dags, env={"EXTRA": "extra-from-outside"}) as started:
        family = [psutil.Process(started.pid), *psutil.Process(started.pid).children(recursive=True)]
        yield started
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
    assert not started.home.exists()


def test_run_goes_to_success_through_the_api(airflow: LocalAirflow) -> None:
    """A Dag of the folder is parsed, triggered, run by the supervisor with our environment, and logged."""
    seen: list[dict[str, str]] = []
    airflow.unpause("echo")
    run_id = airflow.trigger("echo", {"word": "hello"})
    run = airflow.wait_run("echo", run_id, 400, on_progress=seen.append)
    assert run["state"] == "success", airflow.task_log("echo", run_id, "say")
    assert seen[-1] == {"say": "success"}
    assert "said hello extra-from-outside" in airflow.task_log("echo", run_id, "say")


def test_failed_run_is_returned_and_not_raised(airflow: LocalAirflow) -> None:
    """A failed run is an answer; its log says why."""
    airflow.unpause("echo")
    run_id = airflow.trigger("echo")
    assert airflow.wait_run("echo", run_id, 400)["state"] == "failed"
    assert "KeyError" in airflow.task_log("echo", run_id, "say")


def test_unknown_dag_is_a_sentence(airflow: LocalAirflow) -> None:
    """A Dag that never comes is named together with the import errors."""
    with pytest.raises(AirflowApiError, match=r"does not know the Dag absent.*Import errors: none"):
        airflow.wait_dag("absent", timeout=1)


def test_components_listen_on_this_machine_only(airflow: LocalAirflow) -> None:
    """No process of the family listens on an address that others reach."""
    family = [psutil.Process(airflow.pid), *psutil.Process(airflow.pid).children(recursive=True)]
    listening: set[str] = set()
    for process in family:
        with suppress(psutil.NoSuchProcess, FileNotFoundError):  # some live for a moment only
            listening |= {c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
