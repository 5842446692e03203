"""The open catalog: load tables, bound every request, and name each fault without a secret."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from packaging.requirements import Requirement
from pydantic import ValidationError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from airflow_kafka_lake.adapters.access_tokens import Renewal
from airflow_kafka_lake.adapters.clients import REST, REST_ANSWER, REST_CONNECT, Secrets, denied, full
from airflow_kafka_lake.adapters.iceberg.settings import CATALOG_NAME, CatalogKind, LakeSettings
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    KafkaLakeError,
    LibraryError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.spark.job import BranchFault
from airflow_kafka_lake.core.spec import TABLE_PART

_LONGEST = 500
_TRY_AGAIN = "try again when catalog and storage answer, or correct uri and warehouse of the connection"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")
_POOL = re.compile(r"HTTPS?ConnectionPool\(host='([^']+)', port=(\d+)\): (?:.*: )?(?:\[Errno -?\d+\] )?(.*?)[\"')]*$")
"""In the errors of `requests`: the address, and what has happened there."""
_REFUSED_BY_STORE: Mapping[str, str] = {
    "SIGNATURE_DOES_NOT_MATCH": "the store refuses the signature: correct s3.secret-access-key",
    "INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|InvalidToken": "the store does not know the key: correct "
    "s3.access-key-id, and s3.session-token where one is given",
    "ExpiredToken": "the store's key has expired: renew s3.access-key-id, s3.secret-access-key and s3.session-token",
    "NO_SUCH_BUCKET|ContainerNotFound|NOT_FOUND.*CreateResumableUpload": "the store has no such bucket: correct "
    "warehouse, or of S3 s3.endpoint or s3.path-style-access",
    "AuthenticationFailed|AuthorizationFailure": "the store refuses the key: correct the keys that begin with adls.",
    "AuthorizationHeaderMalformed|PermanentRedirect|Looks like the configured region": "the bucket is of another "
    "region: correct client.region",
    "TIME_TOO_SKEWED|REQUEST_EXPIRED": "this machine's clock is not the store's: set it",
    "curlCode: 35": "the store does not speak TLS as s3.endpoint says: correct https:// or http:// there",
}
"""The faults of stores that repeating does not mend, in the words of PyArrow and adlfs, and the settings to change."""
_NOT_THERE = "the catalog has no such thing at this address, with this warehouse and prefix (uri, warehouse, prefix)"
_TO_MEND: dict[tuple[type[Exception], ...], str] = {
    (UnauthorizedError, AuthorizationExpiredError, ForbiddenError, OAuthError): "the catalog refuses the credential"
    " (credential, token, scope, oauth2-server-uri)",
    (ModuleNotFoundError, NotInstalledError): "a package is missing",
    (ImportError,): "a package is of a version that does not fit",
    (NoSuchNamespaceError, NotImplementedError): _NOT_THERE,
}
"""The faults that repeating does not mend; the first kind that fits."""

_OF_CATALOG_AND_STORE = (
    *(kind for kinds in _TO_MEND for kind in kinds),
    *(SQLAlchemyError, RESTError, CommitFailedException, ValidationError, OSError, pa.ArrowException),
)
_STORES = ("s3.", "gcs.", "adls.")
_HANDED_OUT = re.compile(r"s3\.session-token|gcs\.oauth2\.token|adls\.sas-token\..*")
_ENDING = re.compile(r"(s3\.session-token|gcs\.oauth2\.token|adls\.sas-token)-expires-at.*")
TOKEN_LIFETIME, TOKEN_RENEWED = "token-expires-in-ms", "token-refresh-enabled"
_HOUR = "3600000"
_GONE_OR_USED = (NoSuchNamespaceError, NamespaceNotEmptyError)
_NOTHING_THERE = frozenset({404, 405, 410})
_LOOKED, _AZURE, _REQUESTS = b"kafka-lake has looked", "azure.core.exceptions", "requests.exceptions"
_REMOVE_OLD = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED


class OpenCatalog:
    """A catalog that opens when it is first used."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings
        self._opening = threading.Lock()
        self._catalog: Catalog | None = None

    @property
    def identity(self) -> str | None:
        return self._settings.identity

    @property
    def _is_rest(self) -> bool:
        return self._settings.kind is CatalogKind.REST

    @property
    def api(self) -> Catalog:
        """PyIceberg's catalog; call it inside `reaching`."""
        with self._opening:
            if self._catalog is None:
                require_pyiceberg()
                self._sqlite_file()
                # Not by `load_catalog`, which would mix in a configuration file of this machine that Spark ignores.
                self._catalog = self._opened()
            return self._catalog

    def _opened(self) -> Catalog:
        if self._is_rest:
            return rest_classes()[0](CATALOG_NAME, **self._settings.pyiceberg())
        from pyiceberg.catalog.sql import SqlCatalog  # SQLAlchemy's mapper too, which a REST catalog does without

        catalog = SqlCatalog(CATALOG_NAME, **self._settings.pyiceberg())
        event.listen(catalog.engine, "checkin", _roll_back)
        if catalog.engine.dialect.name == "postgresql":
            event.listen(catalog.engine, "connect", _let_others_pass)
            catalog.engine.dispose()
        return catalog

    def _is_unborn(self) -> bool:
        """Return whether a SQLite catalog has no file, and may have: a look makes none."""
        file = self._sqlite_file()
        return bool(self._catalog is None and file and not file.exists() and os.access(file.parent, os.W_OK | os.X_OK))

    def _sqlite_file(self) -> Path | None:
        """Return the file of a SQLite catalog; one whose folder is missing is refused."""
        scheme, _, path = self._settings.uri.partition("///")
        file = Path(path) if scheme == "sqlite:" else None
        if file and not file.parent.is_dir():
            raise self._settings_error("open the catalog", f"there is no folder {file.parent} for its SQLite file")
        return file

    def load(self, identifier: str) -> Table:
        """Load a table's newest metadata; UnknownSubjectError when it does not exist."""
        if (table := self.find(identifier)) is None:
            raise UnknownSubjectError(
                f"Table {identifier} does not exist in the lake of connection {self._settings.connection_id!r}; "
                f"`{remedies.plan()}` creates it.",
                table=identifier,
            )
        return table

    def create(
        self,
        identifier: str,
        schema: Schema,
        properties: Mapping[str, str],
        partitioning: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    ) -> Table:
        """Create a table, and its namespace; it may be there by now. Raises UnavailableError for a catalog that claims
        to have created a table which it does not have."""
        given: dict[str, Any] = {"partition_spec": partitioning, "properties": dict(properties)}
        if not self._is_rest and _with_parents(warehouse := self._settings.warehouse or ""):
            self._require_writable(warehouse)
        self._ensure_namespace(identifier)
        with self.reaching(f"create table {identifier}"), suppress(TableAlreadyExistsError):
            try:
                self.api.create_table(identifier, schema, **given)
            except NoSuchNamespaceError:  # a check beside us has removed it: the check had made it
                self._ensure_namespace(identifier)
                self.api.create_table(identifier, schema, **given)
        if (table := self.find(identifier)) is None:
            raise UnavailableError(
                f"The catalog of connection {self._settings.connection_id!r} answered that it has created table "
                f"{identifier}, and does not have it: nothing was recorded. Look at the catalog's log, and at what "
                "stands before it, then try again.",
                connection=self._settings.connection_id,
                table=identifier,
            )
        return table

    def find(self, identifier: str) -> Table | None:
        """Load a table's newest metadata; None when it does not exist."""
        if self._is_unborn():
            return None
        with self.reaching(f"load table {identifier}"):
            try:
                return self._with_lasting_keys(checked_identifier(identifier))
            except NoSuchTableError:
                self._require_absent(identifier)
                return None

    def _with_lasting_keys(self, identifier: str) -> Table:
        """Load a table; where the catalog hands out the keys of its files, each is opened with one that serves."""

        def ends_at(io: FileIO) -> float:
            given = io.properties.items() - self._settings.further.items()
            if not any(_HANDED_OUT.fullmatch(key) for key, _ in given):
                return math.inf
            said = [float(value) / 1000 - time.time() for key, value in given if _ENDING.fullmatch(key)]
            return time.monotonic() + min([0.9 * seconds for seconds in said] or [300])  # Amazon's last 15 minutes

        table = self.api.load_table(identifier)
        stores: Any = getattr(table.io, "fs_by_scheme", None)
        end = ends_at(table.io)

        def opened(scheme: str, place: str | None = None) -> Any:
            nonlocal stores, end
            if time.monotonic() >= end:
                new: Any = self.api.load_table(identifier).io
                stores, end = new.fs_by_scheme, ends_at(new)
            return stores(scheme, place)

        if end < math.inf and stores:
            table.io.fs_by_scheme = opened  # type: ignore[attr-defined]
        return table

    def _require_absent(self, identifier: str) -> None:
        """Refuse a "not found" of a REST catalog that its lists do not confirm: a gateway says that of everything.

        Where listing is forbidden, the catalog has answered for itself.
        """
        if not self._is_rest:
            return
        *namespace, _ = name = tuple(identifier.split("."))
        with suppress(ForbiddenError):
            try:
                is_listed = name in self.api.list_tables(tuple(namespace))
            except NoSuchNamespaceError:
                is_listed = self._is_listed(tuple(namespace))
            if is_listed:
                raise UnavailableError(
                    f"The catalog of connection {self._settings.connection_id!r} lists {identifier} or its namespace, "
                    "and answers that it is not there: nothing was changed. Look at what stands before the catalog, "
                    "then try again.",
                    connection=self._settings.connection_id,
                    table=identifier,
                )

    def _is_listed(self, namespace: tuple[str, ...]) -> bool:
        """Return whether a namespace is in the list of the one above it, or of the nearest one above that is there."""
        try:
            return namespace in self.api.list_namespaces(namespace[:-1])
        except NoSuchNamespaceError:
            if len(namespace) == 1:
                raise
            return self._is_listed(namespace[:-1])

    def look(self, identifier: str) -> str | None:
        """Write, read and remove a file among the files of a table, or where a SQL catalog would put them; say where.

        Before a table is there, only a REST catalog knows the place of its files and their credentials: then catalog
        and store are asked for an answer of any kind, and None is returned.
        """
        if (table := self.find(identifier)) is not None:
            return self._write_and_remove(table.io, f"{table.location()}/metadata")
        if not self._is_unborn():
            with self.reaching("list the namespaces"):
                self.api.list_namespaces()
        warehouse = self._settings.warehouse or ""
        if not _ADDRESS.match(warehouse):
            return None
        io = load_file_io({**self._settings.pyiceberg()}, warehouse)
        if not self._is_rest:
            return self._write_and_remove(io, warehouse)
        with self.reaching(f"reach {warehouse}"):
            try:
                io.new_input(f"{warehouse}/{uuid.uuid4()}").exists()
            except OSError as error:
                if not denied(error) and any(key.startswith(_STORES) for key in self._settings.further):
                    raise  # else the catalog may hand out other credentials for a table, and another endpoint
        return None

    def _write_and_remove(self, io: FileIO, place: str) -> str:
        if place.startswith("file:"):
            self._require_writable(place)
            return f"{place}, read and removed"
        with self.reaching(f"write, read and remove a file in {place}"):
            file = f"{place}/{uuid.uuid4()}-m0.avro"  # a store of tables may take no name but Iceberg's own
            with io.new_output(file).create(overwrite=True) as stream:
                stream.write(_LOOKED)
            removed = "removed"
            try:
                with io.new_input(file).open() as found:
                    is_whole = found.read() == _LOOKED
            finally:
                try:
                    io.delete(file)
                except OSError as error:
                    if not denied(error):
                        raise
                    removed = f"not removed, which the store does not permit here ({file}): no expired file will be"
            if not is_whole:
                raise OSError(f"{file} was read otherwise than it was written")
        return f"{place}, read and {removed}"

    def _require_writable(self, place: str) -> None:
        """Refuse a folder, or the nearest one above that exists, in which this user can make nothing; leave nothing."""
        folder, *parents = _with_parents(place)
        above, doing = next(path for path in (folder, *parents) if path.exists()), f"write into {folder}"
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            # As root one may write into /proc, where no file can be.
            with self.reaching(doing), suppress(FileNotFoundError), tempfile.TemporaryFile(dir=above) as file:
                file.write(_LOOKED)
                return
        if above.exists():  # else a check beside us has removed what it had made
            raise self._settings_error(doing, f"this user cannot make anything in {above} (warehouse)")

    def _ensure_namespace(self, identifier: str) -> None:
        """Create the table's namespace, and those around it, when it is missing; two at once are fine."""
        *parts, _ = identifier.split(".")
        with self.reaching(f"create namespace {'.'.join(parts)}"):
            if not self.api.namespace_exists(tuple(parts)):
                for end in range(1, len(parts) + 1):
                    # Of two that create it at once, PyIceberg's SQL catalog gives one the database's own error.
                    with suppress(NamespaceAlreadyExistsError, IntegrityError):
                        self.api.create_namespace(tuple(parts[:end]))

    def beside(self, identifier: str, try_out: Callable[[str], str]) -> tuple[str, str]:
        """Try a table of another name in the namespace of one, and remove all that came with it. Return what the trial
        returns, and in words what could not be removed, which are in an error of the trial too."""
        parts = identifier.split(".")[:-1]
        inner_first = [tuple(parts[:end]) for end in range(len(parts), 0, -1)]
        with self.reaching(f"look for namespace {'.'.join(parts)}"):
            names = [name for name in inner_first if not self.api.namespace_exists(name)]
        table = ".".join((*parts, f"kafka_lake_trial_{uuid.uuid4().hex[:8]}"))
        warehouse = _with_parents(self._settings.warehouse or "")
        there = {folder for place in warehouse[:1] for folder in (*filter(Path.exists, warehouse), *place.glob("*"))}
        try:
            found = try_out(table)
        except BaseException as error:
            if (left := self._remove(table, names, warehouse, there)) and isinstance(error, KafkaLakeError):
                error.mended_by(f"{error.remedy} {left}".strip())
            raise
        return found, self._remove(table, names, warehouse, there)

    def _remove(
        self, identifier: str, namespaces: Sequence[tuple[str, ...]], folders: Sequence[Path], there: Collection[Path]
    ) -> str:
        """Remove a table with its files, and what came with it: namespaces, and folders, which file systems keep, but
        none that was there. Return in words what could not be removed: no run needs the right to do so."""
        left = ""
        try:
            with self.reaching(f"remove table {identifier}"):
                if (table := self.find(identifier)) is not None:
                    folders = [*_with_parents(table.location())[:2], *folders]
                    self._drop(identifier, table)
                    for folder in folders[:1]:
                        shutil.rmtree(folder, ignore_errors=True)
            for name in namespaces:
                with self.reaching(f"remove namespace {'.'.join(name)}"), suppress(*_GONE_OR_USED):
                    self.api.drop_namespace(name)
        except KafkaLakeError as error:
            left = f"{error.fault} No run needs that right; remove it by hand."
        for folder in [item for item in folders if item not in there]:
            with suppress(OSError):
                folder.rmdir()  # unless something else is in it
        return left

    def _drop(self, identifier: str, table: Table) -> None:
        """Drop a table and its files; here where the catalog does not purge them, as Polaris by default."""
        try:
            self.api.purge_table(identifier)
        except RESTError:
            self.api.drop_table(identifier)
            files = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
            for file in (*files, *(snapshot.manifest_list for snapshot in table.metadata.snapshots)):
                with suppress(Exception):  # as PyIceberg does where it purges itself
                    table.io.delete(file)

    def commit(
        self,
        table: Table,
        required: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        *,
        is_seen: Callable[[TableMetadata], bool],
    ) -> None:
        """Commit once, and load the table anew: a catalog may confirm a commit that it has not done.

        Then remove the metadata files that the table does not list any more, if its properties ask for it. Raises the
        catalog's errors, and UnavailableError where the new load does not show the commit.
        """
        self.api.commit_table(table, required, updates)
        name = ".".join(table.name())
        new = self.find(name)
        if new is None or not is_seen(new.metadata):
            raise UnavailableError(
                f"The catalog of connection {self._settings.connection_id!r} answered that a commit of {name} was "
                "done, and a new load of the table does not show it: it counts as not done. Look at the catalog's log, "
                "and at what stands before it, such as a cache.",
                connection=self._settings.connection_id,
                table=name,
            )
        listed = {entry.metadata_file for entry in new.metadata.metadata_log}
        if str(new.metadata.properties.get(_REMOVE_OLD, "")).lower() == "true":
            for entry in table.metadata.metadata_log:
                if entry.metadata_file not in listed:
                    with suppress(Exception):  # the commit is made; a file that stays does no harm
                        table.io.delete(entry.metadata_file)

    @contextmanager
    def reaching(self, doing: str) -> Iterator[None]:
        """Turn the exceptions of catalog and storage into UnavailableError or ConnectionSettingsError.

        The original exception is dropped on purpose: drivers put addresses and credentials into theirs.
        """
        try:
            yield
        except (*_OF_CATALOG_AND_STORE, *_of_azure()) as error:
            if problem := self._problem(error):
                raise self._settings_error(doing, problem) from None
            remedy = "make room on its disk, then try again" if full(error, self._sqlite_file()) else _TRY_AGAIN
            raise UnavailableError(
                f"Could not {doing} (connection {self._settings.connection_id!r}): {self.reason(error)}.",
                connection=self._settings.connection_id,
            ).mended_by(f"Nothing was changed; {remedy}.") from None

    def _problem(self, error: BaseException) -> str | None:
        """Return the fault that a person has to mend, None where the same call may succeed later."""
        if isinstance(error, ValidationError):
            return "what answers at uri does not speak Iceberg's REST protocol"
        known = (text for kinds, text in (_TO_MEND | _of_requests()).items() if isinstance(error, kinds))
        refused = next((text for code, text in _REFUSED_BY_STORE.items() if re.search(code, str(error))), None)
        # PyIceberg's REST client keeps the HTTP status in the cause of its error only; adlfs has Azure's there.
        is_lost = getattr(getattr(error.__cause__, "response", None), "status_code", None) in _NOTHING_THERE
        problem = (refused or _NOT_THERE) if is_lost else (next(known, None) or refused)
        if problem:
            return f"{problem}: {self.reason(error)}"
        if denied(error, self._sqlite_file()):
            return f"what it needs may not be read or written: {self.reason(error)}. Give this user the permission"
        return None

    def reason(self, error: BaseException) -> str:
        """Return an error in one line without any secret of the connection."""
        lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(("[SQL:", "(Backg"))]
        text = f"{type(error).__name__}: " + _POOL.sub(r"\1:\2: \3", " ".join(lines))
        return Secrets(self._settings.pyiceberg()).masked(text)[:_LONGEST]

    def without_branches(self, identifier: str, fault: BranchFault) -> ConnectionSettingsError:
        """Return the refusal of a catalog that does not keep branches apart from main."""
        is_nessie = str(self.api.properties.get("nessie.is-nessie-catalog", "")).lower() == "true"
        nessie = " It calls itself Nessie, whose REST endpoint has one state for each table." if is_nessie else ""
        return ConnectionSettingsError(
            f"The catalog of connection {self._settings.connection_id!r} does not keep the branches of a table: "
            f"{fault} (tried with {identifier}, without a row).{nessie} What a job stages would be visible before it "
            "is audited, so no job is run. Name a catalog that keeps Iceberg's branches; a table that is here already "
            "can be registered there.",
            connection=self._settings.connection_id,
            table=identifier,
            fault=fault.name,
        )

    def _settings_error(self, doing: str, problem: str) -> ConnectionSettingsError:
        return ConnectionSettingsError(
            f"Could not {doing} (connection {self._settings.connection_id!r}): {problem}.",
            connection=self._settings.connection_id,
        ).mended_by("Correct the connection.")

    def close(self) -> None:
        """Close the catalog; the next use opens it again."""
        with self._opening:
            if self._catalog is not None:
                self._catalog.close()
                self._catalog = None


