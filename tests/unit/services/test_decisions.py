"""Cancel and release, and the fences that make a cancel final."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.errors import (
    StaleFenceError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, Rejected, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import decisions, running
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer
from tests.world import FOLLOW, LEDGER_ID, SPEC, World

pytestmark = pytest.mark.unit


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of five records."""
    world.produce(5)
    return world.planned_wave()


def cancel(world: World, subject: str) -> tuple[str, ...]:
    """Cancel with a reason."""
    return decisions.cancel(world.worker(), subject, "not now")


def states(world: World) -> list[tuple[str, str]]:
    """Return ranges and their states, in order."""
    return [(str(item.range), item.state.value) for item in world.ledger.ranges(pipeline="orders")]


def test_cancelled_wave_is_never_published_and_can_be_released(world: World, wave: str) -> None:
    """Cancel is a hold, not a loss."""
    cancel(world, wave)
    assert world.ledger.wave(wave).state is WaveState.CANCELLED
    assert world.run().exit_code == 1
    assert (world.offsets(), world.stream().watermark) == ([], 0)
    assert decisions.release(world.worker(), wave, "now")[0] == wave
    assert world.run().exit_code == 0
    world.check()


def test_cancel_of_a_wave_that_was_never_claimed_touches_no_lake(world: World, wave: str) -> None:
    """Where no publisher can be, no fence commit is needed."""
    head = world.table.head()
    cancel(world, wave)
    assert world.table.head() == head


def test_cancel_of_a_claimed_wave_moves_main(world: World, wave: str) -> None:
    """The fence goes up in the ledger, and main moves with an empty commit that says why."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.publish")))
    cancel(world, wave)
    head = world.table.head()
    last = head.last[LEDGER_ID, "orders"]
    assert (last.kind, last.fence, last.wave) == ("fence", 2, wave)
    assert world.offsets() == []


@pytest.mark.parametrize("call", ["runner.stage", "ledger.mark_staged", "ledger.mark_publishing", "table.publish"])
def test_zombie_publisher_is_stopped_by_a_cancel(world: World, wave: str, call: str) -> None:
    """A publisher stopped between its last check and its commit wakes up, and its commit is rejected."""
    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before(call, lambda: cancel(world, wave))))
    assert world.offsets() == []
    assert states(world) == [("0-5", "CANCELLED")]
    world.advance()
    world.check()


def test_zombie_commit_on_its_way_is_stopped_by_a_cancel(world: World, wave: str) -> None:
    """A commit that was sent before the cancel and arrives after it is rejected by the moved head."""

    def late() -> None:
        world.table.next_answer = Answer.LATE

    doomed, losing = Killed("table.find_commit", nth=3), Before("table.publish", late)

    def passing(call: str) -> None:
        doomed(call)
        losing(call)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(passing))
    cancel(world, wave)
    world.table.land_late()
    assert world.offsets() == []
    world.advance()
    world.check()


@pytest.mark.parametrize("moved", ["by us", "by others"])
def test_zombie_commit_stays_stopped_when_main_is_rolled_back(world: World, wave: str, moved: str) -> None:
    """Main is the head again that the zombie has looked at: its branch went with the fence commit, which is ours."""
    looked_at = world.table.head().snapshot
    assert looked_at is not None
    losing = Before("table.publish", lambda: setattr(world.table, "next_answer", Answer.LATE))
    dying = Killed("table.find_commit", nth=3)

    def doomed(call: str) -> None:
        dying(call)
        losing(call)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(doomed))

    def lost_beside_another_writer() -> None:
        world.table.next_answer = Answer.LOST
        world.table.write_foreign()

    person = world.worker(Before("table.fence", lost_beside_another_writer) if moved == "by others" else None)
    decisions.cancel(person, wave, "not now")
    assert states(world) == [("0-5", "CANCELLED")]
    assert world.table.branches() == ()
    decisions.release(world.worker(), wave, None)
    world.table.roll_back(looked_at)
    assert isinstance(world.table.land_late(), Rejected)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1, 2, 3, 4]
    world.check()


@pytest.mark.parametrize("call", ["ledger.claim", "table.find_commit", "table.fence", "ledger.revoke"])
def test_commit_that_lands_during_a_cancel_is_seen_or_stopped(world: World, wave: str, call: str) -> None:
    """Either the cancel is refused and the wave committed, or the commit never lands: never both, never neither."""

    def late() -> None:
        world.table.next_answer = Answer.LATE

    doomed, losing = Killed("table.find_commit", nth=3), Before("table.publish", late)

    def passing(name: str) -> None:
        doomed(name)
        losing(name)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(passing))
    landing = world.worker(Before(call, world.table.land_late))
    if call == "ledger.revoke":
        decisions.cancel(landing, wave, "not now")
        assert states(world) == [("0-5", "CANCELLED")]
    else:
        with pytest.raises(StateError, match="published meanwhile"):
            decisions.cancel(landing, wave, "not now")
        assert states(world) == [("0-5", "COMMITTED")]
    world.advance()
    world.check()


def test_wave_claimed_while_a_cancel_decides_is_not_robbed(world: World, wave: str) -> None:
    """No worker had claimed the wave when the cancel looked: what a publisher may have sent since is not ignored."""

    def claimed() -> None:
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("table.publish")))

    with pytest.raises(StaleFenceError):
        decisions.cancel(world.worker(Before("ledger.revoke", claimed)), wave, "not now")
    assert states(world) == [("0-5", "PLANNED")]


def test_cancel_waits_until_main_has_moved(world: World, wave: str) -> None:
    """A fence commit whose answer stays lost proves nothing: nothing is taken, the call can be repeated."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.publish")))

    def always(call: str) -> None:
        if call == "table.fence":
            world.table.next_answer = Answer.LOST

    with pytest.raises(UnavailableError, match="repeat the call"):
        decisions.cancel(world.worker(always), wave, "not now")
    assert states(world) == [("0-5", "PLANNED")]
    assert (world.ledger.wave(wave).state, world.ledger.wave(wave).lease_live) == (WaveState.PUBLISHING, False)
    assert world.ledger.attempts(wave)[-1].outcome is AttemptOutcome.UNKNOWN
    cancel(world, wave)
    assert states(world) == [("0-5", "CANCELLED")]


