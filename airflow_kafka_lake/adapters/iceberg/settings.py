"""The extra of an Airflow connection of type `lake`, as settings of PyIceberg and of Spark.

Both engines must reach the very same catalog rows: the same database, the same catalog name and the same layout of the
catalog tables. Keys are an allow-list, because some catalog properties name code to load.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from airflow_kafka_lake.adapters import clients
from airflow_kafka_lake.adapters.jars.cache import JarSet
from airflow_kafka_lake.core.addresses import template_problem
from airflow_kafka_lake.core.errors import ConnectionSettingsError
from airflow_kafka_lake.jobs.formats import CATALOG_CLASS, EXTENSIONS, REST_CLASS

CATALOG_NAME = "lake"
"""In both engines; a SQL catalog stores it in every row."""

_CONF = f"spark.sql.catalog.{CATALOG_NAME}"
_BUSY_SECONDS = 30

_SNAPSHOT_URL = "snapshot_url"
_OWN_KEYS = frozenset({"format", "catalog", "uri", "warehouse", _SNAPSHOT_URL})
_PASSED = re.compile(
    r"(s3|gcs|adls|hdfs|client|header|oauth2|rest)[.-].+|token|token-(exchange|refresh)-enabled|token-expires-in-ms"
    r"|credential|scope|audience|resource|prefix"
)
_CODE = re.compile(
    r"(^|.*[.-])(impl|factory|class|class-name|provider|credentials-provider)(\..*)?|.*-impl|rest\.auth\..*"
)
_POSTGRES_OPTIONS = frozenset({"host", "sslmode", "sslrootcert"})
_EXCHANGED = "token-exchange-enabled"
_FORMS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        (*clients.REST, "token-expires-in-ms"), ("a time in whole milliseconds, more than 0", r"[1-9][0-9]{0,8}")
    ),
    **dict.fromkeys(clients.S3, ("a time in seconds, more than 0", r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,3})?")),
    **dict.fromkeys((_EXCHANGED, "token-refresh-enabled"), ("true or false", "true|false")),
}
_JAVA_IO = "io-impl"
_PATH_STYLE, _VIRTUAL, _REGION = "s3.path-style-access", "s3.force-virtual-addressing", "s3.region"
_STORES = {
    JarSet.S3: (("s3://", "s3a://", "s3n://"), "s3.", "org.apache.iceberg.aws.s3.S3FileIO"),
    JarSet.GCS: (("gs://",), "gcs.", "org.apache.iceberg.gcp.gcs.GCSFileIO"),
    JarSet.AZURE: (("abfs://", "abfss://"), "adls.", "org.apache.iceberg.azure.adlsv2.ADLSFileIO"),
}
"""How a store is told by the warehouse, by a key, or by Iceberg's class for it, with the jars that Spark needs."""
_DELEGATED = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}  # as PyIceberg asks unless told otherwise
_ICEBERG_CLASS = re.compile(r"org\.apache\.iceberg\.[A-Za-z0-9_.]+")

_REFUSED_CATALOGS = {
    "hadoop": "HadoopCatalog renames files and is not a compare-and-swap: two publishers could both succeed",
    "hive": "its commits hold a lock that can expire under a slow committer, and this package has not proven them",
    "glue": "this package has not proven its commits; AWS also offers Glue as a REST catalog",
    "dynamodb": "this package has not proven its commits",
    "bigquery": "this package has not proven its commits; it also offers a REST catalog",
    "nessie": "it keeps no branches of a table, so that what a job stages would be visible before it is audited",
    **dict.fromkeys(("in-memory", "memory"), "it ends with the process: Spark and the publisher would see two lakes"),
}


