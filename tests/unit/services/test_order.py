"""Order over layouts: no record of a later segment is published before the last one of those it continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.actions.offsets import SkipAction
from airflow_kafka_lake.core.errors import (
    GateClosedError,
    HeldError,
    JobFailedError,
    StateError,
    UnavailableError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.attempts import ClaimWave
from airflow_kafka_lake.core.ledger.waves import UNFINISHED, RangeState, Rejected, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.core.spec import Ordering, Partitioner, Policy, PolicyKind
from airflow_kafka_lake.services import (
    decisions,
    reopening,
)
from airflow_kafka_lake.services.running import finish_plan
from tests.gates import Before, Killed, KilledError
from tests.kit.clock import FakeClock
from tests.kit.memory_lake import Answer
from tests.world import SPEC, World, read_again

pytestmark = pytest.mark.unit
COMMIT = timedelta(seconds=300)


def of_three(**changes: object) -> World:
    """Return a world whose topic has three partitions of four committed records each."""
    world = World(3, replace(SPEC, **changes))
    for partition in range(3):
        world.produce(4, partition)
    assert world.run().exit_code == 0
    return world


def expanded(world: World, partitions: int, records: int = 2, *, run: bool = True) -> None:
    """Give the topic more partitions, have it seen, and let the layout grace pass."""
    world.kafka.add_partitions("orders", partitions)
    for partition in range(partitions):
        world.produce(records, partition)
    if run:
        world.run()
    else:
        world.plan()
    world.clock.advance(COMMIT)


def starts(plan: Plan) -> list[tuple[int, int, int]]:
    """Return the ranges of a plan by wave, partition and start."""
    waves = {wave.id: number for number, wave in enumerate(plan.waves)}
    return sorted(
        (waves[wave.id], item.stream.partition, item.range.start) for wave in plan.waves for item in wave.ranges
    )


def parents(world: World, partition: int) -> set[tuple[int, int]]:
    """Return partition and start of the parents of a partition's last segment."""
    last = [item for item in world.ledger.segments("orders") if item.stream[2] == partition][-1]
    return {(stream[2], start) for stream, start in last.parents}


def test_new_partition_waits_until_the_expansion_has_committed() -> None:
    """Producers may still use the old layout: the new partition is left out, the old ones go on."""
    world = of_three()
    world.kafka.add_partitions("orders", 4)
    for partition in range(4):
        world.produce(2, partition)
    plan = world.plan()
    assert {item.stream.partition for item in plan.ranges} == {0, 1, 2}
    assert [(item.stream.partition, item.until - world.clock.now()) for item in plan.layout_change.in_grace] == [
        (3, COMMIT)
    ]
    assert plan.blocked == ()
    world.clock.advance(COMMIT - timedelta(seconds=1))
    assert world.plan().waves == ()
    assert world.run().exit_code == 3, "worth repeating"
    world.clock.advance(timedelta(seconds=1))
    assert {item.stream.partition for item in world.plan().ranges} == {3}
    assert world.run().exit_code == 0


@pytest.mark.parametrize(("by", "where"), [(3600, "ahead of"), (-3600, "behind")])
def test_no_clock_that_is_far_off_tells_that_a_layout_has_committed(by: int, where: str) -> None:
    """Two workers see a layout first and last; one whose clock is off the ledger's plans nothing, and is told so."""
    world = of_three()
    world.kafka.add_partitions("orders", 4)
    world.produce(2, 3)
    off = FakeClock(world.clock.now() + timedelta(seconds=by))
    if by > 0:
        world.plan()
    before = (world.ledger.layouts("orders"), world.ledger.segments("orders"))
    world.kafka._now = off.now
    with pytest.raises(
        UnavailableError, match=f"the clock of alpha is 3600 s {where} the ledger's.*nothing was planned"
    ):
        world.plan(worker=replace(world.worker(), clock=off))
    assert (world.ledger.layouts("orders"), world.ledger.segments("orders")) == before
    world.kafka._now = world.clock.now
    assert {item.stream.partition for item in world.plan().ranges} == set(), (
        "it has not committed by the ledger's clock"
    )