def test_lost_answer_of_a_fence_commit_is_committed_by_looking(world: World, wave: str) -> None:
    """It is seen on main: that is enough."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.publish")))
    calls = Calls()

    def lose(call: str) -> None:
        calls(call)
        world.table.next_answer = Answer.LOST_LANDED if call == "table.fence" else Answer.GIVEN

    decisions.cancel(world.worker(lose), wave, "not now")
    assert calls.made.count("table.fence") == 1
    assert states(world) == [("0-5", "CANCELLED")]


def test_cancel_of_a_published_wave_is_refused(world: World, wave: str) -> None:
    """What is visible stays."""
    world.ingest(wave)
    with pytest.raises(StateError, match="Only what is PLANNED can"):
        cancel(world, wave)
    assert world.offsets() == [0, 1, 2, 3, 4]


def test_cancel_of_a_wave_published_but_not_committed_adopts_it(world: World, wave: str) -> None:
    """The lake testifies against the request, and the ledger learns of it."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    with pytest.raises(StateError, match="published meanwhile"):
        cancel(world, wave)
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    world.advance()
    world.check()


def test_cancel_of_one_range_lets_the_rest_go_on() -> None:
    """Law L4: success above a hold is remembered, and the watermark jumps over it when the hold closes."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    wave = world.planned_wave()
    first = world.ledger.ranges(wave=wave)[0]
    assert cancel(world, first.id) == (first.id,)
    assert world.ingest(wave).state is WaveState.COMMITTED
    world.advance()
    assert (world.stream(0).watermark, world.stream(1).watermark) == (0, 3)
    fresh, ranges = decisions.release(world.worker(), first.id, None)
    assert (fresh != wave, ranges) == (True, (first.id,))
    assert world.run().exit_code == 0
    world.check()


@pytest.mark.parametrize("reason", ["", "  "])
def test_decisions_need_a_reason(world: World, wave: str, reason: str) -> None:
    """Others will read it."""
    with pytest.raises(UsageError, match="--reason"):
        decisions.cancel(world.worker(), wave, reason)
    with pytest.raises(UsageError, match="--reason"):
        decisions.skip(
            world.worker(), "orders", world.stream(), OffsetRange(0, 1), reason=reason, acknowledge_order=False
        )
    assert states(world) == [("0-5", "PLANNED")]


def test_decisions_about_nothing_are_refused(world: World, wave: str) -> None:
    """Unknown subjects, and subjects with nothing to decide."""
    with pytest.raises(UnknownSubjectError):
        cancel(world, "nothing")
    with pytest.raises(StateError, match="nothing to release"):
        decisions.release(world.worker(), wave, None)
    cancel(world, wave)
    with pytest.raises(StateError, match="cannot be cancelled"):
        cancel(world, wave)


def test_refused_cancel_leaves_no_lease_behind() -> None:
    """A range that another person cancelled first is not taken twice, and its wave is free for the next run."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("runner.stage")))
    first = world.ledger.ranges(wave=wave)[0].id
    late = world.worker(Before("ledger.wave", lambda: cancel(world, first), nth=2))
    with pytest.raises(StateError, match="Nothing was taken"):
        decisions.cancel(late, first, "not now")
    assert not world.ledger.wave(wave).lease_live
    assert world.ingest(wave).state is WaveState.COMMITTED


@pytest.mark.parametrize("claimed", [False, True])
def test_cancel_and_release_of_one_range_leave_the_others(claimed: bool) -> None:
    """An unclaimed wave is cut, a claimed one is fenced first; the released range is read alone."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    wave = world.planned_wave()
    if claimed:
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("table.publish")))
    head = world.table.head().snapshot
    second = world.ledger.ranges(wave=wave)[1]
    assert cancel(world, second.id) == (second.id,)
    assert (world.table.head().snapshot != head) is claimed
    assert world.ingest(wave).state is WaveState.COMMITTED
    jobs = len(world.runner.jobs)
    alone, _ = decisions.release(world.worker(), second.id, "repaired")
    assert world.ingest(alone).rows == 3
    assert [(s.stream.partition, str(s.range)) for s in world.runner.jobs[jobs].slices] == [(1, "0-3")]
    world.advance()
    world.check()


def test_hold_of_one_pipeline_touches_no_other_on_the_topic(world: World, wave: str) -> None:
    """Two pipelines land the same topic in tables of their own: what one holds, skips or cancels, the other reads."""
    other = replace(SPEC, name="copies", table="raw.copies")
    cancel(world, wave)
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(0, 2), reason="bad", acknowledge_order=False)
    done = running.run(world.worker(), other, FOLLOW)
    assert (done.exit_code, done.waves[0].rows) == (0, 5)
    (copied,) = world.ledger.streams("copies")
    assert copied.watermark == 5
    world.advance()
    assert (world.stream().watermark, world.offsets()) == (2, [])
    assert {item.state.value for item in world.ledger.ranges(pipeline="copies")} == {"COMMITTED"}
    decisions.release(world.worker(), wave, None)
    assert world.run().exit_code == 0
    assert world.offsets() == [2, 3, 4]
