"""What was staged and audited is published by the worker that claims the wave next, instead of being staged again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_kafka_lake.core.audit.check import check
from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    ConcurrentError,
    IdentityError,
    KafkaLakeError,
    LedgerBehindError,
    StaleFenceError,
    StateError,
    UnavailableError,
    UnknownOutcomeError,
)
from airflow_kafka_lake.core.ledger.attempts import EndAttempt
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.records import RangeDecision
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, Requirement, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.services import attempt_audit, decisions, pipeline_audit, rebuilding
from airflow_kafka_lake.services.recovery import revoke
from tests import truth
from tests.gates import Before, Calls, Killed, KilledError, Passing
from tests.kit.memory_lake import Answer, Row
from tests.kit.memory_ledger import MemoryLedger
from tests.world import World

pytestmark = pytest.mark.unit
FOREIGN = Row(topic="other", topic_id="other", partition=0, offset=0, key=None, value=None, attempt="")
AUDITED = ["table.add_receipts", "ledger.mark_publishing", "table.publish", "ledger.record_commit"]
"""Where a worker can die with something that is staged and audited."""


@pytest.fixture
def world() -> World:
    """Two partitions: records, and an aborted transaction, whose markers only Kafka can explain."""
    made = World(partitions=2)
    made.produce(3)
    made.produce(2, transaction="bad")
    made.end("bad", commit=False)
    made.produce(2)
    made.produce(3, 1)
    return made


@pytest.fixture
def wave(world: World) -> str:
    """The wave of all that."""
    return world.planned_wave()


def dies(world: World, wave: str, call: str, *, nth: int = 1) -> str:
    """Let a worker die before a call; return its attempt."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed(call, nth=nth)))
    world.lease_ends()
    return world.ledger.attempts(wave)[-1].attempt


def failing(call: str, error: KafkaLakeError) -> Passing:
    """Let every call of a name fail."""

    def passing(name: str) -> None:
        if name == call:
            raise error

    return passing


def came_right(world: World, wave: str, attempt: str, *, jobs: int = 1) -> None:
    """See that the rows of an attempt are in the lake, once, and that no more jobs were run than that."""
    world.advance()
    world.check()
    assert {row.attempt for row in world.table.rows()} - {""} == {attempt}
    assert (world.offsets(), world.offsets(1)) == ([0, 1, 2, 6, 7], [0, 1, 2])
    assert len(world.runner.jobs) == jobs
    assert world.ledger.wave(wave).state is WaveState.COMMITTED
    outcomes = {item.attempt: item.outcome for item in world.ledger.attempts(wave)}
    assert outcomes.pop(attempt) is AttemptOutcome.COMMITTED
    assert AttemptOutcome.COMMITTED not in outcomes.values()
    world.recover()
    assert world.table.branches() == ()


@pytest.mark.parametrize("call", AUDITED[:-1])
def test_what_a_dead_worker_has_audited_is_published_without_a_job(world: World, wave: str, call: str) -> None:
    """Its rows are proven and invisible: the next run publishes them in its name."""
    attempt = dies(world, wave, call)
    assert world.run().exit_code == 0
    came_right(world, wave, attempt)
    assert any(f"goes on with what attempt {attempt} has staged: no job is run" in text for text in world.said)


def test_lost_contention_costs_no_second_job(world: World, wave: str) -> None:
    """Receipts that could not be written among others' leave a finished job, and it is used."""
    with pytest.raises(ConcurrentError):
        world.ingest(wave, world.worker(failing("table.add_receipts", ConcurrentError("others were faster"))))
    attempt = world.ledger.attempts(wave)[0].attempt
    assert world.recover().swept.dropped == ()
    assert world.run().exit_code == 0
    came_right(world, wave, attempt)


def lake_fails_after_the_audit(world: World, wave: str) -> str:
    """Let an attempt fail that has staged and audited, and sent nothing; return it."""
    with pytest.raises(UnavailableError):
        world.ingest(wave, world.worker(failing("table.add_receipts", UnavailableError("no answer came"))))
    (failed,) = world.ledger.attempts(wave)
    assert failed.outcome is AttemptOutcome.FAILED
    return failed.attempt


