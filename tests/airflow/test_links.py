"""Links of tasks: where they lead, when they are there, and that they fail nothing."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom
from airflow.serialization.serialized_objects import DagSerialization
from starlette.routing import Match

from airflow_kafka_lake.core.addresses import SITE, pipeline_page
from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.spark.job import Application
from airflow_kafka_lake.get_provider_info import get_provider_info
from airflow_kafka_lake.links import PAGE, SNAPSHOT, SPARK
from airflow_kafka_lake.operators.advance import AdvanceWatermarkOperator, FinishPlanOperator
from airflow_kafka_lake.operators.audit import AuditOperator
from airflow_kafka_lake.operators.decisions import ReopenOperator
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.sensors import WatermarkSensor
from airflow_kafka_lake.task_groups import kafka_lake_ingest

from .conftest import ORDERS, World

Context = dict[str, Any]
LAKE = {
    "conn_type": "lake",
    "password": "canary-lake",
    "extra": {
        "catalog": "rest",
        "uri": "https://catalog",
        "token": "canary-token",
        "snapshot_url": "https://catalog/ui/{table}/{snapshot}",
    },
}
APPLICATION = Application(id="app-1", page="http://driver:4040", history="https://history/history/app-1/")


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own address, and a lake whose snapshots have pages."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/team")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(LAKE))


def link(task: Any, which: BaseOperatorLink) -> str:
    """Return the address that Airflow stores when the task has ended."""
    return which.get_link(task, ti_key=None)  # type: ignore[arg-type]


def planned(world: World, context: Context) -> str:
    world.produce(5)
    context["ti"].task_id = "plan"
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    context["ti"].task_id = "ingest"
    return wave


def with_spark(world: World, watch: Callable[[], None] = lambda: None) -> None:
    """Let every job be of an application, as soon as it has begun."""
    stage = world.runner.stage

    def staging(job: Any, **given: Any) -> None:
        world.opened[-1]["application"](APPLICATION)
        watch()
        stage(job, **given)

    world.runner.stage = staging  # type: ignore[method-assign]


def test_wave_links_to_its_page_to_spark_and_to_its_snapshot(
    world: World, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    """To the application's page while it runs, then to the history server's; to the snapshot once there is one."""
    wave = planned(world, context)
    seen: dict[str, str] = {}
    with_spark(world, lambda: seen.update({key: url for (_, key), url in context["ti"].xcoms.items() if key != "plan"}))
    task = IngestWaveOperator(task_id="ingest", wave=wave)
    with caplog.at_level("INFO"):
        task.execute(context)
    shown = f"https://airflow.example.org/team/kafka-lake/pipelines/orders/waves/{wave}"
    snapshot = world.ledger.wave(wave).snapshot
    assert seen == {PAGE.xcom_key: shown, SPARK.xcom_key: APPLICATION.page}
    assert (link(task, PAGE), link(task, SPARK)) == (shown, APPLICATION.history)
    assert link(task, SNAPSHOT) == f"https://catalog/ui/raw.orders/{snapshot}"
    (attempt,) = world.ledger.attempts(wave)
    (line,) = [record.getMessage() for record in caplog.records if " is in raw.orders, " in record.getMessage()]
    for name in (wave, attempt.attempt, f"snapshot {snapshot}", "Spark application app-1", "5 rows", "raw.orders"):
        assert name in line, line
    assert "canary" not in caplog.text + str(context["ti"].xcoms)


def test_spark_that_has_ended_without_history_is_linked_no_more(world: World, context: Context) -> None:
    """A page that is gone with its driver is of no help; a failed wave keeps the link to its own page."""
    wave = planned(world, context)
    world.runner.failures.append("the job ended")

    def fail(job: Any, **_: Any) -> None:
        world.opened[-1]["application"](Application(id="app-1", page="http://driver:4040"))
        assert context["ti"].xcoms["ingest", SPARK.xcom_key] == "http://driver:4040"
        world.opened[-1]["application"](Application(id="app-1"))
        assert context["ti"].xcoms["ingest", SPARK.xcom_key] == ""
        raise JobFailedError("the job ended", reason=None, wave=job.wave, attempt=job.attempt)

    world.runner.stage = fail  # type: ignore[method-assign]
    task = IngestWaveOperator(task_id="ingest", wave=wave)
    with pytest.raises(JobFailedError):
        task.execute(context)
    assert (link(task, SPARK), link(task, SNAPSHOT)) == ("", "")
    assert link(task, PAGE).endswith(f"/waves/{wave}")


def test_link_that_cannot_be_shown_fails_nothing(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow takes no XCom, the lake's connection is gone: the wave lands all the same, and no secret shows."""
    wave = planned(world, context)
    with_spark(world)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(LAKE | {"conn_type": "canary-type"}))

    def refuse(key: str, value: Any) -> None:
        raise RuntimeError("canary in an error")

    context["ti"].xcom_push = refuse
    task = IngestWaveOperator(task_id="ingest", wave=wave)
    with caplog.at_level("INFO"):
        assert task.execute(context)["state"] == "COMMITTED"
    assert link(task, SNAPSHOT) == ""
    assert "could not be shown (RuntimeError)" in caplog.text
    assert "canary" not in caplog.text


