"""Is this still the table, the owner, the ledger and the topic that we recorded?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_kafka_lake.core.errors import (
    AttemptRejectedError,
    HeldError,
    IdentityError,
    LedgerBehindError,
    OwnershipError,
    UnavailableError,
)
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.waves import RangeState, Token, WaveState
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.gates import Before, Calls, Killed, KilledError, Passing
from tests.kit.memory_ledger import MemoryLedger
from tests.world import LEDGER_ID, World

pytestmark = pytest.mark.unit


@pytest.fixture
def wave(world: World) -> str:
    """A planned wave of three records."""
    world.produce(3)
    return world.planned_wave()


def held_reasons(world: World) -> list[str | None]:
    """Return why ranges are on hold."""
    return [item.reason for item in world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,))]


def refusals(world: World, wave: str) -> list[Callable[[], object]]:
    """Return everything that must refuse to go on."""
    return [lambda: world.ingest(wave), world.plan, lambda: world.plan(dry_run=True)]


def test_recreated_table_is_refused(world: World, wave: str) -> None:
    """A table of the same name is not the table."""
    world.table.recreate()
    for refused in refusals(world, wave):
        with pytest.raises(IdentityError, match="rebuild orders --accept-rollback"):
            refused()
    assert world.offsets() == []


def test_dropped_table_is_refused_and_not_created_anew(world: World, wave: str) -> None:
    """A table that is gone took committed rows with it: nothing is created in its place."""
    world.table._store = None
    for refused in refusals(world, wave)[1:]:
        with pytest.raises(IdentityError, match="is gone"):
            refused()
    assert world.table._store is None


@pytest.mark.parametrize("call", ["table.find_commit", "ledger.mark_publishing", "table.publish"])
def test_table_recreated_under_a_running_wave_stays_empty(world: World, wave: str, call: str) -> None:
    """Also between look and commit: nothing is published into another table."""
    nth = 2 if call == "table.find_commit" else 1
    with pytest.raises((IdentityError, AttemptRejectedError), match=r"re-created|another table"):
        world.ingest(wave, world.worker(Before(call, world.table.recreate, nth=nth)))
    assert world.offsets() == []
    assert world.ledger.wave(wave).state is not WaveState.COMMITTED


def test_another_pipeline_of_the_same_topic_and_table_is_refused(world: World, wave: str) -> None:
    """One owner per table and topic: a second pipeline would land every record twice."""
    world.ingest(wave)
    world.with_spec(name="copies")
    with pytest.raises(OwnershipError, match="belongs to pipeline orders"):
        world.plan()
    assert world.ledger.streams("copies") == ()


def test_another_ledger_of_the_same_pipeline_is_refused(world: World, wave: str) -> None:
    """A second ledger knows nothing of what the first has landed; `rebuild` is the way in."""
    world.ingest(wave)
    world.ledger = MemoryLedger(world.clock, ledger_id="2" * 32)
    with pytest.raises(LedgerBehindError, match=f"another ledger .{LEDGER_ID}.*rebuild orders"):
        world.plan()
    assert world.ledger.streams("orders") == ()


def test_ledger_that_lost_the_newest_token_is_refused(world: World, wave: str) -> None:
    """A ledger restored from a backup would land records twice: stop, and point to `rebuild`."""
    backup = world.ledger.snapshot()
    world.ingest(wave)
    world.ledger.restore(backup)
    world.produce(1)
    for refused in (world.plan, world.run):
        with pytest.raises(LedgerBehindError, match="kafka-lake rebuild orders"):
            refused()
    with pytest.raises(LedgerBehindError, match="kafka-lake rebuild orders"):
        world.ingest(wave)
    assert len(world.runner.jobs) == 1
    assert world.offsets() == [0, 1, 2]


def test_ledger_that_went_back_before_the_plan_is_refused(world: World, wave: str) -> None:
    """Also a ledger that knows the pipeline but none of its waves."""
    empty = MemoryLedger(world.clock, ledger_id=LEDGER_ID)
    world.ingest(wave)
    world.ledger = empty
    with pytest.raises(LedgerBehindError, match="kafka-lake rebuild orders"):
        world.plan()


def test_topic_deleted_before_the_audit_is_held(world: World, wave: str) -> None:
    """Nothing can be proved about offsets of a topic that is gone; the range waits for a person."""
    with pytest.raises(HeldError):
        world.ingest(wave, world.worker(Before("ledger.renew", lambda: world.kafka.delete_topic("orders"))))
    assert world.offsets() == []
    (reason,) = held_reasons(world)
    assert reason.startswith(f"TopicDeletedError: topic orders (id {world.topic_ids['orders']}) was deleted. ")
    assert f"--topic-id={world.topic_ids['orders']} --partition 0 --from 0 --to 3 --reason" in reason


def test_topic_deleted_under_the_job_is_held(world: World, wave: str) -> None:
    """The job fails on it, and no other one is started."""
    with pytest.raises(HeldError):
        world.ingest(wave, world.worker(Before("runner.stage", lambda: world.kafka.delete_topic("orders"))))
    assert len(world.runner.jobs) == 1
    assert "was deleted" in (held_reasons(world)[0] or "")


def test_topic_deleted_before_the_job_needs_no_job(world: World, wave: str) -> None:
    """The precheck holds what cannot be read any more."""
    world.kafka.delete_topic("orders")
    with pytest.raises(HeldError):
        world.ingest(wave)
    assert world.runner.jobs == []
    assert "was deleted" in (held_reasons(world)[0] or "")


@pytest.mark.parametrize("hidden", [False, True], ids=["listed", "left out"])
@pytest.mark.parametrize("topic", ["orders", "__orders"])
def test_topic_that_a_list_leaves_out_is_not_deleted(topic: str, hidden: bool) -> None:
    """Neither a list that lacks a topic nor a name like those of Kafka's own topics says anything about it."""
    world = World()
    world.create(topic)
    world.with_spec(topics=(topic,))
    world.produce(3, topic=topic)
    wave = world.planned_wave()
    if hidden:
        world.kafka.unlisted.add(topic)
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert world.offsets(topic=topic) == [0, 1, 2]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_topic_that_the_brokers_do_not_agree_about_is_unknown(world: World, wave: str, nth: int) -> None:
    """Before the read and around the accounting: nothing is held or told to be skipped, and the next try lands it."""
    doubt = Before("source.describe", lambda: world.kafka.doubtful.add("orders"), nth=nth)
    with pytest.raises(UnavailableError, match="do not agree"):
        world.ingest(wave, world.worker(doubt))
    assert held_reasons(world) == []
    world.kafka.doubtful.clear()
    assert world.ingest(wave).state is WaveState.COMMITTED