def lands_in_the_hands_of_the_next(world: World, wave: str) -> None:
    """Let a second worker publish what the one that failed has staged, and die before it is on record."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("ledger.record_commit")))
    failed, later = world.ledger.attempts(wave)
    assert (failed.outcome, later.outcome) == (AttemptOutcome.FAILED, AttemptOutcome.STAGED)
    assert {row.attempt for row in world.table.rows()} - {""} == {failed.attempt}


def cancel_what_has_landed(world: World, wave: str) -> None:
    """Try to take the wave away from under it."""
    with pytest.raises(StateError, match="published"):
        decisions.cancel(world.worker(), wave, "not now")


@pytest.mark.parametrize("then", [World.recover, World.run, World.ingest, cancel_what_has_landed])
def test_what_has_failed_is_looked_for_like_any_other(world: World, wave: str, then: Callable[..., object]) -> None:
    """A later worker may have published it: what the ledger calls it says how its own work ended, and decides
    nothing."""
    attempt = lake_fails_after_the_audit(world, wave)
    lands_in_the_hands_of_the_next(world, wave)
    truth.check_always(world)
    assert check(pipeline_audit.gather_audit(world.ledger, world.lake, world.spec)) == ()
    world.lease_ends()
    then(world) if then in (World.recover, World.run) else then(world, wave)
    came_right(world, wave, attempt)


def test_none_that_may_have_sent_it_is_not_enough(world: World, wave: str) -> None:
    """The simulation's own judgement: rows are there, and each attempt is said to have sent nothing."""
    lake_fails_after_the_audit(world, wave)
    lands_in_the_hands_of_the_next(world, wave)
    key = world.ledger.attempts(wave)[-1].key
    world.ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error=None))
    with pytest.raises(AssertionError, match="not sent, and visible"):
        truth.check_always(world)


@pytest.mark.parametrize("answer", [Answer.LOST, Answer.LATE])
def test_lost_publish_costs_no_second_job(world: World, wave: str, answer: Answer) -> None:
    """An answer that stays lost leaves what was sent: the next run sends it again, if a look finds nothing of it."""

    def lost(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = answer

    with pytest.raises(UnknownOutcomeError):
        world.ingest(wave, world.worker(lost))
    assert world.run().exit_code == 0
    world.table.land_late()
    came_right(world, wave, world.ledger.attempts(wave)[0].attempt)


@pytest.mark.parametrize("call", ["ledger.mark_publishing", "ledger.record_commit"])
def test_ledger_that_does_not_answer_after_the_audit_costs_no_second_job(world: World, wave: str, call: str) -> None:
    """Before the commit and after it: what is in the lake is adopted, what is staged is published."""
    with pytest.raises((UnavailableError, UnknownOutcomeError)):
        world.ingest(wave, world.worker(failing(call, UnavailableError("no answer came"))))
    assert world.run().exit_code == 0
    came_right(world, wave, world.ledger.attempts(wave)[0].attempt)


def test_the_third_goes_on_with_what_the_first_has_staged(world: World, wave: str) -> None:
    """However many die over the publish, one job is run."""
    attempt = dies(world, wave, "table.add_receipts")
    for call in ("table.add_receipts", "ledger.mark_publishing", "table.publish"):
        dies(world, wave, call)
    assert world.run().exit_code == 0
    came_right(world, wave, attempt)


@pytest.mark.parametrize(
    ("call", "nth"),
    [
        ("ledger.claim", 1),
        ("table.find_commit", 1),
        ("table.staged", 1),
        ("ledger.mark_staged", 1),
        ("table.find_commit", 2),
        ("table.publish", 1),
    ],
)
def test_commit_of_the_first_that_lands_under_the_hands_of_the_second_is_one(
    world: World, wave: str, call: str, nth: int
) -> None:
    """Both make the same commit on the same branch: the late one finds it, and commits from the same receipts. One that
    lands after the look, and before the branch is read, costs a job whose rows no reader sees."""

    def late(name: str) -> None:
        if name == "table.publish":
            world.table.next_answer = Answer.LATE

    doomed = Killed("table.find_commit", nth=3)

    def passing(name: str) -> None:
        doomed(name)
        late(name)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(passing))
    world.lease_ends()
    attempt = world.ledger.attempts(wave)[0].attempt
    world.ingest(wave, world.worker(Before(call, world.table.land_late, nth=nth)))
    world.table.land_late()
    came_right(world, wave, attempt, jobs=2 if call == "table.staged" else 1)


@pytest.mark.parametrize(
    "call", ["table.add_receipts", "ledger.mark_publishing", "table.publish", "ledger.record_commit"]
)
def test_worker_believed_dead_that_publishes_beside_its_successor(world: World, wave: str, call: str) -> None:
    """Two that live and publish the same branch, in either order: one commit; the ledger believes the later one."""
    done = []

    def other() -> None:
        world.lease_ends()
        done.append(world.ingest(wave))

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before(call, other)))
    assert [item.state for item in done] == [WaveState.COMMITTED]
    came_right(world, wave, world.ledger.attempts(wave)[0].attempt)


