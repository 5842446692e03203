"""One commit makes a wave visible, whatever comes in between and whatever answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import AttemptRejectedError, IdentityError, UnavailableError, UnknownOutcomeError
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, Requirement, WaveState
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.services.publishing import PUBLISH_TRIES
from tests.gates import Before, Calls, Killed, KilledError, Passing
from tests.kit.interceptors import PortCall, intercepted
from tests.kit.memory_lake import Answer, Row
from tests.world import World

pytestmark = pytest.mark.unit
FOREIGN = Row(topic="other", topic_id="other", partition=0, offset=0, key=None, value=None, attempt="")


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of three records."""
    world.produce(3)
    return world.planned_wave()


def committed(world: World) -> None:
    """See that everything came right."""
    assert world.run().exit_code == 0
    world.check()
    assert world.offsets() == [0, 1, 2]


def foreign(world: World) -> None:
    """Commit to main as another writer does."""
    world.table.write_foreign([FOREIGN])


def test_moved_head_is_looked_at_again(world: World, wave: str) -> None:
    """A writer that comes between look and commit costs a second try, not a second job."""
    calls = Calls()
    between = Before("table.publish", lambda: foreign(world))

    def passing(call: str) -> None:
        calls(call)
        between(call)

    world.ingest(wave, world.worker(passing))
    assert calls.made.count("table.publish") == 2
    assert len(world.runner.jobs) == 1
    committed(world)
    assert world.table.rows()[0] == FOREIGN


@pytest.mark.parametrize("answer", [Answer.LOST_LANDED, Answer.LOST, Answer.LATE])
def test_lost_answer_is_committed_by_looking(world: World, wave: str, answer: Answer) -> None:
    """Whether the commit landed, never landed or lands later: the worker finds out by itself."""

    def lose() -> None:
        world.table.next_answer = answer

    assert world.ingest(wave, world.worker(Before("table.publish", lose))).state is WaveState.COMMITTED
    world.table.land_late()
    assert len(world.runner.jobs) == 1
    committed(world)


def test_commit_that_lands_after_its_worker_died_is_adopted(world: World, wave: str) -> None:
    """The lake testifies: no second job for what is there already."""

    def lose() -> None:
        world.table.next_answer = Answer.LATE

    doomed = Killed("table.find_commit", nth=3)
    between = Before("table.publish", lose)

    def passing(call: str) -> None:
        doomed(call)
        between(call)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(passing))
    world.table.land_late()
    world.lease_ends()
    world.ingest(wave)
    assert len(world.runner.jobs) == 1
    assert [item.outcome for item in world.ledger.attempts(wave)] == [
        AttemptOutcome.COMMITTED,
        AttemptOutcome.ABANDONED,
    ]
    committed(world)


@pytest.mark.parametrize(
    "call", ["ledger.renew", "table.staged", "ledger.mark_staged", "table.find_commit", "table.publish"]
)
def test_late_commit_of_an_earlier_attempt_wins_over_its_successor(world: World, wave: str, call: str) -> None:
    """Of two attempts at most one lands; the later one adopts what it finds when it comes to publish."""

    def lose() -> None:
        world.table.next_answer = Answer.LATE

    doomed = Killed("table.find_commit", nth=3)
    between = Before("table.publish", lose)

    def passing(call: str) -> None:
        doomed(call)
        between(call)

    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(passing))
    world.lease_ends()
    nth = 2 if call == "table.find_commit" else 1
    world.ingest(wave, world.worker(Before(call, world.table.land_late, nth=nth)))
    first, second = world.ledger.attempts(wave)
    assert {row.attempt for row in world.table.rows()} == {first.attempt}
    assert (first.outcome, second.outcome) == (AttemptOutcome.COMMITTED, AttemptOutcome.ABANDONED)
    committed(world)