def test_audited_attempt_is_published_though_its_topic_is_deleted(world: World, wave: str) -> None:
    """Once every offset is accounted for, the staged copy is the only proven one left."""
    deleting = Before("table.add_receipts", lambda: world.kafka.delete_topic("orders"))
    assert world.ingest(wave, world.worker(deleting)).state is WaveState.COMMITTED
    assert world.offsets() == [0, 1, 2]


@pytest.mark.parametrize("call", ["source.describe", "source.snapshot", "runner.stage", "table.staged", "ledger.renew"])
def test_recreated_topic_with_the_same_offsets_is_never_published(world: World, wave: str, call: str) -> None:
    """The name and the offsets are the same, the records are not: the identity decides."""

    def recreate() -> None:
        world.create("orders")
        world.produce(5)

    with pytest.raises(HeldError):
        world.ingest(wave, world.worker(Before(call, recreate)))
    assert world.table.rows() == ()
    (reason,) = held_reasons(world)
    assert "was re-created" in (reason or "")


def test_topic_recreated_while_its_gaps_are_explained_is_never_published(world: World) -> None:
    """Ids are compared on both sides of the accounting."""
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    world.produce(1)
    wave = world.planned_wave()

    def recreate() -> None:
        world.create("orders")
        world.produce(5)

    with pytest.raises(IdentityError, match="created anew"):
        world.ingest(wave, world.worker(Before("batches.explain", recreate)))
    assert world.table.rows() == ()
    with pytest.raises(HeldError):
        world.ingest(wave)
    assert "was re-created" in (held_reasons(world)[0] or "")


def test_topic_recreated_between_explanation_and_verdict_is_held(world: World) -> None:
    """The second look at the ids catches what happened while the gaps were explained."""
    world.produce(1)
    wave = world.planned_wave()

    def recreate() -> None:
        world.create("orders")
        world.produce(5)

    with pytest.raises(HeldError):
        world.ingest(wave, world.worker(Before("source.describe", recreate, nth=3)))
    assert world.table.rows() == ()


