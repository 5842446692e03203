"""Finish what was left, from the lake's own testimony; move watermarks; send what the lake still lacks."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import IdentityError, KafkaLakeError, UnavailableError, UnknownOutcomeError
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions
from tests.gates import Before, Killed, KilledError
from tests.kit.memory_lake import Answer
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of three records."""
    world.produce(3)
    return world.planned_wave()


def dies_before(world: World, wave: str, call: str) -> None:
    """Let a worker die, and its lease end."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed(call)))
    world.lease_ends()


def test_wave_that_is_in_the_lake_is_adopted(world: World, wave: str) -> None:
    """No job is run again: ranges are committed with the numbers that the publishing attempt left in the lake."""
    dies_before(world, wave, "ledger.record_commit")
    assert world.recover().adopted == (wave,)
    assert len(world.runner.jobs) == 1
    (item,) = world.ledger.ranges(wave=wave)
    assert (item.rows, item.first_offset, item.last_offset) == (3, 0, 2)
    assert world.ledger.wave(wave).snapshot == world.table.head().snapshot
    world.advance()
    world.check()


@pytest.mark.parametrize("call", ["ledger.record_base", "runner.stage", "ledger.mark_staged", "table.publish"])
def test_wave_that_is_not_in_the_lake_is_returned(world: World, wave: str, call: str) -> None:
    """It is PLANNED again, for the next ingest."""
    dies_before(world, wave, call)
    assert world.recover().returned == (wave,)
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert {item.outcome for item in world.ledger.attempts(wave)} == {AttemptOutcome.ABANDONED}
    assert world.run().exit_code == 0
    world.check()


def test_wave_of_a_living_worker_is_busy(world: World, wave: str) -> None:
    """No worker's work is taken away by committing."""
    found = []
    world.ingest(wave, world.worker(Before("table.publish", lambda: found.append(world.recover()))))
    assert found[0].busy == (wave,)
    world.advance()
    world.check()


@pytest.mark.parametrize("call", ["ledger.claim", "table.find_commit", "ledger.record_commit", "ledger.end_attempt"])
def test_two_that_recover_at_once_do_not_disturb_each_other(world: World, wave: str, call: str) -> None:
    """The second one finds the wave ended or busy, and says so without an error."""
    dies_before(world, wave, "table.publish" if call == "ledger.end_attempt" else "ledger.record_commit")

    def other() -> None:
        world.lease_ends()
        world.recover()

    assert world.recover(world.worker(Before(call, other))).busy == (wave,)
    assert world.run().exit_code == 0
    world.check()


def test_recover_of_nothing_does_nothing(world: World, wave: str) -> None:
    """Safe to repeat at any time: planned, committed and cancelled waves are left alone."""
    world.recover()
    done = world.ledger.snapshot()
    committed = world.recover()
    assert (committed.adopted, committed.returned, committed.busy) == ((), (), ())
    assert world.ledger.snapshot() == done


def test_wave_that_cannot_be_committed_does_not_stop_the_others(world: World, wave: str) -> None:
    """One wave without receipts in the lake is a stop for itself; the others are finished, then it is named."""
    world.produce(2)
    other = world.planned_wave()
    dies_before(world, wave, "ledger.record_commit")
    dies_before(world, other, "ledger.record_commit")
    first = world.ledger.attempts(wave)[0].attempt
    kept = {key: row for key, row in world.table._receipts.items() if row.attempt != first}
    world.table._receipts = kept
    with pytest.raises(IdentityError, match="without a receipt"):
        world.recover()
    assert world.ledger.wave(other).state is WaveState.COMMITTED
    assert world.ledger.wave(wave).state is WaveState.PUBLISHING
    assert world.run().exit_code == 1


def test_adoption_checks_every_range_against_its_receipt(world: World, wave: str) -> None:
    """A receipt of another slice is no receipt."""
    dies_before(world, wave, "ledger.record_commit")
    world.table._receipts.clear()
    with pytest.raises(IdentityError, match="rebuild orders"):
        world.ingest(wave)
    assert world.ledger.wave(wave).state is not WaveState.COMMITTED


def test_recovery_reaches_the_lake_at_last(world: World, wave: str) -> None:
    """Ledger first, lake second: receipts that could not be sent wait in the outbox and are sent once."""
    world.ingest(wave)

    def published() -> int:
        return [row.kind for row in world.table._receipts.values()].count("published")

    assert (published(), len(world.ledger.outbox("orders"))) == (0, 1)
    world.lake.reachable = False
    world.advance()
    assert any("sent next time" in text for text in world.said)
    world.lake.reachable = True
    assert len(world.ledger.outbox("orders")) == 1
    world.recover()
    world.recover()
    assert (published(), world.ledger.outbox("orders")) == (1, ())


def test_receipts_sent_twice_are_there_once(world: World, wave: str) -> None:
    """Dying between sending and remembering it costs nothing."""
    world.ingest(wave)
    with pytest.raises(KilledError):
        world.recover(world.worker(Killed("ledger.sent")))
    world.recover()
    assert [row.kind for row in world.table._receipts.values()].count("published") == 1
    assert world.ledger.outbox("orders") == ()


def test_unreachable_lake_commits_nothing(world: World, wave: str) -> None:
    """Unknown is not a value: no answer is neither there nor absent."""
    dies_before(world, wave, "ledger.record_commit")
    world.lake.reachable = False
    with pytest.raises(UnavailableError):
        world.recover()
    assert world.ledger.wave(wave).state is not WaveState.COMMITTED
    world.lake.reachable = True
    assert world.run().exit_code == 0
    assert len(world.runner.jobs) == 1
    world.check()