def test_partitions_of_another_topic_recover_nothing() -> None:
    """A pipeline reads two topics: the new partition of the small one waits, however many the other has."""
    world = World(3, replace(SPEC, topics=("orders", "payments"), table="raw.{topic}"))
    world.create("payments", 8)
    for partition in range(3):
        world.produce(4, partition)
    world.produce(1, 7, topic="payments")
    assert world.run().exit_code == 0
    world.kafka.add_partitions("orders", 4)
    world.produce(2, 3)
    plan = world.plan()
    assert plan.ranges == ()
    assert [str(item.stream) for item in plan.layout_change.in_grace] == ["orders/3"]
    world.clock.advance(COMMIT)
    world.plan()
    (child,) = [item for item in world.ledger.segments("orders") if item.stream == world.key(3)]
    assert {(stream[0], stream[2]) for stream, _ in child.parents} == {("orders", n) for n in range(3)}


def test_old_partitions_are_sealed_where_their_logs_end_after_the_layout_grace() -> None:
    """What a late producer wrote to the old layout before the seal lies in the old segment."""
    world = of_three()
    expanded(world, 4)
    world.produce(1, 0)
    world.run()
    found = {(item.stream[2], item.start): item.seal for item in world.ledger.segments("orders")}
    assert found == {(0, 0): 7, (1, 0): 6, (2, 0): 6, (0, 7): None, (1, 6): None, (2, 6): None, (3, 0): None}


def test_children_share_a_key_with_their_parents_only() -> None:
    """From 3 to 4 partitions any old one may hold the key; from 4 to 8 only the one that is equal modulo 4."""
    world = of_three()
    expanded(world, 4)
    world.run()
    assert parents(world, 3) == {(0, 0), (1, 0), (2, 0)}
    expanded(world, 8)
    world.run()
    assert parents(world, 7) == {(3, 0)}
    assert parents(world, 5) == {(1, 6)}
    assert parents(world, 1) == {(1, 6)}


def of(partitions: int) -> World:
    """Return a world whose topic has some partitions, each with committed records."""
    world = World(partitions, SPEC)
    for partition in range(partitions):
        world.produce(2, partition)
    assert world.run().exit_code == 0
    return world


def grown_quickly(world: World, first: int, second: int) -> None:
    """Let a topic grow twice within one layout grace, each time seen by a plan, with records in every partition."""
    for partitions in (first, second):
        world.kafka.add_partitions("orders", partitions)
        for partition in range(partitions):
            world.produce(2, partition)
        world.plan()
        world.clock.advance(COMMIT / 2)
    world.clock.advance(COMMIT / 2)


def test_layout_that_was_outgrown_before_it_committed_is_continued() -> None:
    """From 3 to 4 to 8 partitions within one layout grace: what the fourth one got under the layout of four comes
    before the partition that its keys are written to now."""
    world = of_three()
    grown_quickly(world, 4, 8)
    plan = world.plan()
    wave = {(item.stream.partition, item.range.start): wave.id for wave in plan.waves for item in wave.ranges}
    assert parents(world, 7) == {(0, 0), (1, 0), (2, 0), (3, 0)}
    assert parents(world, 5) == {(0, 0), (1, 0), (2, 0)}
    for earlier in world.ledger.waves("orders", UNFINISHED):
        if earlier.plan != plan.id:
            world.ingest(earlier.id)
    with pytest.raises(GateClosedError, match="orders/3 from 0 to its seal 4"):
        world.ingest(wave[7, 0])
    assert world.run().exit_code == 0
    world.check()


def test_old_partition_holds_what_was_written_under_every_layout_that_was_seen() -> None:
    """From 4 to 6 to 12: a key of partition 8 was in 0 by the first layout and in 2 by the second."""
    world = of(4)
    grown_quickly(world, 6, 12)
    assert world.run().exit_code == 0
    assert parents(world, 8) == {(0, 0), (2, 0)}
    assert parents(world, 11) == {(3, 0), (5, 0)}
    world.check()


