"""Logs that are cut, cut and written again, deleted from the front, restarted, or out of reach, at every moment."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import TopicDescription
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from tests.gates import Before
from tests.unit.services.test_identity import held_reasons
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def two() -> World:
    """Two partitions with five records each."""
    world = World(partitions=2)
    world.produce(5, 0)
    world.produce(5, 1)
    return world


def cut_and_regrow(world: World, end: int = 3, total: int = 20) -> None:
    """Lose the end of partition 0, and write other records until the log is longer than it ever was."""
    log = world.kafka.log("orders", 0)
    log.truncate(end)
    world.kafka.produce("orders", 0, *[b"another record"] * (total - end))


def assert_the_rest_is_in_the_lake(world: World, error: str) -> None:
    """The lost offsets are held; what lies before them and the other partition went on."""
    (reason,) = held_reasons(world)
    assert reason is not None
    assert reason.startswith(f"{error}: skip 3-5: 2 offsets, the log ")
    assert (world.offsets(0), world.stream(0).watermark) == ([0, 1, 2], 3)
    assert (world.offsets(1), world.stream(1).watermark) == ([0, 1, 2, 3, 4], 5)


def test_rolling_restart_is_no_loss(two: World) -> None:
    """Every restart raises the leader epoch; the recorded one ended where the log ended."""
    wave = two.planned_wave()
    two.kafka.log("orders", 0).elect()
    restart = Before("ledger.renew", two.kafka.log("orders", 0).elect)
    assert two.ingest(wave, two.worker(restart)).state is WaveState.COMMITTED
    two.kafka.log("orders", 0).elect()
    two.produce(3, 0)
    two.kafka.log("orders", 0).elect()
    assert two.run().exit_code == 0
    two.check()
    assert two.stream(0).watermark == 8


def test_log_cut_before_the_job_is_held(two: World) -> None:
    """An end below what was planned: the job reads what the log still has, and the other partition."""
    wave = two.planned_wave()
    two.kafka.log("orders", 0).truncate(3)
    two.ingest(wave)
    two.advance()
    assert_the_rest_is_in_the_lake(two, "LogTruncatedError")
    assert len(two.runner.jobs) == 1


def test_log_cut_and_regrown_before_the_job_is_held(two: World) -> None:
    """Also when it has grown past its old end: the offsets are the same, the records are not."""
    wave = two.planned_wave()
    cut_and_regrow(two)
    two.ingest(wave)
    two.advance()
    assert_the_rest_is_in_the_lake(two, "LogRewrittenError")
    assert len(two.runner.jobs) == 1


def test_log_cut_and_regrown_during_the_read_is_held(two: World) -> None:
    """Rows that may be of the one log or the other are not published, though none is missing."""
    wave = two.planned_wave()
    two.ingest(wave, two.worker(Before("ledger.renew", lambda: cut_and_regrow(two))))
    two.advance()
    assert_the_rest_is_in_the_lake(two, "LogRewrittenError")


def test_range_below_the_cut_is_read(world: World) -> None:
    """What a log still has as it was planned is no loss."""
    world.produce(5)
    wave = world.planned_wave()
    world.produce(4)
    cut_and_regrow(world, end=5)
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert world.offsets() == [0, 1, 2, 3, 4]


def test_log_cut_after_its_range_was_committed_is_a_stop_at_the_plan(two: World) -> None:
    """The next plan of a partition with a rewritten past is left out; the others are planned."""
    two.run()
    cut_and_regrow(two)
    two.produce(2, 1)
    plan = two.plan()
    assert [(item.stream.partition, item.range) for item in plan.ranges] == [(1, OffsetRange(5, 7))]
    (stop,) = plan.blocked
    assert stop.reason.startswith("LogRewrittenError: the log was cut at 3 ")


def test_log_start_that_moved_over_what_was_read_is_no_loss(world: World) -> None:
    """Rows are the evidence that they were read before they were deleted."""
    world.produce(5)
    wave = world.planned_wave()
    world.ingest(wave, world.worker(Before("ledger.renew", lambda: world.retain_from(4))))
    world.advance()
    world.check()
    assert world.stream().watermark == 5


def test_log_start_that_moved_over_unread_offsets_is_a_stop(world: World) -> None:
    """Whether they held records cannot be told any more: they are held, and the watermark waits below what landed."""
    world.produce(2, transaction="t")
    world.end("t", commit=False)
    world.produce(2)
    wave = world.planned_wave()
    world.ingest(wave, world.worker(Before("batches.explain", lambda: world.retain_from(1))))
    (reason,) = held_reasons(world)
    assert reason is not None
    assert reason.startswith("LogStartMovedError: skip 0-1: 1 offset, no row came of them")
    assert "--from 0 --to 1 --reason TEXT" in reason
    assert (world.offsets(), world.advance()) == ([3, 4], ())


def test_partition_unknown_after_the_read_proves_nothing(two: World) -> None:
    """No answer says that it is still the log that was planned from: to be tried again, nothing published."""
    wave = two.planned_wave()
    away = Before("ledger.renew", lambda: setattr(two.kafka.log("orders", 0), "unreachable", "no leader"))
    with pytest.raises(UnavailableError, match="not proven"):
        two.ingest(wave, two.worker(away))
    assert two.offsets(0) == two.offsets(1) == []
    two.kafka.log("orders", 0).unreachable = ""
    assert two.ingest(wave).state is WaveState.COMMITTED


def test_epoch_end_that_no_broker_tells_is_unknown(two: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that does not answer is neither a loss nor an all-clear, at the plan and before the job."""
    wave = two.planned_wave()
    two.kafka.log("orders", 0).elect()
    monkeypatch.setattr(two.kafka, "epoch_ends", lambda *_: {})
    two.ingest(wave)
    two.advance()
    assert (two.offsets(0), held_reasons(two)) == ([], [])
    assert two.stream(1).watermark == 5
    two.produce(1, 0)
    (stop,) = two.plan().blocked
    assert stop.reason.startswith("not observed: the leader of orders/0 did not say where leader epoch 0 ended")


