"""The main job as one task group of a Dag, and a Dag for each pipeline file of a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    CronDataIntervalTimetable,
    DeltaDataIntervalTimetable,
    TaskGroup,
    TriggerRule,
    get_parsing_context,
)

from airflow_kafka_lake.assets import closed_periods, late_records
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.spec import PIPELINE_NAME
from airflow_kafka_lake.operators.advance import EVENTS, AdvanceWatermarkOperator, FinishPlanOperator, RefuseOperator
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.wiring.assemble import configured_pipelines
from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER

# The main job as one task group of a Dag.

RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=20), "retry_exponential_backoff": 2.0}
"""For errors that may pass, where neither Dag nor group says otherwise; other errors fail at once."""

WAVES_AT_ONCE = 2


def kafka_lake_ingest(
    pipeline: Pipeline | str | PathLike[str],
    *,
    group_id: str = "kafka_lake",
    topic: str | None = None,
    partitions: Sequence[int] | str | None = None,
    from_: str | int | None = None,
    to: str | int | None = None,
    all_waves: bool | str = False,
    max_waves: int | str | None = None,
    bytes_per_second: int | str | None = None,
    acknowledge_order: bool | str = False,
    reason: str | None = None,
    dry_run: bool | str = False,
    conf_keys: Collection[str] | None = None,
    ledger_conn_id: str = DEFAULT_LEDGER,
    waves_at_once: int = WAVES_AT_ONCE,
    stage_by: str | None = None,
    closes: str | None = None,
    lateness: timedelta = timedelta(0),
    default_args: Mapping[str, Any] | None = None,
    plan_args: Mapping[str, Any] | None = None,
    ingest_args: Mapping[str, Any] | None = None,
    advance_args: Mapping[str, Any] | None = None,
    finish_args: Mapping[str, Any] | None = None,
    prefix_group_id: bool = True,
    parent_group: TaskGroup | None = None,
    tooltip: str = "",
    **task_args: Any,
) -> TaskGroup:
    """Plan, ingest every wave, advance, and end in the state in which the plan ended.

    Arguments are those of PlanIngestOperator (`dry_run` is its `is_dry_run`), also as templates. `waves_at_once` bounds
    the Spark jobs of one Dag run, or with `stage_by="worker"` the waves asked for at once; `bytes_per_second` how fast
    they read together. `stage_by` is of IngestWaveOperator, `closes` and `lateness` are of AdvanceWatermarkOperator.

    `task_args` (`pool`, `queue`, `retries`, `priority_weight`, `execution_timeout`, callbacks …) are those of every
    task; `plan_args`, `ingest_args`, `advance_args` and `finish_args` those of one task, and win over them. Both win
    over `default_args` of the group, these over those of groups around it and of the Dag, and all of them over
    `RETRIES`. `prefix_group_id`, `parent_group` and `tooltip` are those of TaskGroup. The Dag is tagged `kafka-lake`.
    """
    about: dict[str, Any] = {"default_args": dict(default_args or {})}
    about |= {} if parent_group is None else {"parent_group": parent_group}
    group = TaskGroup(group_id=group_id, prefix_group_id=prefix_group_id, tooltip=tooltip, **about)
    group.dag.tags.add("kafka-lake")  # by which the page lists the Dags that start runs
    inherited = {**(group.dag.default_args or {}), **group.default_args}
    group.default_args |= {name: value for name, value in RETRIES.items() if name not in inherited}

    def given(own: Mapping[str, Any] | None, **ours: Any) -> dict[str, Any]:
        return {"ledger_conn_id": ledger_conn_id, **ours, **task_args, **(own or {})}

    with group:
        plan = PlanIngestOperator(
            task_id="plan",
            pipeline=pipeline,
            topic=topic,
            partitions=partitions,
            from_=from_,
            to=to,
            all_waves=all_waves,
            max_waves=max_waves,
            acknowledge_order=acknowledge_order,
            reason=reason,
            is_dry_run=dry_run,
            conf_keys=conf_keys,
            **given(plan_args),
        )
        at_once: dict[str, Any] = {"max_active_tis_per_dagrun": waves_at_once, "map_index_template": "{{ task.wave }}"}
        how = {"bytes_per_second": bytes_per_second, "stage_by": stage_by, "outlets": [EVENTS], **at_once}
        ingest = IngestWaveOperator.partial(task_id="ingest", **given(ingest_args, **how)).expand(wave=plan.output)
        closing = {"closes": closes, "lateness": lateness, "outlets": _outlets(pipeline, closes)}
        advance = AdvanceWatermarkOperator(
            task_id="advance",
            pipeline=pipeline,
            plan_task_id=plan.task_id,
            **given(advance_args, trigger_rule=TriggerRule.ALL_DONE, **closing),
        )
        finish = FinishPlanOperator(task_id="finish", plan_task_id=plan.task_id, **given(finish_args))
        plan >> ingest >> advance >> finish
        plan >> finish  # a plan that failed fails the run, though `advance` is then skipped
    return group


def _outlets(pipeline: Pipeline | str | PathLike[str], closes: str | None) -> Sequence[Asset]:
    """Return the assets of closed periods and of late records: Airflow has to know them before a task runs."""
    name = pipeline.spec.name if isinstance(pipeline, Pipeline) else str(pipeline)
    if closes and (not PIPELINE_NAME.fullmatch(name) or name.endswith(".toml")):
        raise UsageError(f"closes: {name} is no name: give that of the pipeline, or Pipeline.from_toml(FILE)")
    return [closed_periods(name, closes), late_records(name, closes)] if closes else []


# Dags from a folder of pipeline files: one for each pipeline, so that a long one stops no other's hour.

DAG_ID = "kafka_lake.{pipeline}"

Of = Callable[[str], Any]
"""The value for each pipeline, by its name."""


def pipeline_dags(
    folder: str | PathLike[str] | None = None,
    *,
    schedule: Any | Of = "@hourly",
    dag_id: str = DAG_ID,
    ingest: Mapping[str, Any] | Of | None = None,
    **dag_args: Any,
) -> dict[str, DAG]:
    """Make a Dag for each pipeline file of a folder; call it in a Dag file, which needs no more than that.

    A file that does not validate is a Dag with one task, which fails with the reason. It has the id that it had as a
    pipeline, so that it is unpaused if that was; no file keeps the Dag of another from being made.

    A cron expression or a timedelta is given data intervals here, which Airflow's own backfill needs.

    :param folder: of the pipeline files (`*.toml`); left out, that of `[kafka_lake] pipelines_folder`
    :param schedule: of all, or a function that returns a pipeline's, by its name
    :param dag_id: the Dags' ids; `{pipeline}` is the pipeline's name
    :param ingest: arguments for `kafka_lake_ingest`, of all, or a function that returns a pipeline's, by its name
    :param dag_args: further arguments of each DAG; `catchup=False`, `max_active_runs=1` and tags are given otherwise
    :raises UsageError: for a `dag_id` that is the same for every pipeline
    :return: the Dags by their ids. Airflow finds them by itself. In a worker, only the one that the task belongs to.
    """
    if "{pipeline}" not in dag_id:
        raise UsageError(f"dag_id {dag_id!r} is the same for every pipeline: write {{pipeline}} in it")
    wanted = get_parsing_context().dag_id
    about = {"catchup": False, "max_active_runs": 1, "tags": ["kafka-lake"], **dag_args}
    made: dict[str, DAG] = {}
    for name, content in _named(folder):
        key = dag_id.format(pipeline=name)
        if wanted not in {None, key}:
            continue
        zone = DAG(key, schedule=None, **about).timezone  # of the start date, or Airflow's own
        with DAG(key, schedule=_with_intervals(_of(schedule, name), zone), **about) as made[key]:
            if isinstance(content, Pipeline):
                kafka_lake_ingest(pipeline=content, **(_of(ingest, name) or {}))
            else:
                RefuseOperator(task_id="invalid_file", problem=content)
    return made


def _named(folder: str | PathLike[str] | None) -> Iterator[tuple[str, Pipeline | str]]:
    """Yield each pipeline by its name, and each problem by the name that its pipeline most likely has."""
    pipelines, problems = configured_pipelines(folder)
    yield from pipelines.items()
    taken = set(pipelines)
    for file, problem in problems.items():
        stem = re.sub(r"[^a-z0-9_.-]", "_", file.removesuffix(".toml").lower())
        name = stem if PIPELINE_NAME.fullmatch(stem) and stem not in taken else f"invalid.{stem}"[:100]
        taken.add(name)
        yield name, f"{file}: {problem}"


def _with_intervals(schedule: Any, zone: Any) -> Any:
    """Return a schedule whose runs have data intervals, where it is a cron expression or a timedelta."""
    if isinstance(schedule, timedelta):
        return DeltaDataIntervalTimetable(schedule)
    if isinstance(schedule, str) and schedule not in {"@once", "@continuous"}:
        return CronDataIntervalTimetable(schedule, timezone=zone)
    return schedule


def _of(asked: Any, name: str) -> Any:
    return asked(name) if callable(asked) else asked
