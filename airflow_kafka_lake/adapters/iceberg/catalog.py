"""The open catalog: load tables, bound every request, and name what went wrong without a secret."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.update import TableRequirement, TableUpdate
from requests import Session
from sqlalchemy import Engine, event
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from airflow_kafka_lake.adapters.denied import denied, full
from airflow_kafka_lake.adapters.redaction import Secrets
from airflow_kafka_lake.adapters.timeouts import REST, REST_ANSWER, REST_CONNECT
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError, UnknownSubjectError

_IDENTIFIER = re.compile(r"[A-Za-z0-9_]{1,128}(\.[A-Za-z0-9_]{1,128})+")
_LONGEST = 300
_TRY_AGAIN = "try again when catalog and storage answer"
_REMOVE_OLD = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED


class CatalogSettings(Protocol):
    """What opening a catalog needs to know."""

    @property
    def connection_id(self) -> str:
        """The Airflow connection, for messages."""

    @property
    def catalog_name(self) -> str:
        """The catalog's name, the same for Spark."""

    def pyiceberg(self) -> Mapping[str, str]:
        """Return the properties for PyIceberg."""


class OpenCatalog:
    """A catalog that opens when it is first used."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._catalog: Catalog | None = None

    @property
    def api(self) -> Catalog:
        """PyIceberg's catalog; call it inside `reaching`."""
        with self._opening:
            if self._catalog is None:
                properties = self._settings.pyiceberg()
                self._require_folder()
                # Not by `load_catalog`, which would mix in a configuration file of this machine that Spark ignores.
                kind = BoundedRestCatalog if properties["type"] == "rest" else SqlCatalog
                self._catalog = kind(self._settings.catalog_name, **properties)
                if isinstance(self._catalog, SqlCatalog):
                    _keep_no_locks(self._catalog.engine)
            return self._catalog

    def _require_folder(self) -> None:
        """Refuse a SQLite catalog in a folder that does not exist, because repeating would not help."""
        file = self._sqlite_file()
        if file is not None and not file.parent.is_dir():
            raise self._settings_error("open the catalog", f"there is no folder {file.parent} for its SQLite file")

    def _sqlite_file(self) -> Path | None:
        scheme, _, path = self._settings.pyiceberg()["uri"].partition("///")
        return Path(path.partition("?")[0]) if scheme == "sqlite:" else None

    def load(self, identifier: str) -> Table:
        """Load a table's newest metadata; UnknownSubjectError when it does not exist."""
        if (table := self.find(identifier)) is None:
            raise UnknownSubjectError(
                f"Table {identifier} does not exist in the lake of connection {self._settings.connection_id!r}; "
                f"`{remedies.plan()}` creates it.",
                table=identifier,
            )
        return table

    def find(self, identifier: str) -> Table | None:
        """Load a table's newest metadata; None when it does not exist."""
        with self.reaching(f"load table {identifier}"):
            try:
                return self.api.load_table(checked_identifier(identifier))
            except NoSuchTableError:
                return None

    def ensure_namespace(self, identifier: str) -> None:
        """Create the table's namespace when it is missing; two at once are fine."""
        namespace = identifier.rpartition(".")[0]
        with self.reaching(f"create namespace {namespace}"):
            try:
                if not self.api.namespace_exists(namespace):
                    self.api.create_namespace(namespace)
            except (NamespaceAlreadyExistsError, IntegrityError):
                return

    def commit(self, table: Table, required: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> None:
        """Commit once; then remove the metadata files that the table does not list any more, if its properties ask for
        it. Raises what the catalog raises."""
        done = self.api.commit_table(table, required, updates)
        listed = {entry.metadata_file for entry in done.metadata.metadata_log}
        if str(done.metadata.properties.get(_REMOVE_OLD, "")).lower() == "true":
            for entry in table.metadata.metadata_log:
                if entry.metadata_file not in listed:
                    with suppress(Exception):  # the commit is made; a file that stays does no harm
                        table.io.delete(entry.metadata_file)

    @contextmanager
    def reaching(self, doing: str) -> Iterator[None]:
        """Turn what catalog and storage may raise into UnavailableError or ConnectionSettingsError.

        The original exception is dropped on purpose: drivers put addresses and credentials into theirs.
        """
        try:
            yield
        except (UnauthorizedError, ForbiddenError, OAuthError) as error:
            raise self._settings_error(doing, f"the catalog refuses the credential: {self.reason(error)}") from None
        except (ImportError, NotInstalledError) as error:
            raise self._settings_error(doing, f"a package is missing: {self.reason(error)}") from None
        except ValidationError:
            problem = "what answers there does not speak Iceberg's REST protocol"
            raise self._settings_error(doing, problem) from None
        except (SQLAlchemyError, RESTError, CommitFailedException, OSError, pa.ArrowException) as error:
            if denied(error, self._sqlite_file()):
                problem = (
                    f"what it needs may not be read or written: {self.reason(error)}. Give this user the permission"
                )
                raise self._settings_error(doing, problem) from None
            remedy = "make room on its disk, then try again" if full(error, self._sqlite_file()) else _TRY_AGAIN
            raise UnavailableError(
                f"Could not {doing} (connection {self._settings.connection_id!r}): {self.reason(error)}. "
                f"Nothing was changed; {remedy}.",
                connection=self._settings.connection_id,
            ) from None

    def reason(self, error: BaseException) -> str:
        """Return an error in one line without any secret of the connection."""
        lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(("[SQL:", "(Backg"))]
        text = f"{type(error).__name__}: {' '.join(lines)}"
        return Secrets(self._settings.pyiceberg()).masked(text)[:_LONGEST]

    def _settings_error(self, doing: str, problem: str) -> ConnectionSettingsError:
        return ConnectionSettingsError(
            f"Could not {doing} (connection {self._settings.connection_id!r}): {problem}. Correct the connection.",
            connection=self._settings.connection_id,
        )

    def close(self) -> None:
        """Close the catalog; the next use opens it again."""
        with self._opening:
            if self._catalog is not None:
                self._catalog.close()
                self._catalog = None


