"""One librdkafka admin client, and its answers as values of `core`: every call ends within a timeout."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from airflow_kafka_lake.adapters.kafka_config import ENCRYPTED, KafkaSettings, SecurityProtocol
from airflow_kafka_lake.core.errors import ConnectionSettingsError, IdentityError, KafkaLakeError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.ports import Clock

# One librdkafka admin client: every call ends within a timeout, and its errors become ours.

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

Key = tuple[str, int]
"""`(topic, partition)`."""

MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""Names of the errors that mean: no such topic or partition, or no legal name."""

_LOGIN_REFUSED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
_LACKS_RIGHT = frozenset(f"{kind}_AUTHORIZATION_FAILED" for kind in ("TOPIC", "GROUP", "CLUSTER"))
_REFUSED = _LOGIN_REFUSED | _LACKS_RIGHT | {"_SSL", "_INVALID_ARG", "_UNSUPPORTED_FEATURE"}
_RENEW = "Have the broker's certificate renewed, or set this machine's clock."
_OTHER_HOST = ("is for another host", "Correct the names in bootstrap.servers: the certificate has the right ones.")
_UNTRUSTED = ("is signed by an authority that this machine does not trust", "Name who signed it in ssl.ca.location.")
_CERTIFICATES = {9: ("is not valid yet", _RENEW), 10: ("has expired", _RENEW), 62: _OTHER_HOST, 64: _OTHER_HOST}
"""Faults of a certificate by OpenSSL's number, with their remedies; all others are _UNTRUSTED."""
_CORRECT = "Correct that in the connection's extra."
_MOVING = frozenset(
    {
        "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_PARTITION", "_NOENT",
    }
)  # fmt: skip
"""Partition errors that pass once the new leader is known everywhere."""

_BACKOFF_SECONDS = 0.1
_MAX_BACKOFF_SECONDS = 1.0
_RETRIES = 8
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 2.0
_REFUSED_SECONDS = 2.0
_LOOK_SECONDS = 1.5
_NUMBER, _NOT_WANTED, _ENCRYPTED = b"look", b"\x00\x22", b"TLS"
_LOGIN = b"\x00\x00\x00\x11" + b"\x00\x11\x00\x01" + _NUMBER + b"\xff\xff" + b"\x00\x05PLAIN"
"""Kafka's SaslHandshake, which every listener answers before anything else: length, kind, number, no name, mechanism.
One without logins answers that there is nothing to log in to."""

TLS, HTTP = "TLS", "HTTP"
_SERVERS = {TLS: "a server with TLS", HTTP: "an HTTP server"}


def spoken_at(address: str) -> str | None:
    """Return the security protocol of the listener at `host:port`, or HTTP, or TLS where no more can be told without a
    certificate; None where nothing known answers. No secret is sent, and it takes a few seconds at most."""
    host, _, port = address.rpartition(":")
    place = (host.strip("[]"), int(port))
    if wants_login := _asked_for_login(place, None):
        return SecurityProtocol.PLAINTEXT if wants_login == _NOT_WANTED else SecurityProtocol.SASL_PLAINTEXT
    context = ssl.create_default_context()
    # Nothing secret is sent and no answer is believed: whose certificate it is does not matter.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    match _asked_for_login(place, context):
        case b"":
            pass
        case code if code == _ENCRYPTED:
            return TLS
        case code:
            return SecurityProtocol.SSL if code == _NOT_WANTED else SecurityProtocol.SASL_SSL
    with suppress(OSError), socket.create_connection(place, timeout=_LOOK_SECONDS) as plain:
        plain.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        if plain.recv(5) == b"HTTP/":
            return HTTP
    return None


def _asked_for_login(place: tuple[str, int], context: ssl.SSLContext | None) -> bytes:
    """Return the code with which a Kafka listener answers the first step of a login, _ENCRYPTED where something took
    the encryption and no more; nothing where no such thing is there."""
    is_there = b""
    with suppress(OSError), socket.create_connection(place, timeout=_LOOK_SECONDS) as plain:
        with context.wrap_socket(plain) if context else plain as listener:
            is_there = _ENCRYPTED if context else b""
            listener.sendall(_LOGIN)
            answer = listener.recv(16)
        if answer[4:8] == _NUMBER:
            return answer[8:10]
    return is_there


def tls_fault(settings: KafkaSettings) -> tuple[str, str]:
    """Return the fault in the TLS of a connection, and its remedy, by a handshake: librdkafka has no words for it."""
    for address in settings.servers:
        host, _, port = address.rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK_SECONDS) as plain,
                settings.tls_context().wrap_socket(plain, server_hostname=host.strip("[]")) as listener,
            ):
                listener.sendall(_LOGIN)
                listener.recv(16)
        except ssl.SSLCertVerificationError as error:
            fault, remedy = _CERTIFICATES.get(error.verify_code, _UNTRUSTED)
            return f"the certificate at {address} {fault}", remedy
        except OSError:
            continue
    return (
        "TLS fails behind its certificate: it may want one of this client",
        "Correct ssl.certificate.* and ssl.key.*.",
    )


