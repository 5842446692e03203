"""Connections: read once into a value that shows no secret, and a class for what each kind of them opens.

Where Airflow is loaded, its SDK answers (`BaseHook.get_connection`). On the command line the order is Airflow's own: a
configured secrets backend, the environment, the metadata database; a plain environment variable is read without
importing Airflow, which takes more than a second. What a connection opens is imported when it is first used.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.addresses import web_address
from airflow_kafka_lake.core.errors import ConnectionSettingsError, LibraryError, UnavailableError
from airflow_kafka_lake.core.ledger.guards import HostClock
from airflow_kafka_lake.core.reports.lineage import TableDescription
from airflow_kafka_lake.core.spark.job import HISTORY, IDLE_SECONDS, QUIET_SECONDS, Application, is_local
from airflow_kafka_lake.core.spec import CONNECTION_ID, PipelineSpec

if TYPE_CHECKING:
    from sqlalchemy import URL

    from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
    from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
    from airflow_kafka_lake.adapters.jars.cache import JarSet
    from airflow_kafka_lake.adapters.kafka.source import KafkaGroupCommitter, KafkaOffsetSource
    from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader
    from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
    from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
    from airflow_kafka_lake.adapters.registry.settings import RegistrySettings
    from airflow_kafka_lake.adapters.spark_submit.driver import Engine
    from airflow_kafka_lake.adapters.spark_submit.runner import SparkJobs
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

_EXAMPLES: Mapping[str, str] = {
    "kafka": '{"conn_type": "kafka", "extra": {"bootstrap.servers": "HOST:9092"}}',
    "lake": '{"conn_type": "lake", "extra": {"format": "iceberg", "catalog": "sql", "uri": "sqlite:////PATH.db", '
    '"warehouse": "file:///PATH"}}',
    "sqlite": '{"conn_type": "sqlite", "host": "/PATH/ledger.db"}',
    "http": '{"conn_type": "http", "schema": "https", "host": "REGISTRY", "port": 8081}',
    "spark": '{"conn_type": "spark", "host": "local[2]"}',
}
_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
"""Airflow's own mark of its servers, by which its SDK chooses whom it asks for connections."""

