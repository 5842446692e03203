"""What only a real catalog can show: columns, clocks, races, databases that are away, files that are gone."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestampType
from sqlalchemy import create_engine, make_url, text

from airflow_kafka_lake.adapters.iceberg.head import attempt_with_rows
from airflow_kafka_lake.adapters.iceberg.receipts import RECEIPTS
from airflow_kafka_lake.adapters.iceberg.schema import LANDING
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.errors import (
    JobFailedError,
    KafkaLakeError,
    SchemaMismatchError,
    UnavailableError,
)
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import (
    Absent,
    Committed,
    Found,
    PublishOutcome,
    Rejected,
    Requirement,
    TableHead,
    Unknown,
)
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.spark.job import PositionColumns, branch_of
from airflow_kafka_lake.core.wire import PROVEN
from airflow_kafka_lake.jobs.formats import STAGED_BY
from tests.contracts.lake_worlds import (
    LEDGER,
    NAME,
    TOPIC_ID,
    IcebergWorld,
    attempt_id,
    offsets,
    receipt,
    record,
    token,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> Iterator[IcebergWorld]:
    """A SQLite catalog whose table exists and is owned."""
    made = IcebergWorld(tmp_path)
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    yield made
    made.lake.close()


def publication(world: IcebergWorld, attempt: str, head: TableHead | None = None) -> Publication:
    """Ask for what an attempt has staged to be published on a head that defaults to the newest."""
    staged = world.table.staged(attempt)
    assert staged is not None
    return Publication(head=head or world.table.head(), audited=staged.snapshot, token=token(attempt), ledger_id=LEDGER)


# Columns


def test_created_table_has_the_agreed_columns(world: IcebergWorld) -> None:
    """The table is format 2, unpartitioned, compressed with zstd at level 1, and written without a shuffle."""
    table = world.load()
    assert [field.name for field in table.schema().fields] == [field.name for field in LANDING.fields]
    assert str(table.schema().find_type("kafka_timestamp")) == "timestamptz"
    assert (table.format_version, table.spec().is_unpartitioned()) == (2, True)
    assert table.properties["write.parquet.compression-codec"] == "zstd"
    assert table.properties["write.parquet.compression-level"] == "1"
    assert table.properties["write.distribution-mode"] == "none"
    assert table.properties["write.parquet.dict-size-bytes"] == "65536"


def test_table_that_another_catalog_was_tried_with_is_taken(world: IcebergWorld) -> None:
    """A table that was registered in a SQL catalog keeps the property: here it asks for nothing."""
    with world.load().transaction() as change:
        change.set_properties({PROVEN: "of a REST catalog"})
    head = world.table.head()
    assert head.is_proven
    assert world.table.ensure("") == head


def test_partitioned_table_is_published_into(world: IcebergWorld) -> None:
    """`partition_by` partitions a new table, and staged files of its spec fit."""
    table = world.lake.table("raw.by_topic")
    table.ensure("kafka_topic")
    other = world.lake.catalog.load("raw.by_topic")
    assert [str(field.transform) for field in other.spec().fields] == [str(IdentityTransform())]
    world.table = table
    table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1))
    assert isinstance(table.publish(publication(world, attempt)), Committed)
    assert [holding.offsets.span for holding in table.attempt_rows([TOPIC_ID])] == [2]


def test_misfit_table_is_refused_with_every_difference(world: IcebergWorld) -> None:
    """Missing, mistyped and required columns are all named at once."""
    fields = [field for field in LANDING.fields if field.name not in {"headers", "kafka_partition", "kafka_timestamp"}]
    changed = [
        NestedField(101, "kafka_partition", LongType(), required=False),
        NestedField(102, "kafka_timestamp", TimestampType(), required=False),
        NestedField(103, "extra", IntegerType(), required=True),
        NestedField(104, "note", StringType(), required=False),
    ]
    world.catalog.create_table("raw.misfit", Schema(*fields, *changed))
    with pytest.raises(SchemaMismatchError) as refused:
        world.lake.table("raw.misfit").ensure("")
    assert refused.value.facts["differences"] == [
        "column headers list<struct<key: string, value: binary>> is missing",
        "column kafka_partition is long, int is needed",
        "column kafka_timestamp is timestamp, timestamptz is needed",
        "further column extra is required, it must be nullable",
    ]


def test_further_nullable_columns_are_fine(world: IcebergWorld) -> None:
    """Decoded columns may stand beside the raw ones."""
    with world.load().update_schema() as update:
        update.add_column("decoded", StringType())
    world.table.ensure("")


def test_other_format_version_is_refused(world: IcebergWorld) -> None:
    """Only format version 2 has what publishing needs."""
    world.catalog.create_table("raw.old", LANDING, properties={"format-version": "1"})
    with pytest.raises(SchemaMismatchError, match="format version is 1, 2 is needed"):
        world.lake.table("raw.old").ensure("")


# Staged files


def test_missing_file_fails_the_attempt(world: IcebergWorld) -> None:
    """A staged file that was deleted ends the attempt and is named."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    world.staged_file(attempt).unlink()
    with pytest.raises(JobFailedError, match=r"\.parquet of attempt .* cannot be read \(FileNotFoundError\)"):
        world.table.staged(attempt)


