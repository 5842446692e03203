"""Tell Airflow of moved watermarks, as asset events that it accepts together with the task's success."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from airflow_kafka_lake.assets import all_pipelines, event_extras, pipeline_asset
from airflow_kafka_lake.core.ledger.moves import joined
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.ledger.rows import NotifiedRow
from airflow_kafka_lake.core.metrics.samples import of_moves
from airflow_kafka_lake.ports import Ledger
from airflow_kafka_lake.services.notifying import begin_delivery, end_delivery
from airflow_kafka_lake.signals import metrics
from airflow_kafka_lake.wiring import assemble

EVENTS = all_pipelines()
"""The outlet of all pipelines' events: which of them moved is known only when the task runs."""

LOGGED = 100
"""Moves that a task's log names; the rest is counted."""

NEWEST = 10
"""Events of a pipeline's asset among which a delivery is looked for: no other task has delivered since, but a person
may have made events by hand."""

_logger = logging.getLogger(__name__)
_Context = Mapping[str, Any]


def notify(context: _Context, ledger: Ledger, pipeline: str, plan: str | None) -> Sequence[Advance]:
    """Emit the events of all moves that were not notified; returns these moves, and Airflow takes the events when the
    task succeeds. Raises ConcurrentError while another task notifies.
    """
    delivery = begin_delivery(ledger, pipeline, holder_of(context["ti"]), AirflowEvents(context["ti"]))
    if delivery is None:
        return ()
    for extra in event_extras(pipeline, plan, delivery.moves, after=delivery.after):
        context["outlet_events"][EVENTS].add(pipeline_asset(pipeline), extra=extra)
    moves = joined(delivery.moves)
    for move in moves[:LOGGED]:
        _logger.info("%s: watermark moved from %d to %d", move.stream, move.start, move.end)
    if len(moves) > LOGGED:
        _logger.info("and %d more watermarks moved", len(moves) - LOGGED)
    return delivery.moves


def confirm_events(context: _Context) -> None:
    """Record the moves of the task's events as notified, if Airflow has accepted them.

    Airflow runs the callback also when it has refused the task's success, which was marked failed meanwhile: so it is
    asked for the events themselves. What it does not have, the next task that notifies delivers.
    """
    events = context["outlet_events"][EVENTS].asset_alias_events
    if not events:
        return
    last, holder = events[-1].extra, holder_of(context["ti"])
    delivery = NotifiedRow(pipeline=last["pipeline"], through=last["sequence"], holder=holder)
    with assemble.open_ledger(context["task"].ledger_conn_id) as ledger:
        if end_delivery(ledger, delivery, AirflowEvents(context["ti"])):
            metrics.send(partial(of_moves, [event.extra for event in events]))
        else:
            _logger.warning("Airflow has not accepted the asset events of this task: a later task emits them again")


def holder_of(ti: Any) -> str:
    """Name the try of a task, so that others can ask Airflow what became of it."""
    return json.dumps([ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number])


class AirflowEvents:
    """`services.notifying.Receiver`: Airflow, asked through the task's own connection to it."""

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
        return [*task, delivery.through] in [_source(event) for event in newest]


def _source(event: Any) -> list[Any]:
    """Return which task has emitted an event, and up to which move."""
    task = [event.source_dag_id, event.source_run_id, event.source_task_id, event.source_map_index]
    return [*task, (event.extra or {}).get("sequence")]