def test_answers_that_stay_lost_are_an_unknown_outcome(world: World, wave: str) -> None:
    """After many tries the worker says so instead of guessing; `recover` finds out later."""

    def always(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = Answer.LOST

    with pytest.raises(UnknownOutcomeError, match="kafka-lake recover orders") as caught:
        world.ingest(wave, world.worker(always))
    assert caught.value.exit_code == 4
    assert len([text for text in world.said if "again" in text]) == PUBLISH_TRIES
    assert world.ledger.wave(wave).state is WaveState.PUBLISHING
    assert world.ledger.attempts(wave)[0].outcome is AttemptOutcome.UNKNOWN
    assert world.recover().returned == (wave,)
    committed(world)


def losing(world: World, answer: Answer, gone: str) -> Passing:
    """Lose the answer to the first publish; every call of the name `gone` after it finds no server."""
    calls = Calls()

    def passing(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = answer
        if call == gone and "table.publish" in calls.made:
            raise UnavailableError("no answer came")
        calls(call)

    return passing


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        (Answer.LOST_LANDED, "table.find_commit"),
        (Answer.LOST, "table.find_commit"),
        (Answer.LATE, "table.find_commit"),
        (Answer.LATE, "ledger.mark_publishing"),
        (Answer.GIVEN, "ledger.record_commit"),
        (Answer.LOST_LANDED, "ledger.record_commit"),
    ],
)
def test_unknown_stays_unknown_until_a_look_has_answered(world: World, wave: str, answer: Answer, gone: str) -> None:
    """Exit 4 and PUBLISHING, whatever fails after the commit was sent; `recover` finds out, also at its second try."""
    made = world.runner.jobs
    with pytest.raises(
        UnknownOutcomeError, match=r"may be in the lake.*no answer came.*kafka-lake recover orders"
    ) as end:
        world.ingest(wave, world.worker(losing(world, answer, gone)))
    assert end.value.exit_code == 4
    assert world.ledger.wave(wave).state is WaveState.PUBLISHING
    assert world.ledger.attempts(wave)[0].outcome is AttemptOutcome.UNKNOWN
    world.table.land_late()
    world.lake.reachable = False
    with pytest.raises(UnavailableError):
        world.recover()
    assert world.ledger.wave(wave).state is WaveState.PUBLISHING
    with pytest.raises(UnknownOutcomeError):
        world.ingest(wave)
    assert world.ledger.wave(wave).state is WaveState.PUBLISHING
    world.lake.reachable = True
    found = world.recover()
    assert (found.adopted, found.returned) == (((), (wave,)) if answer is Answer.LOST else ((wave,), ()))
    assert len(made) == 1
    committed(world)


def test_interrupted_publish_is_an_unknown_outcome(world: World, wave: str) -> None:
    """A signal in the middle of the commit says nothing about it; the attempt does not call itself failed."""

    def interrupted(call: PortCall) -> Any:
        answer = call.go()
        if call.name == "table.publish":
            raise KeyboardInterrupt
        return answer

    with pytest.raises(KeyboardInterrupt):
        world.ingest(wave, intercepted(world.worker(), interrupted))
    assert world.ledger.wave(wave).state is WaveState.PUBLISHING
    assert world.ledger.attempts(wave)[0].outcome is AttemptOutcome.UNKNOWN
    assert world.recover().adopted == (wave,)


def test_look_that_answers_ends_the_doubt(world: World, wave: str) -> None:
    """What fails before anything was sent, or after main was seen without the commit, is an ordinary failure."""

    def refuse(call: str) -> None:
        if call == "ledger.mark_publishing":
            raise UnavailableError("no answer came")

    with pytest.raises(UnavailableError):
        world.ingest(wave, world.worker(refuse))
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert world.ledger.attempts(wave)[0].outcome is AttemptOutcome.FAILED
    calls = Calls()

    def moved(call: str) -> None:
        calls(call)
        tries = calls.made.count("table.publish")
        if call == "table.publish" and tries == 1:
            world.table.next_answer = Answer.LOST
        if call == "table.find_commit" and tries == 1:
            foreign(world)
        if call == "ledger.mark_publishing" and tries == 1:
            raise UnavailableError("no answer came")

    with pytest.raises(UnavailableError):
        world.ingest(wave, world.worker(moved))
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert [item.outcome for item in world.ledger.attempts(wave)] == [AttemptOutcome.FAILED] * 2


def test_unreachable_catalog_while_publishing_is_no_rejection(world: World, wave: str) -> None:
    """An exception says nothing about the commit: look again, and try again."""
    calls = Calls()

    def down_once(call: str) -> None:
        calls(call)
        world.lake.reachable = call != "table.publish" or calls.made.count(call) > 1

    assert world.ingest(wave, world.worker(down_once)).state is WaveState.COMMITTED
    assert calls.made.count("table.publish") == 2
    assert len(world.runner.jobs) == 1
    committed(world)


@pytest.mark.parametrize(
    "requirement", [Requirement.STAGING_BRANCH, Requirement.SPEC, Requirement.SCHEMA, Requirement.TABLE_UUID]
)
def test_other_rejections_stage_again(world: World, wave: str, requirement: Requirement) -> None:
    """What no longer fits the table is staged again by the next try, never forced."""

    def refuse() -> None:
        world.table.next_rejection = requirement

    with pytest.raises(AttemptRejectedError, match=requirement.value):
        world.ingest(wave, world.worker(Before("table.publish", refuse)))
    assert world.offsets() == []
    assert world.ledger.wave(wave).state is WaveState.PLANNED
    assert world.ledger.attempts(wave)[0].outcome is AttemptOutcome.REJECTED
    committed(world)
    assert len(world.runner.jobs) == 2


