"""What a table costs stays the same however long its history is: manifests, metadata files, receipts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from airflow_kafka_lake.adapters.iceberg import commit, receipts
from airflow_kafka_lake.adapters.iceberg.rows import Replacement
from airflow_kafka_lake.adapters.iceberg.schema import LANDING_PROPERTIES
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Committed, PublishOutcome, Rejected, TableHead
from tests.contracts.lake_worlds import LEDGER, NAME, TOPIC_ID, IcebergWorld, attempt_id, offsets, receipt, token

MOST = 4

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IcebergWorld]:
    """A table whose small manifests are merged from four on, and that keeps three metadata files."""
    monkeypatch.setattr(commit, "MOST_SMALL", MOST)
    monkeypatch.setattr(receipts, "_SNAPSHOTS_KEPT", MOST)
    monkeypatch.setitem(LANDING_PROPERTIES, "write.metadata.previous-versions-max", "3")
    made = IcebergWorld(tmp_path)
    made.table.ensure("")
    made.table.claim_ownership(LEDGER, "orders", [TOPIC_ID])
    yield made
    made.lake.close()


def ready(world: IcebergWorld, attempt: str, head: TableHead | None = None) -> Publication:
    """Return what publishes what an attempt has staged."""
    found = world.table.staged(attempt)
    assert found is not None
    return Publication(head=head or world.table.head(), audited=found.snapshot, token=token(attempt), ledger_id=LEDGER)


def published(world: IcebergWorld, offset: int) -> tuple[str, PublishOutcome]:
    """Stage and publish one row."""
    attempt = attempt_id()
    world.stage(attempt, offsets(offset))
    return attempt, world.table.publish(ready(world, attempt))


@pytest.mark.nightly  # by day: the history stays short, above
def test_many_small_manifests_become_one_in_a_publish(world: IcebergWorld) -> None:
    """Their number stays bounded; each file keeps the commit that brought it, and every row is there once."""
    attempts = [published(world, offset) for offset in range(3 * MOST)]
    assert all(isinstance(outcome, Committed) for _, outcome in attempts)
    table = world.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = [item for item in snapshot.manifests(table.io) if item.content is ManifestContent.DATA]
    assert len(found) <= MOST
    entries = [entry for manifest in found for entry in manifest.fetch_manifest_entry(table.io)]
    brought = {outcome.snapshot for _, outcome in attempts if isinstance(outcome, Committed)}
    assert ({entry.snapshot_id for entry in entries}, len(entries)) == (brought, 3 * MOST)
    assert len({entry.sequence_number for entry in entries}) == 3 * MOST
    assert world.rows() == [(offset, attempt) for offset, (attempt, _) in enumerate(attempts)]


def test_merged_manifest_brings_nothing_back_that_others_have_rewritten(world: IcebergWorld) -> None:
    """Merged for a try that was rejected because main was compacted: at the next try its sources are gone."""
    for offset in range(MOST):
        published(world, offset)
    last = attempt_id()
    world.stage(last, offsets(MOST))
    asked = ready(world, last)
    with world.before_next_commit(world.compact):
        assert isinstance(world.table.publish(asked), Rejected)
    assert isinstance(world.table.publish(ready(world, last)), Committed)
    assert [offset for offset, _ in world.rows()] == list(range(MOST + 1))


def test_metadata_files_that_the_table_has_forgotten_are_removed(world: IcebergWorld) -> None:
    """Each commit writes all of it anew: kept are the newest and as many as the table's property says."""
    for offset in range(6):
        published(world, offset)
    table = world.load()
    files = sorted(Path(table.location().removeprefix("file://"), "metadata").glob("*.metadata.json"))
    assert len(files) <= 5
    assert Path(table.metadata_location.removeprefix("file://")) in files


def test_receipts_keep_every_row_and_few_snapshots(world: IcebergWorld) -> None:
    """Their history is of no use to anybody, and their manifests are merged like the table's."""
    attempts = [attempt_id() for _ in range(3 * MOST)]
    for attempt in attempts:
        world.table.add_receipts([receipt(attempt)])
        world.table.add_receipts([receipt(attempt)])
    table = world.catalog.load_table(f"{NAME}__receipts")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(table.metadata.snapshots) <= 2 * MOST
    assert len(snapshot.manifests(table.io)) <= MOST
    assert sorted(row.attempt for row in world.table.all_receipts()) == attempts
    assert [row.attempt for row in world.table.receipts(attempts[0])] == attempts[:1]


@pytest.mark.nightly  # by day: few files after many waves, above
def test_receipts_files_are_put_together_and_no_row_changes(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many waves there were the files stay few, and those of other attempts are left out by their bounds."""
    monkeypatch.setattr(receipts, "EVERY", 10)
    monkeypatch.setattr(receipts, "FEW", 3)
    added = [receipt(f"{number % 16:x}{number:015x}", end=number + 1) for number in range(60)]
    for item in added:
        world.table.add_receipts([item])
    world.table.add_receipts(added)
    table = world.catalog.load_table(f"{NAME}__receipts")
    assert len(list(table.scan().plan_files())) <= 16 * 2 + 10
    assert len(list(table.scan(row_filter=EqualTo("attempt", value=added[0].attempt)).plan_files())) <= 3
    assert sorted(world.table.all_receipts(), key=lambda row: row.range) == added
    assert all(world.table.receipts(item.attempt) == (item,) for item in added[::7])


def test_receipts_are_there_though_they_cannot_be_put_together(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction that meets another commit, or a file that is gone, fails no receipt that was added."""
    monkeypatch.setattr(receipts, "EVERY", 1)
    monkeypatch.setattr(receipts, "FEW", 2)
    first, second, third = (receipt(f"a{number:015x}") for number in range(3))
    real = receipts.compaction

    def overtaken(table: Table) -> Replacement | None:
        found = real(table)
        rows = pa.Table.from_pylist([{"pipeline": "orders"}], schema=table.schema().as_arrow())
        world.catalog.load_table(f"{NAME}__receipts").append(rows)
        return found

    world.table.add_receipts([first])
    with monkeypatch.context() as changed:
        changed.setattr(receipts, "compaction", overtaken)
        world.table.add_receipts([second])
    files = list(world.catalog.load_table(f"{NAME}__receipts").scan().plan_files())
    assert len(files) == 3
    gone = Path(files[0].file.file_path.removeprefix("file://"))
    kept = gone.read_bytes()
    gone.unlink()
    world.table.add_receipts([third])
    gone.write_bytes(kept)
    assert sorted(row.attempt for row in world.table.all_receipts()) == [first.attempt, second.attempt, third.attempt]
