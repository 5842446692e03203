"""Periods by time: what lies in them, what of it is there already, and what is refused because it cannot be met."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from airflow_kafka_lake.core.errors import (
    EmptyPeriodError,
    KafkaLakeError,
    RangeBeyondEndError,
    RangeExpiredError,
    RefusedError,
    UnavailableError,
)
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import Isolation, Policy, PolicyKind
from airflow_kafka_lake.core.wire import milliseconds, timestamp
from tests.gates import Before
from tests.unit.services.test_planning import pieces
from tests.world import World

pytestmark = pytest.mark.unit

MINUTE = timedelta(minutes=1)


@pytest.fixture
def begin(world: World) -> datetime:
    """The time of the first record; nine others follow in partition 0, one a minute."""
    first = world.clock.now()
    minutes(world, 10)
    return first


def minutes(world: World, count: int, partition: int = 0, *, transaction: str | None = None) -> None:
    """Append one record a minute."""
    for _ in range(count):
        world.produce(1, partition, transaction=transaction)
        world.clock.advance(MINUTE)


def between(begin: datetime, start: float, end: float) -> Bounds:
    """Return a period in minutes after a begin."""
    return Bounds(start=begin + start * MINUTE, end=begin + end * MINUTE)


def refused(world: World, bounds: Bounds, kind: type[KafkaLakeError]) -> str:
    """Plan and run what is refused, see that nothing was written, return the message."""
    state, read = world.ledger.snapshot(), len(world.runner.jobs)
    for act in (world.plan, world.run, lambda asked: world.plan(asked, dry_run=True)):
        with pytest.raises(kind) as caught:
            act(bounds)
    assert (world.ledger.snapshot(), len(world.runner.jobs)) == (state, read)
    assert caught.value.exit_code == 1
    return caught.value.message


def told(world: World, bounds: Bounds) -> tuple[str, ...]:
    """Return what a plan says about a period by time, whose last sentence is how times choose offsets."""
    found = world.plan(bounds, dry_run=True).period
    assert found is not None
    *said, last = found.describe()
    assert last.startswith("by time: from each partition's first record at or after its begin"), last
    return tuple(said)


@pytest.mark.parametrize(("start", "end"), [(600, 700), (-700, -600), (2.2, 2.8)])
def test_period_in_which_nothing_lies_is_refused(world: World, begin: datetime, start: float, end: float) -> None:
    """A wrong year is no success, before or after a first run; the message says where Kafka's records are."""
    says = "Kafka's records go from 2026-01-01T00:00:00.000Z to 2026-01-01T00:09:00.000Z"
    assert says in refused(world, between(begin, start, end), EmptyPeriodError)
    world.run()
    assert says in refused(world, between(begin, start, end), EmptyPeriodError)


def test_period_of_an_empty_topic_is_refused(world: World) -> None:
    """Where Kafka has no record there is none to name."""
    assert "orders/0 has none" in refused(world, between(world.clock.now(), 0, 9), EmptyPeriodError)


@pytest.mark.parametrize("bounds", [Bounds(start=10), Bounds(end=0)])
def test_period_by_offset_in_which_nothing_lies_is_refused(world: World, begin: datetime, bounds: Bounds) -> None:
    """The same words by offset."""
    assert begin
    message = refused(world, bounds, EmptyPeriodError)
    assert "nothing lies in the period from " in message
    assert "orders/0 has offsets 0-10" in message


def test_times_that_cannot_be_read_are_not_told(world: World) -> None:
    """A log of which no record is visible has offsets, and is not called empty."""
    world.produce(5, transaction="bad")
    world.end("bad", commit=False)
    message = refused(world, between(world.clock.now(), 600, 700), EmptyPeriodError)
    assert "of pipeline orders: orders/0 has offsets 0-6; Kafka finds a time by the first offset" in message


