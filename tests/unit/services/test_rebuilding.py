"""A ledger that is lost, older, or failed over agrees with the lake again: coverage, watermarks, skips, owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    IdentityError,
    KafkaLakeError,
    LedgerBehindError,
    OwnershipError,
    StaleFenceError,
    StateError,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, Rejected, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.rebuilding import RebuildResult, rebuild
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer, Row
from tests.kit.memory_ledger import MemoryLedger
from tests.world import World

pytestmark = pytest.mark.unit
NEW_LEDGER = "2" * 32
Summary = dict[Stream, tuple[int, int, RangeSet]]


def restored(world: World, worker: Ports | None = None, *, accept_rollback: bool = False) -> RebuildResult:
    """Rebuild the world's pipeline."""
    return rebuild(worker or world.worker(), world.spec, accept_rollback=accept_rollback)


def summary(world: World) -> Summary:
    """Return origin, watermark and coverage of every stream."""
    return {item.key: (item.origin, item.watermark, item.covered) for item in world.ledger.streams("orders")}


def accounting(world: World) -> list[object]:
    """Return what is committed and skipped, with its numbers."""
    found = world.ledger.ranges(pipeline="orders", states=(RangeState.COMMITTED, RangeState.SKIPPED))
    return [(item.stream, item.range, item.state, item.rows, item.first_offset, item.accounting) for item in found]


def lose(world: World, ledger_id: str = NEW_LEDGER) -> None:
    """Start with a fresh ledger."""
    world.ledger = MemoryLedger(world.clock, ledger_id=ledger_id)


@pytest.fixture
def lived(world: World) -> World:
    """A world after two runs, with a hole, a wave without rows, and a skip."""
    world.produce(3)
    world.produce(1, transaction="bad")
    world.end("bad", commit=False)
    assert world.run().exit_code == 0
    world.produce(2, transaction="worse")
    world.end("worse", commit=False)
    assert world.run().exit_code == 0
    world.produce(4)
    decisions.skip(
        world.worker(), "orders", world.stream(), OffsetRange(8, 10), reason="poison", acknowledge_order=False
    )
    assert world.run().exit_code == 0
    return world


def goes_on(world: World, *, reads: int) -> None:
    """See that a later run reads only what is new, and that everything is there once."""
    jobs = len(world.runner.jobs)
    world.produce(reads)
    assert world.run().exit_code == 0
    read = [interval.range.span for job in world.runner.jobs[jobs:] for interval in job.slices]
    assert sum(read) == reads, f"a run after the rebuild read {read}"
    world.check()
    assert [*pipeline_audit.topics_of(world.ledger, world.spec)] == [world.table.identifier], (
        "an audit reads only tables"
    )
    audited = pipeline_audit.audit(world.worker(), world.spec).to_json()
    assert audited["ok"], audited


def test_lost_ledger_is_rebuilt_from_the_lake(lived: World) -> None:
    """The same coverage, watermarks, accounting and skips; the new ledger owns the table; the run goes on."""
    before, numbers = summary(lived), accounting(lived)
    lose(lived)
    with pytest.raises(LedgerBehindError, match=r"rebuild orders\.toml"):
        lived.run()
    done = restored(lived)
    assert (done.waves, done.skips, done.reopened) == (3, 1, ())
    assert (summary(lived), accounting(lived)) == (before, numbers)
    assert set(lived.table.head().owners.values()) == {(NEW_LEDGER, "orders")}
    goes_on(lived, reads=3)


@pytest.mark.parametrize("backup", [False, True], ids=["lost", "older"])
def test_log_that_was_cut_before_the_rebuild_is_a_stop_after_it(world: World, backup: bool) -> None:
    """The receipts know under which leader epoch each range was read: a log that lost its end meanwhile and has grown
    again is told from a restart."""
    world.produce(3)
    assert world.run().exit_code == 0
    older = world.ledger.snapshot()
    world.produce(2)
    assert world.run().exit_code == 0
    world.kafka.log("orders", 0).truncate(4)
    world.kafka.produce("orders", 0, *[b"written again"] * 3)
    if backup:
        world.ledger.restore(older)
    else:
        lose(world)
    restored(world)
    (stop,) = world.plan().blocked
    assert stop.reason.startswith("LogRewrittenError: the log was cut at 4 after leader epoch 0 had reached 5")