class CatalogKind(StrEnum):
    """The catalogs whose commit is one compare-and-swap that PyIceberg and Spark share."""

    SQL = "sql"
    REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSettings:
    """A validated lake connection; `repr` shows neither the catalog's address nor any further key.

    Construct it with `parse`. `warehouse` is a URI without a trailing slash, None only for a REST catalog that knows
    its own. `snapshot_url` is a template of the addresses at which people see a snapshot (`core.addresses`).
    """

    connection_id: str
    kind: CatalogKind
    warehouse: str | None
    uri: str = field(repr=False)
    credential: str | None = field(default=None, repr=False)
    java_io: str | None = None
    snapshot_url: str | None = None
    further: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(
        cls, connection_id: str, extra: Mapping[str, Any], password: str | None = None, login: str | None = None
    ) -> LakeSettings:
        """Validate a connection of type `lake`; ConnectionSettingsError names the key that is wrong.

        Login and password are the database's for `catalog: sql` and the credential (`id:secret`, or the secret
        alone) for `catalog: rest`.
        """
        read = _Reader(connection_id, extra)
        if (value := extra.get("format", "iceberg")) != "iceberg":
            raise read.refuse(f"format {value!r} is not supported: use 'iceberg'.", "format")
        kind = read.kind()
        further = read.further()
        java_io = further.pop(_JAVA_IO, None)
        uri = read.required("uri")
        if kind is CatalogKind.SQL:
            uri, credential = read.database_uri(uri, login, password), None
        else:
            credential = read.rest_credential(uri, login, password, further)
        warehouse = read.warehouse(required=kind is CatalogKind.SQL)
        return cls(
            connection_id=connection_id,
            kind=kind,
            warehouse=warehouse,
            uri=uri,
            credential=credential,
            java_io=java_io,
            snapshot_url=read.snapshot_url(),
            further=further,
        )

    @property
    def address(self) -> str | None:
        """The address by which people know the catalog: a REST catalog's own, else its warehouse."""
        return self.uri if self.kind is CatalogKind.REST else self.warehouse

    @property
    def jar_sets(self) -> tuple[JarSet, ...]:
        """The jars that Spark needs beside those of every job: those of the store, by all that is said here."""
        return tuple(store for store, marks in _STORES.items() if self._is_in(*marks))

    def _is_in(self, schemes: tuple[str, ...], keys: str, java_io: str) -> bool:
        if self.java_io is not None:
            return self.java_io == java_io
        return (self.warehouse or "").startswith(schemes) or any(key.startswith(keys) for key in self.further)

    @property
    def identity(self) -> str | None:
        """A digest of a REST catalog's address and warehouse; None for a SQL catalog.

        There the engines write the branches into the metadata themselves, and the database only swaps a pointer.
        """
        if self.kind is CatalogKind.SQL:
            return None
        where = [self.uri, self.warehouse, self.further.get("prefix")]
        return hashlib.sha256(json.dumps(where).encode()).hexdigest()[:16]

    def pyiceberg(self) -> dict[str, str]:
        """Return the properties for `pyiceberg.catalog.load_catalog(CATALOG_NAME, **properties)`."""
        found = {"type": self.kind.value, "uri": self.uri, **clients.S3, **self._of_both()}
        if found.get(_PATH_STYLE) == "false":
            found[_VIRTUAL] = "true"
        if "gcs.oauth2.token" in found:  # PyArrow takes none without an end
            found = {"gcs.oauth2.token-expires-at": "253402300799000", **found}
        if self.kind is CatalogKind.SQL:
            # A connection that was idle while a job ran may have been ended by a firewall.
            found |= {"schema_version": "v1", "uri": _python_uri(self.uri), "pool_pre_ping": "true"}
        return found

    def _of_both(self) -> dict[str, str]:
        named = {"warehouse": self.warehouse, "credential": self.credential}
        return {**self.further, **{key: value for key, value in named.items() if value}}

    def spark(self) -> dict[str, str]:
        """Return the Spark confs of the catalog `lake`, with Iceberg's SQL extensions (branches need them).

        Raises ConnectionSettingsError for a database that Java cannot reach (PostgreSQL through a Unix socket).
        """
        confs = {"spark.sql.extensions": EXTENSIONS, _CONF: CATALOG_CLASS}
        # Cached by a warm session, a table would be as it was half a minute ago.
        options = {"cache-enabled": "false", **self._of_both()}
        if "s3.endpoint" in options and options.get(_VIRTUAL) != "true":
            options = {_PATH_STYLE: "true", **options}  # as PyIceberg does
        if _REGION in options:
            options = {"client.region": options[_REGION], **options}
        if self.java_io:
            options[_JAVA_IO] = self.java_io
        if self.kind is CatalogKind.SQL:
            options |= {"type": "jdbc", "jdbc.schema-version": "V1", **_jdbc(self.connection_id, self.uri)}
        else:
            # An exchanged token may end with the first one, and not every server exchanges them.
            own = {_EXCHANGED: "false"} if self.credential else {}
            options = {"catalog-impl": REST_CLASS, "uri": self.uri, **_DELEGATED, **own, **clients.REST, **options}
        return confs | {f"{_CONF}.{key}": value for key, value in options.items()}