_FIELDS = frozenset({"conn_type", "host", "schema", "login", "password", "port", "extra", "description"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """One connection; `repr` shows neither login, password nor extra. Empty fields are None."""

    conn_id: str
    conn_type: str
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def get_connection(conn_id: str, *legal: str) -> ConnectionSettings:
    """Resolve a connection of one of the legal types.

    Raises ConnectionSettingsError, which never holds a value, when it is missing or does not fit, UnavailableError when
    Airflow cannot be asked.
    """
    _check_id(conn_id)
    # Importing the SDK takes 1.3 s, where a command that has its connections in the environment takes 0.05 s to here.
    if not _airflow_is_loaded():
        plain = os.environ.get(variable(conn_id), "")
        if plain.lstrip().startswith("{") and not _secrets_backend():
            return _from_json(conn_id, plain, legal)
        return _read(conn_id, _from_command_line(conn_id), legal)
    from airflow.sdk import BaseHook

    try:
        found = BaseHook.get_connection(conn_id)
    except Exception as error:  # noqa: BLE001  # backends raise whatever their clients raise
        if not _is_missing(error):
            raise _unresolved(conn_id, legal, error) from None
        if os.environ.get(_CONTEXT) == "server":
            # The SDK has asked the metadata database here already, as it does in every server of Airflow.
            raise _missing(conn_id, legal) from None
        # Outside of a task the SDK does not ask the metadata database, which a command has.
        found = _from_command_line(conn_id)
    return _read(conn_id, found, legal)


async def aget_connection(conn_id: str, *legal: str) -> ConnectionSettings:
    """Resolve like `get_connection`, from a trigger's event loop."""
    _check_id(conn_id)
    from airflow.sdk import BaseHook

    try:
        found = await BaseHook.aget_connection(conn_id)
    except Exception as error:  # noqa: BLE001  # backends raise whatever their clients raise
        raise _unresolved(conn_id, legal, error) from None
    return _read(conn_id, found, legal)


def variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def _check_id(conn_id: str) -> None:
    if not isinstance(conn_id, str) or not CONNECTION_ID.fullmatch(conn_id):
        # An address that is given here may hold a password.
        raise ConnectionSettingsError("A connection id is 1 to 200 of A-Z a-z 0-9 _ . : # -; the one given is not.")


def _airflow_is_loaded() -> bool:
    return "airflow.sdk" in sys.modules


def _secrets_backend() -> bool:
    """Return whether a secrets backend is configured, which Airflow asks before the environment."""
    if any(os.environ.get(f"AIRFLOW__SECRETS__BACKEND{suffix}") for suffix in ("", "_CMD", "_SECRET")):
        return True
    file = Path(os.environ.get("AIRFLOW_CONFIG") or _home() / "airflow.cfg").expanduser()
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return True
    return any(parser.get("secrets", f"backend{suffix}", fallback="").strip() for suffix in ("", "_cmd", "_secret"))


def _home() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()


def _from_command_line(conn_id: str) -> Any:
    """Resolve a connection as Airflow's own commands do; None when Airflow has no such connection.

    Airflow's log handlers keep the stdout they find when Airflow is imported; a command's stdout is its document.
    """
    with contextlib.redirect_stdout(sys.stderr):
        if not (_secrets_backend() or os.environ.get(variable(conn_id)) or _metadata_database_exists()):
            return None
        from airflow.models.connection import Connection
        from airflow.sdk.exceptions import AirflowNotFoundException

        try:
            return Connection.get_connection_from_secrets(conn_id)
        except AirflowNotFoundException:
            return None
        except Exception as error:  # noqa: BLE001  # backends raise whatever their clients raise
            raise _unresolved(conn_id, (), error) from None


_OF_A_TASK = "airflow-db-not-allowed:///"
"""Airflow's supervisor gives a task this address in the place of the metadata database's."""


def _metadata_database_exists() -> bool:
    """Return whether a metadata database can be asked: not by a task's command; a missing SQLite file would be made."""
    named = any(key.startswith(("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONFIG")) for key in os.environ)
    if not named and not _home().exists():
        return False
    from airflow.configuration import conf

    address = conf.get("database", "sql_alchemy_conn", fallback="")
    kind, _, path = address.partition("///")
    return address != _OF_A_TASK and (not kind.startswith("sqlite") or Path(path.partition("?")[0]).exists())


def _from_json(conn_id: str, text: str, legal: tuple[str, ...]) -> ConnectionSettings:
    where = f"environment variable {variable(conn_id)}"
    try:
        given = json.loads(text)
    except ValueError as error:
        position = f" (character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        raise ConnectionSettingsError(f"The {where} is not JSON{position}.", connection=conn_id) from None
    if unknown := sorted(set(given) - _FIELDS):
        raise ConnectionSettingsError(
            f"The {where} has fields that no connection has: {', '.join(unknown)}. Settings of a type go into 'extra'.",
            connection=conn_id,
        )
    port = given.get("port") or None
    if port is not None and not str(port).isdecimal():
        raise ConnectionSettingsError(f"The {where}: port must be a number.", connection=conn_id)
    texts = ("conn_type", "host", "schema", "login", "password")
    if wrong := [key for key in texts if given.get(key) is not None and not isinstance(given[key], str)]:
        raise ConnectionSettingsError(f"The {where}: {', '.join(wrong)} must be text.", connection=conn_id)
    return _read(conn_id, SimpleNamespace(**dict.fromkeys(_FIELDS) | given), legal)


def _read(conn_id: str, found: Any, legal: tuple[str, ...]) -> ConnectionSettings:
    """Copy a connection, if it is of one of the legal types: an object of Airflow's SDK or of its model, or the fields
    of an environment variable."""
    if found is None:
        raise _missing(conn_id, legal)
    conn_type = (found.conn_type or "").replace("-", "_")
    conn_type = "postgres" if conn_type == "postgresql" else conn_type
    extra = _extra(conn_id, found.extra)
    if legal and conn_type not in legal:
        raise ConnectionSettingsError(
            f"Connection {conn_id!r} is of type {conn_type[:60]!r}, and {_one_of(legal)} is needed. "
            "Correct its type, or name another connection.",
            connection=conn_id,
            legal=list(legal),
        )
    return ConnectionSettings(
        conn_id=conn_id,
        conn_type=conn_type,
        host=found.host or None,
        port=int(found.port) if found.port else None,
        schema=found.schema or None,
        login=found.login or None,
        password=found.password or None,
        extra=extra,
    )


def _extra(conn_id: str, extra: object) -> Mapping[str, Any]:
    if isinstance(extra, str) and extra.strip():
        try:
            extra = json.loads(extra)
        except ValueError:
            extra = [extra]
    if extra is None or extra == "":
        return {}
    if not isinstance(extra, dict):
        raise ConnectionSettingsError(
            f"The extra of connection {conn_id!r} is not a JSON object. Correct it.", connection=conn_id
        )
    return extra


def _one_of(names: tuple[str, ...]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _missing(conn_id: str, legal: tuple[str, ...]) -> ConnectionSettingsError:
    kind = " or ".join(legal)
    example = next((_EXAMPLES[item] for item in legal if item in _EXAMPLES), '{"conn_type": …}')
    return ConnectionSettingsError(
        f"Airflow has no connection {conn_id!r}{f' (type {kind})' if kind else ''}. Add it in Airflow, or set the "
        f"environment variable {variable(conn_id)}, for example to {example}",
        connection=conn_id,
        legal=list(legal),
    )


def _unresolved(conn_id: str, legal: tuple[str, ...], error: Exception) -> ConnectionSettingsError | UnavailableError:
    """Return the error of a missing connection or of an Airflow that does not answer, without the text of the given
    error, which may hold secrets."""
    if _is_missing(error) or type(error).__name__ == "AirflowSecretsBackendAccessDenied":
        return _missing(conn_id, legal)
    return UnavailableError(
        f"Airflow could not be asked for connection {conn_id!r} ({type(error).__name__}). Repeat when it answers.",
        connection=conn_id,
    )


def _is_missing(error: Exception) -> bool:
    return type(error).__name__ == "AirflowNotFoundException"


# From a `kafka` connection to the planner's source, the auditor's reader and the job's settings.

KAFKA_TYPES = ("kafka", "kafka_lake_kafka")
DEFAULT_KAFKA = "kafka_default"
ANSWER_SECONDS = 15.0
"""How long an admin call waits for brokers, where a command does not ask for less."""


class KafkaConnection:
    """Opens a Kafka cluster; the type `kafka` is the Kafka provider's, and reused here."""

    def __init__(
        self, kafka_conn_id: str = DEFAULT_KAFKA, *, connection: ConnectionSettings | None = None, client_id: str = ""
    ) -> None:
        """`client_id` names the clients to the brokers, unless the connection names another one."""
        self.kafka_conn_id = kafka_conn_id
        self._connection = connection
        self._own = {"client.id": client_id} if client_id else {}

    @cached_property
    def settings(self) -> KafkaSettings:
        """The validated settings; ConnectionSettingsError names the fault."""
        from airflow_kafka_lake.adapters.kafka_config import KafkaSettings

        found = self._connection or get_connection(self.kafka_conn_id, *KAFKA_TYPES)
        return KafkaSettings.parse({**self._own, **found.extra}, connection=self.kafka_conn_id)

    def source(self, timeout_seconds: float = ANSWER_SECONDS) -> KafkaOffsetSource:
        """Return the cluster's offsets (`ports.OffsetSource`), each call with so much time; connects on first use."""
        from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
        from airflow_kafka_lake.adapters.machine import SystemClock

        return KafkaOffsetSource(self.settings, clock=SystemClock(), timeout_seconds=timeout_seconds)

    def batches(self, bytes_per_second: int | None = None) -> KafkaBatchReader:
        """Return the cluster's raw record batches (`ports.BatchReader`), read no faster than that; connects for each
        call."""
        from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader

        return KafkaBatchReader(self.settings, bytes_per_second=bytes_per_second)

    def group_committer(self) -> KafkaGroupCommitter:
        """Return the committer of watermarks to the cluster's groups (`ports.GroupCommitter`); connects on first
        use."""
        from airflow_kafka_lake.adapters.kafka.source import KafkaGroupCommitter
        from airflow_kafka_lake.adapters.machine import SystemClock

        return KafkaGroupCommitter(self.settings, clock=SystemClock())

    def check(self) -> str:
        """Return in one sentence that the cluster answers; raises the error that keeps it from answering."""
        return self.source().check()


_NAMES: dict[str, dict[str, str]] = {
    "lake": {},
    "iceberg": {"type": "catalog"},
    "aws": {"region_name": "client.region", "endpoint_url": "s3.endpoint", "aws_session_token": "s3.session-token"},
    "google_cloud_platform": {"project": "gcs.project-id"},
}
LAKE_TYPES = tuple(_NAMES)
DEFAULT_LAKE = "lake_default"


class LakeConnection:
    """Opens a lake catalog; the types of the providers of Iceberg, Amazon and Google are read as their hooks do."""

    def __init__(self, lake_conn_id: str = DEFAULT_LAKE) -> None:
        self.lake_conn_id = lake_conn_id

    @cached_property
    def settings(self) -> LakeSettings:
        """The validated settings; ConnectionSettingsError names the fault."""
        from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings

        found = get_connection(self.lake_conn_id, *LAKE_TYPES)
        names, password, login = _NAMES[found.conn_type], found.password, found.login
        extra: dict[str, Any] = {"catalog": "rest"} if names else {}
        extra |= {names.get(key, key): value for key, value in found.extra.items()}
        if found.conn_type == "iceberg" and found.host:
            extra["uri"] = found.host.rstrip("/")
        elif found.conn_type == "aws":
            extra, password, login = _of_amazon(found, extra), None, None
        elif found.conn_type == "google_cloud_platform":  # its form leaves empty fields
            given = {key: value for key, value in extra.items() if key not in {"scope", "num_retries"}}
            extra = {key: value for key, value in given.items() if value not in (None, "")}
        return LakeSettings.parse(self.lake_conn_id, extra, password=password, login=login)

    def lake(self) -> IcebergLake:
        """Return the catalog (`ports.Lake`); opens on first use. Close it when done."""
        from airflow_kafka_lake.adapters.iceberg.table import IcebergLake

        return IcebergLake(self.settings)

    def describe(self, identifier: str) -> TableDescription:
        """Return where a table is, and its columns; opens the catalog for that and closes it again."""
        from airflow_kafka_lake.adapters.iceberg.table import describe

        with contextlib.closing(self.lake()) as lake:
            return describe(lake.catalog, identifier, self.settings.address)

    def check(self) -> str:
        """Return in one sentence that the catalog answers, and where a file was written; raises the error of either."""
        with contextlib.closing(self.lake()) as lake:
            place = lake.catalog.look("kafka_lake.connection_test")
        return f"The {self.settings.kind} catalog answers{f'; a file was written in {place}' if place else ''}."


def _of_amazon(found: ConnectionSettings, extra: dict[str, Any]) -> dict[str, Any]:
    """Return the extra of a lake: without `uri` it is Glue's, or that of S3 Tables whose bucket is the warehouse, and
    the one key signs each request to the catalog and to the store."""
    region, token, warehouse = map(extra.get, ("client.region", "s3.session-token", "warehouse"))
    key = {"access-key-id": found.login, "secret-access-key": found.password, "session-token": token}
    is_signed = "uri" not in extra
    clients = ("s3", "rest", "client") if is_signed else ("s3",)
    own = {f"{client}.{name}": value for client in clients for name, value in key.items()}
    if is_signed:
        if not region:
            raise _refused(found, "region_name is missing in its extra")
        service = "s3tables" if str(warehouse).startswith("arn:aws:s3tables:") else "glue"
        own |= {"uri": f"https://{service}.{region}.amazonaws.com/iceberg", "rest.sigv4-enabled": "true"}
        own |= {"rest.signing-name": service, "rest.signing-region": region}
        own["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
    return {name: value for name, value in own.items() if value} | extra


OWN_LEDGER_TYPE = "kafka_lake_ledger"
LEDGER_TYPES = ("sqlite", "postgres", OWN_LEDGER_TYPE)
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

    def __init__(self, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        self.ledger_conn_id = ledger_conn_id

    @cached_property
    def url(self) -> URL:
        """The database's address; ConnectionSettingsError names the fault."""
        return ledger_url(get_connection(self.ledger_conn_id, *LEDGER_TYPES))

    def ledger(self, *, dry_run: bool = False) -> SqlLedger:
        """Return the ledger (`ports.Ledger`); opens on first use. Close it when done. A dry run makes no file."""
        from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger, shared

        file = Path(self.url.database or "") if dry_run and self.url.drivername == "sqlite" else None
        missing = file and not file.exists() and os.access(file.parent, os.W_OK | os.X_OK)
        return SqlLedger("sqlite://") if missing else shared(self.url)

    def check(self) -> str:
        """Return in one sentence that the ledger answers, takes a write and has this machine's time; raises the error
        that keeps it from that."""
        from airflow_kafka_lake.adapters.machine import HostProcesses, SystemClock

        with contextlib.closing(self.ledger()) as ledger:
            name = f"{ledger.ledger_id()} of schema {ledger.check()}"  # opened before the clocks are compared
            clock = HostClock(host=HostProcesses().this().host, now=SystemClock().now())
            off = clock.require_near(ledger.try_write(), "Leases and layouts are told by both").total_seconds()
        return f"The ledger {name} answers and takes writes; its clock and this machine's differ by {off:.0f} s."


def ledger_url(connection: ConnectionSettings) -> URL:
    """Return the SQLAlchemy address of a ledger connection."""
    return _sqlite_url(connection) if _database_of(connection) == "sqlite" else _postgres_url(connection)


def _refused(connection: ConnectionSettings, problem: str) -> ConnectionSettingsError:
    named = f"Connection {connection.conn_id!r} (type {connection.conn_type})"
    return ConnectionSettingsError(f"{named}: {problem}.", connection=connection.conn_id)


def _sqlite_url(connection: ConnectionSettings) -> URL:
    from sqlalchemy import URL

    path = connection.host or connection.schema or ""
    if not PurePosixPath(path).is_absolute():
        raise _refused(
            connection,
            "host must be the absolute path of the ledger's file, such as /data/ledger.db: every worker has to find "
            "the same one",
        )
    return URL.create("sqlite", database=path)


def _postgres_url(connection: ConnectionSettings) -> URL:
    from sqlalchemy import URL

    if not connection.schema:
        raise _refused(connection, "it names no database: put it into schema")
    options = {key: str(value) for key, value in connection.extra.items() if key != _DATABASE}
    if unknown := sorted(set(options) - _POSTGRES_OPTIONS):
        known = ", ".join(sorted(_POSTGRES_OPTIONS))
        raise _refused(connection, f"the ledger knows no option {', '.join(unknown)}. Known: {known}")
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
    if connection.conn_type != OWN_LEDGER_TYPE:
        return connection.conn_type
    database = connection.extra.get(_DATABASE) or "postgres"
    if database not in {"sqlite", "postgres"}:
        raise _refused(connection, "database must be sqlite or postgres")
    return str(database)


# From an `http` connection to the schema registry of a pipeline that decodes values.

REGISTRY_TYPES = ("http", "kafka_lake_registry")
DEFAULT_REGISTRY = "schema_registry_default"


class RegistryConnection:
    """Opens a schema registry; the type `http` is the HTTP provider's, and reused here."""

    def __init__(self, registry_conn_id: str = DEFAULT_REGISTRY) -> None:
        self.registry_conn_id = registry_conn_id

    @cached_property
    def settings(self) -> RegistrySettings:
        """The validated settings; ConnectionSettingsError names the fault."""
        from airflow_kafka_lake.adapters.registry.settings import RegistrySettings

        found = get_connection(self.registry_conn_id, *REGISTRY_TYPES)
        return RegistrySettings.parse(
            self.registry_conn_id,
            host=found.host,
            port=found.port,
            schema=found.schema,
            login=found.login,
            password=found.password,
            extra=found.extra,
        )

    def registry(self) -> ConfluentRegistry:
        """Return the registry (`SchemaRegistry`); connects on first use. Close it when done."""
        try:
            from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
        except ImportError as error:
            raise LibraryError(
                f"A schema registry needs {error.name or 'a library'}, which is not installed. "
                "Run: pip install 'airflow-kafka-lake[schema-registry]'"
            ) from None
        return ConfluentRegistry(self.settings)

    def check(self) -> str:
        """Return in one sentence that the registry answers; raises the error that keeps it from answering."""
        with contextlib.closing(self.registry()) as registry:
            return registry.check()


def registry_of(spec: PipelineSpec) -> ConfluentRegistry:
    """Return the registry that a pipeline names; ConnectionSettingsError when it names none."""
    if spec.decoding is None or spec.decoding.registry is None:
        raise ConnectionSettingsError(
            f"Pipeline {spec.name!r} names no schema registry. Name its connection in [decode] registry.",
            pipeline=spec.name,
        )
    return RegistryConnection(spec.decoding.registry).registry()


# From a `spark` connection to the runner of jobs.

SPARK_TYPES = ("spark", "spark_connect", "kafka_lake_spark")
DEFAULT_SPARK = "spark_default"
EMBEDDED_MASTER = "local[*]"
"""Where jobs run when a pipeline names no Spark connection."""

_MASTER = re.compile(r"local(\[(\*|[0-9]{1,4})(,[0-9]{1,3})?\])?|yarn|(spark|k8s)://[^\s@]{1,300}")
_MODE = "spark.submit.deployMode"
_CONF_OF = {"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace", "deploy-mode": _MODE}
_IGNORED = frozenset({"rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address"})
"""Settings with which the Spark provider tracks a job; we watch the driver process instead."""
_QUIET = "quiet-minutes"
_HISTORY = "history-server"
_PARENT = "spark.openlineage.parent"
_IDLE = "idle-minutes"
IDLE_SECONDS_OF_A_CLUSTER = 120.0
"""Shorter than elsewhere: a warm driver may hold executors that others wait for."""

_MINUTES = re.compile(r"0|[1-9][0-9]{0,4}")


class SparkConnection:
    """Opens a Spark master; None is a local master on this machine.

    The type `spark` is the Spark provider's, and reused here. A missing connection is an error, never YARN.
    """

    def __init__(self, spark_conn_id: str | None = None) -> None:
        self.spark_conn_id = spark_conn_id

    @cached_property
    def master_and_conf(self) -> tuple[str, Mapping[str, str]]:
        """The master's address and further Spark settings; ConnectionSettingsError names the fault."""
        return master_of(self._connection), conf_of(self._connection)

    @cached_property
    def _connection(self) -> ConnectionSettings:
        if self.spark_conn_id is None:
            return ConnectionSettings(conn_id=EMBEDDED_MASTER, conn_type="spark", host=EMBEDDED_MASTER)
        return get_connection(self.spark_conn_id, *SPARK_TYPES)

    def runner(
        self,
        *,
        catalog: Mapping[str, str],
        kafka: Mapping[str, str],
        stores: Sequence[JarSet] = (),
        application: Callable[[Application], None] = lambda _: None,
        further: Mapping[str, str] | None = None,
        engine: Engine | None = None,
    ) -> SparkJobs:
        """Return the runner (`ports.JobRunner`) for a lake's Spark settings and a cluster's Java client settings.

        `stores` are the jars that lake and login need beside those of every job.
        `application` is given the Spark application of each job, soon after it has begun. `further` are settings for a
        connection that has none of their kind: it may name another parent of its applications. With an `engine` jobs
        run in its warm driver, unless the connection has it otherwise. An application that names its parent, for
        OpenLineage, is one job's.
        """
        from airflow_kafka_lake.adapters.spark_submit.runner import SparkJobs

        master, own = self.master_and_conf
        # Half of two parents of an application would be none.
        conf = {**({} if _names_parent(own) else further or {}), **own}
        idle_seconds = idle_seconds_of(self._connection)
        is_kept = idle_seconds and not _names_parent(conf)
        return SparkJobs(
            master=master,
            conf=conf,
            engine=engine if is_kept else None,
            idle_seconds=idle_seconds,
            catalog=catalog,
            kafka=kafka,
            stores=stores,
            quiet_seconds=_seconds_of(self._connection, _QUIET, QUIET_SECONDS, least=1),
            application=application,
            history_server=history_server(self._connection),
        )

    def check(self, lake: LakeConnection | None = None, kafka: KafkaConnection | None = None) -> tuple[str, str]:
        """Return a sentence if a job could be submitted from this machine, and a doubt that its driver can call, else
        raise the reason, also for settings that Python takes and Java does not; starts no job."""
        from airflow_kafka_lake.adapters.spark_submit.submission import require_master

        stores, catalog = (lake.settings.jar_sets, lake.settings.spark()) if lake else ((), {})
        own, java = (kafka.settings.jar_sets, kafka.settings.java()) if kafka else ((), {})
        runner = self.runner(catalog=catalog, kafka=java, stores=(*stores, *own))
        runner.check()
        require_master(self.master_and_conf[0])
        calls, doubt = runner.calls()
        return f"Jobs run on {runner.where()}; {runner.parts()} are there.{calls}", doubt


def _names_parent(conf: Mapping[str, str]) -> bool:
    return any(key.startswith(_PARENT) for key in conf)


def master_of(connection: ConnectionSettings) -> str:
    """Return the master of a Spark connection: its host, and its port where one is given."""
    if connection.conn_type == "spark_connect":
        raise _refused(connection, "a Spark Connect server takes no SQL extensions of a job: name its cluster's master")
    host = (connection.host or "").strip()
    master = f"{host}:{connection.port}" if host and connection.port else host
    if not _MASTER.fullmatch(master):
        raise _refused(connection, "host must be local[N], spark://HOST (with its port), k8s://https://HOST or yarn")
    return master


def conf_of(connection: ConnectionSettings) -> dict[str, str]:
    """Return the Spark settings of a connection's extra: `queue`, `namespace`, `conf` and keys that are Spark's own."""
    conf: dict[str, str] = {}
    for key, value in connection.extra.items():
        if value is None or value == "" or key in {*_IGNORED, _QUIET, _IDLE, _HISTORY}:
            continue
        if key == "conf" or key.startswith("spark."):
            conf |= _spark_settings(connection, value if key == "conf" else {key: value})
        elif key in _CONF_OF:
            conf[_CONF_OF[key]] = str(value)
        elif key != "spark-binary":
            known = f"conf, queue, namespace, deploy-mode, {_QUIET}, {_IDLE}, {_HISTORY}, spark.…"
            raise _refused(connection, f"the extra has {key!r}; known: {known}")
        elif value != "spark-submit":
            raise _refused(connection, "spark-binary must be spark-submit: other programs are not started")
    if conf.get(_MODE, "client") not in (("client",) if is_local(master_of(connection)) else ("client", "cluster")):
        raise _refused(connection, "deploy-mode must be client, or, where the master is a cluster's, cluster")
    return conf


def idle_seconds_of(connection: ConnectionSettings) -> float:
    """Return how long a warm driver waits for its next job; 0: there is none, every job has a driver of its own.

    `idle-minutes` of the extra, else ten minutes in a local master and two on YARN and Kubernetes. A standalone master
    has none unless it is asked for: there the application that a lost host has left is ended by its job's name.
    """
    master = master_of(connection)
    of_others = 0.0 if master.startswith("spark://") else IDLE_SECONDS_OF_A_CLUSTER
    return _seconds_of(connection, _IDLE, IDLE_SECONDS if is_local(master) else of_others)


def _seconds_of(connection: ConnectionSettings, key: str, usual: float, least: int = 0) -> float:
    given = connection.extra.get(key)
    if given is None or given == "":
        return usual
    if not _MINUTES.fullmatch(str(given)) or int(given) < least:
        raise _refused(connection, f"{key} must be a whole number of minutes, at least {least}")
    return float(given) * 60


def history_server(connection: ConnectionSettings) -> str | None:
    """Return the address of the history server: `history-server` of the extra, else YARN's setting in `conf`."""
    given = connection.extra.get(_HISTORY) or None
    if given is not None and web_address(given) is None:
        raise _refused(connection, f"{_HISTORY} must be an http or https address without login, e.g. http://host:18080")
    found = conf_of(connection).get(HISTORY)
    return given or (f"http://{found}" if found and "://" not in found else found)


def _spark_settings(connection: ConnectionSettings, given: object) -> dict[str, str]:
    if not isinstance(given, dict) or any(isinstance(value, dict | list) for value in given.values()):
        raise _refused(connection, "conf must be an object of Spark settings, such as {'spark.executor.memory': '4g'}")
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
        if value is not None
    }
