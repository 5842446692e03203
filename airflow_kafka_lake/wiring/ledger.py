"""From a `sqlite` or `postgres` connection to the ledger."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.wiring.connections import ConnectionSettings, get_connection

if TYPE_CHECKING:
    from sqlalchemy import URL

    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

OWN_TYPE = "kafka_lake_ledger"
TYPES = ("sqlite", "postgres", OWN_TYPE)
DEFAULT_LEDGER = "kafka_lake_ledger"

_DATABASE = "database"
_POSTGRES_OPTIONS = frozenset(
    {
        "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "options", "application_name", "connect_timeout",
        "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
        "target_session_attrs",
    }
)  # fmt: skip
"""Options of libpq that decide how we connect, and nothing else."""


class LedgerConnection:
    """Opens the ledger, in any SQLite file or PostgreSQL database but Airflow's own."""

    def __init__(self, ledger_conn_id: str = DEFAULT_LEDGER, *, connection: ConnectionSettings | None = None) -> None:
        self.ledger_conn_id = ledger_conn_id
        self._connection = connection

    @cached_property
    def url(self) -> URL:
        """The database's address; ConnectionSettingsError names the fault."""
        return ledger_url(self._connection or get_connection(self.ledger_conn_id, *TYPES))

    def ledger(self) -> SqlLedger:
        """Return the ledger (`ports.Ledger`); opens on first use. Close it when done."""
        from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

        return SqlLedger(self.url)

    def check(self) -> str:
        """Return in one sentence that the ledger answers; raises the error that keeps it from answering."""
        ledger = self.ledger()
        try:
            return f"The ledger {ledger.ledger_id()} answers."
        finally:
            ledger.close()


def ledger_url(connection: ConnectionSettings) -> URL:
    """Return the SQLAlchemy address of a ledger connection."""
    return _sqlite_url(connection) if _database_of(connection) == "sqlite" else _postgres_url(connection)


def _refusal(connection: ConnectionSettings, problem: str) -> ConnectionSettingsError:
    named = f"Connection {connection.conn_id!r} (type {connection.conn_type})"
    return ConnectionSettingsError(f"{named}{problem}", connection=connection.conn_id)


def _sqlite_url(connection: ConnectionSettings) -> URL:
    from sqlalchemy import URL

    path = connection.host or connection.schema or ""
    if not PurePosixPath(path).is_absolute():
        raise _refusal(
            connection,
            ": host must be the absolute path of the ledger's file, such as /data/ledger.db: every worker has to find "
            "the same one.",
        )
    return URL.create("sqlite", database=path)


def _postgres_url(connection: ConnectionSettings) -> URL:
    from sqlalchemy import URL

    if not connection.schema:
        raise _refusal(connection, " names no database: put it into schema.")
    options = {key: str(value) for key, value in connection.extra.items() if key != _DATABASE}
    if unknown := sorted(set(options) - _POSTGRES_OPTIONS):
        known = ", ".join(sorted(_POSTGRES_OPTIONS))
        raise _refusal(connection, f": the ledger knows no option {', '.join(unknown)}. Known: {known}.")
    socket = connection.host if connection.host and connection.host.startswith("/") else None
    return URL.create(
        "postgresql+psycopg2",
        username=connection.login,
        password=connection.password,
        host=None if socket else connection.host,
        port=connection.port,
        database=connection.schema,
        query=options | ({"host": socket} if socket else {}),
    )


def _database_of(connection: ConnectionSettings) -> str:
    """Return the database of a connection: its type or, where the type is ours, `database` in its extra."""
    if connection.conn_type != OWN_TYPE:
        return connection.conn_type
    database = connection.extra.get(_DATABASE) or "postgres"
    if database not in {"sqlite", "postgres"}:
        raise _refusal(connection, ": database must be sqlite or postgres.")
    return str(database)
