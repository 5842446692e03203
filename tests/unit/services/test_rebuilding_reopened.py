"""A lost or older ledger, and what was reopened: the newest generation counts, and what waits is read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.core.errors import IdentityError, LedgerBehindError, LogRewrittenError
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.rebuilding import RebuildResult, rebuild
from tests.gates import Before, Killed, KilledError
from tests.unit.services.test_expiry import expire
from tests.unit.services.test_rebuilding import lose
from tests.unit.services.test_reopening import audited, land, pieces
from tests.world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def landed(world: World) -> World:
    """Offsets 0-14 with ten records, committed."""
    return land(world)


Loss = Callable[[World], object]


@pytest.fixture(params=["lost", "older"])
def loss(request: pytest.FixtureRequest, landed: World) -> Loss:
    """What happens to the ledger later: it is gone, or set back to before the reopen."""
    backup = landed.ledger.snapshot()

    def set_back(world: World) -> None:
        world.ledger.restore(backup)
        world.watermarks.clear()

    return lose if request.param == "lost" else set_back


def rebuilt(world: World, *, accept_rollback: bool = False) -> RebuildResult:
    """Rebuild as a person does."""
    world.lease_ends()
    done = rebuild(world.worker(), world.spec, accept_rollback=accept_rollback)
    assert audited(world) == []
    return done


def coverage(world: World) -> list[list[int]]:
    """Return what is committed or skipped."""
    return world.stream().covered.to_pairs()


def test_reopen_before_it_is_read_again_is_planned_again(landed: World, loss: Loss) -> None:
    """The rows are there, and the decision stands: the slice is read, and nothing else."""
    visible = landed.offsets()
    landed.reopen(3, 9)
    loss(landed)
    rebuilt(landed)
    assert coverage(landed) == [[0, 3], [9, 14]]
    assert [(part, state) for part, state, _ in pieces(landed)] == [
        ("0-3", "COMMITTED"),
        ("3-9", "PLANNED"),
        ("9-14", "COMMITTED"),
    ]
    assert (landed.stream().watermark, landed.offsets()) == (3, visible)
    jobs = len(landed.runner.jobs)
    assert landed.run().exit_code == 0
    assert [str(s.range) for job in landed.runner.jobs[jobs:] for s in job.slices] == ["3-9"]
    assert (landed.offsets(), landed.stream().watermark, audited(landed)) == (visible, 14, [])
    landed.check()


def test_whole_range_that_was_reopened_is_planned_again(landed: World, loss: Loss) -> None:
    """No part of it was left to have a receipt: only the reopen tells that the first reading is not enough."""
    landed.reopen(0, 14)
    loss(landed)
    rebuilt(landed)
    assert pieces(landed) == [("0-14", "PLANNED", 1)]
    assert landed.stream().watermark == 0
    assert landed.run().exit_code == 0
    assert (coverage(landed), audited(landed)) == ([[0, 14]], [])
    landed.check()


def test_reopen_after_it_was_read_again_is_committed(landed: World, loss: Loss) -> None:
    """The newest generation counts; the receipts of the earlier one do not, and those of its rest do."""
    landed.reopen(3, 9)
    assert landed.run().exit_code == 0
    visible = landed.offsets()
    loss(landed)
    rebuilt(landed)
    assert pieces(landed) == [("0-3", "COMMITTED", 0), ("3-9", "COMMITTED", 1), ("9-14", "COMMITTED", 0)]
    jobs = len(landed.runner.jobs)
    assert landed.run().exit_code == 0
    assert len(landed.runner.jobs) == jobs
    assert (landed.offsets(), landed.stream().watermark) == (visible, 14)
    landed.check()


def test_cut_again_and_again_every_piece_counts_once(landed: World, loss: Loss) -> None:
    """Generations may lie side by side; the last reopen waits. History has expired meanwhile."""
    for start, end in ((3, 9), (5, 12)):
        landed.reopen(start, end)
        assert landed.run().exit_code == 0
    expire(landed)
    landed.reopen(8, 10)
    before = pieces(landed)
    loss(landed)
    rebuilt(landed)
    assert pieces(landed) == before
    assert landed.run().exit_code == 0
    assert audited(landed) == []
    landed.check()


def test_published_and_not_committed_is_found(landed: World, loss: Loss) -> None:
    """The second reading died between its commit and its commit."""
    (wave,) = landed.reopen(3, 9).waves
    with pytest.raises(KilledError):
        landed.ingest(wave, landed.worker(Killed("ledger.record_commit")))
    loss(landed)
    rebuilt(landed)
    assert [state for _, state, _ in pieces(landed)] == ["COMMITTED"] * 3
    landed.check()


def test_reopen_that_the_lake_was_not_told_of_is_forgotten_with_the_ledger(landed: World) -> None:
    """Its rows are as they were: the person decides again."""
    with pytest.raises(KilledError):
        landed.reopen(3, 9, worker=landed.worker(Killed("table.add_receipts")))
    lose(landed)
    rebuilt(landed)
    assert coverage(landed) == [[0, 14]]
    landed.watermarks.clear()
    landed.reopen(3, 9)
    assert landed.run().exit_code == 0
    landed.check()


def test_reopen_that_only_the_ledger_knows_survives_a_rebuild(landed: World) -> None:
    """Its receipts wait in the outbox, and count as if the lake had them."""
    with pytest.raises(KilledError):
        landed.reopen(3, 9, worker=landed.worker(Killed("table.add_receipts")))
    before = pieces(landed)
    landed.watermarks.clear()
    rebuilt(landed)
    assert pieces(landed) == before
    assert landed.run().exit_code == 0
    assert audited(landed) == []
    landed.check()


def test_reopened_skip_is_read_again(landed: World, loss: Loss) -> None:
    """A skip counts until something reopens it; what is left of it stays passed."""
    landed.produce(6)
    landed.planned_wave()
    decisions.skip(landed.worker(), "orders", landed.stream(), OffsetRange(14, 20), reason="x", acknowledge_order=False)
    landed.advance()
    landed.reopen(15, 18)
    before = [(part, state) for part, state, _ in pieces(landed) if int(part.split("-")[0]) >= 14]
    loss(landed)
    rebuilt(landed)
    assert [(p, state) for p, state, _ in pieces(landed) if int(p.split("-")[0]) >= 14] == before
    assert landed.run().exit_code == 0
    assert landed.offsets()[-3:] == [15, 16, 17]
    landed.check()


def test_skip_of_what_was_reopened_counts(landed: World, loss: Loss) -> None:
    """The second reading was given up, and the earlier rows stay; later it is reopened once more."""
    landed.reopen(3, 9)
    decisions.skip(landed.worker(), "orders", landed.stream(), OffsetRange(3, 9), reason="x", acknowledge_order=False)
    landed.advance()
    loss(landed)
    rebuilt(landed)
    assert pieces(landed)[1] == ("3-9", "SKIPPED", 1)
    landed.reopen(3, 9)
    loss(landed)
    rebuilt(landed)
    assert pieces(landed)[1] == ("3-9", "PLANNED", 2)
    assert landed.run().exit_code == 0
    assert audited(landed) == []
    landed.check()


def test_smaller_result_that_was_accepted_stays(landed: World, loss: Loss) -> None:
    """A slice whose second reading brought nothing is committed by its receipts."""
    landed.kafka._topics["orders"].cleanup_policy = "compact"
    landed.kafka.log("orders", 0).remove(range(4))
    for offset in range(4):
        landed.visible[landed.key()].pop(offset)
    landed.reopen(0, 4, accept_fewer=True)
    assert landed.run().exit_code == 0
    loss(landed)
    rebuilt(landed)
    assert pieces(landed) == [("0-4", "COMMITTED", 1), ("4-14", "COMMITTED", 0)]
    landed.check()


def test_second_reading_without_rows_of_a_range_without_rows_is_committed(world: World) -> None:
    """Neither of its waves shows a row: the newer receipt takes the place of what the older ledger knows."""
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    assert world.run().exit_code == 0
    backup = world.ledger.snapshot()
    world.reopen(0, 3)
    assert world.run().exit_code == 0
    world.ledger.restore(backup)
    rebuilt(world)
    assert pieces(world) == [("0-3", "COMMITTED", 1)]
    world.check()


def test_hold_of_a_second_reading_stays_a_hold(landed: World) -> None:
    """A sound ledger that is rebuilt keeps what it knows beyond the lake."""
    landed.reopen(3, 9)
    landed.runner.tamper = lambda rows: rows[1:]
    landed.run()
    (held,) = landed.ledger.ranges(pipeline="orders", states=[RangeState.HELD])
    rebuilt(landed)
    assert landed.ledger.range(held.id) == held
    landed.runner.tamper = lambda rows: rows


def test_table_rolled_back_behind_a_second_reading_is_read_again(landed: World, loss: Loss) -> None:
    """The earlier rows are there once more, and are replaced once more."""
    moment = landed.table.head().snapshot
    assert moment is not None
    landed.reopen(3, 9)
    assert landed.run().exit_code == 0
    visible = landed.offsets()
    landed.table.roll_back(moment)
    loss(landed)
    landed.lease_ends()
    with pytest.raises(IdentityError, match="3-9"):
        rebuild(landed.worker(), landed.spec)
    landed.watermarks.clear()
    rebuilt(landed, accept_rollback=True)
    assert coverage(landed) == [[0, 3], [9, 14]]
    assert landed.run().exit_code == 0
    assert (landed.offsets(), audited(landed)) == (visible, [])
    landed.check()


def test_old_rows_beside_new_ones_are_refused(landed: World) -> None:
    """A person copied the earlier reading back: it must not count as another one."""
    before = [row for row in landed.table.rows() if row.offset == 4]
    landed.reopen(3, 9)
    assert landed.run().exit_code == 0
    landed.table.write_foreign(before)
    assert any("read again" in text for text in audited(landed))
    landed.lease_ends()
    with pytest.raises(IdentityError, match="rows without a receipt"):
        rebuild(landed.worker(), landed.spec)


def test_reopen_of_a_ledger_that_was_lost_meanwhile_tells_the_lake_nothing(landed: World) -> None:
    """A rebuild has moved main since: the decision went with the ledger, and the person who made it is told so."""

    def replaced() -> None:
        lose(landed)
        rebuilt(landed)

    with pytest.raises(LedgerBehindError, match=r"kafka-lake rebuild orders\.toml"):
        landed.reopen(3, 9, worker=landed.worker(Before("table.fence", replaced)))
    assert "reopen" not in {row.kind for row in landed.table.all_receipts()}
    assert (pieces(landed), audited(landed)) == ([("0-14", "COMMITTED", 0)], [])


def test_older_ledger_keeps_a_wave_whose_rows_stay_after_a_later_skip(landed: World) -> None:
    """All of the wave was reopened, then passed unread: its rows stay, and so does the word that it was published."""
    landed.reopen(0, 14)
    assert landed.run().exit_code == 0
    backup = landed.ledger.snapshot()
    landed.reopen(0, 14)
    interval = OffsetRange(0, 14)
    decisions.skip(landed.worker(), "orders", landed.stream(), interval, reason="gone", acknowledge_order=False)
    visible = landed.offsets()
    landed.ledger.restore(backup)
    landed.watermarks.clear()
    rebuilt(landed)
    (attempt,) = {row.attempt for row in landed.table.rows()}
    (record,) = [item for item in landed.ledger._state.attempts.values() if item.attempt == attempt]
    assert (record.outcome, landed.ledger.wave(record.wave).state) == (AttemptOutcome.COMMITTED, WaveState.COMMITTED)
    assert (landed.offsets(), [state for _, state, _ in pieces(landed)]) == (visible, ["SKIPPED"])
    assert landed.run().exit_code == 0
    landed.check()


def test_wave_without_a_committed_range_stays_published(world: World) -> None:
    """One range of it was cancelled, the other one reopened: its rows are there, whatever becomes of the two."""
    world.spec = replace(world.spec, target_range_bytes=1)
    world.produce(2)
    wave, (first, _) = world.planned_wave(), world.ledger.ranges(pipeline="orders")
    decisions.cancel(world.worker(), first.id, "later")
    world.ingest(wave)
    world.reopen(1, 2)
    assert rebuilt(world).waves == 0
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    assert [item.outcome for item in world.ledger.attempts(wave)] == [AttemptOutcome.COMMITTED]


def test_published_wave_is_never_run_again_by_an_older_ledger(world: World) -> None:
    """The ledger knows it as planned; since then one of its ranges was cancelled, and the other published and reopened:
    what is left of it is planned anew, for its wave is in the lake without it."""
    world.spec = replace(world.spec, target_range_bytes=1)
    world.produce(2)
    wave, (first, _) = world.planned_wave(), world.ledger.ranges(pipeline="orders")
    backup = world.ledger.snapshot()
    decisions.cancel(world.worker(), first.id, "later")
    world.ingest(wave)
    world.reopen(1, 2)
    world.ledger.restore(backup)
    world.watermarks.clear()
    rebuilt(world)
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    assert world.run().exit_code == 0
    assert (world.offsets(), audited(world)) == ([0, 1], [])
    world.check()


def test_replaced_rows_that_a_rollback_undid_are_read_again_whatever_clocks_say() -> None:
    """A clock that was set back makes what was undone look older than the history that is left."""
    world = World()
    world.produce(3)
    world.run()
    world.table.expire()
    world.clock.advance(timedelta(minutes=3))
    world.clock.step(-timedelta(minutes=5))
    world.reopen(1, 2)
    world.run()
    before_the_replace = world.table.commits()[-2].snapshot
    world.table.roll_back(before_the_replace)
    with pytest.raises(IdentityError, match="--accept-rollback"):
        rebuild(world.worker(), world.spec)
    rebuild(world.worker(), world.spec, accept_rollback=True)
    world.watermarks.clear()
    world.run()
    world.check()
    assert world.offsets() == [0, 1, 2]


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
def test_log_that_was_cut_is_not_read_again_after_a_rebuild(landed: World, cut: bool) -> None:
    """A restored range knows the leader epoch that it was read under, also what is left of one beside a reopen: other
    records do not take the place of its rows."""
    if cut:
        landed.reopen(0, 2)
        assert landed.run().exit_code == 0
    rows = landed.table.rows()
    landed.kafka.log("orders", 0).truncate(12)
    landed.kafka.produce("orders", 0, *[b"written again"] * 5)
    lose(landed)
    rebuild(landed.worker(), landed.spec)
    with pytest.raises(LogRewrittenError, match="the log was cut at 12"):
        landed.reopen(9, 14)
    assert landed.table.rows() == rows


def test_what_waits_to_be_read_again_is_held_when_the_log_was_cut_before_the_rebuild(landed: World) -> None:
    """Its rows stay, for Kafka has other records at their offsets."""
    landed.reopen(9, 14)
    rows = landed.table.rows()
    landed.kafka.log("orders", 0).truncate(12)
    landed.kafka.produce("orders", 0, *[b"written again"] * 5)
    lose(landed)
    landed.watermarks.clear()
    rebuild(landed.worker(), landed.spec)
    done = landed.run()
    assert done.exit_code == 1
    assert any("LogRewrittenError" in text for text in done.held)
    assert {row.offset: row.value for row in landed.table.rows()} == {row.offset: row.value for row in rows}


def test_reopened_range_that_no_plan_has_weighed_is_weighed_by_kafka(world: World) -> None:
    """The lake tells no weights: after a rebuild, and of a skip, a wave is as heavy as one that was planned."""
    world.produce(10)
    world.plan()
    (planned,) = world.ledger.ranges(pipeline="orders")
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(8, 10), reason="bad", acknowledge_order=True)
    world.run()
    lose(world)
    rebuilt(world)
    world.reopen(0, 10)
    again = world.ledger.ranges(pipeline="orders", states=(RangeState.PLANNED,))
    assert sum(item.estimated_bytes for item in again) == pytest.approx(planned.estimated_bytes, abs=len(again))
    lose(world)
    rebuilt(world)
    again = world.ledger.ranges(pipeline="orders", states=(RangeState.PLANNED,))
    assert sum(item.estimated_bytes for item in again) == pytest.approx(planned.estimated_bytes, abs=len(again))