def test_changed_partition_spec_stages_again(world: World, wave: str) -> None:
    """Files of the old spec are not appended to a table of a new one."""
    with pytest.raises(AttemptRejectedError, match="partition spec"):
        world.ingest(wave, world.worker(Before("ledger.mark_publishing", world.table.change_spec)))
    committed(world)


@pytest.mark.parametrize("call", ["ledger.mark_staged", "ledger.mark_publishing", "table.publish"])
def test_branch_that_changed_after_the_audit_is_not_published(world: World, wave: str, call: str) -> None:
    """Only the audited snapshot is published, never the branch as it is now."""

    def change() -> None:
        attempt = world.ledger.attempts(wave)[-1].attempt
        store = world.table._store
        store.add(branch_of(attempt), [])

    with pytest.raises(AttemptRejectedError, match="staging branch"):
        world.ingest(wave, world.worker(Before(call, change)))
    assert world.offsets() == []
    committed(world)


def put_on_main(world: World, *, late: bool = False) -> str:
    """Run a job whose rows the catalog puts on main, after those of an earlier one that were `late`; return its
    attempt."""
    stage, held = world.lake.stage, list[tuple[str, str, list[Any]]]()

    def later(identifier: str, attempt: str, rows: Any, **_: Any) -> None:
        held.append((identifier, attempt, list(rows)))

    def both(identifier: str, attempt: str, rows: Any, **decoded: Any) -> None:
        for earlier in held:
            stage(*earlier)
        stage(identifier, attempt, rows, **decoded)

    world.table.keeps_branches = False
    if late:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.lake, "stage", later)
            world.run()
            patch.setattr(world.lake, "stage", both)
            world.run()
    else:
        world.run()
    world.table.keeps_branches = True
    return world.table.rows()[-1].attempt


def reopened(world: World) -> None:
    """Land everything, and have it read again."""
    world.run()
    world.reopen(0, 3)


@pytest.mark.parametrize("late", [False, True], ids=["beside what was reopened", "of two attempts"])
def test_rows_that_stand_on_main_twice_are_not_adopted(world: World, wave: str, late: bool) -> None:
    """A catalog that appends what it should keep apart replaces nothing; deleted by the statement that is named, the
    rows are there once."""
    if not late:
        reopened(world)
    attempt = put_on_main(world, late=late)
    (problem,) = world.run().problems
    assert isinstance(problem, IdentityError)
    assert "offsets 0-3 of orders/0 are there twice" in problem.message
    assert f"Delete them (DELETE FROM raw.orders WHERE ingest_attempt = '{attempt}')" in problem.message
    assert world.stream().watermark == 0
    world.table.delete_foreign(lambda row: row.attempt == attempt)
    assert world.run().exit_code == 0
    world.check()


def test_receipts_do_not_make_rows_that_stand_twice_right(world: World, wave: str) -> None:
    """A person who moves main to what was staged again shows it beside what it was to replace."""
    reopened(world)
    with pytest.raises(KilledError):
        world.run(worker=world.worker(Killed("table.publish")))
    world.lease_ends()
    (attempt,), table = world.table.branches(), world.table.metadata()
    staged = table.refs[branch_of(attempt)]
    table.commits[staged] = replace(table.commits[staged], staged_by=attempt)
    table.refs["main"] = staged
    world.table.set_back(table)
    (problem,) = world.run().problems
    assert isinstance(problem, IdentityError)
    assert "are there twice" in problem.message


@pytest.mark.parametrize(
    "lose",
    [lambda world: world.kafka.create_topic("orders", 1), lambda world: world.retain_from(6)],
    ids=["created anew", "retention"],
)
def test_rows_on_main_that_kafka_has_no_more_are_kept_before_they_are_deleted(
    world: World, lose: Callable[[World], object]
) -> None:
    """What cannot be proven any more, and cannot be read again, is not thrown away by our advice."""
    world.produce(3)
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.produce()
    attempt = put_on_main(world)
    lose(world)
    (problem, *_) = world.run().problems
    assert isinstance(problem, IdentityError)
    kept = f"CREATE TABLE raw.orders_kept AS SELECT * FROM raw.orders WHERE ingest_attempt = '{attempt}'"
    assert kept in problem.message
    assert problem.message.index(kept) < problem.message.index("DELETE FROM")
