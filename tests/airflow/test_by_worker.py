"""A worker beside Airflow stages for a task: the task asks, waits without a slot, and ends as the worker's work did."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_kafka_lake.core.errors import JobFailedError, UnavailableError, UnfinishedError
from airflow_kafka_lake.core.ledger.requests import EndRequest, is_wanted
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, WaveState
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.running import WaveWorker
from airflow_kafka_lake.triggers import LedgerTrigger, ResumedTrigger, WaveServedTrigger

from .conftest import ORDERS, Events, World

Context = dict[str, Any]


def planned(world: World, context: Context) -> str:
    """Plan one wave of three records."""
    world.produce(3)
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    return wave


def task(wave: str, **how: Any) -> IngestWaveOperator:
    """Return a task that lets a worker stage its wave."""
    return IngestWaveOperator(task_id="ingest", wave=wave, **{"stage_by": "worker", **how})


def deferred(operator: IngestWaveOperator, context: Context) -> TaskDeferred:
    """Run a task until it defers."""
    with pytest.raises(TaskDeferred) as found:
        operator.execute(context)
    return found.value


def resumed(world: World, operator: IngestWaveOperator, context: Context, waited: TaskDeferred) -> Any:
    """Let the trigger find its answer, and run the task on with it."""
    (event,) = asyncio.run(_events(opened(waited.trigger, world.ledger)))
    return getattr(operator, waited.method_name)(context, event, **(waited.kwargs or {}))


async def _events(trigger: LedgerTrigger) -> list[Any]:
    return [event.payload async for event in trigger.run()]


def opened(trigger: Any, ledger: Any) -> Any:
    """Return a trigger, as another triggerer makes it anew, whose time passes by sleeping."""
    _, arguments = trigger.serialize()
    made = type(trigger)(**arguments)
    at = [0.0]

    async def sleep(seconds: float) -> None:
        at[0] += seconds

    made._ledger, made.now, made.sleep = ledger, lambda: at[0], sleep
    return made


def serve(world: World) -> WaveWorker:
    """Let a worker do what is asked for."""
    ports = world.ports("worker")
    made = WaveWorker(
        ledger=world.ledger,
        clock=world.clock,
        processes=ports.processes,
        opened=lambda _: nullcontext(ports),
        progress=world.logged.append,
        actor="worker",
    )
    made.run(until_idle=True)
    return made


def test_task_waits_for_a_worker_and_ends_as_if_it_had_staged(
    world: World, context: Context, told: Events, caplog: pytest.LogCaptureFixture
) -> None:
    """The same XCom, the same asset events and the same line in its log; Spark is no business of Airflow's worker."""
    wave = planned(world, context)
    operator, here = task(wave), told.task("ingest")
    before = len(world.opened)
    waited = deferred(operator, here)
    assert isinstance(waited.trigger, WaveServedTrigger)
    assert (world.opened[before:], world.runner.jobs) == ([], [])
    assert serve(world).waves == 1
    with caplog.at_level("INFO"):
        assert resumed(world, operator, here, waited) == {"wave": wave, "state": "COMMITTED", "ranges": 1, "rows": 3}
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line.startswith(f"wave {wave} is in raw.orders, ")]
    assert not [line for line in said if "nothing to do" in line]
    assert not any(item.get("need_spark") for item in world.opened)
    assert world.ledger.requests() == ()
    told.end(here)
    assert [event.extra["streams"][0]["to"] for event in told.accepted] == [3]