def test_restart_before_the_rebuild_is_no_loss_after_it(world: World) -> None:
    """A leader epoch that changed says nothing by itself."""
    world.produce(3)
    assert world.run().exit_code == 0
    world.kafka.log("orders", 0).elect()
    lose(world)
    restored(world)
    goes_on(world, reads=2)


def test_compaction_and_expiry_lose_nothing(lived: World) -> None:
    """Without any token of the old life left, rows and receipts say the same."""
    before, numbers = summary(lived), accounting(lived)
    lived.table.write_foreign()
    lived.table.expire()
    lose(lived)
    restored(lived)
    assert (summary(lived), accounting(lived)) == (before, numbers)
    goes_on(lived, reads=1)


def test_rebuild_twice_changes_nothing_more(lived: World) -> None:
    """Safe to repeat: on a ledger that is right nothing is restored, no watermark moves."""
    before, numbers = summary(lived), accounting(lived)
    lose(lived)
    restored(lived)
    again = restored(lived)
    assert (again.waves, again.ranges, again.reopened, again.moves) == (0, 0, (), ())
    assert (summary(lived), accounting(lived)) == (before, numbers)
    goes_on(lived, reads=1)


def test_sound_ledger_survives_a_rebuild(lived: World) -> None:
    """No person needs to be sure that it is needed; what is planned stays planned."""
    before = summary(lived)
    lived.produce(2)
    wave = lived.planned_wave()
    restored(lived)
    assert summary(lived) == before
    assert lived.ledger.wave(wave).state is WaveState.PLANNED
    goes_on_with = len(lived.runner.jobs)
    assert lived.run().exit_code == 0
    assert len(lived.runner.jobs) == goes_on_with + 1
    lived.check()


def test_origin_is_restored_and_islands_below_it_stay_islands(world: World) -> None:
    """The watermark begins where it began, not at the smallest offset that is there."""
    world.produce(10)
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 6),)))
    world.run()
    world.run(Bounds(start=2, end=4))
    before = summary(world)
    assert before == {world.key(): (6, 10, RangeSet.of((2, 4), (6, 10)))}
    lose(world)
    restored(world)
    assert summary(world) == before


@pytest.mark.parametrize("expired", [False, True])
def test_publish_that_was_never_committed_counts(world: World, expired: bool) -> None:
    """The ledger died between the commit and the commit: the token says so, or the rows when it has expired."""
    world.produce(3)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    if expired:
        world.table.write_foreign()
        world.table.expire()
    lose(world)
    restored(world)
    assert world.stream().watermark == 3
    goes_on(world, reads=1)
    lose(world)
    world.table.expire()
    restored(world)
    assert world.stream().watermark == 4


def test_publish_without_rows_that_was_never_committed_counts(world: World) -> None:
    """Its token is the only witness, and the rebuild leaves another that does not expire."""
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("ledger.record_commit")))
    for _ in range(2):
        lose(world)
        restored(world)
        assert world.stream().watermark == 3
        world.table.write_foreign()
        world.table.expire()
    goes_on(world, reads=1)


def test_origin_is_told_before_the_first_row_is_there(world: World) -> None:
    """Else a rebuild would begin at the rows that it finds, and pass what failed before them unread."""
    world.produce(3)
    with pytest.raises(KilledError):
        world.plan(worker=world.worker(Killed("table.add_receipts")))
    world.produce(2)
    world.ingest(world.planned_wave())
    lose(world)
    restored(world)
    assert (world.stream().origin, world.stream().watermark) == (0, 0)
    assert world.run().exit_code == 0
    world.check()


def test_origin_that_the_lake_does_not_know_is_told_by_a_rebuild(world: World) -> None:
    """The next loss finds it there."""
    world.produce(10)
    world.with_spec(start=Policy(kind=PolicyKind.OFFSETS, offsets=(("orders", 0, 6),)))
    world.run()
    world.run(Bounds(start=2, end=4))
    before, receipts = summary(world), world.table._receipts
    for key in [key for key, row in receipts.items() if row.kind == "origin"]:
        del receipts[key]
    restored(world)
    lose(world)
    restored(world)
    assert summary(world) == before


