"""The database behind the ledger: connections, transactions, errors, and the revision of its schema."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, DisconnectionError, IntegrityError
from sqlalchemy.pool import StaticPool

from airflow_kafka_lake.adapters.clients import POSTGRES, denied, full
from airflow_kafka_lake.adapters.sql_ledger.tables import VERSION_TABLE
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    ConnectionSettingsError,
    KafkaLakeError,
    LedgerSchemaError,
    StateError,
    UnavailableError,
)
from airflow_kafka_lake.jobs.driver import hidden

T = TypeVar("T")
TRIES = 12
"""With the usual lock timeout of five seconds a write waits a minute at most. A SQLite file has no queue of waiting
writers: the last of 50 processes on a slow disk waited 17 seconds."""
PAUSE = 0.05
OVERLAP = "kafka_lake: ranges of a stream never overlap"
"""The message of the SQLite trigger; PostgreSQL has SQLSTATE 23P01 for it."""

_BEGIN, _FILE = "kafka_lake_begin", "kafka_lake_file"
_IDLE_TIMEOUT = (
    "SELECT set_config('idle_in_transaction_session_timeout', '60s', false) "
    "WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)
"""The server ends the transaction of a client that hangs or is cut off, and releases its locks."""
_BUSY_STATES = frozenset({"40001", "40P01", "55P03"})
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class Database:
    """A SQLite file or a PostgreSQL database, opened when it is first used.

    `read` is one consistent snapshot; `write` is one transaction, tried up to `TRIES` times when the database has
    rolled it back (lock timeouts, deadlocks, serialization failures), then ConcurrentError. A transaction whose answer
    was lost is never repeated: it may have been committed.
    """

    def __init__(self, url: str | URL, *, lock_timeout: float) -> None:
        self.url = _checked_url(url)
        self._lock_timeout = lock_timeout
        self._opened: tuple[int, int] | None = None
        self.engine = self._create()
        """Tests count its statements."""
        if self.is_sqlite:
            self._reader = self.engine.execution_options(**{_BEGIN: "BEGIN"})
        else:
            self._reader = self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    def name(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        self.engine.dispose()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent snapshot."""
        return self._run(self._reader, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction: all of it, or nothing."""
        return self._run(self.engine, work)

    def log_ahead(self) -> None:
        """Put a SQLite file into WAL mode, in which readers do not wait for the writer.

        The file keeps the mode, so it is set only once the file is known to be a ledger; while others use the file, it
        is left to the next opening. Raises UnavailableError for a file that SQLite cannot use."""
        if not self.is_sqlite:
            return
        connection = self.engine.raw_connection()
        try:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise UnavailableError(f"The ledger {self.name()} cannot be used: {error}.") from None
        finally:
            connection.close()

    def _run(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        for turn in range(TRIES):
            try:
                with engine.connect() as connection, connection.begin():
                    return work(connection)
            except DBAPIError as error:
                if not is_busy(error):
                    raise self._translated(error) from None
            # Random, so that the same transactions do not collide again.
            time.sleep(random.uniform(0, PAUSE * (turn + 1)))
        raise ConcurrentError(f"The ledger {self.name()} is busy: other transactions hold its rows. Repeat.")

    def _translated(self, error: DBAPIError) -> KafkaLakeError:
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        if password := self.url.password:
            reason = reason.replace(str(password), "***")
        if isinstance(error, (IntegrityError, DataError)):
            return StateError(f"The ledger {self.name()} refuses the change: {reason}. Nothing was recorded.")
        file = _file(self.url) if self.is_sqlite else None
        if denied(error, file):
            return ConnectionSettingsError(f"The ledger {self.name()} may not be written: {reason}.").mended_by(
                "Give this user the permission, or correct the ledger connection."
            )
        if full(error, file):
            return UnavailableError(f"The ledger {self.name()} has no room to write: {reason}.").mended_by(
                "Nothing was recorded. Make room on its disk, then repeat."
            )
        return UnavailableError(f"The ledger {self.name()} cannot be used: {reason}.").mended_by(
            "Check its connection (host, port, schema, login, password), then repeat."
        )

    def _create(self) -> Engine:
        options: dict[str, Any] = {"hide_parameters": True}
        if not self.is_sqlite:
            # Options of the connection are in the address, and would be overridden here.
            defaults = {key: value for key, value in POSTGRES.items() if key not in self.url.query}
            # A restarted server leaves dead connections in the pool; and threads wait for rows, not for a place in it.
            options |= {"pool_pre_ping": True, "max_overflow": -1, "connect_args": defaults}
            engine = create_engine(self.url, **options)
            event.listen(engine, "connect", self._prepare_postgresql)
            return engine
        if _file(self.url) is None:
            # A database in memory lives as long as its one connection, which then all threads share.
            options |= {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
        else:
            options["max_overflow"] = -1
        engine = create_engine(self.url, **options)
        event.listen(engine, "do_connect", self._create_file)
        event.listen(engine, "connect", self._prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "connect", self._note_file)
        event.listen(engine, "checkout", self._refuse_old_file)
        return engine

    def _note_file(self, _: object, record: Any) -> None:
        record.info[_FILE] = self._opened = _identity(_file(self.url))

    def _refuse_old_file(self, _: object, record: Any, __: object) -> None:
        """Open anew where another file has come into the place of the one that a connection has open."""
        if record.info[_FILE] != _identity(_file(self.url)):
            raise DisconnectionError

    def _prepare_postgresql(self, connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", (f"{int(self._lock_timeout * 1000)}ms",))
            cursor.execute(_IDLE_TIMEOUT)
        connection.commit()

    def _create_file(self, *_: object) -> None:
        file = _file(self.url)
        if file is None or file.exists():
            return
        if self._opened:
            raise UnavailableError(f"The ledger {file} is gone: it was moved or deleted. Bring it back, then repeat.")
        if not file.parent.is_dir():
            raise ConnectionSettingsError(
                f"The ledger {file} cannot be created: there is no folder {file.parent}. Create it, or correct the "
                "ledger connection's host."
            )
        try:
            # SQLite would create it with the mode of the umask, and it holds what people write.
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise ConnectionSettingsError(
                f"The ledger {file} cannot be created: {error.strerror}. Let this user write to {file.parent}, or "
                "correct the ledger connection's host."
            ) from None

    def _prepare_sqlite(self, connection: Any, _record: object) -> None:
        # Python's driver would begin transactions of its own, and deferred ones.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(self._lock_timeout * 1000)}")
        # With less, a WAL file may lose its last commits when the power goes, although they were answered.
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A deferred transaction that reads before it writes fails at once when another one wrote in between.
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN IMMEDIATE"))


def _file(url: URL) -> Path | None:
    name = url.database
    return None if not name or name == ":memory:" or name.startswith("file:") else Path(name)


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Return the device and the number of a file; None of a database in memory, and of a file that is gone."""
    with suppress(FileNotFoundError):
        if file and (found := file.stat()):
            return found.st_dev, found.st_ino
    return None


def _checked_url(url: str | URL) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConnectionSettingsError("The ledger's address is no database URL. Correct its connection.") from None
    backend = parsed.get_backend_name()
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg2")
    if backend == "sqlite":
        return parsed
    raise ConnectionSettingsError(
        f"The ledger lives in SQLite or PostgreSQL, not in {backend}. Correct its connection."
    )


def is_busy(error: DBAPIError) -> bool:
    """Return whether another transaction was in the way: the same one, repeated, may go through."""
    primary = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF  # an extended code has it in this byte
    return primary in _BUSY_CODES or getattr(error.orig, "pgcode", None) in _BUSY_STATES


def is_overlap(error: DBAPIError) -> bool:
    """Return whether the database has refused ranges that overlap."""
    return getattr(error.orig, "pgcode", None) == "23P01" or OVERLAP in str(error.orig)


# The revision of the ledger's schema: read, check, upgrade.

NEWEST = "0013"
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
    with hidden("pygments"):  # a template engine that comes with Alembic would load it, to colour its errors
        from alembic.config import Config
        from alembic.runtime.environment import EnvironmentContext
        from alembic.runtime.migration import MigrationStep
        from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(FOLDER))

    def steps(current: Any, _context: Any) -> Any:
        newest_first = script.iterate_revisions("head", current, implicit_base=True)
        return [MigrationStep.upgrade_from_script(script.revision_map, found) for found in newest_first][::-1]

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection, version_table=VERSION_TABLE)
        environment.run_migrations()