def test_ledger_behind_cannot_hide_it_by_a_cancel(world: World, wave: str) -> None:
    """A fence commit of a restored ledger would be a token that it knows: refused before it is made."""
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("runner.stage")))
    backup = world.ledger.snapshot()
    world.lease_ends()
    world.ingest(wave)
    world.ledger.restore(backup)
    with pytest.raises(LedgerBehindError, match="kafka-lake rebuild orders"):
        decisions.cancel(world.worker(), wave, "not now")
    with pytest.raises(LedgerBehindError):
        world.plan()
    assert world.ledger.ranges(wave=wave)[0].state is RangeState.PLANNED


def published(world: World, passing: Passing) -> None:
    """Publish a wave."""
    world.ingest(world.planned_wave(), world.worker(passing))


def cancelled(world: World, passing: Passing) -> None:
    """Cancel a wave that a dead worker has left: a fence commit."""
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("runner.stage")))
    world.lease_ends()
    decisions.cancel(world.worker(passing), wave, "not now")


def reopened(world: World, passing: Passing) -> None:
    """Reopen what is committed: it is on record before main is moved."""
    world.run()
    world.reopen(0, 3, worker=world.worker(passing))


@pytest.mark.parametrize(
    ("commits", "call"), [(published, "table.publish"), (cancelled, "table.fence"), (reopened, "table.fence")]
)
def test_commit_that_an_old_ledger_knows_hides_none_before_it(
    commits: Callable[[World, Passing], None], call: str
) -> None:
    """A commit may be made long after the ledger knows of it: what others published in between is not read again,
    however far the old ledger has counted on."""
    world, backups = World(partitions=2), []
    world.produce(3)

    def others() -> None:
        backups.append(world.ledger.snapshot())
        world.produce(4, 1)
        world.ingest(world.planned_wave())

    commits(world, Before(call, others))
    lost = world.ledger.events("orders")[-1].sequence
    world.ledger.restore(backups[0])
    world.lease_ends()
    while world.ledger.events("orders")[-1].sequence < lost:
        world.with_spec(leader_wait=world.spec.leader_wait + 1)
        world.ledger.commit(SavePipeline(spec=world.spec))
    with pytest.raises(LedgerBehindError, match=r"knows without what was published before it.*rebuild orders"):
        world.run()
    assert world.offsets(1) == [0, 1, 2, 3]
    rebuild(world.worker(), world.spec)
    for item in world.ledger.ranges(pipeline="orders", states=(RangeState.CANCELLED,)):
        decisions.release(world.worker(), item.id, None)
    assert world.run().exit_code == 0
    world.check()


def test_table_of_an_older_version_names_no_line(world: World, wave: str) -> None:
    """Its newest commit is asked for alone; the next one names a line."""
    world.ingest(wave)
    store = world.table._store
    assert store is not None
    store.lines = {}
    world.produce(1)
    assert world.run().exit_code == 0
    (line,) = world.table.head().lines.values()
    assert line in [event.line for event in world.ledger.events("orders")]


def test_ledger_behind_is_found_behind_an_ownership_commit(world: World, wave: str) -> None:
    """What the ledger must know is the newest commit that published, though the pipeline has claimed a topic since."""
    backup = world.ledger.snapshot()
    world.ingest(wave)
    world.table.claim_ownership(LEDGER_ID, "orders", ["AAAAAAAAAAAAAAAAAAAAXX"])
    world.ledger.restore(backup)
    with pytest.raises(LedgerBehindError):
        world.plan()


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("who", ["another pipeline", "a new ledger"])
def test_owner_whose_properties_an_engine_has_dropped_is_known_by_its_receipts(
    world: World, wave: str, who: str, dry_run: bool
) -> None:
    """No ledger lands the topic a second time; the owner itself goes on, and is on record again."""
    world.ingest(wave)
    world.advance()
    world.table.drop_properties()
    spec, ledger = world.spec, world.ledger
    refused: type[Exception] = OwnershipError
    if who == "another pipeline":
        world.with_spec(name="payments")
    else:
        world.ledger, refused = MemoryLedger(world.clock, ledger_id="2" * 32), LedgerBehindError
    with pytest.raises(refused):
        world.plan(dry_run=dry_run)
    world.spec, world.ledger = spec, ledger
    world.produce(1)
    assert world.run().exit_code == 0
    assert set(world.table.head().owners.values()) == {(LEDGER_ID, "orders")}
    world.check()


