"""Rows that are read again take the place of the old ones in one commit: in memory and in Iceberg tables alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from airflow_kafka_lake.adapters.iceberg.rows import require_no_equality_deletes
from airflow_kafka_lake.core.errors import SchemaMismatchError, StaleFenceError
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Committed, Found, PublishOutcome, Rejected, Requirement, TableHead
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from tests.contracts.lake_worlds import (
    AT,
    AT_MS,
    LEDGER,
    TOPIC_ID,
    IcebergWorld,
    MemoryWorld,
    World,
    attempt_id,
    offsets,
    record,
    token,
)
from tests.contracts.test_lake_table import publish, staged

OLD, OTHER = "a" * 16, "b" * 16


@pytest.fixture(
    params=["memory", *(pytest.param(name, marks=pytest.mark.slow) for name in ("iceberg", "iceberg, one file"))]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A table with offsets 0-6 and 6-10 of partition 0 and 0-4 of partition 1, by two attempts; compacted or not."""
    made: World = MemoryWorld() if request.param == "memory" else IcebergWorld(tmp_path)
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    for attempt, rows in (
        (OLD, offsets(*range(6))),
        (OTHER, [*offsets(*range(6, 10)), *offsets(0, 1, 2, partition=1)]),
    ):
        made.stage(attempt, rows)
        assert isinstance(publish(made, attempt), Committed)
    if "one file" in request.param:
        made.compact()
    yield made
    if isinstance(made, IcebergWorld):
        made.lake.close()


def slice_(start: int, end: int, partition: int = 0) -> Slice:
    """Return a slice of the topic."""
    return Slice(Stream("orders", TOPIC_ID, partition), OffsetRange(start, end))


def replace(
    world: World, attempt: str, *slices: Slice, head: TableHead | None = None, ledger: str = LEDGER
) -> PublishOutcome:
    """Publish what an attempt has staged in the place of some slices."""
    return world.table.publish(
        Publication(
            head=head or world.table.head(),
            audited=staged(world, attempt),
            token=token(attempt, kind="replace"),
            ledger_id=ledger,
            replaces=slices,
        )
    )


def seen(world: World) -> dict[tuple[str, int], str]:
    """Return which offsets of each partition a reader sees, by attempt."""
    return {(item.attempt or "", item.stream.partition): str(item.offsets) for item in world.table.attempt_rows()}


def test_new_rows_take_the_place_of_the_old_ones_in_one_commit(world: World) -> None:
    """Whichever attempts wrote them, and only these: rows beside the slice keep their attempt."""
    new, head = attempt_id(), world.table.head()
    world.stage(new, offsets(4, 5, 7))
    assert isinstance(replace(world, new, slice_(4, 8)), Committed)
    assert seen(world) == {(OLD, 0): "0-4", (new, 0): "4-6, 7-8", (OTHER, 0): "8-10", (OTHER, 1): "0-3"}
    after = [commit for commit in world.table.commits() if commit.parent == head.snapshot]
    assert [commit.token and commit.token.kind for commit in after] == ["replace"]
    assert after[0].snapshot == world.table.head().snapshot
    found = world.table.find_commit([record(new, head)])
    assert (isinstance(found, Found), world.table.branches()) == (True, ())


def test_nothing_takes_the_place_of_rows_that_are_gone(world: World) -> None:
    """Retention or compaction may have left nothing to read: the old rows go all the same."""
    new = attempt_id()
    world.stage(new, [])
    assert isinstance(replace(world, new, slice_(0, 7)), Committed)
    assert seen(world) == {(OTHER, 0): "7-10", (OTHER, 1): "0-3"}


def test_rows_come_where_nothing_was(world: World) -> None:
    """A slice that was skipped before has nothing to be replaced."""
    new = attempt_id()
    world.stage(new, offsets(10, 11))
    assert isinstance(replace(world, new, slice_(10, 12)), Committed)
    assert seen(world)[new, 0] == "10-12"
    assert len(world.rows()) == 15


