"""The hook of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.hooks.connection import ConnectionHook
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER, LedgerConnection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger


class LedgerHook(ConnectionHook):
    """Opens the ledger, in any SQLite file or PostgreSQL database but Airflow's own.

    :param ledger_conn_id: Airflow connection of the database, of type `kafka_lake_ledger`, `sqlite` or `postgres`
    """

    conn_name_attr = "ledger_conn_id"
    default_conn_name = DEFAULT_LEDGER
    conn_type = "kafka_lake_ledger"
    hook_name = "Kafka Lake: ledger"

    def __init__(self, ledger_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ledger_conn_id = ledger_conn_id

    def get_conn(self) -> SqlLedger:
        """Return the ledger (`ports.Ledger`); opens on first use. Close it when done."""
        return LedgerConnection(self.ledger_conn_id).ledger()

    def check(self) -> str:
        """See `ConnectionHook`."""
        return LedgerConnection(self.ledger_conn_id).check()