def test_exchanged_file_fails_the_attempt(world: IcebergWorld) -> None:
    """A readable file with other rows than its manifest says is not what the job wrote."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0, 1, 2))
    path = world.staged_file(attempt)
    pq.write_table(pq.read_table(path).slice(0, 2), path)
    with pytest.raises(JobFailedError, match="holds 2 rows where its manifest says 3"):
        world.table.staged(attempt)


def test_branch_written_to_after_its_job_is_refused(world: IcebergWorld) -> None:
    """One commit is all a job makes; a second one, of whomever, ends the attempt."""
    attempt, other = attempt_id(), attempt_id()
    world.stage(attempt, offsets(0))
    world.append(offsets(1), attempt, branch_of(attempt), {})
    with pytest.raises(JobFailedError, match="written to again"):
        world.table.staged(attempt)
    world.stage(other, offsets(0))
    world.append(offsets(0), other, branch_of(other), {STAGED_BY: other})
    with pytest.raises(JobFailedError, match="written to again"):
        world.table.staged(other)


def test_commit_of_another_writer_on_the_branch_is_no_result(world: IcebergWorld) -> None:
    """Only a commit that names the attempt ends its job."""
    attempt = attempt_id()
    world.begin_job(attempt)
    world.append(offsets(0), attempt, branch_of(attempt), {STAGED_BY: attempt_id()})
    assert world.table.staged(attempt) is None


# Commits of others in between


def test_staging_commit_in_between_does_not_disturb_a_publish(world: IcebergWorld) -> None:
    """Another attempt's staging moves the table's pointer, not main: the publish goes through on its head."""
    attempt, other = attempt_id(), attempt_id()
    world.stage(attempt, offsets(0))
    ready = publication(world, attempt)
    with world.before_next_commit(lambda: world.stage(other, offsets(9))):
        assert isinstance(world.table.publish(ready), Committed)
    assert world.rows() == [(0, attempt)]
    assert world.table.staged(other) is not None


def test_commit_to_main_in_between_rejects_a_publish(world: IcebergWorld) -> None:
    """The library would rebase; a publish must not, because no search looked at that head."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    ready = publication(world, attempt)
    with world.before_next_commit(world.write_foreign):
        outcome = world.table.publish(ready)
    assert isinstance(outcome, Rejected)
    assert outcome.requirement is Requirement.MAIN_HEAD
    assert attempt not in {found for _, found in world.rows()}


