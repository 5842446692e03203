"""Dags from a folder of pipeline files: one for each pipeline, so that a long one stops no other's hour."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from os import PathLike
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, DeltaDataIntervalTimetable, get_parsing_context

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.spec import PIPELINE_NAME
from airflow_kafka_lake.operators.advance import RefuseOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.task_groups import kafka_lake_ingest
from airflow_kafka_lake.wiring.pipelines import configured_pipelines

DAG_ID = "kafka_lake.{pipeline}"

Of = Callable[[str], Any]
"""What is asked for each pipeline, by its name."""


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

    A scheduled or triggered run reads what is missing. A run of Airflow's own backfill reads its data interval: so a
    cron expression or a timedelta is given intervals here, which Airflow 3 by itself gives them only by a setting.

    :param folder: of the pipeline files (`*.toml`); left out, that of `[kafka_lake] pipelines_folder`
    :param schedule: of all, or a function that returns a pipeline's, by its name
    :param dag_id: the Dags' ids; `{pipeline}` is the pipeline's name
    :param ingest: arguments for `kafka_lake_ingest`, of all, or a function that returns a pipeline's, by its name
    :param dag_args: further arguments of each DAG; `catchup=False`, `max_active_runs=1` and tags are given otherwise
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