@pytest.mark.parametrize("call", ["ledger.renew", "ledger.mark_staged", "ledger.mark_publishing", "table.publish"])
def test_successor_that_is_overtaken_publishes_nothing_more(world: World, wave: str, call: str) -> None:
    """It goes on under its own lease: once another has the wave, the ledger refuses it."""
    attempt = dies(world, wave, "table.publish")

    def other() -> None:
        world.lease_ends()
        world.ingest(wave)

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before(call, other)))
    came_right(world, wave, attempt)


def test_lease_is_renewed_before_what_was_staged_is_proven_again(world: World, wave: str) -> None:
    """Reading what is staged may take long: a worker that does so still holds the wave when it asks Kafka."""
    dies(world, wave, "table.add_receipts")
    calls = Calls()
    world.ingest(wave, world.worker(calls))
    assert calls.made.index("ledger.renew") < calls.made.index("table.staged")


def test_receipts_prove_what_kafka_has_deleted_since(world: World, wave: str) -> None:
    """The audit was complete when they were written: no markers are needed any more, nor the topic."""
    attempt = dies(world, wave, "ledger.mark_publishing")
    world.retain_from(8)
    assert world.ingest(wave).state is WaveState.COMMITTED
    came_right(world, wave, attempt)


def test_without_receipts_it_is_audited_again(world: World, wave: str) -> None:
    """What the ledger calls audited has left no numbers yet: Kafka is asked again, and its answer counts."""
    dies(world, wave, "table.add_receipts")
    calls = Calls()
    world.ingest(wave, world.worker(calls))
    assert calls.made.count("batches.explain") == 1
    assert world.ledger.ranges(wave=wave)[0].accounting.aborted == 2  # type: ignore[union-attr]


def cancel_the_other_partition(world: World, wave: str) -> None:
    """Take a whole range away."""
    (other,) = [item for item in world.ledger.ranges(wave=wave) if item.stream.partition == 1]
    decisions.cancel(world.worker(), other.id, "not now")


def skip_a_record(world: World, wave: str) -> None:
    """Take the middle of a range away."""
    poison = OffsetRange(1, 2)
    decisions.skip(world.worker(), "orders", world.stream(1), poison, reason="poison", acknowledge_order=False)


@pytest.mark.parametrize("call", ["table.add_receipts", "ledger.mark_publishing"])
@pytest.mark.parametrize("revoke", [cancel_the_other_partition, skip_a_record])
def test_what_was_taken_away_since_is_not_published(
    world: World, wave: str, call: str, revoke: Callable[[World, str], None]
) -> None:
    """Not even by a branch that came back with older metadata: the ranges are what the wave has now."""
    attempt = dies(world, wave, call)
    before = world.table.metadata()
    revoke(world, wave)
    assert world.table.branches() == ()
    world.table.set_back(before)
    assert world.table.branches() == (attempt,)
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert world.offsets(1) == ([] if revoke is cancel_the_other_partition else [0, 2])
    assert len(world.runner.jobs) == 2
    assert any("is dropped" in text for text in world.said)
    assert world.table.branches() == ()


def test_branch_that_is_not_what_was_audited_is_not_used(world: World, wave: str) -> None:
    """Only that very snapshot: another one may say the same and is not what receipts and publishers speak of."""
    attempt = dies(world, wave, "table.publish")
    store = world.table._store
    store.add(branch_of(attempt), store.commits[store.refs[branch_of(attempt)]].added)
    assert world.run().exit_code == 0
    came_right(world, wave, world.ledger.attempts(wave)[-1].attempt, jobs=2)


def test_what_was_not_audited_is_staged_again(world: World, wave: str) -> None:
    """A branch is complete when an audit says so."""
    dies(world, wave, "ledger.mark_staged")
    assert world.run().exit_code == 0
    came_right(world, wave, world.ledger.attempts(wave)[-1].attempt, jobs=2)


def test_damaged_file_is_staged_again(world: World, wave: str) -> None:
    """Every file is opened again."""
    world.table.damage(dies(world, wave, "table.publish"))
    assert world.run().exit_code == 0
    came_right(world, wave, world.ledger.attempts(wave)[-1].attempt, jobs=2)


