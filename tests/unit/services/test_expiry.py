"""What retention and snapshot expiry take away between any two steps."""

from __future__ import annotations

from itertools import count

import pytest

from airflow_kafka_lake.core.errors import HeldError, JobFailedError
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import decisions
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer, Row
from tests.world import World

pytestmark = pytest.mark.unit
FOREIGN = Row(topic="other", topic_id="other", partition=0, offset=0, key=None, value=None, attempt="")


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of five records."""
    world.produce(5)
    return world.planned_wave()


def expire(world: World) -> None:
    """Forget all history: another writer moves main, and maintenance expires every older snapshot."""
    world.table.write_foreign([FOREIGN])
    world.table.expire()


def calls_of_an_ingest() -> list[str]:
    """Return the port calls of an undisturbed ingest."""
    world = World()
    world.produce(5)
    calls = Calls()
    world.ingest(world.planned_wave(), world.worker(calls))
    return calls.made


@pytest.mark.parametrize("zero_rows", [False, True])
def test_expiry_between_any_two_steps_does_no_harm(zero_rows: bool) -> None:
    """History may end after the attempt began, at whatever moment: rows and receipts still tell."""
    for number in range(1, len(calls_of_an_ingest()) + 1):
        world = World()
        world.produce(3, transaction="t")
        world.end("t", commit=not zero_rows)
        wave = world.planned_wave()
        between = Before("", lambda world=world: expire(world), nth=number)
        assert world.ingest(wave, world.worker(between)).state is WaveState.COMMITTED
        assert between.happened
        world.advance()
        world.check()


def test_expiry_after_a_death_at_any_step_does_no_harm() -> None:
    """A worker dies anywhere, history expires, and the next run still finds out what was published."""
    for number in range(2, len(calls_of_an_ingest()) + 1):
        world = World()
        world.produce(5)
        wave = world.planned_wave()
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed(nth=number)))
        expire(world)
        world.lease_ends()
        assert world.run().exit_code == 0
        world.check()


def test_expired_commit_is_found_by_its_rows(world: World, wave: str) -> None:
    """A snapshot may be gone, the rows say by which attempt they came."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    expire(world)
    world.lease_ends()
    done = world.ingest(wave)
    assert (done.state, done.snapshot) == (WaveState.COMMITTED, None)
    assert len(world.runner.jobs) == 1
    world.advance()
    world.check()


def test_expired_commit_without_rows_is_made_again(world: World) -> None:
    """A wave of zero rows leaves no row behind, and receipts are written before a commit: they prove none."""
    world.produce(3, transaction="bad")
    world.end("bad", commit=False)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    expire(world)
    world.lease_ends()
    assert world.ingest(wave).rows == 0
    assert len(world.runner.jobs) == 2
    world.advance()
    world.check()


def test_lost_answer_and_expiry_at_once_do_no_harm(world: World, wave: str) -> None:
    """The commit landed, its answer was lost, its snapshot expired: still no second copy."""

    def lose() -> None:
        world.table.next_answer = Answer.LOST_LANDED

    losing, expiring = Before("table.publish", lose), Before("table.find_commit", lambda: expire(world), nth=3)

    def passing(call: str) -> None:
        losing(call)
        expiring(call)

    world.ingest(wave, world.worker(passing))
    assert expiring.happened
    assert len(world.runner.jobs) == 1
    world.advance()
    world.check()


def test_log_start_that_passed_the_range_holds_it_with_the_exact_skip(world: World, wave: str) -> None:
    """What is gone is named to the offset, and what is there is read before it is gone too."""
    world.retain_from(2)
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert [(str(item.range), item.state) for item in world.ledger.ranges(wave=wave)] == [
        ("0-2", RangeState.HELD),
        ("2-5", RangeState.COMMITTED),
    ]
    assert world.ledger.ranges(wave=wave)[0].reason == (
        "LogStartMovedError: skip 0-2: 2 offsets, log start moved to 2. Skip them with: kafka-lake skip orders "
        "--topic orders --partition 0 --from 0 --to 2 --reason TEXT"
    )
    assert (world.offsets(), world.stream().watermark) == ([2, 3, 4], 0)
    stream = world.stream()
    skipped = decisions.skip(
        world.worker(), "orders", stream, OffsetRange(0, 2), reason="expired", acknowledge_order=False
    )
    assert (skipped.offsets, skipped.waves) == (2, ())
    assert world.run().exit_code == 0
    world.check()
    assert (world.offsets(), world.stream().watermark) == ([2, 3, 4], 5)


def test_log_start_beyond_the_range_proposes_to_skip_all_of_it(world: World, wave: str) -> None:
    """The proposal never reaches beyond the range."""
    world.produce(5)
    world.retain_from(8)
    with pytest.raises(HeldError):
        world.ingest(wave)
    assert world.ledger.ranges(wave=wave)[0].reason == (
        "LogStartMovedError: skip 0-5: 5 offsets, log start moved to 8. Skip them with: kafka-lake skip orders "
        "--topic orders --partition 0 --from 0 --to 5 --reason TEXT"
    )