def _keep_no_locks(engine: Engine) -> None:
    event.listen(engine, "checkin", _roll_back)
    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", _let_others_pass)
        engine.dispose()


def _let_others_pass(connection: Any, _record: ConnectionPoolEntry) -> None:
    """Let the server end our idle transactions, and bound the wait for a lock."""
    with connection.cursor() as cursor:
        for name, limit in (("idle_in_transaction_session_timeout", "60s"), ("lock_timeout", "90s")):
            cursor.execute("SELECT set_config(%s, %s, false) WHERE current_setting(%s) = '0'", (name, limit, name))
    connection.commit()


def _roll_back(connection: Any, record: ConnectionPoolEntry) -> None:
    """Leave no transaction open on a connection that is returned to the pool.

    SQLite keeps a transaction open when its COMMIT found the file locked, and PyIceberg's session returns the
    connection as it is: its next user would read changes that were never committed.
    """
    if connection is None:
        return
    try:
        connection.rollback()
    except Exception:  # noqa: BLE001 - drivers have no common error, and a connection in doubt is not kept
        record.invalidate()


def checked_identifier(identifier: str) -> str:
    """Return `namespace.table` when it is legal, else refuse with UnknownSubjectError."""
    if not _IDENTIFIER.fullmatch(identifier):
        raise UnknownSubjectError(
            f"Table name {identifier!r} is not legal: use namespace.table of letters, digits and _.", table=identifier
        )
    return identifier


class BoundedRestCatalog(RestCatalog):
    """A REST catalog that raises `requests.Timeout` when the server does not answer; PyIceberg's waits for ever."""

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        # PyIceberg calls this first with a new session, and it may already ask the server for a token.
        given = {**REST, **self.properties}
        limits = (float(given[REST_CONNECT]) / 1000, float(given[REST_ANSWER]) / 1000)
        session.request = partial(session.request, timeout=limits)  # type: ignore[method-assign]
        return super()._create_legacy_oauth2_auth_manager(session)
