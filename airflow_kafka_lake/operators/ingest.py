"""Ingest one wave, in this task or by a worker that it waits for."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Never

from airflow.sdk.configuration import conf

from airflow_kafka_lake import signals
from airflow_kafka_lake.core.errors import ConcurrentError, UsageError, expected
from airflow_kafka_lake.core.ledger.guards import Postponement, WaitReason, landed, outcome_of
from airflow_kafka_lake.core.ledger.records import WaveRecord, explained
from airflow_kafka_lake.core.ledger.requests import WANTED_FOR, AskForWave, EndRequest, error_of
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, UNFINISHED, WaveState
from airflow_kafka_lake.core.reports.metrics import of_failure
from airflow_kafka_lake.core.reports.progress import WavePosition
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.links import PAGE, SNAPSHOT, SPARK, TaskLink
from airflow_kafka_lake.operators.advance import EVENTS, confirm_events, notify
from airflow_kafka_lake.operators.boundary import (
    PAUSE_TIMEOUT,
    SparkTask,
    actor_of,
    airflow_errors,
    ended_unresumed,
    message_of,
    ports_of,
    rate_of,
    text_of,
    wait_for_resume,
)
from airflow_kafka_lake.pipeline.keys import shown
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.advance import Advances
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.running import land
from airflow_kafka_lake.services.watching import placed
from airflow_kafka_lake.signals import WaveSignals, WithLineage, show_page
from airflow_kafka_lake.triggers import (
    WaitEvent,
    WaveAllowedTrigger,
    WaveFreeTrigger,
    WaveLaunchableTrigger,
    WaveServedTrigger,
)
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.assemble import SECTION
from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER

if TYPE_CHECKING:
    from airflow.sdk import Context


# Let a worker bring a wave into the lake: ask for it in the ledger, wait without a worker slot, take the answer.

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
    """Return the wish of an operator, or else the option `[kafka_lake] stage_by`, or else the task."""
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
                id=request, wave=record.id, actor=actor, wanted_for=task.wanted_for, bytes_per_second=rate, begins=True
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


# Ingest one wave.

GATE_TIMEOUT = timedelta(days=1)


class IngestWaveOperator(WithLineage, SparkTask):
    """Claims, stages, audits, publishes and records one wave, and advances; safe to repeat at any moment.

    Watermarks move with events of the pipeline's asset. Killing the task ends the Spark driver; staged rows stay
    invisible. With `stage_by="worker"` `kafka-lake worker` does the work, and a cleared task goes on with the attempt
    that runs. The task waits without a worker slot for the worker, while another task works on the wave, records that
    come first are not in the lake, the pipeline is paused, or has as many waves at work as it allows at once.

    :param wave: wave id, usually mapped over the waves of a plan (templated)
    :param pipeline: the wave's pipeline, as a check; may be left out (templated)
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    :param gate_timeout: longest deferred wait for earlier records; the task fails then, and nothing is lost
    :param openlineage_inject_parent_job_info: name this task as the parent of its Spark application, for OpenLineage's
        Spark agent; `[openlineage] spark_inject_parent_job_info` where left out
    :param pause_timeout: longest deferred wait for a resume; the task fails then, and nothing is lost
    :param bytes_per_second: the rate of all waves of this run together, instead of the pipeline's (templated)
    :param stage_by: `task`, or `worker`; left out, the option `[kafka_lake] stage_by`
    :param worker_timeout: longest deferred wait while no worker has the wave; the task fails then, and nothing is lost
    :param wanted_for: how long a worker goes on when no triggerer says that the wave is wanted; the longest time that
        a triggerer may take to start again
    :param deferrable: False where there is no triggerer: instead of waiting the task fails, and Airflow's retries wait
    """

    template_fields: Sequence[str] = ("wave", "pipeline", "bytes_per_second", "ledger_conn_id")
    ui_color = "#d8f0d8"
    killed = "the task was killed: the Spark driver is ended, nothing was published by it"
    operator_extra_links: Collection[TaskLink] = (PAGE, SPARK, SNAPSHOT)

    def __init__(
        self,
        *,
        wave: str,
        pipeline: str | None = None,
        ledger_conn_id: str = DEFAULT_LEDGER,
        gate_timeout: timedelta = GATE_TIMEOUT,
        openlineage_inject_parent_job_info: bool = conf.getboolean(
            "openlineage", "spark_inject_parent_job_info", fallback=False
        ),
        pause_timeout: timedelta = PAUSE_TIMEOUT,
        bytes_per_second: int | str | None = None,
        stage_by: str | None = None,
        worker_timeout: timedelta = WORKER_TIMEOUT,
        wanted_for: timedelta = WANTED_FOR,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wave = wave
        self.pipeline = pipeline
        self.ledger_conn_id = ledger_conn_id
        self.gate_timeout = gate_timeout
        self.openlineage_inject_parent_job_info = openlineage_inject_parent_job_info
        self.pause_timeout = pause_timeout
        self.bytes_per_second = bytes_per_second
        self.stage_by = stage_by
        self.worker_timeout = worker_timeout
        self.wanted_for = wanted_for
        self.deferrable = deferrable
        self.outlets = [*self.outlets, EVENTS]
        self.on_success_callback = [confirm_events, *self.on_success_callback]

    def execute(self, context: Context) -> dict[str, Any]:
        """Ingest; returns `{"wave", "state", "ranges", "rows"}`."""
        return self._execute(context, None)

    def _execute(self, context: Context, until: float | None, *, request: str | None = None) -> dict[str, Any]:
        with airflow_errors():
            wave = text_of(self.wave, "wave")
            record, spec = self._look_up(wave)
            show_page(self, spec.name, wave=wave)
            if record.state is WaveState.COMMITTED:
                with ports_of(self, spec, context) as ports:
                    if request is not None:
                        WaveSignals(self, context).landed(ports, spec, record, by_worker=True)
                        Advances(ports, spec).after_wave()
                    else:
                        land(ports, wave, advances=Advances(ports, spec))
                    self._notify(context, ports, record)
            else:
                by_worker = record.state in UNFINISHED and stage_by(self.stage_by) is StageBy.WORKER
                work = partial(self._let_serve, request=request) if by_worker else partial(self._ingest, spec=spec)
                outcome = outcome_of(partial(work, context, record))
                if isinstance(outcome, Postponement):
                    self._postpone(outcome, record, until)
                record = landed(outcome)
        return {"wave": record.id, "state": record.state.value, "ranges": record.ranges, "rows": record.rows}

    def execute_complete(self, context: Context, event: WaitEvent) -> dict[str, Any]:
        """Go on once the wave is free, or has its turn."""
        self.log.info("%s", message_of(event))
        return self.execute(context)

    def execute_resumed(self, context: Context, event: WaitEvent, until: float) -> dict[str, Any]:
        """Go on once nothing is paused; fail when the time of the wait, `until` (epoch seconds), is over before."""
        self.log.info("%s", message_of(event))
        return self._execute(context, ended_unresumed(until))

    def execute_served(self, context: Context, event: WaitEvent, request: str) -> dict[str, Any]:
        """Go on once a worker has brought the wave into the lake, or has answered the request."""
        self.log.info("%s", message_of(event))
        return self._execute(context, None, request=request)

    def _let_serve(self, context: Context, record: WaveRecord, request: str | None) -> Never:
        """Raise the answer of a worker, else ask for the wave and defer."""
        if request is not None:
            with assemble.open_ledger(self.ledger_conn_id) as ledger:
                problem = error_of(ledger.commit(EndRequest(id=request, wave=record.id)))
            if problem:
                signals.send(partial(of_failure, record.pipeline, problem))
                raise problem
        show_page(self, record.pipeline, wave=record.id, at_once=context)
        ask_worker(self, context, record)
        raise ConcurrentError(f"Wave {record.id} has ended just now, by another process.", wave=record.id)

    def _look_up(self, wave: str) -> tuple[WaveRecord, PipelineSpec]:
        with assemble.open_ledger(self.ledger_conn_id) as ledger:
            record = ledger.wave(wave)
            if self.pipeline and self.pipeline != record.pipeline:
                raise UsageError(f"wave {wave} is of pipeline {record.pipeline}, not of {self.pipeline}", wave=wave)
            return record, known_spec(ledger, record.pipeline)

    def _ingest(self, context: Context, record: WaveRecord, spec: PipelineSpec) -> WaveRecord | Postponement:
        signals, wave = WaveSignals(self, context), record.id
        needs = {"need_spark": record.state in UNFINISHED, "need_kafka": True, **signals.needs()}
        with (
            ports_of(self, spec, context, **needs) as opened,
            signals.following(in_place(opened, context), spec.name, wave) as ports,
        ):
            rate, advances = rate_of(self.bytes_per_second), Advances(ports, spec)
            outcome = land(ports, wave, advances=advances, bytes_per_second=rate, during=self.working())
            if not isinstance(outcome, Postponement):
                for item in ports.ledger.ranges(wave=wave, states=tuple(ON_HOLD)):
                    self.log.warning("left out, on hold: %s %s: %s", item.stream, item.range, explained(item))
                signals.landed(ports, spec, outcome)
                self._notify(context, ports, outcome)
            return outcome

    def _notify(self, context: Context, ports: Ports, record: WaveRecord) -> None:
        """Notify of moves; the wave is in the lake, whatever becomes of this: another task does the rest."""
        try:
            notify(context, ports.ledger, record.pipeline, record.plan)
        except ConcurrentError as busy:
            self.log.info("%s", busy.message)
        except Exception as error:  # noqa: BLE001
            self.log.warning("asset events are emitted by a later task: %s", expected(error, "notifying after a wave"))

    def _postpone(self, waits: Postponement, record: WaveRecord, until: float | None) -> None:
        """Defer until the wave can go on; return where the task may not wait."""
        if waits.reason is WaitReason.RESUME:
            wait_for_resume(self, waits.refusal, until)
        if not self.deferrable:
            return
        kind: Callable[..., WaveFreeTrigger] = WaveFreeTrigger
        if waits.reason is WaitReason.LIMIT:
            kind = partial(WaveAllowedTrigger, limit=int(str(waits.refusal.facts["limit"])))
        elif waits.reason is WaitReason.TURN:
            kind = WaveLaunchableTrigger
        self.log.info("%s Waiting without a worker slot.", waits.refusal.message)
        trigger = kind(wave=record.id, pipeline=record.pipeline, ledger_conn_id=self.ledger_conn_id)
        timeout = self.gate_timeout if waits.reason is WaitReason.TURN else None
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)


def in_place(ports: Ports, context: Context) -> Ports:
    """Return ports that show which of how many mapped waves it is, unless Airflow does not say."""
    ti = context["ti"]
    index = getattr(ti, "map_index", None)
    if index is None or index < 0:
        return ports
    with suppress(Exception):  # a link that is only shown fails no wave
        waves = ti.get_ti_count(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id])
        return placed(ports, WavePosition(number=index + 1, of=max(waves, index + 1)))
    return ports
