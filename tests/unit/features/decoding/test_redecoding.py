"""Decoding once more what is in the lake: which jobs are asked for, and what is refused before any is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    IdentityError,
    JobFailedError,
    LedgerBehindError,
    OwnershipError,
    SchemaMismatchError,
    StateError,
    UnknownOutcomeError,
    UnknownTopicError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.waves import Committed, Token
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.attempt_audit import MANY_VALUES
from airflow_kafka_lake.services.redecoding import redecode
from tests.gates import Before, Calls, Killed, KilledError
from tests.kit.memory_lake import Answer
from tests.world import SPEC, World

pytestmark = pytest.mark.unit

TEXT = Decoding(format=Format.STRING)


def landed(decoding: Decoding | None = TEXT, **more: object) -> World:
    """A world with two records in the lake."""
    world = World(spec=replace(SPEC, decoding=decoding, **more))  # type: ignore[arg-type]
    world.produce(2)
    assert world.run().exit_code == 0
    return world


def test_every_table_gets_one_job_with_the_file_as_it_is_now() -> None:
    """Not with the schema that the rows were landed with."""
    world = landed(None)
    spec = replace(world.spec, decoding=TEXT)
    assert set(redecode(world.worker(), spec, only_failed=True)) == {"raw.orders"}
    (job,) = world.runner.redecoded
    assert (job.table, job.only_failed, [decoder.topics for decoder in job.decoders]) == (
        "raw.orders",
        True,
        [("orders",)],
    )
    assert job.branch == f"kafka_lake_decode_{job.id}"


def test_column_that_no_row_fills_when_it_is_decoded_again_is_named() -> None:
    """People decode again to repair: a misspelt field leaves nulls where values were."""
    world = World(spec=replace(SPEC, decoding=Decoding(format=Format.JSON, schema="amount INT")))
    for _ in range(MANY_VALUES):
        world.kafka.produce("orders", 0, b'{"amount": 1}')
    assert world.run().exit_code == 0
    misspelt = replace(world.spec, decoding=Decoding(format=Format.JSON, schema="amuont INT"))
    for spec, named in ((misspelt, True), (world.spec, False)):
        (done,) = redecode(world.worker(), spec).values()
        assert ("; None of the 100 values that decoded filled amuont: fields are found by" in str(done)) is named
        line = world.ledger.events("orders", kind="decode", limit=1, newest=True)[0]
        assert line.detail == str(done)


def test_what_cannot_be_decoded_is_refused() -> None:
    """No section, a topic of another pipeline, a topic without a schema, nothing planned yet."""
    world = landed()
    avro = replace(world.spec, decoding=Decoding(format=Format.AVRO, registry="schemas"))
    with pytest.raises(SchemaMismatchError, match=r"has no subject 'orders-value'. Nothing was changed"):
        redecode(world.worker(), avro)
    with pytest.raises(UsageError, match=r"no \[decode\] section"):
        redecode(world.worker(), replace(world.spec, decoding=None))
    with pytest.raises(UnknownTopicError, match="'payments' is not one of pipeline orders: it has orders"):
        redecode(world.worker(), world.spec, topic="payments")
    fresh = World(spec=world.spec)
    with pytest.raises(StateError, match="nothing of pipeline orders was planned yet"):
        redecode(fresh.worker(), fresh.spec)
    assert world.runner.redecoded == []


def test_failed_job_is_told() -> None:
    """Its last words reach the caller, and nothing changed."""
    world = landed()
    world.runner.failures.append("out of memory")
    with pytest.raises(JobFailedError, match="out of memory"):
        redecode(world.worker(), world.spec)
    world.check()


def test_branch_of_a_decoding_job_is_no_attempt() -> None:
    """A sweep of the branches of dead attempts leaves it alone."""
    from airflow_kafka_lake.core.spark.job import attempts_of

    world = landed()
    redecode(world.worker(), world.spec)
    assert attempts_of([world.runner.redecoded[0].branch]) == ()


# What publishes the rows


def staging(world: World, happening: Callable[[], object]) -> Ports:
    """A worker to which something happens when its job has staged and nothing is published yet."""
    return world.worker(Before("table.head", happening, nth=3))


def main(world: World) -> int | None:
    """Return where main is."""
    return world.table.head().snapshot


def test_worker_publishes_the_rows_and_removes_the_branch() -> None:
    """Each record is there once, as it was."""
    world = landed()
    before, rows = main(world), world.offsets()
    (done,) = redecode(world.worker(), world.spec).values()
    assert (done.rows, done.failed, done.base) == (2, 0, before)
    assert (main(world), world.offsets()) == (done.staged, rows)
    assert world.table.staged(world.runner.redecoded[0].staged_as) is None
    world.produce(1)
    assert world.run().exit_code == 0
    world.check()


def lands(world: World) -> None:
    world.produce(1)
    assert world.run().exit_code == 0


def set_back(world: World) -> None:
    world.table.roll_back(world.table.commits()[-2].snapshot)


def taken(world: World) -> None:
    token = Token(pipeline="others", wave="w", attempt="f" * 16, fence=1, ranges="", kind="fence")
    owned = [world.key().topic_id]
    assert isinstance(world.table.fence(world.table.head(), world.ledger.ledger_id(), token, owned=owned), Committed)


HAPPENINGS: dict[str, tuple[Callable[[World], object], type[Exception], str]] = {
    "a wave is committed": (lands, ConcurrentError, "moved while its rows were decoded"),
    "others write": (lambda world: world.table.write_foreign(), ConcurrentError, "moved while its rows were decoded"),
    "main is rolled back": (set_back, IdentityError, "was rolled back"),
    "the table is re-created": (lambda world: world.table.recreate(), IdentityError, "was re-created"),
    "the topic changes hands": (taken, OwnershipError, "belongs to pipeline others"),
}


@pytest.mark.parametrize("what", HAPPENINGS)
def test_rows_are_not_published_when_the_table_has_changed(what: str) -> None:
    """It is refused by name, other commits stay, and the job's branch is dropped."""
    happens, error, said = HAPPENINGS[what]
    world = landed()
    seen: list[tuple[int | None, list[int]]] = []

    def happening() -> None:
        happens(world)
        seen.append((main(world), world.offsets()))

    with pytest.raises(error, match=said):
        redecode(staging(world, happening), world.spec)
    assert (main(world), world.offsets()) == seen[0]
    assert world.table.staged(world.runner.redecoded[0].staged_as) is None