@pytest.mark.parametrize("requirement", [Requirement.SPEC, Requirement.SCHEMA, Requirement.STAGING_BRANCH])
def test_rejected_branch_is_not_tried_for_ever(world: World, wave: str, requirement: Requirement) -> None:
    """What no longer fits the table is dropped, and the next try stages it again."""
    dies(world, wave, "table.publish")

    def refuse() -> None:
        world.table.next_rejection = requirement

    with pytest.raises(AttemptRejectedError, match=requirement.value):
        world.ingest(wave, world.worker(Before("table.publish", refuse)))
    assert world.table.branches() == ()
    assert world.run().exit_code == 0
    came_right(world, wave, world.ledger.attempts(wave)[-1].attempt, jobs=2)


def test_branch_that_cannot_be_read_now_is_kept(world: World, wave: str) -> None:
    """Storage that does not answer says nothing about what was staged."""
    attempt = dies(world, wave, "table.publish")
    with pytest.raises((UnavailableError, UnknownOutcomeError)):
        world.ingest(wave, world.worker(failing("table.staged", UnavailableError("no answer came"))))
    assert world.run().exit_code == 0
    came_right(world, wave, attempt)


def test_cancelled_wave_is_staged_again_after_its_release(world: World, wave: str) -> None:
    """What a person has taken away is not published by what was staged before."""
    dies(world, wave, "table.publish")
    decisions.cancel(world.worker(), wave, "not now")
    decisions.release(world.worker(), wave, "now")
    assert world.run().exit_code == 0
    came_right(world, wave, world.ledger.attempts(wave)[-1].attempt, jobs=2)


def test_what_is_read_again_on_purpose_is_staged_again(world: World, wave: str) -> None:
    """A reopened wave is read as things are now, by the worker that publishes it."""
    world.ingest(wave)
    world.advance()
    world.reopen(0, 8)
    (again,) = [item.id for item in world.ledger.waves("orders", (WaveState.PLANNED,))]
    dies(world, again, "table.publish")
    assert world.run().exit_code == 0
    assert len(world.runner.jobs) == 3
    world.check()


def test_what_is_to_be_decoded_in_another_way_is_staged_again(world: World, wave: str) -> None:
    """Values were decoded as the pipeline said then; what it says now is for all that is not in the lake yet."""
    dies(world, wave, "table.publish")
    changed = replace(world.spec, decoding=Decoding(format=Format.STRING))
    world.ledger.commit(SavePipeline(spec=changed))
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert len(world.runner.jobs) == 2


def test_what_was_decoded_in_between_in_another_way_is_staged_again(world: World, wave: str) -> None:
    """The configuration went there and back: how the rows were decoded counts, not how they were planned."""
    planned = world.spec
    for changed in (Decoding(format=Format.STRING), Decoding(format=Format.STRING, column="text")):
        world.ledger.commit(SavePipeline(spec=replace(planned, decoding=changed)))
        dies(world, wave, "table.publish")
    world.ledger.commit(SavePipeline(spec=planned))
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert [job.decoding for job in world.runner.jobs] == [
        Decoding(format=Format.STRING).digest,
        Decoding(format=Format.STRING, column="text").digest,
        None,
    ]


def test_what_was_decoded_as_it_is_asked_for_goes_on(world: World, wave: str) -> None:
    """Also where that was changed since the wave was planned: a dead worker's job is not repeated for it."""
    world.ledger.commit(SavePipeline(spec=replace(world.spec, decoding=Decoding(format=Format.STRING))))
    attempt = dies(world, wave, "table.publish")
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert [job.attempt for job in world.runner.jobs] == [attempt]


def test_main_that_others_move_and_expire_costs_no_second_job(world: World, wave: str) -> None:
    """A staging branch keeps its snapshot alive, whatever maintenance does to main's history."""
    attempt = dies(world, wave, "table.publish")
    world.table.write_foreign([FOREIGN])
    world.table.expire()
    assert world.run().exit_code == 0
    came_right(world, wave, attempt)


def test_branch_of_a_finished_wave_goes(world: World, wave: str) -> None:
    """It is kept for as long as a worker may go on with it, and not longer."""
    attempt = dies(world, wave, "table.publish")
    decisions.cancel(world.worker(), wave, "not now")
    world.table.stage(attempt, [])
    assert world.recover().swept.dropped == (attempt,)
    assert all(item.state is RangeState.CANCELLED for item in world.ledger.ranges(wave=wave))


