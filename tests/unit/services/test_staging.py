"""One wave from claim to commit, and whatever a job can do wrong on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    JobFailedError,
    SchemaMismatchError,
    StaleFenceError,
    StateError,
    UnavailableError,
    UnexplainedError,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.services import decisions
from tests.gates import Before, Calls
from tests.kit.memory_runner import Position
from tests.world import World

pytestmark = pytest.mark.unit


def outcomes(world: World, wave: str) -> list[AttemptOutcome]:
    """Return how the attempts at a wave ended."""
    return [attempt.outcome for attempt in world.ledger.attempts(wave)]


def held(world: World) -> list[tuple[int, str, str | None]]:
    """Return what is on hold: partition, range, reason."""
    found = world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,))
    return [(item.stream.partition, str(item.range), item.reason) for item in found]


def test_wave_is_staged_audited_published_and_committed(world: World) -> None:
    """The happy path: every record visible once, one attempt, one commit, receipts, no branch left."""
    world.produce(5)
    wave = world.planned_wave()
    done = world.ingest(wave)
    assert (done.state, done.fence, done.rows) == (WaveState.COMMITTED, 1, 5)
    assert done.snapshot == world.table.head().snapshot
    assert outcomes(world, wave) == [AttemptOutcome.COMMITTED]
    assert list(world.table._store.refs) == ["main"]
    world.advance()
    world.check()


@pytest.mark.parametrize(("partition_by", "by_time"), [("", False), ("days(kafka_timestamp)", True)])
def test_tasks_share_a_table_by_time(world: World, partition_by: str, by_time: bool) -> None:
    """The job is told how the table is divided, so that its tasks write few files."""
    world.with_spec(partition_by=partition_by)
    world.produce(5)
    world.run()
    assert [job.by_time for job in world.runner.jobs] == [by_time]
    world.check()


def test_transactions_are_accounted_for(world: World) -> None:
    """Aborted records and markers are no rows, and every one of their offsets is explained."""
    world.produce(1)
    world.produce(3, transaction="bad")
    world.end("bad", commit=False)
    world.produce(2, transaction="good")
    world.end("good")
    wave = world.planned_wave()
    world.ingest(wave)
    (item,) = world.ledger.ranges(wave=wave)
    assert item.accounting.to_json() == {
        "visible": 3,
        "control": 2,
        "aborted": 3,
        "compacted": 0,
        "skipped": 0,
        "unexplained": 0,
    }
    assert (item.first_offset, item.last_offset, item.rows) == (0, 6, 3)
    world.advance()
    world.check()


def test_zero_row_wave_completes(world: World) -> None:
    """A range of aborted records only has no row, is committed, and lets the watermark pass."""
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    wave = world.planned_wave()
    assert world.ingest(wave).rows == 0
    assert [row.rows for row in world.table.receipts(world.ledger.attempts(wave)[0].attempt)] == [0]
    world.advance()
    world.check()
    assert world.stream().watermark == 3


def test_failed_job_leaves_the_wave_planned(world: World) -> None:
    """A job that ends with an error has changed nothing; the next try succeeds."""
    world.produce(3)
    wave = world.planned_wave()
    world.runner.failures.append("out of memory")
    with pytest.raises(JobFailedError, match="out of memory"):
        world.ingest(wave)
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert world.ledger.attempts(wave)[0].error == "JobFailedError: out of memory"
    world.ingest(wave)
    assert outcomes(world, wave) == [AttemptOutcome.FAILED, AttemptOutcome.COMMITTED]
    world.advance()
    world.check()


def test_job_that_ends_without_a_word_is_no_success(world: World) -> None:
    """An exit code of a driver proves nothing: without a branch there is no result."""
    world.produce(3)
    wave = world.planned_wave()
    world.runner.unfinished = 1
    with pytest.raises(JobFailedError, match="its staging branch is empty"):
        world.ingest(wave)
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert world.run().exit_code == 0
    world.check()


def twice(rows: list[Position]) -> list[Position]:
    """Write the first row of partition 0 twice."""
    return [row for row in rows for _ in range(2 if row[2:4] == (0, 0) else 1)]


def missing(rows: list[Position]) -> list[Position]:
    """Leave the last row of partition 0 out."""
    return [row for row in rows if row[2:4] != (0, 2)]


def stray(rows: list[Position]) -> list[Position]:
    """Write a row of partition 0 that no plan has."""
    return [*rows, *((*row[:3], 99, *row[4:]) for row in rows if row[2:4] == (0, 0))]


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (twice, "1 row of orders/0 was staged twice"),
        (missing, "1 offset is not explained: 2-3"),
        (stray, "rows outside the planned ranges of orders/0 were staged: 99-100"),
    ],
)
def test_range_that_fails_its_audit_is_held_and_the_rest_published(
    tamper: Callable[[list[Position]], list[Position]], reason: str
) -> None:
    """Nothing wrong becomes visible; the healthy partition does not wait; a person can release the other."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    wave = world.planned_wave()
    world.runner.tamper = tamper
    assert world.ingest(wave).state is WaveState.COMMITTED
    (found,) = held(world)
    assert found[:2] == (0, "0-3")
    assert reason in (found[2] or "")
    assert (world.offsets(0), world.offsets(1)) == ([], [0, 1, 2])
    assert not [name for name in world.table._store.refs if name != "main"]
    world.advance()
    world.check()
    world.runner.tamper = lambda rows: rows
    decisions.release(world.worker(), world.ledger.ranges(wave=wave)[0].id, None)
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets(0) == [0, 1, 2]


