"""What every `LakeTable` does: the lake in memory and Iceberg tables pass the same tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_lake.core.ddl import fields_of
from airflow_kafka_lake.core.errors import JobFailedError, SchemaMismatchError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.records import AttemptRows, Publication
from airflow_kafka_lake.core.ledger.waves import (
    DECODE,
    EMPTY_TABLE,
    Absent,
    Committed,
    Found,
    PublishOutcome,
    Rejected,
    Requirement,
    TableHead,
    Unclear,
    Unknown,
)
from airflow_kafka_lake.core.offsets import RangeSet, Stream
from airflow_kafka_lake.core.spark.job import LANDED, PositionColumns
from airflow_kafka_lake.ports import Lake
from tests.contracts.lake_worlds import (
    AT,
    LEDGER,
    TOPIC_ID,
    IcebergWorld,
    MemoryWorld,
    World,
    attempt_id,
    offsets,
    receipt,
    record,
    token,
)
from tests.kit.memory_lake.store import COLUMNS

FOREIGN = ("foreign_lake", "rest_catalog")
MINUTE = timedelta(minutes=1)


@pytest.fixture(
    params=[
        "memory",
        pytest.param("iceberg", marks=pytest.mark.slow),
        *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.nightly]) for name in FOREIGN),
    ]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A lake whose table exists and is owned, as it is before any attempt; by night also of servers of other makes."""
    foreign = request.getfixturevalue(request.param) if request.param in FOREIGN else None
    made: World = MemoryWorld() if request.param == "memory" else IcebergWorld(tmp_path, foreign=foreign)
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    yield made
    if isinstance(made, IcebergWorld):
        made.lake.close()


def test_a_look_names_where_files_can_be_written(world: World) -> None:
    """Also before the table is there, unless its place is a REST catalog's to choose; nothing is left of it."""
    before = world.table.head()
    is_chosen = not (isinstance(world, IcebergWorld) and world.lake.catalog.identity)
    for name, is_known in ((world.table.identifier, True), ("raw.not_there", is_chosen)):
        assert bool(_lake(world).look(name)) is is_known
    assert world.table.head() == before
    with pytest.raises(UnknownSubjectError):
        _lake(world).table("raw.not_there").head()


def test_a_rehearsal_leaves_nothing(world: World, tmp_path: Path) -> None:
    """A table is made, tried and removed, also in a namespace that is not there: no table, namespace, file or folder
    of it stays, and the tables that are there do not notice."""
    before, files = world.table.head(), sorted(tmp_path.rglob("*"))
    namespace, _, table = world.table.identifier.rpartition(".")
    for name in (f"{namespace}.{table}", f"{namespace}.not_there", "elsewhere.orders"):
        place, left = _lake(world).rehearse(name, "days(kafka_timestamp)")
        assert (bool(place), left) == (True, "")
    assert world.table.head() == before
    assert sorted(tmp_path.rglob("*")) == files
    if isinstance(world, IcebergWorld):
        api = world.lake.catalog.api
        assert (api.namespace_exists("elsewhere"), api.list_tables(namespace)) == (False, [(namespace, table)])


@pytest.mark.slow
def test_a_rehearsal_keeps_an_empty_folder_that_was_there(tmp_path: Path) -> None:
    """A person may have made it, with the rights that Spark's user needs."""
    lake, folder = IcebergWorld(tmp_path).lake, tmp_path / "warehouse" / "theirs"
    folder.mkdir(parents=True)
    assert lake.rehearse("theirs.orders", "")[1] == ""
    assert folder.is_dir()
    assert list(folder.iterdir()) == []


def _lake(world: World) -> Lake:
    assert isinstance(world, MemoryWorld | IcebergWorld)
    return world.lake


def staged(world: World, attempt: str) -> int:
    """Return the snapshot that an audit would record."""
    found = world.table.staged(attempt)
    assert found is not None
    return found.snapshot


def publish(world: World, attempt: str, head: TableHead | None = None, audited: int | None = None) -> PublishOutcome:
    """Publish what an attempt has staged, on a head that defaults to the newest."""
    return world.table.publish(
        Publication(
            head=head or world.table.head(),
            audited=staged(world, attempt) if audited is None else audited,
            token=token(attempt),
            ledger_id=LEDGER,
        )
    )


def requirement(outcome: PublishOutcome) -> Requirement:
    """Return what a rejected commit names."""
    assert isinstance(outcome, Rejected), outcome
    return outcome.requirement


# Branches


def test_branches_are_those_of_attempts(world: World) -> None:
    """Begun and staged attempts have one, dropped and published ones have none; main is none of ours."""
    first, second, third = attempt_id(), attempt_id(), attempt_id()
    assert world.table.branches() == ()
    for attempt in (first, second, third):
        world.stage(attempt, offsets(1))
    assert world.table.branches() == tuple(sorted((first, second, third)))
    world.table.drop(second)
    publish(world, third)
    assert world.table.branches() == (first,)


