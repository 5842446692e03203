"""A worker brings into the lake what tasks ask for: at most one job does useful work, and only while it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    ConnectionSettingsError,
    GateClosedError,
    JobFailedError,
    KafkaLakeError,
    LedgerSchemaError,
    LimitReachedError,
    PausedError,
    UnavailableError,
)
from airflow_kafka_lake.core.ledger.attempts import ClaimWave
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.requests import AskForWave, EndRequest, RequestRecord, error_of
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, LeaseHolder, WaveState
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.running import POLL_SECONDS, PortsFor, WaveWorker
from tests.gates import Before, Calls, Killed, KilledError, Passing
from tests.world import SPEC, World

pytestmark = pytest.mark.unit
SMALL = replace(SPEC, target_range_bytes=1, max_wave_bytes=1)


def ask(world: World, wave: str, name: str = "task") -> None:
    """Ask for a wave, or renew the request."""
    world.ledger.commit(AskForWave(id=name, wave=wave, actor="airflow:hourly/today/ingest"))


def end(world: World, wave: str, name: str = "task") -> KafkaLakeError | None:
    """End a request; return the error that has answered it."""
    return error_of(world.ledger.commit(EndRequest(id=name, wave=wave)))


def worker(
    world: World, passing: Passing | None = None, *, opened: PortsFor | None = None, **how: object
) -> WaveWorker:
    """Return one more worker."""
    ports = world.worker(passing)
    return WaveWorker(
        ledger=ports.ledger,
        clock=ports.clock,
        processes=ports.processes,
        opened=opened or (lambda _: nullcontext(ports)),
        progress=world.said.append,
        actor=ports.actor,
        **how,  # type: ignore[arg-type]
    )


def serve(world: World, passing: Passing | None = None, **how: object) -> WaveWorker:
    """Let one more worker do what is asked for."""
    made = worker(world, passing, **how)  # type: ignore[arg-type]
    made.run(until_idle=True)
    return made


def outcomes(world: World, wave: str) -> list[AttemptOutcome]:
    """Return how the attempts at a wave ended."""
    return [item.outcome for item in world.ledger.attempts(wave)]


def test_waves_that_are_asked_for_land_one_after_another() -> None:
    """In the order of their plan, not of the requests; each advances, and what is not asked for stays planned."""
    world = World(spec=SMALL)
    world.produce(3)
    first, second, third = (wave.id for wave in world.plan().waves)
    ask(world, second, "b")
    ask(world, first, "a")
    done = serve(world)
    assert (done.waves, done.rows, done.problems) == (2, 2, 0)
    assert [job.wave for job in world.runner.jobs] == [first, second]
    assert [world.ledger.wave(wave).state for wave in (first, second, third)] == [
        WaveState.COMMITTED,
        WaveState.COMMITTED,
        WaveState.PLANNED,
    ]
    assert world.stream().watermark == 2
    assert "airflow:hourly/today/ingest" in "".join(world.said)


def test_worker_of_some_pipelines_leaves_the_others(world: World) -> None:
    """What it does not serve is none of its work."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    assert serve(world, pipelines=("others",)).waves == 0
    assert serve(world, pipelines=("orders",)).waves == 1


def test_wave_that_fails_answers_its_tasks(world: World) -> None:
    """With the error as it was; the worker goes on with other waves, and the next request tries this one again."""
    world.produce(1)
    wave = world.planned_wave()
    world.runner.failures.append("No space left on device")
    ask(world, wave, "one")
    ask(world, wave, "two")
    done = serve(world)
    assert (done.waves, done.problems, outcomes(world, wave)) == (0, 1, [AttemptOutcome.FAILED])
    for name in ("one", "two"):
        error = end(world, wave, name)
        assert isinstance(error, JobFailedError)
        assert error.message == "No space left on device"
    ask(world, wave, "again")
    assert serve(world).waves == 1
    world.advance()
    world.check()