def test_wave_that_had_landed_keeps_the_link_to_its_page(world: World, context: Context) -> None:
    """A task that is cleared finds nothing to do, and leads to what was done."""
    wave = planned(world, context)
    IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    again = IngestWaveOperator(task_id="ingest", wave=wave)
    again.execute(context)
    assert link(again, PAGE).endswith(f"/waves/{wave}")


def test_lake_without_pages_has_no_link_to_a_snapshot(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg has no page of its own."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(LAKE | {"extra": {"catalog": "rest", "uri": "https://catalog"}})
    )
    task = IngestWaveOperator(task_id="ingest", wave=planned(world, context))
    task.execute(context)
    assert link(task, SNAPSHOT) == ""


def test_other_tasks_link_to_the_page_of_their_pipeline(world: World, context: Context) -> None:
    """Plan, advance, finish, a decision and a sensor."""
    planned(world, context)
    advance = AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, plan_task_id="plan")
    plan = PlanIngestOperator(task_id="plan", pipeline=ORDERS)
    finish = FinishPlanOperator(task_id="finish", plan_task_id="plan")
    sensor = WatermarkSensor(task_id="sensor", pipeline=ORDERS, topic="orders", offset=0)
    context["ti"].task_id = "plan"
    for wave in plan.execute(context):
        context["ti"].task_id = "ingest"
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    for task in (advance, finish):
        task.execute(context)
    sensor.poke(context)  # type: ignore[arg-type]
    reopen = ReopenOperator(
        task_id="reopen",
        pipeline=ORDERS,
        topic="orders",
        partitions="0",
        from_=0,
        to=1,
        reason="again",
        is_dry_run=True,
    )
    reopen.execute(context)
    shown = "https://airflow.example.org/team/kafka-lake/pipelines/orders"
    assert {task.task_id: link(task, PAGE) for task in (plan, advance, finish, reopen, sensor)} == dict.fromkeys(
        ("plan", "advance", "finish", "reopen", "sensor"), shown
    )


@pytest.mark.parametrize("wave", [None, "8a2bc2f1-w0"])
def test_page_that_is_linked_to_is_one_of_the_site(wave: str | None) -> None:
    """The addresses that tasks give are those that the API server answers."""
    from airflow_kafka_lake.pages.web.routes import pages

    path = pipeline_page("", "orders", wave).removeprefix(SITE)
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    (route,) = [route for route in pages.routes if route.matches(scope)[0] is Match.FULL]
    assert str(getattr(route, "path", "")) == "/pipelines/{pipeline}" + ("" if wave is None else "/waves/{wave}")


def test_deferred_task_keeps_the_link_that_it_had(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on in another process, and ends there with the trigger's answer alone; a link that is gone is none."""
    stored: dict[str, Any] = {PAGE.xcom_key: "https://airflow.example.org/kafka-lake/pipelines/orders"}
    monkeypatch.setattr(XCom, "get_value", lambda ti_key, key: stored.get(key))
    sensor = WatermarkSensor(task_id="sensor", pipeline=ORDERS, topic="orders", offset=9)
    sensor.execute_complete(context, {"status": "success", "message": "it is there"})  # type: ignore[arg-type]
    assert link(sensor, PAGE) == stored[PAGE.xcom_key]
    stored.clear()
    assert link(sensor, PAGE) == ""


def test_links_travel_with_a_serialized_dag() -> None:
    """The API server knows each by its name and the XCom that has its address; also of mapped tasks."""
    with DAG("linked", schedule=None) as dag:
        kafka_lake_ingest(ORDERS)
    again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    found = {
        task.task_id.rpartition(".")[2]: {one.name: one.xcom_key for one in task.operator_extra_links}
        for task in again.tasks
    }
    own = {PAGE.name: PAGE.xcom_key}
    assert found == {
        "plan": own,
        "ingest": own | {SPARK.name: SPARK.xcom_key, SNAPSHOT.name: SNAPSHOT.xcom_key},
        "advance": own,
        "finish": own,
    }


def test_every_link_is_described_to_airflow() -> None:
    """By class, each of which can be made without arguments."""
    made = []
    for path in get_provider_info()["extra-links"]:
        module, _, name = path.rpartition(".")
        made.append(getattr(importlib.import_module(module), name)())
    assert {item.xcom_key for item in made} == {PAGE.xcom_key, SPARK.xcom_key, SNAPSHOT.xcom_key}
    assert all(isinstance(item, BaseOperatorLink) for item in made)


def test_deep_audit_links_to_spark(world: World, context: Context) -> None:
    """It has a job, too."""
    IngestWaveOperator(task_id="ingest", wave=planned(world, context)).execute(context)
    report, seen = world.runner.report, dict[str, str]()

    def reporting(job: Any, **given: Any) -> Any:
        world.opened[-1]["application"](APPLICATION)
        seen.update({key: url for (_, key), url in context["ti"].xcoms.items() if key == SPARK.xcom_key})
        return report(job, **given)

    world.runner.report = reporting  # type: ignore[method-assign]
    task = AuditOperator(task_id="audit", pipeline=ORDERS, deep=True)
    task.execute(context)
    assert seen == {SPARK.xcom_key: APPLICATION.page}
    assert link(task, SPARK) == APPLICATION.history