def test_missing_table_has_no_branches(world: World) -> None:
    """There is nothing to sweep where nothing is."""
    other = MemoryWorld().table if isinstance(world, MemoryWorld) else world.lake.table("raw.none")  # type: ignore[attr-defined]
    assert other.branches() == ()


# Table and owner


def test_ensure_twice_keeps_the_table(world: World) -> None:
    """A second `ensure` finds what the first one created."""
    assert world.table.ensure("").uuid == world.table.head().uuid


def test_missing_table_has_no_head(world: World) -> None:
    """A table that was never ensured is not an empty one."""
    other = MemoryWorld().table if isinstance(world, MemoryWorld) else world.lake.table("raw.none")  # type: ignore[attr-defined]
    with pytest.raises(UnknownSubjectError, match="does not exist"):
        other.head()


def test_head_has_the_columns_as_spark_reads_them(world: World) -> None:
    """In the order in which jobs write them."""
    columns = dict(fields_of(world.table.head().columns))
    assert (columns, tuple(columns)) == (COLUMNS, LANDED)


def test_owner_is_recorded_in_a_commit_that_moves_main(world: World) -> None:
    """Ownership is in the head, and hides no earlier token: a ledger that is behind must still be found out."""
    before = world.table.head()
    outcome = world.table.claim_ownership(LEDGER, "orders", [TOPIC_ID, "B" * 22])
    after = world.table.head()
    assert isinstance(outcome, Committed)
    assert after.snapshot == outcome.snapshot != before.snapshot
    assert after.owners == {TOPIC_ID: (LEDGER, "orders"), "B" * 22: (LEDGER, "orders")}
    assert after.last == before.last


def test_owner_claimed_again_commits_nothing(world: World) -> None:
    """The owner gets the present head."""
    head = world.table.head()
    assert world.table.claim_ownership(LEDGER, "orders", [TOPIC_ID]) == Committed(snapshot=head.snapshot or 0)
    assert world.table.head() == head


@pytest.mark.parametrize(("ledger", "pipeline"), [(LEDGER, "copy"), ("2" * 32, "orders")])
def test_second_owner_is_rejected_by_name(world: World, ledger: str, pipeline: str) -> None:
    """Another pipeline, or another ledger, is refused, and the refusal names the owner (law L18)."""
    outcome = world.table.claim_ownership(ledger, pipeline, [TOPIC_ID])
    assert requirement(outcome) is Requirement.OWNER
    assert isinstance(outcome, Rejected)
    assert f"belongs to pipeline orders of ledger {LEDGER}" in outcome.detail


def test_owner_changes_with_the_commit_that_moves_main(world: World) -> None:
    """A rebuild hands topics over from a lost ledger: one commit, and the old ledger's publisher is refused."""
    attempt, said = attempt_id(), replace(token(attempt_id(), "fence"), wave="rebuild-1")
    world.stage(attempt, offsets(0))
    before = world.table.head()
    outcome = world.table.fence(before, "2" * 32, said, owned=["B" * 22, TOPIC_ID])
    after = world.table.head()
    assert isinstance(outcome, Committed)
    assert after.snapshot == outcome.snapshot != before.snapshot
    assert after.owners == dict.fromkeys([TOPIC_ID, "B" * 22], ("2" * 32, "orders"))
    assert after.last["2" * 32, "orders"] == said
    assert requirement(publish(world, attempt)) is Requirement.OWNER


def test_publish_for_another_owner_is_rejected(world: World) -> None:
    """Publishing checks the owner on the load that supplies the head."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    publication = Publication(
        head=world.table.head(),
        audited=staged(world, attempt),
        token=replace(token(attempt), pipeline="copy"),
        ledger_id=LEDGER,
    )
    assert requirement(world.table.publish(publication)) is Requirement.OWNER


# Staged


def test_staged_rows_are_on_no_readers_main(world: World) -> None:
    """What is staged is complete, counted, and invisible."""
    attempt = attempt_id()
    world.stage(attempt, [*offsets(5, 6, 7, 9), *offsets(3, partition=1)])
    beats: list[int] = []
    found = world.table.staged(attempt, beats.append)
    assert found is not None
    assert sum(beats) == 5, "the beats tell how many rows were read"
    assert [(s.stream.partition, s.offsets, s.duplicates) for s in found.streams] == [
        (0, RangeSet.of((5, 8), (9, 10)), 0),
        (1, RangeSet.of((3, 4)), 0),
    ]
    assert found.bytes > 0
    assert world.rows() == []


def test_staged_excludes_what_main_holds(world: World) -> None:
    """A branch shows all of main; staged is only what the attempt added."""
    first, second = attempt_id(), attempt_id()
    world.stage(first, offsets(0, 1))
    assert isinstance(publish(world, first), Committed)
    world.stage(second, offsets(2))
    found = world.table.staged(second)
    assert found is not None
    assert [s.offsets for s in found.streams] == [RangeSet.of((2, 3))]


def test_staged_counts_an_offset_written_twice(world: World) -> None:
    """Rows beyond one per offset are duplicates, wherever they stand."""
    attempt = attempt_id()
    world.stage(attempt, offsets(4, 5, 6, 5, 9, 4))
    found = world.table.staged(attempt)
    assert found is not None
    assert [(s.offsets, s.duplicates) for s in found.streams] == [(RangeSet.of((4, 7), (9, 10)), 2)]


def test_unfinished_job_has_staged_nothing(world: World) -> None:
    """No branch, or a branch without the job's commit, is not an empty result."""
    attempt = attempt_id()
    assert world.table.staged(attempt) is None
    world.begin_job(attempt)
    assert world.table.staged(attempt) is None