def require_pyiceberg(version_of: Callable[[str], str] = metadata.version) -> None:
    """Refuse a PyIceberg outside the range that this package is made for: commits are built from its internals."""
    found, ours = version_of("pyiceberg"), metadata.requires("airflow-kafka-lake") or ()
    wanted = next((item for item in map(Requirement, ours) if item.name == "pyiceberg" and item.marker is None), None)
    if wanted and not wanted.specifier.contains(found, prereleases=True):
        raise LibraryError(
            f"pyiceberg {found} is installed, and this package works with {wanted.specifier}. "
            f"Run: pip install 'pyiceberg{wanted.specifier}'",
            module="pyiceberg",
        )


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


def _with_parents(place: str) -> list[Path]:
    """Return a folder and those above it, the nearest first; none for a place in a store."""
    if not place.startswith("file:"):
        return []
    folder = Path(unquote(urlsplit(place).path))
    return [folder, *folder.parents]


def _of_azure() -> tuple[type[Exception], ...]:
    """Return what Azure's client and adlfs raise, once a table has brought them."""
    azure: Any = sys.modules.get(_AZURE)
    return (azure.AzureError, RuntimeError) if azure else ()


def _of_requests() -> dict[tuple[type[Exception], ...], str]:
    """Return the remedy for an error of `requests`, once a REST catalog has brought it."""
    found: Any = sys.modules.get(_REQUESTS)
    untrusted = "the catalog's certificate is not one that this machine trusts (uri, REQUESTS_CA_BUNDLE)"
    return {(found.SSLError,): untrusted} if found else {}