def test_several_slices_are_replaced_at_once(world: World) -> None:
    """Of several partitions, too."""
    new = attempt_id()
    world.stage(new, [*offsets(1, 9), *offsets(2, partition=1)])
    assert isinstance(replace(world, new, slice_(1, 2), slice_(9, 10), slice_(1, 3, partition=1)), Committed)
    assert seen(world) == {
        (OLD, 0): "0-1, 2-6",
        (OTHER, 0): "6-9",
        (OTHER, 1): "0-1",
        (new, 0): "1-2, 9-10",
        (new, 1): "2-3",
    }


def test_what_was_replaced_is_replaced_again(world: World) -> None:
    """A file that was written anew is a file like any other."""
    for number in range(3):
        new = attempt_id()
        world.stage(new, offsets(3))
        assert isinstance(replace(world, new, slice_(3, 4 + number)), Committed)
    assert seen(world) == {(OLD, 0): "0-3", (new, 0): "3-4", (OTHER, 0): "6-10", (OTHER, 1): "0-3"}


def test_replacing_on_a_moved_main_is_rejected(world: World) -> None:
    """The old rows stay as they are; the next try, on the new head, replaces them."""
    new, head = attempt_id(), world.table.head()
    world.stage(new, offsets(4))
    world.write_foreign()
    before = world.rows()
    outcome = replace(world, new, slice_(4, 6), head=head)
    assert isinstance(outcome, Rejected)
    assert (outcome.requirement, world.rows()) == (Requirement.MAIN_HEAD, before)
    assert isinstance(replace(world, new, slice_(4, 6)), Committed)
    assert len(world.rows()) == len(before) - 1


def test_others_rows_are_not_replaced(world: World) -> None:
    """Also an empty result takes nothing from a topic of another owner."""
    new = attempt_id()
    world.stage(new, [])
    before = world.rows()
    outcome = replace(world, new, slice_(0, 6), ledger="2" * 32)
    assert isinstance(outcome, Rejected)
    assert (outcome.requirement, world.rows()) == (Requirement.OWNER, before)


@pytest.mark.parametrize("landed", [True, False])
def test_lost_answer_of_a_replacement_is_found_by_looking(world: World, landed: bool) -> None:
    """Found: done. Not found: the next try replaces."""
    new, head = attempt_id(), world.table.head()
    world.stage(new, offsets(4))
    world.lose_next_answer(landed=landed)
    replace(world, new, slice_(4, 6))
    assert isinstance(world.table.find_commit([record(new, head)]), Found) is landed
    if not landed:
        assert isinstance(replace(world, new, slice_(4, 6)), Committed)
    assert (seen(world)[OLD, 0], seen(world)[new, 0]) == ("0-4", "4-5")


def test_visible_rows_of_a_slice_are_counted_by_attempt(world: World) -> None:
    """Only those of the slices, of the topic's generation."""
    found = {(item.attempt, item.stream.partition): item.offsets for item in world.table.visible([slice_(4, 8)])}
    assert found == {(OLD, 0): RangeSet.of((4, 6)), (OTHER, 0): RangeSet.of((6, 8))}
    elsewhere = Slice(Stream("orders", "another", 0), OffsetRange(0, 10))
    assert world.table.visible([elsewhere]) == ()
    assert world.table.visible([]) == ()


