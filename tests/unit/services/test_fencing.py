"""Every ledger write is guarded by fence and attempt: a worker that lost its wave while it slept writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    ConnectionSettingsError,
    JobFailedError,
    StaleFenceError,
    UnavailableError,
)
from airflow_kafka_lake.core.ledger.guards import RENEW_AFTER
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, WaveState
from airflow_kafka_lake.core.spark.job import StageJob, job_name
from airflow_kafka_lake.services.claims import Heartbeat, claim_wave
from tests.gates import Before, Calls, Killed, KilledError, gated
from tests.kit.clock import FakeClock
from tests.kit.memory_runner import Position
from tests.world import World

pytestmark = pytest.mark.unit
BEFORE_THE_COMMIT = [
    "ledger.record_base",
    "ledger.record_job",
    "ledger.renew",
    "ledger.mark_staged",
    "ledger.mark_publishing",
]


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of three records."""
    world.produce(3)
    return world.planned_wave()


def committed(world: World) -> None:
    """See that everything came right."""
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets() == [0, 1, 2]


def told(world: World) -> list[str]:
    """Return who is on record for having come too late, and take that from the record."""
    state = world.ledger.snapshot()
    late = [event for _, event in state.events if event.kind == "refused"]
    state.events = [item for item in state.events if item[1] not in late]
    world.ledger.restore(state)
    return [event.actor for event in late]


@pytest.mark.parametrize("call", [*BEFORE_THE_COMMIT, "ledger.record_commit"])
def test_slow_worker_is_stopped_after_others_are_done(world: World, wave: str, call: str) -> None:
    """A worker that comes back to a committed wave changes nothing, and that it came is told."""
    seen = []

    def take_over() -> None:
        world.lease_ends()
        world.ingest(wave)
        seen.append(world.ledger.snapshot())

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before(call, take_over)))
    assert told(world) == [world.ledger.attempts(wave)[0].attempt]
    assert world.ledger.snapshot() == seen[0]
    committed(world)


@pytest.mark.parametrize("call", BEFORE_THE_COMMIT)
def test_slow_worker_does_not_disturb_its_successor(world: World, wave: str, call: str) -> None:
    """While the successor is at work, neither its state nor its lease nor the table changes."""
    seen = []

    def take_over() -> None:
        world.lease_ends()
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("ledger.mark_publishing")))
        seen.append(world.ledger.snapshot())

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before(call, take_over)))
    assert told(world) == [world.ledger.attempts(wave)[0].attempt]
    assert world.ledger.snapshot() == seen[0]
    assert world.offsets() == []
    world.lease_ends()
    committed(world)


def test_slow_worker_records_no_end_of_an_attempt_that_is_not_its_own(world: World, wave: str) -> None:
    """An error of a worker that lost its wave is not the end of its successor's attempt."""

    def take_over() -> None:
        world.lease_ends()
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("ledger.mark_staged")))
        world.runner.failures.append("too late")

    worker = world.worker(Before("runner.stage", take_over))
    with pytest.raises(StaleFenceError):
        world.ingest(wave, worker)
    world.runner.failures.clear()
    assert world.ledger.wave(wave).state is WaveState.CLAIMED
    assert [item.outcome for item in world.ledger.attempts(wave)] == [AttemptOutcome.ABANDONED, AttemptOutcome.RUNNING]


def test_dead_holder_is_taken_over_at_once(world: World, wave: str) -> None:
    """No worker waits for the lease of a process that is known to be dead."""
    doomed = world.worker(Killed("runner.stage"))
    with pytest.raises(KilledError):
        world.ingest(wave, doomed)
    with pytest.raises(ConcurrentError):
        world.ingest(wave)
    world.dead.add(doomed.processes.this().pid)
    world.ingest(wave)
    committed(world)


def test_living_holder_keeps_its_wave_until_the_lease_ends(world: World, wave: str) -> None:
    """Not answering is not being dead."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("runner.stage")))
    assert world.run().exit_code == 3
    assert world.recover().busy == (wave,)
    world.lease_ends()
    committed(world)


def test_worker_believed_dead_that_lives_does_no_harm(world: World, wave: str) -> None:
    """Leases and obituaries are about waiting; safety is the fence's business."""
    slow = world.worker(Before("table.publish", lambda: _bury(world, wave)))
    with pytest.raises(StaleFenceError):
        world.ingest(wave, slow)
    committed(world)


def _bury(world: World, wave: str) -> None:
    world.dead.update(range(1, 100))
    world.ingest(wave)


def test_every_claim_raises_the_fence(world: World, wave: str) -> None:
    """Fences are never used twice, by no worker."""
    assert [claim_wave(world.worker(), wave, by_force=True).key.fence for _ in range(3)] == [1, 2, 3]


def test_only_the_dead_workers_own_job_is_ended(world: World, wave: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the orphan of a dead worker names that worker's job, though others have begun theirs since."""
    ended: list[tuple[str | None, str]] = []
    monkeypatch.setattr(world.runner, "end_orphan", lambda job, name: bool(ended.append((job, name))))
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.renew")))
    world.dead.add(2)

    def take_over() -> None:
        world.lease_ends()
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("table.staged")))

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before("runner.end_orphan", take_over)))
    first = world.ledger.attempts(wave)[0]
    assert set(ended) == {("memory-1", job_name("orders", wave, first.attempt)), *_of_living(world, wave, 1)}


