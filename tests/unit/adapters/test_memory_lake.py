"""The faults that the lake in memory can play, beyond the contract."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import JobFailedError, UnavailableError
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Committed, Rejected, Requirement, Token, Unknown
from tests.kit.memory_lake import Answer, MemoryLake, MemoryTable

ATTEMPT = "0123456789abcdef"
LEDGER = "1" * 32


@pytest.fixture
def table() -> MemoryTable:
    """A table with one staged attempt."""
    made = MemoryLake().table("raw.orders")
    made.ensure("")
    made.claim_ownership(LEDGER, "orders", ["id"])
    made.stage(ATTEMPT, [("orders", "id", 0, 7, b"key", None, (), 0)])
    return made


def token(kind: str = "publish") -> Token:
    """Return what a commit says."""
    return Token(pipeline="orders", wave="wave-1", attempt=ATTEMPT, fence=1, ranges="", kind=kind)


def publication(table: MemoryTable) -> Publication:
    """Ask for the staged attempt to be published on the present head."""
    staged = table.staged(ATTEMPT)
    assert staged is not None
    return Publication(head=table.head(), audited=staged.snapshot, token=token(), ledger_id=LEDGER)


def test_late_commit_lands_while_main_stands_still(table: MemoryTable) -> None:
    """While the head has not moved, not finding a commit proves nothing."""
    table.next_answer = Answer.LATE
    assert isinstance(table.publish(publication(table)), Unknown)
    assert table.rows() == ()
    assert isinstance(table.land_late(), Committed)
    assert [row.offset for row in table.rows()] == [7]
    assert table.land_late() is None


def test_late_commit_fails_after_a_fence(table: MemoryTable) -> None:
    """Once main moved, the old requirement can no longer hold."""
    table.next_answer = Answer.LATE
    table.publish(publication(table))
    assert isinstance(table.fence(table.head(), LEDGER, token("fence")), Committed)
    assert table.land_late() == Rejected(requirement=Requirement.MAIN_HEAD)
    assert table.rows() == ()


def test_rejection_on_request_names_the_requirement_once(table: MemoryTable) -> None:
    """The next commit is rejected, the one after it is not."""
    table.next_rejection = Requirement.SCHEMA
    outcome = table.publish(publication(table))
    assert isinstance(outcome, Rejected)
    assert outcome.requirement is Requirement.SCHEMA
    assert isinstance(table.publish(publication(table)), Committed)


def test_lake_out_of_reach_fails_every_call() -> None:
    """Nothing is answered from memory while the lake is away."""
    lake = MemoryLake()
    table = lake.table("raw.orders")
    table.ensure("")
    lake.reachable = False
    for call in (table.head, lambda: table.ensure(""), lambda: table.staged(ATTEMPT), table.attempt_rows):
        with pytest.raises(UnavailableError):
            call()
    lake.reachable = True
    assert table.head().snapshot is None


def test_attempt_is_staged_by_one_job_only(table: MemoryTable) -> None:
    """A branch that exists already stops a second job of the same attempt."""
    with pytest.raises(JobFailedError, match="exists already"):
        table.stage(ATTEMPT, [])