def test_finished_job_without_rows_has_staged_zero_rows(world: World) -> None:
    """Zero rows are a result."""
    attempt = attempt_id()
    world.stage(attempt, [])
    found = world.table.staged(attempt)
    assert found is not None
    assert (found.streams, found.bytes) == ((), 0)


def test_damaged_file_fails_the_attempt(world: World) -> None:
    """Every staged file is opened; one that cannot be read is a failed job and not a gap."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    world.damage(attempt)
    with pytest.raises(JobFailedError, match=r"Staged file .* cannot be read"):
        world.table.staged(attempt)


def test_rows_of_another_attempt_are_refused(world: World) -> None:
    """Rows that name another attempt could never be found again by `ingest_attempt`."""
    attempt, other = attempt_id(), attempt_id()
    world.stage(attempt, offsets(0), written_as=other)
    with pytest.raises(SchemaMismatchError, match=other):
        world.table.staged(attempt)


# Publish


def test_published_rows_are_visible_and_the_token_testifies(world: World) -> None:
    """One commit shows the rows, names its attempt, and takes the branch away."""
    attempt = attempt_id()
    before = world.table.head()
    world.stage(attempt, offsets(0, 1, 2))
    outcome = publish(world, attempt)
    head = world.table.head()
    assert outcome == Committed(snapshot=head.snapshot or 0)
    assert world.rows() == [(0, attempt), (1, attempt), (2, attempt)]
    assert head.last == {(LEDGER, "orders"): token(attempt)}
    assert world.table.staged(attempt) is None
    assert world.table.find_commit([record(attempt, before)]) == Found(
        attempt=attempt, snapshot=head.snapshot, head=head
    )


def test_publish_on_a_moved_main_is_rejected(world: World) -> None:
    """Another writer's commit since the look ends this try, and a new look and try succeed."""
    attempt = attempt_id()
    head = world.table.head()
    world.stage(attempt, offsets(0))
    world.write_foreign()
    assert requirement(publish(world, attempt, head)) is Requirement.MAIN_HEAD
    assert attempt not in {found for _, found in world.rows()}
    assert isinstance(publish(world, attempt), Committed)
    assert (0, attempt) in world.rows()


def test_publish_twice_is_rejected(world: World) -> None:
    """The second try finds main moved, also that of another process."""
    attempt = attempt_id()
    head = world.table.head()
    world.stage(attempt, offsets(0))
    audited = staged(world, attempt)
    assert isinstance(publish(world, attempt, head, audited), Committed)
    assert requirement(publish(world, attempt, head, audited)) is Requirement.MAIN_HEAD
    assert requirement(publish(world, attempt, None, audited)) is Requirement.STAGING_BRANCH
    assert world.rows() == [(0, attempt)]


def test_publish_of_a_changed_branch_is_rejected(world: World) -> None:
    """What is published is what was audited, never the branch as it is now."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    audited = staged(world, attempt)
    world.table.drop(attempt)
    world.stage(attempt, offsets(0, 1))
    assert requirement(publish(world, attempt, None, audited)) is Requirement.STAGING_BRANCH
    assert world.rows() == []


def test_publish_into_a_recreated_table_is_rejected(world: World) -> None:
    """A table of the same name with another UUID is another table (law L12)."""
    attempt = attempt_id()
    head = world.table.head()
    world.stage(attempt, offsets(0))
    audited = staged(world, attempt)
    world.recreate()
    assert requirement(publish(world, attempt, head, audited)) is Requirement.TABLE_UUID


def test_publish_under_a_changed_spec_is_rejected(world: World) -> None:
    """Files written under another partition spec would be missed by later filters: they are staged again."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    world.change_spec()
    assert requirement(publish(world, attempt)) is Requirement.SPEC


