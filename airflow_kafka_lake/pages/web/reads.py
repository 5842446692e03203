"""The pages' reads of a ledger beyond its port: pages of long lists, newest first, and the authors of plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, exists, func, select

from airflow_kafka_lake.adapters.sql_ledger import queries
from airflow_kafka_lake.adapters.sql_ledger.tables import event, pipeline, plan, range_, wave
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import WaveState

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger


def planners(ledger: SqlLedger) -> dict[str, frozenset[str]]:
    """Return all pipelines by name, each with the Dags that have planned it."""
    names = select(pipeline.c.name).distinct()
    dags = select(plan.c.pipeline, plan.c.dag).where(plan.c.dag.is_not(None)).distinct()
    found: dict[str, set[str]] = defaultdict(set)

    def read(connection: Connection) -> None:
        for name in connection.execute(names).scalars():
            found.setdefault(name, set())
        for row in connection.execute(dags):
            found[row.pipeline].add(row.dag)

    ledger.read(read)
    return {name: frozenset(dags) for name, dags in found.items()}


def has_wave(ledger: SqlLedger, name: str, wave_id: str) -> bool:
    """Return whether a wave is one of a pipeline's."""
    found = select(exists().where(wave.c.pipeline == name, wave.c.id == wave_id))
    return bool(ledger.read(lambda c: c.execute(found).scalar_one()))


def has_subject(ledger: SqlLedger, name: str, subject: str) -> bool:
    """Return whether a wave, a range or a plan of this id is one of a pipeline's."""
    waves = select(wave.c.id).where(wave.c.pipeline == name)
    where = (
        exists().where(wave.c.pipeline == name, wave.c.id == subject),
        exists().where(plan.c.pipeline == name, plan.c.id == subject),
        exists().where(range_.c.id == subject, range_.c.wave.in_(waves)),
    )
    return any(ledger.read(lambda c: c.execute(select(*where)).one()))


def waves(
    ledger: SqlLedger, name: str, states: Sequence[WaveState], *, skip: int, limit: int
) -> tuple[tuple[WaveRecord, ...], int]:
    """Return a page of a pipeline's waves, newest first, and how many there are; no states are all."""
    mine = [wave.c.pipeline == name, *([wave.c.state.in_(states)] if states else [])]
    newest = select(wave.c.id).join(plan, plan.c.id == wave.c.plan).where(*mine)
    page = newest.order_by(plan.c.number.desc(), wave.c.ordinal.desc(), wave.c.id.desc()).offset(skip).limit(limit)

    def read(connection: Connection) -> tuple[tuple[WaveRecord, ...], int]:
        count = connection.execute(select(func.count()).select_from(wave).where(*mine)).scalar_one()
        ids = connection.execute(page).scalars().all()
        return tuple(reversed(queries.waves(connection, wave.c.id.in_(ids)))), count

    return ledger.read(read)


def events(ledger: SqlLedger, name: str, *, before: int | None, limit: int) -> tuple[Event, ...]:
    """Return lines of a pipeline's history, newest first; `before` is the sequence where an earlier page ended."""
    where = [event.c.pipeline == name, *(() if before is None else (event.c.sequence < before,))]
    return tuple(reversed(ledger.read(lambda connection: queries.events(connection, where, limit, newest=True))))
