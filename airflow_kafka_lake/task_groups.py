"""The main job as one task group of a Dag."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any

from airflow.sdk import TaskGroup, TriggerRule

from airflow_kafka_lake.operators.advance import AdvanceWatermarkOperator, FinishPlanOperator
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER

RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=20), "retry_exponential_backoff": 2.0}
"""For errors that may pass; other errors fail at once."""

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
    acknowledge_order: bool | str = False,
    reason: str | None = None,
    dry_run: bool | str = False,
    conf_keys: Collection[str] | None = None,
    ledger_conn_id: str = DEFAULT_LEDGER,
    waves_at_once: int = WAVES_AT_ONCE,
) -> TaskGroup:
    """Plan, ingest every wave, advance, and end in the state in which the plan ended.

    Arguments are those of PlanIngestOperator (`dry_run` is its `is_dry_run`) and may be templates. `waves_at_once`
    bounds the Spark jobs of one Dag run. The group fails when ranges of the plan are unresolved, or any of the pipeline
    is on hold, after the watermarks that could move have moved.
    """
    with TaskGroup(group_id=group_id) as group:
        plan = PlanIngestOperator(
            task_id="plan",
            pipeline=pipeline,
            topic=topic,
            partitions=partitions,
            from_=from_,
            to=to,
            all_waves=all_waves,
            acknowledge_order=acknowledge_order,
            reason=reason,
            is_dry_run=dry_run,
            conf_keys=conf_keys,
            ledger_conn_id=ledger_conn_id,
            **RETRIES,
        )
        ingest = IngestWaveOperator.partial(
            task_id="ingest",
            ledger_conn_id=ledger_conn_id,
            max_active_tis_per_dagrun=waves_at_once,
            map_index_template="{{ task.wave }}",
            **RETRIES,
        ).expand(wave=plan.output)
        advance = AdvanceWatermarkOperator(
            task_id="advance",
            pipeline=pipeline,
            plan_task_id=plan.task_id,
            ledger_conn_id=ledger_conn_id,
            trigger_rule=TriggerRule.ALL_DONE,
            **RETRIES,
        )
        finish = FinishPlanOperator(
            task_id="finish", plan_task_id=plan.task_id, ledger_conn_id=ledger_conn_id, **RETRIES
        )
        plan >> ingest >> advance >> finish
    return group
