"""One librdkafka admin client, and its answers as values of `core`: every call ends within a timeout."""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings, place_of
from airflow_kafka_lake.core.errors import ConnectionSettingsError, IdentityError, KafkaLakeError, UnavailableError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.ports import Clock

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

Key = tuple[str, int]
"""`(topic, partition)`."""

MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})
"""Names of the errors that mean: no such topic or partition, or no legal name."""

_LOGIN_REFUSED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
_LACKS_RIGHT = frozenset(f"{kind}_AUTHORIZATION_FAILED" for kind in ("TOPIC", "GROUP", "CLUSTER"))
_REFUSED = _LOGIN_REFUSED | _LACKS_RIGHT | {"_SSL", "_INVALID_ARG", "_UNSUPPORTED_FEATURE"}
_SILENT = frozenset({"_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT"})
"""Names of the errors of a broker that does not answer: it may have died, and the metadata names it still."""
_CORRECT = "Correct that in the connection's extra."
_MOVING = frozenset(
    str.split(
        "NOT_LEADER_FOR_PARTITION LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE OFFSET_NOT_AVAILABLE FENCED_LEADER_EPOCH "
        "UNKNOWN_LEADER_EPOCH KAFKA_STORAGE_ERROR UNKNOWN_TOPIC_OR_PART _UNKNOWN_PARTITION _NOENT"
    )
)
"""Partition errors that pass once the new leader is known everywhere."""

_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS, _RETRIES = 0.1, 1.0, 8
_POLL_SECONDS, _GRACE_SECONDS, _REFUSED_SECONDS = 0.2, 2.0, 2.0


def error_name(error: BaseException | KafkaError | None) -> str:
    """Return librdkafka's name of an error; empty for none, or one of another kind."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    return cause.name() if isinstance(cause, KafkaError) else ""


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
            self._resolve()
            settings = self.settings.librdkafka(**{"error_cb": self._heard.append, "log.connection.close": False})
            try:
                self._admin = self._connect(settings, logger=LogToPython())
            except KafkaException as error:
                raise self.translated(error, "reading the connection's settings") from None
        return self._admin

    def _resolve(self) -> None:
        """Look up the addresses: librdkafka would try for all of its time, and then speak of no answer."""
        for place in map(place_of, self.settings.servers):
            with suppress(OSError):
                socket.getaddrinfo(*place)
                return
        told = "is not found: this machine knows no address of any host in bootstrap.servers"
        raise self.settings.error(UnavailableError, told, "Correct them, or this machine's name service.")

    def asked(self, ask: Callable[..., dict[Any, Future[_T]]], doing: str) -> dict[Any, Future[_T]]:
        """Return the futures of a call, all done; one for which a broker that may have died is waited for is made
        again with the metadata of another, until no broker can still take it for a live one."""
        for seconds in (self.timeout / 3, self.timeout / 3, self.timeout):
            calls = ask(request_timeout=seconds)
            self.completed(calls.values(), doing)
            if not any(error_name(call.exception()) in _SILENT for call in calls.values()):
                break
            self._clock.sleep(_MAX_BACKOFF_SECONDS)
            if not self._forget_leaders():
                break
        return calls

    def about_topics(self, calls: Mapping[str, Future[_T]], doing: str, operation: str) -> dict[str, _T]:
        """Return the answers by topic; a refusal names all the topics on which the right is lacking."""
        hidden = [name for name, call in calls.items() if error_name(call.exception()) in _LACKS_RIGHT]
        return {name: self.answer(call, doing, operation, "topic", *hidden) for name, call in calls.items()}

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
        name = refusal.name() if refusal else ""
        if name in _LACKS_RIGHT:
            return self.settings.failure(doing, "", *right or ("",))
        if refusal and name not in _LOGIN_REFUSED | {"_SSL"}:
            return self.settings.error(ConnectionSettingsError, f"refused {doing}: {refusal.str()}", _CORRECT)
        last = f" ({self._heard[-1].str()})" if self._heard else ""
        return self.settings.failure(doing, problem + last, login=name in _LOGIN_REFUSED)

    def _last_refusal(self) -> KafkaError | None:
        return next((error for error in reversed(self._heard) if error.name() in _REFUSED), None)

    def offsets(
        self, wanted: Mapping[Key, OffsetSpec], isolation: object
    ) -> tuple[dict[Key, ListOffsetsResultInfo], dict[Key, KafkaError]]:
        """Ask the leaders of all partitions in one call; `(answers, errors)` together name every partition wanted.
        One whose leader is just moving is asked again, a bounded number of times."""
        found: dict[Key, ListOffsetsResultInfo] = {}
        errors: dict[Key, KafkaError] = {}
        left = set(wanted)
        until = time.monotonic() + self.timeout
        for attempt in range(_RETRIES if wanted else 0):
            asked = {TopicPartition(*key): wanted[key] for key in left}
            futures = self.asked(partial(self.admin.list_offsets, asked, isolation_level=isolation), "listing offsets")
            # Each counts as failed until its answer is here.
            errors |= dict.fromkeys(left, KafkaError(KafkaError.UNKNOWN, "the answer left it out"))
            for partition, future in futures.items():
                key = (partition.topic, partition.partition)
                if error := future.exception():
                    if not isinstance(error, KafkaException):
                        raise error
                    errors[key] = error.args[0]
                else:
                    found[key] = future.result()
                    del errors[key]
            left = {key for key, error in errors.items() if error.name() in _MOVING}
            if not left or time.monotonic() > until:
                break
            self._clock.sleep(min(_BACKOFF_SECONDS * 2**attempt, _MAX_BACKOFF_SECONDS))
            self._forget_leaders()
        return found, errors

    def _forget_leaders(self) -> bool:
        """Fetch the metadata anew, if a broker has them: librdkafka would go on for minutes with those it once had."""
        with suppress(KafkaException):
            return bool(self.admin.list_topics(timeout=self.timeout))
        return False


GroupOffset = tuple[int | None, GroupOffsetState]
UNKNOWN: GroupOffset = (None, GroupOffsetState.UNKNOWN)
NONE: GroupOffset = (None, GroupOffsetState.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic as described: `led` has the partitions with a leader, a subset of `partitions`."""

    id: str
    partitions: frozenset[int]
    led: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIds:
    """The ids that brokers have for each topic, None where a broker knows no such topic; `silent` has the brokers
    without an answer, each with the reason. `epochs` are the newest leader epochs that one of them has heard of."""

    ids: Mapping[str, frozenset[str | None]]
    silent: Mapping[int, str]
    epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def doubts(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the topics whose id, or existence, is not certain, each with the reason."""
        found = {}
        for topic in topics:
            if len(ids := self.ids[topic]) != 1:
                listed = ", ".join(sorted(its or "no such topic" for its in ids)) or "nothing"
                found[topic] = f"the brokers do not agree about topic {topic!r}: they say {listed}"
            elif ids == {None} and self.silent:
                broker, reason = min(self.silent.items())
                found[topic] = f"broker {broker} did not say whether topic {topic!r} exists: {reason}"
        return found


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
