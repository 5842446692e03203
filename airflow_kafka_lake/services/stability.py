"""What is not stable yet: named, waited for within a bound, and never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

from airflow_kafka_lake.core.errors import KafkaLakeError, PendingCommitError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.kafka.transactions import OpenTransaction, oldest
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.ports import Ports

T = TypeVar("T")
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 15.0


def holders(ports: Ports, waiting: Sequence[PartitionSnapshot]) -> tuple[OpenTransaction, ...]:
    """Return, for each partition whose last stable offset is held, the transaction that holds it, where that is known.

    It is news about a plan and no part of it: a cluster that does not tell leaves it out.
    """
    if not waiting:
        return ()
    try:
        return oldest(ports.source.transactions([(item.stream.topic, item.stream.partition) for item in waiting], None))
    except KafkaLakeError as error:
        ports.progress(f"which transactions are open is not known: {error.message}")
        return ()


def hanging(plan: Plan, transactions: Iterable[OpenTransaction], bounds: Bounds) -> tuple[OpenTransaction, ...]:
    """Return the transactions that no producer will end, between the planned end and what was asked for."""
    if bounds.end is not None:  # a period that reaches beyond what is stable is refused
        return ()
    reached = {
        (item.snapshot.stream.topic, item.snapshot.stream.partition)
        for item in plan.streams
        if item.end >= item.snapshot.last_stable
    }
    return tuple(
        item for item in transactions if item.hangs(plan.observed_at) and (item.topic, item.partition) in reached
    )


def once_stable(ports: Ports, decide: Callable[[], T], timeout: timedelta) -> T:
    """Decide, and again while a group's commits are pending, until they have ended or the time is over.

    Raises PendingCommitError, which names the partitions and the transactions that hold them.
    """
    until, pause = ports.clock.monotonic() + timeout.total_seconds(), _FIRST_PAUSE_SECONDS
    while True:
        try:
            return decide()
        except PendingCommitError as pending:
            if ports.clock.monotonic() >= until:
                raise _named(ports, pending) from None
            ports.progress(f"waiting: {pending.message}")
        ports.clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _named(ports: Ports, pending: PendingCommitError) -> PendingCommitError:
    try:
        found = ports.source.transactions([], str(pending.facts["group"]))
    except KafkaLakeError as error:
        ports.progress(f"which transactions are open is not known: {error.message}")
        found = ()
    now = ports.clock.now()
    # Other groups' commits are written to the same place: what is named there may be theirs.
    named = "; ".join(item.describe(now) for item in found)
    words = f". Open where the group's commits are written: {named}" if named else ""
    facts = {**pending.facts, "transactions": [item.to_json(now) for item in found]}
    return PendingCommitError(f"{pending.message}{words}", **facts)