@pytest.mark.parametrize("call", AUDITED[:-1])
def test_ledger_older_than_the_claim_that_went_on_is_refused(world: World, wave: str, call: str) -> None:
    """It knows the attempt that staged, and nothing of what others have published since: the table names the claim."""
    dies(world, wave, call)
    backup = world.ledger.snapshot()
    world.produce(4, 1)
    world.ingest(world.planned_wave())
    world.ingest(wave)
    world.ledger.restore(backup)
    world.lease_ends()
    with pytest.raises(LedgerBehindError):
        world.run()
    rebuilding.rebuild(world.worker(), world.spec)
    assert world.run().exit_code == 0
    world.check()


def test_metadata_that_go_back_behind_the_going_on_are_refused(world: World, wave: str) -> None:
    """The head on which the rows were staged may have expired long ago: the newest that was looked at tells."""
    dies(world, wave, "table.publish")
    world.table.write_foreign([FOREIGN])
    world.table.expire()
    before = world.table.metadata()
    assert world.run().exit_code == 0
    world.table.set_back(before)
    world.produce(1, 1)
    with pytest.raises(IdentityError, match="was rolled back"):
        world.run()
    assert world.offsets(1) == []


# What the log start passes before it was explained


def passed_by_retention(world: World, call: str) -> Passing:
    """Let the log start pass the aborted transaction, and rows around it, just before its batches are asked for."""
    return Before(call, lambda: world.retain_from(8))


def all_but_the_markers(world: World, wave: str, attempt: str) -> None:
    """See that the rows of one job are there, and that only what nothing explains waits for a person."""
    (held,) = [item for item in world.ledger.ranges(wave=wave) if item.state is RangeState.HELD]
    assert (held.range, held.held_for) == (OffsetRange(3, 6), RangeSet.of((3, 6)))
    assert "kafka-lake skip orders --topic orders --partition 0 --from 3 --to 6 --reason TEXT" in (held.reason or "")
    world.advance()
    assert (world.stream().watermark, world.stream(1).watermark) == (3, 3)
    gap = OffsetRange(3, 6)
    decisions.skip(world.worker(), "orders", world.stream(), gap, reason="markers", acknowledge_order=False)
    came_right(world, wave, attempt)
    assert world.stream().watermark == 8


@pytest.mark.parametrize(
    "call",
    [
        "ledger.mark_staged",
        "ledger.end_attempt",
        "table.fence",
        "ledger.revoke",
        "table.publish",
        "ledger.record_commit",
    ],
)
def test_rows_whose_markers_are_gone_land_though_workers_die_over_it(world: World, wave: str, call: str) -> None:
    """From the audit on the branch is kept, over the taking of what is not explained, for the next worker."""
    passing, doomed = passed_by_retention(world, "batches.explain"), Killed(call)

    def both(name: str) -> None:
        passing(name)
        doomed(name)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(both))
    world.lease_ends()
    attempt = world.ledger.attempts(wave)[0].attempt
    if call == "ledger.mark_staged":  # nothing says yet that it was audited
        assert world.run().exit_code == 1
        assert (world.offsets(), world.offsets(1)) == ([], [0, 1, 2])
        return
    assert world.run().exit_code == 1
    all_but_the_markers(world, wave, attempt)


def test_markers_that_go_after_the_audit_and_before_its_receipts_are_held_alone(world: World, wave: str) -> None:
    """What is audited again finds less than before: the rest is published all the same."""
    attempt = dies(world, wave, "table.add_receipts")
    world.retain_from(8)
    assert world.run().exit_code == 1
    all_but_the_markers(world, wave, attempt)


