"""A rebuild over what users have, an Iceberg table and a SQLite ledger; only Kafka and the job are in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import IdentityError, LedgerBehindError
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.selection import EVERYTHING
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.pipeline_audit import accept_deletes
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.contracts.lake_worlds import IcebergWorld, attempt_id
from tests.gates import Before
from tests.kit.clock import FakeClock
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs
from tests.world import World

OpenLedger = Callable[[], SqlLedger]

pytestmark = pytest.mark.slow


@pytest.fixture
def fresh_ledger(tmp_path: Path) -> Iterator[OpenLedger]:
    """Make SQLite ledgers."""
    made: list[SqlLedger] = []

    def make() -> SqlLedger:
        made.append(SqlLedger(f"sqlite:///{tmp_path}/ledger-{len(made)}.db"))
        return made[-1]

    yield make
    for ledger in made:
        ledger.close()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[IcebergWorld]:
    """A catalog without any table."""
    made = IcebergWorld(tmp_path)
    yield made
    made.lake.close()


@pytest.fixture
def lived(real: IcebergWorld, fresh_ledger: OpenLedger) -> World:
    """A world after two runs, a wave without rows, and a skip."""
    world: Any = World(clock=FakeClock(SystemClock().now()))  # a database has a clock of its own
    world.lake = real.lake
    world.runner = MemoryRunner(world.kafka, TableJobs(real.lake.catalog.load))
    world.ledger = fresh_ledger()
    world.produce(3)
    assert world.run().exit_code == 0
    world.produce(2, transaction="bad")
    world.end("bad", commit=False)
    assert world.run().exit_code == 0
    world.produce(5)
    slice_ = OffsetRange(6, 8)
    decisions.skip(world.worker(), "orders", world.stream(), slice_, reason="poison", acknowledge_order=False)
    assert world.run().exit_code == 0
    return world  # type: ignore[no-any-return]


def record(world: World) -> object:
    """Return what a rebuild must bring back."""
    streams = [(s.key, s.origin, s.watermark, s.covered) for s in world.ledger.streams("orders")]
    found = world.ledger.ranges(pipeline="orders", states=(RangeState.COMMITTED, RangeState.SKIPPED))
    epochs = [item.leader_epoch for item in found if item.state is RangeState.COMMITTED]
    return streams, epochs, [(r.range, r.state, r.rows, r.first_offset, r.last_offset, r.accounting) for r in found]


@pytest.mark.parametrize("expired", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_lost_ledger_is_rebuilt_from_an_iceberg_table(
    lived: World, real: IcebergWorld, fresh_ledger: OpenLedger, expired: bool
) -> None:
    """Also after compaction and expiry; once more changes nothing, and the next run reads only what is new."""
    before = record(lived)
    if expired:
        real.compact()
        real.expire()
    lived.ledger = fresh_ledger()  # type: ignore[assignment]
    with pytest.raises(LedgerBehindError):
        lived.plan()
    done = rebuild(lived.worker(), lived.spec)
    assert (done.waves, done.skips) == (3, 1)
    assert record(lived) == before
    assert rebuild(lived.worker(), lived.spec).waves == 0
    assert record(lived) == before
    lived.produce(2)
    assert sum(wave.rows or 0 for wave in lived.run().waves) == 2
    assert [offset for offset, _ in real.rows()] == [0, 1, 2, 8, 9, 10, 11, 12]


def test_history_that_expired_while_a_job_had_its_branch_is_no_roll_back(
    lived: World, real: IcebergWorld, fresh_ledger: OpenLedger
) -> None:
    """The branch keeps the publish on which the job began, and main has forgotten its way back to it: runs go on, and a
    rebuild, also one that accepts a roll-back, reads nothing again."""
    real.begin_job(attempt_id())
    for _ in range(2):
        lived.produce(2)
        assert lived.run().exit_code == 0
    real.expire()
    before = [offset for offset, _ in real.rows()]
    lived.produce(2)
    assert lived.run().exit_code == 0
    lived.ledger = fresh_ledger()  # type: ignore[assignment]
    rebuild(lived.worker(), lived.spec, accept_rollback=True)
    assert lived.run().exit_code == 0
    assert [offset for offset, _ in real.rows()] == [*before, 15, 16]


@pytest.mark.nightly  # by day: the decision (unit/services/test_rebuilding.py)
def test_backup_that_knows_the_newest_commit_is_found_out(
    lived: World, real: IcebergWorld, fresh_ledger: OpenLedger, tmp_path: Path
) -> None:
    """Its attempt began before the backup, and published after others did: what they brought is not read again."""
    lived.produce(2)
    wave = lived.planned_wave()

    def others() -> None:
        live, backup = (closing(sqlite3.connect(tmp_path / f"ledger-{number}.db")) for number in (0, 1))
        with live as source, backup as target:
            source.backup(target)
        lived.produce(2)
        lived.ingest(lived.planned_wave())

    lived.ingest(wave, lived.worker(Before("table.publish", others)))
    before = real.rows()
    lived.ledger = fresh_ledger()  # type: ignore[assignment]
    (token,) = real.table.head().last.values()
    assert lived.ledger.knows(token)
    with pytest.raises(LedgerBehindError, match=r"kafka-lake rebuild orders"):
        lived.run()
    assert real.rows() == before
    assert [offset for offset, _ in before][-4:] == [11, 12, 13, 14]


@pytest.mark.parametrize("expired", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_rows_deleted_by_retention_stop_nothing(
    lived: World, real: IcebergWorld, fresh_ledger: OpenLedger, expired: bool
) -> None:
    """A quiet stream goes on, and a lost ledger comes back as it was, though no row is left of what is committed."""
    before = record(lived)
    real.load().delete("kafka_offset < 10")
    real.load().delete("kafka_offset = 10")
    if expired:
        real.expire()
    assert lived.run().exit_code == 0
    lived.ledger = fresh_ledger()  # type: ignore[assignment]
    done = rebuild(lived.worker(), lived.spec)
    assert (done.waves, done.reopened, sum(item.expected - item.found for item in done.deleted)) == (3, (), 6)
    assert record(lived) == before
    lived.produce(2)
    assert lived.run().exit_code == 0
    assert [offset for offset, _ in real.rows()] == [11, 12]


def test_rows_deleted_from_an_iceberg_table_are_recorded_as_deleted(lived: World, real: IcebergWorld) -> None:
    """What one person's rows were is missing until it is recorded why; a row more is missing again."""
    real.load().delete("kafka_offset = 1")
    words = " ".join(audited(lived)["streams"][0]["problems"])
    assert "range 0-3: 2 rows are in the table, 3 were published. Rows were deleted with snapshot" in words
    _, deleted = accept_deletes(lived.worker(), lived.spec, EVERYTHING, None, reason="asked for by its owner")
    assert [(str(found.item.range), found.rows) for found in deleted] == [("0-3", 1)]
    document = audited(lived)
    assert (document["ok"], document["totals"]["deleted"], document["totals"]["missing"]) == (True, 1, 0)
    real.load().delete("kafka_offset = 2")
    assert audited(lived)["totals"]["missing"] == 1


