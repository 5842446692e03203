"""A write in one transaction: its scope is loaded under lock, it decides, and the change is applied."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from airflow_kafka_lake.adapters.sql_ledger.applying import apply
from airflow_kafka_lake.adapters.sql_ledger.database import ErrorKind, error_kind
from airflow_kafka_lake.adapters.sql_ledger.loading import Loading
from airflow_kafka_lake.core.ledger.changes import Write

T = TypeVar("T")


def commit(connection: Connection, write: Write[T]) -> T:
    """Return what a write answers, once its change is written."""
    loading = Loading(connection, write.scope())
    change = write.decide(loading.load())
    try:
        apply(connection, change, loading.ids)
    except IntegrityError as error:
        if refusal := write.refused(overlap=error_kind(error) is ErrorKind.OVERLAP):
            raise refusal from None
        raise
    return change.result