def test_ledger_older_than_the_lake_publishes_nothing() -> None:
    """Neither one that was restored while the job ran, nor one from before: then no job is run."""
    world = landed()
    backup = world.ledger.snapshot()
    lands(world)
    before = main(world)
    with pytest.raises(LedgerBehindError, match="rebuild orders"):
        redecode(staging(world, lambda: world.ledger.restore(backup)), world.spec)
    jobs = len(world.runner.redecoded)
    with pytest.raises(LedgerBehindError, match="rebuild orders"):
        redecode(world.worker(), world.spec)
    assert (main(world), len(world.runner.redecoded)) == (before, jobs)


def test_metadata_that_were_set_back_are_noticed_by_what_was_committed_last() -> None:
    """Properties go back with them, so that only the ledger can tell."""
    world = landed()
    older = world.table.metadata()
    lands(world)
    with pytest.raises(IdentityError, match="was rolled back"):
        redecode(staging(world, lambda: world.table.set_back(older)), world.spec)


@pytest.mark.parametrize("answer", [Answer.LOST, Answer.LOST_LANDED])
def test_lost_answer_is_searched_for_on_main(answer: Answer) -> None:
    """What landed is found on main; what did not is committed again."""
    world = landed()

    def lose(call: str) -> None:
        if call == "table.publish" and not lost:
            lost.append(call)
            world.table.next_answer = answer

    lost: list[str] = []
    (done,) = redecode(world.worker(lose), world.spec).values()
    assert lost
    assert main(world) == done.staged


def test_answers_that_stay_lost_are_an_unknown_outcome() -> None:
    """The branch stays, because a commit that may still land requires it; the call can be repeated."""
    world = landed()
    before = main(world)

    def lose(call: str) -> None:
        if call == "table.publish":
            world.table.next_answer = Answer.LOST

    with pytest.raises(UnknownOutcomeError, match="Repeat it"):
        redecode(world.worker(lose), world.spec)
    assert main(world) == before
    assert world.table.staged(world.runner.redecoded[0].staged_as) is not None
    (done,) = redecode(world.worker(), world.spec).values()
    assert main(world) == done.staged


@pytest.mark.parametrize(("call", "nth"), [("table.head", 3), ("table.publish", 1)])
def test_killed_worker_changes_nothing(call: str, nth: int) -> None:
    """No reader sees the branch it leaves, no wave waits for it, it is no attempt's, and the next call drops it."""
    world = landed()
    before = main(world)
    with pytest.raises(KilledError):
        redecode(world.worker(Killed(call, nth=nth)), world.spec)
    assert main(world) == before
    assert world.table.branches() == ()
    assert world.recover().swept.foreign == ()
    (left,) = world.table.head().decoded
    lands(world)
    redecode(world.worker(), world.spec)
    assert world.table.staged(left) is None
    world.check()


def test_branch_that_was_dropped_meanwhile_is_named() -> None:
    """Nothing else of the table has changed: the person repeats it."""
    world = landed()
    before = main(world)

    def drop() -> None:
        world.table.drop(world.runner.redecoded[0].staged_as)

    with pytest.raises(ConcurrentError, match="staging branch changed"):
        redecode(world.worker(Before("table.publish", drop)), world.spec)
    assert main(world) == before


def test_waves_that_land_beside_it_are_no_rollback() -> None:
    """Before whichever call they land: a repeat is asked for at most, and nothing is lost."""

    def scene() -> tuple[World, str]:
        world = landed()
        world.produce(2)
        return world, world.planned_wave()

    world, _ = scene()
    calls = Calls()
    redecode(world.worker(calls), world.spec)
    for nth in range(1, len(calls.made) + 1):
        world, wave = scene()
        beside = Before("", partial(world.ingest, wave), nth=nth)
        with suppress(ConcurrentError):
            redecode(world.worker(beside), world.spec)
        world.run()
        world.check()


def test_rows_are_decoded_again_in_the_table_that_has_them() -> None:
    """Also where the pipeline file names another table since."""
    world = landed()
    spec = replace(world.spec, table="raw.moved")
    assert set(redecode(world.worker(), spec)) == {"raw.orders"}
    assert [job.table for job in world.runner.redecoded] == ["raw.orders"]
