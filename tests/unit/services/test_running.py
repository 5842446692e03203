"""The main job: finish, plan, ingest, advance; what it says with its exit code."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import (
    HeldError,
    IdentityError,
    JobFailedError,
    UnavailableError,
    UnexpectedError,
    UnfinishedError,
)
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.claims import claim_wave
from airflow_kafka_lake.services.running import finish_plan
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer
from tests.world import World

pytestmark = pytest.mark.unit


def test_run_brings_everything_and_moves_the_watermarks() -> None:
    """One call from nothing to done."""
    world = World(partitions=2)
    world.produce(5, 0)
    world.produce(3, 1, transaction="t")
    world.end("t")
    done = world.run()
    assert (done.exit_code, done.held, done.problems) == (0, (), ())
    assert [wave.state for wave in done.waves] == [WaveState.COMMITTED]
    assert [(move.stream.partition, move.end) for move in done.moves] == [(0, 5), (1, 4)]
    world.check()


def test_second_run_has_nothing_to_do(world: World) -> None:
    """No job, no commit, no write."""
    world.produce(3)
    world.run()
    world.recover()
    head, state = world.table.head(), world.ledger.snapshot()
    done = world.run()
    assert (done.exit_code, done.waves, done.moves) == (0, (), ())
    assert (world.table.head(), world.ledger.snapshot()) == (head, state)
    assert len(world.runner.jobs) == 1


def test_run_brings_new_records_only(world: World) -> None:
    """What is there is not read again."""
    world.produce(3)
    world.run()
    world.produce(2)
    world.run()
    assert [str(item.range) for job in world.runner.jobs for item in job.slices] == ["0-3", "3-5"]
    world.check()


def test_large_backlog_is_cut_into_ranges_and_waves(world: World) -> None:
    """Sizes are the pipeline's; touching ranges of a wave are read as one slice."""
    world.with_spec(target_range_bytes=20, max_wave_bytes=50)
    world.produce(20)
    done = world.run()
    assert len(done.waves) > 1
    assert sum(wave.ranges for wave in done.waves) > len(done.waves)
    assert len({item.range for job in world.runner.jobs for item in job.slices}) == len(done.waves)
    world.check()


def test_watermark_has_moved_before_the_next_wave_begins(world: World) -> None:
    """No consumer waits for the last wave; the run says at its end how far each watermark went, as one move."""
    world.with_spec(max_wave_bytes=1, target_range_bytes=1)
    world.produce(4)
    seen: list[int] = []

    def look(call: str) -> None:
        if call == "runner.stage":
            seen.append(world.stream().watermark)

    done = world.run(worker=world.worker(look))
    assert seen == [0, 1, 2, 3]
    assert [(move.start, move.end, move.rows) for move in done.moves] == [(0, 4, 4)]
    assert done.moves[0].sequence == world.ledger.unnotified("orders")[-1].sequence
    world.check()


def test_advance_that_fails_after_a_wave_fails_nothing(world: World) -> None:
    """Wave and run go on; the advance at the end of the run moves what was left."""
    world.with_spec(max_wave_bytes=1, target_range_bytes=1)
    world.produce(2)
    tried: list[str] = []

    def refuses(call: str) -> None:
        if call == "ledger.advance":
            tried.append(call)
            if len(tried) <= 2:
                raise UnavailableError("the ledger does not answer")

    done = world.run(worker=world.worker(refuses))
    assert (done.exit_code, len(tried), world.stream().watermark) == (0, 3, 2)
    assert any("watermarks move later in this run" in line for line in world.said)
    world.check()


def test_run_finishes_what_a_dead_run_left(world: World) -> None:
    """Published and not committed: adopted; planned and not begun: ingested; then what is new."""
    world.produce(3)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("ledger.record_commit")))
    world.produce(2)
    world.lease_ends()
    assert world.run().exit_code == 0
    world.check()
    assert len(world.runner.jobs) == 2


def test_run_beside_another_is_worth_repeating(world: World) -> None:
    """Exit 3 while another run works on what is left; nothing is done twice."""
    world.produce(3)
    codes = []
    first = world.run(worker=world.worker(Before("runner.stage", lambda: codes.append(world.run().exit_code))))
    assert (codes, first.exit_code) == ([3], 0)
    assert len(world.runner.jobs) == 1
    world.check()


def test_two_runs_at_once_at_every_call() -> None:
    """Wherever the second one comes in: neither fails for good, and together they do everything once."""
    calls = Calls()
    world = World()
    world.produce(3)
    world.run(worker=world.worker(calls))
    for number in range(1, len(calls.made) + 1):
        world = World()
        world.produce(3)
        codes: list[int] = []
        between = Before("", lambda world=world, codes=codes: codes.append(world.run().exit_code), nth=number)
        codes.append(world.run(worker=world.worker(between)).exit_code)
        assert set(codes) <= {0, 3}
        assert world.run().exit_code == 0
        assert len(world.runner.jobs) == 1
        world.check()