@pytest.mark.parametrize("told", ["before", "after"])
def test_origin_told_late_by_a_lost_ledger_does_not_count(world: World, told: str) -> None:
    """What another ledger decided since, and read from, is what the next ones go on with."""
    world.produce(4)

    def another_ledger() -> None:
        lose(world)
        restored(world)
        if told == "after":
            decided_anew()

    def decided_anew() -> None:
        world.retain_from(2)
        assert world.run().exit_code == 0

    world.plan(worker=world.worker(Before("ledger.record_plan", another_ledger)))
    if told == "before":
        decided_anew()
    before = summary(world)
    assert (world.stream().origin, world.stream().watermark) == (2, 4)
    for number in "34":
        lose(world, number * 32)
        restored(world)
        assert summary(world) == before, f"ledger {number}"
    goes_on(world, reads=2)


def test_stream_without_any_record_keeps_its_origin(world: World) -> None:
    """A start policy is asked once: what came since the first plan is not passed over."""
    world.plan()
    before = summary(world)
    lose(world)
    restored(world)
    assert summary(world) == before
    goes_on(world, reads=2)


def test_older_backup_learns_how_long_the_log_was(world: World) -> None:
    """What lies below an island that the lake brings back is awaited, and passed by a person once its topic is gone."""
    world.produce(2)
    world.run()
    backup = world.ledger.snapshot()
    world.produce(8)
    world.ingest(world.planned_wave(Bounds(start=6, end=10)))
    world.ledger.restore(backup)
    world.watermarks.clear()
    restored(world)
    old = world.stream()
    assert (old.covered, old.end_seen) == (RangeSet.of((0, 2), (6, 10)), 10)
    world.create("orders")
    world.produce(2)
    (reason,) = world.run().held
    assert "committed only up to 2 of 10" in reason
    decisions.skip(world.worker(), "orders", old, OffsetRange(2, 10), reason="gone", acknowledge_order=True)
    assert world.run().exit_code == 0
    assert world.offsets() == [0, 1]
    world.check()


@pytest.mark.parametrize("moment", range(8))
def test_older_backup_is_brought_up_to_date(world: World, moment: int) -> None:
    """Whatever the backup knows of the waves that came later: nothing, their plan, a cancel, an older cut."""
    backups = []

    def back_up() -> None:
        backups.append(world.ledger.snapshot())

    back_up()
    world.produce(4)
    back_up()
    first = world.planned_wave()
    back_up()
    decisions.cancel(world.worker(), first, "later")
    back_up()
    key = world.stream()
    decisions.skip(world.worker(), "orders", key, OffsetRange(0, 1), reason="poison", acknowledge_order=False)
    back_up()
    decisions.release(world.worker(), first, None)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("ledger.mark_publishing")))
    back_up()
    world.lease_ends()
    assert world.run().exit_code == 0
    back_up()
    world.produce(2)
    assert world.run().exit_code == 0
    back_up()
    before, numbers = summary(world), accounting(world)
    world.ledger.restore(backups[moment])
    world.watermarks.clear()
    world.lease_ends()
    if moment < 7:
        with pytest.raises(LedgerBehindError):
            world.plan()
    restored(world)
    assert (summary(world), accounting(world)) == (before, numbers)
    goes_on(world, reads=2)


def test_fences_of_the_old_life_are_not_reused(world: World) -> None:
    """A wave that the backup knows as never claimed was claimed since: its next fence is above."""
    world.produce(2)
    wave = world.planned_wave()
    backup = world.ledger.snapshot()
    for _ in range(2):
        with pytest.raises(KilledError):
            world.ingest(wave, world.worker(Killed("ledger.mark_publishing")))
        world.table.drop(world.ledger.attempts(wave)[-1].attempt)
        world.lease_ends()
    world.ledger.restore(backup)
    restored(world)
    assert world.ledger.wave(wave).fence == 2
    assert world.run().exit_code == 0
    assert [item.fence for item in world.ledger.attempts(wave)] == [3]
    world.check()


def test_fence_that_the_older_ledger_gave_out_again_stays_its_own(world: World) -> None:
    """A claim made between restore and rebuild has the fence of the attempt in the lake: the lake's keeps it."""
    world.produce(2)
    wave = world.planned_wave()
    backup = world.ledger.snapshot()
    world.ingest(wave)
    world.ledger.restore(backup)
    with pytest.raises(LedgerBehindError):
        world.ingest(wave)
    restored(world)
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    assert [item.outcome for item in world.ledger.attempts(wave)] == [AttemptOutcome.COMMITTED, AttemptOutcome.FAILED]
    assert pipeline_audit.audit(world.worker(), world.spec).to_json()["problems"] == []
    goes_on(world, reads=1)


# Rolled back, re-created, contradicting