@pytest.mark.parametrize("staging", [True, False], ids=["staged without rows", "nothing staged"])
def test_zero_rows_are_published_by_an_empty_commit(world: World, *, staging: bool) -> None:
    """A wave without rows leaves its token like any other."""
    attempt = attempt_id()
    before = world.table.head()
    if staging:
        world.stage(attempt, [])
    audited = staged(world, attempt) if staging else None
    publication = Publication(head=before, audited=audited, token=token(attempt), ledger_id=LEDGER)
    assert isinstance(world.table.publish(publication), Committed)
    assert isinstance(world.table.find_commit([record(attempt, before)]), Found)
    assert world.table.staged(attempt) is None


def test_fence_makes_an_earlier_publisher_fail(world: World) -> None:
    """After a fence commit no publisher with an earlier head can publish (law L11)."""
    attempt = attempt_id()
    head = world.table.head()
    world.stage(attempt, offsets(0))
    audited = staged(world, attempt)
    fence = world.table.fence(head, LEDGER, token(attempt_id(), kind="fence"))
    assert isinstance(fence, Committed)
    assert requirement(publish(world, attempt, head, audited)) is Requirement.MAIN_HEAD
    assert requirement(world.table.fence(head, LEDGER, token(attempt_id(), kind="fence"))) is Requirement.MAIN_HEAD


def test_fence_stops_an_earlier_publisher_even_when_main_is_rolled_back(world: World) -> None:
    """What it ends is without a branch in the same commit; branches of others, and those that never were, stay."""
    ended, other = attempt_id(), attempt_id()
    head = world.table.head()
    assert head.snapshot is not None
    world.stage(ended, offsets(0))
    world.stage(other, offsets(1))
    audited = staged(world, ended)
    fence = world.table.fence(head, LEDGER, token(attempt_id(), kind="fence"), ended=[ended, attempt_id()])
    assert isinstance(fence, Committed)
    assert world.table.branches() == (other,)
    world.roll_back(head.snapshot)
    assert requirement(publish(world, ended, head, audited)) is Requirement.MAIN_HEAD
    assert requirement(publish(world, ended, audited=audited)) is Requirement.STAGING_BRANCH
    assert isinstance(publish(world, other), Committed)
    assert world.rows() == [(1, other)]


def test_fence_of_an_attempt_is_not_its_publish(world: World) -> None:
    """A fence commit names an attempt and publishes nothing of it."""
    attempt = attempt_id()
    head = world.table.head()
    world.table.fence(head, LEDGER, token(attempt, kind="fence"))
    assert isinstance(world.table.find_commit([record(attempt, head)]), Absent)


def test_lost_answer_is_unknown_and_a_look_decides(world: World) -> None:
    """Landed or not, the outcome is unknown, and the caller finds out by a search (law L9)."""
    landed, lost = attempt_id(), attempt_id()
    base = world.table.head()
    world.stage(landed, offsets(0))
    world.lose_next_answer(landed=True)
    assert isinstance(publish(world, landed), Unknown)
    assert isinstance(world.table.find_commit([record(landed, base)]), Found)
    base = world.table.head()
    world.stage(lost, offsets(1))
    world.lose_next_answer(landed=False)
    assert isinstance(publish(world, lost), Unknown)
    assert isinstance(world.table.find_commit([record(lost, base)]), Absent)
    assert isinstance(publish(world, lost), Committed)
    assert world.rows() == [(0, landed), (1, lost)]


def test_commit_that_was_only_answered_is_unknown(world: World) -> None:
    """A catalog's word alone commits nothing: main does not show it, the branch stays, and the next try lands (law L9).

    So it is with a fence, an owner and a branch that is dropped.
    """
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    head = world.table.head()
    world.lie_at_next_commit()
    assert isinstance(publish(world, attempt), Unknown)
    world.lie_at_next_commit()
    assert isinstance(world.table.fence(head, LEDGER, token(attempt, "fence"), ended=[attempt]), Unknown)
    world.lie_at_next_commit()
    assert isinstance(world.table.claim_ownership(LEDGER, "orders", ["B" * 22]), Unknown)
    assert (world.table.head(), world.table.branches(), world.rows()) == (head, (attempt,), [])
    assert isinstance(publish(world, attempt), Committed)
    assert world.rows() == [(0, attempt)]


def test_staged_files_survive_expiry_until_published(world: World) -> None:
    """The branch protects what is staged from expiry, and a publish protects it afterwards."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    world.write_foreign()
    world.expire()
    assert isinstance(publish(world, attempt), Committed)
    world.expire()
    assert [row for row in world.rows() if row[1] == attempt] == [(0, attempt), (1, attempt)]


def test_dropped_attempt_is_gone_and_main_stays(world: World) -> None:
    """Dropping takes the branch away and nothing else; dropping twice is fine."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    head = world.table.head()
    world.table.drop(attempt)
    world.table.drop(attempt)
    assert world.table.staged(attempt) is None
    assert world.table.head() == head