def audited(world: World) -> Any:
    """Return what an audit says."""
    return pipeline_audit.audit(world.worker(), world.spec).to_json()


@pytest.mark.nightly  # by day: the decision (unit/services/test_rebuilding.py)
def test_cherry_picked_rows_of_an_iceberg_table_stop_nothing_after_a_rebuild(lived: World, real: IcebergWorld) -> None:
    """A foreign commit is undone by a roll-back, and what was published after it is picked onto main again."""
    kept = real.load().metadata.current_snapshot_id
    assert kept is not None
    real.load().delete("kafka_offset = 1")
    lived.produce(1)
    (wave,) = lived.run().waves
    (attempt,) = lived.ledger.attempts(wave.id)
    before = record(lived)
    real.roll_back(kept)
    real.append([("orders", lived.topic_ids["orders"], 0, 11)], attempt.attempt, "main", {})
    with pytest.raises(IdentityError, match="rolled back"):
        lived.plan()
    assert rebuild(lived.worker(), lived.spec).reopened == ()
    assert record(lived) == before
    lived.produce(1)
    assert lived.run().exit_code == 0
    assert [offset for offset, _ in real.rows()] == [0, 1, 2, 8, 9, 10, 11, 12]


def test_rolled_back_iceberg_table_is_refused_then_read_again(lived: World, real: IcebergWorld) -> None:
    """What vanished is named, and once accepted read again; nothing else is."""
    kept = real.load().metadata.current_snapshot_id
    assert kept is not None
    lived.produce(4)
    assert lived.run().exit_code == 0
    before = record(lived)
    real.roll_back(kept)
    with pytest.raises(IdentityError, match="rolled back"):
        lived.plan()
    with pytest.raises(IdentityError, match="orders/0 11-15: its rows are gone"):
        rebuild(lived.worker(), lived.spec)
    (vanished,) = rebuild(lived.worker(), lived.spec, accept_rollback=True).reopened
    assert (vanished.range, vanished.expected) == (OffsetRange(11, 15), 4)
    assert lived.run().exit_code == 0
    assert record(lived) == before
    assert [offset for offset, _ in real.rows()] == [0, 1, 2, 8, 9, 10, 11, 12, 13, 14]
    assert rebuild(lived.worker(), lived.spec).reopened == ()