def test_partition_first_asked_for_during_an_expansion_has_records_of_the_old_layout() -> None:
    """It is continued like its neighbours, though the ledger came to know it when there were more."""
    world = World(4, SPEC)
    for partition in range(4):
        world.produce(2, partition)
    assert world.run(Bounds(partitions=(1, 2, 3))).exit_code == 0
    expanded(world, 6)
    assert world.run().exit_code == 0
    assert parents(world, 4) == {(0, 0), (2, 0)}
    world.check()


def test_recreated_topic_continues_every_layout_that_the_old_one_was_seen_in() -> None:
    """Also one that had not committed: its records lie in the old partitions."""
    world = of(4)
    world.kafka.add_partitions("orders", 6)
    for partition in range(4):
        world.produce(2, partition)
    world.run()
    world.create("orders", 12)
    world.produce(2, 8)
    world.plan()
    assert parents(world, 8) == {(0, 0), (2, 0)}


def test_topic_with_partitions_that_have_not_committed_cannot_be_declared_to_end() -> None:
    """A migration takes all of its ends, also those that no plan has read yet."""
    world = of(2)
    world.create("payments")
    world.with_spec(topics=("orders", "payments"))
    world.run()
    world.kafka.add_partitions("orders", 3)
    world.run()
    with pytest.raises(StateError, match="orders/2 has not committed"):
        decisions.migrate(world.worker(), world.spec, "orders", target="payments", seals={0: 2, 1: 2, 2: 0})


def test_unknown_partitioner_makes_every_old_partition_a_parent() -> None:
    """It is not known where a key was: all must be drained."""
    world = of_three(partitioner=Partitioner.UNKNOWN)
    expanded(world, 6)
    world.run()
    assert parents(world, 4) == {(0, 0), (1, 0), (2, 0)}


def test_empty_old_segment_is_replaced_by_what_it_continues() -> None:
    """A partition that never got a record under its layout is no parent; its own parents are."""
    world = of_three()
    world.kafka.add_partitions("orders", 4)
    world.plan()
    world.clock.advance(COMMIT)
    world.run()
    world.kafka.add_partitions("orders", 8)
    world.produce(2, 7)
    world.plan()
    world.clock.advance(COMMIT)
    assert world.run().exit_code == 0
    assert parents(world, 7) == {(0, 0), (1, 0), (2, 0)}
    assert world.offsets(7) == [0, 1]


@pytest.mark.parametrize("ordering", [Ordering.NONE, Ordering.PARTITION])
def test_expansion_waits_for_nothing_where_keys_do_not_matter(ordering: Ordering) -> None:
    """Without an order by key, a new partition is read at once."""
    world = of_three(ordering=ordering)
    world.kafka.add_partitions("orders", 4)
    world.produce(2, 3)
    assert world.run().exit_code == 0
    assert world.offsets(3) == [0, 1]


def test_levels_never_share_a_wave() -> None:
    """What is not drained and what waits for it are in two waves, the earlier one first."""
    world = of_three()
    expanded(world, 4)
    for partition in range(3):
        world.produce(1, partition)
    assert starts(world.plan()) == [(0, 0, 6), (0, 1, 6), (0, 2, 6), (1, 3, 0)]


def test_child_waits_until_its_parents_are_drained() -> None:
    """A cancelled range of a parent stops the child, and its release lets it go on; run says what it waits for."""
    world = of_three()
    expanded(world, 4)
    world.produce(1, 0)
    first, second = world.plan().waves
    (old,) = [item.id for item in first.ranges if item.stream.partition == 0]
    decisions.cancel(world.worker(), old, "look at it first")
    with pytest.raises(GateClosedError, match=r"orders/0 from 0 to its seal 7 has 1 open offset: 6-7"):
        world.ingest(second.id)
    assert world.ledger.wave(second.id).fence == 0
    done = world.run()
    assert done.exit_code == 1
    assert world.offsets(3) == []
    decisions.release(world.worker(), old, None)
    assert world.run().exit_code == 0
    assert world.offsets(3) == [0, 1]
    world.check()