def test_too_many_gaps_hold_their_range(world: World, wave: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No person passes thousands of markers one by one: their range is held as a whole, and the others go on."""
    monkeypatch.setattr(attempt_audit, "MOST_PASSED", 0)
    world.ingest(wave, world.worker(passed_by_retention(world, "batches.explain")))
    (held,) = [item for item in world.ledger.ranges(wave=wave) if item.state is RangeState.HELD]
    assert (held.range, held.held_for) == (OffsetRange(0, 8), RangeSet.of((0, 8)))
    assert (world.offsets(), world.offsets(1)) == ([], [0, 1, 2])


def test_row_that_is_missing_otherwise_spares_no_branch(world: World, wave: str) -> None:
    """An offset above the log start that nothing explains is the job's fault: what it staged is not trusted."""
    world.runner.tamper = lambda rows: [row for row in rows if row[2:4] != (0, 7)]
    world.ingest(wave, world.worker(Before("batches.explain", lambda: world.retain_from(4))))
    held = [item for item in world.ledger.ranges(wave=wave) if item.state is RangeState.HELD]
    assert [item.range for item in held] == [OffsetRange(0, 4), OffsetRange(4, 8)]
    assert [(item.cause and item.cause.kind) for item in held] == ["LogStartMovedError", "UnexplainedError"]
    assert (world.offsets(), world.offsets(1)) == ([], [0, 1, 2])


def test_branch_of_an_attempt_that_has_receipts_is_never_spared(world: World, wave: str) -> None:
    """Its commit may be on its way: to take ranges away takes the branch too."""
    attempt = dies(world, wave, "ledger.mark_publishing")
    (other,) = [item for item in world.ledger.ranges(wave=wave) if item.stream.partition == 1]
    verdict = RangeDecision(range_id=other.id, state=RangeState.CANCELLED, reason="not now")
    revoke(world.worker(), world.ledger.wave(wave), [verdict], spared=attempt)
    assert world.table.branches() == ()


def skip_the_markers(world: World) -> None:
    """Do what the hold says."""
    gap = OffsetRange(3, 6)
    decisions.skip(world.worker(), "orders", world.stream(), gap, reason="markers", acknowledge_order=False)


def lose_the_ledger(world: World) -> None:
    """Begin a ledger that knows nothing."""
    world.ledger = MemoryLedger(world.clock, ledger_id="2" * 32)


def agrees_with_a_rebuild(world: World, *, lost: bool) -> None:
    """See that an audit finds nothing, and a rebuild brings the same back."""
    world.advance()
    for rebuilt in (False, True):
        if rebuilt:
            if lost:
                lose_the_ledger(world)
            rebuilding.rebuild(world.worker(), world.spec)
        assert check(pipeline_audit.gather_audit(world.ledger, world.lake, world.spec)) == ()
        world.check()
        assert (world.offsets(), world.offsets(1)) == ([0, 1, 2, 6, 7], [0, 1, 2])


@pytest.mark.parametrize("lost", [False, True])
def test_what_is_published_beside_a_hold_is_no_stale_commit(world: World, wave: str, lost: bool) -> None:
    """Main was fenced for the hold, and the rows come in the name of an attempt from before that: by a later claim."""
    world.ingest(wave, world.worker(passed_by_retention(world, "batches.explain")))
    skip_the_markers(world)
    agrees_with_a_rebuild(world, lost=lost)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("stopped", [False, True])
def test_receipts_of_a_worker_believed_dead_are_of_what_was_cut_since(
    world: World, wave: str, stopped: bool, lost: bool
) -> None:
    """It wrote them when its ranges had been cut, before or after the rows were published: the parts count."""

    def others() -> None:
        world.lease_ends()
        world.retain_from(8)
        if not stopped:
            world.run()
            return
        with pytest.raises(KilledError):
            world.run(worker=world.worker(Killed("table.publish")))
        world.lease_ends()

    with pytest.raises(StaleFenceError):
        world.ingest(wave, world.worker(Before("table.add_receipts", others)))
    world.run()
    skip_the_markers(world)
    agrees_with_a_rebuild(world, lost=lost)


@pytest.mark.parametrize(("call", "nth"), [("ledger.claim", 3), ("table.add_receipts", 1), ("table.publish", 1)])
def test_skip_of_what_is_held_leaves_the_rows_beside_it_on_their_branch(
    world: World, wave: str, call: str, nth: int
) -> None:
    """A person does what the hold says before the rest has landed: Kafka may not have it any more."""
    passing, doomed = passed_by_retention(world, "batches.explain"), Killed(call, nth=nth)

    def both(name: str) -> None:
        passing(name)
        doomed(name)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(both))
    world.lease_ends()
    attempt = world.ledger.attempts(wave)[0].attempt
    skip_the_markers(world)
    assert world.run().exit_code == 0
    came_right(world, wave, attempt)
    assert world.stream().watermark == 8


def test_skip_of_what_is_staged_spares_no_branch(world: World, wave: str) -> None:
    """A row of it must not be published by a branch that stays, which is given up with its other rows."""
    passing, doomed = passed_by_retention(world, "batches.explain"), Killed("table.publish")

    def both(name: str) -> None:
        passing(name)
        doomed(name)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(both))
    world.lease_ends()
    first = OffsetRange(2, 4)
    decisions.skip(
        world.worker(), "orders", world.stream(), first, reason="wrong", acknowledge_order=False, drop_staged=True
    )
    assert world.table.branches() == ()
    world.run()
    assert 2 not in world.offsets()