@dataclass(frozen=True, slots=True)
class _Reader:
    """One pass over an extra; every refusal names the connection and the key."""

    connection_id: str
    extra: Mapping[str, Any]

    def refuse(self, problem: str, key: str) -> ConnectionSettingsError:
        return ConnectionSettingsError(
            f"Connection {self.connection_id!r} (type lake): {problem}", connection=self.connection_id, key=key
        )

    def required(self, key: str) -> str:
        value = self.extra.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.refuse(f"the extra needs {key!r} as a text, for example {_EXAMPLES[key]!r}.", key)
        return value.strip()

    def kind(self) -> CatalogKind:
        value = self.required("catalog")
        if reason := _REFUSED_CATALOGS.get(value.lower()):
            raise self.refuse(f"catalog {value!r} is refused: {reason}. Use 'rest' or 'sql'.", "catalog")
        try:
            return CatalogKind(value)
        except ValueError:
            raise self.refuse(f"catalog {value!r} is not known: use 'rest' or 'sql'.", "catalog") from None

    def further(self) -> dict[str, str]:
        return {key: self._passed(key, value) for key, value in self.extra.items() if key not in _OWN_KEYS}

    def _passed(self, key: str, value: object) -> str:
        if key == _JAVA_IO:
            if not isinstance(value, str) or not _ICEBERG_CLASS.fullmatch(value):
                raise self.refuse("io-impl must name a class of org.apache.iceberg: it is code that Spark loads.", key)
            return value
        if _CODE.fullmatch(key):
            raise self.refuse(f"key {key!r} is refused: it names code to load from configuration.", key)
        if not _PASSED.fullmatch(key):
            raise self.refuse(
                f"key {key!r} is not known. Known: format, catalog, uri, warehouse, snapshot_url, io-impl, and what "
                "begins with s3., gcs., adls., hdfs., client., header., oauth2-, token-, rest.",
                key,
            )
        if isinstance(value, bool):
            value = str(value).lower()
        words, form = _FORMS.get(key, ("", "(?s:.*)"))
        if not re.fullmatch(form, str(value)):
            raise self.refuse(f"{key!r} must be {words}.", key)
        if isinstance(value, str | int | float):
            return str(value)
        raise self.refuse(f"the value of {key!r} must be a text, a number or true/false.", key)

    def snapshot_url(self) -> str | None:
        if (value := self.extra.get(_SNAPSHOT_URL)) is None or value == "":
            return None
        if problem := template_problem(value) if isinstance(value, str) else "it is no text":
            raise self.refuse(f"{_SNAPSHOT_URL} is refused: {problem}.", _SNAPSHOT_URL)
        return str(value)

    def warehouse(self, *, required: bool) -> str | None:
        if not required and "warehouse" not in self.extra:
            return None
        value = self.required("warehouse")
        if value.startswith("/"):
            value = f"file://{value}"
        if required and not re.fullmatch(r"[a-z][a-z0-9+.-]*://.+", value):
            raise self.refuse("warehouse must be an absolute path, or a URI such as 's3://bucket/path'.", "warehouse")
        return value.rstrip("/")

    def rest_credential(self, uri: str, login: str | None, password: str | None, further: dict[str, str]) -> str | None:
        if not re.fullmatch(r"https?://(?!\.|[^/]*(\.\.|[^./:]{64}))[^/@]+(/.*)?", uri):  # no label is empty or long
            raise self.refuse(
                "uri of a REST catalog must be http(s)://host[:port][/path]; the credential goes into the password.",
                "uri",
            )
        if password and "credential" in further:
            raise self.refuse("credential is given twice, in the extra and in the password field.", "credential")
        return f"{login}:{password}" if login and password else password or further.pop("credential", None)

    def database_uri(self, uri: str, login: str | None, password: str | None) -> str:
        try:
            url = make_url(uri)
        except (ArgumentError, ValueError):
            raise self.refuse(f"uri is not a database URL; for example {_EXAMPLES['uri']!r}.", "uri") from None
        if url.drivername == "sqlite":
            if not url.database or not PurePosixPath(url.database).is_absolute() or url.query:
                raise self.refuse(
                    "a SQLite catalog needs an absolute path and nothing after it (sqlite:////data/catalog.db): "
                    "Spark runs in another folder.",
                    "uri",
                )
            return url.render_as_string()
        if url.drivername in {"postgresql", "postgresql+psycopg2"}:
            return self._postgresql(url, login, password)
        raise self.refuse(
            f"a SQL catalog on {url.drivername!r} is not supported: use sqlite:////path or postgresql://host:port/db.",
            "uri",
        )

    def _postgresql(self, url: URL, login: str | None, password: str | None) -> str:
        for name, inside, outside in (("login", url.username, login), ("password", url.password, password)):
            if inside and outside and inside != outside:
                raise self.refuse(f"uri and the {name} field name two different {name}s; give one.", "uri")
        if not url.database:
            raise self.refuse("uri names no database; for example 'postgresql://host:5432/catalog'.", "uri")
        if unknown := sorted(set(url.query) - _POSTGRES_OPTIONS - {*clients.POSTGRES, *clients.JDBC_POSTGRES}):
            raise self.refuse(f"uri has options both drivers do not share: {', '.join(unknown)}.", "uri")
        whole = url.set(
            drivername="postgresql", username=url.username or login or None, password=url.password or password or None
        )
        return whole.render_as_string(hide_password=False)