def test_cancelled_range_keeps_nothing_else_of_its_wave_waiting() -> None:
    """Partition 3 continues 1, whose last range is on hold; 2 continues 0, which is drained, and is brought in."""
    world = World(2)
    world.produce(4, 0)
    world.produce(4, 1)
    assert world.run().exit_code == 0
    expanded(world, 4)
    world.produce(1, 0)
    world.produce(1, 1)
    first, second = world.plan().waves
    (parent,) = [item.id for item in first.ranges if item.stream.partition == 1]
    (child,) = [item.id for item in second.ranges if item.stream.partition == 3]
    decisions.cancel(world.worker(), parent, "look at it first")
    decisions.cancel(world.worker(), child, "and at what continues it")
    done = world.run()
    assert (done.exit_code, done.problems) == (1, ()), "the holds need a person; nothing has to wait"
    assert (world.offsets(2), world.offsets(3)) == ([0, 1], [])
    decisions.release(world.worker(), parent, None)
    decisions.release(world.worker(), child, None)
    assert world.run().exit_code == 0
    assert world.offsets(3) == [0, 1]
    world.check()


def test_one_run_goes_through_all_levels() -> None:
    """3 to 4 to 8 partitions, seen late: one run brings every level in its order."""
    world = of_three()
    expanded(world, 4, run=False)
    expanded(world, 8, run=False)
    for partition in range(8):
        world.produce(1, partition)
    assert world.run().exit_code == 0
    world.check()
    assert world.stream(7).watermark == 3


def test_gate_is_looked_at_again_when_the_publish_is_recorded() -> None:
    """A parent that is no longer drained by then stops the child at the last moment."""
    world = of_three()
    expanded(world, 4)
    (child,) = world.plan().waves
    before = world.ledger.snapshot()

    def undrain(call: str) -> None:
        if call == "ledger.mark_publishing":
            state = world.ledger.snapshot()
            item = next(i for i in before.ranges.values() if i.stream.partition == 0)
            state.ranges[item.id] = replace(item, state=RangeState.PLANNED)
            world.ledger.restore(state)

    with pytest.raises(GateClosedError):
        world.ingest(child.id, world.worker(undrain))
    assert world.offsets(3) == []
    world.ledger.restore(before)
    assert world.ingest(child.id).state is WaveState.COMMITTED


def test_skipped_parent_frees_its_child_only_with_the_order_acknowledged() -> None:
    """A skip frees the watermark; the child starts once a person takes the order upon himself."""
    world = of_three()
    expanded(world, 4)
    world.produce(1, 0)
    made = world.plan()
    _, second = made.waves
    slice_ = OffsetRange(6, 7)
    skip = {"reason": "poison", "acknowledge_order": False}
    assert decisions.skip(world.worker(), "orders", world.stream(0), slice_, **skip).offsets == 1
    assert world.run().exit_code == 1
    assert world.stream(0).watermark == 7
    words = (
        "skipped at 6-7 without acknowledging the order: kafka-lake skip orders --topic orders .*--acknowledge-order"
    )
    with pytest.raises(HeldError, match=words):
        world.ingest(second.id)
    with pytest.raises(HeldError, match=f"1 range of plan {made.id} is not committed; first orders/3 .*{words}"):
        finish_plan(world.worker(), "orders", made.id)
    again = decisions.skip(world.worker(), "orders", world.stream(0), slice_, reason="known", acknowledge_order=True)
    assert again.offsets == 0
    assert world.ingest(second.id).state is WaveState.COMMITTED


