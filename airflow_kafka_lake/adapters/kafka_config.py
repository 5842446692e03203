"""One Airflow `kafka` connection as the settings of three clients: librdkafka, Java, kafka-python.

The connection's `extra` holds librdkafka settings. Some of those load libraries or run commands, so only the options
named here are taken; everything else is refused by name. Values are never repeated in a message.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Self, TypeVar

from airflow_kafka_lake.adapters.access_tokens import TOKEN_URL, TokenEndpoint, refusal, signed_token
from airflow_kafka_lake.adapters.jars.cache import JarSet
from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.addresses import web_address
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError, UnavailableError


class SecurityProtocol(StrEnum):
    """How a connection is protected and whether a user logs in."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Mechanism(StrEnum):
    """The proof of a client: by a name and a password, or by a token of an OAuth 2 endpoint or an AWS key."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    AWS_MSK_IAM = "AWS_MSK_IAM"


ENCRYPTED = frozenset({SecurityProtocol.SSL, SecurityProtocol.SASL_SSL})
LOGGED_IN = frozenset({SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL})

_LOGIN_MODULE: dict[str, str] = {
    Mechanism.PLAIN: "plain.PlainLoginModule",
    Mechanism.SCRAM_SHA_256: "scram.ScramLoginModule",
    Mechanism.SCRAM_SHA_512: "scram.ScramLoginModule",
    Mechanism.OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule",
}
_NOT_TAKEN = {
    "GSSAPI": "Kerberos needs a librdkafka with GSSAPI, and that of confluent-kafka's wheel is built without it",
    "sasl.jaas.config": "only Java reads it; AWS_PROFILE, for worker and Spark, names a profile or a role of AWS",
}
_REPEAT = "Check that it runs and is reachable, then repeat; if it is another one, correct bootstrap.servers."
_MENDS_LOGIN = dict.fromkeys(
    [None, *Mechanism], "Correct sasl.username, sasl.password, sasl.mechanism or security.protocol."
) | {
    Mechanism.OAUTHBEARER: "Correct sasl.oauthbearer.client.id, .scope, .extensions, or the brokers' check of tokens.",
    Mechanism.AWS_MSK_IAM: "Correct the AWS key of this process, its right kafka-cluster:Connect, or the clock.",
}
_Choice = TypeVar("_Choice", SecurityProtocol, Mechanism)

_ALIASES = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_MECHANISM = "sasl.mechanism"
_PASSWORD = frozenset({"sasl.username", "sasl.password"})
_CLIENT = frozenset({TOKEN_URL, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"})
_SCOPE, _EXTENSIONS = "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"
_EXTENSION = re.compile(r"\s*[A-Za-z]+\s*=[^\x00-\x1f]*")
_TOKEN = _CLIENT | {_SCOPE, _EXTENSIONS, "https.ca.location", "https.ca.pem"}
_PROOFS = {Mechanism.OAUTHBEARER: (_CLIENT, _PASSWORD), Mechanism.AWS_MSK_IAM: (frozenset[str](), _PASSWORD | _TOKEN)}
_SASL = _PASSWORD | _TOKEN | {_MECHANISM}
_SIGNING = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_TOKEN_CALLBACK = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"  # noqa: S105
_TLS = frozenset(
    str.split(
        "ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem "
        "ssl.key.password ssl.endpoint.identification.algorithm ssl.keystore.location ssl.keystore.password "
        "ssl.keystore.type ssl.truststore.location ssl.truststore.password ssl.truststore.type"
    )
)
_STORES = {"ssl.truststore": ("ssl.ca",), "ssl.keystore": ("ssl.certificate", "ssl.key")}
_TUNING = frozenset(
    str.split(
        "client.id client.rack client.dns.lookup connections.max.idle.ms metadata.max.age.ms reconnect.backoff.ms "
        "reconnect.backoff.max.ms retry.backoff.ms"
    )
)
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

_FIXED = {
    "enable.ssl.certificate.verification": ("true", "certificates are always verified; name yours in ssl.ca.location"),
    "sasl.oauthbearer.method": ("oidc", "tokens come from an endpoint by client credentials; use oidc"),
}
_ALLOWED = _SASL | _TLS | _TUNING | _NATIVE | {"bootstrap.servers", "security.protocol"}

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_PEM_HINTS = {_CERTIFICATE: "certificates begin with BEGIN CERTIFICATE", _PRIVATE_KEY: "keys with BEGIN PRIVATE KEY"}
_AMAZON = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:", re.IGNORECASE)
"""The names of MSK's brokers. Airflow's own provider signs for them too, under OAUTHBEARER without an endpoint."""
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9_-]{1,63}(\.|(?=:|$)))+)(?::(?P<port>[0-9]{1,5}))?")

_LOOK_SECONDS = 1.5
_NUMBER, _NOT_WANTED, _ENCRYPTED = b"look", b"\x00\x22", b"TLS"
_LOGIN = b"\x00\x00\x00\x11" + b"\x00\x11\x00\x01" + _NUMBER + b"\xff\xff" + b"\x00\x05PLAIN"
"""Kafka's SaslHandshake, which every listener answers before anything else: length, kind, number, no name, mechanism.
One without logins answers that there is nothing to log in to."""
_RENEW = "Have the broker's certificate renewed, or set this machine's clock."
_OTHER_HOST = ("is for another host", "Correct the names in bootstrap.servers: the certificate has the right ones.")
_UNTRUSTED = ("is signed by an authority that this machine does not trust", "Name who signed it in ssl.ca.location.")
_CERTIFICATES = {9: ("is not valid yet", _RENEW), 10: ("has expired", _RENEW)}
_CERTIFICATES |= dict.fromkeys((2, 18, 19, 20, 21, 27), _UNTRUSTED) | dict.fromkeys((62, 64), _OTHER_HOST)
"""Faults of a broker's certificate by OpenSSL's number, with their remedies."""
_OF_CLIENT = re.compile("ALERT.*(?:CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE)")
"""OpenSSL's names of the answers that a broker has for a client's certificate."""
_WANTED, _NOT_LIKED = "wants a certificate of this client", "does not accept the certificate of this client"
_MENDS_CERTIFICATE = "Name one that the broker trusts in ssl.certificate.*, and its key in ssl.key.*."
_MENDS_PROTOCOL = "Correct the port in bootstrap.servers, or security.protocol with its keys."
_LACKS, _ANY_RIGHT = "its user lacks a right", "Look for it in the brokers' kafka-authorizer.log, and have it granted."
TLS, HTTP = "TLS", "HTTP"
_SERVERS = {TLS: "a server with TLS", HTTP: "an HTTP server"}


def spoken_at(address: str) -> str | None:
    """Return the security protocol of the listener at `host:port`, or HTTP, or TLS where no more can be told without a
    certificate; None where nothing known answers. No secret is sent, and it takes a few seconds at most."""
    place = place_of(address)
    if wants_login := _asked_for_login(place, None):
        return SecurityProtocol.PLAINTEXT if wants_login == _NOT_WANTED else SecurityProtocol.SASL_PLAINTEXT
    context = ssl.create_default_context()
    # Nothing secret is sent and no answer is believed: whose certificate it is does not matter.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if code := _asked_for_login(place, context):
        return {_ENCRYPTED: TLS, _NOT_WANTED: SecurityProtocol.SSL}.get(code, SecurityProtocol.SASL_SSL)
    with suppress(OSError), socket.create_connection(place, timeout=_LOOK_SECONDS) as plain:
        plain.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        if plain.recv(5) == b"HTTP/":
            return HTTP
    return None


def _asked_for_login(place: tuple[str, int], context: ssl.SSLContext | None) -> bytes:
    """Return the code with which a Kafka listener answers the first step of a login, _ENCRYPTED where something took
    the encryption and no more; nothing where no such thing is there."""
    is_there = b""
    try:
        with socket.create_connection(place, timeout=_LOOK_SECONDS) as plain:
            with context.wrap_socket(plain) if context else plain as listener:
                is_there = _ENCRYPTED if context else b""
                listener.sendall(_LOGIN)
                answer = listener.recv(16)
            return answer[8:10] if answer[4:8] == _NUMBER else is_there
    except OSError as error:
        # Before TLS 1.3 the handshake itself fails without a certificate: only a server with TLS says so by an alert.
        return _ENCRYPTED if "ALERT" in (getattr(error, "reason", None) or "") else is_there


def place_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """The validated settings of one Airflow `kafka` connection; `repr` shows addresses and protocol, no secret.
    `options` are the other accepted options under their librdkafka names."""

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
        if protocol in LOGGED_IN and _MECHANISM not in options:
            raise refusal(_MECHANISM, connection, f"it is missing, and security.protocol is {protocol}")
        if protocol not in LOGGED_IN and (idle := _SASL & options.keys()):
            problem = f"it needs security.protocol SASL_SSL or SASL_PLAINTEXT, not {protocol}"
            raise refusal(min(idle), connection, problem)
        _check_encryption(options, protocol, connection)
        mechanism = _choice(Mechanism, options.pop(_MECHANISM), connection) if protocol in LOGGED_IN else None
        if mechanism is Mechanism.OAUTHBEARER and not _TOKEN & options.keys() and any(map(_AMAZON.search, servers)):
            mechanism = Mechanism.AWS_MSK_IAM
        _check_proof(options, mechanism, connection)
        return cls(connection=connection, servers=servers, protocol=protocol, mechanism=mechanism, options=options)

    def librdkafka(self, **own: object) -> dict[str, object]:
        """Return librdkafka's settings; `own` (`**{"group.id": …}`) are added and win. Raises as `token`."""
        found: dict[str, object] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol.value}
        if self.mechanism:
            found[_MECHANISM] = self._sasl
        if token := self.token:
            token()
            principal = self.options.get("sasl.oauthbearer.client.id", "")
            found["oauth_cb"] = lambda _: (*token(), principal, self.extensions)
        return {**found, **{key: self._opened[key] for key in self._opened.keys() - _TOKEN}, **own}

    def java(self) -> dict[str, str]:
        """Return the Java client's settings, secrets and PEM texts included (files are read here)."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol.value}
        if self.mechanism:
            found[_MECHANISM] = self._sasl
            found["sasl.jaas.config"] = self._jaas(self.mechanism)
        if self.mechanism is Mechanism.OAUTHBEARER:
            found["sasl.login.callback.handler.class"] = _TOKEN_CALLBACK
            found[TOKEN_URL] = self.options[TOKEN_URL]
            # RFC 6749, section 2.3.1; by itself the client sends both as they are, and a colon in the id splits them.
            found["sasl.oauthbearer.header.urlencode"] = "true"
        if self.mechanism is Mechanism.AWS_MSK_IAM:
            # The region is for `token_options`: the client does not know of it.
            found |= {"sasl.login.callback.handler.class": _SIGNING, "aws.region": self._region}
        if self.protocol in ENCRYPTED:
            found |= self._java_tls()
        return found | {key: value for key, value in self.options.items() if key in _TUNING}

    def kafka_python(self) -> dict[str, object]:
        """Return kafka-python's keyword arguments, with TLS as a ready `ssl_context` (files are read here), without a
        token provider, which `adapters.kafka_python.arguments` adds."""
        found: dict[str, object] = {"bootstrap_servers": list(self.servers), "security_protocol": self.protocol.value}
        if self.mechanism:
            found["sasl_mechanism"] = self._sasl
        if "sasl.username" in self.options:
            found["sasl_plain_username"] = self.options["sasl.username"]
            found["sasl_plain_password"] = self.options["sasl.password"]
        if self.protocol in ENCRYPTED:
            found["ssl_context"] = self.tls_context()
        for key in _TUNING & self.options.keys():
            value = self.options[key]
            found[key.replace(".", "_")] = int(value) if key.endswith(".ms") else value
        return found

    @property
    def extensions(self) -> Mapping[str, str]:
        """The SASL extensions that go with a token, by name."""
        pairs = (pair.partition("=") for pair in self.options.get(_EXTENSIONS, "").split(",") if pair)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def error(self, kind: type[KafkaLakeError], told: str, remedy: str, **more: object) -> KafkaLakeError:
        """Return an error of this cluster, whose message names it and the connection."""
        place = f"Kafka at {self.bootstrap} (connection {self.connection!r})"
        facts = {"connection": self.connection, "bootstrap_servers": self.bootstrap, **more}
        return kind(f"{place} {told}.", **facts).mended_by(remedy)

    def failure(self, doing: str, problem: str, *right: str, login: bool = False) -> KafkaLakeError:
        """Return the error of a client: its login was refused, its user lacks a `right` (operation, kind of resource,
        names; empty: which one is not known), or, with neither, a look finds the fault or the cluster out of reach."""
        kind: type[KafkaLakeError] = ConnectionSettingsError
        if right:
            told = f"its user lacks the right {right[0]} on {right[1]} {', '.join(right[2:])}" if right[0] else _LACKS
            by_aws = self.mechanism is Mechanism.AWS_MSK_IAM
            remedy = remedies.grant(*right, by_aws=by_aws) if right[0] else _ANY_RIGHT
            topics = right[2:] if right[1:2] == ("topic",) else ()
            return self.error(kind, f"refused {doing}: {told}", remedy, topics=topics)
        if login:
            return self.error(kind, f"refused {doing}: the login is not accepted", _MENDS_LOGIN[self.mechanism])
        if fault := next(filter(None, map(self._fault, self.servers)), None):
            return self.error(kind, f"did not answer while {doing}: {fault[0]}", fault[1])
        return self.error(UnavailableError, f"did not answer while {doing}: {problem}", _REPEAT)

    def _fault(self, address: str) -> tuple[str, str] | None:
        """Return the fault that a look at a broker finds, and its remedy: no client has words for it."""
        spoken = spoken_at(address)
        if spoken not in {None, self.protocol, TLS if self.protocol in ENCRYPTED else None}:
            server = _SERVERS.get(spoken, f"a Kafka listener with security.protocol {spoken}")
            return f"{server} is there, and the connection says {self.protocol}", _MENDS_PROTOCOL
        if spoken is None or self.protocol not in ENCRYPTED:
            return None
        place = place_of(address)
        try:
            wrap = self.tls_context().wrap_socket
            with wrap(socket.create_connection(place, timeout=_LOOK_SECONDS), server_hostname=place[0]) as listener:
                listener.recv(1)  # an answer to a certificate of this client; to a word of it, a reset could come first
        except ssl.SSLCertVerificationError as error:
            unknown = f"is not accepted: {error.verify_message}", "Have the broker's certificate corrected."
            fault, remedy = _CERTIFICATES.get(error.verify_code, unknown)
            return f"the certificate at {address} {fault}", remedy
        except OSError as error:
            if _OF_CLIENT.search(getattr(error, "reason", None) or ""):
                has_one = {"ssl.certificate.location", "ssl.certificate.pem"} & self._opened.keys()
                return f"{address} {_NOT_LIKED if has_one else _WANTED}", _MENDS_CERTIFICATE
        return None

    @property
    def jar_sets(self) -> tuple[JarSet, ...]:
        """The jars that Spark needs to log in, beside those of every job."""
        return (JarSet.MSK,) if self.mechanism is Mechanism.AWS_MSK_IAM else ()

    @property
    def _sasl(self) -> str:
        """The mechanism as clients name it: to Amazon's brokers, a signature is a token."""
        return str(Mechanism.OAUTHBEARER if self.mechanism is Mechanism.AWS_MSK_IAM else self.mechanism)

    @property
    def _region(self) -> str:
        """The AWS region of the brokers: that of their names, else that of this process."""
        named = [found[1].lower() for found in map(_AMAZON.search, self.servers) if found]
        (region,) = named[:1] or [os.environ.get("AWS_REGION", "")]
        if not re.fullmatch("[a-z0-9-]+", region):
            raise refusal("bootstrap.servers", self.connection, "no host has MSK's own name; set AWS_REGION to theirs")
        return region

    @cached_property
    def token(self) -> Callable[[], tuple[str, float]] | None:
        """The source of tokens, and their ends, for Python's clients, where they log in so (files are read here)."""
        if self.mechanism is Mechanism.AWS_MSK_IAM:
            return partial(signed_token, self.connection, self._region)
        if self.mechanism is not Mechanism.OAUTHBEARER:
            return None
        url = self.options[TOKEN_URL]
        return TokenEndpoint(
            connection=self.connection,
            url=url,
            client=self.options["sasl.oauthbearer.client.id"],
            secret=self.options["sasl.oauthbearer.client.secret"],
            scope=self.options.get(_SCOPE, ""),
            context=self._trusting("https.ca") if url.lower().startswith("https:") else None,
        ).token

    @cached_property
    def _opened(self) -> Mapping[str, str]:
        """The options with the texts of stores in their place (files are read here)."""
        found = {key: value for key, value in self.options.items() if not key.startswith(tuple(_STORES))}
        for store, names in _STORES.items():
            if location := self.options.get(f"{store}.location"):
                texts = _open_store(store, location, self.options.get(f"{store}.password", ""), self.connection)
                found |= {f"{name}.pem": text for name, text in zip(names, texts, strict=False)}
                if "ssl.key" in names:
                    found.pop("ssl.key.password", None)
        return found

    def _jaas(self, mechanism: Mechanism) -> str:
        given = {"username": "sasl.username", "password": "sasl.password"}
        if mechanism is Mechanism.OAUTHBEARER:
            given = {"clientId": "sasl.oauthbearer.client.id", "clientSecret": "sasl.oauthbearer.client.secret"}
        found = {name: self.options[key] for name, key in given.items() if key in self.options}
        if mechanism is Mechanism.OAUTHBEARER:
            found |= {f"extension_{name}": value for name, value in self.extensions.items()}
            found |= {"scope": self.options[_SCOPE]} if _SCOPE in self.options else {}
            # Java's client takes the trust for its endpoint from here, and not from the connection's ssl.… settings.
            if authorities := self._pem("https.ca", _CERTIFICATE):
                found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
        words = " ".join(f"{name}={_jaas_quoted(value)}" for name, value in found.items())
        return f"org.apache.kafka.common.security.{_LOGIN_MODULE[self._sasl]} required {words};"

    def _java_tls(self) -> dict[str, str]:
        found = {"ssl.endpoint.identification.algorithm": "https" if self._checks_names else ""}
        if authorities := self._pem("ssl.ca", _CERTIFICATE):
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.certificates"] = authorities
        if certificate := self._pem("ssl.certificate", _CERTIFICATE):
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = certificate
            found["ssl.keystore.key"] = self._plain_key()
        return found

    def _plain_key(self) -> str:
        """Return the key in PKCS#8 without its password: Java 17 reads no other form that openssl makes by itself."""
        from cryptography.exceptions import UnsupportedAlgorithm  # here: most connections have no key
        from cryptography.hazmat.primitives import serialization as forms

        password = self._opened.get("ssl.key.password", "").encode() or None
        try:
            key = forms.load_pem_private_key(self._pem("ssl.key", _PRIVATE_KEY).encode(), password)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            raise refusal("ssl.key.*", self.connection, "it is no key, or ssl.key.password is wrong") from None
        plain = forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
        return key.private_bytes(*plain).decode().strip()

    def _trusting(self, authority: str) -> ssl.SSLContext:
        """Return a TLS context that trusts the authorities of an option, or, without it, this machine's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if authorities := self._pem(authority, _CERTIFICATE):
                context.load_verify_locations(cadata=authorities)
            else:
                context.load_default_certs()
        except ssl.SSLError as error:
            problem = f"OpenSSL does not take the certificates ({error.reason})"
            raise refusal(f"{authority}.*", self.connection, problem) from None
        return context

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS of Python's clients (files are read here)."""
        context = self._trusting("ssl.ca")
        context.check_hostname = self._checks_names
        try:
            if certificate := self._pem("ssl.certificate", _CERTIFICATE):
                # OpenSSL takes a key only from a file, and asks at the terminal when it gets no password at all.
                with tempfile.NamedTemporaryFile("w", prefix="kafka-lake-", suffix=".pem") as both:
                    both.write(f"{certificate}\n{self._pem('ssl.key', _PRIVATE_KEY)}\n")
                    both.flush()
                    context.load_cert_chain(both.name, password=self._opened.get("ssl.key.password", ""))
        except ssl.SSLError as error:
            problem = f"OpenSSL does not take the certificate or the key ({error.reason})"
            raise refusal("ssl.*", self.connection, problem) from None
        return context

    @property
    def _checks_names(self) -> bool:
        return self.options.get("ssl.endpoint.identification.algorithm", "https") == "https"

    def _pem(self, what: str, kind: re.Pattern[str]) -> str:
        """Return the PEM blocks of one kind, without the comments around them; empty when the option is not set."""
        text = self._opened.get(f"{what}.pem")
        location = self._opened.get(f"{what}.location")
        if location and location != "probe":
            text = _read(f"{what}.location", location, self.connection).decode(errors="replace")
        if text is None:
            return ""
        if not (found := kind.findall(text)):
            raise refusal(f"{what}.*", self.connection, f"no such PEM block is in it: {_PEM_HINTS[kind]}")
        return "\n".join(found)