def _of_living(world: World, wave: str, fence: int) -> set[tuple[None, str]]:
    """Return what is asked about the attempt after `fence`, whose worker is not known to be dead."""
    return {(None, job_name("orders", wave, world.ledger.attempts(wave)[fence].attempt))}


def test_job_of_a_worker_that_may_live_is_looked_for_by_name_only(
    world: World, wave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that ended is no death: the worker's processes are its own, its application is of no use any more."""
    ended: list[tuple[str | None, str]] = []
    monkeypatch.setattr(world.runner, "end_orphan", lambda job, name: bool(ended.append((job, name))))
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.renew")))
    world.lease_ends()
    world.ingest(wave)
    assert ended == [*_of_living(world, wave, 0)]


def test_jobs_that_ended_by_themselves_are_not_looked_for(
    world: World, wave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed attempt has no orphan: its worker saw the job's end."""
    ended: list[str] = []
    monkeypatch.setattr(world.runner, "end_orphan", lambda _, name: bool(ended.append(name)))
    world.runner.failures.append("out of memory")
    with pytest.raises(JobFailedError):
        world.ingest(wave)
    world.ingest(wave)
    assert ended == []


def test_orphan_that_cannot_be_looked_for_stops_no_claim(
    world: World, wave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark connection that is gone: the forgotten job can only stage, the wave goes on."""

    def gone(job: str | None, name: str) -> bool:
        raise ConnectionSettingsError("no connection spark_default")

    monkeypatch.setattr(world.runner, "end_orphan", gone)
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.renew")))
    world.lease_ends()
    assert world.recover().returned == (wave,)
    assert any("can only stage" in text for text in world.said)
    committed(world)


def test_job_without_progress_loses_its_lease(world: World, wave: str) -> None:
    """No heartbeat prolongs the lease of a driver that hangs; when it goes on, its wave is another's."""
    codes: list[int] = []

    def hang(rows: list[Position]) -> list[Position]:
        world.runner.tamper = lambda same: same
        for _ in range(2):
            world.clock.advance(timedelta(minutes=1, seconds=10))
            codes.append(world.run().exit_code)
        return rows

    world.runner.tamper = hang
    with pytest.raises(StaleFenceError):
        world.ingest(wave)
    assert codes == [3, 0]
    committed(world)


def test_job_with_progress_keeps_its_lease(world: World, wave: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, as long as it is vouched for."""
    real, codes = world.runner.stage, []

    def slow(job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None], **told: Any) -> None:
        monkeypatch.setattr(world.runner, "stage", real)
        for _ in range(10):
            world.clock.advance(timedelta(minutes=1))
            heartbeat()
            codes.append(world.run().exit_code)
        real(job, started=started, heartbeat=heartbeat, **told)

    monkeypatch.setattr(world.runner, "stage", slow)
    world.ingest(wave)
    assert codes == [3] * 10
    committed(world)


@pytest.mark.parametrize("call", ["staged", "explain"])
def test_audit_with_progress_keeps_its_lease(world: World, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files, or a long way through Kafka's batches: others wait, instead of staging the wave again for ever."""
    world.produce(1, transaction="bad")
    world.end("bad", commit=False)
    wave = world.planned_wave()
    codes: list[int] = []
    port = world.table if call == "staged" else world.kafka
    real = getattr(port, call)

    def slow(*arguments: Any, **named: Any) -> Any:
        *given, heartbeat = arguments
        for _ in range(10):
            world.clock.advance(timedelta(minutes=1))
            heartbeat()
            codes.append(world.run().exit_code)
        return real(*given, heartbeat, **named)

    monkeypatch.setattr(port, call, slow)
    world.ingest(wave)
    assert codes == [3] * 10
    world.advance()
    world.check()


def test_clock_far_ahead_of_the_ledgers_begins_nothing(world: World, wave: str) -> None:
    """Its commits would come from a future that keeps every other writer from the table: the host is named."""
    fast = FakeClock(world.clock.now() + timedelta(days=1))
    with pytest.raises(UnavailableError, match="the clock of alpha is 86400 s ahead of the ledger's") as refused:
        world.ingest(wave, replace(world.worker(), clock=fast))
    assert refused.value.exit_code == 3
    assert world.runner.jobs == []
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    near = FakeClock(world.clock.now() + timedelta(seconds=59))
    world.ingest(wave, replace(world.worker(), clock=near))
    committed(world)


@pytest.mark.parametrize("by", [timedelta(days=-1), timedelta(days=1)])
def test_lease_is_renewed_by_the_steady_clock(world: World, wave: str, by: timedelta) -> None:
    """A clock that is set back while a job runs does not let its lease end."""
    held = claim_wave(world.worker(), wave)
    renewals = Calls()
    clock = FakeClock(world.clock.now())
    beat = Heartbeat(gated(replace(world.worker(), clock=clock), renewals), held.key)
    clock.step(by)
    beat()
    assert renewals.made == []
    clock.sleep(RENEW_AFTER.total_seconds())
    beat()
    assert renewals.made == ["ledger.renew"]
