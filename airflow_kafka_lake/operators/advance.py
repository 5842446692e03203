"""Advance watermarks, tell Airflow of it in asset events, and end a Dag run as its plan ended."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_kafka_lake import signals
from airflow_kafka_lake.assets import Landed, all_pipelines, event_extras, pipeline_asset
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import ConcurrentError, UnfinishedError, UsageError
from airflow_kafka_lake.core.ledger.changes import NotifiedRow
from airflow_kafka_lake.core.ledger.moves import AT_ONCE, LEASE, PERIODS, joined, period_key, period_of
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.reports.metrics import of_moves, of_status
from airflow_kafka_lake.core.reports.plan import PlanSummary
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.links import PAGE, TaskLink
from airflow_kafka_lake.operators.boundary import PipelineTask, airflow_errors, ports_of, refusal, spec_of
from airflow_kafka_lake.operators.plan import PLAN_KEY
from airflow_kafka_lake.pipeline.keys import parse_time
from airflow_kafka_lake.ports import Ledger, Ports
from airflow_kafka_lake.services.advance import advance, begin_delivery, close_periods, end_delivery, sync_group
from airflow_kafka_lake.services.identity import known_spec
from airflow_kafka_lake.services.reporting import status
from airflow_kafka_lake.services.running import finish_plan, refuse_holds
from airflow_kafka_lake.signals import show_page
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.connections import DEFAULT_LEDGER

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context


# Tell Airflow of moved watermarks, as asset events that it accepts together with the task's success.

EVENTS = all_pipelines()
"""The outlet of all pipelines' events: which of them moved is known only when the task runs."""

LOGGED = 100
"""Moves that a task's log names; the rest is counted."""

NEWEST = 10
"""Events of a pipeline's asset among which a delivery is looked for: no other task has delivered since, but a person
may have made events by hand."""

_logger = logging.getLogger(__name__)
_Context = Mapping[str, Any]
T = TypeVar("T")


def notify(context: _Context, ledger: Ledger, pipeline: str, plan: str | None) -> Sequence[Advance]:
    """Emit the events of all moves that were not notified; returns these moves, and Airflow takes the events when the
    task succeeds. Raises ConcurrentError while another task notifies."""
    ti = context["ti"]
    delivery = begin_delivery(ledger, pipeline, holder_of(ti), AirflowEvents(ti))
    if delivery is None:
        return ()
    after, delivered = delivery
    for extra in event_extras(pipeline, plan, delivered, after=after, ledger=ledger.ledger_id()):
        context["outlet_events"][EVENTS].add(pipeline_asset(pipeline), extra=extra)
    moves = joined(delivered)
    for move in moves[:LOGGED]:
        _logger.info("%s: asset event for offsets %d to %d", move.stream, move.start, move.end)
    if len(moves) > LOGGED:
        _logger.info("and for %s", count(len(moves) - LOGGED, "more partition"))
    return delivered


def confirm_events(context: _Context) -> None:
    """Record the moves and the periods of the task's events as notified, if Airflow has accepted them.

    Airflow runs the callback also when it has refused the task's success, which was marked failed meanwhile: so it is
    asked for the events themselves. The next task that notifies delivers the events that it does not have.
    """
    told, ti, task = context["outlet_events"], context["ti"], context["task"]
    events = [Landed.from_extra(event.extra) for event in told[EVENTS].asset_alias_events]
    ends = {event.pipeline: event.sequence for event in events} | getattr(task, "closed", {})
    if not ends:
        return
    with assemble.open_ledger(task.ledger_conn_id) as ledger:
        for subject, through in ends.items():
            delivery = NotifiedRow(pipeline=subject, through=through, holder=holder_of(ti))
            if not end_delivery(ledger, delivery, AirflowEvents(ti)):
                _logger.warning("Airflow has not accepted the asset events of this task: a later task emits them again")
            elif events and subject == events[-1].pipeline:
                signals.send(partial(of_moves, subject, [item for event in events for item in event.slices]))


