"""One wave, one disturbance, at every single port call: whatever happens wherever, the end is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from airflow_kafka_lake.adapters.memory_lake import Answer, Row
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import deciding
from tests.gates import Before, Calls, Killed, KilledError
from tests.truth import check_always, check_tokens
from tests.world import World

pytestmark = pytest.mark.unit
FOREIGN = Row(topic="other", topic_id="other", partition=0, offset=0, key=None, value=None, attempt="")


def small_world() -> World:
    """Three records, an aborted transaction, one planned wave `p1-w0`."""
    world = World()
    world.produce(3)
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.plan()
    return world


def every_call() -> Iterator[int]:
    """Number the port calls of an undisturbed ingest."""
    calls = Calls()
    world = small_world()
    world.ingest("p1-w0", world.worker(calls))
    yield from range(1, len(calls.made) + 1)


def comes_right(world: World) -> None:
    """Lead whatever is left to its end, checking on the way."""
    check_always(world)
    check_tokens(world)
    world.table.land_late()
    check_always(world)
    world.lease_ends()
    with suppress(KafkaLakeError):
        deciding.release(world.worker(), "p1-w0", None)
    world.run()
    world.check()
    check_tokens(world)
    assert world.stream().watermark == 6


def another_worker(world: World) -> None:
    world.lease_ends()
    world.ingest("p1-w0")


def another_worker_fails(world: World) -> None:
    world.lease_ends()
    world.runner.failures.append("out of memory")
    with suppress(KafkaLakeError):
        world.ingest("p1-w0")
    world.runner.failures.clear()


def another_worker_dies_staged(world: World) -> None:
    world.lease_ends()
    with suppress(KilledError, KafkaLakeError):
        world.ingest("p1-w0", world.worker(Killed("ledger.mark_publishing")))


def another_worker_dies_published(world: World) -> None:
    world.lease_ends()
    with suppress(KilledError, KafkaLakeError):
        world.ingest("p1-w0", world.worker(Killed("ledger.settle")))


def settler(world: World) -> None:
    world.lease_ends()
    world.settle()


def canceller(world: World) -> None:
    with suppress(KafkaLakeError):
        deciding.cancel(world.worker(), "p1-w0", "stop")


def skipper(world: World) -> None:
    world.lease_ends()
    with suppress(KafkaLakeError):
        deciding.skip(
            world.worker(), "orders", world.stream(), OffsetRange(1, 3), reason="bad", acknowledge_order=False
        )


def skipper_without_waiting(world: World) -> None:
    with suppress(KafkaLakeError):
        deciding.skip(
            world.worker(), "orders", world.stream(), OffsetRange(1, 3), reason="bad", acknowledge_order=False
        )


def foreign_writer(world: World) -> None:
    world.table.write_foreign([FOREIGN])


def respec(world: World) -> None:
    world.table.change_spec()


def run_beside(world: World) -> None:
    world.run()


def run_after_the_lease(world: World) -> None:
    world.lease_ends()
    world.run()


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


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_disturbance_at_any_call_comes_right(disturbance: Callable[[World], None]) -> None:
    """The worker meets it, ends as it may, and nothing that readers see was ever wrong."""
    for number in every_call():
        world = small_world()
        between = Before("", lambda world=world: disturbance(world), nth=number)
        with suppress(KafkaLakeError):
            world.ingest("p1-w0", world.worker(between))
        assert between.happened
        comes_right(world)


@pytest.mark.parametrize("disturbance", [another_worker, canceller, skipper, settler])
def test_death_at_any_call_before_a_disturbance_comes_right(disturbance: Callable[[World], None]) -> None:
    """The worker dies, others find what it left, in whatever order."""
    for number in every_call():
        world = small_world()
        with pytest.raises(KilledError):
            world.ingest("p1-w0", world.worker(Killed(nth=number)))
        check_always(world)
        disturbance(world)
        comes_right(world)


@pytest.mark.parametrize("answer", [Answer.LOST_LANDED, Answer.LOST, Answer.LATE])
def test_lost_answer_at_any_commit_of_a_cancel_comes_right(answer: Answer) -> None:
    """Zombie publishers and fence commits whose answers are lost, one after the other."""

    def lose_and_cancel(world: World) -> None:
        world.table.next_answer = answer
        canceller(world)

    for number in every_call():
        world = small_world()
        between = Before("", lambda world=world: lose_and_cancel(world), nth=number)
        with suppress(KafkaLakeError):
            world.ingest("p1-w0", world.worker(between))
        comes_right(world)


@pytest.mark.parametrize("answer", [Answer.LOST_LANDED, Answer.LOST, Answer.LATE])
@pytest.mark.parametrize("disturbance", [another_worker, canceller, skipper, settler, foreign_writer])
def test_lost_answer_then_death_then_others_come_right(answer: Answer, disturbance: Callable[[World], None]) -> None:
    """The last thing that a worker did was a commit whose answer nobody heard; it may land at the worst moment."""
    for late_at in every_call():
        world = small_world()
        doomed = Killed("table.look", nth=3)

        def passing(call: str, world: World = world, doomed: Killed = doomed) -> None:
            doomed(call)
            if call == "table.publish":
                world.table.next_answer = answer

        with suppress(KilledError):
            world.ingest("p1-w0", world.worker(passing))
        disturbance(world)
        world.lease_ends()
        with suppress(KafkaLakeError):
            world.ingest("p1-w0", world.worker(Before("", world.table.land_late, nth=late_at)))
        comes_right(world)
