"""The task group as people write it: pools, retries, callbacks and defaults; and Dags made of a folder of pipelines."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.sdk import (
    DAG,
    Asset,
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    TaskGroup,
)

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.operators.advance import EVENTS, confirm_events
from airflow_kafka_lake.operators.boundary import bounds_of
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.task_groups import RETRIES, kafka_lake_ingest, pipeline_dags

from .conftest import ORDERS, write_pipeline

NAMES = ("plan", "ingest", "advance", "finish")


def tasks(group: TaskGroup) -> dict[str, Any]:
    """Return a group's tasks by their short names; the mapped one as it will be."""
    found: dict[str, Any] = {key.rpartition(".")[2]: task for key, task in group.children.items()}
    assert set(found) == set(NAMES)
    return {**found, "ingest": found["ingest"].unmap({"wave": "w"})}


def made(dag_args: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    """Make a group in a Dag."""
    with DAG("d", schedule=None, default_args=dag_args or {}):
        return tasks(kafka_lake_ingest(ORDERS, **given))


def each(found: dict[str, Any], field: str) -> list[Any]:
    """Return a field of all tasks, in their order."""
    return [getattr(found[name], field) for name in NAMES]


def test_errors_that_may_pass_are_retried_by_default() -> None:
    """Where the Dag says nothing else."""
    found = made()
    assert each(found, "retries") == [3] * 4
    assert each(found, "retry_delay") == [timedelta(seconds=20)] * 4
    assert each(found, "retry_exponential_backoff") == [RETRIES["retry_exponential_backoff"]] * 4


def test_arguments_reach_every_task() -> None:
    """As with any operator; what is not named stays."""

    def called(context: Any) -> None:
        """Do nothing."""

    found = made(
        pool="lake",
        pool_slots=2,
        queue="spark",
        retries=7,
        priority_weight=5,
        execution_timeout=timedelta(hours=2),
        on_failure_callback=called,
        on_success_callback=called,
        owner="data",
    )
    assert each(found, "pool") == ["lake"] * 4
    assert each(found, "pool_slots") == [2] * 4
    assert each(found, "queue") == ["spark"] * 4
    assert each(found, "retries") == [7] * 4
    assert each(found, "retry_delay") == [timedelta(seconds=20)] * 4
    assert each(found, "priority_weight") == [5] * 4
    assert each(found, "execution_timeout") == [timedelta(hours=2)] * 4
    assert each(found, "owner") == ["data"] * 4
    assert [list(calls) for calls in each(found, "on_failure_callback")] == [[called]] * 4
    assert list(found["ingest"].on_success_callback) == list(found["advance"].on_success_callback)
    assert list(found["ingest"].on_success_callback) == [confirm_events, called]
    assert list(found["plan"].on_success_callback) == [called]


def test_nearest_default_wins() -> None:
    """One task's over all tasks', these over the group's defaults, then the Dag's, and ours at last."""
    assert each(made({"retries": 9}), "retries") == [9] * 4
    assert each(made({"retries": 9}, default_args={"retries": 8}), "retries") == [8] * 4
    assert each(made({"retries": 9}, default_args={"retries": 8}, retries=1), "retries") == [1] * 4
    found = made(
        {"retries": 9}, retries=1, ingest_args={"retries": 0, "pool": "spark"}, plan_args={"deferrable": False}
    )
    assert each(found, "retries") == [1, 0, 1, 1]
    assert each(found, "pool") == ["default_pool", "spark", "default_pool", "default_pool"]
    assert (found["plan"].deferrable, found["ingest"].deferrable) == (False, True)
    assert found["advance"].trigger_rule == "all_done"


def test_defaults_of_a_group_around_it_win_over_ours() -> None:
    """A group in a group, as a Dag author nests them."""
    with DAG("d", schedule=None), TaskGroup("outer", default_args={"retries": 2}):
        group = kafka_lake_ingest(ORDERS, group_id="inner")
    assert each(tasks(group), "retries") == [2] * 4
    assert group.group_id == "outer.inner"


def test_failed_plan_fails_the_last_task_whatever_becomes_of_those_between() -> None:
    """A run is as its last task is, and that is not run after a plan that failed."""
    with DAG("d", schedule=None):
        found = tasks(kafka_lake_ingest(ORDERS))
    assert found["finish"].upstream_task_ids == {"kafka_lake.plan", "kafka_lake.advance"}
    assert found["finish"].trigger_rule == "all_success"


def test_group_is_a_task_group_like_any() -> None:
    """Its name in the ids, its parent and its tooltip are the author's."""
    with DAG("d", schedule=None) as dag:
        outer = TaskGroup("outer")
        group = kafka_lake_ingest(ORDERS, group_id="g", prefix_group_id=False, parent_group=outer, tooltip="shown")
    assert set(dag.task_ids) == set(NAMES)
    assert (group.tooltip, group.parent_group) == ("shown", outer)


def test_dag_of_a_group_has_the_tag_by_which_the_page_lists_it() -> None:
    """Beside its own tags."""
    with DAG("d", schedule=None, tags=["team-a"]) as dag:
        kafka_lake_ingest(ORDERS)
    assert dag.tags == {"team-a", "kafka-lake"}


def test_mapped_task_shows_its_asset_and_its_bounds() -> None:
    """To the scheduler too, which never makes the operator itself."""
    with DAG("d", schedule=None) as dag:
        kafka_lake_ingest(ORDERS, waves_at_once=5, queue="spark", retries=4)
    mapped = dag.get_task("kafka_lake.ingest")
    assert mapped.is_mapped
    assert (mapped.queue, mapped.retries, mapped.max_active_tis_per_dagrun) == ("spark", 4, 5)
    assert EVENTS in mapped.outlets


@pytest.mark.parametrize("given", [{"ingest_args": {"task_id": "x"}}, {"plan_args": {"pipeline": "y"}}, {"retrys": 3}])
def test_wrong_argument_is_refused_as_the_dag_is_read(given: dict[str, Any]) -> None:
    """What the group sets itself, and what no operator has."""
    with pytest.raises(TypeError):
        made(**given)


def test_dags_of_a_folder_take_what_a_dag_and_a_group_take(tmp_path: Path) -> None:
    """For all pipelines, or for each by its name."""
    write_pipeline(tmp_path, "orders")
    write_pipeline(tmp_path, "archive")
    found = pipeline_dags(
        tmp_path,
        schedule=lambda name: "@daily" if name == "archive" else "@hourly",
        dag_id="{pipeline}_to_lake",
        ingest=lambda name: {"waves_at_once": 8, "pool": name},
        tags=["lake", "team-a"],
        default_args={"owner": "data", "retries": 6},
        max_active_runs=2,
    )
    assert {key: dag.timetable.expression for key, dag in found.items()} == {
        "archive_to_lake": "0 0 * * *",
        "orders_to_lake": "0 * * * *",
    }
    dag = found["orders_to_lake"]
    plan, ingest = dag.get_task("kafka_lake.plan"), dag.get_task("kafka_lake.ingest")
    assert (plan.owner, plan.retries, plan.pool, ingest.max_active_tis_per_dagrun) == ("data", 6, "orders", 8)
    assert (dag.tags, dag.max_active_runs, dag.catchup) == ({"lake", "team-a", "kafka-lake"}, 2, False)
    assert pipeline_dags(tmp_path, ingest={"waves_at_once": 3})["kafka_lake.orders"].has_task("kafka_lake.finish")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("5 4 * * *", CronDataIntervalTimetable("5 4 * * *", timezone="Europe/Berlin")),
        (timedelta(hours=2), DeltaDataIntervalTimetable(timedelta(hours=2))),
        (DeltaTriggerTimetable(timedelta(hours=2)), DeltaTriggerTimetable(timedelta(hours=2))),
        (asset := Asset("a"), DAG("d", schedule=asset).timetable),
        ("@once", DAG("d", schedule="@once").timetable),
        (None, DAG("d", schedule=None).timetable),
    ],
    ids=["cron", "delta", "timetable", "asset", "once", "none"],
)
def test_runs_of_a_folder_have_data_intervals(tmp_path: Path, schedule: Any, expected: Any) -> None:
    """In the zone of the start date; a timetable is the author's own."""
    write_pipeline(tmp_path, "orders")
    start = pendulum.datetime(2026, 3, 1, tz="Europe/Berlin")
    (found,) = pipeline_dags(tmp_path, schedule=schedule, start_date=start).values()
    made = found.timetable
    assert type(made) is type(expected)
    assert str(getattr(made, "timezone", None)) == str(getattr(expected, "timezone", None))