def test_rolled_back_lake_is_refused_and_read_again_when_accepted(world: World) -> None:
    """Exactly what vanished is reopened: the watermark falls back there, the next run reads it, and no more."""
    world.produce(3)
    world.run()
    kept = world.table.head().snapshot
    world.produce(2)
    world.run()
    assert kept is not None
    world.table.roll_back(kept)
    before = summary(world)
    with pytest.raises(
        IdentityError, match=r"raw.orders: orders/0 3-5: its rows are gone .*0 rows of 2.*accept-rollback"
    ):
        restored(world)
    assert summary(world) == before
    done = restored(world, accept_rollback=True)
    assert [item.range for item in done.reopened] == [OffsetRange(3, 5)]
    assert world.stream().watermark == 3
    assert any(event.kind == "rebuild" and "reopened" in event.detail for event in world.ledger.events("orders"))
    world.watermarks.clear()
    assert world.run().exit_code == 0
    assert [interval.range for interval in world.runner.jobs[-1].slices] == [OffsetRange(3, 5)]
    world.check()
    assert restored(world).reopened == ()


def test_rows_that_came_back_with_another_commit_stop_nothing_after_a_rebuild(world: World) -> None:
    """Main rolled back to before a foreign commit, and what was published after it cherry-picked: nothing vanished, and
    what was committed is not looked for on the commits that main has left."""
    world.produce(3)
    world.run()
    kept = world.table.head().snapshot
    world.table.write_foreign()
    world.produce(2)
    world.run()
    picked = [row for row in world.table.rows() if row.offset >= 3]
    assert kept is not None
    world.table.roll_back(kept)
    world.table.write_foreign(picked)
    with pytest.raises(IdentityError, match="rolled back"):
        world.plan()
    done = restored(world)
    assert (done.waves, done.reopened, done.deleted) == (0, (), ())
    goes_on(world, reads=2)
    world.table.roll_back(kept)
    with pytest.raises(IdentityError, match="rolled back"):
        world.plan()


def test_what_was_accepted_is_not_asked_again(world: World) -> None:
    """The acceptance is in the lake: a ledger lost afterwards, or restored from before, knows it from there."""
    world.produce(3)
    world.plan()
    before = world.table.head().snapshot
    assert before is not None
    world.run()
    backup = world.ledger.snapshot()
    world.table.roll_back(before)
    restored(world, accept_rollback=True)
    world.watermarks.clear()
    assert world.run().exit_code == 0
    expected = summary(world)
    world.ledger.restore(backup)
    restored(world)
    assert summary(world) == expected
    world.check()
    lose(world)
    restored(world)
    assert summary(world) == expected


@pytest.mark.parametrize("lost", [False, True])
def test_recreated_table_is_refused_and_filled_again_when_accepted(lived: World, lost: bool) -> None:
    """All rows are gone; what never had rows needs no reading again."""
    if lost:
        lose(lived)
    lived.table.recreate()
    with pytest.raises(IdentityError, match="accept-rollback"):
        restored(lived)
    done = restored(lived, accept_rollback=True)
    assert sum(item.expected for item in done.reopened) == 5
    lived.watermarks.clear()
    assert lived.run().exit_code == 0
    lived.check()
    assert lived.offsets() == sorted(set(lived.visible[lived.key()]) - {8, 9})


def test_recreated_table_without_any_loss_is_refused_too(world: World) -> None:
    """Another table is another table; once accepted, its UUID is the recorded one."""
    world.plan()
    world.table.recreate()
    with pytest.raises(IdentityError, match="re-created"):
        restored(world)
    assert restored(world, accept_rollback=True).reopened == ()
    goes_on(world, reads=2)


def test_dropped_table_is_refused_and_created_when_accepted(lived: World) -> None:
    """A table that is gone took its rows with it."""
    lived.table._store = None
    with pytest.raises(IdentityError, match="is gone"):
        restored(lived)
    assert lived.table._store is None
    restored(lived, accept_rollback=True)
    lived.watermarks.clear()
    assert lived.run().exit_code == 0
    lived.check()


