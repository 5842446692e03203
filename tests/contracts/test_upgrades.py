"""What each released minor version has left, ledger and lake: today's code upgrades it, goes on, and audits it byte for
byte. (Older code beside a newer ledger refuses: `test_sql_ledger.py`.)"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.sql_ledger import database
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.adapters.sql_ledger.tables import VERSION_TABLE
from airflow_kafka_lake.core.errors import LedgerSchemaError
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.deep_audit import DeepCheck
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.contracts.record_ledger import live
from tests.promise import changelog
from tests.upgrades.place import FOLDER, LEDGER, PARTITIONS, packed, unpacked
from tests.world import World

pytestmark = pytest.mark.slow

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
MOST_BYTES = 300_000
SKIPPED = {(0, 9)}
"""A record that a person passed unread, in `record_ledger.live`."""


@pytest.fixture(params=ARCHIVES, ids=lambda file: file.name.partition(".tar")[0])
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """What a version has left."""
    with unpacked(request.param, tmp_path) as world:
        yield world


def ledger_of(world: World) -> SqlLedger:
    """Return the world's ledger, which is a SQLite file."""
    assert isinstance(world.ledger, SqlLedger)
    return world.ledger


def audited(world: World) -> None:
    """See that nothing is missing, twice, unexplained or other than in Kafka."""
    report = pipeline_audit.audit(world.worker(), world.spec, ask_kafka=True, checks=(DeepCheck(),))
    assert report.findings == ()
    assert report.to_json()["ok"]


def rows(world: World) -> list[tuple[int, int]]:
    """Return partition and offset of every row that a reader sees."""
    assert isinstance(world.lake, IcebergLake)
    table = world.lake.catalog.load(world.spec.table_for("orders"))
    found = table.scan(selected_fields=("kafka_partition", "kafka_offset")).to_arrow().to_pylist()
    return sorted((row["kafka_partition"], row["kafka_offset"]) for row in found)


def expected(world: World) -> list[tuple[int, int]]:
    """Return partition and offset of every record that Kafka shows and nobody passed."""
    shown = {(stream.partition, offset) for stream, found in world.visible.items() for offset in found}
    return sorted(shown - SKIPPED)


def test_a_ledger_of_each_version_is_upgraded_goes_on_and_audits_clean(left: World) -> None:
    """What had landed stays; what waited, was staged by a dead worker or held lands once; then what is new does."""
    before = rows(left)
    assert before
    ledger_of(left).upgrade()
    assert rows(left) == before
    world = left
    stored = ledger_of(left).pipeline(world.spec.name)
    assert stored is not None
    world.spec = stored.spec
    assert ledger_of(left).waves(world.spec.name, [WaveState.CLAIMED]), "a worker has died"
    assert world.run().exit_code == 1
    held = ledger_of(left).ranges(pipeline=world.spec.name, states=(RangeState.HELD, RangeState.CANCELLED))
    assert {item.state for item in held} == {RangeState.HELD, RangeState.CANCELLED}
    for item in held:
        decisions.release(world.worker(), item.id, "looked at")
    world.produce(4, 1)
    assert world.run().exit_code == 0
    assert rows(world) == expected(world)
    for partition in range(PARTITIONS):
        assert world.stream(partition).watermark == world.kafka.log("orders", partition).high_watermark
    audited(world)
    assert not [item for item in ledger_of(left).attempts() if item.outcome is AttemptOutcome.RUNNING]


@pytest.mark.nightly  # by day: a lost ledger (test_rebuild_of_real_tables.py)
def test_a_lake_of_each_version_gives_its_ledger_back(left: World, tmp_path: Path) -> None:
    """A lost ledger is rebuilt from the table alone; only what was not committed, or reopened, is read again."""
    stored = ledger_of(left).pipeline
    ledger_of(left).upgrade()
    found = stored(left.spec.name)
    assert found is not None
    left.spec = found.spec
    with closing(SqlLedger(f"sqlite:///{tmp_path}/new.db")) as new:
        new.upgrade()
        left.ledger = new  # type: ignore[assignment]
        rebuild(left.worker(), left.spec, drop_staged=True)
        assert left.run().exit_code == 0
        assert rows(left) == expected(left)
        audited(left)


def test_a_run_before_the_upgrade_is_refused_where_the_schema_is_older(left: World, tmp_path: Path) -> None:
    """By the name of the command; the newest needs none."""
    with closing(sqlite3.connect(tmp_path / LEDGER)) as opened:
        (schema,) = opened.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    if schema == database.NEWEST:
        assert left.run().exit_code == 1, "something is held"
    else:
        with pytest.raises(LedgerSchemaError, match="kafka-lake db upgrade"):
            left.run()


def test_every_released_minor_version_is_here_and_small() -> None:
    """Recorded by `python -m tests.upgrades` when it was released."""
    released = {version.rpartition(".")[0] for version, day in changelog.versions(changelog.read()).items() if day}
    assert released <= {file.name.removesuffix(".tar.xz") for file in ARCHIVES}
    assert ARCHIVES
    assert {file.name: file.stat().st_size for file in ARCHIVES if file.stat().st_size > MOST_BYTES} == {}


@pytest.mark.nightly
def test_what_is_packed_names_no_place(tmp_path: Path) -> None:
    """An archive of today's version is unpacked elsewhere, and goes on there."""
    made, there = tmp_path / "made", tmp_path / "there"
    made.mkdir()
    there.mkdir()
    file = packed("today", live, made, tmp_path)
    assert str(tmp_path).encode() not in b"".join(path.read_bytes() for path in made.rglob("*") if path.is_file())
    with unpacked(file, there) as world:
        assert rows(world)
        assert world.run().exit_code == 1, "the same is held"
