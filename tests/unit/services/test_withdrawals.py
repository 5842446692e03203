"""What was planned by mistake is taken off the plan; nothing of it was read, and a later plan takes it again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.actions.offsets import OffsetsOutcome, WithdrawAction
from airflow_kafka_lake.core.errors import IdentityError, KafkaLakeError, StateError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.services import decisions
from tests.gates import Killed, KilledError
from tests.world import SPEC, World

pytestmark = pytest.mark.unit
ALL = Selection()


def withdraw(world: World, subject: str | None = None, selection: Selection = ALL) -> OffsetsOutcome:
    """Withdraw a subject, or what a selection leaves of it."""
    return WithdrawAction(subject=subject, selection=selection, reason="too much").apply(world.worker(), SPEC)


def test_withdrawn_plan_is_planned_anew(world: World) -> None:
    """By its id: what other plans have, and what is in the lake, stays; the next run reads all of it."""
    world.produce(3)
    world.run()
    world.produce(4)
    world.planned_wave(Bounds(start=5, end=7))
    plan = world.plan()
    done = withdraw(world, plan.id)
    assert (done.offsets, done.stays) == (2, [])
    assert world.stream().planned == RangeSet.of((0, 3), (5, 7))
    assert world.run().exit_code == 0
    world.check()
    assert world.stream().watermark == 7


def test_dry_run_of_a_withdrawal_changes_nothing(world: World) -> None:
    """It says what would go, and what would stay and why."""
    world.produce(5)
    world.planned_wave()
    before = world.ledger.snapshot()
    assert WithdrawAction(selection=ALL, reason="too much").preview(world.worker(), SPEC).offsets == 5
    assert world.ledger.snapshot() == before


def test_hold_that_ends_in_part_is_told_by_that_part(world: World) -> None:
    """The rest of the range is held all the same."""
    world.produce(6)
    decisions.cancel(world.worker(), world.planned_wave(), "not now")
    done = withdraw(world, selection=Selection(start=4, end=6))
    assert [line for line in done.lines if "was on hold" in line] == [
        "was on hold, and is not any more: orders/0 4-6: not now"
    ]
    assert [item.range for item in world.ledger.ranges(pipeline=SPEC.name, states=[RangeState.CANCELLED])] == [
        OffsetRange(0, 4)
    ]


def test_withdrawal_that_was_on_record_is_told_with_the_same_keys(world: World) -> None:
    """A task that is cleared withdraws nothing any more, and what reads its document reads this one too."""
    world.produce(5)
    world.planned_wave()
    first = WithdrawAction(selection=ALL, reason="too much").apply(world.worker(), SPEC).document
    before = world.ledger.snapshot()
    recorded = frozenset({Slice(world.stream().key, OffsetRange(0, 1))})
    again = WithdrawAction(selection=ALL, reason="too much", recorded=recorded).apply(world.worker(), SPEC).document
    assert (list(again), again["offsets"], again["ranges"]) == (list(first), 0, 0)
    assert world.ledger.snapshot() == before


def test_period_by_time_is_withdrawn(world: World) -> None:
    """The offsets of the period go, on every partition that has some; what is before it stays planned."""
    world.produce(3)
    world.clock.advance(timedelta(hours=1))
    begin = world.clock.now()
    world.produce(4)
    world.planned_wave()
    assert withdraw(world, selection=Selection(start=begin)).offsets == 4
    assert world.stream().planned == RangeSet.of((0, 3))


def test_what_was_begun_is_named_and_stays(world: World) -> None:
    """The rest goes; when nothing is left to go, that is a refusal which says why."""
    world.produce(5)
    begun = world.planned_wave(Bounds(start=0, end=2))
    with pytest.raises(KilledError):
        world.ingest(begun, world.worker(Killed("runner.stage")))
    world.planned_wave()
    done = withdraw(world)
    assert (done.offsets, [item["wave"] for item in done.document["kept"]]) == (3, [begun])
    begun_by = f"orders/0 0-2: a worker has begun its wave {begun}, "
    with pytest.raises(StateError, match=rf"withdrawn of {begun}: {begun_by}.* cancel {begun} --reason"):
        withdraw(world, begun)


def test_reopened_offsets_are_not_withdrawn() -> None:
    """Their rows are in the table: as never planned they would be read twice; one wave of two was claimed."""
    world = World(spec=replace(SPEC, target_range_bytes=1, max_wave_bytes=1))
    world.produce(6)
    world.run()
    assert len(world.reopen(2, 4).waves) == 2
    with pytest.raises(StateError, match="its rows are there, and stay"):
        withdraw(world)


def test_nothing_planned_is_said(world: World) -> None:
    """A pipeline whose plans are all in the lake has nothing to withdraw; an unknown subject is named."""
    world.produce(2)
    world.run()
    with pytest.raises(StateError, match="nothing was withdrawn of orders: nothing is planned there"):
        withdraw(world)
    with pytest.raises(UnknownSubjectError, match="no pipeline, plan, wave or range 'else'"):
        withdraw(world, "else")


def test_late_ingest_of_a_withdrawn_wave_says_so(world: World) -> None:
    """A task of an older Dag run is told where its offsets went."""
    world.produce(2)
    wave = world.planned_wave()
    withdraw(world)
    with pytest.raises(StateError, match=f"wave {wave} was withdrawn: .* kafka-lake plan orders"):
        world.ingest(wave)


def test_period_by_time_of_a_topic_that_was_made_anew_is_refused(world: World) -> None:
    """The new topic's times say nothing of what was planned of the old one; its offsets still do."""
    begin = world.clock.now()
    world.produce(4)
    world.planned_wave()
    world.create("orders")
    world.produce(2)
    before = world.ledger.snapshot()
    with pytest.raises(IdentityError, match="orders"):
        withdraw(world, selection=Selection(end=begin + timedelta(hours=1)))
    assert world.ledger.snapshot() == before
    assert withdraw(world, selection=Selection(start=1)).offsets == 3


def test_ledger_that_was_set_back_takes_nothing_off_the_plan(world: World) -> None:
    """Nothing of it was read, it would say of a wave that has landed."""
    world.produce(5)
    wave = world.planned_wave()
    before = world.ledger.snapshot()
    world.ingest(wave)
    world.ledger.restore(before)
    with pytest.raises(KafkaLakeError, match="kafka-lake rebuild"):
        withdraw(world)