@pytest.mark.parametrize("accept_rollback", [False, True])
@pytest.mark.parametrize("loss", ["lost", "known"])
@pytest.mark.parametrize("left", [0, 1])
def test_rows_that_others_deleted_stay_committed(lived: World, loss: str, accept_rollback: bool, left: int) -> None:
    """Main stands on the commits that brought them: nothing is read again, however many rows are gone."""
    before = summary(lived), accounting(lived)
    lived.table.delete_foreign(lambda row: row.offset >= left)
    if loss == "lost":
        lose(lived)
    done = restored(lived, accept_rollback=accept_rollback)
    assert (done.reopened, sum(item.expected - item.found for item in done.deleted)) == ((), 5 - left)
    assert (summary(lived), accounting(lived)) == before
    assert restored(lived).waves == 0
    assert lived.run().exit_code == 0
    assert lived.offsets() == list(range(left))


def test_rows_whose_commit_can_have_expired_were_deleted(world: World) -> None:
    """Its commit is older than the oldest commit that is left: that no row is left of it is no roll-back."""
    world.produce(3)
    assert world.run().exit_code == 0
    world.clock.advance(timedelta(hours=1))
    world.table.delete_foreign(lambda _: True)
    world.table.expire()
    lose(world)
    assert [item.range for item in restored(world).deleted] == [OffsetRange(0, 3)]
    assert world.stream().watermark == 3


def test_rows_younger_than_what_is_left_of_the_history_were_rolled_back(world: World) -> None:
    """Their commit cannot have expired from main: it is refused, and read again when that is accepted, also where the
    commit that was left has expired since."""
    world.produce(3)
    assert world.run().exit_code == 0
    kept = world.table.write_foreign()
    world.table.expire()
    world.clock.advance(timedelta(hours=1))
    world.produce(2)
    assert world.run().exit_code == 0
    world.table.roll_back(kept)
    world.table.expire()
    lose(world)
    with pytest.raises(IdentityError, match="orders/0 3-5: its rows are gone"):
        restored(world)
    assert [item.range for item in restored(world, accept_rollback=True).reopened] == [OffsetRange(3, 5)]


@pytest.mark.parametrize("ledger", ["there", "lost"])
def test_clock_that_was_set_back_makes_no_roll_back_a_deletion(world: World, ledger: str) -> None:
    """The publish whose commit is older than all of the history that is left lies beside main: it was left."""
    world.produce(3)
    assert world.run().exit_code == 0
    kept = world.table.write_foreign()
    world.table.expire()
    world.clock.step(timedelta(seconds=-90))
    world.produce(2)
    assert world.run().exit_code == 0
    world.table.write_foreign()
    world.table.roll_back(kept)
    if ledger == "lost":
        lose(world)
    with pytest.raises(IdentityError, match="orders/0 3-5: its rows are gone"):
        restored(world)
    done = restored(world, accept_rollback=True)
    assert ([item.range for item in done.reopened], done.deleted) == ([OffsetRange(3, 5)], ())
    world.watermarks.clear()
    assert world.run().exit_code == 0
    world.check()


def test_clock_that_was_set_back_gives_no_reading_that_was_undone(world: World) -> None:
    """What was read again, and rolled back, is to be read again: rows of the earlier reading do not get in its way."""
    world.produce(6)
    assert world.run().exit_code == 0
    kept = world.table.head().snapshot
    assert kept is not None
    world.table.expire()
    world.reopen(2, 4)
    world.clock.step(timedelta(seconds=-90))
    assert world.run().exit_code == 0
    world.table.roll_back(kept)
    assert [item.range for item in restored(world, accept_rollback=True).reopened] == [OffsetRange(2, 4)]
    assert world.run().exit_code == 0
    world.check()


def test_rows_that_are_there_twice_are_refused(lived: World) -> None:
    """Nothing is committed over duplicates."""
    row = lived.table.rows()[0]
    lived.table.write_foreign([row])
    own = sum(item.attempt == row.attempt for item in lived.table.rows()) - 1
    with pytest.raises(IdentityError, match=rf"there twice \(attempt {row.attempt}: {own + 1} rows of {own}\)"):
        restored(lived)


def test_rows_without_a_receipt_are_refused(lived: World) -> None:
    """Rows that name an attempt without a receipt are not accounted for."""
    lived.table.write_foreign([replace(lived.table.rows()[0], attempt="9" * 16, offset=99)])
    with pytest.raises(IdentityError, match="rows without a receipt"):
        restored(lived)


@pytest.mark.parametrize("ledger", ["known", "lost"])
def test_offsets_that_two_attempts_claim_are_refused(lived: World, ledger: str) -> None:
    """No offset is committed twice, whatever receipts progress: a person finds out who is right."""
    row = next(row for row in lived.table.all_receipts() if row.kind == "published" and row.rows)
    control = Accounting(control=row.range.span)
    other = replace(row, wave="w", attempt="8" * 16, rows=0, first_offset=None, last_offset=None, accounting=control)
    lived.table.add_receipts([other])
    if ledger == "lost":
        lose(lived)
    with pytest.raises(IdentityError, match="committed by"):
        restored(lived)


