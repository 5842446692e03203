"""Let a worker bring a wave into the lake: ask for it in the ledger, wait without a worker slot, take the answer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core.errors import KafkaLakeError, UsageError
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.requests import AskForWave, EndRequest, error_of
from airflow_kafka_lake.operators.boundary import actor_of, rate_of
from airflow_kafka_lake.pipeline.units import shown
from airflow_kafka_lake.triggers.requests import WaveServedTrigger
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.pipelines import SECTION

OPTION = "stage_by"
WORKER_TIMEOUT = timedelta(days=1)
"""How long a task waits while no worker has its wave, before it fails."""

SHORTEST = timedelta(minutes=1)
"""A request that holds for less would lapse between two looks of a busy triggerer."""


class StageBy(StrEnum):
    """Which process stages a wave: the task's own, or a worker beside Airflow (`kafka-lake worker`)."""

    TASK = "task"
    WORKER = "worker"


def stage_by(given: str | None) -> StageBy:
    """Return what an operator asks for, or else the option `[kafka_lake] stage_by`, or else the task."""
    from airflow.sdk.configuration import conf

    text = given or conf.get(SECTION, OPTION, fallback=None) or StageBy.TASK.value
    try:
        return StageBy(text)
    except ValueError:
        raise UsageError(f"{OPTION}: {shown(text)} is neither {' nor '.join(StageBy)}") from None


def ask_worker(task: Any, context: Mapping[str, Any], record: WaveRecord) -> None:
    """Ask for a wave, and defer the task until `execute_served` goes on; return if the wave has ended just then."""
    if not task.deferrable:
        raise UsageError(f"{OPTION}: a task that may not be deferred cannot wait for a worker: use '{StageBy.TASK}'")
    if task.wanted_for < SHORTEST:
        raise UsageError(f"wanted_for: {task.wanted_for} is too short for a triggerer to renew it: {SHORTEST} at least")
    request, actor, rate = secrets.token_hex(8), actor_of(context), rate_of(task.bytes_per_second)
    with assemble.open_ledger(task.ledger_conn_id) as ledger:
        asked = ledger.commit(
            AskForWave(
                id=request,
                wave=record.id,
                actor=actor,
                wanted_for=task.wanted_for,
                bytes_per_second=rate,
                begins=True,
            )
        )
    if asked.request is None:
        return
    task.log.info("wave %s is asked for (request %s). Waiting without a slot for a worker.", record.id, request)
    trigger = WaveServedTrigger(
        pipeline=record.pipeline,
        wave=record.id,
        request=request,
        actor=actor,
        wanted_for=task.wanted_for.total_seconds(),
        worker_timeout=task.worker_timeout.total_seconds(),
        bytes_per_second=rate,
        ledger_conn_id=task.ledger_conn_id,
    )
    task.defer(trigger=trigger, method_name="execute_served", kwargs={"request": request})


def answer_of(task: Any, wave: str, request: str) -> KafkaLakeError | None:
    """Return the error that has answered a request, which ends with that; None for a wave that has ended."""
    with assemble.open_ledger(task.ledger_conn_id) as ledger:
        return error_of(ledger.commit(EndRequest(id=request, wave=wave)))