class LogToPython:
    """Takes librdkafka's log lines from the terminal: twenty a second of a broker that is down."""

    def log(self, level: int, message: str, *arguments: object) -> None:
        _LOG.debug("level %s: " + message, level, *arguments)


class Client:
    """Admin calls to one cluster, each bounded by `timeout` seconds; errors name the servers, never a secret."""

    def __init__(
        self, settings: KafkaSettings, *, timeout: float, clock: Clock, connect: Callable[..., AdminClient]
    ) -> None:
        self.settings = settings
        self.timeout = timeout
        self._clock = clock
        self._connect = connect
        self._admin: AdminClient | None = None
        self._heard: deque[KafkaError] = deque(maxlen=20)

    @property
    def admin(self) -> AdminClient:
        """The client; connects on first use, so that a source can be built (and a process forked) before."""
        if self._admin is None:
            settings = self.settings.librdkafka(**{"error_cb": self._heard.append, "log.connection.close": False})
            try:
                self._admin = self._connect(settings, logger=LogToPython())
            except KafkaException as error:
                raise self.translated(error, "reading the connection's settings") from None
        return self._admin

    def completed(self, futures: Iterable[Future[_T]], doing: str) -> None:
        """Return once all futures are done; a login that stays refused ends the wait early."""
        begun = time.monotonic()
        self._heard.clear()
        for future in futures:  # one after the other: a wait for all of them goes through all at every poll
            while not future.done():
                wait([future], timeout=_POLL_SECONDS)
                # librdkafka tells of refused logins in a callback, which runs within `poll` alone.
                self.admin.poll(0)
                waited = time.monotonic() - begun
                refused = waited > _REFUSED_SECONDS and self._last_refusal()
                if not future.done() and (refused or waited > self.timeout + _GRACE_SECONDS):
                    raise self._failed("no answer", doing)

    def topic_names(self) -> list[str]:
        self._heard.clear()
        try:
            known = self.admin.list_topics(timeout=self.timeout).topics
        except KafkaException as error:
            raise self.translated(error, "listing topics") from None
        return [name for name, topic in known.items() if not topic.error or topic.error.name() not in MISSING]

    def answer(self, future: Future[_T], doing: str, *right: str) -> _T:
        """Return one future's result; raises its error as `translated` words it."""
        if not future.done():
            self.completed([future], doing)
        try:
            return future.result()
        except KafkaException as error:
            raise self.translated(error, doing, *right) from None

    def translated(self, error: KafkaException, doing: str, *right: str) -> KafkaLakeError:
        """Return our error for one of librdkafka's: refused settings, a lacking `right`, a cluster out of reach."""
        cause: KafkaError = error.args[0]
        if self._admin is not None:
            self._admin.poll(0)
        if cause.name() in _REFUSED:
            self._heard.append(cause)
        return self._failed(cause.str(), doing, *right)

    def _failed(self, problem: str, doing: str, *right: str) -> KafkaLakeError:
        refusal = self._last_refusal()
        if refusal and refusal.name() in _LACKS_RIGHT:
            return self.settings.failure(doing, "", *right or ("Describe", refusal.name().split("_")[0].lower(), "*"))
        if refusal and refusal.name() in _LOGIN_REFUSED:
            return self.settings.failure(doing, "", login=True)
        if refusal:
            fault = tls_fault(self.settings) if refusal.name() == "_SSL" else (refusal.str(), _CORRECT)
            return self.settings.error(ConnectionSettingsError, f"refused {doing}: {fault[0]}", fault[1])
        if spoken := self._other_protocol():
            server = _SERVERS.get(spoken, f"a Kafka listener with security.protocol {spoken}")
            told = f"did not answer while {doing}: {server} is there, and the connection says {self.settings.protocol}"
            return self.settings.error(
                ConnectionSettingsError,
                told,
                "Correct the port in bootstrap.servers, or security.protocol with its keys.",
            )
        last = f" ({self._heard[-1].str()})" if self._heard else ""
        return self.settings.failure(doing, problem + last)

    def _other_protocol(self) -> str | None:
        """Return the protocol of the first address that speaks a known one, None if it is the expected one.

        librdkafka says no more of it than of a broker that is down.
        """
        spoken = next(filter(None, map(spoken_at, self.settings.servers)), None)
        is_expected = spoken == self.settings.protocol or (spoken == TLS and self.settings.protocol in ENCRYPTED)
        return None if is_expected else spoken

    def _last_refusal(self) -> KafkaError | None:
        return next((error for error in reversed(self._heard) if error.name() in _REFUSED), None)

    def offsets(
        self, wanted: Mapping[Key, OffsetSpec], isolation: object
    ) -> tuple[dict[Key, ListOffsetsResultInfo], dict[Key, KafkaError]]:
        """Ask the leaders of all partitions in one call; `(answers, errors)` together name every partition wanted.
        One whose leader is just moving is asked again, a bounded number of times."""
        found: dict[Key, ListOffsetsResultInfo] = {}
        errors: dict[Key, KafkaError] = {}
        left = dict(wanted)
        until = time.monotonic() + self.timeout
        for attempt in range(_RETRIES):
            self._ask(left, isolation, found, errors)
            left = {key: wanted[key] for key, error in errors.items() if error.name() in _MOVING}
            if not left or time.monotonic() > until:
                break
            if attempt + 1 < _RETRIES:
                self._clock.sleep(min(_BACKOFF_SECONDS * 2**attempt, _MAX_BACKOFF_SECONDS))
                self._forget_leaders()
        return found, errors

    def _forget_leaders(self) -> None:
        """Fetch the metadata anew: librdkafka would go on for minutes with the leader epoch that it once learned."""
        with suppress(KafkaException):
            self.admin.list_topics(timeout=self.timeout)

    def _ask(
        self,
        wanted: Mapping[Key, OffsetSpec],
        isolation: object,
        found: dict[Key, ListOffsetsResultInfo],
        errors: dict[Key, KafkaError],
    ) -> None:
        if not wanted:
            return
        asked = {TopicPartition(*key): spec for key, spec in wanted.items()}
        futures = self.admin.list_offsets(asked, isolation_level=isolation, request_timeout=self.timeout)
        self.completed(futures.values(), "listing offsets")
        # Each counts as failed until its answer is here.
        errors.update(dict.fromkeys(wanted, KafkaError(KafkaError.UNKNOWN, "the answer left it out")))
        for partition, future in futures.items():
            key = (partition.topic, partition.partition)
            error = future.exception()
            if error is None:
                found[key] = future.result()
                errors.pop(key, None)
            elif isinstance(error, KafkaException):
                errors[key] = error.args[0]
            else:
                raise error


