"""What an attempt has staged and audited can be the only copy of its records: no one drops it unasked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.actions.offsets import WithdrawAction
from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import OnlyCopyError, StateError, UnavailableError
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.waves import RangeState, Requirement, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.services import decisions, rebuilding
from tests.gates import Before, Killed, KilledError
from tests.kit.memory_ledger import MemoryLedger
from tests.unit.services.test_order import expanded, of_three
from tests.world import World, read_again

pytestmark = pytest.mark.unit


def produced(world: World) -> World:
    """Write records, and an aborted transaction whose markers only Kafka can explain, to two partitions."""
    world.produce(3)
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.produce(2)
    world.produce(3, 1)
    return world


@pytest.fixture
def world() -> World:
    """Two partitions, planned as one wave."""
    made = produced(World(partitions=2))
    made.plan()
    return made


def dies(world: World, call: str = "table.publish") -> str:
    """Let a worker die with something audited; return its attempt."""
    with pytest.raises(KilledError):
        world.ingest("p1-w0", world.worker(Killed(call)))
    world.lease_ends()
    return world.ledger.attempts("p1-w0")[-1].attempt


@pytest.fixture
def attempt(world: World) -> str:
    """The attempt of a dead worker whose branch has records that retention has deleted since: 0-5 of partition 0."""
    found = dies(world)
    world.retain_from(5)
    return found


def cancel(world: World, **options: Any) -> None:
    """Take the other partition's range away."""
    (other,) = [item for item in world.ledger.ranges(wave="p1-w0") if item.stream.partition == 1]
    decisions.cancel(world.worker(), other.id, "not now", **options)


def skip(world: World, start: int = 1, end: int = 2, partition: int = 1, **options: Any) -> None:
    """Pass a record of the other partition."""
    decisions.skip(
        world.worker(),
        "orders",
        world.stream(partition),
        OffsetRange(start, end),
        reason="poison",
        acknowledge_order=False,
        **options,
    )


def rebuild(world: World, **options: Any) -> None:
    """Make the ledger agree with the lake."""
    rebuilding.rebuild(world.worker(), world.spec, **options)


DROPPERS = [cancel, skip, rebuild]


def landed(world: World, attempt: str) -> None:
    """See that a run brings everything in from the branch."""
    assert world.run().exit_code == 0
    assert (world.offsets(), world.offsets(1)) == ([0, 1, 2, 6, 7], [0, 1, 2])
    assert {row.attempt for row in world.table.rows()} == {attempt}
    world.check()


@pytest.mark.parametrize("drop", DROPPERS)
def test_branch_that_is_the_only_copy_of_records_is_not_dropped(
    world: World, attempt: str, drop: Callable[..., None]
) -> None:
    """Who would is refused, with the offsets that exist nowhere else; the next run publishes them."""
    with pytest.raises(OnlyCopyError) as refused:
        drop(world)
    message = refused.value.message
    assert f"attempt {attempt} has staged of wave p1-w0" in message
    assert "is the only copy of orders/0 0-5, 5 offsets:" in message
    assert "kafka-lake run orders" in message
    assert "--drop-staged" in message
    assert world.table.branches() == (attempt,)
    landed(world, attempt)


@pytest.mark.parametrize("drop", DROPPERS)
def test_person_can_give_the_only_copy_up(world: World, attempt: str, drop: Callable[..., None]) -> None:
    """With the flag that the refusal names: what is lost is held then, and what Kafka still has is read."""
    drop(world, drop_staged=True)
    assert world.table.branches() == ()
    assert world.run().exit_code == 1
    assert world.offsets() == [6, 7]
    world.check()


@pytest.mark.parametrize("drop", DROPPERS)
def test_branch_whose_records_kafka_still_has_is_dropped_as_ever(world: World, drop: Callable[..., None]) -> None:
    """They are read again."""
    dies(world)
    drop(world)
    assert world.table.branches() == ()


@pytest.mark.parametrize("drop", DROPPERS)
def test_only_copy_is_not_judged_while_kafka_does_not_answer(
    world: World, attempt: str, drop: Callable[..., None]
) -> None:
    """Unknown is not "still there": nothing is dropped, and the call can be repeated."""
    world.kafka.log("orders", 0).unreachable = "no leader"
    with pytest.raises(UnavailableError, match="repeat"):
        drop(world)
    assert world.table.branches() == (attempt,)
    world.kafka.log("orders", 0).unreachable = ""
    landed(world, attempt)


def test_records_of_a_deleted_topic_are_in_their_branch_alone(world: World) -> None:
    """Every offset of it."""
    attempt = dies(world)
    world.kafka.delete_topic("orders")
    with pytest.raises(OnlyCopyError, match="orders/0 0-8, 8 offsets; orders/1 0-3, 3 offsets:"):
        cancel(world)
    assert world.table.branches() == (attempt,)


def test_skip_of_the_very_offsets_gives_them_up_by_itself(world: World, attempt: str) -> None:
    """That person has said that they shall not be read; one offset beside them still keeps the branch."""
    with pytest.raises(OnlyCopyError, match="orders/0 4-5, 1 offset:"):
        skip(world, 0, 4, 0)
    skip(world, 0, 5, 0)
    assert world.run().exit_code == 0
    assert (world.offsets(), world.offsets(1)) == ([6, 7], [0, 1, 2])