def test_skip_of_what_has_landed_says_that_it_skips_nothing() -> None:
    """The rows stay, and no watermark is promised to move."""
    world = World()
    world.produce(3)
    assert world.run().exit_code == 0
    landed = Selection(topic="orders", partitions=frozenset({0}), start=0, end=2)
    told = SkipAction(selection=landed, reason="poison").apply(world.worker(), world.spec)
    assert (told.offsets, world.offsets()) == (0, [0, 1, 2])
    assert told.lines[0] == "skipped nothing of orders/0 0-2"
    assert told.lines[-1] == "All of them are in the table, or were skipped before: what has landed is not skipped"
    tried = SkipAction(selection=landed, reason="poison").preview(world.worker(), world.spec)
    assert (tried.lines[-1], tried.leaves_nothing) == (told.lines[-1], True)
    order = SkipAction(selection=landed, reason="poison", acknowledge_order=True)
    assert not order.preview(world.worker(), world.spec).leaves_nothing
    assert list(map(str, order.apply(world.worker(), world.spec).lines)) == [
        "acknowledged the order at orders/0 0-2",
        "Partitions that waited for them are read: kafka-lake run orders",
    ]


def test_skip_says_how_many_of_the_asked_for_have_landed() -> None:
    """The numbers of a person's words add up."""
    world = World()
    world.produce(3)
    assert world.run().exit_code == 0
    world.produce(4)
    world.plan()
    period = Selection(topic="orders", partitions=frozenset({0}), start=1, end=7)
    skip = SkipAction(selection=period, reason="poison")
    words = "4 offsets of orders/0 1-7; 2 others there are in the table, or skipped before"
    assert skip.preview(world.worker(), world.spec).lines[0].startswith(f"would skip {words}")
    assert skip.apply(world.worker(), world.spec).lines[0] == f"skipped {words}"


def test_order_is_acknowledged_by_name_alone() -> None:
    """Who skips a period and says nothing of the order leaves the child waiting."""
    world = of_three()
    expanded(world, 4)
    world.produce(1, 0)
    _, second = world.plan().waves
    parent = Selection(topic="orders", partitions=frozenset({0}), start=6, end=7)
    assert SkipAction(selection=parent, reason="poison").apply(world.worker(), world.spec).offsets == 1
    with pytest.raises(HeldError, match="without acknowledging the order"):
        world.ingest(second.id)


def test_pruned_parent_is_not_drained() -> None:
    """Retention that passes what was not read drains nothing: the child waits for a person."""
    world = of_three()
    expanded(world, 4)
    world.produce(2, 0)
    world.plan()
    world.retain_from(8, 0)
    assert world.run().exit_code == 1
    assert world.offsets(3) == []


def test_new_generation_waits_for_what_was_left_of_the_old_one() -> None:
    """The old generation's rest is passed by a person; the new one starts when the order is acknowledged."""
    world = of_three()
    world.produce(3, 0)
    world.plan()
    old = world.stream(0)
    world.create("orders", 3)
    world.produce(2, 0)
    world.produce(2, 1)
    assert world.run().exit_code == 1
    skip = {"reason": "the topic is gone", "acknowledge_order": False}
    decisions.skip(world.worker(), "orders", old, OffsetRange(4, 7), **skip)
    world.advance()
    world.run()
    assert (world.offsets(0), world.offsets(1)) == ([], [0, 1])
    decisions.skip(world.worker(), "orders", old, OffsetRange(4, 7), reason="known", acknowledge_order=True)
    assert world.run().exit_code == 0
    assert world.offsets(0) == world.offsets(1) == [0, 1]


def test_new_generation_that_grew_before_its_first_plan_waits_for_nothing_endless() -> None:
    """Seen with few partitions, and planned with more: what the old generation left is sealed all the same."""
    world = of_three()
    for partition in range(3):
        world.produce(1, partition)
    world.plan()
    old = [world.stream(partition) for partition in range(3)]
    world.create("orders", 3)
    assert world.run().exit_code == 1
    expanded(world, 4)
    for stream in old:
        decisions.skip(
            world.worker(), "orders", stream, OffsetRange(4, 5), reason="the topic is gone", acknowledge_order=True
        )
    world.advance()
    assert world.run().exit_code == 0
    assert [world.offsets(partition) for partition in range(4)] == [[0, 1]] * 4


