"""Skip: a person passes offsets unread, and no forgotten publisher shows them afterwards."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.actions.offsets import OffsetsAction, ReopenAction, SkipAction
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    KafkaLakeError,
    RangeBeyondEndError,
    StaleFenceError,
    StateError,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.services import decisions
from tests.gates import Before, Killed, KilledError
from tests.world import AFTER_THE_LEASE, World

pytestmark = pytest.mark.unit


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of five records."""
    world.produce(5)
    return world.planned_wave()


def skip(world: World, start: int, end: int) -> int:
    """Skip a slice of partition 0; returns how many offsets."""
    slice_ = OffsetRange(start, end)
    done = decisions.skip(world.worker(), "orders", world.stream(), slice_, reason="bad", acknowledge_order=False)
    return done.offsets


def states(world: World) -> list[tuple[str, str]]:
    """Return ranges and their states, in order."""
    return [(str(item.range), item.state.value) for item in world.ledger.ranges(pipeline="orders")]


def test_skip_passes_exactly_the_slice(world: World, wave: str) -> None:
    """A planned range is split; the pieces around the skip are read, the watermark passes over it."""
    assert skip(world, 1, 3) == 2
    assert states(world) == [("0-1", "PLANNED"), ("1-3", "SKIPPED"), ("3-5", "PLANNED")]
    assert world.run().exit_code == 0
    world.check()
    assert (world.offsets(), world.stream().watermark) == ([0, 3, 4], 5)
    assert [row.kind for row in world.table._receipts.values()].count("skip") == 1


def test_skip_frees_the_watermark(world: World) -> None:
    """A hold closes, and the watermark jumps over everything committed above it."""
    world.produce(10)
    world.run(Bounds(start=4, end=10))
    hold = world.planned_wave(Bounds(start=0, end=4))
    decisions.cancel(world.worker(), hold, "not now")
    world.advance()
    assert world.stream().watermark == 0
    assert skip(world, 0, 4) == 4
    assert [(move.start, move.end) for move in world.advance()] == [(0, 10)]
    world.check()


def test_offsets_that_are_not_written_are_not_skipped(world: World, wave: str) -> None:
    """They would be passed unread when they come; what was written after the plan may be passed."""
    world.produce(2)
    with pytest.raises(RangeBeyondEndError, match="offset 8 is beyond the end of the log, 7"):
        skip(world, 5, 8)
    assert skip(world, 5, 7) == 2


def test_skip_of_what_is_committed_passes_nothing(world: World, wave: str) -> None:
    """What is visible is not skipped; only the rest of the slice is."""
    world.run(Bounds(start=0, end=5))
    world.produce(2)
    assert skip(world, 3, 7) == 2
    world.advance()
    world.check()
    assert (world.offsets(), world.stream().watermark) == ([0, 1, 2, 3, 4], 7)


@pytest.mark.parametrize("call", ["ledger.mark_publishing", "table.publish"])
def test_zombie_publisher_is_stopped_by_a_skip(world: World, wave: str, call: str) -> None:
    """No forgotten publisher shows rows of a skipped slice, and the rest is read again."""

    def skip_late() -> None:
        world.lease_ends()
        skip(world, 1, 3)

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before(call, skip_late)))
    assert world.offsets() == []
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets() == [0, 3, 4]


def test_skip_of_what_a_worker_works_on_waits(world: World, wave: str) -> None:
    """A living worker is not robbed by a skip."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.publish")))
    with pytest.raises(ConcurrentError):
        skip(world, 1, 3)
    assert states(world) == [("0-5", "PLANNED")]


def test_wave_claimed_while_a_skip_decides_is_not_robbed(world: World, wave: str) -> None:
    """A wave that was never claimed when the skip looked, and is claimed when it writes: refused, nothing skipped."""

    def claimed() -> None:
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("table.publish")))

    with pytest.raises(ConcurrentError, match="Nothing was skipped"):
        decisions.skip(
            world.worker(Before("ledger.skip", claimed)),
            "orders",
            world.stream(),
            OffsetRange(1, 3),
            reason="bad",
            acknowledge_order=False,
        )
    assert states(world) == [("0-5", "PLANNED")]


def test_skip_of_a_published_wave_adopts_it(world: World, wave: str) -> None:
    """Rows that are visible are committed, not skipped."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    world.lease_ends()
    assert skip(world, 1, 3) == 0
    assert states(world) == [("0-5", "COMMITTED")]
    world.advance()
    world.check()


def test_held_range_goes_on_once_all_that_it_is_held_for_was_passed(world: World, wave: str) -> None:
    """Law L3: a failure is cleared by a later success or a skip, piece by piece; nothing is left to be released."""
    world.runner.tamper = lambda rows: [row for row in rows if row[3] not in (0, 3)]
    with pytest.raises(HeldError):
        world.ingest(wave)
    (held,) = world.ledger.ranges(wave=wave)
    assert (held.reason or "").startswith("UnexplainedError: 2 offsets are not explained: 0-1, 3-4")
    assert held.held_for == RangeSet.of((0, 1), (3, 4))
    skip(world, 0, 1)
    assert states(world) == [("0-1", "SKIPPED"), ("1-5", "HELD")]
    skip(world, 3, 4)
    assert states(world) == [("0-1", "SKIPPED"), ("1-3", "PLANNED"), ("3-4", "SKIPPED"), ("4-5", "PLANNED")]
    assert world.run().exit_code == 0
    world.check()
    assert (world.offsets(), world.stream().watermark) == ([1, 2, 4], 5)


