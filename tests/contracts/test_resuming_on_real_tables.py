"""What a dead worker has staged on an Iceberg table is published by the next; only Kafka and the job are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.adapters.iceberg import staged
from airflow_kafka_lake.core.decoding import Decoding, Format
from airflow_kafka_lake.core.errors import OnlyCopyError, StaleFenceError
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState
from airflow_kafka_lake.services import decisions
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.contracts.lake_worlds import IcebergWorld
from tests.gates import Before, Killed, KilledError
from tests.kit.memory_ledger import MemoryLedger
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs
from tests.world import World

pytestmark = pytest.mark.slow


@pytest.fixture
def real(tmp_path: Path) -> Iterator[IcebergWorld]:
    """A catalog without any table."""
    made = IcebergWorld(tmp_path)
    yield made
    made.lake.close()


@pytest.fixture
def world(real: IcebergWorld) -> World:
    """Three records and an aborted transaction, planned, in a world whose lake is that catalog's."""
    made: Any = World()
    made.lake = real.lake
    made.runner = MemoryRunner(made.kafka, TableJobs(real.lake.catalog.load))
    made.produce(2)
    made.produce(2, transaction="bad")
    made.end("bad", commit=False)
    made.produce(1)
    made.plan()
    return made  # type: ignore[no-any-return]


def staged_by_the_dead(world: World, call: str = "table.publish") -> str:
    """Let a worker die with something audited; return its attempt."""
    with pytest.raises(KilledError):
        world.ingest("p1-w0", world.worker(Killed(call)))
    world.lease_ends()
    return world.ledger.attempts("p1-w0")[-1].attempt


def publishes(real: IcebergWorld) -> list[str]:
    """Return the attempts that commits of main published."""
    return [item.token.attempt for item in real.table.commits() if item.token and item.token.kind == "publish"]


def came_right(world: World, real: IcebergWorld, attempt: str, *, jobs: int = 1) -> None:
    """See that the rows are of that attempt, once, by one commit, and that the ledger says so."""
    assert world.run().exit_code == 0
    assert real.rows() == [(0, attempt), (1, attempt), (5, attempt)]
    assert publishes(real) == [attempt]
    assert len(world.runner.jobs) == jobs
    (committed,) = [item for item in world.ledger.attempts("p1-w0") if item.outcome is AttemptOutcome.COMMITTED]
    assert committed.attempt == attempt
    assert real.table.branches() == ()
    assert world.stream().watermark == 6


@pytest.mark.parametrize("call", ["table.add_receipts", "table.publish"])
def test_files_of_a_dead_worker_are_published_without_a_job(world: World, real: IcebergWorld, call: str) -> None:
    """Also when main was moved and its history expired meanwhile: the branch keeps the files alive."""
    attempt = staged_by_the_dead(world, call)
    real.write_foreign()
    real.expire()
    world.run()
    assert [row for row in real.rows() if row[1] == attempt] == [(0, attempt), (1, attempt), (5, attempt)]
    assert publishes(real) == [attempt]
    assert len(world.runner.jobs) == 1
    assert real.table.branches() == ()


def test_two_that_publish_the_same_files_make_one_commit(world: World, real: IcebergWorld) -> None:
    """The worker that was believed dead sends the same commit after its successor: it finds what is there."""

    def successor() -> None:
        world.lease_ends()
        world.ingest("p1-w0")

    with pytest.raises(StaleFenceError):
        world.ingest("p1-w0", world.worker(Before("table.publish", successor)))
    came_right(world, real, world.ledger.attempts("p1-w0")[0].attempt)


def test_commit_that_arrives_under_the_hands_of_the_successor_is_found(world: World, real: IcebergWorld) -> None:
    """The successor requires main and the branch as the first one did: it is rejected, looks, and adopts."""
    doomed, arrivals = Killed("table.find_commit", nth=3), []
    with ExitStack() as opened:
        losing = Before("table.publish", lambda: arrivals.append(opened.enter_context(real.next_commit_arrives_late())))

        def passing(call: str) -> None:
            doomed(call)
            losing(call)

        with pytest.raises(KilledError):
            world.ingest("p1-w0", world.worker(passing))
    world.lease_ends()
    (arrive,) = arrivals
    world.ingest("p1-w0", world.worker(Before("table.publish", arrive)))
    came_right(world, real, world.ledger.attempts("p1-w0")[0].attempt)


def test_branch_that_maintenance_has_expired_is_staged_again(world: World, real: IcebergWorld) -> None:
    """A branch has an age like any other reference of the table."""
    attempt = staged_by_the_dead(world)
    real.table.drop(attempt)
    real.expire()
    world.run()
    came_right(world, real, world.ledger.attempts("p1-w0")[-1].attempt, jobs=2)