def test_topic_of_another_pipeline_is_not_taken(lived: World) -> None:
    """What another pipeline owns by now is its own."""
    store = lived.table._store
    assert store is not None
    store.owners = {lived.topic_ids["orders"]: (NEW_LEDGER, "copies")}
    with pytest.raises(OwnershipError, match="belongs to pipeline copies"):
        restored(lived)
    assert set(lived.table.head().owners.values()) == {(NEW_LEDGER, "copies")}


def test_topics_that_a_pipeline_of_this_name_had_in_another_ledger_stay_theirs(lived: World) -> None:
    """Their receipts are in the table too: a pipeline restores the topics that it names, and takes no others."""
    mine, spec = lived.ledger, lived.spec
    lose(lived)
    lived.create("payments")
    lived.with_spec(topics=("payments",))
    lived.produce(2, topic="payments")
    assert lived.run().exit_code == 0
    owners = lived.table.head().owners
    lived.ledger = mine
    lived.with_spec(topics=spec.topics)
    before = summary(lived)
    restored(lived)
    assert summary(lived) == before
    assert lived.table.head().owners == owners


def test_rows_of_a_pipelines_other_tables_are_not_missed(world: World) -> None:
    """Each table is compared with what the ledger has committed in that one."""
    world.with_spec(topics=("orders", "payments"), table="raw.{topic}")
    world.create("payments")
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    assert world.run().exit_code == 0
    before = accounting(world)
    done = restored(world)
    assert (done.waves, done.reopened, done.deleted) == (0, (), ())
    assert accounting(world) == before
    assert len(before) == 2


def test_tables_behind_a_pattern_are_found_without_the_ledger(world: World) -> None:
    """A lost ledger names neither topics nor tables: Kafka names the topics, and they the tables."""
    world.with_spec(topics=(), topic_pattern="orders|pay.*", table="raw.{topic}")
    world.create("payments")
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    assert world.run().exit_code == 0
    before = accounting(world)
    lose(world)
    assert restored(world).waves == 2
    assert accounting(world) == before


def test_rows_of_others_do_not_disturb(lived: World) -> None:
    """Other pipelines and writers share the table."""
    before = summary(lived)
    lived.table.write_foreign([Row(topic="x", topic_id="x", partition=0, offset=0, key=None, value=None, attempt="")])
    lose(lived)
    restored(lived)
    assert summary(lived) == before


def test_pipeline_of_the_same_topics_but_another_name_is_refused(lived: World) -> None:
    """The owner of a topic changes from a lost ledger to the next one, not from one pipeline to another."""
    lived.with_spec(name="copies")
    with pytest.raises((OwnershipError, LedgerBehindError)):
        lived.plan()
    with pytest.raises(StateError, match="nothing of pipeline copies is in the lake"):
        restored(lived)
    assert set(lived.table.head().owners.values()) == {(lived.ledger.ledger_id(), "orders")}


# Others at work, and being killed


def test_rebuild_waits_for_a_living_worker(world: World) -> None:
    """A live lease is not taken over; after it has ended, or its holder has died, the wave is taken."""
    world.produce(2)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.mark_publishing")))
    with pytest.raises(ConcurrentError):
        restored(world)
    world.lease_ends()
    restored(world)
    assert world.run().exit_code == 0
    world.check()


def test_wave_that_ends_while_a_rebuild_begins_does_not_stop_it(world: World) -> None:
    """A worker commits what the rebuild has listed as open: there is nothing to take over, and nothing is refused."""
    world.produce(3)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("ledger.record_commit")))
    world.lease_ends()
    restored(world, world.worker(Before("ledger.claim", world.recover)))
    assert world.stream().watermark == 3
    goes_on(world, reads=2)


def calls_of(world: World) -> int:
    """Return how many calls a rebuild of a lost ledger makes."""
    calls = Calls()
    restored(world, world.worker(calls))
    return len(calls.made)