def test_new_generation_names_what_an_open_transaction_left_below_the_seal() -> None:
    """The old log was sealed past what could be read of it, and is gone: a person passes that slice."""
    world = of_three()
    world.produce(2, 0, transaction="open")
    expanded(world, 4, 0)
    assert world.run().exit_code == 1  # the transaction is past its time-out: a person has to end it
    assert world.stream(3).watermark == 0
    old = world.stream(0)
    world.create("orders", 3)
    world.produce(2, 0)
    (reason,) = world.run().held
    assert "committed only up to 4 of 6" in reason
    decisions.skip(world.worker(), "orders", old, OffsetRange(4, 6), reason="the topic is gone", acknowledge_order=True)
    assert world.run().exit_code == 0
    assert world.offsets(0) == [0, 1]


def test_partition_named_alone_waits_for_a_plan_of_the_whole_topic() -> None:
    """One partition cannot tell where all the others end."""
    world = of_three()
    expanded(world, 4)
    plan = world.plan(Bounds(topic="orders", partitions=(3,)))
    assert plan.waves == ()
    assert "without naming partitions" in plan.layout_change.in_grace[0].reason


def test_mode_is_the_plans_own() -> None:
    """A pipeline that is told afterwards not to mind the order does not change what was planned with it."""
    world = of_three()
    expanded(world, 4)
    world.produce(1, 0)
    _, second = world.plan().waves
    world.with_spec(ordering=Ordering.NONE)
    world.plan()
    with pytest.raises(GateClosedError):
        world.ingest(second.id)


def two_topics(**changes: object) -> World:
    """Return a world with topics `old` of two partitions and `orders` of one, of one pipeline; nothing is planned."""
    world = World(1, replace(SPEC, topics=("old", "orders"), **changes))
    world.create("old", 2)
    for partition in range(2):
        world.produce(4, partition, topic="old")
    world.produce(3)
    return world


def migrate(world: World, *, source: str = "old", target: str = "orders", **seals: int) -> None:
    """Declare that a topic continues another, which ends where the keywords `p0`, `p1`… say."""
    given = {int(name[1:]): seal for name, seal in seals.items()}
    decisions.migrate(world.worker(), world.spec, source, target=target, seals=given)


def test_migration_waits_for_its_second_look_and_then_for_the_parents() -> None:
    """Until the layout grace has passed the seals do not count; then the old topic's last offset decides."""
    world = two_topics()
    migrate(world, p0=4, p1=4)
    assert world.run().exit_code == 3
    assert (world.offsets(0, "old"), world.offsets()) == ([0, 1, 2, 3], [])
    world.clock.advance(COMMIT)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1, 2]
    world.check()


def test_migrated_topic_is_drained_by_position_and_not_by_its_last_record() -> None:
    """The very last offset is a transaction's marker: the child waits for it, and it brings no row."""
    world = two_topics()
    world.produce(2, 1, topic="old", transaction="last")
    world.end("last")
    migrate(world, p0=4, p1=7)
    world.clock.advance(COMMIT)
    plan = world.plan()
    (last,) = [item for item in plan.ranges if item.stream.topic == "old" and item.stream.partition == 1]
    decisions.cancel(world.worker(), last.id, "later")
    world.run()
    assert world.offsets() == []
    decisions.release(world.worker(), last.id, None)
    assert world.run().exit_code == 0
    assert (world.offsets(1, "old"), world.offsets()) == ([0, 1, 2, 3, 4, 5], [0, 1, 2])


@pytest.mark.parametrize("seals", [{"p0": 4}, {"p0": 4, "p1": 4, "p2": 0}])
def test_migration_names_every_partition_once(seals: dict[str, int]) -> None:
    """A partition that is forgotten, or that the topic has not, is named; nothing is recorded."""
    world = two_topics()
    with pytest.raises(UsageError, match=r"each of its 2 partitions once: look at \[[12]\]"):
        migrate(world, **seals)
    assert world.ledger.segments("orders") == ()


def test_seal_that_is_not_the_end_of_the_log_is_refused() -> None:
    """Too early, too late, or with a transaction open: the words name the end that the log has."""
    world = two_topics()
    with pytest.raises(StateError, match="the log of old/1 ends at 4, not at 3"):
        migrate(world, p0=4, p1=3)
    world.produce(1, 1, topic="old", transaction="open")
    with pytest.raises(StateError, match="ends at 5 and is stable only to 4, not at 5"):
        migrate(world, p0=4, p1=5)