def test_partition_without_a_record_in_the_period_is_no_refusal() -> None:
    """Another one has records there: an hour in which one partition was quiet is read."""
    world = World(partitions=3)
    begin = world.clock.now()
    minutes(world, 4)
    minutes(world, 4, 1)
    *_, without = told(world, between(begin, 4, 6))
    assert without == "no offset of the period lies in orders/0"
    assert pieces(world.plan(between(begin, 4, 6))) == [(1, OffsetRange(0, 2))]


def test_record_of_the_period_behind_a_marker_is_told_of() -> None:
    """Records of the past, written in transactions of today: Kafka finds the period's end by the first marker."""
    world = World(partitions=2)
    begin = world.clock.now() - timedelta(days=30)
    for partition in range(2):
        for offset, minute in ((0, 1), (2, 2)):
            name = f"{partition} {offset}"
            assert world.produce(1, partition, transaction=name) == [offset]
            entries, at = world.kafka.log("orders", partition).entries, milliseconds(begin + minute * MINUTE)
            entries[offset] = replace(entries[offset], timestamp_ms=at)
            world.end(name)
    asked = between(begin, 0, 60)
    (note,) = world.plan(asked, dry_run=True).notes
    when = timestamp(begin + 2 * MINUTE)
    assert note.startswith(
        f"orders/0 has a record of {when} behind the end of the period, at offset 1 or later (the same"
    )
    assert world.plan(Bounds(start=0, end=4), dry_run=True).notes == ()
    assert world.plan(between(begin, 0, 1.5), dry_run=True).notes == ()
    told = refused(world, between(begin, 1.5, 60), RefusedError)
    assert told.startswith(
        f"orders/0 has a record of {when} behind the end of the period, at offset 1 or later (the same"
    )


def test_period_of_records_behind_one_that_is_ahead_of_its_time_is_no_empty_one(world: World) -> None:
    """Kafka finds both ends of each period at that record; a quiet hour of a topic in order is empty all the same."""
    begin = world.clock.now() - timedelta(days=30)
    for offset, minute in enumerate((600, 1, 2, 61, 62)):
        assert world.produce(1) == [offset]
        entries, at = world.kafka.log("orders", 0).entries, milliseconds(begin + minute * MINUTE)
        entries[offset] = replace(entries[offset], timestamp_ms=at)
    for start, end in ((0, 60), (60, 120), (120, 180)):
        told = refused(world, between(begin, start, end), RefusedError)
        assert told.startswith(f"orders/0 has a record of {timestamp(begin + MINUTE)} behind the end of the period, at")
    world.produce(1)
    refused(world, between(begin, -60, 0), EmptyPeriodError)


def test_period_behind_an_open_transaction_is_refused(world: World, begin: datetime) -> None:
    """What may still be aborted is not read, and what is not read is not called done."""
    minutes(world, 1, transaction="open")
    minutes(world, 5)
    for start, end in ((0, 12), (10, 20), (12, 99), (0, 99)):
        assert "is beyond the last stable offset 10" in refused(world, between(begin, start, end), RangeBeyondEndError)
    assert "orders/0 is stable to 10 of 16" in refused(world, Bounds(start=begin + 12 * MINUTE), EmptyPeriodError)
    assert pieces(world.plan(between(begin, 0, 10), dry_run=True)) == [(0, OffsetRange(0, 10))]
    assert pieces(world.plan(Bounds(start=begin), dry_run=True)) == [(0, OffsetRange(0, 10))]
    world.with_spec(isolation=Isolation.READ_UNCOMMITTED)
    assert pieces(world.plan(between(begin, 0, 99))) == [(0, OffsetRange(0, 16))]


def test_period_half_gone_to_retention_is_refused(world: World, begin: datetime) -> None:
    """What is gone may have been of the period, also of the first record's millisecond: that is not known, and not
    called empty. After it, or from its offset on, the period is met."""
    world.retain_from(4)
    for start, end in ((0, 9), (3.5, 9), (4, 9), (0, 3), (-9, -3)):
        message = refused(world, between(begin, start, end), RangeExpiredError)
        assert "orders partition 0: offsets 0-4 are gone" in message
        assert "Ask from offset 4 on, or from 2026-01-01T00:04:00.001Z on, without the records up to then" in message
        assert ("All of the period is older: is its year the right one?" in message) is (end <= 4)
    later = between(begin + timedelta(milliseconds=1), 4, 9)
    assert pieces(world.plan(later, dry_run=True)) == [(0, OffsetRange(5, 10))]
    assert pieces(world.plan(Bounds(start=4, end=9))) == [(0, OffsetRange(4, 9))]