def test_range_is_held_though_no_branch_can_be_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine whose clock is behind the table: what the attempt staged goes with the commit that fences it."""

    def refuse(attempt: str) -> None:
        raise UnavailableError(f"attempt {attempt}: this machine's clock is behind")

    monkeypatch.setattr(world.table, "drop", refuse)
    world.produce(3)
    wave = world.planned_wave()
    world.runner.tamper = lambda rows: rows[1:]
    with pytest.raises(HeldError):
        world.ingest(wave)
    (held,) = world.ledger.ranges(wave=wave)
    assert (held.state, world.table.branches()) == (RangeState.HELD, ())


def test_wave_whose_every_range_is_held_says_so(world: World) -> None:
    """Nothing is left to publish: the wave is dissolved and a person is needed."""
    world.produce(3)
    wave = world.planned_wave()
    world.runner.tamper = missing
    with pytest.raises(HeldError, match="every range of wave"):
        world.ingest(wave)
    assert world.ledger.wave(wave).state is WaveState.DISSOLVED
    assert world.offsets() == []
    with pytest.raises(HeldError):
        world.ingest(wave)


def test_rows_of_a_stream_that_the_wave_has_not_end_the_attempt() -> None:
    """A job that writes another partition's rows publishes nothing."""
    world = World(partitions=2)
    world.produce(3, 0)
    world.produce(3, 1)
    wave = world.planned_wave(Bounds(partitions=(0,)))
    world.runner.tamper = lambda rows: [*rows, (*rows[0][:2], 1, *rows[0][3:])]
    with pytest.raises(UnexplainedError, match="streams that its wave has not"):
        world.ingest(wave)
    assert (world.offsets(0), world.offsets(1)) == ([], [])
    assert world.ledger.wave(wave).state is WaveState.PLANNED


def test_rows_of_another_attempt_end_the_attempt(world: World) -> None:
    """Rows that name another attempt are not ours to publish."""
    world.produce(3)
    wave = world.planned_wave()
    stage = world.table.stage
    world.lake.stage = lambda identifier, attempt, rows, **_: stage(attempt, rows, written_as="f" * 16)  # type: ignore[method-assign]
    with pytest.raises(SchemaMismatchError):
        world.ingest(wave)
    assert world.offsets() == []