def _known(extra: Mapping[str, object], connection: str) -> dict[str, str]:
    """Return the accepted options under one name each; refuse every option that is not on a list."""
    found: dict[str, str] = {}
    for given, value in extra.items():
        key = _ALIASES.get(given, given)
        if key not in _ALLOWED | _DROPPED | _FIXED.keys():
            raise refusal(given, connection, _not_allowed(given))
        if key in _DROPPED or not (text := _text(given, value, connection)):
            continue
        if key in _FIXED:
            if text != _FIXED[key][0]:
                raise refusal(given, connection, _FIXED[key][1])
        elif found.setdefault(key, text) != text:
            raise refusal(given, connection, f"it is an alias of {key!r}, which has another value; keep one of them")
    return found


def _read(key: str, location: str, connection: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise refusal(key, connection, f"the file cannot be read on this machine ({error.strerror})") from None


def _not_allowed(key: str) -> str:
    if reason := _NOT_TAKEN.get("GSSAPI" if key.startswith("sasl.kerberos.") else key):
        return reason
    near = difflib.get_close_matches(key, sorted(_ALLOWED | _DROPPED), n=1, cutoff=0.8)
    hint = f"did you mean {near[0]!r}? Correct" if near else "some options load libraries or run commands. Remove"
    return f"it is not on the list of allowed options; {hint} it in the connection's extra"


def _text(key: str, value: object, connection: str) -> str:
    """Return an option as librdkafka would be given it; empty when it is not set."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is not None and not isinstance(value, str | int | float):
        raise refusal(key, connection, "a text, a number, true or false is needed")
    text = "" if value is None else str(value)
    if key.endswith((".username", ".password", ".secret")):
        return text
    if key.endswith(".ms") and text and not text.strip().isdecimal():
        raise refusal(key, connection, "a whole number of milliseconds is needed")
    return text.strip()


def _servers(text: str, connection: str) -> tuple[str, ...]:
    """Split and check `host[:port],…`; Kafka's port is 9092 where none is given."""
    found = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        parsed = _SERVER.fullmatch(item)
        if not parsed or not 0 < int(parsed["port"] or 9092) < 65536:
            raise refusal("bootstrap.servers", connection, "use host:port, several separated by commas")
        found.append(f"{parsed['host']}:{parsed['port'] or 9092}")
    if not found:
        raise refusal("bootstrap.servers", connection, "it is missing; add host:port to the connection's extra")
    return tuple(found)


def _choice(legal: type[_Choice], text: str, connection: str) -> _Choice:
    """Read a name in any case; some client would read a misspelt one as its default, without a word."""
    try:
        return legal(text.upper())
    except ValueError:
        problem = _NOT_TAKEN.get(text.upper(), f"use one of {', '.join(legal)}")
    raise refusal(_MECHANISM if legal is Mechanism else "security.protocol", connection, problem)


def _check_proof(options: Mapping[str, str], mechanism: Mechanism | None, connection: str) -> None:
    """Refuse a login that lacks an option of its mechanism, or has one of another."""
    if mechanism is None:
        return
    needed, other = _PROOFS.get(mechanism, (_PASSWORD, _TOKEN))
    for key in sorted(needed - options.keys()):
        raise refusal(key, connection, f"it is missing, and sasl.mechanism is {mechanism}")
    for key in sorted(other & options.keys()):
        raise refusal(key, connection, f"it says nothing where sasl.mechanism is {mechanism}; remove it")
    _check_pem(options, ("https.ca",), connection)
    url = options.get(TOKEN_URL, "http://unused")
    if not web_address(url) or "?" in url or "#" in url:  # Java is given it as an option, which ends at a space
        raise refusal(TOKEN_URL, connection, "use http(s)://host[:port]/path, without a login or a query")
    if not all(map(_EXTENSION.fullmatch, filter(None, options.get(_EXTENSIONS, "").split(",")))):
        raise refusal(_EXTENSIONS, connection, "use name=value, several separated by commas; names are of letters")


def _check_encryption(options: Mapping[str, str], protocol: SecurityProtocol, connection: str) -> None:
    if protocol not in ENCRYPTED and (idle := _TLS & options.keys()):
        raise refusal(min(idle), connection, f"it needs security.protocol SSL or SASL_SSL, not {protocol}")
    if options.get("ssl.endpoint.identification.algorithm", "https") not in {"https", "none"}:
        raise refusal("ssl.endpoint.identification.algorithm", connection, "use https or none")
    for store, names in _STORES.items():
        given = {key for key in options if key.startswith(store)}
        if given and f"{store}.location" not in given:
            raise refusal(f"{store}.location", connection, "it is missing")
        if given and (other := {f"{name}.{form}" for name in names for form in ("pem", "location")} & options.keys()):
            raise refusal(min(other), connection, f"{store} is set too; keep one of them")
    _check_pem(options, ("ssl.ca", "ssl.certificate", "ssl.key"), connection)
    own = {what for what in ("ssl.certificate", "ssl.key") if {f"{what}.pem", f"{what}.location"} & options.keys()}
    if len(own) == 1:
        raise refusal(f"{own.pop()}.*", connection, "a certificate and its key are needed together")


def _open_store(store: str, location: str, password: str, connection: str) -> tuple[str, str]:
    """Return the certificates and the key of a PKCS#12 store as PEM, the one form that all three clients read."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.serialization import pkcs12

    data = _read(f"{store}.location", location, connection)
    if data.startswith((b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")):
        convert = "keytool -importkeystore -srckeystore FILE.jks -destkeystore FILE.p12 -deststoretype PKCS12"
        raise refusal(f"{store}.location", connection, f"only Java reads JKS; make it PKCS#12: {convert}")
    try:
        key, own, others = pkcs12.load_key_and_certificates(data, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm):
        problem = f"it is no PKCS#12 store, or {store}.password is not its password"
        raise refusal(f"{store}.location", connection, problem) from None
    chain = [item.public_bytes(forms.Encoding.PEM).decode() for item in (own, *others) if item]
    plain = forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    return "".join(chain), key.private_bytes(*plain).decode() if key else ""


def _check_pem(options: Mapping[str, str], names: Iterable[str], connection: str) -> None:
    for what in names:
        inline, location = f"{what}.pem", f"{what}.location"
        if inline in options and location in options:
            raise refusal(inline, connection, f"{location} is set too; keep one of them")
        if inline in options and "-----BEGIN " not in options[inline]:
            raise refusal(inline, connection, f"the PEM text itself is needed; a path belongs in {location}")


def _jaas_quoted(text: str) -> str:
    """Quote a value for Java's login configuration, whose strings know backslash escapes and end at a line end."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