def test_rows_of_slices_are_counted_by_hour(world: World) -> None:
    """Those from a time to another; a record without a timestamp, or one that no reader can hold, has no hour."""
    hour, new = timedelta(hours=1), attempt_id()
    begin, number = AT.replace(minute=0, microsecond=0), AT_MS // 3_600_000
    end_ms = round((begin + hour).timestamp() * 1000)
    times = (AT_MS - 3_600_000, end_ms - 1, end_ms, -1, 2**62, AT_MS)
    world.stage(new, offsets(*range(10, 16)), at_ms=times)
    assert isinstance(publish(world, new), Committed)
    ever = datetime.fromtimestamp(0, UTC)

    def counted(*slices: Slice, start: datetime = ever, end: datetime = begin + hour, each: timedelta = hour) -> Any:
        return world.table.rows_between(slices, start=start, end=end, by=each)

    assert counted(slice_(10, 16)) == {number - 1: 1, number: 2}
    assert counted(slice_(11, 15)) == {number: 1}
    assert counted(slice_(10, 16), end=begin) == {number - 1: 1}
    assert counted(slice_(10, 16), start=begin) == {number: 2}
    assert counted(slice_(10, 16), start=begin, end=begin) == {}
    assert counted(slice_(4, 8), slice_(0, 1, 1)) == {number: 5}
    assert counted(slice_(10, 16), each=timedelta(days=1)) == {AT_MS // 86_400_000: 3}
    until_never = counted(slice_(10, 16), end=datetime.max.replace(tzinfo=UTC))
    assert until_never == {number - 1: 1, number: 2, number + 1: 1}
    assert counted() == {}
    no_table = world.lake.table("raw.elsewhere")  # type: ignore[attr-defined]
    assert no_table.rows_between([slice_(10, 16)], start=ever, end=begin, by=hour) == {}


def test_rows_of_many_partitions_are_counted(world: World) -> None:
    """In one question, of as many as a topic has."""
    begin, hour = AT.replace(minute=0, microsecond=0), timedelta(hours=1)
    slices = [slice_(4, 8), *(slice_(0, 1, partition) for partition in range(1, 600))]
    assert world.table.rows_between(slices, start=begin, end=begin + hour, by=hour) == {AT_MS // 3_600_000: 5}


# Iceberg tables


def test_rows_of_a_partitioned_table_are_replaced_in_their_partitions(tmp_path: Path) -> None:
    """What is left of a file goes back to where the table's readers look for it."""
    world = IcebergWorld(tmp_path)
    world.table.ensure("kafka_partition")
    world.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    new = attempt_id()
    world.stage(OLD, [*offsets(*range(6)), *offsets(0, 1, partition=1)])
    assert isinstance(publish(world, OLD), Committed)
    world.stage(new, offsets(4))
    assert isinstance(replace(world, new, slice_(4, 6), slice_(0, 1, partition=1)), Committed)
    assert seen(world) == {(OLD, 0): "0-4", (new, 0): "4-5", (OLD, 1): "1-2"}
    assert {task.file.partition[0] for task in world.load().scan(row_filter="kafka_partition = 1").plan_files()} == {1}
    world.lake.close()


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[IcebergWorld]:
    """Ten rows of one attempt, and others of another, in one file."""
    made = IcebergWorld(tmp_path)
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    for attempt, first in ((OLD, 0), (OTHER, 10)):
        made.stage(attempt, offsets(*range(first, first + 10)))
        assert isinstance(publish(made, attempt), Committed)
    made.compact()
    yield made
    made.lake.close()


def contents(world: IcebergWorld) -> pa.Table:
    """Return all columns of all rows, by offset."""
    return world.load().scan().to_arrow().sort_by("kafka_offset")


def test_other_rows_of_a_file_stay_byte_for_byte(iceberg: IcebergWorld) -> None:
    """All columns, those that others added included."""
    with iceberg.load().update_schema() as update:
        update.add_column("note", StringType())
    table = iceberg.load()
    noted = contents(iceberg).drop_columns(["note"]).append_column("note", pa.array([None, "x"] * 10))
    table.overwrite(noted)
    before, new = contents(iceberg), attempt_id()
    iceberg.stage(new, [])
    assert isinstance(replace(iceberg, new, slice_(5, 12)), Committed)
    kept = before.filter([not 5 <= offset < 12 for offset in before["kafka_offset"].to_pylist()])
    assert contents(iceberg).equals(kept)


def test_null_lists_and_maps_of_other_rows_stay_null(iceberg: IcebergWorld) -> None:
    """An empty list says that a search looked; one that is not there does not."""
    line = StructType(NestedField(101, "n", LongType(), required=False))
    with iceberg.load().update_schema() as update:
        update.add_column("lines", ListType(102, line, element_required=False))
        update.add_column("by_name", MapType(103, StringType(), 104, line, value_required=False))
    new = attempt_id()
    iceberg.stage(new, [])
    assert isinstance(replace(iceberg, new, slice_(0, 2)), Committed)
    (file,) = _files(iceberg)
    written = pq.read_table(file.removeprefix("file://"))
    assert {name: written[name].null_count for name in ("lines", "by_name")} == dict.fromkeys(("lines", "by_name"), 18)


def test_replacing_beats_for_every_file_before_it_commits(iceberg: IcebergWorld) -> None:
    """A worker that has lost its wave meanwhile writes nothing."""
    new = attempt_id()
    iceberg.stage(new, offsets(3, 4))
    head = iceberg.table.head()
    found = iceberg.table.staged(new)
    assert found is not None
    asked = Publication(
        head=head,
        audited=found.snapshot,
        token=token(new, "replace"),
        ledger_id=LEDGER,
        replaces=(slice_(3, 5),),
    )

    def lost() -> None:
        raise StaleFenceError("another worker has the wave")

    for act in (lambda: iceberg.table.publish(asked, lost), lambda: iceberg.table.visible([slice_(3, 5)], lost)):
        with pytest.raises(StaleFenceError):
            act()
    assert iceberg.table.head() == head
    assert isinstance(iceberg.table.publish(asked), Committed)


def test_files_that_hold_none_of_it_are_kept_as_they_are(iceberg: IcebergWorld) -> None:
    """And a file that holds nothing else is dropped, not read."""
    new = attempt_id()
    iceberg.stage(new, offsets(20, 21))
    assert isinstance(publish(iceberg, new), Committed)
    (compacted,) = [task.file.file_path for task in iceberg.load().scan().plan_files() if task.file.record_count == 20]
    newest = attempt_id()
    iceberg.stage(newest, offsets(21))
    Path(next(f for f in _files(iceberg) if f != compacted).removeprefix("file://")).write_bytes(b"cannot be read")
    assert isinstance(replace(iceberg, newest, slice_(20, 22)), Committed)
    assert compacted in _files(iceberg)
    assert len(_files(iceberg)) == 2


def _files(world: IcebergWorld) -> list[str]:
    return [task.file.file_path for task in world.load().scan().plan_files()]


def test_replacement_is_an_overwrite_that_names_what_it_deleted(iceberg: IcebergWorld) -> None:
    """Readers of changes and maintenance see which file went, in a snapshot whose totals are right."""
    old = _files(iceberg)
    new = attempt_id()
    iceberg.stage(new, offsets(3))
    assert isinstance(replace(iceberg, new, slice_(3, 5)), Committed)
    table = iceberg.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.OVERWRITE
    assert (snapshot.summary["total-records"], snapshot.summary["deleted-data-files"]) == ("19", "1")
    deleted = [
        entry.data_file.file_path
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id == snapshot.snapshot_id
    ]
    assert deleted == old
    iceberg.write_foreign()
    iceberg.expire()
    assert len(contents(iceberg)) == 20


def test_file_that_was_written_for_a_lost_try_serves_the_next(iceberg: IcebergWorld) -> None:
    """Another writer's files do not change what has to be rewritten; a compaction in between does."""
    new = attempt_id()
    iceberg.stage(new, offsets(3))
    head = iceberg.table.head()
    written: list[str] = []

    def tried() -> int:
        folder = Path(iceberg.load().location().removeprefix("file://")) / "data"
        written[:] = [path.name for path in folder.rglob("*.parquet")]
        return len(written)

    with iceberg.before_next_commit(iceberg.write_foreign):
        assert isinstance(replace(iceberg, new, slice_(3, 5), head=head), Rejected)
    files = tried()
    with iceberg.before_next_commit(iceberg.write_foreign):
        assert isinstance(replace(iceberg, new, slice_(3, 5)), Rejected)
    assert tried() == files + 1, "nothing but the other writer's file came"
    iceberg.compact()
    assert isinstance(replace(iceberg, new, slice_(3, 5)), Committed)
    assert [offset for offset, _ in iceberg.rows() if offset] == [*range(1, 4), *range(5, 20)]


def test_equality_deletes_of_others_are_refused_by_name(iceberg: IcebergWorld) -> None:
    """They would not reach rows that are written anew: a deleted row would come back."""
    new = attempt_id()
    iceberg.stage(new, offsets(3))
    iceberg.delete_by_value()
    for act in (lambda: replace(iceberg, new, slice_(3, 5)), lambda: iceberg.table.visible([slice_(3, 5)])):
        with pytest.raises(SchemaMismatchError, match="equality delete files of another engine"):
            act()
    hyphens = "raw.web-orders"
    table = iceberg.load()
    with pytest.raises(SchemaMismatchError, match=r"rewrite_data_files\(table => 'raw.`web-orders`', "):
        require_no_equality_deletes(table, table.current_snapshot().manifests(table.io), hyphens)  # type: ignore[union-attr]
