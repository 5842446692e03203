"""What a write that waited for another one's lock decides from: rows and clock as they are once it has the lock.

Only PostgreSQL lets two writers in at once. A SQLite file has one at a time, and nothing is read before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import TypeVar

import pytest
from sqlalchemy import Connection, text, update

from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.commit import commit
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.adapters.sql_ledger.tables import now
from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.changes import Records
from airflow_kafka_lake.core.ledger.decisions import Revoke
from airflow_kafka_lake.core.ledger.records import RangeDecision
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange
from tests.contracts.ledger_world import AT, LEASE, claimed, planned, skipped
from tests.kit.clock import FakeClock
from tests.kit.memory_ledger import MemoryLedger

T = TypeVar("T")
SECONDS = 30
_WAITS = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


@pytest.fixture
def ledger(new_url: Callable[[str], str]) -> Iterator[SqlLedger]:
    """A ledger in PostgreSQL, whose writers wait long enough for each other."""
    made = SqlLedger(new_url("postgres"), lock_timeout=SECONDS)
    made.upgrade()
    yield made
    made.close()


def lease_ends(connection: Connection, plus: timedelta = timedelta()) -> None:
    """Let the leases of all waves end some time from now, and keep the waves locked."""
    connection.execute(update(tables.wave).values(lease_until=now(plus)))


def meanwhile(ledger: SqlLedger, pool: ThreadPoolExecutor, work: Callable[[], T]) -> Future[T]:
    """Begin a write whose rows are locked; returns once it waits for them."""
    begun = pool.submit(work)
    with ledger.engine.connect() as connection:
        while not begun.done() and not connection.execute(_WAITS).scalar():
            connection.rollback()
    assert not begun.done()
    return begun


def test_claim_that_waited_sees_the_lease_that_was_prolonged_meanwhile(ledger: SqlLedger) -> None:
    """No column that a change compares says so: a claim that had read the old lease would take the wave."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claimed(ledger, wave, lease=timedelta(seconds=-1))
    with ThreadPoolExecutor(1) as pool:
        with ledger.engine.begin() as other:
            lease_ends(other, LEASE)
            claim = meanwhile(ledger, pool, partial(claimed, ledger, wave))
        with pytest.raises(ConcurrentError, match="is being worked on"):
            claim.result(SECONDS)
    assert ledger.wave(wave).fence == 1


def test_claim_that_waited_judges_a_lease_by_the_time_after_it(ledger: SqlLedger) -> None:
    """The lease lived when the claim was called, and has ended when it has the wave."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claimed(ledger, wave)
    with ThreadPoolExecutor(1) as pool:
        with ledger.engine.begin() as other:
            lease_ends(other, LEASE)
            claim = meanwhile(ledger, pool, partial(claimed, ledger, wave))
            lease_ends(other)
        assert claim.result(SECONDS).key.fence == 2


def test_range_of_a_wave_that_was_not_locked_is_not_decided_about() -> None:
    """It went there while the locks were awaited."""
    ledger = MemoryLedger(FakeClock())
    (wave,) = planned(ledger, [(0, 0, 10)])
    (item,) = ledger.ranges(wave=wave)
    with pytest.raises(ConcurrentError, match=item.id):
        Records(now=AT, ranges=(item,)).of_range(item)


def test_skip_whose_range_went_to_another_wave_while_it_waited_is_refused(ledger: SqlLedger) -> None:
    """It has not locked that wave: a claim of it may begin to read the range. Repeated, it finds it there."""
    (wave,) = planned(ledger, [(0, 0, 10), (0, 10, 20)])
    (first, _) = ledger.ranges(wave=wave)
    apart = RangeDecision(range_id=first.id, state=RangeState.PLANNED, reason="alone")
    take = Revoke(wave=wave, fence=0, attempt=None, verdicts=[apart], actor="tester", apart="alone")
    with ThreadPoolExecutor(1) as pool:
        with ledger.engine.begin() as other:
            commit(other, take)
            skip = meanwhile(ledger, pool, partial(skipped, ledger, 0, 10))
        with pytest.raises(ConcurrentError, match="moved by another writer"):
            skip.result(SECONDS)
    assert [item.state for item in ledger.ranges(wave="alone")] == [RangeState.PLANNED]
    assert skipped(ledger, 0, 10) == OffsetRange(0, 10).span