def checked_identifier(identifier: str) -> str:
    """Return `namespace.table` when it is legal, else refuse with UnknownSubjectError."""
    parts = identifier.split(".")
    if len(parts) < 2 or not all(map(TABLE_PART.fullmatch, parts)):
        raise UnknownSubjectError(
            f"Table name {identifier!r} is not legal: use namespace.table of A-Z a-z 0-9 _ -.", table=identifier
        )
    return identifier


@cache
def rest_classes() -> tuple[type[Catalog], type[Any]]:
    """Return the class of REST catalogs, and that of their tokens; PyIceberg's bring `requests`, a tenth of the CPU
    time that a command with a SQL catalog takes."""
    from pyiceberg.catalog.rest import AUDIENCE, CREDENTIAL, RESOURCE, SCOPE, TOKEN, RestCatalog
    from pyiceberg.catalog.rest.auth import AuthManager, LegacyOAuth2AuthManager
    from pyiceberg.catalog.rest.response import TokenResponse
    from requests import Response, Session

    class BoundedRestCatalog(RestCatalog):
        """A REST catalog that raises `requests.Timeout` when the server does not answer, where PyIceberg's waits for
        ever; its token is renewed before it ends, where PyIceberg's is asked for once."""

        def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
            # PyIceberg (0.11.1, 0.12.0) calls this first with a new session, and may ask the server for a token now.
            given = {**REST, **self.properties}
            limits = (float(given[REST_CONNECT]) / 1000, float(given[REST_ANSWER]) / 1000)
            session.request = partial(session.request, timeout=limits)  # type: ignore[method-assign]
            return RenewedToken(session, given, self.auth_url if CREDENTIAL in given else None, time.monotonic)

    class RenewedToken(LegacyOAuth2AuthManager):
        """A token of an OAuth2 server, renewed by the same credential.

        PyIceberg repeats a request that was refused (401, 419) once, with a new token.
        """

        def __init__(
            self, session: Session, given: Mapping[str, str], address: str | None, now: Callable[[], float]
        ) -> None:
            self._asked, self._given = session, given
            self._renewal = Renewal(self._refresh_token, (OSError, RESTError, OAuthError), now)
            wanted = {SCOPE: "catalog"} | {key: given[key] for key in (SCOPE, AUDIENCE, RESOURCE) if given.get(key)}
            asking: Any = SimpleNamespace(post=self._ask, headers=session.headers)
            super().__init__(asking, address, given.get(CREDENTIAL), given.get(TOKEN), wanted)

        def _ask(self, url: str, **request: Any) -> Response:
            # Without the token that may have ended.
            answer = self._asked.post(url, auth=lambda unsigned: unsigned, **request)
            if answer.ok and self._given.get(TOKEN_RENEWED) != "false":
                said = TokenResponse.model_validate_json(answer.text).expires_in
                self._renewal.begin(said or float(self._given.get(TOKEN_LIFETIME, _HOUR)) / 1000)
            return answer

        def auth_header(self) -> str:
            """Return the header; empty without credential and token, for servers that know us otherwise."""
            self._renewal.renew_when_due()
            return super().auth_header() if self._token else ""

    return BoundedRestCatalog, RenewedToken