def test_log_start_of_one_partition_holds_only_that_partition() -> None:
    """The others of the wave do not wait."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    wave = world.planned_wave()
    world.retain_from(1, partition=1)
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert (world.offsets(0), world.offsets(1)) == ([0, 1, 2], [1, 2])
    world.advance()
    assert [world.stream(partition).watermark for partition in (0, 1)] == [3, 0]
    world.check()


def test_retention_under_the_job_fails_it_closed(world: World, wave: str) -> None:
    """A job never reads around a loss, also when it is not known at once what is lost; the next try holds the range."""

    def lost() -> None:
        world.retain_from(2)
        world.kafka.log("orders", 0).unreachable = "no leader"

    with pytest.raises(JobFailedError, match="out of reach"):
        world.ingest(wave, world.worker(Before("runner.stage", lost)))
    assert world.ledger.attempts(wave)[0].outcome is AttemptOutcome.FAILED
    world.kafka.log("orders", 0).unreachable = ""
    assert world.ingest(wave).state is WaveState.COMMITTED
    first, second = world.ledger.ranges(wave=wave)
    assert "log start moved to 2" in (first.reason or "")
    assert (first.state, second.state, world.offsets()) == (RangeState.HELD, RangeState.COMMITTED, [2, 3, 4])


def test_retention_under_the_job_holds_what_is_lost() -> None:
    """What the job could not read becomes a hold in the same call, and the wave's other ranges go on."""
    world = World(partitions=2)
    world.produce(5, 0)
    world.produce(5, 1)
    wave = world.planned_wave()
    ended = world.ingest(wave, world.worker(Before("runner.stage", lambda: world.retain_from(2))))
    assert (ended.state, ended.rows) == (WaveState.COMMITTED, 8)
    first, *others = world.ledger.ranges(wave=wave)
    assert (first.range, first.state) == (OffsetRange(0, 2), RangeState.HELD)
    assert {item.state for item in others} == {RangeState.COMMITTED}
    assert (first.reason or "").startswith("LogStartMovedError: skip 0-2: 2 offsets, log start moved to 2")
    assert [item.outcome for item in world.ledger.attempts(wave)] == [
        AttemptOutcome.FAILED,
        AttemptOutcome.ABANDONED,
        AttemptOutcome.COMMITTED,
    ]
    world.advance()
    world.check()


def test_partition_that_retention_overtakes_again_and_again_holds_up_no_other() -> None:
    """What is left of it goes on by itself: else each job that fails for it is one of the whole wave, while retention
    takes the others too."""
    world = World(partitions=2)
    world.produce(30, 0)
    world.produce(6, 1)
    jobs = count(1)

    def overtaking(call: str) -> None:
        if call == "runner.stage":
            world.retain_from(job := next(jobs))
            if job == 5:
                world.retain_from(6, 1)

    wave = world.planned_wave()
    assert world.ingest(wave, world.worker(overtaking)).state is WaveState.COMMITTED
    assert (world.offsets(1), next(jobs)) == ([0, 1, 2, 3, 4, 5], 4)
    # The rest of partition 0 is read in the same run.
    assert world.run().exit_code == 1
    assert world.offsets(0) == list(range(3, 30))


def test_retention_after_the_job_does_not_matter_for_rows(world: World, wave: str) -> None:
    """Rows are their own proof: only gaps need the log."""
    world.ingest(wave, world.worker(Before("table.staged", lambda: world.retain_from(5))))
    world.advance()
    world.check()


def test_rows_between_many_markers_that_retention_passes_land(world: World) -> None:
    """They are the only copy: each of the hundreds of gaps between them is held by itself."""
    for _ in range(150):
        world.produce(1, transaction="t")
        world.end("t")
    wave = world.planned_wave()
    ended = world.ingest(wave, world.worker(Before("batches.explain", lambda: world.retain_from(300))))
    assert (ended.state, ended.rows) == (WaveState.COMMITTED, 150)


def test_retention_after_the_job_leaves_gaps_unexplained(world: World) -> None:
    """Offsets without a row that the log no longer explains are never passed silently: they alone are held, and what
    was read around them lands, though Kafka has none of it any more."""
    world.produce(2)
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.produce(3)
    wave = world.planned_wave()
    ended = world.ingest(wave, world.worker(Before("batches.explain", lambda: world.retain_from(7))))
    assert (ended.state, ended.rows, len(world.runner.jobs)) == (WaveState.COMMITTED, 5, 1)
    assert [(str(item.range), item.state) for item in world.ledger.ranges(wave=wave)] == [
        ("0-2", RangeState.COMMITTED),
        ("2-5", RangeState.HELD),
        ("5-8", RangeState.COMMITTED),
    ]
    (held,) = world.ledger.ranges(wave=wave, states=(RangeState.HELD,))
    assert held.reason == (
        "LogStartMovedError: skip 2-5: 3 offsets, no row came of them, and the log start has passed them before their "
        "batches could be read: nothing can say any more that they were markers. What was read beside them goes on. "
        "Skip them with: kafka-lake skip orders --topic orders --partition 0 --from 2 --to 5 --reason TEXT"
    )
    world.advance()
    assert (world.offsets(), world.stream().watermark) == ([0, 1, 5, 6, 7], 2)
    gap = OffsetRange(2, 5)
    decisions.skip(world.worker(), "orders", world.stream(), gap, reason="markers", acknowledge_order=False)
    assert world.run().exit_code == 0
    assert (world.stream().watermark, len(world.runner.jobs)) == (8, 1)
    world.check()