def test_publish_of_a_dropped_branch_is_rejected(world: World) -> None:
    """A publisher that passed its checks before its branch was swept moves nothing: the commit names the branch."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    audited = staged(world, attempt)
    world.table.drop(attempt)
    head = world.table.head()
    assert requirement(publish(world, attempt, audited=audited)) is Requirement.STAGING_BRANCH
    assert world.table.head() == head


# Look


def test_attempt_without_a_base_is_absent(world: World) -> None:
    """An attempt that never stored its base never published, so nothing is looked for."""
    assert isinstance(world.table.find_commit([record(attempt_id(), None)]), Absent)


def test_unpublished_attempt_is_absent_at_the_head(world: World) -> None:
    """Staged is not published, and the answer names the head it is true for."""
    attempt = attempt_id()
    base = world.table.head()
    world.stage(attempt, offsets(0))
    world.write_foreign()
    assert world.table.find_commit([record(attempt, base)]) == Absent(head=world.table.head())


def test_earlier_attempt_of_the_wave_is_found(world: World) -> None:
    """The look is for any of a wave's attempts, back to the oldest base."""
    first, second = attempt_id(), attempt_id()
    base = world.table.head()
    world.stage(first, offsets(0))
    publish(world, first)
    world.write_foreign()
    look = world.table.find_commit([record(first, base), record(second, world.table.head())])
    assert isinstance(look, Found)
    assert look.attempt == first
    assert look.snapshot is not None


def test_rows_testify_when_history_is_expired(world: World) -> None:
    """After compaction and expiry the token is gone, and the rows still say by which attempt they came."""
    attempt = attempt_id()
    base = world.table.head()
    world.stage(attempt, offsets(0, 1))
    publish(world, attempt)
    world.compact()
    world.expire()
    assert world.table.find_commit([record(attempt, base)]) == Found(
        attempt=attempt, snapshot=None, head=world.table.head(), is_ours=False
    )


def test_published_receipt_testifies_when_history_is_expired(world: World) -> None:
    """A wave without rows is remembered by the receipt of its commit."""
    attempt = attempt_id()
    base = world.table.head()
    world.write_foreign()
    world.expire()
    world.table.add_receipts([receipt(attempt, "rows")])
    assert isinstance(world.table.find_commit([record(attempt, base)]), Unclear)
    world.table.add_receipts([receipt(attempt, "published")])
    assert world.table.find_commit([record(attempt, base)]) == Found(
        attempt=attempt, snapshot=None, head=world.table.head()
    )


def test_expired_history_is_unclear(world: World) -> None:
    """A walk that ends before the base is no proof of absence (law L5)."""
    attempt = attempt_id()
    base = world.table.head()
    world.write_foreign()
    world.expire()
    look = world.table.find_commit([record(attempt, base)])
    assert isinstance(look, Unclear)
    assert "expired" in look.reason or "ends before" in look.reason


def test_expired_history_of_an_empty_table_is_unclear(world: World) -> None:
    """That the oldest snapshot left has no parent does not make it the table's first."""
    attempt = attempt_id()
    world.write_foreign()
    assert isinstance(world.table.find_commit([record(attempt, EMPTY_TABLE)]), Absent)
    world.expire()
    assert isinstance(world.table.find_commit([record(attempt, EMPTY_TABLE)]), Unclear)


def test_rolled_back_main_is_unclear(world: World) -> None:
    """A base that is not in main's history any more proves nothing."""
    attempt = attempt_id()
    earlier = world.table.head().snapshot
    assert earlier is not None
    world.write_foreign()
    base = world.table.head()
    world.roll_back(earlier)
    assert isinstance(world.table.find_commit([record(attempt, base)]), Unclear)


# Contents and receipts


def test_positions_are_read_from_any_writer(world: World) -> None:
    """The offsets of some topics, of all writers or, with `live_only`, of rows without an attempt."""
    attempt, columns = attempt_id(), PositionColumns()
    world.stage(attempt, [*offsets(0, 1, 4), *offsets(4, partition=1), *offsets(0, topic_id="other")])
    publish(world, attempt)
    world.write_foreign()
    found = world.table.positions(columns, ["orders"], live_only=False)
    assert [
        (item.stream.topic, item.stream.topic_id, item.stream.partition, item.offsets, item.duplicates)
        for item in found
    ] == [
        ("orders", "", 0, RangeSet.of((0, 2), (4, 5)), 1),
        ("orders", "", 1, RangeSet.of((4, 5)), 0),
    ]
    assert world.table.positions(columns, ["orders"], live_only=True) == ()
    (foreign,) = world.table.positions(columns, ["orders", "other"], live_only=True)
    assert (foreign.stream.topic, foreign.offsets) == ("other", RangeSet.of((0, 1)))


