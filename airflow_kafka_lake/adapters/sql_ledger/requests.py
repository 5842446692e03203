"""The queries of requests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, select

from airflow_kafka_lake.adapters.sql_ledger.tables import plan as plan_
from airflow_kafka_lake.adapters.sql_ledger.tables import request, wave
from airflow_kafka_lake.adapters.sql_ledger.types import now
from airflow_kafka_lake.core.ledger.guards import lease_is_live
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.rows import RequestRow
from airflow_kafka_lake.core.ledger.waves import LeaseHolder


def of_waves(connection: Connection, waves: Collection[str]) -> tuple[RequestRow, ...]:
    """Return what was asked for some waves, oldest first; their rows are locked with the waves."""
    query = select(request).where(request.c.wave.in_(sorted(waves))).order_by(request.c.at, request.c.id)
    return tuple(RequestRow(**_values(row)) for row in connection.execute(query))


def requests(connection: Connection, name: str | None) -> tuple[RequestRecord, ...]:
    """Return what was asked for one wave, or all waves, in the order of plans and their waves."""
    query = (
        select(request, wave.c.state, wave.c.lease_holder, wave.c.lease_until, now().label("now"))
        .join(wave, wave.c.id == request.c.wave)
        .join(plan_, plan_.c.id == wave.c.plan)
        .order_by(plan_.c.number, wave.c.ordinal, wave.c.id, request.c.at, request.c.id)
    )
    if name is not None:
        query = query.where(request.c.wave == name)
    return tuple(_record(row) for row in connection.execute(query))


def _values(row: Any) -> dict[str, Any]:
    return {item.name: getattr(row, item.name) for item in fields(RequestRow)}


def _record(row: Any) -> RequestRecord:
    return RequestRecord(
        **_values(row),
        live=row.now < row.until,
        state=row.state,
        holder=None if row.lease_holder is None else LeaseHolder.parse(row.lease_holder),
        lease_live=lease_is_live(row.lease_until, row.now),
    )
