"""Ledger and catalog in PostgreSQL behind a network that breaks: a commit's answer is lost, landed or not, or late.

What goes on, or runs next, finds out; nothing is done twice, and main can be read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, WaveState
from airflow_kafka_lake.local.processes import wait_until
from airflow_kafka_lake.services.running import Run
from tests.faults.conftest import USER
from tests.faults.stored import StoredWorld
from tests.gates import Before
from tests.proxy import Proxy, Trap
from tests.world import SPEC

SECONDS = 60
Lose = Callable[[Proxy], Trap]
UPDATE = b"UPDATE iceberg_tables"
WAYS: dict[str, Callable[..., Callable[[Proxy], Trap]]] = {
    "landed": lambda *patterns: lambda network: network.lose_answer(*patterns),
    "not-landed": lambda *patterns: lambda network: network.lose_request(*patterns),
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def world(network: Proxy, database: str, postgres_uri: str, tmp_path: Path) -> Iterator[StoredWorld]:
    """Ledger and catalog in one PostgreSQL database behind the network."""
    behind = f"postgresql://{USER}@127.0.0.1:{network.port}/{database}"
    truth = make_url(postgres_uri).set(database=database).render_as_string(hide_password=False)
    made = StoredWorld(tmp_path, ledger=behind, catalog=behind, truth=truth)
    made.produce(3)
    yield made
    network.heal()
    made.close()


@ways
@pytest.mark.parametrize("after", ["goes-on", pytest.param("stays-away", marks=pytest.mark.nightly)])
def test_publish_with_a_lost_answer_on_postgresql(world: StoredWorld, network: Proxy, way: str, after: str) -> None:
    """The run finds out by itself, or the next one does when the database does not come back for this one."""
    traps: list[Trap] = []

    def arm() -> None:
        traps.append(WAYS[way](UPDATE, b"COMMIT")(network))
        if after == "stays-away":
            threading.Thread(target=cut, daemon=True).start()

    def cut() -> None:
        traps[0].happened.wait(SECONDS)
        network.cut()

    first = world.run(world.worker(Before("table.publish", arm)))
    assert traps[0].happened.is_set()
    if after == "goes-on":
        assert isinstance(first, Run), first
        assert (first.exit_code, first.problems) == (0, ())
        world.check()
    network.heal()
    again = world.run()
    assert isinstance(again, Run), again
    assert again.exit_code == 0
    world.check()
    assert len(world.publishes()) == 1


def waits_for_the_row(postgres_uri: str, database: str) -> bool:
    """Return whether a commit to a table waits for another one's lock, as the server tells it."""
    engine = create_engine(make_url(postgres_uri).set(drivername="postgresql+psycopg2"))
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = :database AND wait_event_type = 'Lock' "
        f"AND query LIKE '{UPDATE.decode()}%' AND cardinality(pg_blocking_pids(pid)) > 0"
    )
    with engine.connect() as connection:
        found = connection.execute(text(waiting), {"database": database}).scalar_one()
    engine.dispose()
    return bool(found)


def test_publish_that_lands_when_its_worker_waits_no_more(
    world: StoredWorld, network: Proxy, postgres_uri: str, database: str
) -> None:
    """Its COMMIT arrives while the publisher is trying again: the second try is refused, and the first one adopted."""
    traps: list[Trap] = []
    deliveries: list[Future[None]] = []

    def deliver() -> None:
        try:
            assert traps[0].happened.wait(SECONDS)
            wait_until(lambda: waits_for_the_row(postgres_uri, database), timeout=SECONDS, failed=AssertionError)
        finally:
            traps[0].deliver()

    with ThreadPoolExecutor(1) as pool:

        def arm() -> None:
            traps.append(network.keep_request(UPDATE, b"COMMIT"))
            deliveries.append(pool.submit(deliver))

        first = world.run(world.worker(Before("table.publish", arm)))
        deliveries[0].result()
    assert traps[0].answered.wait(SECONDS)
    assert isinstance(first, Run), first
    assert first.exit_code == 0, first.problems
    world.check()
    assert len(world.publishes()) == 1