def test_ledger_behind_is_found_behind_another_ledgers_commit(world: World, wave: str) -> None:
    """Two ledgers that share a table each need their own newest token."""
    backup = world.ledger.snapshot()
    world.ingest(wave)
    token = Token(pipeline="payments", wave="w9", attempt="9" * 16, fence=1, ranges="", kind="fence")
    world.table.fence(world.table.head(), "2" * 32, token)
    world.ledger.restore(backup)
    with pytest.raises(LedgerBehindError):
        world.plan()


@pytest.mark.parametrize("restored", [False, True])
def test_rolled_back_table_is_refused(world: World, wave: str, restored: bool) -> None:
    """Rows that are committed and gone are a stop, not a reason to go on behind them; also where all of the table's
    metadata are older ones."""
    before, metadata = world.table.head().snapshot, world.table.metadata()
    assert before is not None
    world.ingest(wave)
    world.produce(1)
    if restored:
        world.table.set_back(metadata)
    else:
        world.table.roll_back(before)
    way_back = "no such snapshot any more" if restored else "Set main to that snapshot again"
    with pytest.raises(IdentityError, match=f"{way_back}.*accept-rollback"):
        world.plan()


def test_ledger_behind_is_found_behind_another_pipelines_commit(world: World, wave: str) -> None:
    """Nor does another pipeline of the same ledger hide it: the ledger knows that one's commits."""
    backup = world.ledger.snapshot()
    world.ingest(wave)
    world.ledger.restore(backup)
    world.create("payments")
    world.with_spec(name="payments", topics=("payments",))
    world.produce(1, topic="payments")
    world.ingest(world.planned_wave())
    world.with_spec(name="orders", topics=("orders",))
    with pytest.raises(LedgerBehindError):
        world.plan()


def test_rolled_back_table_is_refused_though_older_waves_are_there(world: World, wave: str) -> None:
    """The newest committed wave counts, not any; a dry run says the same."""
    world.ingest(wave)
    before = world.table.head().snapshot
    assert before is not None
    world.produce(1)
    world.ingest(world.planned_wave())
    world.table.roll_back(before)
    for dry_run in (False, True):
        with pytest.raises(IdentityError, match=r"rolled back.*rebuild orders --accept-rollback"):
            world.plan(dry_run=dry_run)


@pytest.mark.parametrize("deleted", [False, True])
def test_expired_history_is_no_rollback(world: World, wave: str, deleted: bool) -> None:
    """Nor where another engine has deleted all that was committed: a commit that can have expired is not missing."""
    world.ingest(wave)
    world.table.delete_foreign(lambda _: deleted)
    world.table.expire()
    world.produce(1)
    world.ingest(world.planned_wave())
    assert world.offsets() == ([3] if deleted else [0, 1, 2, 3])


def test_rows_that_another_engine_deleted_are_no_rollback(world: World, wave: str) -> None:
    """Retention on the landing table stops no quiet stream: main still stands on what was committed."""
    world.ingest(wave)
    world.table.delete_foreign(lambda _: True)
    assert world.run().exit_code == 0
    world.produce(1)
    assert world.run().exit_code == 0
    assert world.offsets() == [3]


def test_plan_asks_about_rollback_by_the_loads_it_makes(world: World) -> None:
    """However many waves there are: no load more, no row is read, and one statement for each look at the table."""
    for _ in range(7):
        world.produce(1)
        world.ingest(world.planned_wave())
    world.produce(1)
    calls = Calls()
    world.plan(worker=world.worker(calls))
    assert calls.made.count("ledger.published") == 3  # before the decision, before it is recorded and the owner
    assert not {"table.commits", "table.attempt_rows"} & set(calls.made)


def ingested_together(world: World, waves: list[str], then: Callable[[], None]) -> list[Exception]:
    """Publish waves at the same time: something happens when all have looked at the same main; returns what failed."""
    failed: list[Exception] = []

    def go_on() -> None:
        failed.extend(ingested_together(world, waves[1:], then)) if waves[1:] else then()

    looked = Before("table.find_commit", go_on, nth=2)  # the first look is the claim's
    try:
        world.ingest(waves[0], world.worker(looked))
    except IdentityError as error:
        failed.append(error)
    return failed