def test_manifest_is_written_before_the_head_is_loaded(
    world: IcebergWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the load that supplies the head and the commit only one small file is written, and no try repeats it."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    audited = publication(world, attempt)
    real, seen = world.lake.catalog.find, []

    def manifests() -> int:
        return len(list(tmp_path.rglob("*-m0.avro")))

    def counted(identifier: str) -> Table | None:
        seen.append(manifests())
        return real(identifier)

    monkeypatch.setattr(world.lake.catalog, "find", counted)
    before, at_commit = manifests(), []

    def meanwhile() -> None:
        at_commit.append((seen[-1], manifests()))
        world.write_foreign()

    with world.before_next_commit(meanwhile):
        assert isinstance(world.table.publish(audited), Rejected)
    assert at_commit == [(before + 1, before + 1)]
    others = manifests()
    assert isinstance(world.table.publish(replace(audited, head=world.table.head())), Committed)
    assert manifests() == others


def test_schema_changed_after_staging_is_rejected(world: IcebergWorld) -> None:
    """Files of an earlier schema are staged again."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    with world.load().update_schema() as update:
        update.add_column("decoded", StringType())
    outcome = world.table.publish(publication(world, attempt))
    assert isinstance(outcome, Rejected)
    assert outcome.requirement is Requirement.SCHEMA


def test_one_of_many_publishers_on_a_head_wins(world: IcebergWorld) -> None:
    """Whichever workers publish the same wave at the same time, the rows are in the table once."""
    attempts = [attempt_id() for _ in range(4)]
    for attempt in attempts:
        world.stage(attempt, offsets(0, 1))
    head = world.table.head()
    ready = [publication(world, attempt, head) for attempt in attempts]
    together = threading.Barrier(len(ready))

    def publish(one: Publication) -> PublishOutcome:
        lake = IcebergLake(world.settings)
        together.wait()
        try:
            return lake.table(NAME).publish(one)
        finally:
            lake.close()

    with ThreadPoolExecutor(max_workers=len(ready)) as publishers:
        outcomes = list(publishers.map(publish, ready))
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert [offset for offset, _ in world.rows()] == [0, 1]


def test_conflict_after_an_own_success_is_committed(world: IcebergWorld) -> None:
    """A layer below that repeats a request takes its own success for a conflict; the table knows better."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    ready = publication(world, attempt)
    with world.every_commit_sent_twice():
        assert isinstance(world.table.publish(ready), Committed)
    assert world.rows() == [(0, attempt)]


def test_try_after_a_lost_answer_knows_its_own_commit(world: IcebergWorld) -> None:
    """The commit whose answer was lost lands late, during the next try: that try is told it is committed."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    ready = publication(world, attempt)
    with world.next_commit_arrives_late() as arrive:
        assert isinstance(world.table.publish(ready), Unknown)
        with world.before_next_commit(arrive):
            outcome = world.table.publish(ready)
    assert outcome == Committed(snapshot=world.table.head().snapshot or 0)
    assert world.rows() == [(0, attempt)]


def test_commit_on_its_way_is_refused_after_a_fence_and_a_rollback(world: IcebergWorld) -> None:
    """It was sent before the fence commit, and arrives at the very head it was sent for: its branch is gone (L11)."""
    attempt, head = attempt_id(), world.table.head()
    assert head.snapshot is not None
    world.stage(attempt, offsets(0))
    with world.next_commit_arrives_late() as arrive:
        assert isinstance(world.table.publish(publication(world, attempt)), Unknown)
        said = token(attempt_id(), kind="fence")
        assert isinstance(world.table.fence(head, LEDGER, said, ended=[attempt]), Committed)
        world.roll_back(head.snapshot)
        with pytest.raises(CommitFailedException, match=branch_of(attempt)):
            arrive()
    assert world.rows() == []


def test_branch_that_is_written_to_during_a_fence_goes_with_it(world: IcebergWorld) -> None:
    """A job that commits between the load and the fence commit has the fence made anew: nothing staged is left."""
    attempt, head = attempt_id(), world.table.head()
    world.begin_job(attempt)
    said = token(attempt_id(), kind="fence")
    with world.before_next_commit(lambda: world.append(offsets(0), attempt, branch_of(attempt), {STAGED_BY: attempt})):
        assert isinstance(world.table.fence(head, LEDGER, said, ended=[attempt]), Committed)
    assert world.table.branches() == ()


# Receipts


@pytest.mark.nightly  # by day: one of many publishers wins, beside it
@pytest.mark.parametrize("count", [8, 16])
def test_many_workers_add_their_receipts_at_once(world: IcebergWorld, count: int) -> None:
    """No worker loses a finished job to the others: who is not first waits a little, and tries for long."""
    attempts = [attempt_id() for _ in range(count)]
    ready = threading.Barrier(len(attempts))

    def add(attempt: str) -> None:
        lake = IcebergLake(world.settings)
        ready.wait()
        for kind in ("rows", "published"):
            lake.table(NAME).add_receipts([receipt(attempt, kind), receipt(attempt, kind, end=5)])
        lake.close()

    with ThreadPoolExecutor(len(attempts)) as workers:
        assert len(list(workers.map(add, attempts))) == len(attempts)
    found = Counter(row.attempt for row in world.table.all_receipts())
    assert found == dict.fromkeys(attempts, 4)


# What other engines do to rows


def test_equality_deletes_of_others_stop_no_publish(world: IcebergWorld) -> None:
    """Landing needs no count of rows: neither with a whole history, nor with an expired one."""
    first, second = attempt_id(), attempt_id()
    base = world.table.head()
    world.stage(first, offsets(0, 1))
    assert isinstance(world.table.publish(publication(world, first)), Committed)
    world.delete_by_value()
    world.stage(second, offsets(2))
    assert isinstance(world.table.find_commit([record(second, world.table.head())]), Absent)
    assert isinstance(world.table.publish(publication(world, second)), Committed)
    world.expire()
    assert isinstance(world.table.find_commit([record(first, base)]), Found)
    assert attempt_with_rows(world.load(), [first, attempt_id()]) == first


def test_rows_that_equality_deletes_hide_are_not_counted_by_guess(world: IcebergWorld) -> None:
    """What reads which rows are there says whose files stop it and what applies them; older deletes reach nothing."""
    first, second = attempt_id(), attempt_id()
    world.stage(first, offsets(0, 1))
    assert isinstance(world.table.publish(publication(world, first)), Committed)
    world.delete_by_value()
    columns = PositionColumns(topic="kafka_topic", partition="kafka_partition", offset="kafka_offset")
    acts: list[Callable[[], object]] = [
        world.table.attempt_rows,
        lambda: world.table.positions(columns, ["orders"], live_only=False),
    ]
    for act in acts:
        with pytest.raises(SchemaMismatchError, match="have an engine apply them"):
            act()
    world.rewrite()
    assert [str(item.offsets) for item in world.table.attempt_rows()] == ["0-2"]
    world.stage(second, offsets(2))
    assert isinstance(world.table.publish(publication(world, second)), Committed)
    assert len(world.table.attempt_rows()) == 2


def test_rows_deleted_by_position_are_not_shown_and_testify_all_the_same(world: IcebergWorld) -> None:
    """A count of rows leaves them out; that their attempt was published stays true."""
    attempt, base = attempt_id(), world.table.head()
    world.stage(attempt, offsets(0, 1, 2))
    assert isinstance(world.table.publish(publication(world, attempt)), Committed)
    world.delete_by_position(0, 2)
    (left,) = world.table.attempt_rows()
    assert str(left.offsets) == "1-2"
    world.delete_by_position(0, 1, 2)
    world.expire()
    assert world.table.attempt_rows() == ()
    assert world.table.find_commit([record(attempt, base)]) == Found(
        attempt=attempt, snapshot=None, head=world.table.head(), is_ours=False
    )


def test_staged_snapshot_that_a_person_made_main_is_found(world: IcebergWorld) -> None:
    """Fast-forward leaves no token of ours; the job's own summary tells."""
    attempt, base = attempt_id(), world.table.head()
    world.stage(attempt, offsets(0))
    found = world.table.staged(attempt)
    assert found is not None
    world.roll_back(found.snapshot)
    world.write_foreign()
    assert world.table.find_commit([record(attempt, base)]) == Found(
        attempt=attempt, snapshot=found.snapshot, head=world.table.head(), is_ours=False
    )


def test_staged_snapshot_that_a_person_has_cherry_picked_is_found(world: IcebergWorld) -> None:
    """Java says in the summary which snapshot it was."""
    attempt, base = attempt_id(), world.table.head()
    world.stage(attempt, offsets(0))
    found = world.table.staged(attempt)
    assert found is not None
    world.append(offsets(0), attempt, "main", {"source-snapshot-id": str(found.snapshot)})
    asked = replace(record(attempt, base), audited=found.snapshot)
    assert isinstance(world.table.find_commit([asked]), Found)


# Clocks


def test_slow_clock_keeps_history_in_order(world: IcebergWorld) -> None:
    """A publisher whose clock is hours behind still commits after what is there."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    slow = IcebergLake(world.settings, now_ms=lambda: 1)
    assert isinstance(slow.table(NAME).publish(publication(world, attempt)), Committed)
    slow.close()
    metadata = world.load().metadata
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert times == sorted(times)
    assert metadata.last_updated_ms >= times[-1]


def test_fast_clock_closes_the_receipts_to_no_other_worker(world: IcebergWorld) -> None:
    """What one worker wrote an hour ahead is followed by what others write now, in order."""
    hour = 3_600_000
    fast = IcebergLake(world.settings, now_ms=lambda: int(time.time() * 1000) + hour)
    fast.table(NAME).add_receipts([receipt(attempt_id())])
    fast.close()
    world.table.add_receipts([receipt(attempt_id())])
    assert len(world.table.all_receipts()) == 2
    metadata = world.catalog.load_table(f"{NAME}__receipts").metadata
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert times == sorted(times)
    assert times[0] > int(time.time() * 1000)
    assert metadata.last_updated_ms == times[-1] > times[0]


def test_slow_clock_drops_no_branch(world: IcebergWorld) -> None:
    """Where the library takes the time from this machine, a clock far behind is refused and changes nothing."""
    attempt = attempt_id()
    world.stage(attempt, offsets(0))
    slow = IcebergLake(world.settings, now_ms=lambda: 1)
    with pytest.raises(UnavailableError, match=r"The clock of .* behind the last change of raw\.orders, which .* made"):
        slow.table(NAME).drop(attempt)
    slow.close()
    assert world.table.staged(attempt) is not None


# Catalogs that are away


def test_catalog_out_of_reach_is_transient_and_shows_no_secret(tmp_path: Path) -> None:
    """A database that does not answer is named by its connection, without its password."""
    extra = {"catalog": "sql", "uri": "postgresql://127.0.0.1:1/lake", "warehouse": f"file://{tmp_path}"}
    lake = IcebergLake(LakeSettings.parse("lake_default", extra, password="hunter2hunter2", login="ada"))
    for call in (lake.table(NAME).head, lambda: lake.table(NAME).ensure(""), lambda: lake.table(NAME).staged("0" * 16)):
        with pytest.raises(UnavailableError, match="lake_default") as failed:
            call()
        assert "hunter2" not in str(failed.value)
        assert failed.value.__suppress_context__
    lake.close()


def test_missing_metadata_file_is_transient(world: IcebergWorld) -> None:
    """Storage that does not have what the catalog points to is out of reach, not an empty table."""
    Path(world.load().metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(UnavailableError):
        world.table.head()


def test_illegal_table_name_is_refused(world: IcebergWorld) -> None:
    """A table is named namespace.table."""
    with pytest.raises(KafkaLakeError, match=r"namespace\.table"):
        world.lake.table("orders; drop")


@pytest.mark.parametrize("name", ["raw.deep.er.orders", "lake-raw.2026-orders", "raw.select.from"])
def test_table_of_any_name_is_published_into(tmp_path: Path, name: str) -> None:
    """Nested namespaces are made one in the other; no character and no word of SQL is in the way."""
    made = IcebergWorld(tmp_path, name=name)
    assert made.table.branches() == ()
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    attempt = attempt_id()
    made.stage(attempt, offsets(1, 2))
    assert isinstance(made.table.publish(publication(made, attempt)), Committed)
    made.table.add_receipts([receipt(attempt)])
    assert made.rows() == [(1, attempt), (2, attempt)]
    assert [row.attempt for row in made.table.all_receipts()] == [attempt]
    made.lake.close()


# PostgreSQL


@pytest.fixture
def postgres_world(postgres_uri: str, tmp_path: Path) -> Iterator[IcebergWorld]:
    """A catalog in a PostgreSQL database of its own."""
    database = f"lake_{uuid.uuid4().hex}"
    server = create_engine(make_url(postgres_uri), isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {database}"))
    uri = make_url(postgres_uri).set(database=database).render_as_string(hide_password=False)
    made = IcebergWorld(tmp_path, uri)
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    yield made
    made.lake.close()
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {database} WITH (FORCE)"))
    server.dispose()


def test_postgresql_catalog_publishes_once(postgres_world: IcebergWorld) -> None:
    """Stage, publish, reject, look and drop work on a PostgreSQL catalog as on SQLite."""
    world = postgres_world
    attempt, late = attempt_id(), attempt_id()
    base = world.table.head()
    world.stage(attempt, offsets(0, 1))
    world.stage(late, offsets(0, 1))
    assert isinstance(world.table.find_commit([record(attempt, base)]), Absent)
    assert isinstance(world.table.publish(publication(world, attempt, base)), Committed)
    outcome = world.table.publish(publication(world, late, base))
    assert isinstance(outcome, Rejected)
    assert outcome.requirement is Requirement.MAIN_HEAD
    assert isinstance(world.table.find_commit([record(attempt, base), record(late, base)]), Found)
    world.table.drop(late)
    assert world.rows() == [(0, attempt), (1, attempt)]


def test_rows_and_receipts_that_others_left_half_empty_belong_to_no_attempt(world: IcebergWorld) -> None:
    """A row without a position is left out of the holdings, one without an attempt belongs to none; so do receipts."""
    nowhere, unnamed = offsets(3, partition=None), offsets(4)  # type: ignore[arg-type]
    world.append([*nowhere, *unnamed], None, "main", {})  # type: ignore[arg-type]
    (found,) = world.table.attempt_rows()
    assert (found.attempt, found.offsets) == (None, RangeSet.of((4, 5)))
    world.table.add_receipts([receipt(attempt_id())])
    receipts = world.lake.catalog.load(NAME + "__receipts")
    receipts.append(pa.Table.from_pylist([{"pipeline": "orders"}], receipts.schema().as_arrow()))
    assert len(world.table.all_receipts()) == 1


def test_receipts_table_of_an_older_version_goes_on(world: IcebergWorld) -> None:
    """Without leader epochs and offsets of deleted rows: what it cannot hold is left out, the rest counts."""
    fields = [field for field in RECEIPTS.fields if field.name not in {"leader_epoch", "offsets"}]
    world.catalog.create_table(NAME + "__receipts", Schema(*fields))
    row = receipt(attempt_id(), "deleted")
    world.table.add_receipts([replace(row, leader_epoch=3, offsets=RangeSet.of((0, 2)))])
    assert world.table.all_receipts() == (row,)