def test_setting_decides_where_a_dag_says_nothing(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`[kafka_lake] stage_by`; what a Dag says comes first, and what cannot be meant is refused in words."""
    wave = planned(world, context)
    monkeypatch.setenv("AIRFLOW__KAFKA_LAKE__STAGE_BY", "worker")
    assert isinstance(deferred(task(wave, stage_by=None), context).trigger, WaveServedTrigger)
    monkeypatch.setenv("AIRFLOW__KAFKA_LAKE__STAGE_BY", "wroker")
    with pytest.raises(AirflowFailException, match="stage_by: 'wroker' is neither task nor worker"):
        task(wave, stage_by=None).execute(context)
    assert task(wave, stage_by="task").execute(context)["rows"] == 3


@pytest.mark.parametrize(
    ("how", "said"),
    [({"deferrable": False}, "may not be deferred"), ({"wanted_for": timedelta(seconds=5)}, "too short")],
    ids=str,
)
def test_what_cannot_work_is_refused_before_anything_is_asked_for(
    world: World, context: Context, how: dict[str, Any], said: str
) -> None:
    """No request is left behind."""
    wave = planned(world, context)
    with pytest.raises(AirflowFailException, match=said):
        task(wave, **how).execute(context)
    assert world.ledger.requests() == ()


def test_failure_of_the_worker_is_the_tasks(world: World, context: Context) -> None:
    """An error that may pass is raised for Airflow's retries; the retry asks anew."""
    wave = planned(world, context)
    operator = task(wave)
    waited = deferred(operator, context)
    world.runner.failures.append("No space left on device")
    serve(world)
    with pytest.raises(JobFailedError, match="No space left on device"):
        resumed(world, operator, context, waited)
    waited = deferred(operator, context)
    assert serve(world).waves == 1
    assert resumed(world, operator, context, waited)["rows"] == 3


def test_failure_that_repeating_cannot_help_fails_the_task_at_once(world: World, context: Context) -> None:
    """A person has cancelled the wave while the task waited: the message says so, and no Spark is needed for it."""
    wave = planned(world, context)
    operator = task(wave)
    waited = deferred(operator, context)
    decisions.cancel(world.ports(), wave, "not now")
    with pytest.raises(AirflowFailException, match="CANCELLED"):
        resumed(world, operator, context, waited)
    assert not any(item.get("need_spark") for item in world.opened)


def test_task_waits_for_the_end_of_a_pause_as_always(world: World, context: Context) -> None:
    """The worker answers that the pipeline is paused; the task waits for the resume, and then asks again."""
    wave = planned(world, context)
    operator = task(wave)
    waited = deferred(operator, context)
    subject = decisions.find_pausable(world.ledger, "orders")
    decisions.pause(world.ports(), subject, "maintenance")
    serve(world)
    with pytest.raises(TaskDeferred) as found:
        resumed(world, operator, context, waited)
    assert isinstance(found.value.trigger, ResumedTrigger)
    decisions.resume(world.ports(), subject)
    with pytest.raises(TaskDeferred) as again:
        resumed(world, operator, context, found.value)
    assert isinstance(again.value.trigger, WaveServedTrigger)
    assert serve(world).waves == 1


def test_trigger_keeps_the_request_alive_and_says_how_it_is(world: World, context: Context) -> None:
    """While no worker comes it says since when, and how one is started; its request never lapses."""
    wave = planned(world, context)
    waited = deferred(task(wave, worker_timeout=timedelta(hours=2)), context)
    trigger = opened(waited.trigger, world.ledger)
    answers, ask = [], trigger.ask

    def asked(*given: Any) -> Any:
        assert is_wanted(world.ledger.requests(wave))
        answers.append(ask(*given))
        return answers[-1]

    trigger.ask = asked
    slept = trigger.sleep

    async def sleep(seconds: float) -> None:
        await slept(seconds)
        world.clock.advance(timedelta(seconds=seconds))

    trigger.sleep = sleep
    (event,) = asyncio.run(_events(trigger))
    assert event["status"] == "error"
    assert event["message"].startswith("UnfinishedError: No worker has taken wave")
    assert "kafka-lake worker" in event["message"]
    said = [answer.message for answer in answers]
    waiting = f"wave {wave} of pipeline orders waits for a worker"
    assert (said[0], "no worker has taken wave" in said[-1]) == (waiting, True)
    assert all(text == waiting or "no worker has taken wave" in text for text in said)
    assert world.ledger.requests() == ()
    assert len(answers) < 140, "a look a minute, and a few at the begin"


def test_trigger_says_how_far_a_worker_is(world: World, context: Context) -> None:
    """A living process has the wave: nothing is missing, however long it takes."""
    from airflow_kafka_lake.core.ledger.attempts import ClaimWave, Renew
    from airflow_kafka_lake.core.reports.progress import Progress, Step

    from .conftest import OTHER

    wave = planned(world, context)
    waited = deferred(task(wave, worker_timeout=timedelta(0)), context)
    lease = timedelta(minutes=2)
    claim = world.ledger.commit(ClaimWave(wave=wave, attempt="a" * 16, holder=OTHER, lease=lease))
    trigger = opened(waited.trigger, world.ledger)
    assert trigger.ask(world.ledger).message == f"{OTHER.shown} works on wave {wave}"
    progress = Progress(step=Step.READ, rows=1, rows_expected=3)
    world.ledger.commit(Renew(key=claim.key, lease=lease, progress=progress))
    assert "read 1 row of 3 offsets" in trigger.ask(world.ledger).message
    world.clock.advance(timedelta(seconds=40))
    assert trigger.ask(world.ledger).message == (
        f"wave {wave}, {OTHER.shown}: no sign of life for 40 s; another worker can take it over in 1 min 20 s, on its "
        "own host at once if it is dead"
    )
    world.clock.advance(timedelta(minutes=3))
    with pytest.raises(UnfinishedError, match="No worker has taken"):
        trigger.ask(world.ledger)


def test_trigger_revives_no_request_that_has_ended(world: World, context: Context) -> None:
    """Another triggerer has ended it, or its answer was taken: nothing is asked for, and no worker begins it again."""
    wave = planned(world, context)
    waited = deferred(task(wave), context)
    trigger = opened(waited.trigger, world.ledger)
    assert not trigger.ask(world.ledger).done
    world.ledger.commit(EndRequest(id=trigger.request, wave=wave))
    answer = trigger.ask(world.ledger)
    assert (answer.done, "has ended" in answer.message) == (True, True)
    assert world.ledger.requests() == ()


@pytest.mark.parametrize(
    ("state", "stays"), [("failed", False), ("success", False), (None, True), ("scheduled", True), ("missing", True)]
)
def test_only_a_task_that_a_person_has_ended_ends_its_request_at_once(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch, state: str | None, stays: bool
) -> None:
    """One that was cleared is about to ask again, and goes on with the attempt that runs."""
    from airflow.sdk.execution_time import task_runner

    wave = planned(world, context)
    trigger = opened(deferred(task(wave), context).trigger, world.ledger)
    trigger._task_instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="ingest", map_index=4)

    def send(_: Any) -> Any:
        states = {} if state == "missing" else {"run": {"ingest_4": state}}
        return SimpleNamespace(task_states=states)

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)
    asyncio.run(trigger.on_kill())
    assert is_wanted(world.ledger.requests(wave)) is stays