def test_wave_that_is_always_left_keeps_no_other_from_its_turn() -> None:
    """What others hold may stay held: it is tried again, also while others land, and again when none is left."""
    world = World(spec=SMALL)
    world.produce(3)
    first, *others = (wave.id for wave in world.plan().waves)
    ports, tried = world.worker(), []

    def opened(request: RequestRecord) -> AbstractContextManager[Ports]:
        tried.append(request.wave)
        if request.wave == first:
            raise ConcurrentError("Other transactions hold its rows. Repeat.")
        return nullcontext(ports)

    for number, wave in enumerate([first, *others]):
        ask(world, wave, f"task {number}")
    done = worker(world, opened=opened, is_ending=lambda: len(tried) == 6)
    done.run()
    assert tried == [first, others[0], first, others[1], first, first]
    assert (done.waves, done.problems) == (2, 0)


def paused(world: World) -> None:
    """Pause the pipeline."""
    decisions.pause(world.worker(), decisions.find_pausable(world.ledger, "orders"), "maintenance")


def full(world: World) -> None:
    """Let another process work on the other wave, of a pipeline that allows one at once."""
    first = world.ledger.waves("orders")[0].id
    holder = LeaseHolder(host="beta", pid=99, started=1.0)
    world.ledger.commit(ClaimWave(wave=first, attempt="f" * 16, holder=holder, lease=LEASE))


@pytest.mark.parametrize(("keep", "kind", "fact"), [(paused, PausedError, "plan"), (full, LimitReachedError, "limit")])
def test_wave_that_may_not_begin_answers_its_tasks(
    keep: Callable[[World], None], kind: type[KafkaLakeError], fact: str
) -> None:
    """So that they wait for just that, without a worker, as if they had staged it themselves."""
    world = World(spec=replace(SMALL, waves_at_once=1))
    world.produce(2)
    wave = world.plan().waves[1].id
    keep(world)
    ask(world, wave)
    assert serve(world).problems == 1
    error = end(world, wave)
    assert type(error) is kind
    assert error is not None
    assert fact in error.facts
    assert world.runner.jobs == []


def test_wave_that_must_wait_for_its_turn_answers_its_tasks() -> None:
    """Records that come first are not in the lake."""
    world = World(partitions=1, spec=replace(SPEC, layout_grace=0))
    world.produce(2)
    world.run()
    world.produce(1)
    world.kafka.add_partitions("orders", 2)
    world.plan()
    world.produce(1, 1)
    plan = world.plan()
    gated = [wave.id for wave in plan.waves if world.ledger.gate(wave.id)]
    assert gated
    ask(world, gated[0])
    serve(world)
    assert isinstance(end(world, gated[0]), GateClosedError)


def test_worker_whose_settings_are_wrong_answers_its_tasks(world: World) -> None:
    """A person has to see it, and nothing was claimed."""

    def refuse(_: object) -> NoReturn:
        raise ConnectionSettingsError("connection lake_default is missing")

    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    assert serve(world, opened=refuse).problems == 1
    assert isinstance(end(world, wave), ConnectionSettingsError)
    assert world.ledger.attempts(wave) == ()


def test_wave_that_another_process_has_is_left_to_it(world: World) -> None:
    """Two workers saw it at once: the claim decides, the other goes on, and no task is answered."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    other = worker(world)
    done = serve(world, Before("ledger.claim", lambda: other.run(until_idle=True)))
    assert (other.waves, other.problems, done.problems) == (1, 0, 0)
    assert outcomes(world, wave) == [AttemptOutcome.COMMITTED]
    assert len(world.runner.jobs) == 1
    world.check()


def test_wave_that_is_not_wanted_any_more_is_ended(world: World) -> None:
    """Its task was marked failed while Spark read: the attempt ends at the next renewal, and nothing is visible."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    done = serve(world, Before("runner.stage", lambda: end(world, wave)))
    assert (done.waves, done.problems, world.offsets()) == (0, 0, [])
    (attempt,) = world.ledger.attempts(wave)
    assert attempt.outcome is AttemptOutcome.FAILED
    assert str(attempt.error).startswith("NotWantedError: Wave ")
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    ask(world, wave, "again")
    assert serve(world).waves == 1
    world.check()