def test_period_of_which_everything_is_gone_is_refused(world: World, begin: datetime) -> None:
    """An empty log is not an empty period."""
    world.retain_from(10)
    assert "Ask from offset 10 on" in refused(world, between(begin, 0, 9), RangeExpiredError)


def test_what_retention_took_after_it_was_read_is_no_refusal(world: World, begin: datetime) -> None:
    """The lake has it: the period is met, although Kafka cannot tell any more how much of it that is."""
    world.run()
    world.retain_from(4)
    assert told(world, between(begin, 2, 9)) == (
        "5 offsets lie in the period: 5 in the lake already, what Kafka has no longer was planned or skipped earlier",
    )
    nothing, rows, *_ = told(world, between(begin, 0, 3))
    assert nothing == "0 offsets lie in the period: what Kafka has no longer was planned or skipped earlier"
    assert rows == "of this period Kafka has no record, and the table 3 rows"
    assert world.run(between(begin, 0, 3)).exit_code == 0
    assert "no row of the deleted offsets is of that time" in refused(world, between(begin, -9, -3), EmptyPeriodError)
    world.retain_from(10)
    assert world.run(between(begin, 2, 9)).exit_code == 0
    world.check()


def test_period_from_before_the_pipeline_began_is_refused(world: World, begin: datetime) -> None:
    """What lay below the origin is gone unread, and may have been of the period; not of one that began later."""
    world.with_spec(start=Policy(kind=PolicyKind.LATEST))
    world.plan()
    minutes(world, 5)
    world.run()
    world.retain_from(12)
    assert "offsets 0-10 are gone" in refused(world, between(begin, 5, 15), RangeExpiredError)
    done = world.run(between(begin, 10, 15))
    assert (done.exit_code, done.waves) == (0, ())
    world.retain_from(15)
    assert "offsets 0-10 are gone" in refused(world, between(begin, 5, 15), RangeExpiredError)
    assert world.run(between(begin, 11, 14)).exit_code == 0
    world.check()


def test_log_that_was_emptied_before_a_period_is_no_refusal() -> None:
    """An idle partition whose records retention took, all of them older than the period, leaves the others theirs."""
    world = World(partitions=2)
    world.produce(3)
    world.kafka.log("orders", 0).delete_before(2)
    world.run()
    world.retain_from(3)
    begin = world.clock.now()
    minutes(world, 4, 1)
    assert pieces(world.plan(between(begin, 1, 3))) == [(1, OffsetRange(1, 3))]


def test_period_says_what_of_it_is_there_already(world: World, begin: datetime) -> None:
    """In the lake, planned and new are told apart; a period that was read before in full is done."""
    world.run(between(begin, 0, 3))
    world.plan(between(begin, 3, 5))
    assert told(world, between(begin, 1, 9)) == (
        "8 offsets lie in the period: 2 in the lake already, 2 planned earlier, 4 not planned before",
    )
    world.run(between(begin, 1, 9))
    done = world.run(between(begin, 1, 9))
    assert (done.exit_code, done.waves) == (0, ())
    assert told(world, between(begin, 1, 9)) == ("8 offsets lie in the period: 8 in the lake already",)


def test_period_that_is_not_over_is_read_as_far_as_it_goes_and_says_so() -> None:
    """Who asks for today gets what there is of it, and is told which partitions do not reach the end."""
    world = World(partitions=7)
    begin = world.clock.now()
    minutes(world, 4)
    first, second = told(world, between(begin, 1, 99))
    assert first == "3 offsets lie in the period: 3 not planned before"
    assert "no record as late as 2026-01-01T01:39:00.000Z in orders/0, orders/1, orders/2" in second
    assert "orders/4 and 2 more partitions: read as far as they go; what is written there later" in second
    world.produce(1, 1)
    assert "orders/1" in told(world, between(begin, 1, 4.5))[1]


