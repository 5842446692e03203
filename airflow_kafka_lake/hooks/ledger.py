"""From a `sqlite` or `postgres` connection to the ledger."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError
from airflow_kafka_lake.hooks.connections import ConnectionSettings, get_connection

if TYPE_CHECKING:
    from sqlalchemy import URL

    from airflow_kafka_lake.adapters.sql_ledger import SqlLedger

TYPES = ("sqlite", "postgres")
DEFAULT_LEDGER = "kafka_lake_ledger"

_POSTGRES_OPTIONS = frozenset(
    {
        "sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "options", "application_name", "connect_timeout",
        "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
        "target_session_attrs",
    }
)  # fmt: skip
"""Options of libpq that decide how we connect, and nothing else."""


class LedgerHook:
    """Opens the ledger by its connection, in any SQLite file or PostgreSQL database but Airflow's own."""

    conn_name_attr = "ledger_conn_id"
    default_conn_name = DEFAULT_LEDGER
    conn_type = "sqlite"
    hook_name = "Ledger (Kafka Lake)"

    def __init__(
        self, ledger_conn_id: str = default_conn_name, *, connection: ConnectionSettings | None = None
    ) -> None:
        self.ledger_conn_id = ledger_conn_id
        self._connection = connection

    @cached_property
    def url(self) -> URL:
        """The database's address; ConnectionSettingsError names what is wrong."""
        return ledger_url(self._connection or get_connection(self.ledger_conn_id, *TYPES))

    def ledger(self) -> SqlLedger:
        """Return the ledger (`ports.Ledger`); opens on first use. Close it when done."""
        from airflow_kafka_lake.adapters.sql_ledger import SqlLedger

        return SqlLedger(self.url)

    get_conn = ledger

    def schema(self) -> SqlLedger:
        """Return what `db upgrade` and `db check` work on; each answers with the schema's revision."""
        return self.ledger()

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the ledger answers, in one sentence."""
        try:
            ledger = self.ledger()
            try:
                return True, f"The ledger {ledger.ledger_id()} answers."
            finally:
                ledger.close()
        except KafkaLakeError as error:
            return False, error.message


def ledger_url(connection: ConnectionSettings) -> URL:
    """Return the SQLAlchemy address of a ledger connection."""
    from sqlalchemy import URL

    if connection.conn_type == "sqlite":
        path = connection.host or connection.schema or ""
        if not PurePosixPath(path).is_absolute():
            raise ConnectionSettingsError(
                f"Connection {connection.conn_id!r} (type sqlite): host must be the absolute path of the ledger's "
                "file, such as /data/ledger.db: every worker has to find the same one.",
                connection=connection.conn_id,
            )
        return URL.create("sqlite", database=path)
    if not connection.schema:
        raise ConnectionSettingsError(
            f"Connection {connection.conn_id!r} (type postgres) names no database: put it into schema.",
            connection=connection.conn_id,
        )
    options = {key: str(value) for key, value in connection.extra.items()}
    if unknown := sorted(set(options) - _POSTGRES_OPTIONS):
        raise ConnectionSettingsError(
            f"Connection {connection.conn_id!r} (type postgres): the ledger knows no option {', '.join(unknown)}. "
            f"Known: {', '.join(sorted(_POSTGRES_OPTIONS))}.",
            connection=connection.conn_id,
        )
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
