"""One Airflow `http` connection, as settings of Confluent's client for schema registries.

Options are an allow-list; values are never repeated in a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from airflow_kafka_lake.adapters.clients import CONNECT_SECONDS
from airflow_kafka_lake.core.errors import ConnectionSettingsError

_TLS = frozenset({"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"})
_TOKEN = "bearer.auth.token"  # noqa: S105  # the name of an option
_BEARER = frozenset({_TOKEN, "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"})
_ADDRESS = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~/-]*)?)"
)
_TIMEOUT = "timeout"
_SECONDS = re.compile(r"(?=.*[1-9])[0-9]{1,4}(\.[0-9]{1,3})?")
_TIMES = {_TIMEOUT: CONNECT_SECONDS, "max.retries": 1, "retries.wait.ms": 250, "retries.max.wait.ms": 1000}
"""Seconds for each step of a request, and one repetition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """A validated connection to a schema registry; `repr` shows its address, no secret. Construct it with `parse`."""

    connection: str
    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float | None = None

    @classmethod
    def parse(
        cls,
        connection: str,
        *,
        host: str | None,
        port: int | None = None,
        schema: str | None = None,
        login: str | None = None,
        password: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self:
        """Validate the fields of a connection; ConnectionSettingsError names the field and never a value.

        `host` may carry the scheme and a path (`https://host/apis/ccompat/v7`), as Airflow's own `http` hook has it.
        """
        read = _Reader(connection)
        url = read.address(host, port, schema)
        given = dict(extra or {})
        seconds = read.seconds(given.pop(_TIMEOUT, None))
        options = read.options(given, encrypted=url.startswith("https:"))
        if login or password:
            options["basic.auth.user.info"] = read.login(login, password, options)
        return cls(connection=connection, url=url, options=options, seconds=seconds)

    def confluent(self) -> dict[str, object]:
        """Return the configuration of `confluent_kafka.schema_registry.SchemaRegistryClient`, secrets included."""
        found = {"url": self.url, **_TIMES, **self.options}
        if self.seconds is not None:
            found[_TIMEOUT] = self.seconds
        if _TOKEN in self.options:
            found = {"bearer.auth.logical.cluster": "", **found, "bearer.auth.credentials.source": "STATIC_TOKEN"}
        return found


class _Reader:
    def __init__(self, connection: str) -> None:
        self._connection = connection

    def refusal(self, what: str, problem: str) -> ConnectionSettingsError:
        return ConnectionSettingsError(
            f"Connection {self._connection!r} (type http, a schema registry): {what} {problem}.",
            connection=self._connection,
        )

    def address(self, host: str | None, port: int | None, schema: str | None) -> str:
        """Return `scheme://host[:port][/path]`; http where no scheme is given, as in Airflow."""
        if not host:
            raise self.refusal("host", "is missing: put in the registry's name, or its whole address")
        scheme, _, rest = host.rpartition("://")
        scheme = scheme or schema or "http"
        if scheme not in {"http", "https"}:
            raise self.refusal("schema", "must be http or https")
        if not (found := _ADDRESS.fullmatch(rest)):
            problem = "must be a name, or http(s)://name[:port][/path], without a login; that belongs in its own fields"
            raise self.refusal("host", problem)
        given = found["port"] or port
        if found["port"] and port and int(found["port"]) != port:
            raise self.refusal("port", "is another one than in host; keep one of them")
        return f"{scheme}://{found['name']}{f':{given}' if given else ''}{found['path'].rstrip('/')}"

    def options(self, extra: Mapping[str, object], *, encrypted: bool) -> dict[str, str]:
        """Return the options that are set; refuse every key that is not on a list."""
        if unknown := sorted(set(extra) - _TLS - _BEARER):
            raise self.refusal(
                "the extra",
                f"has {', '.join(map(repr, unknown))}; known: {', '.join(sorted({*_TLS, *_BEARER, _TIMEOUT}))}",
            )
        found = {}
        for key, value in extra.items():
            if value is not None and not isinstance(value, str):
                raise self.refusal(key, "must be a text")
            if value:
                found[key] = value
        if not encrypted and (idle := sorted(_TLS & found.keys())):
            raise self.refusal(idle[0], "needs https")
        if {"ssl.key.location", "ssl.key.password"} & found.keys() and "ssl.certificate.location" not in found:
            raise self.refusal("ssl.key.*", "needs ssl.certificate.location")
        if _BEARER & found.keys() and _TOKEN not in found:
            raise self.refusal("bearer.auth.*", f"needs {_TOKEN}")
        return found

    def seconds(self, value: object) -> float | None:
        if value is None or value == "":
            return None
        if not _SECONDS.fullmatch(str(value)):
            raise self.refusal(_TIMEOUT, "must be a time in seconds, more than 0")
        return float(str(value))

    def login(self, login: str | None, password: str | None, options: Mapping[str, str]) -> str:
        """Return login and password as the client takes them."""
        if _TOKEN in options:
            raise self.refusal(_TOKEN, "is set beside login or password; keep one of them")
        if not login:
            raise self.refusal("login", "is missing, and password is set")
        if ":" in login:
            raise self.refusal("login", "has a colon, which basic authentication cannot carry")
        return f"{login}:{password or ''}"