def holder_of(ti: Any) -> str:
    """Name the try of a task, so that others can ask Airflow for its state."""
    return json.dumps([ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number])


class AirflowEvents:
    """`services.advance.Receiver`: Airflow, asked through the task's own connection to it."""

    def __init__(self, ti: Any) -> None:
        self._ti = ti

    def has_ended(self, holder: str) -> bool:
        """Return whether a try is over: Airflow accepts the success of a task only while the task is running.

        False also when Airflow knows no such task: it may be another Airflow's.
        """
        *task, _ = json.loads(holder)
        dag, run, name, index = task
        if task == json.loads(holder_of(self._ti))[:-1]:
            return holder != holder_of(self._ti)
        states = self._ti.get_task_states(dag_id=dag, run_ids=[run], task_ids=[name], map_index=index).get(run, {})
        key = name if index < 0 else f"{name}_{index}"
        return key in states and states[key] != "running"

    def has_accepted(self, delivery: NotifiedRow) -> bool:
        """Return whether the delivery's last event is among the newest of the pipeline's asset."""
        from airflow.sdk.execution_time.context import InletEventsAccessors

        asset = pipeline_asset(delivery.pipeline)
        newest = InletEventsAccessors([asset])[asset].ascending(False).limit(NEWEST)
        *task, _ = json.loads(delivery.holder or "[0]")
        return any(
            task == [event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index]
            and delivery.through == (event.extra or {}).get("sequence")
            for event in newest
        )


NOTIFY_TIMEOUT = LEASE.total_seconds() + 10
"""Seconds that a task waits at most while another notifies: by then its lease has ended."""

NOTIFY_PAUSE = 2