def test_refused_skip_leaves_no_lease_behind(world: World) -> None:
    """Of two waves one is busy: nothing is skipped, and the other is free for the next run."""
    world.produce(4)
    waves = [world.planned_wave(Bounds(start=start, end=start + 2)) for start in (0, 2)]
    for wave in waves:
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("runner.stage")))
    world.clock.advance(AFTER_THE_LEASE)
    with pytest.raises(KilledError):
        world.ingest(waves[1], world.worker(Killed("runner.stage")))
    with pytest.raises(ConcurrentError):
        skip(world, 0, 4)
    assert not world.ledger.wave(waves[0]).lease_live
    world.ingest(waves[0])


def test_ledger_that_was_set_back_passes_nothing_unread(world: World) -> None:
    """It knows offsets as unread that have landed: they would count as skipped, and be in the table."""
    world.produce(5)
    assert world.run().exit_code == 0
    before = world.ledger.snapshot()
    world.produce(5)
    assert world.run().exit_code == 0
    world.ledger.restore(before)
    action = SkipAction(reason="bad", selection=Selection(topic="orders", start=5, end=10))
    for decide in (action.preview, action.apply):
        with pytest.raises(KafkaLakeError, match="kafka-lake rebuild"):
            decide(world.worker(), world.spec)


def test_skip_of_more_than_was_shown_is_refused(world: World) -> None:
    """Offsets that were skipped before are read after all, by another person's decision, while one waits for this."""
    world.produce(8)
    world.plan()
    skip(world, 0, 8)
    world.advance()
    world.produce(2)
    world.plan()
    action = SkipAction(reason="bad", selection=Selection(topic="orders", partitions=frozenset({0}), start=0, end=10))
    shown = action.preview(world.worker(), world.spec)
    assert shown.offsets == 2
    world.reopen(0, 8)
    with pytest.raises(StateError, match="something else would become of them"):
        replace(action, shown=shown.digest).apply(world.worker(), world.spec)
    assert world.run().exit_code == 0
    assert world.offsets() == list(range(10))


def test_skip_that_is_repeated_as_it_was_shown_is_done(world: World) -> None:
    """Who has lost the first answer asks once more; nothing is left to skip, so nothing else can become of it."""
    world.produce(4)
    world.plan()
    action = SkipAction(reason="bad", selection=Selection(topic="orders", partitions=frozenset({0}), start=0, end=4))
    meant = replace(action, shown=action.preview(world.worker(), world.spec).digest)
    assert meant.apply(world.worker(), world.spec).offsets == 4
    again = meant.apply(world.worker(), world.spec)
    assert (again.offsets, again.lines[-1].startswith("All of them are in the table, or were skipped before")) == (
        0,
        True,
    )


def test_digest_of_a_skip_is_none_of_a_reopen(world: World) -> None:
    """Nor of the same offsets of another pipeline."""
    world.produce(4)
    world.run()
    meant = Selection(topic="orders", partitions=frozenset({0}), start=0, end=4)
    shown = SkipAction(reason="bad", selection=meant).preview(world.worker(), world.spec)
    with pytest.raises(StateError, match="not the offsets that were shown"):
        ReopenAction(reason="bad", selection=meant, shown=shown.digest).apply(world.worker(), world.spec)


def test_dry_run_of_a_skip_says_what_kafka_has_and_who_is_at_work(world: World, wave: str) -> None:
    """Records that a run could read are no loss yet; and a living worker would be in the way."""
    world.retain_from(2)
    action = SkipAction(reason="bad", selection=Selection(topic="orders", partitions=frozenset({0}), start=0, end=5))
    lines: list[object] = []

    def look() -> None:
        lines.extend(action.preview(world.worker(), world.spec).lines)

    with suppress(KafkaLakeError):
        world.ingest(wave, world.worker(Before("runner.stage", look)))
    assert "Kafka still has 2-5, which a run could read" in str(lines[0])
    assert f"refused while a worker is on {wave}" in str(lines[0])
    world.retain_from(5)
    assert "Kafka has none of them any more" in str(action.preview(world.worker(), world.spec).lines[0])


def test_skip_that_landed_while_it_was_shown_is_of_nothing(world: World, wave: str) -> None:
    """The ranges and what is covered are of one moment."""
    stream = world.stream()
    world.ingest(wave)
    shown = decisions.preview_skip(world.worker(), "orders", stream, OffsetRange(0, 5), reason="bad")
    assert (shown.offsets, shown.waves) == (0, ())


@pytest.mark.parametrize("kind", [SkipAction, ReopenAction])
def test_period_by_time_that_has_grown_since_it_was_shown_is_refused(world: World, kind: type[OffsetsAction]) -> None:
    """It ends later than now, so records that arrive meanwhile belong to it, and no person has seen them."""
    world.produce(5)
    world.run()
    now, hour = world.clock.now(), timedelta(hours=1)
    if kind is SkipAction:
        world.produce(2)
    action = kind(reason="bad", selection=Selection(topic="orders", start=now - hour, end=now + hour))
    shown = action.preview(world.worker(), world.spec)
    world.produce(1000)
    if kind is ReopenAction:
        world.run()
    events = world.ledger.events("orders")
    with pytest.raises(StateError, match="not the offsets that were shown"):
        replace(action, shown=shown.digest).apply(world.worker(), world.spec)
    assert world.ledger.events("orders") == events
    now_shown = action.preview(world.worker(), world.spec)
    assert now_shown.offsets == shown.offsets + 1000
    assert replace(action, shown=now_shown.digest).apply(world.worker(), world.spec).offsets == now_shown.offsets