def test_partition_that_stays_unknown_goes_on_in_a_wave_of_its_own(two: World) -> None:
    """The others land and their watermarks move; when it has a leader again its own wave brings it."""
    wave = two.planned_wave()
    two.kafka.log("orders", 0).unreachable = "it has no leader now"
    before = two.clock.now()
    assert two.ingest(wave).state is WaveState.COMMITTED
    assert (two.clock.now() - before).total_seconds() >= two.spec.leader_wait
    two.advance()
    assert (two.stream(0).watermark, two.stream(1).watermark) == (0, 5)
    (left,) = two.ledger.ranges(pipeline="orders", states=(RangeState.PLANNED,))
    assert left.wave != wave
    assert [type(problem) for problem in two.run().problems] == [UnavailableError], (
        "something is left, not readable now"
    )
    two.kafka.log("orders", 0).unreachable = ""
    assert two.run().exit_code == 0
    two.check()
    assert two.ledger.wave(left.wave).state is WaveState.COMMITTED


def test_partition_between_two_leaders_is_waited_for(two: World) -> None:
    """An election takes moments: within the pipeline's patience nothing is taken apart."""
    wave = two.planned_wave()
    two.kafka.log("orders", 0).unreachable = "it has no leader now"
    elected = Before("source.snapshot", lambda: setattr(two.kafka.log("orders", 0), "unreachable", ""), nth=3)
    assert two.ingest(wave, two.worker(elected)).ranges == 2
    assert two.offsets(0) == [0, 1, 2, 3, 4]


def test_wave_of_which_nothing_can_be_read_stays_as_it_is(world: World) -> None:
    """A cluster without leaders takes no wave apart; it is tried again."""
    world.produce(3)
    wave = world.planned_wave()
    world.kafka.log("orders", 0).unreachable = "it has no leader now"
    with pytest.raises(UnavailableError, match="it has no leader now"):
        world.ingest(wave)
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert len(world.ledger.waves("orders")) == 1
    world.kafka.log("orders", 0).unreachable = ""
    assert world.ingest(wave).state is WaveState.COMMITTED


def lacking(world: World, topic: str, patch: pytest.MonkeyPatch) -> None:
    """Let Kafka refuse to describe a topic for a right that is missing."""
    describe = world.kafka.describe

    def refusing(topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        if topic in topics:
            raise ConnectionSettingsError(f"the user lacks DescribeConfigs on topic {topic}.", topics=[topic])
        return describe(topics)

    patch.setattr(world.kafka, "describe", refusing)


def test_right_that_is_missing_before_the_read_is_a_persons_matter(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No waiting brings it: the wave stays as it is at once, and the run says that repeating does not help."""
    world.produce(3)
    wave = world.planned_wave()
    with monkeypatch.context() as patch:
        lacking(world, "orders", patch)
        before = world.clock.now()
        with pytest.raises(
            ConnectionSettingsError, match=r"lacks DescribeConfigs on topic orders\. Repeat when"
        ) as told:
            world.ingest(wave)
        assert (told.value.facts["wave"], world.clock.now()) == (wave, before)
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert (world.run().exit_code, world.offsets()) == (0, [0, 1, 2])


def test_right_that_is_withdrawn_in_the_read_is_a_persons_matter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read proves nothing without it, and lands with it."""
    world.produce(3)
    wave = world.planned_wave()
    with monkeypatch.context() as patch:
        withdrawn = Before("ledger.renew", lambda: lacking(world, "orders", patch))
        with pytest.raises(ConnectionSettingsError, match="lacks DescribeConfigs"):
            world.ingest(wave, world.worker(withdrawn))
    assert (world.run().exit_code, world.offsets()) == (0, [0, 1, 2])


def test_topic_without_a_right_lets_the_others_land_and_ends_the_run_for_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its ranges go on in a wave of their own, whose refusal is the run's."""
    world = World()
    world.create("payments")
    world.with_spec(topics=("orders", "payments"), table="raw.orders", leader_wait=0)
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    world.plan()
    with monkeypatch.context() as patch:
        lacking(world, "payments", patch)
        done = world.run()
        assert (done.exit_code, [type(problem) for problem in done.problems]) == (1, [ConnectionSettingsError])
        assert world.offsets() == [0, 1, 2]
    assert world.run().exit_code == 0
    world.check()


def test_of_several_reasons_the_one_that_a_person_mends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing of a wave can be read: that another topic has no leader passes."""
    world = World()
    world.create("payments")
    world.with_spec(topics=("orders", "payments"), table="raw.orders", leader_wait=0)
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    wave = world.planned_wave()
    world.kafka.log("orders", 0).unreachable = "it has no leader now"
    lacking(world, "payments", monkeypatch)
    with pytest.raises(ConnectionSettingsError, match="lacks DescribeConfigs"):
        world.ingest(wave)
