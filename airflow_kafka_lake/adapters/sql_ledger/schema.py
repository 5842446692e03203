"""The revision of the ledger's schema: read, check, upgrade."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from airflow_kafka_lake.adapters.sql_ledger.tables import VERSION_TABLE
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import LedgerSchemaError

NEWEST = "0012"
"""The revision this package reads and writes. Revisions are numbers of four digits, so text order is their order."""

OLDEST = "0012"
"""The first revision that can be upgraded."""

_REVISION = text(f"SELECT version_num FROM {VERSION_TABLE}")

FOLDER = Path(__file__).parent / "migrations"


def revision(connection: Connection) -> str | None:
    """Return the schema's revision; None when there is no schema."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(_REVISION).scalar()


def refuse_another(connection: Connection, name: str) -> None:
    """Refuse a schema that was as it should be when this process opened the ledger, and is not any more."""
    found = connection.execute(_REVISION).scalar()
    if found != NEWEST:
        raise LedgerSchemaError(
            f"The ledger {name} has schema {found} now, and had {NEWEST} when this process opened it: it records "
            "nothing more there. Start the process again with the package version that the ledger is of; what it was "
            "at work on is found and finished by the next run",
            found=found,
            wanted=NEWEST,
        )


def is_empty(connection: Connection) -> bool:
    """Return whether the database holds no table at all."""
    return not inspect(connection).get_table_names()


def check(connection: Connection, name: str) -> None:
    """Raise LedgerSchemaError unless the schema is exactly the one this package knows."""
    found = revision(connection)
    if found == NEWEST:
        return
    if found is None:
        problem, way = "has no schema", f"create it with: {remedies.upgrade_ledger()}"
    elif found < OLDEST:
        problem = f"has schema {found}, older than {OLDEST}, from before the first release"
        way = f"it cannot be upgraded; name an empty database instead, and fill it from the lake: {remedies.rebuild()}"
    elif found < NEWEST:
        problem, way = f"has schema {found}, older than {NEWEST}", f"bring it up with: {remedies.upgrade_ledger()}"
    else:
        problem, way = f"has schema {found}, newer than {NEWEST}", "install the package version that made it"
    raise LedgerSchemaError(f"The ledger {name} {problem}; {way}. Nothing was touched.", found=found, wanted=NEWEST)


def upgrade(connection: Connection, name: str) -> None:
    """Bring the schema to the newest revision, inside the caller's transaction.

    A newer revision is refused, and so is one older than `OLDEST`.
    """
    if connection.dialect.name == "postgresql":
        # Two upgrades at once: the second waits, and finds the work done. (A SQLite transaction is alone anyway.)
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": VERSION_TABLE})
    found = revision(connection)
    if found is not None and not OLDEST <= found <= NEWEST:
        check(connection, name)
    if found == NEWEST:
        return
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(FOLDER))

    def steps(current: Any, _context: Any) -> Any:
        return script._upgrade_revs("head", current)  # noqa: SLF001 (what `alembic upgrade` itself runs)

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection, version_table=VERSION_TABLE)
        environment.run_migrations()