def test_worker_makes_only_the_dag_of_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of a thousand files costs a task nothing but their reading."""
    for name in ("orders", "clicks"):
        write_pipeline(tmp_path, name)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "kafka_lake.clicks")
    assert list(pipeline_dags(tmp_path)) == ["kafka_lake.clicks"]


def test_broken_file_keeps_the_id_that_its_dag_had(tmp_path: Path) -> None:
    """So that it fails where people look, and where it is not paused; names that meet another's give way."""
    write_pipeline(tmp_path, "orders")
    for name in ("orders", "broken", "with space", "x" * 120):
        (tmp_path / f"{name.title()}.toml").write_text("[pipeline]\n")
    found = pipeline_dags(tmp_path)
    bad = {key for key, dag in found.items() if dag.task_ids == ["invalid_file"]}
    assert bad == {
        "kafka_lake.broken",
        "kafka_lake.with_space",
        "kafka_lake.invalid.orders",
        "kafka_lake.invalid." + "x" * 92,
    }
    assert set(found) - bad == {"kafka_lake.orders"}


def test_id_that_all_pipelines_would_share_is_refused(tmp_path: Path) -> None:
    """Airflow would keep one of them, and say nothing."""
    with pytest.raises(UsageError, match=r"write \{pipeline\} in it"):
        pipeline_dags(tmp_path, dag_id="lake")


def test_run_reads_its_data_interval_and_no_other() -> None:
    """As a backfill asks for it; an interval without length, which cron texts make in Airflow 3, is refused."""
    with DAG("d", schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC")) as dag:
        kafka_lake_ingest(ORDERS, from_="{{ data_interval_start }}", to="{{ data_interval_end }}")
    plan = dag.get_task("kafka_lake.plan")
    begin = pendulum.datetime(2026, 3, 1, 5)

    def asked(end: pendulum.DateTime) -> Bounds:
        made = plan.prepare_for_execution()
        made.render_template_fields({"data_interval_start": begin, "data_interval_end": end, "dag": dag})
        return bounds_of(None, None, made.from_, made.to)

    assert asked(begin.add(hours=1)) == Bounds(start=begin, end=begin.add(hours=1))
    with pytest.raises(UsageError, match="the same moment"):
        asked(begin)


def test_operator_alone_takes_what_any_operator_takes() -> None:
    """The classes stay ordinary operators."""
    assert IngestWaveOperator(task_id="i", wave="w", pool="p", retries=1).pool == "p"