class AdvanceWatermarkOperator(PipelineTask):
    """Moves every watermark of a pipeline to the end of its unbroken committed run, also when waves failed.

    Its events (`assets.pipeline_asset`) name the offsets that no task of a wave has notified of, also of commands.

    With `closes` also events of the hours or days (UTC) that are complete in the lake, each once, and of late records:
    of `closed_periods` and `late_records`, which have to be among its `outlets`.

    :param plan_task_id: the PlanIngestOperator of this Dag: a dry run advances nothing, a plan that failed fails this
        task too; left out, the task just advances
    :param closes: the periods to tell of, "hour" or "day"
    :param lateness: how long after its end a period still waits for records
    :param since: a time in the first period to tell of, with its zone, also as text ("2026-03-01T00:00:00Z"); left
        out, it is the next that begins
    """

    ui_color = "#f7f0d4"
    operator_extra_links: Collection[TaskLink] = (PAGE,)

    def __init__(
        self,
        *,
        plan_task_id: str | None = None,
        closes: str | None = None,
        lateness: timedelta = timedelta(0),
        since: datetime | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.plan_task_id = plan_task_id
        self.closes = closes
        self.lateness = lateness
        self.since = since
        self.closed: dict[str, int] = {}
        self.outlets = [*self.outlets, EVENTS]
        self.on_success_callback = [confirm_events, *self.on_success_callback]

    def execute(self, context: Context) -> dict[str, Any]:
        """Advance; returns `{"pipeline", "moved", "sequence", "rows"}` of the moves that this task notifies of.

        `sequence` is None when there were none: those of a wave are notified by the task that ingested it. With
        `closes` also `closed`, the keys of the periods, and `late`, the rows of each closed one.
        """
        planned = self._planned(context) if self.plan_task_id else None
        if planned and planned.dry_run:
            self._periods(planned.pipeline)
            self.log.info("a dry run moves no watermark")
            return {"pipeline": planned.pipeline, "moved": 0, "sequence": None, "rows": 0}
        with airflow_errors():
            spec = spec_of(self.pipeline, self.ledger_conn_id)
            periods, closed = self._periods(spec.name), {}
            show_page(self, spec.name)
            with ports_of(self, spec, context) as ports:
                if planned and planned.plans:
                    known_spec(ports.ledger, spec.name)  # a ledger that has lost them moves nothing, and says so
                if ports.ledger.pipeline(spec.name) is not None:
                    advance(ports, spec.name)
                    sync_group(ports, spec)
                    signals.send(lambda: of_status(status(ports, spec)))
                plan = planned.plan if planned else None
                moves = self._patiently(ports, partial(notify, context, ports.ledger, spec.name, plan))
                if periods and ports.ledger.pipeline(spec.name) is not None:
                    closed = self._patiently(ports, partial(self._close, context, ports, spec, periods))
        return {
            "pipeline": spec.name,
            "moved": len(moves),
            "sequence": max((move.sequence for move in moves), default=None),
            "rows": sum(move.rows for move in moves),
            **closed,
        }

    def _planned(self, context: Context) -> PlanSummary:
        """Return the plan task's XCom. Where that task failed, this one has nothing to say: it is skipped, if a task
        after it depends on the plan as well, so that the run still fails."""
        plan, dag = str(self.plan_task_id), self.get_dag()
        if dag and any(plan in dag.get_task(after).upstream_task_ids for after in self.downstream_task_ids):
            return plan_result(plan, context, failed=AirflowSkipException)
        return plan_result(plan, context)

    def _periods(self, pipeline: str) -> Mapping[str, Asset]:
        """Return the assets of closed periods and of late records, by the subjects of their deliveries, and take them
        from the outlets: of an outlet Airflow makes an event also where a task has told nothing."""
        if (kind := self.closes) is None:
            return {}
        found = {name: pipeline_asset(name) for name in (f"{pipeline}/{kind}", f"{pipeline}/{kind}/late")}
        if kind not in PERIODS or not all(asset in self.outlets for asset in found.values()):
            raise UsageError(f"closes: {' or '.join(PERIODS)}, with closed_periods and late_records among the outlets")
        self._first()
        if not isinstance(self.lateness, timedelta) or self.lateness < timedelta(0):
            raise UsageError(f"lateness: {self.lateness} is no length of time")
        self.outlets = [item for item in self.outlets if item not in found.values()]
        return found

    def _first(self) -> datetime | None:
        since = parse_time(self.since) if isinstance(self.since, str) else self.since
        if since is not None and getattr(since, "tzinfo", None) is None:
            raise UsageError(f"since: {since} is no time with its zone")
        return since

    def _close(self, context: Context, ports: Ports, spec: PipelineSpec, assets: Mapping[str, Asset]) -> dict[str, Any]:
        """Emit the events of the periods that are closed, and of late records: for each period one, where this Airflow
        has asset partitions, else one that names all of them."""
        ti, told, kind = context["ti"], context["outlet_events"], str(self.closes)
        first = None if (since := self._first()) is None else period_of(kind, since)
        closed, newest, rows = close_periods(
            ports, spec, kind, lateness=self.lateness, first=first, holder=holder_of(ti), receiver=AirflowEvents(ti)
        )
        keys = [period_key(kind, period) for period in closed]
        self.log.info("closed: %s", ", ".join(keys) or f"none; the next is {period_key(kind, closed.start)}")
        late = {period_key(kind, period): rows[period] for period in sorted(rows)[-AT_ONCE:]}
        extras: list[tuple[int, list[str], dict[str, Any]]] = [
            (closed.stop - 1, keys, {"closed": keys}),
            (newest, list(late), {"late": late, "rows": sum(rows.values())}),
        ]
        for (subject, asset), (sequence, named, extra) in zip(assets.items(), extras, strict=True):
            if named:
                self.closed[subject] = sequence
                event = told[asset]
                event.extra = {"pipeline": spec.name, "kind": kind, "sequence": sequence, **extra}
                if hasattr(event, "add_partitions"):
                    event.add_partitions(named)
                self.outlets.append(asset)
        return {"closed": keys, "late": late}

    def _patiently(self, ports: Ports, work: Callable[[], T]) -> T:
        """Do work on deliveries; wait for another task that delivers now, which is a matter of seconds."""
        waited = 0
        while True:
            try:
                return work()
            except ConcurrentError as busy:
                if waited >= NOTIFY_TIMEOUT:
                    raise
                if not waited:
                    self.log.info("%s Waiting for it.", busy.message)
                waited += NOTIFY_PAUSE
                ports.clock.sleep(NOTIFY_PAUSE)


class FinishPlanOperator(BaseOperator):
    """Fails while anything of a plan is unresolved or was left out, or anything of its pipeline is on hold.

    So the Dag run's state is honest: a hold that an earlier run met fails every run until it is resolved.

    :param plan_task_id: the PlanIngestOperator of this Dag
    :param ledger_conn_id: Airflow connection of the ledger (templated)
    """

    template_fields: Sequence[str] = ("ledger_conn_id",)
    ui_color = "#eeeeee"
    operator_extra_links: Collection[TaskLink] = (PAGE,)

    def __init__(self, *, plan_task_id: str, ledger_conn_id: str = DEFAULT_LEDGER, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_task_id = plan_task_id
        self.ledger_conn_id = ledger_conn_id

    def execute(self, context: Context) -> None:
        """Check; raises AirflowFailException naming the first range, and for a hold its remedy."""
        planned = plan_result(self.plan_task_id, context)
        show_page(self, planned.pipeline)
        if planned.dry_run:
            return
        with airflow_errors():
            self._check(planned, context)
            planned.refuse_left_out()
        taken = count(len(planned.waves), "wave")
        self.log.info("nothing is open: this run took %s, see the log of %s", taken, self.plan_task_id)

    def _check(self, planned: PlanSummary, context: Context) -> None:
        with assemble.open_ledger(self.ledger_conn_id) as ledger:
            if not planned.plans and ledger.pipeline(planned.pipeline) is None:
                return  # Nothing was ever planned, so nothing is open.
            spec = known_spec(ledger, planned.pipeline)
        with ports_of(self, spec, context) as ports:
            unfinished: UnfinishedError | None = None
            for plan in planned.plans:
                try:
                    finish_plan(ports, spec.name, plan, leaving=planned.left, later=planned.later)
                except UnfinishedError as error:
                    unfinished = unfinished or error
            # Holds first: the rest may wait for just these.
            refuse_holds(ports, spec.name)
            if unfinished is not None:
                raise unfinished


class RefuseOperator(BaseOperator):
    """Fails with a reason that was known when the Dag was read, such as a pipeline file that does not validate.

    :param problem: the reason, in words
    """

    ui_color = "#f7dcdc"

    def __init__(self, *, problem: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem = problem

    def execute(self, context: Context) -> None:  # noqa: ARG002  # Airflow's signature
        """Raise AirflowFailException."""
        raise refusal(self.problem)


def plan_result(
    plan_task_id: str, context: Mapping[str, Any], *, failed: Callable[[str], Exception] = refusal
) -> PlanSummary:
    """Return the plan task's XCom; skip when that task was skipped, end as `failed` when it pushed none."""
    ti = context["ti"]
    result = ti.xcom_pull(task_ids=plan_task_id, key=PLAN_KEY)
    if isinstance(result, Mapping) and {"pipeline", "plan"} <= result.keys():
        return PlanSummary.from_json(result)
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=[plan_task_id])
    if "skipped" in states.get(ti.run_id, {}).values():
        raise AirflowSkipException("the plan was skipped: nothing was started")
    if "upstream_failed" in states.get(ti.run_id, {}).values():
        raise failed(f"Task {plan_task_id} was not run, for what comes before it failed: its log says why.")
    raise failed(f"Task {plan_task_id} left no plan: its log says why. Clear it to plan again.")