def test_repeat_that_would_decode_otherwise_does_not_drop_the_only_copy(world: World, attempt: str) -> None:
    """What is staged is not as the pipeline says now: it waits until that is put back, or it is given up."""
    before = world.spec
    world.ledger.commit(SavePipeline(spec=replace(before, decoding=Decoding(format=Format.STRING))))
    with pytest.raises(OnlyCopyError, match=r"\[decode\].*kafka-lake cancel p1-w0 --drop-staged --reason TEXT"):
        world.ingest("p1-w0")
    assert (world.table.branches(), len(world.runner.jobs)) == ((attempt,), 1)
    assert world.ledger.wave("p1-w0").state is WaveState.PLANNED
    decisions.cancel(world.worker(), "p1-w0", "decoded anew", drop_staged=True)
    assert world.table.branches() == ()


def test_damaged_branch_is_not_dropped_where_kafka_has_its_records_no_more(world: World, attempt: str) -> None:
    """What of it can be read is still there for a person."""
    world.table.damage(attempt)
    with pytest.raises(OnlyCopyError, match="kafka-lake cancel p1-w0 --drop-staged"):
        world.ingest("p1-w0")
    assert world.table.branches() == (attempt,)


@pytest.mark.parametrize("own", [False, True])
def test_branch_that_the_table_rejects_is_not_dropped_where_it_is_the_only_copy(world: World, own: bool) -> None:
    """Once the table is as it was, the next run publishes it."""
    if not own:
        dies(world)

    def refuse() -> None:
        world.retain_from(5)
        world.table.next_rejection = Requirement.SPEC

    with pytest.raises(OnlyCopyError, match=str(Requirement.SPEC)):
        world.ingest("p1-w0", world.worker(Before("table.publish", refuse)))
    world.recover()
    (attempt,) = world.table.branches()
    assert attempt == world.ledger.attempts("p1-w0")[0].attempt
    landed(world, attempt)


@pytest.mark.parametrize("receipts", [False, True])
def test_rebuild_of_a_lost_ledger_does_not_drop_the_only_copy(world: World, receipts: bool) -> None:
    """Its rows say what is in it; what main has too, or Kafka still has, is no reason to refuse."""
    attempt = dies(world, "table.publish" if receipts else "table.add_receipts")
    world.ledger = MemoryLedger(world.clock, ledger_id="2" * 32)
    world.retain_from(2)
    with pytest.raises(OnlyCopyError, match=f"orders/0 0-2, 2 offsets:.*'kafka_lake_{attempt}'"):
        rebuild(world)
    assert world.table.branches() == (attempt,)
    world.retain_from(8)
    with pytest.raises(OnlyCopyError, match=r"orders/0 0-3, 6-8, 5 offsets:"):
        rebuild(world)
    rebuild(world, drop_staged=True)
    assert world.table.branches() == ()


def test_rebuild_does_not_mind_a_branch_whose_rows_have_landed(world: World) -> None:
    """A copy of what main has."""
    attempt = dies(world)
    store = world.table._store
    staged = store.refs[branch_of(attempt)]
    world.run()
    store.refs[branch_of(attempt)] = staged
    world.ledger = MemoryLedger(world.clock, ledger_id="2" * 32)
    world.retain_from(8)
    rebuild(world)


def test_cancel_of_what_was_read_again_drops_its_branch(world: World) -> None:
    """The first reading stays visible: main has the records."""
    world.run()
    world.advance()
    world.reopen(0, 8)
    (again,) = [item.id for item in world.ledger.waves("orders", (WaveState.PLANNED,))]
    with pytest.raises(KilledError):
        world.ingest(again, world.worker(Killed("table.publish")))
    world.lease_ends()
    world.retain_from(5)
    decisions.cancel(world.worker(), again, "not now")
    assert world.table.branches() == ()


def test_only_copy_is_looked_for_where_something_was_audited(world: World) -> None:
    """A wave of which no attempt came so far is given up without a list of the table's branches."""
    with pytest.raises(KilledError):
        world.ingest("p1-w0", world.worker(Killed("runner.stage")))
    world.lease_ends()
    calls: list[str] = []
    decisions.cancel(world.worker(calls.append), "p1-w0", "not now")
    assert "table.fence" in calls
    assert "table.branches" not in calls


def test_withdraw_never_meets_a_branch(world: World, attempt: str) -> None:
    """Only what was never claimed is withdrawn, and only what was claimed has staged."""
    with pytest.raises(StateError):
        WithdrawAction(selection=Selection(), reason="not needed").apply(world.worker(), world.spec)
    assert world.table.branches() == (attempt,)


def test_refusal_decides_nothing(world: World, attempt: str) -> None:
    """What was planned is planned, and nothing is in the history."""
    with pytest.raises(OnlyCopyError):
        cancel(world)
    assert {item.state for item in world.ledger.ranges(wave="p1-w0")} == {RangeState.PLANNED}
    assert world.ledger.events("orders")[-1].kind != "revoke"


def test_reopen_of_a_parent_does_not_drop_the_only_copy_of_its_child() -> None:
    """The child would have to wait, and be staged anew: it is published first, or given up."""
    world = of_three()
    expanded(world, 4)
    (child,) = world.plan().waves
    with pytest.raises(KilledError):
        world.ingest(child.id, world.worker(Killed("table.publish")))
    world.lease_ends()
    (attempt,) = world.table.branches()
    world.retain_from(1, 3)

    def reopen(**options: Any) -> None:
        parent = world.stream(0)
        read_again(world.worker(), world.spec, parent, OffsetRange(5, 6), reason="look again", **options)

    with pytest.raises(OnlyCopyError, match="orders/3 0-1, 1 offset:"):
        reopen()
    assert (world.table.branches(), world.stream(0).watermark) == ((attempt,), 6)
    reopen(drop_staged=True)
    assert world.table.branches() == ()
