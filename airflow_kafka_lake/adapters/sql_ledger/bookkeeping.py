"""What is written down beside a decision: history, what plans saw, and what has arrived elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, literal, select, tuple_

from airflow_kafka_lake.adapters.sql_ledger.tables import (
    event,
    meta,
    notified,
    outbox,
    snapshot,
)
from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.types import now, rows, upsert
from airflow_kafka_lake.adapters.sql_ledger.values import insert_columns
from airflow_kafka_lake.core.ledger.changes import Entry

PLANS_KEPT = 1_000
"""Of how many plans of all pipelines, the newest, the ledger keeps what they saw: six weeks of one an hour."""

FORGOTTEN_AT_ONCE = 100_000
"""How many streams that older plans saw one plan forgets at most."""


_SAID = ("pipeline", "actor", "kind", "subject", "detail")


def lock_sequences(connection: Connection) -> None:
    """Hold the ledger's one sequence lock until the transaction ends, so that sequences grow in the order of commits.

    Taken last, after all other locks: a reader that has seen sequence n never misses a smaller one.
    """
    connection.execute(select(meta.c.value).where(meta.c.key == "ledger_id").with_for_update())


def record_event(connection: Connection, entry: Entry) -> None:
    """Write one line of history, as the last statement of a transaction."""
    locked = select(meta.c.value).where(meta.c.key == "ledger_id").with_for_update().subquery("locked")
    values = [literal(getattr(entry, name), event.c[name].type) for name in _SAID]
    connection.execute(insert(event).from_select([*_SAID, "at"], select(*values, now()).select_from(locked)))


def mark_notified(connection: Connection, name: str, sequence: int) -> None:
    """See `ports.Ledger.mark_notified`."""
    statement = upsert(connection, notified).values(pipeline=name, sequence=sequence)
    newer = notified.c.sequence < statement.excluded.sequence
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["pipeline"], set_={"sequence": statement.excluded.sequence}, where=newer
        )
    )


def forget_sent(connection: Connection, items: Sequence[int]) -> None:
    """See `ports.Ledger.sent`."""
    given = rows(connection, [outbox.c.id], ({"id": item} for item in items))
    connection.execute(delete(outbox).where(outbox.c.id.in_(select(given.c.id))))


def keep_snapshots(connection: Connection, values: Mapping[str, Sequence[Any]]) -> None:
    """Keep what a plan saw, with the plan's number, and forget what older plans saw.

    What is forgotten at once has a bound, so that the first plan after an upgrade is not a slow one.
    """
    number = select(plan_.c.number).where(plan_.c.id == values["plan"][0]).scalar_subquery()
    insert_columns(connection, snapshot, values, number=number)
    key = (snapshot.c.plan, snapshot.c.stream)
    old = select(*key).where(snapshot.c.number <= number - PLANS_KEPT).order_by(snapshot.c.number)
    connection.execute(delete(snapshot).where(tuple_(*key).in_(old.limit(FORGOTTEN_AT_ONCE))))