# librdkafka's answers as values of `core`: topics, bounds, and the snapshot that they make.

GroupOffset = tuple[int | None, GroupOffsetState]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic as described: `led` has the partitions with a leader, a subset of `partitions`."""

    id: str
    partitions: frozenset[int]
    led: frozenset[int]

    @property
    def identity(self) -> tuple[str, frozenset[int]]:
        return self.id, self.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """One partition's bounds, read one after the other."""

    log_start: int
    last_stable: int
    high_watermark: int
    leader_epoch: int | None

    @property
    def contradiction(self) -> str:
        """Why these numbers cannot be true together (deletion or truncation came between), empty when they can."""
        if 0 <= self.log_start <= self.last_stable <= self.high_watermark:
            return ""
        return (
            f"its bounds contradict each other: log start {self.log_start}, last stable {self.last_stable}, "
            f"high watermark {self.high_watermark}"
        )


def assembled(
    observed_at: datetime,
    topics: Mapping[str, DescribedTopic],
    *,
    bounds: Mapping[Key, PartitionBounds],
    unknown: Mapping[Key, str],
    committed: Mapping[Key, GroupOffset],
) -> Snapshot:
    reasons = {**unknown, **{key: item.contradiction for key, item in bounds.items() if item.contradiction}}
    return Snapshot(
        observed_at=observed_at,
        partitions=tuple(
            PartitionSnapshot(
                stream=Stream(key[0], topics[key[0]].id, key[1]),
                leader_epoch=item.leader_epoch,
                log_start=item.log_start,
                last_stable=item.last_stable,
                high_watermark=item.high_watermark,
                group_offset=committed[key][0],
                group_offset_state=committed[key][1],
            )
            for key, item in sorted(bounds.items())
            if key not in reasons
        ),
        unknown=tuple(
            UnknownPartition(topic=key[0], partition=key[1], reason=reason, topic_id=topics[key[0]].id)
            for key, reason in sorted(reasons.items())
        ),
    )


def topic_id(topic: str, uuid: Uuid) -> str:
    """Return the id as Kafka's tools print it. Raises IdentityError for that of a broker too old for ids."""
    if not uuid.get_most_significant_bits() and not uuid.get_least_significant_bits():
        raise IdentityError(
            f"The broker gives topic {topic!r} no id, so a re-created topic could not be told from this one. "
            "Topic ids need Kafka 2.8 or newer (inter.broker.protocol.version too).",
            topic=topic,
        )
    # librdkafka prints plain base64, Java the kind for addresses.
    return str(uuid).replace("+", "-").replace("/", "_")