def settled_and_planned(world: World, first: str) -> list[str]:
    """Commit the first wave of eight."""
    world.ingest(first)
    waves = []
    for _ in range(7):
        world.produce(1)
        waves.append(world.planned_wave())
    return waves


@pytest.mark.parametrize("restored", [False, True])
def test_rollback_is_found_by_every_one_of_many_publishers(world: World, wave: str, restored: bool) -> None:
    """However many have passed their first look, and whether main went back or the table's metadata with it: what
    they would commit is not behind what is gone."""
    before, metadata = world.table.head().snapshot, world.table.metadata()
    waves = settled_and_planned(world, wave)
    assert before is not None

    def roll_back() -> None:
        if restored:
            world.table.set_back(metadata)
        else:
            world.table.roll_back(before)

    failed = ingested_together(world, waves, roll_back)
    assert [error for error in failed if "rolled back" in str(error)] == failed
    assert len(failed) == len(waves)
    assert world.offsets() == []
    rebuild(world.worker(), world.spec, accept_rollback=True)
    world.watermarks.clear()
    assert world.run().exit_code == 0
    world.check()


def test_publisher_that_looked_before_a_commit_cannot_land_after_its_rollback(world: World, wave: str) -> None:
    """Main is at the very snapshot that was looked at, and was elsewhere meanwhile: what it held then is gone."""
    world.produce(1)
    other = world.planned_wave()
    before = world.table.head().snapshot
    assert before is not None

    def publish_and_roll_back() -> None:
        world.ingest(other)
        world.table.roll_back(before)

    with pytest.raises(IdentityError, match="rolled back"):
        world.ingest(wave, world.worker(Before("table.publish", publish_and_roll_back)))
    assert world.offsets() == []


def test_cancel_does_not_hide_a_rollback(world: World, wave: str) -> None:
    """A fence commit would be the newest one of ours, and there: it is refused where main has lost the one before."""
    world.ingest(wave)
    world.produce(1)
    other = world.planned_wave()
    before = world.table.commits()[0].snapshot
    with pytest.raises(KilledError):
        world.ingest(other, world.worker(Killed("runner.stage")))
    world.lease_ends()
    world.table.roll_back(before)
    with pytest.raises(IdentityError, match="rolled back"):
        decisions.cancel(world.worker(), other, "not now")
    with pytest.raises(IdentityError, match="rolled back"):
        world.plan()


def test_rollback_of_a_publish_that_is_not_on_record_is_found(world: World, wave: str) -> None:
    """Its worker died before it could record it: only the table knows that main was moved away from it."""
    world.ingest(wave)
    before = world.table.commits()[-1].snapshot
    others = []
    for call in ("ledger.record_commit", "runner.stage"):
        world.produce(1)
        others.append(world.planned_wave())
        with pytest.raises(KilledError):
            world.ingest(others[-1], world.worker(Killed(call)))
    world.lease_ends()
    world.table.roll_back(before)
    for refused in (lambda: decisions.cancel(world.worker(), others[1], "not now"), world.plan):
        with pytest.raises(IdentityError, match="rolled back"):
            refused()


@pytest.mark.parametrize("committed", [1, 2])
def test_rollback_does_not_hide_behind_waves_that_were_planned_before(world: World, wave: str, committed: int) -> None:
    """What they commit would be the newest, and all of it there: the first of them is refused before it is visible."""
    waves = [wave]
    for _ in range(7):
        world.produce(1)
        waves.append(world.planned_wave())
    before = world.table.head().snapshot
    assert before is not None
    for item in waves[:committed]:
        world.ingest(item)
    rolled_back = Before("table.add_receipts", lambda: world.table.roll_back(before))
    for item in waves[committed:]:
        with pytest.raises(IdentityError, match=r"rolled back.*rebuild orders --accept-rollback"):
            world.ingest(item, world.worker(rolled_back))
    assert world.offsets() == []
    rebuild(world.worker(), world.spec, accept_rollback=True)
    world.watermarks.clear()
    assert world.run().exit_code == 0
    world.check()