def test_request_that_lapses_ends_the_work(world: World) -> None:
    """No triggerer has renewed it for longer than it holds."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    serve(world, Before("runner.stage", lambda: world.clock.advance(timedelta(minutes=6))))
    assert (world.offsets(), outcomes(world, wave)) == ([], [AttemptOutcome.FAILED])


def test_task_that_asks_again_goes_on_with_the_attempt_that_runs(world: World) -> None:
    """It was cleared while Spark read: its first request ends, the second one holds, and one job does all of it."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave, "before")

    def clear() -> None:
        ask(world, wave, "after")
        end(world, wave, "before")

    assert serve(world, Before("runner.stage", clear)).waves == 1
    assert (outcomes(world, wave), len(world.runner.jobs)) == ([AttemptOutcome.COMMITTED], 1)
    world.check()


@pytest.mark.parametrize("call", ["runner.stage", "table.publish", "ledger.record_commit", "ledger.advance"])
def test_killed_worker_leaves_its_wave_to_the_next(world: World, call: str) -> None:
    """A worker on the same host knows that it is dead, and does not wait for its lease; every record lands once."""
    world.produce(3)
    wave = world.planned_wave()
    ask(world, wave)
    with pytest.raises(KilledError):
        serve(world, Killed(call))
    world.dead.add(2)
    serve(world)
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    world.advance()
    world.check()


def test_wave_that_a_person_has_cancelled_is_left(world: World) -> None:
    """While Spark read it: the attempt has no fence any more, and no answer is needed."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    done = serve(world, Before("runner.stage", lambda: decisions.cancel(world.worker(), wave, "not now")))
    assert (done.waves, done.problems) == (0, 0)
    assert end(world, wave) is None
    assert world.ledger.wave(wave).state is WaveState.CANCELLED


@pytest.mark.parametrize("call", ["ledger.requests", "ledger.answer"])
def test_worker_outlives_a_ledger_that_does_not_answer(world: World, call: str) -> None:
    """It asks again after a while; a wave whose answer could not be recorded is tried again."""

    def away() -> NoReturn:
        raise UnavailableError("the ledger does not answer")

    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)
    if call == "ledger.answer":
        world.runner.failures.append("once")
    before = world.clock.monotonic()
    rounds = iter((False, False, True))
    made = worker(world, Before(call, away), is_ending=lambda: next(rounds))
    made.run()
    assert made.waves == 1
    assert world.clock.monotonic() - before >= POLL_SECONDS
    world.check()


def test_worker_that_has_nothing_to_do_costs_one_statement_a_poll(world: World) -> None:
    """However many waves are planned; it says that it lives each time."""
    world.produce(1)
    world.planned_wave()
    calls, lives = Calls(), []
    rounds = iter((False, False, False, True))
    worker(world, calls, is_ending=lambda: next(rounds), alive=lambda: lives.append(1)).run()
    assert calls.made == ["ledger.requests"] * 3
    assert len(lives) == 3


def test_worker_of_an_older_version_ends_with_the_upgrade_of_its_ledger(world: World) -> None:
    """It answers nothing and takes nothing more: one of the new version serves what is asked for."""
    world.produce(1)
    wave = world.planned_wave()
    ask(world, wave)

    def opened(_: RequestRecord) -> NoReturn:
        raise LedgerSchemaError("The ledger has schema 0013 now, and had 0012 when this process opened it")

    with pytest.raises(LedgerSchemaError):
        serve(world, opened=opened)
    (request,) = world.ledger.requests()
    assert request.is_wanted


def test_worker_that_ends_idle_tells_of_waves_that_did_not_land() -> None:
    """By its exit code: one that failed, until it has landed here or by another process, as the ledger then has it."""
    world = World(spec=SMALL)
    world.produce(2)
    first, second = (wave.id for wave in world.plan().waves)
    ask(world, first, "one")
    ask(world, second, "two")
    world.runner.failures.append("No space left on device")
    done = serve(world)
    assert (done.waves, done.problems, done.exit_code()) == (1, 1, JobFailedError.exit_code)
    ask(world, first, "again")
    done.run(until_idle=True)
    assert (done.waves, done.problems, done.exit_code()) == (2, 1, 0)
    world.produce(1)
    third = world.planned_wave()
    world.runner.failures.append("No space left on device")
    ask(world, third, "three")
    done = serve(world)
    assert done.exit_code() == JobFailedError.exit_code
    ask(world, third, "once more")
    assert (serve(world).exit_code(), done.exit_code()) == (0, 0)
