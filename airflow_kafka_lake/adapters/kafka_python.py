"""kafka-python, made quiet, for requests that librdkafka's admin client lacks, and for raw record batches."""

from __future__ import annotations

import base64
import logging
import random
import selectors
import time
import uuid
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.ports import Clock

with warnings.catch_warnings():
    # It reads its protocol definitions with a function that Python 3.11 wants to see replaced.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import TopicPartition, errors
    from kafka.admin import KafkaAdminClient
    from kafka.net.compat import KafkaNetClient
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector
    from kafka.protocol.admin.configs import DescribeConfigsRequest
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
    from kafka.protocol.consumer.group import OffsetFetchRequest
    from kafka.protocol.metadata import MetadataRequest
    from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
    from kafka.record import MemoryRecords
    from kafka.record.legacy_records import LegacyRecordBatch

T = TypeVar("T")
NO_ID = uuid.UUID(int=0)
_PAUSE_SECONDS = 0.2

FAILED = (errors.KafkaError, OSError)
"""The errors of a call that failed."""

LOGIN_REFUSED = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
"""Errors that no repeat mends: the login, or its mechanism, is not accepted."""

# The next attempt mends most faults that it logs as errors. A level that is set elsewhere stays.
if (_log := logging.getLogger("kafka")).level == logging.NOTSET:
    _log.setLevel(logging.CRITICAL)


class ClosingSelector(selectors.DefaultSelector):
    """Closes, when it is closed, every socket it ever watched."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: set[Any] = set()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        self._watched.add(fileobj)
        return super().register(fileobj, events, data)

    def close(self) -> None:
        super().close()
        for watched in self._watched:
            watched.close()


class KafkaClient(KafkaNetClient):
    """kafka-python's client, with its connection manager and event loop in reach, and no open socket once closed."""

    def __init__(self, **configs: Any) -> None:
        self.loop = NetworkSelector(**configs, selector=ClosingSelector)
        self.manager = KafkaConnectionManager(self.loop, **configs)
        super().__init__(net=self.loop, manager=self.manager)


class AccessTokens(AbstractTokenProvider):
    """The tokens of a connection, as kafka-python asks for them at each new connection."""

    def __init__(self, token: Callable[[], tuple[str, float]], extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._token, self._extensions = token, dict(extensions)

    def token(self) -> str:
        """Return a token that is valid now; raises as its source."""
        return self._token()[0]

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions."""
        return self._extensions


def arguments(settings: KafkaSettings) -> dict[str, object]:
    """Return all keyword arguments of a connection. Raises as its `token`, before any client is made."""
    found = settings.kafka_python()
    if token := settings.token:
        token()
        found["sasl_oauth_token_provider"] = AccessTokens(token, settings.extensions)
    return found


async def try_login(manager: Any, timeout_ms: int) -> None:
    """Try the login before the bootstrap, which would repeat a refused one until its time is over. kafka-python
    overlooks a refusal at the end of a connection: a broker that twice hears the login and hangs up refuses it."""
    broker = random.choice(manager.cluster.bootstrap_brokers())
    for _ in range(2):
        try:
            connection = manager.get_connection(broker.node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False)
            await connection
        except LOGIN_REFUSED:
            raise
        except errors.NodeNotReadyError:
            return
        except errors.KafkaError:
            answered = connection.parser is not None and connection.broker_version_data is not None
            if not (answered and connection.sasl_enabled):
                return
        else:
            return
    raise errors.SaslAuthenticationFailedError


def ask_brokers(
    settings: KafkaSettings, ask: Callable[[Any], Awaitable[T]], doing: str, *, timeout: float, clock: Clock
) -> T:
    """Run `ask` with kafka-python's connection manager, a retriable error again within `timeout` seconds. Raises as
    `failure` words it."""
    until = time.monotonic() + timeout
    milliseconds = int(timeout * 1000)
    client = KafkaClient(**arguments(settings), request_timeout_ms=milliseconds)
    try:
        client.manager.run(try_login, client.manager, milliseconds // 2)
        client.manager.bootstrap(milliseconds)
        while True:
            try:
                return client.manager.run(ask, client.manager)
            except errors.KafkaError as error:
                if not error.retriable or time.monotonic() > until:
                    raise
                clock.sleep(_PAUSE_SECONDS)
    except FAILED as error:
        failed = failure(settings, error, doing)
    finally:
        client.close()
    # Not inside, where it would keep that one's frames, and with them its sockets.
    raise failed


def text_of(topic_id: uuid.UUID | None) -> str:
    """Return a topic's id as Kafka's tools print it; 22 times A for none."""
    return base64.urlsafe_b64encode((topic_id or NO_ID).bytes).decode().rstrip("=")


def raise_for(code: int, *right: str) -> None:
    """Raise the error of an answer's code, if it is one; `right` is the one that it needs (`KafkaSettings.failure`)."""
    if code:
        error = errors.for_code(code)(f"the broker answers with error {code}")
        error.right = right
        raise error


def failure(settings: KafkaSettings, error: Exception, doing: str, *right: str) -> KafkaLakeError:
    """Return one of `FAILED` as ours; `right` is the one that is lacking, unless the error has its own."""
    if isinstance(error, errors.AuthorizationError):
        return settings.failure(doing, "", *(getattr(error, "right", ()) or right or ("",)))
    return settings.failure(doing, str(error), login=isinstance(error, LOGIN_REFUSED))


__all__ = [
    "FAILED", "LOGIN_REFUSED", "DescribeConfigsRequest", "FetchRequest", "FindCoordinatorRequest", "KafkaAdminClient",
    "KafkaClient", "LegacyRecordBatch", "ListOffsetsRequest", "MemoryRecords", "MetadataRequest", "NO_ID",
    "OffsetFetchRequest", "OffsetForLeaderEpochRequest", "TopicPartition", "arguments", "ask_brokers", "errors",
    "failure", "raise_for", "text_of", "try_login",
]  # fmt: skip
