"""One wave, one disturbance, at every single port call: whatever happens wherever, the end is right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import TypeVar

import pytest

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import decisions
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer, Row
from tests.truth import check_always, check_tokens
from tests.world import World

pytestmark = pytest.mark.unit
Came = TypeVar("Came")
FOREIGN = Row(topic="other", topic_id="other", partition=0, offset=0, key=None, value=None, attempt="")


def small_world() -> World:
    """Three records, an aborted transaction, one planned wave `p1-w0`."""
    world = World()
    world.produce(3)
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.plan()
    return world


@cache
def calls() -> tuple[str, ...]:
    """Return the port calls of an undisturbed ingest, in order."""
    made = Calls()
    world = small_world()
    world.ingest("p1-w0", world.worker(made))
    return tuple(made.made)


def every_call() -> range:
    """Number the port calls of an undisturbed ingest."""
    return range(1, len(calls()) + 1)


def after(name: str) -> int:
    """Return the number of the call that follows the only one of a name."""
    assert calls().count(name) == 1, name
    return calls().index(name) + 2


def comes_right(world: World) -> None:
    """Lead whatever is left to its end, checking on the way."""
    check_always(world)
    check_tokens(world)
    world.table.land_late()
    check_always(world)
    world.lease_ends()
    with suppress(KafkaLakeError):
        decisions.release(world.worker(), "p1-w0", None)
    world.run()
    world.check()
    check_tokens(world)
    assert world.stream().watermark == 6


Disturbance = Callable[[World], bool]
"""Something that happens to the world; returns whether it did what it is named after."""


def done(act: Callable[[], object]) -> bool:
    """Do something; return whether it was not refused."""
    try:
        act()
    except KafkaLakeError:
        return False
    return True


def another_worker(world: World) -> bool:
    world.lease_ends()
    return done(lambda: world.ingest("p1-w0"))


def another_worker_fails(world: World) -> bool:
    world.lease_ends()
    world.runner.failures.append("out of memory")
    with suppress(KafkaLakeError):
        world.ingest("p1-w0")
    failed = not world.runner.failures
    world.runner.failures.clear()
    return failed


def another_worker_dies(world: World, call: str) -> bool:
    world.lease_ends()
    doomed = Killed(call, if_it_comes=True)
    with suppress(KilledError):
        world.ingest("p1-w0", world.worker(doomed))
    return doomed.happened


def another_worker_dies_staged(world: World) -> bool:
    return another_worker_dies(world, "ledger.mark_publishing")


def another_worker_dies_published(world: World) -> bool:
    return another_worker_dies(world, "ledger.record_commit")


def settler(world: World) -> bool:
    world.lease_ends()
    return done(world.recover)


def canceller(world: World) -> bool:
    return done(lambda: decisions.cancel(world.worker(), "p1-w0", "stop"))


def skipper_without_waiting(world: World) -> bool:
    part = OffsetRange(1, 3)
    return done(
        lambda: decisions.skip(world.worker(), "orders", world.stream(), part, reason="bad", acknowledge_order=False)
    )


def skipper(world: World) -> bool:
    world.lease_ends()
    return skipper_without_waiting(world)


def foreign_writer(world: World) -> bool:
    world.table.write_foreign([FOREIGN])
    return True


def respec(world: World) -> bool:
    world.table.change_spec()
    return True


def run_beside(world: World) -> bool:
    world.run()
    return True


def run_after_the_lease(world: World) -> bool:
    world.lease_ends()
    world.run()
    return True


DISTURBANCES = [
    another_worker,
    another_worker_fails,
    another_worker_dies_staged,
    another_worker_dies_published,
    settler,
    canceller,
    skipper,
    skipper_without_waiting,
    foreign_writer,
    respec,
    run_beside,
    run_after_the_lease,
]


def strikes_before(disturbance: Disturbance) -> set[int]:
    """Return the calls before which a disturbance does what it is named after; before the others it is refused."""
    end = len(calls()) + 1
    powerless: dict[Disturbance, range] = {
        another_worker_fails: range(after("ledger.mark_staged"), end),
        another_worker_dies_staged: range(after("table.publish"), end),
        another_worker_dies_published: range(after("ledger.record_commit"), end),
        canceller: range(after("table.publish"), end),
        skipper_without_waiting: range(after("ledger.claim"), after("ledger.record_commit")),
    }
    return {*every_call()} - {*powerless.get(disturbance, ())}


def meeting(world: World, number: int, happening: Callable[[], Came]) -> Came:
    """Ingest the wave, and let something happen once, just before a call; return what came of it."""
    came: list[Came] = []
    with suppress(KafkaLakeError):
        world.ingest("p1-w0", world.worker(Before("", lambda: came.append(happening()), nth=number)))
    (once,) = came
    return once


@pytest.mark.slow
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_disturbance_at_any_call_comes_right(disturbance: Disturbance) -> None:
    """The worker meets it, ends as it may, and nothing that readers see was ever wrong."""
    struck = set()
    for number in every_call():
        world = small_world()
        struck |= {number} if meeting(world, number, partial(disturbance, world)) else set()
        comes_right(world)
    assert struck == strikes_before(disturbance)


@pytest.mark.parametrize("disturbance", [another_worker, canceller, skipper, settler])
def test_death_at_any_call_before_a_disturbance_comes_right(disturbance: Disturbance) -> None:
    """The worker dies, others find what it left, in whatever order."""
    struck = set()
    for number in every_call():
        world = small_world()
        with pytest.raises(KilledError):
            world.ingest("p1-w0", world.worker(Killed(nth=number)))
        check_always(world)
        struck |= {number} if disturbance(world) else set()
        comes_right(world)
    assert struck == strikes_before(disturbance)


@pytest.mark.parametrize("answer", [Answer.LOST_LANDED, Answer.LOST, Answer.LATE])
def test_lost_answer_at_any_commit_of_a_cancel_comes_right(answer: Answer) -> None:
    """Zombie publishers and fence commits whose answers are lost, one after the other: a cancel moves main as soon as
    the wave is claimed, and until it is published."""

    def lose_and_cancel(world: World) -> bool:
        world.table.next_answer = answer
        canceller(world)
        return world.table.next_answer is Answer.GIVEN

    for number in range(after("ledger.claim"), after("table.publish")):
        world = small_world()
        assert meeting(world, number, partial(lose_and_cancel, world)), "the cancel made no commit"
        comes_right(world)


def lost_publish(answer: Answer) -> World:
    """Return a world in which a publish's answer was lost, and its worker died of it."""
    world = small_world()
    doomed = Killed("table.find_commit", nth=3)

    def passing(call: str) -> None:
        doomed(call)
        if call == "table.publish":
            world.table.next_answer = answer

    with pytest.raises(KilledError):
        world.ingest("p1-w0", world.worker(passing))
    assert world.table.next_answer is Answer.GIVEN, "nothing was published"
    return world