BY_DAY = ("ledger.record_plan", "ledger.claim", "ledger.mark_publishing", "ledger.record_commit", "ledger.advance")
OTHERS = ("ledger.record_base", "ledger.record_job", "ledger.mark_staged", "ledger.sent")


@pytest.mark.parametrize(
    ("way", "calls"),
    [
        pytest.param("landed", BY_DAY, id="landed"),
        pytest.param("landed", OTHERS, id="landed-others", marks=pytest.mark.nightly),
        pytest.param("not-landed", BY_DAY + OTHERS, id="not-landed", marks=pytest.mark.nightly),
    ],
)
def test_ledger_write_with_a_lost_answer(world: StoredWorld, network: Proxy, way: str, calls: tuple[str, ...]) -> None:
    """Each write of the ledger in its turn: whatever the worker is told, running again is right."""
    for call in calls:
        traps: list[Trap] = []
        lost = WAYS[way](b"COMMIT")
        gate = Before(call, lambda lost=lost, traps=traps: traps.append(lost(network)))  # type: ignore[misc]
        world.produce(2)
        world.run(world.worker(gate))
        assert traps[0].happened.is_set(), call
        again = world.run()
        assert isinstance(again, Run), f"{call}: {again}"
        assert again.exit_code == 0, f"{call}: {again.problems}"
        world.check()
        ledger = world.worker().ledger
        assert {wave.state for wave in ledger.waves(SPEC.name)} == {WaveState.COMMITTED}, call
        outcomes = [item.outcome for wave in ledger.waves(SPEC.name) for item in ledger.attempts(wave.id)]
        assert AttemptOutcome.RUNNING not in outcomes, call
        assert ledger.outbox(SPEC.name) == (), call


def test_connection_that_broke_while_the_job_ran_costs_nothing(world: StoredWorld, network: Proxy) -> None:
    """A firewall ends what has been idle for an hour; the work of that hour is published all the same."""
    first = world.run(world.worker(Before("table.staged", network.drop)))
    assert isinstance(first, Run), first
    assert first.exit_code == 0, first.problems
    world.check()
    assert [len(world.worker().ledger.attempts(wave.id)) for wave in first.waves] == [1]


def test_publisher_that_stands_still_inside_its_commit_lets_others_pass(
    world: StoredWorld, network: Proxy, database: str, postgres_uri: str
) -> None:
    """Its transaction holds the table's row of the catalog; the server ends it, and a successor publishes."""
    engine = create_engine(make_url(postgres_uri).set(drivername="postgresql+psycopg2"))
    with engine.begin() as connection:
        connection.execute(text(f"ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '2s'"))
    engine.dispose()
    traps: list[Trap] = []
    gate = Before("table.publish", lambda: traps.append(network.hold_request(UPDATE, b"COMMIT")))
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(world.run, world.worker(gate))
        wait_until(
            lambda: bool(traps and traps[0].happened.is_set()) or stopped.done(), timeout=SECONDS, failed=AssertionError
        )
        assert not stopped.done(), stopped.result()
        world.end_leases()
        successor = world.run()
        assert isinstance(successor, Run), successor
        assert successor.exit_code == 0, successor.problems
        world.check()
        traps[0].deliver()
        late = stopped.result(SECONDS)
    assert not isinstance(late, Run) or late.exit_code == 3, late
    world.check()
    assert len(world.publishes()) == 1


@pytest.mark.nightly
def test_what_stands_still_in_a_transaction_is_ended_after_a_minute(world: StoredWorld) -> None:
    """Ledger and catalog say so to the server, unless it has a limit of its own."""
    worker = world.worker()
    engines = [worker.ledger.engine, worker.lake.catalog.api.engine]  # type: ignore[attr-defined]
    for engine in engines:
        with engine.connect() as connection:
            limit = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
        assert limit == "1min"