def test_log_that_runs_past_its_seal_is_named_until_a_person_decides() -> None:
    """What lies beyond is not read, the child waits, and a skip of it leads out."""
    world = two_topics()
    migrate(world, p0=4, p1=4)
    world.produce(2, 1, topic="old")
    world.clock.advance(COMMIT)
    (blocked,) = world.plan().blocked
    assert "the log ends at 6, past its declared seal 4" in blocked.reason
    assert world.run().exit_code == 1
    assert (world.offsets(1, "old"), world.offsets()) == ([0, 1, 2, 3], [])
    slice_ = OffsetRange(4, 6)
    decisions.skip(world.worker(), "orders", world.stream(1, "old"), slice_, reason="late", acknowledge_order=False)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1, 2]


def test_seal_is_declared_once() -> None:
    """The same seal again changes nothing; another one is refused."""
    world = two_topics()
    world.run()
    decisions.seal(world.worker(), world.spec, world.stream(0, "old"), 4)
    before = world.ledger.segments("orders")
    decisions.seal(world.worker(), world.spec, world.stream(0, "old"), 4)
    assert world.ledger.segments("orders") == before
    world.produce(1, 0, topic="old")
    with pytest.raises(StateError, match="old/0 is sealed at 4: a seal is never moved"):
        decisions.seal(world.worker(), world.spec, world.stream(0, "old"), 5)


def test_migration_splits_waves_that_would_wait_for_themselves() -> None:
    """What was planned into one wave before the edge was declared goes into two, also when it was claimed; what
    continues nothing stays where it is."""
    world = two_topics()
    (mixed,) = world.plan().waves
    world.ledger.commit(
        ClaimWave(wave=mixed.id, attempt="a" * 16, holder=world.worker().processes.this(), lease=COMMIT)
    )
    migrate(world, p0=4, p1=4)
    tables = {
        wave.id: {item.stream.topic for item in world.ledger.ranges(wave=wave.id)}
        for wave in world.ledger.waves("orders")
    }
    assert sorted(map(sorted, tables.values())) == [["old"], ["orders"]]
    assert tables[mixed.id] == {"old"}
    world.clock.advance(COMMIT)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1, 2]
    world.check()


def test_migration_in_a_circle_is_refused() -> None:
    """A topic cannot continue one that continues it."""
    world = two_topics()
    migrate(world, p0=4, p1=4)
    before = world.ledger.segments("orders")
    with pytest.raises(StateError, match="would wait for itself"):
        migrate(world, source="orders", target="old", p0=3)
    assert world.ledger.segments("orders") == before


def reopened_at(world: World, call: str) -> Callable[[str], None]:
    """Return what reopens a parent's last offset when a worker is about to make a call, once."""
    done: list[str] = []

    def reopen(passing: str) -> None:
        if passing == call and not done:
            done.append(passing)
            person = world.worker()
            parent = world.stream(0)
            read_again(person, world.spec, parent, OffsetRange(5, 6), reason="look again")

    return reopen


@pytest.mark.parametrize("call", ["ledger.mark_staged", "ledger.mark_publishing", "table.publish"])
def test_parent_reopened_between_gate_and_publish_stops_the_child(call: str) -> None:
    """Before the gate's second look, or between it and the commit: nothing of the child becomes visible."""
    world = of_three()
    expanded(world, 4)
    (child,) = world.plan().waves
    with pytest.raises(GateClosedError, match="5-6"):
        world.ingest(child.id, world.worker(reopened_at(world, call)))
    assert world.offsets(3) == []
    assert world.run().exit_code == 0
    assert world.offsets(3) == [0, 1]
    world.check()


