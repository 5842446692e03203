"""Connections as Airflow resolves them, read once into a value that shows no secret.

Where Airflow is loaded, its SDK answers (`BaseHook.get_connection`). On the command line the order is Airflow's own: a
configured secrets backend, the environment, the metadata database; a plain environment variable is read without
importing Airflow, which takes more than a second.
"""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_kafka_lake.core.errors import ConnectionSettingsError, UnavailableError
from airflow_kafka_lake.core.spec import CONNECTION_ID

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
    if not _airflow_is_loaded():
        plain = os.environ.get(variable(conn_id), "")
        if plain.lstrip().startswith("{") and not _secrets_backend():
            return _checked(_from_json(conn_id, plain), legal)
        return _checked(_read(conn_id, _from_command_line(conn_id), legal), legal)
    from airflow.sdk import BaseHook

    try:
        found = BaseHook.get_connection(conn_id)
    except Exception as error:  # noqa: BLE001  # backends raise whatever their clients raise
        if not _is_missing(error):
            raise _unresolved(conn_id, legal, error) from None
        if os.environ.get(_CONTEXT) == "server":
            # The SDK has asked the metadata database here already, as it does in every server of Airflow.
            raise _missing(conn_id, legal) from None
        # Outside of a task the SDK does not ask the metadata database, which `airflow kafka-lake` has.
        found = _from_command_line(conn_id)
    return _checked(_read(conn_id, found, legal), legal)


async def aget_connection(conn_id: str, *legal: str) -> ConnectionSettings:
    """Resolve like `get_connection`, from a trigger's event loop."""
    _check_id(conn_id)
    from airflow.sdk import BaseHook

    try:
        found = await BaseHook.aget_connection(conn_id)
    except Exception as error:  # noqa: BLE001  # backends raise whatever their clients raise
        raise _unresolved(conn_id, legal, error) from None
    return _checked(_read(conn_id, found, legal), legal)


def variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def _check_id(conn_id: str) -> None:
    if not isinstance(conn_id, str) or not CONNECTION_ID.fullmatch(conn_id):
        # An address that is given here may hold a password.
        raise ConnectionSettingsError("A connection id is 1 to 200 of A-Z a-z 0-9 _ . : # -; the one given is not.")


def _airflow_is_loaded() -> bool:
    """Return whether this process has imported Airflow, as a task, a triggerer or a server has.

    Importing the SDK takes 1.3 s, where a command that has its connections in the environment takes 0.05 s to here.
    """
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
        return _asked_airflow(conn_id)


def _asked_airflow(conn_id: str) -> Any:
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


def _metadata_database_exists() -> bool:
    """Return whether Airflow's metadata database exists; opening a missing SQLite file would create it."""
    named = any(key.startswith(("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONFIG")) for key in os.environ)
    if not named and not _home().exists():
        return False
    from airflow.configuration import conf

    address = conf.get("database", "sql_alchemy_conn", fallback="")
    kind, _, path = address.partition("///")
    return not kind.startswith("sqlite") or Path(path.partition("?")[0]).exists()


def _from_json(conn_id: str, text: str) -> ConnectionSettings:
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
    return _read(conn_id, SimpleNamespace(**dict.fromkeys(_FIELDS) | given), ())


def _read(conn_id: str, found: Any, legal: tuple[str, ...]) -> ConnectionSettings:
    """Copy a connection: an object of Airflow's SDK or of its model, or the fields of an environment variable."""
    if found is None:
        raise _missing(conn_id, legal)
    return ConnectionSettings(
        conn_id=conn_id,
        conn_type=_normal(found.conn_type),
        host=found.host or None,
        port=int(found.port) if found.port else None,
        schema=found.schema or None,
        login=found.login or None,
        password=found.password or None,
        extra=_extra(conn_id, found.extra),
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


def _normal(conn_type: str | None) -> str:
    return {"postgresql": "postgres"}.get(conn_type or "", (conn_type or "").replace("-", "_"))


def _one_of(names: tuple[str, ...]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _checked(found: ConnectionSettings, legal: tuple[str, ...]) -> ConnectionSettings:
    if legal and found.conn_type not in legal:
        raise ConnectionSettingsError(
            f"Connection {found.conn_id!r} is of type {found.conn_type[:60]!r}, and {_one_of(legal)} is needed. "
            "Correct its type, or name another connection.",
            connection=found.conn_id,
            legal=list(legal),
        )
    return found


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