def test_receipts_are_added_once(world: World) -> None:
    """Adding again what is there adds nothing, and only `rows` receipts are an attempt's receipts."""
    attempt, other = attempt_id(), attempt_id()
    rows = [receipt(attempt), receipt(attempt, end=1), receipt(other)]
    assert world.table.receipts(attempt) == ()
    world.table.add_receipts(rows)
    world.table.add_receipts([*rows, receipt(attempt, "published"), receipt(attempt, "published")])
    assert world.table.receipts(attempt) == (receipt(attempt, end=1), receipt(attempt))
    assert world.table.receipts(other) == (receipt(other),)


def test_every_receipt_is_read_back(world: World) -> None:
    """All kinds of all attempts and pipelines with all that they say, oldest first; no receipts table holds none."""
    assert world.table.all_receipts() == ()
    first, second = receipt(attempt_id()), replace(receipt(attempt_id(), "published"), recorded_at=AT + MINUTE)
    third = replace(receipt(attempt_id(), "skip", end=1), pipeline="copies", recorded_at=AT + 2 * MINUTE)
    third = replace(third, offsets=RangeSet.of((0, 3), (7, 8)))
    world.table.add_receipts([third, second])
    world.table.add_receipts([first])
    assert world.table.all_receipts() == (first, second, third)


# History and holdings


def test_history_names_every_commit_and_its_token(world: World) -> None:
    """Oldest first, each upon the one before; what others commit has no token, what is staged is no part of it."""
    attempt, unpublished = attempt_id(), attempt_id()
    owned = world.table.head().snapshot
    world.stage(unpublished, offsets(7))
    world.stage(attempt, offsets(0))
    published = publish(world, attempt)
    world.write_foreign()
    fenced = world.table.fence(world.table.head(), LEDGER, token(unpublished, "fence"))
    assert isinstance(published, Committed)
    assert isinstance(fenced, Committed)
    commits = world.table.commits()
    assert [commit.snapshot for commit in commits] == [owned, published.snapshot, commits[2].snapshot, fenced.snapshot]
    assert [commit.parent for commit in commits] == [None, *(commit.snapshot for commit in commits[:-1])]
    assert [commit.token for commit in commits[1:]] == [token(attempt), None, token(unpublished, "fence")]
    assert [commit.at for commit in commits] == sorted(commit.at for commit in commits)


def test_history_of_a_table_without_commits_is_empty(world: World) -> None:
    """Nothing has happened to a table that was only created."""
    world.recreate()
    assert (world.table.commits(), world.table.attempt_rows()) == ((), ())


def test_expired_and_rolled_back_commits_are_no_history(world: World) -> None:
    """Only what main stands on counts."""
    before = world.table.head().snapshot
    assert before is not None
    world.write_foreign()
    world.roll_back(before)
    assert [commit.snapshot for commit in world.table.commits()] == [before]
    world.write_foreign()
    world.expire()
    assert [commit.snapshot for commit in world.table.commits()] == [world.table.head().snapshot]


def test_holdings_tell_whose_rows_are_there(world: World) -> None:
    """Per attempt and partition, also after compaction and expiry; foreign rows have no attempt."""
    first, second, unpublished = attempt_id(), attempt_id(), attempt_id()
    world.stage(first, [*offsets(0, 1, 4), *offsets(0, partition=1)])
    publish(world, first)
    world.stage(second, [*offsets(1, 5, 5), *offsets(2, topic_id="B" * 22)])
    publish(world, second)
    world.stage(unpublished, offsets(9))
    world.write_foreign()
    expected = (
        AttemptRows(stream=Stream("other", "other", 0), attempt=None, offsets=RangeSet.of((0, 1))),
        holding(first, RangeSet.of((0, 2), (4, 5))),
        holding(first, RangeSet.of((0, 1)), partition=1),
        holding(second, RangeSet.of((1, 2), (5, 6)), duplicates=1),
        holding(second, RangeSet.of((2, 3)), topic_id="B" * 22),
    )
    assert world.table.attempt_rows() == expected
    world.compact()
    world.expire()
    assert world.table.attempt_rows() == expected
    assert world.table.attempt_rows([TOPIC_ID]) == expected[1:4]
    assert world.table.attempt_rows([]) == ()


def holding(
    attempt: str, found: RangeSet, *, partition: int = 0, topic_id: str = TOPIC_ID, duplicates: int = 0
) -> AttemptRows:
    """Return what main holds of topic `orders`."""
    return AttemptRows(
        stream=Stream("orders", topic_id, partition), attempt=attempt, offsets=found, duplicates=duplicates
    )