def test_reopened_parent_names_the_children_that_have_started() -> None:
    """What is in the lake stays there, and who reads the parent again is told of it."""
    world = of_three()
    expanded(world, 4)
    world.run()
    done = read_again(world.worker(), world.spec, world.stream(0), OffsetRange(0, 2), reason="look again")
    assert [(item.stream[2], item.start) for item in done.started] == [(3, 0)]
    world.produce(1, 3)
    (child, _) = sorted(world.plan().waves, key=lambda wave: wave.id), None
    with pytest.raises(GateClosedError):
        world.ingest(child[0].id)


def test_offsets_below_the_origin_of_a_parent_need_the_order_acknowledged() -> None:
    """Children wait from the origin on: what lies below it may come after them, if a person says so."""
    world = World(2)
    for partition in range(2):
        world.produce(6, partition)
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 3), ("orders", 1, 3))))
    assert world.run().exit_code == 0
    expanded(world, 4)
    world.run()
    period = Bounds(topic="orders", partitions=(0,), start=0, end=3)
    plan = world.plan(period)
    assert plan.waves == ()
    assert "offsets 0-3 lie below the origin" in plan.blocked[0].reason
    assert world.run(replace(period, acknowledge_order=True)).exit_code == 0
    assert world.offsets(0)[:3] == [0, 1, 2]


def test_parent_reopened_stops_a_child_that_lands_in_another_table() -> None:
    """Main is moved of every table in which the slice is continued: the child's commit finds another head."""
    world = two_topics(table="raw.{topic}")
    migrate(world, p0=4, p1=4)
    assert world.run().exit_code == 3
    world.clock.advance(COMMIT)
    world.produce(1, 0)
    child = next(wave for wave in world.plan().waves if wave.table == "raw.orders")
    done: list[reopening.ReopenResult] = []

    def reopen(passing: str) -> None:
        if passing == "table.publish" and not done:
            parent = world.stream(0, "old")
            done.append(read_again(world.worker(), world.spec, parent, OffsetRange(1, 2), reason="look again"))

    with pytest.raises(GateClosedError, match="1-2"):
        world.ingest(child.id, world.worker(reopen))
    assert done[0].started == ()
    assert world.lake.table("raw.orders").rows() == ()
    assert world.run().exit_code == 0
    assert sorted(row.offset for row in world.lake.table("raw.orders").rows()) == [0, 1, 2, 3]


@pytest.mark.parametrize("children", [2, 9])
def test_reopen_asks_the_ledger_as_often_however_many_waves_wait(children: int) -> None:
    """Waves that were begun and must wait now are found all at once."""
    world = of_three(target_range_bytes=16, max_wave_bytes=16)
    expanded(world, 4, records=children, run=False)
    assert world.run(Bounds(partitions=(0, 1, 2))).exit_code == 0
    begun = [wave.id for wave in world.plan().waves]
    world.runner.failures += ["out of memory"] * len(begun)
    for wave in begun:
        with pytest.raises(JobFailedError):
            world.ingest(wave)
    asked: list[str] = []
    parent = world.stream(0)
    read_again(world.worker(asked.append), world.spec, parent, OffsetRange(1, 2), reason="look again")
    assert len(begun) == children
    assert len([call for call in asked if call.startswith("ledger.")]) < 27
    assert world.table.branches() == ()


def test_reopened_parent_stops_a_child_whose_commit_is_on_its_way_when_main_is_rolled_back() -> None:
    """The child's commit was sent before the reopen, and main is the head again that it was sent for."""
    world = of_three()
    expanded(world, 4)
    (child,) = world.plan().waves
    looked_at = world.table.head().snapshot
    assert looked_at is not None
    dying = Killed("table.find_commit", nth=3)
    losing = Before("table.publish", lambda: setattr(world.table, "next_answer", Answer.LATE))

    def doomed(call: str) -> None:
        dying(call)
        losing(call)

    with pytest.raises(KilledError):
        world.ingest(child.id, world.worker(doomed))
    reopened_at(world, "now")("now")
    assert world.table.branches() == ()
    world.lease_ends()
    world.table.roll_back(looked_at)
    assert isinstance(world.table.land_late(), Rejected)
    assert world.offsets(3) == []
    assert world.run().exit_code == 0
    assert world.offsets(3) == [0, 1]
    world.check()
