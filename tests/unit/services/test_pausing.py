"""A person pauses a pipeline or a plan: nothing new is begun, what is at work ends, and a resume lets it go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.actions.waves import PauseAction, ResumeAction
from airflow_kafka_lake.core.errors import PausedError, UnknownSubjectError, UsageError
from airflow_kafka_lake.core.ledger.decisions import Pause
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.decisions import PauseResult
from tests.documented import missing, undocumented
from tests.gates import Killed, KilledError
from tests.world import SPEC, World

pytestmark = pytest.mark.unit
SMALL = replace(SPEC, target_range_bytes=1, max_wave_bytes=1)


def pause(world: World, subject: str = "orders", *, now: bool = False) -> PauseResult:
    """Pause a subject by its name."""
    return decisions.pause(world.worker(), decisions.find_pausable(world.ledger, subject), "maintenance", now=now)


def resume(world: World, subject: str = "orders") -> PauseResult:
    """Resume it."""
    return decisions.resume(world.worker(), decisions.find_pausable(world.ledger, subject))


def planned(world: World) -> list[str]:
    """Return the waves that are not begun."""
    return [wave.id for wave in world.ledger.waves("orders", [WaveState.PLANNED])]


def test_paused_pipeline_is_neither_planned_nor_run(world: World) -> None:
    """The run says so once, needs a person, and asks neither Kafka nor Spark; a dry run shows what would be read."""
    world.produce(3)
    world.run()
    world.produce(2)
    wave = world.planned_wave(Bounds(start=3, end=4))
    pause(world)
    jobs = len(world.runner.jobs)
    done = world.run()
    (problem,) = done.problems
    assert (type(problem), done.exit_code, done.plan, done.waves) == (PausedError, 1, None, ())
    assert "maintenance" in problem.message
    assert (len(world.runner.jobs), planned(world)) == (jobs, [wave])
    assert [item.range for item in world.plan(dry_run=True).ranges] == [OffsetRange(4, 5)]
    with pytest.raises(PausedError):
        world.ingest(wave)
    answer = resume(world)
    assert (answer.changed, answer.waiting) == (True, 1)
    assert world.run().exit_code == 0
    world.check()


def test_pause_in_the_middle_of_a_run_lets_the_wave_end() -> None:
    """What was at work lands and the watermark moves over it; the rest stays planned, and one line says why."""
    world = World(spec=SMALL)
    world.produce(4)

    def meanwhile(call: str) -> None:
        if call == "runner.stage":
            subject = decisions.find_pausable(world.ledger, "orders")
            world.ledger.commit(Pause(pipeline=subject.pipeline, reason="disk is full", actor="anna"))

    done = world.run(worker=world.worker(meanwhile))
    assert [wave.state for wave in done.waves] == [WaveState.COMMITTED]
    assert [type(problem) for problem in done.problems] == [PausedError]
    assert (done.exit_code, world.stream().watermark, len(planned(world))) == (1, 1, 3)
    resume(world)
    assert world.run().exit_code == 0
    world.check()


def test_run_leaves_the_waves_of_a_paused_plan_only(world: World) -> None:
    """Other plans are brought into the lake, and what is new is planned."""
    world.produce(4)
    mine = world.plan(Bounds(start=0, end=2))
    pause(world, mine.id)
    done = world.run()
    assert ([type(problem) for problem in done.problems], done.exit_code) == ([PausedError], 1)
    assert world.offsets() == [2, 3]
    resume(world, mine.id)
    assert world.run().exit_code == 0
    world.check()


def test_wave_at_work_is_named_and_goes_on(world: World) -> None:
    """The answer to a pause says what still comes, and how many waves wait."""
    world.produce(4)
    first = world.planned_wave(Bounds(start=0, end=2))
    world.planned_wave(Bounds(start=2, end=4))
    answers: list[PauseResult] = []
    passing = lambda call: answers.append(pause(world)) if call == "runner.stage" else None  # noqa: E731
    world.ingest(first, world.worker(passing))
    (answer,) = answers
    assert (answer.at_work, answer.stopped, answer.waiting) == ((first,), (), 1)
    assert world.offsets() == [0, 1]


def test_wave_is_stopped_at_once_and_stays_planned(world: World) -> None:
    """Its worker can neither go on nor record anything; nothing of it is seen, and after the resume it lands once."""
    world.produce(3)
    wave = world.planned_wave()
    answers: list[PauseResult] = []
    passing = lambda call: answers.append(pause(world, now=True)) if call == "table.add_receipts" else None  # noqa: E731
    with pytest.raises(PausedError, match=r"Pipeline orders is paused .* maintenance.* kafka-lake resume orders"):
        world.ingest(wave, world.worker(passing))
    (answer,) = answers
    assert (answer.stopped, answer.landed, answer.at_work, answer.waiting) == ((wave,), (), (), 1)
    assert {item.state for item in world.ledger.ranges(wave=wave)} == {RangeState.PLANNED}
    assert world.offsets() == []
    resume(world)
    assert world.run().exit_code == 0
    world.check()


def test_wave_that_was_published_is_committed_when_it_is_stopped(world: World) -> None:
    """Its rows are visible, and stay."""
    world.produce(3)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    answer = pause(world, now=True)
    assert (answer.stopped, answer.landed) == ((), (wave,))
    world.advance()
    assert world.stream().watermark == 3
    resume(world)
    assert world.run().exit_code == 0
    world.check()


def test_open_waves_are_recovered_while_it_is_paused(world: World) -> None:
    """Recover asks the lake; it stages nothing."""
    world.produce(3)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    pause(world)
    world.lease_ends()
    assert world.recover().adopted == (wave,)


def test_persons_cancel_and_skip_while_it_is_paused(world: World) -> None:
    """Also what has been claimed before, which is fenced first."""
    world.produce(4)
    first = world.planned_wave(Bounds(start=0, end=2))
    with pytest.raises(KilledError):
        world.ingest(first, world.worker(Killed("table.staged")))
    second = world.planned_wave(Bounds(start=2, end=4))
    pause(world)
    decisions.cancel(world.worker(), second, "not now")
    world.lease_ends()
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(0, 1), reason="bad", acknowledge_order=False)
    assert {item.state for item in world.ledger.ranges(pipeline="orders", states=UNRESOLVED)} == {
        RangeState.PLANNED,
        RangeState.CANCELLED,
    }


def test_unknown_subject_is_refused_in_words(world: World) -> None:
    """It is told what there is; and a pause needs a reason."""
    world.produce(1)
    world.run()
    with pytest.raises(UnknownSubjectError, match=r"no pipeline and no plan 'order': .* \(pipelines .*: orders\)"):
        pause(world, "order")
    with pytest.raises(UsageError, match="reason"):
        decisions.pause(world.worker(), decisions.find_pausable(world.ledger, "orders"), "  ")


def test_resume_of_what_is_not_paused_says_so(world: World) -> None:
    """Nothing is changed, and nothing is an error."""
    world.produce(1)
    world.run()
    answer = resume(world)
    assert (undocumented("resume", answer.to_json()), missing("resume", answer.to_json())) == ([], [])
    assert (answer.changed, answer.pause, answer.to_json()["paused"]) == (False, None, None)


def test_resume_names_the_pause_that_is_left(world: World) -> None:
    """A plan stays where it is while its pipeline is paused, and the other way round."""
    world.produce(3)
    plan = world.plan().id
    PauseAction(reason="all").apply(world.worker(), world.spec)
    PauseAction(reason="this", plan=plan).apply(world.worker(), world.spec)
    left = ResumeAction(plan=plan).apply(world.worker(), world.spec).lines
    assert left[-1] == "orders is paused still; end that with: kafka-lake resume orders"
    PauseAction(reason="this", plan=plan).apply(world.worker(), world.spec)
    left = ResumeAction().apply(world.worker(), world.spec).lines
    assert left[-1] == f"{plan} is paused still; end that with: kafka-lake resume {plan}"
    assert not any("still" in str(line) for line in ResumeAction(plan=plan).apply(world.worker(), world.spec).lines)