def test_head_names_the_publish_that_main_was_moved_away_from(world: World) -> None:
    """The newest one of a pipeline, also where others have committed since; not one that main is set to again."""
    before = world.table.head().snapshot
    assert before is not None
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    published = publish(world, attempt)
    assert isinstance(published, Committed)
    assert lost(world) is None
    world.roll_back(before)
    assert lost(world) == published.snapshot
    world.write_foreign()
    assert lost(world) == published.snapshot
    world.roll_back(published.snapshot)
    assert lost(world) is None


def test_head_names_the_publishes_that_lie_beside_main(world: World) -> None:
    """By attempt, also where main's history has expired; nothing staged, no empty commit, none that main stands on."""
    stays, goes = attempt_id(), attempt_id()
    world.stage(stays, offsets(0))
    assert isinstance(publish(world, stays), Committed)
    world.write_foreign()
    world.expire()
    kept = world.table.head().snapshot
    assert kept is not None
    world.stage(goes, offsets(1))
    assert isinstance(publish(world, goes), Committed)
    world.table.fence(world.table.head(), LEDGER, token(attempt_id(), "fence"))
    world.stage(attempt_id(), offsets(2))
    assert world.table.head().ancestry.left == frozenset()
    world.roll_back(kept)
    assert world.table.head().ancestry.left == {goes}


def test_publish_that_a_branch_stands_on_is_not_beside_main_when_history_has_expired(world: World) -> None:
    """Expiry keeps the head of a job's branch and forgets what main has had since: nothing tells that it was left."""
    older, newer = attempt_id(), attempt_id()
    world.stage(older, offsets(0))
    assert isinstance(publish(world, older), Committed)
    world.begin_job(attempt_id())
    world.stage(newer, offsets(1))
    assert isinstance(publish(world, newer), Committed)
    world.write_foreign()
    world.expire()
    head = world.table.head()
    assert (head.ancestry.left, head.lost((LEDGER, "orders"))) == (frozenset(), None)
    assert {row[1] for row in world.rows()} >= {older, newer}


def lost(world: World) -> int | None:
    """Return the snapshot of the newest publish, when main was moved away from it."""
    place = world.table.head().lost((LEDGER, "orders"))
    return place.snapshot if place else None


@pytest.mark.parametrize("ledger", [LEDGER, "2" * 32])
def test_empty_commit_neither_loses_nor_hides_a_publish(world: World, ledger: str) -> None:
    """Main may be rolled back behind it, and not behind the publish; also where another ledger of the pipeline made
    it."""
    before = world.table.head().snapshot
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    published = publish(world, attempt)
    assert isinstance(published, Committed)
    assert before is not None
    world.table.fence(world.table.head(), ledger, token(attempt_id(), "fence"))
    world.roll_back(published.snapshot)
    assert world.table.head().lost((ledger, "orders")) is None
    world.roll_back(before)
    place = world.table.head().lost((ledger, "orders"))
    assert place is not None
    assert place.snapshot == published.snapshot
    world.table.fence(world.table.head(), ledger, token(attempt_id(), "fence"))  # a rebuild has accepted it
    assert world.table.head().lost((ledger, "orders")) is None


def test_history_says_how_many_rows_others_deleted(world: World) -> None:
    """Nothing for commits that only add, or that write the same rows anew."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    publish(world, attempt)
    world.compact()
    world.delete()
    assert world.table.commits()[-1].deleted == 2


def test_deletes_and_expiry_of_others_lose_no_commit(world: World) -> None:
    """Main stands on a commit whose rows are gone, and may stand on one that has expired."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    publish(world, attempt)
    world.delete()
    assert world.rows() == []
    assert lost(world) is None
    world.expire()
    assert lost(world) is None


def test_publish_on_a_head_that_main_went_back_to_is_rejected(world: World) -> None:
    """Main is at the snapshot that was looked at; in between it held a commit of ours, which is gone."""
    first, second = attempt_id(), attempt_id()
    for attempt in (first, second):
        world.stage(attempt, offsets(int(attempt, 16)))
    looked = world.table.head()
    assert isinstance(publish(world, first), Committed)
    assert looked.snapshot is not None
    world.roll_back(looked.snapshot)
    outcome = publish(world, second, head=looked)
    assert requirement(outcome) is Requirement.MAIN_HEAD
    assert world.rows() == []


def test_publish_on_a_head_of_the_same_token_that_main_went_back_to_is_rejected(world: World) -> None:
    """A fence that is repeated has one token: what was published between the two is not lost unseen."""
    fence, first, second = token(attempt_id(), "fence"), attempt_id(), attempt_id()
    for attempt in (first, second):
        world.stage(attempt, offsets(int(attempt, 16)))
    assert isinstance(world.table.fence(world.table.head(), LEDGER, fence), Committed)
    looked = world.table.head()
    assert isinstance(publish(world, first), Committed)
    assert isinstance(world.table.fence(world.table.head(), LEDGER, fence), Committed)
    assert looked.snapshot is not None
    world.roll_back(looked.snapshot)
    assert requirement(publish(world, second, head=looked)) is Requirement.MAIN_HEAD
    assert world.rows() == []


