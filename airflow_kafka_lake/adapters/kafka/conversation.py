"""What librdkafka's admin client cannot ask is asked with kafka-python: one short conversation, made quiet and tidy."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.ports import Clock

with warnings.catch_warnings():
    # It reads its protocol definitions with a function that Python 3.11 wants to see replaced.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import errors
    from kafka.net.compat import KafkaNetClient

T = TypeVar("T")
_PAUSE_SECONDS = 0.2

FAILED = (errors.KafkaError, OSError)
"""How a conversation fails."""

# It reports every refused connection as an error, also those that the next attempt mends. A level set elsewhere stays.
if (_log := logging.getLogger("kafka")).level == logging.NOTSET:
    _log.setLevel(logging.CRITICAL)


def asked(settings: KafkaSettings, ask: Callable[[Any], Awaitable[T]], *, timeout: float, clock: Clock) -> T:
    """Run `ask` with kafka-python's connection manager; what is worth repeating is repeated within `timeout` seconds.

    Raises one of `FAILED`; what is raised holds on to sockets, so only its text may be kept.
    """
    until = time.monotonic() + timeout
    milliseconds = int(timeout * 1000)
    client = KafkaNetClient(**settings.kafka_python(), request_timeout_ms=milliseconds)
    manager = client._manager  # noqa: SLF001  # as kafka-python's own clients do
    try:
        manager.bootstrap(milliseconds)
        while True:
            try:
                return manager.run(ask, manager)
            except errors.KafkaError as error:
                if not error.retriable or time.monotonic() > until:
                    raise
                clock.sleep(_PAUSE_SECONDS)
    finally:
        client.close()


def raise_for(code: int) -> None:
    """Raise the error of an answer's code, if it is one."""
    if code:
        raise errors.for_code(code)(f"the broker answers with error {code}")


__all__ = ["FAILED", "asked", "errors", "raise_for"]
