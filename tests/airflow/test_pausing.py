"""What tasks do while a pipeline is paused, or has as many waves at work as it allows: they wait without a slot."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_kafka_lake.core.ledger.attempts import ClaimWave
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.operators.advance import FinishPlanOperator
from airflow_kafka_lake.operators.boundary import PAUSE_TIMEOUT
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.decisions import PauseSubject
from airflow_kafka_lake.triggers import ResumedTrigger, WaveAllowedTrigger

from .conftest import ORDERS, OTHER, World

Context = dict[str, Any]
ORDERS_OF = PauseSubject(pipeline="orders")
SMALL = Pipeline(
    name="orders", topics=["orders"], table="raw.orders", target_range_bytes=1, max_wave_bytes=1, waves_at_once=1
)
GONE_ON = {"status": "success", "message": "it is not paused"}


def plan(context: Context, **given: Any) -> list[str]:
    """Run the plan operator as task `plan`."""
    context["ti"].task_id = "plan"
    return PlanIngestOperator(task_id="plan", pipeline=given.pop("pipeline", ORDERS), **given).execute(context)


def asked(trigger: Any, world: World) -> bool:
    """Return whether a trigger's wait is over."""
    return trigger.ask(world.ledger).done


def test_plan_waits_without_a_slot_until_its_pipeline_is_resumed(world: World, context: Context) -> None:
    """Nothing is recorded meanwhile; then the same task plans."""
    world.produce(2)
    plan(context)
    world.produce(2)
    decisions.pause(world.ports(), ORDERS_OF, "disk is full")
    with pytest.raises(TaskDeferred) as deferred:
        plan(context)
    trigger = deferred.value.trigger
    assert isinstance(trigger, ResumedTrigger)
    assert (trigger.pipeline, trigger.plan, deferred.value.method_name) == ("orders", None, "execute_resumed")
    assert deferred.value.kwargs == {"until": trigger.until}
    assert trigger.until - time.time() <= PAUSE_TIMEOUT.total_seconds()
    assert not asked(trigger, world)
    assert len(world.ledger.waves("orders")) == 1
    decisions.resume(world.ports(), ORDERS_OF)
    assert asked(trigger, world)
    operator = PlanIngestOperator(task_id="plan", pipeline=ORDERS)
    assert len(operator.execute_resumed(context, GONE_ON, trigger.until)) == 2


def test_wave_waits_until_its_plan_is_resumed(world: World, context: Context) -> None:
    """The trigger asks about the plan that is paused, not about the pipeline alone."""
    world.produce(2)
    (wave,) = plan(context)
    mine = PauseSubject(pipeline="orders", plan=world.ledger.wave(wave).plan)
    decisions.pause(world.ports(), mine, "wrong week")
    operator = IngestWaveOperator(task_id="ingest", wave=wave)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    trigger = deferred.value.trigger
    assert isinstance(trigger, ResumedTrigger)
    assert trigger.serialize()[1]["plan"] == mine.plan
    assert not asked(trigger, world)
    decisions.resume(world.ports(), mine)
    assert asked(trigger, world)
    assert operator.execute_resumed(context, GONE_ON, trigger.until)["state"] == "COMMITTED"


def test_task_whose_wait_is_over_fails_in_words(world: World, context: Context) -> None:
    """It names who has paused what, why, how long it has waited, and what to do."""
    world.produce(2)
    (wave,) = plan(context)
    decisions.pause(world.ports(), ORDERS_OF, "disk is full")
    operator = IngestWaveOperator(task_id="ingest", wave=wave, pause_timeout=timedelta(hours=1))
    assert asked(ResumedTrigger(pipeline="orders", until=0.0), world)
    with pytest.raises(AirflowFailException, match=r"disk is full.*resume orders.*waited for 1:00:00.*clear it"):
        operator.execute_resumed(context, GONE_ON, 0.0)


def test_task_that_may_not_wait_fails_at_once(world: World, context: Context) -> None:
    """Retries would only come too early."""
    world.produce(2)
    (wave,) = plan(context)
    decisions.pause(world.ports(), ORDERS_OF, "disk is full")
    with pytest.raises(AirflowFailException, match="PausedError"):
        IngestWaveOperator(task_id="ingest", wave=wave, deferrable=False).execute(context)


def test_wave_beyond_the_limit_waits_until_another_has_ended(world: World, context: Context) -> None:
    """Over all Dags and hosts; the same task then goes on."""
    world.produce(2)
    first, second = plan(context, pipeline=SMALL)
    world.ledger.commit(ClaimWave(wave=first, attempt="f" * 16, holder=OTHER, lease=timedelta(minutes=2)))
    operator = IngestWaveOperator(task_id="ingest", wave=second)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    trigger = deferred.value.trigger
    assert isinstance(trigger, WaveAllowedTrigger)
    assert (trigger.wave, trigger.limit) == (second, 1)
    assert not asked(trigger, world)
    world.clock.advance(timedelta(minutes=3))
    assert asked(trigger, world)
    assert operator.execute_complete(context, GONE_ON)["state"] == "COMMITTED"


def test_run_takes_no_more_waves_than_it_is_asked_for(world: World, context: Context) -> None:
    """The rest stays planned and is left, so that the run ends well; the next one takes it."""
    world.produce(5)
    taken = plan(context, pipeline=SMALL, max_waves="2")
    result = context["ti"].xcom_pull(task_ids="plan", key="plan")
    assert (len(taken), result["later"], len(result["left"])) == (2, [], 3)
    for wave in taken:
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    FinishPlanOperator(task_id="finish", plan_task_id="plan").execute(context)
    assert len(plan(context, pipeline=SMALL)) == 3


@pytest.mark.parametrize(("given", "said"), [("0", "max_waves: '0' is not"), ("many", "max_waves: 'many' is not")])
def test_wrong_number_of_waves_is_refused(world: World, context: Context, given: str, said: str) -> None:
    """By the name of the argument, before anything is asked."""
    with pytest.raises(AirflowFailException, match=said):
        plan(context, max_waves=given)


def test_rate_of_a_run_reaches_the_job(world: World, context: Context) -> None:
    """As text, as a form gives it; without one the pipeline's own counts."""
    world.produce(2)
    (wave,) = plan(context)
    IngestWaveOperator(task_id="ingest", wave=wave, bytes_per_second="2 MB").execute(context)
    world.produce(1)
    world.ledger.commit(SavePipeline(spec=ORDERS.spec))
    (wave,) = plan(
        context, pipeline=Pipeline(name="orders", topics=["orders"], table="raw.orders", bytes_per_second="1 MB")
    )
    IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    assert [job.rate for job in world.runner.jobs] == [2_000_000, 1_000_000]
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    world.produce(1)
    (wave,) = plan(context)
    with pytest.raises(AirflowFailException, match="bytes_per_second: '5 kB' is too slow"):
        IngestWaveOperator(task_id="ingest", wave=wave, bytes_per_second="5 kB").execute(context)
