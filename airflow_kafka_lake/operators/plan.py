"""Plan the next offsets, and hand the waves to the tasks that ingest them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake import signals
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import EmptyPeriodError, PausedError
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import WaveChoice
from airflow_kafka_lake.core.reports.metrics import of_plan
from airflow_kafka_lake.core.reports.plan import PlanSummary, heading, range_lines, remarks
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.operators.boundary import (
    PAUSE_TIMEOUT,
    PeriodTask,
    airflow_errors,
    bounds_of,
    count_of,
    ended_unresumed,
    flag_of,
    message_of,
    of_backfill,
    ports_of,
    reason_of,
    refuse_unknown_keys,
    spec_of,
    wait_for_resume,
)
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.planning import PlanResult, check_asked, plan_after_others
from airflow_kafka_lake.services.recovery import recover
from airflow_kafka_lake.services.running import chosen
from airflow_kafka_lake.signals import show_page
from airflow_kafka_lake.triggers import WaitEvent

if TYPE_CHECKING:
    from airflow.sdk import Context

MAX_WAVES = 1000
"""Waves that one Dag run takes, where `[core] max_map_length` allows as many; the next run goes on."""

SHOWN_LINES = 100
PLAN_KEY = "plan"
"""XCom key of the plan's summary. Airflow maps only over a task's return value, so that is the waves."""


class PlanIngestOperator(PeriodTask):
    """Observes Kafka and records the next plan; returns the ids of all waves that are to be worked on.

    The list can be mapped over: `IngestWaveOperator.partial(...).expand(wave=plan.output)`. The XCom `plan` has the
    rest: `{"pipeline", "plan", "plans", "waves", "later", "left", "ranges", "records", "bytes", "lake_bytes",
    "blocked", "left_out", "hanging", "dry_run"}`.

    Without bounds: all that is missing from the origin to the pipeline's end policy; in a run of Airflow's backfill,
    its data interval. `from_` and `to` ask for `[from_, to)`, also below the origin. A dry run explains itself in the
    log and returns no waves. Unfinished waves of earlier runs are returned too: all of them without bounds or with
    `all_waves`, else those with something of the period. Of more than `[core] max_map_length` waves the rest stays for
    the next run (`later`), and `FinishPlanOperator` fails until it is in the lake.

    :param all_waves: with bounds, too: take everything that earlier runs left unfinished (templated)
    :param max_waves: take at most so many waves; the rest stays planned for a run that asks for it (templated)
    :param acknowledge_order: read below an origin though later segments may be in the lake already (templated)
    :param deferrable: False where there is no triggerer: the task then fails at once while the pipeline is paused
    :param pause_timeout: longest deferred wait for a resume of the pipeline; the task fails then
    """

    template_fields: Sequence[str] = (*PeriodTask.asked, "all_waves", "max_waves", "acknowledge_order")
    ui_color = "#dcebf7"

    def __init__(
        self,
        *,
        all_waves: bool | str = False,
        max_waves: int | str | None = None,
        acknowledge_order: bool | str = False,
        deferrable: bool = True,
        pause_timeout: timedelta = PAUSE_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.all_waves = all_waves
        self.max_waves = max_waves
        self.acknowledge_order = acknowledge_order
        self.deferrable = deferrable
        self.pause_timeout = pause_timeout

    def execute(self, context: Context) -> list[str]:
        """Plan; returns wave ids and pushes the XCom `plan`.

        Waits while a group has commits pending, and, without a slot, while the pipeline is paused."""
        return self._plan(context)

    def execute_resumed(self, context: Context, event: WaitEvent, until: float) -> list[str]:
        """Plan once the pipeline is not paused; fail when the time of the wait, `until` (epoch seconds), is over."""
        self.log.info("%s", message_of(event))
        return self._plan(context, paused_until=ended_unresumed(until))

    def _plan(self, context: Context, *, paused_until: float | None = None) -> list[str]:
        with airflow_errors():
            refuse_unknown_keys(context, self.conf_keys)
            asked = bounds_of(
                self.topic, self.partitions, self.from_, self.to, acknowledge_order=self.acknowledge_order
            )
            bounds = of_backfill(context, asked)
            reason = reason_of(self.reason)
            most = count_of(self.max_waves, "max_waves")
            dry_run, everything = flag_of(self.is_dry_run), flag_of(self.all_waves, "all_waves")
            spec = spec_of(self.pipeline, self.ledger_conn_id)
            show_page(self, spec.name)
            with ports_of(self, spec, context, need_kafka=True) as ports:
                where = ports.runner.where()
                try:
                    planned, choice = plan_and_choose(
                        ports, spec, bounds, everything=everything, dry_run=dry_run, reason=reason, most=most
                    )
                except EmptyPeriodError as empty:
                    if bounds is asked:
                        raise
                    # An hour without a record is no mistake in the backfill of a day.
                    self.log.info("nothing to do in this run's data interval, %s to %s", bounds.start, bounds.end)
                    self.log.info("%s", empty.message)
                    context["ti"].xcom_push(key=PLAN_KEY, value=PlanSummary(pipeline=spec.name).to_json())
                    return []
                except PausedError as paused:
                    wait_for_resume(self, paused, paused_until)
        self._report(planned, choice, where, dry_run=dry_run)
        summary = PlanSummary.of(planned.plan, choice, recorded=planned.recorded, dry_run=dry_run)
        context["ti"].xcom_push(key=PLAN_KEY, value=summary.to_json())
        signals.send(partial(of_plan, summary))
        return list(summary.waves)

    def _report(self, planned: PlanResult, choice: WaveChoice, where: str, *, dry_run: bool) -> None:
        for line in (*explain(planned.plan, where, dry_run=dry_run), *choice.describe(planned.plan.id)):
            self.log.info("%s", line)
        if choice.later:
            self.log.warning("%s", beyond(len(choice.taken), len(choice.later)))
        if choice.left:
            self.log.info("A run without bounds, and without max_waves, takes what this one leaves.")


def plan_and_choose(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    *,
    everything: bool,
    dry_run: bool,
    reason: str | None = None,
    most: int | None = None,
) -> tuple[PlanResult, WaveChoice]:
    """Recover open waves, plan, and choose the waves that are to be worked on, at most so many as are asked for; a dry
    run writes nothing. Offsets that Kafka does not have are refused before the lake is searched."""
    from airflow.sdk.configuration import conf

    if bounds.topic is not None or bounds.partitions is not None:
        check_asked(ports, spec, bounds)
    if not dry_run and ports.ledger.pipeline(spec.name) is not None:
        recover(ports, spec.name)
    patience = timedelta(0) if dry_run else spec.timeout
    planned = plan_after_others(ports, spec, bounds, dry_run=dry_run, timeout=patience, reason=reason)
    bounded = bounds.is_bounded and not everything
    # As many as a task may be mapped over, here and in Airflow's API server.
    of_a_run = min(MAX_WAVES, conf.getint("core", "max_map_length", fallback=MAX_WAVES))
    return planned, chosen(ports, spec.name, planned.plan if bounded else None).only(most).at_most(of_a_run)


def beyond(taken: int, later: int) -> str:
    """Return the refusal: a Dag run takes fewer waves than there are."""
    return (
        f"this run takes {taken:,} of {count(taken + later, 'wave')}, and leaves {later:,} to the next: one Dag run "
        f"takes at most {MAX_WAVES:,}, and Airflow maps a task over at most [core] max_map_length values"
    )


def explain(made: Plan, where: str, *, dry_run: bool) -> Iterator[str]:
    """Explain in lines the slices that a plan reads, and its blocks, at most `SHOWN_LINES` of each kind."""
    yield heading(made, dry_run=dry_run)
    yield from range_lines(made, most=SHOWN_LINES)
    yield from remarks(made, where, dry_run=dry_run, most=SHOWN_LINES)
