"""One Airflow `kafka` connection as the settings of three clients: librdkafka, Java, kafka-python.

The connection's `extra` holds librdkafka settings. Some of those load libraries or run commands, so only the options
named here are taken; everything else is refused by name. Values are never repeated in a message.
"""

from __future__ import annotations

import difflib
import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self, TypeVar

from airflow_kafka_lake.core.errors import ConnectionSettingsError


class SecurityProtocol(StrEnum):
    """How a connection is protected and whether a user logs in."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Mechanism(StrEnum):
    """How a user name and a password are proven."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


ENCRYPTED = frozenset({SecurityProtocol.SSL, SecurityProtocol.SASL_SSL})
LOGGED_IN = frozenset({SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL})

_LOGIN_MODULE = {
    Mechanism.PLAIN: "plain.PlainLoginModule",
    Mechanism.SCRAM_SHA_256: "scram.ScramLoginModule",
    Mechanism.SCRAM_SHA_512: "scram.ScramLoginModule",
}
_Choice = TypeVar("_Choice", SecurityProtocol, Mechanism)

_ALIASES = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_SASL = frozenset({"sasl.mechanism", "sasl.username", "sasl.password"})
_TLS = frozenset(
    {
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "ssl.key.password", "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip
_TUNING = frozenset(
    {
        "client.id", "client.rack", "client.dns.lookup", "connections.max.idle.ms", "metadata.max.age.ms",
        "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
    }
)  # fmt: skip
"""The same name (kafka-python: with underscores) and meaning in all three clients."""

_NATIVE = frozenset({"broker.address.family", "socket.connection.setup.timeout.ms", "socket.keepalive.enable"})
"""Passed on to librdkafka only; the other clients make their sockets in their own ways."""

_SHARED = """
    acks allow.auto.create.topics api.version.request auto.commit.interval.ms auto.offset.reset batch.num.messages
    batch.size check.crcs compression.codec compression.level compression.type debug delivery.timeout.ms
    enable.auto.commit enable.auto.offset.store enable.idempotence enable.metrics.push enable.partition.eof
    fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.wait.max.ms group.id
    group.instance.id group.protocol heartbeat.interval.ms isolation.level linger.ms log.connection.close log_level
    max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    message.max.bytes message.send.max.retries message.timeout.ms partition.assignment.strategy
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages receive.message.max.bytes request.required.acks request.timeout.ms retries
    session.timeout.ms socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    statistics.interval.ms topic.metadata.refresh.interval.ms transaction.timeout.ms transactional.id
"""
_DROPPED = frozenset(_SHARED.split())
"""Accepted because connections are shared with consumers and producers, and ignored: here they decide nothing."""

_FIXED = {"enable.ssl.certificate.verification": "true"}
_ALLOWED = _SASL | _TLS | _TUNING | _NATIVE | {"bootstrap.servers", "security.protocol"}

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_PKCS8 = re.compile(r"-----BEGIN (?:ENCRYPTED )?PRIVATE KEY-----.+?-----END (?:ENCRYPTED )?PRIVATE KEY-----", re.DOTALL)
_PEM_HINTS = {
    _CERTIFICATE: "a certificate begins with BEGIN CERTIFICATE",
    _PRIVATE_KEY: "a key begins with BEGIN PRIVATE KEY",
    _PKCS8: "Java needs PKCS#8, convert the key with: openssl pkcs8 -topk8 -in key.pem -out key.pkcs8.pem",
}
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The validated settings of one Airflow `kafka` connection; `repr` shows addresses and protocol, no secret.

    `options` are the other accepted options under their librdkafka names.
    """

    connection: str
    servers: tuple[str, ...]
    protocol: SecurityProtocol
    mechanism: Mechanism | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def bootstrap(self) -> str:
        """The addresses as one comma-separated text."""
        return ",".join(self.servers)

    @classmethod
    def parse(cls, extra: Mapping[str, object], *, connection: str = "kafka_default") -> Self:
        """Validate a connection's `extra`; ConnectionSettingsError names the key and the connection, never a value."""
        options = _known(extra, connection)
        servers = _servers(options.pop("bootstrap.servers", ""), connection)
        protocol = _choice(SecurityProtocol, options.pop("security.protocol", "PLAINTEXT"), connection)
        _check_login(options, protocol, connection)
        _check_encryption(options, protocol, connection)
        mechanism = _choice(Mechanism, options.pop("sasl.mechanism"), connection) if protocol in LOGGED_IN else None
        return cls(connection=connection, servers=servers, protocol=protocol, mechanism=mechanism, options=options)

    def librdkafka(self, **own: object) -> dict[str, object]:
        """Return librdkafka's settings; `own` (`**{"group.id": …}`) are added and win."""
        found: dict[str, object] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol.value}
        if self.mechanism:
            found["sasl.mechanism"] = self.mechanism.value
        return {**found, **self.options, **own}

    def java(self) -> dict[str, str]:
        """Return the Java client's settings, secrets and PEM texts included (files are read here)."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol.value}
        if self.mechanism:
            found["sasl.mechanism"] = self.mechanism.value
            found["sasl.jaas.config"] = self._jaas(self.mechanism)
        if self.protocol in ENCRYPTED:
            found |= self._java_tls()
        return found | {key: value for key, value in self.options.items() if key in _TUNING}

    def kafka_python(self) -> dict[str, object]:
        """Return kafka-python's keyword arguments; TLS comes as a ready `ssl_context` (files are read here)."""
        found: dict[str, object] = {"bootstrap_servers": list(self.servers), "security_protocol": self.protocol.value}
        if self.mechanism:
            found["sasl_mechanism"] = self.mechanism.value
            found["sasl_plain_username"] = self.options["sasl.username"]
            found["sasl_plain_password"] = self.options["sasl.password"]
        if self.protocol in ENCRYPTED:
            found["ssl_context"] = self._ssl_context()
        for key in _TUNING & self.options.keys():
            value = self.options[key]
            found[key.replace(".", "_")] = int(value) if key.endswith(".ms") else value
        return found

    def _jaas(self, mechanism: Mechanism) -> str:
        user, password = _jaas_quoted(self.options["sasl.username"]), _jaas_quoted(self.options["sasl.password"])
        return (
            f"org.apache.kafka.common.security.{_LOGIN_MODULE[mechanism]} required username={user} password={password};"
        )

    def _java_tls(self) -> dict[str, str]:
        found = {"ssl.endpoint.identification.algorithm": "https" if self._checks_names else ""}
        if authorities := self._pem("ssl.ca", _CERTIFICATE):
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.certificates"] = authorities
        if certificate := self._pem("ssl.certificate", _CERTIFICATE):
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = certificate
            found["ssl.keystore.key"] = self._pem("ssl.key", _PKCS8)
            if password := self.options.get("ssl.key.password"):
                found["ssl.key.password"] = password
        return found

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self._checks_names
        try:
            if authorities := self._pem("ssl.ca", _CERTIFICATE):
                context.load_verify_locations(cadata=authorities)
            else:
                context.load_default_certs()
            if certificate := self._pem("ssl.certificate", _CERTIFICATE):
                # OpenSSL takes a key only from a file, and asks at the terminal when it gets no password at all.
                with tempfile.NamedTemporaryFile("w", prefix="kafka-lake-", suffix=".pem") as both:
                    both.write(f"{certificate}\n{self._pem('ssl.key', _PRIVATE_KEY)}\n")
                    both.flush()
                    context.load_cert_chain(both.name, password=self.options.get("ssl.key.password", ""))
        except ssl.SSLError as error:
            problem = f"OpenSSL does not take the certificates or the key ({error.reason})"
            raise _refusal("ssl.*", self.connection, problem) from None
        return context

    @property
    def _checks_names(self) -> bool:
        return self.options.get("ssl.endpoint.identification.algorithm", "https") == "https"

    def _pem(self, what: str, kind: re.Pattern[str]) -> str:
        """Return the PEM blocks of one kind, without the comments around them; empty when the option is not set."""
        text = self.options.get(f"{what}.pem")
        location = self.options.get(f"{what}.location")
        if location and location != "probe":
            try:
                text = Path(location).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                problem = f"the file cannot be read on this machine ({error.strerror})"
                raise _refusal(f"{what}.location", self.connection, problem) from None
        if text is None:
            return ""
        if not (found := kind.findall(text)):
            raise _refusal(f"{what}.*", self.connection, f"no such PEM block is in it: {_PEM_HINTS[kind]}")
        return "\n".join(found)


def _refusal(key: str, connection: str, problem: str) -> ConnectionSettingsError:
    return ConnectionSettingsError(
        f"Kafka connection {connection!r}, option {key!r}: {problem}.", connection=connection, option=key
    )


def _known(extra: Mapping[str, object], connection: str) -> dict[str, str]:
    """Return the accepted options under one name each; refuse every option that is not on a list."""
    found: dict[str, str] = {}
    for given, value in extra.items():
        key = _ALIASES.get(given, given)
        if key not in _ALLOWED | _DROPPED | _FIXED.keys():
            raise _refusal(given, connection, _not_allowed(given))
        if key in _DROPPED or not (text := _text(given, value, connection)):
            continue
        if key in _FIXED:
            if text != _FIXED[key]:
                raise _refusal(given, connection, "certificates are always verified; name yours in ssl.ca.location")
        elif found.setdefault(key, text) != text:
            raise _refusal(given, connection, f"it is an alias of {key!r}, which has another value; keep one of them")
    return found


def _not_allowed(key: str) -> str:
    near = difflib.get_close_matches(key, sorted(_ALLOWED | _DROPPED), n=1, cutoff=0.8)
    hint = f"did you mean {near[0]!r}?" if near else "some client options load libraries or run commands."
    return f"it is not on the list of allowed options; {hint} Remove it from the connection's extra"


def _text(key: str, value: object, connection: str) -> str:
    """Return an option as librdkafka would be given it; empty when it is not set."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is not None and not isinstance(value, str | int | float):
        raise _refusal(key, connection, "a text, a number, true or false is needed")
    text = "" if value is None else str(value)
    if key.endswith((".username", ".password")):
        return text
    if key.endswith(".ms") and text and not text.strip().isdecimal():
        raise _refusal(key, connection, "a whole number of milliseconds is needed")
    return text.strip()


def _servers(text: str, connection: str) -> tuple[str, ...]:
    """Split and check `host[:port],…`; Kafka's port is 9092 where none is given."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        parsed = _SERVER.fullmatch(item)
        if not parsed or not 0 < int(parsed["port"] or 9092) < 65536:
            raise _refusal("bootstrap.servers", connection, "use host:port, several separated by commas")
        found.append(f"{parsed['host']}:{parsed['port'] or 9092}")
    if not found:
        raise _refusal("bootstrap.servers", connection, "it is missing; add host:port to the connection's extra")
    return tuple(found)


def _choice(legal: type[_Choice], text: str, connection: str) -> _Choice:
    """Read a name in any case; some client would read a misspelt one as its default, without a word."""
    try:
        return legal(text.upper())
    except ValueError:
        problem = f"use one of {', '.join(legal)}"
    raise _refusal("sasl.mechanism" if legal is Mechanism else "security.protocol", connection, problem)


def _check_login(options: Mapping[str, str], protocol: SecurityProtocol, connection: str) -> None:
    for key in sorted(_SASL):
        if protocol in LOGGED_IN and key not in options:
            raise _refusal(key, connection, f"it is missing, and security.protocol is {protocol}")
        if protocol not in LOGGED_IN and key in options:
            raise _refusal(key, connection, f"it needs security.protocol SASL_SSL or SASL_PLAINTEXT, not {protocol}")


def _check_encryption(options: Mapping[str, str], protocol: SecurityProtocol, connection: str) -> None:
    if protocol not in ENCRYPTED and (idle := _TLS & options.keys()):
        raise _refusal(min(idle), connection, f"it needs security.protocol SSL or SASL_SSL, not {protocol}")
    if options.get("ssl.endpoint.identification.algorithm", "https") not in {"https", "none"}:
        raise _refusal("ssl.endpoint.identification.algorithm", connection, "use https or none")
    for what in ("ssl.ca", "ssl.certificate", "ssl.key"):
        inline, location = f"{what}.pem", f"{what}.location"
        if inline in options and location in options:
            raise _refusal(inline, connection, f"{location} is set too; keep one of them")
        if inline in options and "-----BEGIN " not in options[inline]:
            raise _refusal(inline, connection, f"the PEM text itself is needed; a path belongs in {location}")
    own = {what for what in ("ssl.certificate", "ssl.key") if {f"{what}.pem", f"{what}.location"} & options.keys()}
    if len(own) == 1:
        raise _refusal(f"{own.pop()}.*", connection, "a certificate and its key are needed together")


def _jaas_quoted(text: str) -> str:
    """Quote a value for Java's login configuration, whose strings know backslash escapes and end at a line end."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
