"""Open transactions at the snapshot: what is stable is planned, the rest follows, and what hangs is named."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_lake.core.errors import HangingTransactionError, PendingCommitError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.plan import plan_document
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.services import planning, reporting
from airflow_kafka_lake.services.planning import open_transactions
from tests.gates import Before
from tests.unit.services.test_planning import pieces
from tests.world import FOLLOW, World

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("commit", [True, False])
def test_plan_stops_at_an_open_transaction_and_the_rest_follows(world: World, commit: bool) -> None:
    """Also when it is aborted; the high watermark is remembered as what is waited for."""
    world.produce(3)
    world.produce(2, transaction="slow")
    world.produce(4)
    plan = world.plan()
    assert pieces(plan) == [(0, OffsetRange(0, 3))]
    (waiting,) = plan_document(plan, recorded=True)["waiting_for_stable"]
    assert (waiting["last_stable"], waiting["high_watermark"]) == (3, 9)
    assert waiting["transaction"]["transactional_id"] == "slow"
    assert waiting["transaction"]["first_offset"] == 3
    assert waiting["transaction"]["hanging"] is False
    world.end("slow", commit=commit)
    assert world.run().exit_code == 0
    world.check()
    assert world.stream().watermark == 10


def test_transaction_that_hangs_is_named_in_plan_and_status(world: World) -> None:
    """Longer open than its own limit: producer, transactional id and start, and what ends it."""
    world.produce(3)
    world.run()
    begun = world.clock.now()
    world.produce(2, transaction="lost")
    world.produce(1, transaction="late")
    world.clock.advance(timedelta(minutes=3))
    (waiting,) = plan_document(world.plan(), recorded=False)["waiting_for_stable"]
    assert waiting["transaction"]["hanging"] is True
    assert waiting["transaction"]["started_at"] == timestamp(begun)
    assert "transaction 'lost' of producer" in waiting["message"]
    assert "abort --topic orders --partition 0 --start-offset 3" in waiting["message"]
    status = reporting.status(world.worker(), world.spec)
    assert status.to_json()["waiting_for_stable"] == [waiting]


def test_run_lands_the_rest_and_names_what_hangs() -> None:
    """What may still end is waited for; what no producer will end needs a person, and stops nothing else."""
    world = World(partitions=2)
    world.produce(2, 0)
    world.produce(1, 0, transaction="lost")
    world.produce(3, 0)
    world.produce(2, 1)
    assert world.run().exit_code == 0
    world.produce(2, 1)
    world.clock.advance(timedelta(minutes=3))
    done = world.run()
    assert (done.exit_code, world.offsets(0), world.offsets(1)) == (1, [0, 1], [0, 1, 2, 3])
    (problem,) = done.problems
    assert isinstance(problem, HangingTransactionError)
    assert problem.message.startswith("orders/0 is read no further than offset 2, nor will it be: transaction 'lost'")
    assert "--start-offset 2" in problem.message
    assert world.run(Bounds(partitions=(1,))).exit_code == 0, "it is not in the way of what was asked for"
    assert world.run(Bounds(partitions=(0,), start=0, end=2)).exit_code == 0
    assert world.run(Bounds(partitions=(0,), start=0)).exit_code == 1
    world.end("lost")
    assert world.run().exit_code == 0
    world.check()


def test_cluster_that_names_no_transaction_leaves_the_plan_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds what is news, and no part of the decision."""
    world.produce(3)
    world.produce(2, transaction="slow")
    monkeypatch.setattr(world.kafka, "transactions", lambda *_: ())
    (waiting,) = plan_document(world.plan(), recorded=True)["waiting_for_stable"]
    assert (waiting["last_stable"], waiting["transaction"], waiting["message"]) == (3, None, None)


def test_unreachable_coordinator_is_no_reason_to_plan_nothing(world: World) -> None:
    """The question fails, and is told: it is not the answer that none is open."""
    world.produce(2, transaction="slow")
    worker = world.worker()
    seen = worker.source.snapshot(("orders",), None).partitions
    world.kafka.down = True
    found, state = open_transactions(worker.source, seen)
    assert (found, state.partition(":")[0]) == ((), "unknown")


@pytest.fixture
def pending() -> World:
    """Two partitions, of which one has a commit of the end policy's group pending."""
    world = World(partitions=2)
    world.with_spec(end=Policy(kind=PolicyKind.GROUP, group="live"))
    world.produce(5, 0)
    world.produce(5, 1)
    world.kafka.commit_group("live", "orders", 0, 2)
    world.kafka.commit_group("live", "orders", 1, None, GroupOffsetState.UNSTABLE)
    return world


def planned(world: World, timeout: int, worker: object = None) -> planning.PlanResult:
    ports = worker or world.worker()
    return planning.plan(ports, world.spec, FOLLOW, plan_id="p", timeout=timedelta(seconds=timeout))  # type: ignore[arg-type]


def test_pending_commit_is_waited_for(pending: World) -> None:
    """What the group has committed in the end is the cutover, and not what it had committed before."""
    ended = Before("source.snapshot", lambda: pending.kafka.commit_group("live", "orders", 1, 4), nth=3)
    plan = planned(pending, 60, pending.worker(ended)).plan
    assert pieces(plan) == [(0, OffsetRange(0, 2)), (1, OffsetRange(0, 4))]


def test_commit_that_stays_pending_fails_the_plan_by_name(pending: World) -> None:
    """Bounded; the partition, the group and the transaction are named, and nothing is planned."""
    begun = pending.clock.now()
    with pytest.raises(PendingCommitError, match=r"group 'live' has commits in open transactions on orders/1") as error:
        planned(pending, 60)
    assert timedelta(seconds=60) <= pending.clock.now() - begun <= timedelta(seconds=80)
    assert error.value.facts["partitions"] == [["orders", 1]]
    assert "transaction 'commits of live' of producer" in error.value.message
    assert pending.ledger.pipelines() == ()