def test_wave_that_fails_does_not_stop_the_others(world: World) -> None:
    """Law L4: success above a hold is remembered and not repeated."""
    world.with_spec(max_wave_bytes=1)
    world.produce(3)
    world.run(Bounds(start=0, end=1))
    world.with_spec(target_range_bytes=1)
    world.runner.failures.append("out of memory")
    done = world.run()
    assert done.exit_code == 3
    assert [type(problem) for problem in done.problems] == [JobFailedError]
    assert (world.offsets(), world.stream().watermark) == ([0, 2], 1)
    assert world.run().exit_code == 0
    world.check()


def test_exception_that_no_part_expects_is_a_problem_of_its_wave(world: World) -> None:
    """Later waves, watermarks and the mirror go on; the problem has a name, a place and an exit code."""
    world.with_spec(max_wave_bytes=1, target_range_bytes=1, sync_group="orders-mirror")
    world.produce(3)
    tried: list[str] = []

    def overflows(call: str) -> None:
        if call == "table.publish":
            tried.append(call)
            if len(tried) == 2:
                raise OverflowError("password=hidden: date value out of range")

    done = world.run(worker=world.worker(overflows))
    assert (done.exit_code, world.offsets(), world.stream().watermark) == (3, [0, 2], 1)
    assert [type(problem) for problem in done.problems] == [UnexpectedError]
    message = done.problems[0].message
    assert "ended with an unexpected OverflowError in tests.unit.services.test_running.overflows, line" in message
    assert "hidden" not in message
    assert (world.run().exit_code, world.offsets()) == (0, [0, 1, 2])
    world.check()


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_signal_ends_the_run_at_once(world: World, signal: type[BaseException]) -> None:
    """A person's interrupt is no problem of a wave: nothing else is begun."""
    world.with_spec(max_wave_bytes=1, target_range_bytes=1)
    world.produce(2)

    def interrupted(call: str) -> None:
        if call == "table.publish":
            raise signal

    with pytest.raises(signal):
        world.run(worker=world.worker(interrupted))
    assert len(world.runner.jobs) == 1
    assert world.run().exit_code == 0
    world.check()


def test_open_wave_that_cannot_be_looked_at_does_not_stop_the_run(world: World) -> None:
    """The wave meets its problem again when it is ingested, and the others go on."""
    world.with_spec(max_wave_bytes=1, target_range_bytes=1)
    world.produce(2)
    world.plan()
    first, _ = world.ledger.waves("orders")
    claim_wave(world.worker(), first.id)
    world.lease_ends()
    tried: list[str] = []

    def broken(call: str) -> None:
        if call == "table.find_commit":
            tried.append(call)
            if len(tried) <= 2:
                raise ValueError("no such history")

    done = world.run(worker=world.worker(broken))
    assert (done.exit_code, world.offsets()) == (3, [1])
    assert world.run().exit_code == 0
    world.check()


def test_held_range_needs_a_person(world: World) -> None:
    """Exit 1, with what to do about it; repeating does not make it worse."""
    world.produce(3)
    world.runner.tamper = lambda rows: rows[1:]
    for _ in range(2):
        done = world.run()
        assert done.exit_code == 1
        assert "orders/0 0-3 held" in done.held[0]
        assert "kafka-lake release" in done.held[0]
    assert len(world.runner.jobs) == 1