def test_watermark_moves_only_over_what_is_committed(world: World) -> None:
    """An island waits; when the gap closes the watermark jumps to its end; moves are told in order."""
    world.produce(10)
    world.run(Bounds(start=6, end=8))
    assert world.stream().watermark == 0
    world.run(Bounds(start=0, end=6))
    assert world.stream().watermark == 8
    assert world.advance() == ()
    world.run()
    assert [(move.start, move.end, move.rows) for move in world.ledger.unnotified("orders")] == [(0, 8, 8), (8, 10, 2)]
    world.check()


def test_branches_of_attempts_that_are_over_are_dropped(world: World, wave: str) -> None:
    """What a dead attempt has staged stays invisible, and goes once its wave is published."""
    dies_before(world, wave, "table.publish")
    assert len(world.table._store.refs) == 2
    world.run()
    assert list(world.table._store.refs) == ["main"]
    world.check()


def branches(world: World) -> tuple[str, ...]:
    """Return the attempts that have a staging branch."""
    return world.table.branches()


def staged_and_dead(world: World, wave: str, call: str = "ledger.mark_staged") -> str:
    """Let a worker die after its job; return its attempt."""
    dies_before(world, wave, call)
    return world.ledger.attempts(wave)[-1].attempt


def test_recover_drops_the_branches_of_abandoned_attempts(world: World, wave: str) -> None:
    """A wave that is returned leaves nothing on the table: what was staged can only be staged again."""
    attempt = staged_and_dead(world, wave)
    assert branches(world) == (attempt,)
    assert world.recover().swept.dropped == (attempt,)
    assert branches(world) == ()
    assert world.recover().swept.dropped == ()
    assert world.run().exit_code == 0
    world.check()


def test_run_sweeps_before_it_begins(world: World, wave: str) -> None:
    """No command besides `run` is needed; branches of waves that are over for good go too."""
    attempt = staged_and_dead(world, wave)
    decisions.cancel(world.worker(), wave, "not now")
    world.table.stage(attempt, [])  # by a job that outlived its worker and had not begun its branch
    assert branches(world) == (attempt,)
    world.run()
    assert branches(world) == ()


@pytest.mark.parametrize("call", ["ledger.mark_staged", "ledger.mark_publishing", "table.publish"])
def test_branch_of_a_living_attempt_stays(world: World, wave: str, call: str) -> None:
    """While the lease is live, what is staged may be published any moment."""
    swept = []
    world.ingest(wave, world.worker(Before(call, lambda: swept.append(world.recover().swept))))
    assert [item.dropped for item in swept] == [()]
    world.advance()
    world.check()


def test_branch_of_an_unknown_outcome_stays_until_its_wave_is_over(world: World, wave: str) -> None:
    """Its commit may still land and be adopted, and what it has staged may be published by another."""

    def always(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = Answer.LOST

    with pytest.raises(UnknownOutcomeError):
        world.ingest(wave, world.worker(always))
    unknown = world.ledger.attempts(wave)[0].attempt
    world.lease_ends()
    assert world.recover().swept.dropped == ()
    assert branches(world) == (unknown,)
    world.ingest(wave)
    assert branches(world) == ()
    world.advance()
    world.check()


def test_branch_of_an_attempt_that_the_ledger_does_not_know_is_left_alone(world: World, wave: str) -> None:
    """It may be another ledger's, or of a part of this one that was lost: it is named and stays."""
    world.table.stage("f" * 16, [])
    assert world.recover().swept.foreign == ("f" * 16,)
    assert any("f" * 16 in text and "left alone" in text for text in world.said)
    assert branches(world) == ("f" * 16,)


def test_dying_while_sweeping_costs_nothing(world: World, wave: str) -> None:
    """Branches that were dropped are gone, the others go next time; nothing is to be recorded."""
    attempt = staged_and_dead(world, wave)
    with pytest.raises(KilledError):
        world.recover(world.worker(Killed("table.drop")))
    assert world.recover().swept.dropped == (attempt,)
    assert world.run().exit_code == 0
    world.check()


def test_branches_that_cannot_be_swept_do_not_fail_the_commit(world: World, wave: str) -> None:
    """Waves are committed, branches are swept next time."""
    attempt = staged_and_dead(world, wave)

    def unreachable(call: str) -> None:
        world.lake.reachable = call != "table.branches"

    committed = world.recover(world.worker(unreachable))
    assert (committed.returned, committed.swept.dropped) == ((wave,), ())
    assert [*committed.swept.left] == [world.table.identifier], "nothing was dropped there, and nothing was looked for"
    world.lake.reachable = True
    assert world.recover().swept.dropped == (attempt,)


def test_publisher_whose_branch_was_dropped_is_rejected(world: World, wave: str) -> None:
    """A zombie that wakes before its commit: it requires the branch that is gone, and main stays as it was."""

    def successor() -> None:
        world.lease_ends()
        world.table.damage(world.ledger.attempts(wave)[-1].attempt)
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("runner.stage")))
        world.lease_ends()
        world.recover()

    with pytest.raises(KafkaLakeError):
        world.ingest(wave, world.worker(Before("table.publish", successor)))
    assert world.offsets() == []
    assert world.run().exit_code == 0
    world.check()


def test_branch_of_a_publish_that_main_does_not_show_stays(world: World, wave: str) -> None:
    """Recorded as published, and the table's metadata are of before: the branch may be the only copy of its rows."""
    before = []
    world.ingest(wave, world.worker(Before("table.publish", lambda: before.append(world.table.metadata()))))
    world.table.set_back(before[0])
    staged = world.table.branches()
    assert len(staged) == 1
    assert world.recover().swept.dropped == ()
    assert world.table.branches() == staged
