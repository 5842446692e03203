"""A publisher that stands still between its last check and its commit while another takes its ranges away (law L11).

Its UPDATE of the catalog stands still: every check has been made, and nothing is committed yet.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions, planning, staging
from airflow_kafka_lake.services.running import Run
from tests.faults.stored import StoredWorld
from tests.gates import Before
from tests.world import SPEC

SECONDS = 120
Decision = Callable[[Ports, str], object]


class Held:
    """Lets the next UPDATE of a worker's catalog stand still before it is executed, until it is let go."""

    def __init__(self) -> None:
        self.standing, self._go = threading.Event(), threading.Event()

    def arm(self, worker: Ports) -> None:
        """Hold the worker's next commit."""
        event.listen(worker.lake._lake.catalog.api.engine, "before_cursor_execute", self._pass)  # type: ignore[attr-defined]

    def _pass(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE iceberg_tables") and not self.standing.is_set():
            self.standing.set()
            assert self._go.wait(SECONDS)

    def let_go(self) -> None:
        """Let it be executed now."""
        self._go.set()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StoredWorld]:
    """Ledger and catalog in SQLite files."""
    catalog = f"sqlite:///{tmp_path}/catalog.db"
    made = StoredWorld(tmp_path, ledger=f"sqlite:///{tmp_path}/ledger.db", catalog=catalog, truth=catalog)
    made.produce(4)
    yield made
    made.close()


def cancelled(person: Ports, wave: str) -> None:
    """Cancel the whole wave."""
    decisions.cancel(person, wave, "wrong topic")


def one_range_cancelled(person: Ports, wave: str) -> None:
    """Cancel one of its two ranges: it is cut out, the other one stays."""
    decisions.cancel(person, person.ledger.ranges(wave=wave)[0].id, "poison")


def skipped(person: Ports, wave: str) -> None:
    """Skip one record in the middle of a range, once its holder's lease is over."""
    first = person.ledger.ranges(wave=wave)[0]
    stream = next(item for item in person.ledger.streams(SPEC.name) if item.key == first.stream)
    decisions.skip(person, SPEC.name, stream, OffsetRange(1, 2), reason="poison", acknowledge_order=False)


def taken_over(person: Ports, wave: str) -> None:
    """Bring the wave into the lake as a successor: by the same commit, of what the first one has staged."""
    landed(staging.ingest(person, wave))


@pytest.mark.parametrize(
    "decision",
    [
        cancelled,
        *(pytest.param(item, marks=pytest.mark.nightly) for item in (one_range_cancelled, skipped)),
        taken_over,
    ],
)
def test_a_publisher_that_was_overtaken_shows_nothing(world: StoredWorld, decision: Decision) -> None:
    """Its commit is refused by the catalog, its outcome by the ledger; the history names both."""
    person, held = world.worker(), Held()
    (wave,) = planning.plan(person, SPEC, Bounds(), plan_id="p1").plan.waves
    stopped: list[Ports] = []
    stopped.append(world.worker(Before("table.publish", lambda: held.arm(stopped[0]))))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(lambda: landed(staging.ingest(stopped[0], wave.id)))
        assert held.standing.wait(SECONDS)
        if decision in (skipped, taken_over):
            world.end_leases()
        decision(person, wave.id)
        seen = world.rows()
        held.let_go()
        error = late.exception(SECONDS)
    assert isinstance(error, KafkaLakeError), error
    assert world.rows() == seen
    first = person.ledger.attempts(wave.id)[0]
    assert first.outcome is (AttemptOutcome.COMMITTED if decision is taken_over else AttemptOutcome.ABANDONED)
    told = [item for item in person.ledger.events(SPEC.name) if item.kind == "refused"]
    assert first.attempt in {item.actor for item in told}
    _goes_on(world, person, decision)


def _goes_on(world: StoredWorld, person: Ports, decision: Decision) -> None:
    """What was put on hold is released, and everything that is not skipped lands once."""
    for item in person.ledger.ranges(pipeline=SPEC.name, states={RangeState.CANCELLED}):
        decisions.release(person, item.id, None)
    if decision is skipped:
        del world.acknowledged[0, 1]
    again = world.run()
    assert isinstance(again, Run), again
    assert again.exit_code == 0, again.problems
    assert world.rows() == Counter({(p, o, value): 1 for (p, o), value in world.acknowledged.items()})
    assert len(world.publishes()) == len(set(world.publishes()))
    assert {stream.watermark for stream in person.ledger.streams(SPEC.name)} == {4}