def test_partition_that_cannot_be_observed_leaves_open_what_lies_in_the_period() -> None:
    """Nothing is called empty that was not looked at: the plan names the partition."""
    world = World(partitions=2)
    begin = world.clock.now()
    minutes(world, 2)
    world.kafka.log("orders", 1).unreachable = "no leader"
    plan = world.plan(between(begin, 50, 60))
    assert [item.partition for item in plan.blocked] == [1]


def test_start_of_which_nothing_older_is_left_is_named() -> None:
    """Records since then may be gone: the partition is left out by name and exits 1, the others go on; written down as
    what is left, it begins there."""
    world = World(partitions=2)
    begin = world.clock.now()
    minutes(world, 10)
    minutes(world, 3, 1)
    world.retain_from(4)
    since = Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=milliseconds(begin + 2 * MINUTE))
    world.with_spec(start=since)
    done = world.run()
    assert (done.exit_code, world.offsets(), world.offsets(1)) == (1, [], [0, 1, 2])
    (said,) = done.held
    assert "orders/0: offsets 0-4 are gone, and what is to be read from 2026-01-01T00:02:00.000Z on may begin" in said
    assert "the log starts at 4, with a record of 2026-01-01T00:04:00.000Z" in said
    assert 'write start = "earliest" into the pipeline' in said
    world.with_spec(start=Policy(kind=PolicyKind.EARLIEST))
    assert world.run().exit_code == 0
    assert world.offsets() == [4, 5, 6, 7, 8, 9]
    world.with_spec(start=since)
    assert world.run().exit_code == 0
    world.check()


def test_start_of_which_older_records_are_left_is_met(world: World, begin: datetime) -> None:
    """What is gone is older than what is left below the start."""
    world.retain_from(4)
    world.with_spec(start=Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=milliseconds(begin + 6 * MINUTE)))
    assert world.run().exit_code == 0
    assert world.offsets() == [6, 7, 8, 9]


def test_times_out_of_order_are_found_as_kafka_finds_them(world: World) -> None:
    """From the first record that is as late as the begin up to the first that is as late as the end; what of the period
    lies elsewhere is not read (docs/how-to/ingest-a-period.md)."""
    first = milliseconds(world.clock.now())
    for minute in (0, 5, 2, 3, 6, 4):
        world.kafka.produce("orders", 0, b"x", timestamp_ms=first + minute * 60_000)
    assert pieces(world.plan(between(world.clock.now(), 2, 6))) == [(0, OffsetRange(1, 4))]


@pytest.mark.parametrize("gone", [4, 10])
@pytest.mark.parametrize(
    ("call", "nth"),
    [("source.offsets_at", 1), ("source.offsets_at", 2), ("source.offsets_at", 3), ("source.snapshot", 2)],
)
def test_hour_that_retention_takes_while_it_is_asked_for_is_not_empty(
    world: World, begin: datetime, call: str, nth: int, gone: int
) -> None:
    """A backfill run of an empty hour is green: so log starts and offsets by time are of one moment."""
    worker = world.worker(Before(call, lambda: world.retain_from(gone), nth=nth))
    with pytest.raises(RangeExpiredError, match=f"offsets 0-{gone} are gone"):
        world.plan(between(begin, 1, 3), worker=worker)


def test_times_of_a_log_that_is_deleted_from_all_the_time_are_not_known(world: World, begin: datetime) -> None:
    """It is worth repeating, and nothing is planned."""
    left = iter(range(1, 10))

    def deleting(call: str) -> None:
        if call == "source.offsets_at":
            world.retain_from(next(left))

    with pytest.raises(UnavailableError, match="Kafka deleted records of orders/0 while the offsets of times"):
        world.plan(between(begin, 7, 9), worker=world.worker(deleting))
    assert world.ledger.pipeline("orders") is None