def test_blocked_partition_needs_a_person() -> None:
    """What the plan had to leave out is named; the others went through."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    world.kafka.log("orders", 0).unreachable = "no leader"
    done = world.run()
    assert (done.exit_code, done.held) == (1, ("orders/0: not observed: no leader",))
    assert world.offsets(1) == [0, 1, 2]


def test_unknown_outcome_has_its_own_code(world: World) -> None:
    """Exit 4: `recover` will find out."""
    world.produce(3)

    def always(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = Answer.LOST

    assert world.run(worker=world.worker(always)).exit_code == 4
    assert world.run().exit_code == 0
    world.check()


def test_unknown_outweighs_held_outweighs_transient(world: World) -> None:
    """One number for a run of many problems: the one that needs most care."""
    world.with_spec(max_wave_bytes=1, target_range_bytes=1)
    world.produce(4)
    world.plan(Bounds(start=0, end=1))
    world.plan()
    waves = world.ledger.waves("orders")
    decisions.cancel(world.worker(), waves[0].id, "not now")
    world.runner.failures.append("out of memory")
    assert world.run().exit_code == 1

    def always(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = Answer.LOST

    world.produce(1)
    assert world.run(worker=world.worker(always)).exit_code == 4


def test_plan_is_finished_only_when_every_range_is_committed(world: World) -> None:
    """Unresolved ranges need another run, or a person."""
    world.produce(3)
    plan = world.plan()
    with pytest.raises(UnfinishedError, match="kafka-lake run orders"):
        finish_plan(world.worker(), "orders", plan.id)
    decisions.cancel(world.worker(), plan.waves[0].id, "not now")
    with pytest.raises(HeldError, match="not now"):
        finish_plan(world.worker(), "orders", plan.id)
    decisions.release(world.worker(), plan.waves[0].id, None)
    world.run()
    finish_plan(world.worker(), "orders", plan.id)


def test_run_commits_what_is_in_the_lake_though_the_broker_is_down(world: World) -> None:
    """What is published needs no Kafka to be committed."""
    world.produce(3)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("ledger.record_commit")))
    world.lease_ends()
    world.kafka.down = True
    with pytest.raises(UnavailableError):
        world.run()
    assert [wave.state for wave in world.ledger.waves("orders")] == [WaveState.COMMITTED]
    world.kafka.down = False
    assert world.run().exit_code == 0
    world.check()


def test_wave_that_cannot_be_committed_does_not_stop_the_run(world: World) -> None:
    """A wave without receipts in the lake needs a person; what is new goes on."""
    world.produce(3)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("ledger.record_commit")))
    world.table._receipts.clear()
    world.lease_ends()
    world.produce(2)
    done = world.run()
    assert done.exit_code == 1
    assert [type(problem) for problem in done.problems] == [IdentityError]
    assert world.offsets() == [0, 1, 2, 3, 4]
    assert world.ledger.waves("orders")[1].state is WaveState.COMMITTED


def bounded(partition: int, start: int | None = None, end: int | None = None) -> Bounds:
    """Ask for something of one partition."""
    return Bounds(partitions=(partition,), start=start, end=end)


def test_bounded_run_takes_only_what_was_asked_for() -> None:
    """What an earlier plan left elsewhere is named with its bytes and left, until it is asked for."""
    world = World(partitions=2)
    world.with_spec(target_range_bytes=20, max_wave_bytes=20)
    world.produce(20)
    world.produce(20, 1)
    earlier = world.plan()
    world.produce(5, 1)
    done = world.run(bounded(0, 0, 3))
    assert (done.exit_code, len(world.offsets(0)), world.offsets(1)) == (0, max(world.offsets(0)) + 1, [])
    assert 3 <= len(world.offsets(0)) < 20
    assert len(done.left) == len(earlier.waves) - len(done.waves)
    assert all(item.estimated_bytes > 0 for item in done.left)
    for item in done.left:
        assert any(f"leaves wave {item.wave} into raw.orders: 1 range, about" in line for line in world.said)
    assert any(f"takes wave {done.waves[0].id}" in line and earlier.id in line for line in world.said)
    again = world.run(bounded(0, 0, 3))
    assert (again.exit_code, again.waves, again.left) == (0, (), done.left)
    assert world.run(bounded(1, 0, 1), everything=True).left == ()
    assert world.offsets(1) == list(range(20))
    assert world.run().exit_code == 0
    world.check()


def test_run_without_bounds_finishes_everything(world: World) -> None:
    """Following takes what every earlier plan left."""
    world.produce(5)
    world.plan(Bounds(start=0, end=2))
    done = world.run()
    assert (len(done.waves), done.left) == (2, ())
    world.check()


def test_bounded_run_finishes_what_a_dead_one_left(world: World) -> None:
    """The same words again are right, whichever plan has planned it."""
    world.produce(5)
    with pytest.raises(KilledError):
        world.run(Bounds(start=1, end=3), worker=world.worker(Killed("runner.stage")))
    world.lease_ends()
    done = world.run(Bounds(start=1, end=3))
    assert (done.exit_code, world.offsets()) == (0, [1, 2])


def test_bounded_run_takes_what_its_waves_come_apart_into() -> None:
    """By the offsets and not by the plan: a range that goes to a wave of its own is still asked for."""
    world = World(partitions=2)
    world.produce(3)
    world.produce(3, 1)
    world.plan()
    wave = next(iter(world.ledger.waves("orders"))).id
    first, second = world.ledger.ranges(wave=wave)
    decisions.cancel(world.worker(), second.id, "later")
    apart, _ = decisions.release(world.worker(), second.id, None)
    assert apart != wave
    assert [item.id for item in world.run(bounded(second.stream.partition)).waves] == [apart]
    assert [item.id for item in world.run(bounded(first.stream.partition, 0, 1)).waves] == [wave]
    world.check()


def test_bounded_run_beside_another_planner_plans_again(world: World) -> None:
    """What was asked for is not known without a plan: nothing else is taken instead."""
    world.produce(3)
    world.run()
    world.produce(3)
    between = Before("ledger.record_plan", world.plan)
    assert world.run(bounded(0), worker=world.worker(between)).exit_code == 0
    assert world.offsets() == [0, 1, 2, 3, 4, 5]
    world.check()
