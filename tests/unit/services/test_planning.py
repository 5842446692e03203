"""What a plan asks for: following, periods, policies, partitions that come and go."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import ConcurrentError, PendingCommitError, UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spark.job import effort
from airflow_kafka_lake.core.spec import Isolation, Policy, PolicyKind
from airflow_kafka_lake.core.wire import milliseconds
from tests.gates import Before
from tests.world import FOLLOW, World

pytestmark = pytest.mark.unit


def pieces(plan: Plan) -> list[tuple[int, OffsetRange]]:
    """Return what a plan reads, by partition."""
    return sorted((item.stream.partition, item.range) for item in plan.ranges)


def test_first_plan_follows_from_log_start_to_last_stable(world: World) -> None:
    """Nothing on record: everything that can be read is planned, an open transaction is waited for."""
    world.produce(5)
    world.retain_from(2)
    world.produce(1, transaction="open")
    plan = world.plan()
    assert pieces(plan) == [(0, OffsetRange(2, 5))]
    assert world.stream().origin == 2
    assert [item.last_stable for item in plan.waiting_for_stable] == [5]


def test_first_plan_says_what_kafka_has_deleted_before_it() -> None:
    """A person may have counted on those records; once planned, such a loss is a hold."""
    world = World(partitions=3)
    for partition in range(3):
        world.produce(5, partition)
    world.retain_from(2, 1)
    world.retain_from(3, 2)
    (note,) = world.plan().notes
    assert note.startswith("orders/1 begins at 2, where its log starts now: Kafka deleted the records before")
    assert note.endswith("(the same in 1 more)")
    world.produce(1)
    assert world.plan().notes == ()


def test_following_plans_only_what_is_missing(world: World) -> None:
    """What is planned or committed is never planned again."""
    world.produce(5)
    world.plan()
    world.produce(3)
    assert pieces(world.plan()) == [(0, OffsetRange(5, 8))]
    assert world.plan().waves == ()


def test_following_closes_the_gap_below_an_island(world: World) -> None:
    """A period is an island until following reads what lies between the origin and it."""
    world.produce(10)
    assert pieces(world.plan(Bounds(start=4, end=6))) == [(0, OffsetRange(4, 6))]
    assert pieces(world.plan()) == [(0, OffsetRange(0, 4)), (0, OffsetRange(6, 10))]
    world.run()
    world.check()
    assert world.stream().watermark == 10


def test_overlapping_period_reads_only_what_is_missing(world: World) -> None:
    """A period over something committed costs what is not committed."""
    world.produce(10)
    world.run(Bounds(start=3, end=6))
    world.plan(Bounds(start=7, end=8))
    assert pieces(world.plan(Bounds(start=2, end=9))) == [
        (0, OffsetRange(2, 3)),
        (0, OffsetRange(6, 7)),
        (0, OffsetRange(8, 9)),
    ]
    world.run()
    world.check()


def test_period_below_the_origin_is_read_and_moves_no_watermark(world: World) -> None:
    """An ingest of older offsets neither lowers the watermark nor waits for it; ranges end at the origin."""
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 5),)))
    world.produce(8)
    world.run()
    assert (world.stream().origin, world.stream().watermark) == (5, 8)
    assert pieces(world.plan(Bounds(start=2, end=7))) == [(0, OffsetRange(2, 5))]
    world.run()
    world.check()
    assert (world.stream().origin, world.stream().watermark) == (5, 8)
    assert world.offsets() == [2, 3, 4, 5, 6, 7]


def test_a_new_stream_is_cut_at_its_origin(world: World) -> None:
    """The watermark always lies on the edge of a range, also when the first period crosses the origin."""
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 5),)))
    world.produce(8)
    assert pieces(world.plan(Bounds(start=2, end=7))) == [(0, OffsetRange(2, 5)), (0, OffsetRange(5, 7))]


def test_period_by_time(world: World) -> None:
    """Times become the first offsets at or after them; a time after the last record means the end."""
    begin = world.clock.now()
    for _ in range(4):
        world.produce(2)
        world.clock.advance(timedelta(minutes=10))
    bounds = Bounds(start=begin + timedelta(minutes=10), end=begin + timedelta(minutes=30))
    assert pieces(world.plan(bounds)) == [(0, OffsetRange(2, 6))]
    bounds = Bounds(start=begin + timedelta(minutes=29), end=datetime(2030, 1, 1, tzinfo=UTC))
    assert pieces(world.plan(bounds)) == [(0, OffsetRange(6, 8))]


def test_only_the_named_partition_is_planned() -> None:
    """A plan of one partition leaves the others for later, new streams included."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(4, 1)
    assert pieces(world.plan(Bounds(topic="orders", partitions=(1,)))) == [(1, OffsetRange(0, 4))]
    assert pieces(world.plan()) == [(0, OffsetRange(0, 3))]