def test_files_that_a_sweep_of_orphans_has_removed_are_staged_again(world: World, real: IcebergWorld) -> None:
    """Every file is opened before it is published; the branch without its files goes."""
    attempt = staged_by_the_dead(world)
    real.staged_file(attempt).unlink()
    world.run()
    came_right(world, real, world.ledger.attempts("p1-w0")[-1].attempt, jobs=2)
    assert any(f"attempt {attempt} has staged of wave p1-w0 is dropped" in text for text in world.said)


def test_files_that_were_decoded_in_another_way_are_staged_again(world: World, real: IcebergWorld) -> None:
    """The staged snapshot says how its rows were decoded; the pipeline has said so only in between."""
    world.ledger.commit(SavePipeline(spec=replace(world.spec, decoding=Decoding(format=Format.STRING))))
    staged_by_the_dead(world)
    world.ledger.commit(SavePipeline(spec=world.spec))
    world.run()
    came_right(world, real, world.ledger.attempts("p1-w0")[-1].attempt, jobs=2)


def test_storage_that_does_not_answer_costs_no_branch(
    world: World, real: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read now may be the only copy of its records: the worker that comes next reads it."""
    attempt = staged_by_the_dead(world)
    world.retain_from(6)
    with monkeypatch.context() as patched:
        patched.setattr(staged, "_row_groups", silent)
        assert world.run().exit_code == 3
    came_right(world, real, attempt)


def silent(_: object, path: str) -> Iterator[object]:
    """Raise what Arrow raises of a storage that does not answer."""
    raise OSError(f"When reading information for {path}: AWS Error NETWORK_CONNECTION: Timeout was reached")


def test_table_names_the_claim_that_published_last(world: World, real: IcebergWorld) -> None:
    """The commit speaks in the name of the attempt that staged, under the fence of the claim that made it."""
    attempt = staged_by_the_dead(world)
    world.run()
    second = world.ledger.attempts("p1-w0")[-1]
    (token,) = [item.token for item in real.table.commits() if item.token and item.token.kind == "publish"]
    assert (token.attempt, token.fence) == (attempt, second.fence)
    (newest,) = real.table.head().last.values()
    assert (newest.attempt, newest.fence) == (second.attempt, second.fence)


def test_files_of_an_earlier_partition_spec_are_staged_again(world: World, real: IcebergWorld) -> None:
    """The table rejects them by name; the branch goes with that, and is not tried for ever."""
    staged_by_the_dead(world)
    real.change_spec()
    assert world.run().exit_code == 3
    assert real.table.branches() == ()
    world.run()
    came_right(world, real, world.ledger.attempts("p1-w0")[-1].attempt, jobs=2)


def test_staged_snapshot_that_a_person_cherry_picks_is_its_first_attempts(world: World, real: IcebergWorld) -> None:
    """Two attempts were audited at it: the one that staged it left the receipts."""
    attempt = staged_by_the_dead(world)
    staged_by_the_dead(world)
    (first, second) = world.ledger.attempts("p1-w0")
    assert first.audited == second.audited is not None
    rows = [("orders", world.topic_ids["orders"], 0, offset) for offset in (0, 1, 5)]
    real.append(rows, attempt, "main", {"source-snapshot-id": str(first.audited)})
    assert world.run().exit_code == 0
    assert world.ledger.attempts("p1-w0")[0].outcome is AttemptOutcome.COMMITTED
    assert len(world.runner.jobs) == 1


def test_rows_whose_markers_retention_has_deleted_land_from_the_branch(world: World, real: IcebergWorld) -> None:
    """The fence commit of the taking leaves that branch on the table; what is not explained is held alone."""
    world.run(worker=world.worker(Before("batches.explain", lambda: world.retain_from(6))))
    (attempt, *_) = world.ledger.attempts("p1-w0")
    assert real.rows() == [(0, attempt.attempt), (1, attempt.attempt), (5, attempt.attempt)]
    assert (publishes(real), len(world.runner.jobs)) == ([attempt.attempt], 1)
    states = [(str(item.range), item.state) for item in world.ledger.ranges(wave="p1-w0")]
    assert states == [("0-2", RangeState.COMMITTED), ("2-5", RangeState.HELD), ("5-6", RangeState.COMMITTED)]
    assert real.table.branches() == ()


def test_branch_of_a_table_that_is_the_only_copy_of_records_stays(world: World, real: IcebergWorld) -> None:
    """A cancel and the rebuild of a lost ledger are refused, with what is nowhere else; then its files land."""
    attempt = staged_by_the_dead(world)
    world.retain_from(2)
    with pytest.raises(OnlyCopyError, match="orders/0 0-2, 2 offsets:"):
        decisions.cancel(world.worker(), "p1-w0", "not now")
    known, world.ledger = world.ledger, MemoryLedger(world.clock, ledger_id="2" * 32)
    with pytest.raises(OnlyCopyError, match=f"orders/0 0-2, 2 offsets:.*VERSION AS OF 'kafka_lake_{attempt}'"):
        rebuild(world.worker(), world.spec)
    world.ledger = known
    came_right(world, real, attempt)