def test_unreadable_staged_file_is_no_result(world: World) -> None:
    """Every data file is opened before anybody may see it."""
    world.produce(3)
    wave = world.planned_wave()

    def damage() -> None:
        world.table.damage(world.ledger.attempts(wave)[-1].attempt)

    with pytest.raises(JobFailedError, match="cannot be read"):
        world.ingest(wave, world.worker(Before("table.staged", damage)))
    world.ingest(wave)
    world.advance()
    world.check()


def test_table_is_never_ahead_of_the_base(world: World) -> None:
    """The base is stored before the job starts, the staged snapshot before the commit."""
    world.produce(1)
    wave = world.planned_wave()
    calls = Calls()
    world.ingest(wave, world.worker(calls))
    order = ["table.find_commit", "ledger.record_base", "runner.stage", "table.staged", "ledger.mark_staged"]
    order += ["table.add_receipts", "ledger.mark_publishing", "table.publish", "ledger.record_commit"]
    assert [call for call in calls.made if call in order] == [*order[:6], "table.find_commit", *order[6:]]


def test_second_worker_waits_for_the_first(world: World) -> None:
    """A live lease keeps others out; nothing of them is left behind."""
    world.produce(2)
    wave = world.planned_wave()

    def second() -> None:
        with pytest.raises(ConcurrentError, match="alpha/2"):
            world.ingest(wave)

    world.ingest(wave, world.worker(Before("runner.stage", second)))
    assert world.ledger.wave(wave).fence == 1


def test_ingest_of_a_committed_wave_does_nothing(world: World) -> None:
    """Repeating is safe, and says what there is, as the table has it too, and how it is read again."""
    world.produce(2)
    wave = world.planned_wave()
    first = world.ingest(wave)
    calls = Calls()
    assert world.ingest(wave, world.worker(calls)) == first
    assert [call for call in calls.made if not call.startswith("ledger.")] == ["table.head"]
    assert "ledger.commit" not in calls.made
    assert f"wave {wave} is in the lake since {timestamp(world.clock.now())}: 2 rows" in world.said[-1]
    world.reopen(0, 2)
    world.ingest(wave)
    assert world.said[-1].endswith("All of it was reopened, and is read again in other waves")


def test_ingest_of_a_cancelled_wave_is_refused(world: World) -> None:
    """The message names the way out."""
    world.produce(2)
    wave = world.planned_wave()
    decisions.cancel(world.worker(), wave, "not now")
    with pytest.raises(StateError, match=f"kafka-lake release {wave}"):
        world.ingest(wave)


def test_wave_that_others_end_before_the_claim_is_done(world: World) -> None:
    """Two ingest one wave: the worker that comes late finds it committed, not an error."""
    world.produce(2)
    wave = world.planned_wave()
    late = world.worker(Before("ledger.claim", lambda: world.ingest(wave)))
    assert world.ingest(wave, late).state is WaveState.COMMITTED
    assert world.ledger.wave(wave).fence == 1


def test_heartbeat_keeps_the_lease_and_notices_its_loss() -> None:
    """A long job renews its lease; one whose wave was taken over is ended by its own heartbeat."""
    world = World(partitions=2)
    world.produce(2, 0)
    world.produce(2, 1)
    wave = world.planned_wave()
    calls = Calls()

    def slow(call: str) -> None:
        calls(call)
        if call in {"ledger.record_job", "ledger.renew"}:
            world.clock.advance(world.ledger.wave(wave).lease_until - world.clock.now())

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before("ledger.renew", lambda: _take_over(world, wave))))
    world.lease_ends()
    world.ingest(wave, world.worker(slow))
    assert calls.made.count("ledger.renew") >= 2
    world.advance()
    world.check()


def _take_over(world: World, wave: str) -> None:
    world.lease_ends()
    world.runner.failures.append("too late")
    with pytest.raises(JobFailedError):
        world.ingest(wave)