def test_timestamp_policies_set_origin_and_end(world: World) -> None:
    """A new stream starts at the first record of a time, and a plan ends before the first record of another."""
    begin = world.clock.now()
    for _ in range(4):
        world.produce(2)
        world.clock.advance(timedelta(minutes=10))
    start, end = milliseconds(begin + timedelta(minutes=5)), milliseconds(begin + timedelta(minutes=25))
    world.with_spec(
        start=Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=start),
        end=Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=end),
    )
    assert pieces(world.plan()) == [(0, OffsetRange(2, 6))]
    assert world.stream().origin == 2


def test_group_as_end_policy_never_passes_the_group(world: World) -> None:
    """An ingest up to what a live consumer has committed ends exactly there."""
    world.with_spec(end=Policy(kind=PolicyKind.GROUP, group="live"))
    world.produce(6)
    world.kafka.commit_group("live", "orders", 0, 4)
    assert pieces(world.plan()) == [(0, OffsetRange(0, 4))]


def test_start_and_end_may_follow_two_groups(world: World) -> None:
    """The origin is one group's offset, the end another's."""
    world.with_spec(start=Policy(kind=PolicyKind.GROUP, group="old"), end=Policy(kind=PolicyKind.GROUP, group="live"))
    world.produce(6)
    world.kafka.commit_group("old", "orders", 0, 1)
    world.kafka.commit_group("live", "orders", 0, 5)
    assert pieces(world.plan()) == [(0, OffsetRange(1, 5))]


def test_partition_added_later_starts_at_its_log_start(world: World) -> None:
    """All records of an added partition are younger than the pipeline, whatever the start policy says."""
    world.with_spec(start=Policy(kind=PolicyKind.LATEST))
    world.produce(3)
    world.plan()
    world.kafka.add_partitions("orders", 2)
    world.produce(2, 1)
    world.plan()
    world.clock.advance(timedelta(seconds=world.spec.layout_grace))
    assert pieces(world.plan()) == [(1, OffsetRange(0, 2))]
    assert (world.stream(0).origin, world.stream(1).origin) == (3, 0)