_EXAMPLES = {"catalog": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "file:///data/warehouse"}


def _python_uri(uri: str) -> str:
    if uri.startswith("sqlite:"):
        return f"{uri}?timeout={_BUSY_SECONDS}"
    url = make_url(uri).set(drivername="postgresql+psycopg2")
    options = clients.POSTGRES | {key: value for key, value in url.query.items() if key not in clients.JDBC_POSTGRES}
    return url.set(query=options).render_as_string(hide_password=False)


def _jdbc(connection_id: str, uri: str) -> dict[str, str]:
    url = make_url(uri)
    if url.drivername == "sqlite":
        return {"uri": f"jdbc:sqlite:{url.database}", "jdbc.busy_timeout": str(_BUSY_SECONDS * 1000)}
    if not url.host or "host" in url.query:
        raise ConnectionSettingsError(
            f"Connection {connection_id!r} (type lake): Spark's JDBC driver needs host and port in uri, "
            "for example 'postgresql://db.example.org:5432/catalog'; it cannot use a Unix socket.",
            connection=connection_id,
            key="uri",
        )
    host = f"[{url.host}]" if ":" in url.host else url.host
    shared = {key: value for key, value in url.query.items() if key not in clients.POSTGRES}
    query = urlencode(clients.JDBC_POSTGRES | shared)
    place = f"jdbc:postgresql://{host}:{url.port or 5432}/{quote(url.database or '')}?{query}"
    given = {"uri": place, "jdbc.user": url.username, "jdbc.password": url.password}
    return {key: value for key, value in given.items() if value}