@pytest.mark.parametrize("loss", ["lost", "older"])
def test_rebuild_is_killed_before_each_call(loss: str) -> None:
    """Whenever it dies, plans are refused or right, and the next rebuild ends it."""

    def prepared() -> World:
        world = World()
        world.produce(3)
        world.run()
        backup = world.ledger.snapshot()
        world.produce(2)
        wave = world.planned_wave()
        claimed = world.ledger.snapshot()
        world.ingest(wave)
        world.advance()
        if loss == "lost":
            lose(world)
        else:
            world.ledger.restore(claimed if wave else backup)
        world.watermarks.clear()
        return world

    total = calls_of(prepared())
    assert total > 8
    for nth in range(1, total + 1):
        world = prepared()
        with pytest.raises(KilledError):
            restored(world, world.worker(Killed(nth=nth)))
        world.lease_ends()
        try:
            world.plan()
        except LedgerBehindError:
            restored(world)
        assert world.run().exit_code == 0
        world.check()
        assert world.offsets() == [0, 1, 2, 3, 4]
        assert len(world.runner.jobs) == 2, f"killed before call {nth}, records were read again"


@pytest.mark.parametrize("wakes", ["first", "after a run"])
@pytest.mark.parametrize("loss", ["lost", "older"])
def test_publisher_of_the_old_life_is_stopped(loss: str, wakes: str) -> None:
    """A worker that slept between its last check and its commit wakes after the rebuild: nothing of it is published."""
    world = World()
    world.produce(3)
    wave = world.planned_wave()
    backup = world.ledger.snapshot()
    old = world.ledger

    def rebuilt_meanwhile() -> None:
        world.lease_ends()
        if loss == "lost":
            lose(world)
        else:
            world.ledger.restore(backup)
        restored(world)
        assert wakes == "first" or world.run().exit_code == 0

    outcomes: list[object] = []
    sleeper = world.worker(Before("table.publish", rebuilt_meanwhile))
    publish = world.table.publish
    world.table.publish = lambda asked, _: outcomes.append(publish(asked)) or outcomes[-1]  # type: ignore[method-assign,func-returns-value,assignment,return-value]
    with pytest.raises(KafkaLakeError) as stopped:
        world.ingest(wave, sleeper)
    assert isinstance(stopped.value, (LedgerBehindError, StaleFenceError)), stopped.value
    assert any(isinstance(item, Rejected) for item in outcomes)
    assert (old is world.ledger) == (loss == "older")
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets() == [0, 1, 2]


@pytest.mark.parametrize("loss", ["lost", "older", "none"])
def test_commit_of_the_old_life_stays_stopped_when_main_is_rolled_back(loss: str) -> None:
    """It was sent before the rebuild, and main is the head again that it was sent for; others' branches stay."""
    world = World()
    world.produce(3)
    wave = world.planned_wave()
    looked_at = world.table.head().snapshot
    assert looked_at is not None
    backup = world.ledger.snapshot()
    dying = Killed("table.find_commit", nth=3)
    losing = Before("table.publish", lambda: setattr(world.table, "next_answer", Answer.LATE))

    def doomed(call: str) -> None:
        dying(call)
        losing(call)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(doomed))
    (mine,) = world.table.branches()
    (said,) = world.table.receipts(mine)
    world.table.stage("b" * 16, [])
    world.table.add_receipts(
        [
            replace(
                said,
                attempt="b" * 16,
                pipeline="payments",
                slice=Slice(said.stream._replace(topic_id="other"), said.range),
            )
        ]
    )
    world.lease_ends()
    if loss == "lost":
        lose(world)
    elif loss == "older":
        world.ledger.restore(backup)
    restored(world)
    assert world.table.branches() == ("b" * 16,)
    world.table.roll_back(looked_at)
    assert isinstance(world.table.land_late(), Rejected)
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets() == [0, 1, 2]


def test_sleeper_of_the_old_life_without_rows_is_stopped(world: World) -> None:
    """The new life read its range too, and history has expired: what the sleeper staged was never published."""
    world.produce(1)
    world.run()
    world.produce(3, transaction="bad")
    world.end("bad", commit=False)
    wave = world.planned_wave()

    def rebuilt_meanwhile() -> None:
        lose(world)
        restored(world)
        assert world.run().exit_code == 0
        world.table.expire()

    with pytest.raises(KafkaLakeError) as stopped:
        world.ingest(wave, world.worker(Before("runner.stage", rebuilt_meanwhile)))
    assert isinstance(stopped.value, LedgerBehindError), stopped.value
    lose(world)
    restored(world)
    goes_on(world, reads=1)