def test_unknown_partition_is_left_out_and_named() -> None:
    """An unreachable leader is neither empty nor gone; the other partitions go on."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    world.kafka.log("orders", 1).unreachable = "no leader"
    plan = world.plan()
    assert pieces(plan) == [(0, OffsetRange(0, 3))]
    assert [(item.partition, item.reason) for item in plan.blocked] == [(1, "not observed: no leader")]
    assert [stream.key.partition for stream in world.ledger.streams("orders")] == [0]


def test_read_uncommitted_plans_up_to_the_high_watermark(world: World) -> None:
    """Only read_committed waits for open transactions."""
    world.with_spec(isolation=Isolation.READ_UNCOMMITTED)
    world.produce(2)
    world.produce(1, transaction="open")
    assert pieces(world.plan()) == [(0, OffsetRange(0, 3))]


def prepared(world: World, bounds: Bounds) -> list[str]:
    """Plan; return the first call of a port after a driver was prepared, for each time it was."""
    calls: list[str | None] = []
    passing = lambda call: [calls.__setitem__(place, call) for place, then in enumerate(calls) if then is None]  # noqa: E731
    world.plan(bounds, worker=replace(world.worker(passing), prepare=lambda _: calls.append(None)))
    return [call or "" for call in calls]


def test_driver_is_prepared_as_soon_as_there_is_something_to_read(world: World) -> None:
    """Of what arrived before its table is looked at, of a period once it is planned; of nothing never."""
    period = Bounds(start=5, end=7)
    world.produce(8)
    assert prepared(world, period) == ["ledger.save_pipeline"]
    assert prepared(world, period) == []
    assert prepared(world, FOLLOW)[0] == "ledger.save_pipeline"
    assert prepared(world, FOLLOW) == []
    world.produce(2)
    assert prepared(world, FOLLOW)[0] == "ledger.pipeline"


def test_driver_is_prepared_for_all_that_is_to_be_read(world: World) -> None:
    """All waves together; records that are decoded take more effort."""
    efforts: list[int] = []
    worker = replace(world.worker(), prepare=efforts.append)
    world.produce(8)
    world.plan(dry_run=True, worker=worker)
    world.with_spec(decoding=Decoding(format=Format.JSON, schema="n bigint"))
    world.plan(worker=worker)
    plain, decoded = min(efforts), max(efforts)
    assert plain == 8 < decoded == effort(8, is_decoded=True)


def test_dry_run_writes_nothing_at_all(world: World) -> None:
    """Neither ledger nor lake change, and the plan is the one that a real run makes."""
    world.produce(5)
    shown = world.plan(dry_run=True)
    assert world.ledger.pipelines() == ()
    assert world.ledger._state.events == []
    assert world.table._store is None
    assert pieces(world.plan()) == pieces(shown) == [(0, OffsetRange(0, 5))]


def test_dry_run_beside_a_recorded_pipeline_changes_nothing(world: World) -> None:
    """Also with everything in place, a dry run leaves no trace."""
    world.produce(2)
    world.run()
    world.produce(2)
    state, head = world.ledger.snapshot(), world.table.head()
    assert pieces(world.plan(dry_run=True)) == [(0, OffsetRange(2, 4))]
    assert (world.ledger.snapshot(), world.table.head()) == (state, head)


def test_empty_topic_is_recorded_and_plans_nothing(world: World) -> None:
    """The origin of a stream is fixed by the first plan, also when there is nothing to read yet."""
    assert world.plan().waves == ()
    world.produce(2)
    assert world.stream().origin == 0
    assert pieces(world.plan()) == [(0, OffsetRange(0, 2))]


@pytest.mark.parametrize("call", ["table.head", "ledger.save_pipeline", "table.claim_ownership", "ledger.record_plan"])
def test_of_two_planners_one_wins(world: World, call: str) -> None:
    """Who records second records nothing and says so; nothing is planned twice."""
    world.produce(4)
    world.plan()
    world.produce(2)
    late = world.worker(Before(call, world.plan))
    with pytest.raises(ConcurrentError, match="Plan again"):
        world.plan(worker=late)
    assert [item.range for item in world.ledger.ranges(pipeline="orders")] == [OffsetRange(0, 4), OffsetRange(4, 6)]
    world.run()
    world.check()


@pytest.mark.parametrize("call", ["table.head", "table.ensure", "ledger.bind_table", "table.claim_ownership"])
def test_of_two_first_planners_one_wins(world: World, call: str) -> None:
    """Two that create the same table, owner and streams at once do not take each other for strangers."""
    world.produce(4)
    late = world.worker(Before(call, world.plan))
    with pytest.raises(ConcurrentError):
        world.plan(worker=late)
    world.run()
    world.check()


@pytest.mark.parametrize(
    ("state", "error"),
    [(GroupOffsetState.UNSTABLE, PendingCommitError), (GroupOffsetState.UNKNOWN, UnavailableError)],
)
def test_group_offset_that_is_no_number_plans_nothing(
    world: World, state: GroupOffsetState, error: type[Exception]
) -> None:
    """Neither an open commit nor a lost answer is read as zero."""
    world.with_spec(end=Policy(kind=PolicyKind.GROUP, group="live"))
    world.produce(3)
    world.kafka.commit_group("live", "orders", 0, None, state)
    with pytest.raises(error, match=r"[Rr]epeat"):
        world.plan()
    assert world.ledger.pipelines() == ()


def test_unreachable_broker_plans_nothing(world: World) -> None:
    """No answer is no plan."""
    world.kafka.down = True
    with pytest.raises(UnavailableError):
        world.plan()
    assert world.ledger.pipelines() == ()


@pytest.mark.parametrize(
    ("retention_ms", "timestamp_ms"),
    [(2**63 - 1, None), (253_402_300_800_000, None), (60_000, 2**62), (60_000, -(2**62))],
)
def test_retention_for_longer_than_dates_go_is_no_error(
    world: World, retention_ms: int, timestamp_ms: int | None
) -> None:
    """Kafka's largest number is how people say "for ever", and producers write any number as a time."""
    world.kafka.create_topic("orders", retention_ms=retention_ms)
    world.kafka.produce("orders", 0, b"value", timestamp_ms=timestamp_ms)
    forecast = world.plan(dry_run=True).forecast
    assert (forecast.retention_deadline, forecast.retention_stream) == (None, None)
    assert forecast.retention_deadline_state == "no date: it lies outside of the years 1 to 9999"