def abandoned(answer: Answer, disturbance: Disturbance) -> World:
    """Return what a disturbance has made of a world with a lost publish, with no lease left."""
    world = lost_publish(answer)
    disturbance(world)
    world.lease_ends()
    return world


OTHERS = pytest.mark.parametrize("disturbance", [another_worker, canceller, skipper, settler, foreign_writer])


@OTHERS
@pytest.mark.parametrize("answer", [Answer.LOST_LANDED, Answer.LOST])
def test_lost_answer_then_death_then_others_come_right(answer: Answer, disturbance: Disturbance) -> None:
    """The last thing that a worker did was a commit whose answer was lost."""
    world = abandoned(answer, disturbance)
    with suppress(KafkaLakeError):
        world.ingest("p1-w0")
    comes_right(world)


@OTHERS
def test_publish_that_lands_after_death_and_others_comes_right(disturbance: Disturbance) -> None:
    """It arrives before any call of the worker who comes next, or when that one has ended."""
    made, world = Calls(), abandoned(Answer.LATE, disturbance)
    with suppress(KafkaLakeError):
        world.ingest("p1-w0", world.worker(made))
    comes_right(world)
    assert made.made
    for number in range(1, len(made.made) + 1):
        world = abandoned(Answer.LATE, disturbance)
        assert meeting(world, number, world.table.land_late) is not None, "nothing was late"
        comes_right(world)