@pytest.mark.parametrize("answer", [Answer.LOST, Answer.LOST_LANDED, Answer.LATE])
def test_lost_answer_of_the_rebuilds_commit_is_committed_by_looking(lived: World, answer: Answer) -> None:
    """Landed or not, once or never: the rebuild goes on when main has moved."""
    before = summary(lived)
    lose(lived)
    lived.table.next_answer = answer
    restored(lived)
    assert summary(lived) == before
    late = lived.table.land_late()
    assert late is None or isinstance(late, Rejected)
    goes_on(lived, reads=1)


@pytest.mark.parametrize("ledger", ["same", "new"])
def test_publish_between_rows_and_receipts_is_no_rollback(world: World, ledger: str) -> None:
    """Another rebuild, into this ledger or a new one, and then a wave: the receipts of that wave blame no ledger."""
    world.produce(3)
    world.run()
    world.produce(2)

    def others() -> None:
        if ledger == "new":
            lose(world)
        restored(world)
        assert world.run().exit_code == 0

    with pytest.raises(ConcurrentError, match="run kafka-lake rebuild again"):
        restored(world, world.worker(Before("table.all_receipts", others, nth=4)))
    restored(world)
    goes_on(world, reads=1)


CHANGES: dict[str, Callable[[World], object]] = {
    "skip": lambda world: decisions.skip(
        world.worker(), "orders", world.stream(), OffsetRange(3, 4), reason="poison", acknowledge_order=False
    ),
    "rebuild": restored,
}


@pytest.fixture
def with_a_plan(world: World) -> World:
    """Three records in the lake, and two that are planned."""
    world.produce(3)
    world.run()
    world.produce(2)
    world.plan()
    return world


@pytest.mark.parametrize("change", CHANGES)
def test_decisions_made_meanwhile_are_not_overwritten(with_a_plan: World, change: str) -> None:
    """A rebuild that has read older records than there are gives up, and succeeds when repeated."""
    world = with_a_plan
    with pytest.raises(ConcurrentError):
        restored(world, world.worker(Before("ledger.restore", lambda: CHANGES[change](world))))
    restored(world)
    assert world.run().exit_code == 0
    world.check()


def test_nothing_is_planned_during_a_rebuild(with_a_plan: World) -> None:
    """The ledger does not know main's newest commit, which is the rebuild's: a planner is refused, the rebuild ends."""
    world = with_a_plan

    def plan() -> None:
        with pytest.raises(LedgerBehindError):
            world.plan()

    restored(world, world.worker(Before("ledger.restore", plan)))
    assert world.run().exit_code == 0
    world.check()


def test_rows_that_land_while_a_rebuild_looks_are_read_again(world: World) -> None:
    """What was read before main was moved counts only where nothing came in between: here a wave of the old ledger."""
    world.produce(3)
    world.run()
    old = world.ledger
    lose(world)
    new = world.ledger

    def lands() -> None:
        world.ledger = old
        world.produce(2)
        assert world.run().exit_code == 0
        world.ledger = new

    done = restored(world, world.worker(Before("table.fence", lands)))
    assert (done.ranges, done.deleted) == (2, ())
    goes_on(world, reads=1)


def test_refused_rebuild_has_moved_nothing(lived: World) -> None:
    """It compares before it writes: main, its owner and every branch stay as they are."""
    lived.table.write_foreign([replace(lived.table.rows()[0], attempt="0" * 16)])
    head = lived.table.head()
    with pytest.raises(IdentityError, match="Nothing was restored"):
        restored(lived)
    assert lived.table.head() == head


@pytest.mark.parametrize("loss", ["none", "lost"])
def test_topic_that_came_to_be_owned_meanwhile_is_read_too(loss: str) -> None:
    """Re-created and planned between first look and fence: its rows are read, its owner changes."""
    world = World()
    world.produce(3)
    world.run()
    old = world.ledger
    if loss == "lost":
        lose(world)
    new = world.ledger

    def recreated() -> None:
        world.ledger = old
        world.create("orders")
        world.produce(2)
        assert world.run().exit_code == 0
        world.ledger = new

    worker = world.worker(Before("table.fence", recreated))
    if loss == "none":
        with pytest.raises(ConcurrentError):
            restored(world, worker)
    else:
        assert restored(world, worker).ranges == 2
    restored(world)
    assert set(world.table.head().owners.values()) == {(world.ledger.ledger_id(), "orders")}
    goes_on(world, reads=1)