def test_newest_commit_is_kept_for_each_ledger_and_pipeline(world: World) -> None:
    """None hides behind another's, nor behind a commit that only claims a topic."""
    mine, theirs, copied = (token(attempt_id(), "fence") for _ in range(3))
    copied = replace(copied, pipeline="copies")
    for ledger, said in ((LEDGER, mine), ("2" * 32, theirs), (LEDGER, copied)):
        assert isinstance(world.table.fence(world.table.head(), ledger, said), Committed)
    assert isinstance(world.table.claim_ownership(LEDGER, "orders", ["C" * 22]), Committed)
    assert world.table.head().last == {
        (LEDGER, "orders"): mine,
        ("2" * 32, "orders"): theirs,
        (LEDGER, "copies"): copied,
    }


def test_table_names_the_line_of_each_ledgers_history(world: World) -> None:
    """Of the newest commit that names one, also of a publish; a commit that only claims a topic leaves it."""
    lines = [EventRef(sequence=number, digest=f"{number:016x}") for number in (7, 9)]
    fence = token(attempt_id(), "fence")
    assert isinstance(world.table.fence(world.table.head(), LEDGER, fence, line=lines[0]), Committed)
    assert isinstance(world.table.claim_ownership(LEDGER, "orders", ["C" * 22]), Committed)
    assert world.table.head().lines == {(LEDGER, "orders"): lines[0]}
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    staged = world.table.staged(attempt)
    assert staged
    head = world.table.head()
    asked = Publication(head=head, audited=staged.snapshot, token=token(attempt), ledger_id=LEDGER, line=lines[1])
    assert isinstance(world.table.publish(asked), Committed)
    assert world.table.head().lines == {(LEDGER, "orders"): lines[1]}
    world.table.fence(world.table.head(), LEDGER, token(attempt_id(), "fence"))  # as a rebuild does
    assert world.table.head().lines == {}


# Decoded again


AGAIN = f"{DECODE}_{'0' * 16}"


def staged_again(world: World) -> Publication:
    """Stage rows in place of main's, decoded again; return what publishes them on main as it is now."""
    world.stage(AGAIN, offsets(7))
    return Publication(
        head=world.table.head(), audited=staged(world, AGAIN), token=token(AGAIN, DECODE), ledger_id=LEDGER
    )


def test_rows_decoded_again_become_main_and_no_token_is_hidden(world: World) -> None:
    """The staged snapshot is main then, its branch is gone; the newest commit that a ledger must know stays named."""
    attempt = attempt_id()
    world.stage(attempt, offsets(1))
    publish(world, attempt)
    asked = staged_again(world)
    before, rows = world.table.head(), world.rows()
    assert world.table.publish(asked) == Committed(snapshot=asked.audited or 0)
    after = world.table.head()
    assert (after.snapshot, after.last, after.lines) == (asked.audited, before.last, before.lines)
    assert len(world.rows()) == len(rows) + 1
    assert world.table.staged(AGAIN) is None
    assert requirement(world.table.publish(asked)) is Requirement.MAIN_HEAD


def test_rows_decoded_again_hide_no_commit_that_came_first(world: World) -> None:
    """A commit that moved main meanwhile is not lost, though the branch was begun before it."""
    asked = staged_again(world)
    world.write_foreign()
    moved, rows = world.table.head(), world.rows()
    assert requirement(world.table.publish(asked)) is Requirement.MAIN_HEAD
    assert requirement(world.table.publish(replace(asked, head=moved))) is Requirement.STAGING_BRANCH
    assert (world.table.head().snapshot, world.rows()) == (moved.snapshot, rows)


def test_rows_decoded_again_need_their_branch_table_and_owners(world: World) -> None:
    """Not published: a dropped branch, another table's, one whose topic got an owner since the head was checked."""
    asked = staged_again(world)
    foreign = replace(asked.head, owners={TOPIC_ID: ("2" * 32, "orders")})
    assert requirement(world.table.publish(replace(asked, head=foreign))) is Requirement.OWNER
    world.table.drop(AGAIN)
    assert requirement(world.table.publish(asked)) is Requirement.STAGING_BRANCH
    world.recreate()
    assert requirement(world.table.publish(asked)) is Requirement.TABLE_UUID


def test_lost_answer_of_rows_decoded_again_is_seen_on_main(world: World) -> None:
    """If it landed, main is what was staged; if not, the same commit can be made again."""
    asked = staged_again(world)
    world.lose_next_answer(landed=False)
    assert isinstance(world.table.publish(asked), Unknown)
    assert world.table.head().snapshot != asked.audited
    world.lose_next_answer(landed=True)
    assert isinstance(world.table.publish(asked), Unknown)
    assert world.table.head().snapshot == asked.audited
