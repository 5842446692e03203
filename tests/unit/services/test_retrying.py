"""A wave is made ready for its next try, whatever became of the last one."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.actions.offsets import WithdrawAction
from airflow_kafka_lake.core.errors import ConcurrentError, StateError, UsageError
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.decisions import WaveContinuation, retry
from tests.gates import Killed, KilledError
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> World:
    """A world with something to read."""
    made = World()
    made.produce(3)
    return made


def test_held_wave_goes_on_in_another(world: World) -> None:
    """What was on hold is planned again, and the next run reads it."""
    wave = world.planned_wave()
    decisions.cancel(world.worker(), wave, "not now")
    done = retry(world.worker(), wave, "now")
    assert done == (world.ledger.waves("orders", [WaveState.PLANNED])[0].id, WaveContinuation.RELEASED)
    assert world.run().exit_code == 0
    world.check()


def test_wave_that_no_worker_has_waits_for_the_next_run(world: World) -> None:
    """Nothing of it is changed."""
    wave = world.planned_wave()
    before = world.ledger.events("orders")
    assert retry(world.worker(), wave, "now") == (wave, WaveContinuation.WAITING)
    assert world.ledger.events("orders") == before


def test_wave_of_a_dead_worker_is_returned_in_the_name_of_who_asks(world: World) -> None:
    """Nothing of it is in the lake: it is staged again, and the history says who gave the attempt up, and why."""
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.staged")))
    with pytest.raises(ConcurrentError):
        retry(world.worker(), wave, "now")
    world.lease_ends()
    asker = world.worker()
    assert retry(asker, wave, "too long") == (wave, WaveContinuation.RETURNED)
    assert str(world.ledger.attempts(wave)[-1].error).startswith(f"{asker.actor}: too long; ")
    assert world.run().exit_code == 0
    world.check()


def test_wave_whose_commit_is_in_the_lake_is_recorded(world: World) -> None:
    """The worker died between the commit and its record."""
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    world.lease_ends()
    assert retry(world.worker(), wave, "now") == (wave, WaveContinuation.ADOPTED)
    assert world.ledger.wave(wave).state is WaveState.COMMITTED


def test_wave_that_is_over_is_refused(world: World) -> None:
    """It is in the lake, or was taken off the plan: there is nothing to try."""
    world.run()
    (landed,) = world.ledger.waves("orders")
    with pytest.raises(StateError, match="is in the lake"):
        retry(world.worker(), landed.id, "now")
    world.produce(1)
    wave = world.planned_wave()
    WithdrawAction(subject=wave, reason="no").apply(world.worker(), world.spec)
    with pytest.raises(StateError, match="nothing is left"):
        retry(world.worker(), wave, "now")
    with pytest.raises(UsageError, match="a reason is needed"):
        retry(world.worker(), wave, " ")