def test_task_that_was_cleared_and_is_then_marked_failed_wants_nothing(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request from before it was cleared does not keep the worker at it."""
    from airflow.sdk.execution_time import task_runner

    wave = planned(world, context)
    deferred(task(wave), context)
    trigger = opened(deferred(task(wave), context).trigger, world.ledger)
    trigger._task_instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="ingest", map_index=-1)

    def send(_: Any) -> Any:
        return SimpleNamespace(task_states={"run": {"ingest": "failed"}})

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)
    asyncio.run(trigger.on_kill())
    assert world.ledger.requests(wave) == ()


def test_airflow_that_does_not_answer_ends_no_request(
    world: World, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request lapses by itself, if the task does not come back."""
    from airflow.sdk.execution_time import task_runner

    wave = planned(world, context)
    trigger = opened(deferred(task(wave), context).trigger, world.ledger)
    trigger._task_instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="ingest", map_index=-1)

    def send(_: Any) -> Any:
        raise UnavailableError("the API server does not answer")

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)
    with pytest.raises(UnavailableError):
        asyncio.run(trigger.on_kill())
    assert is_wanted(world.ledger.requests(wave))


def test_end_of_a_triggerer_ends_no_request(world: World, context: Context) -> None:
    """A restart, or a move to another triggerer, only closes the connection."""
    wave = planned(world, context)
    trigger = opened(deferred(task(wave), context).trigger, world.ledger)
    asyncio.run(trigger.cleanup())
    assert is_wanted(world.ledger.requests(wave))


def test_cleared_task_goes_on_with_the_attempt_that_runs(world: World, context: Context) -> None:
    """One job, one attempt: the second request is answered by the first one's work."""
    wave = planned(world, context)
    operator = task(wave)
    deferred(operator, context)
    again: list[TaskDeferred] = []

    def clear(rows: Any) -> Any:
        again.append(deferred(operator, context))
        return rows

    world.runner.tamper = clear
    assert serve(world).waves == 1
    assert resumed(world, operator, context, again[0])["state"] == "COMMITTED"
    assert [item.outcome for item in world.ledger.attempts(wave)] == [AttemptOutcome.COMMITTED]
    assert len(world.runner.jobs) == 1
    assert world.ledger.wave(wave).state is WaveState.COMMITTED


def test_arguments_of_the_trigger_are_ids_and_numbers(world: World, context: Context) -> None:
    """They go through Airflow's database: no secret, and no part of a record."""
    wave = planned(world, context)
    _, arguments = deferred(task(wave, bytes_per_second="5 MB"), context).trigger.serialize()
    assert sorted(arguments) == [
        "actor",
        "bytes_per_second",
        "ledger_conn_id",
        "pipeline",
        "request",
        "wanted_for",
        "wave",
        "worker_timeout",
    ]
    assert arguments["bytes_per_second"] == 5_000_000
