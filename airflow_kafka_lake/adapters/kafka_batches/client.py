"""What we use of kafka-python, made quiet and tidy.

Its import warns, its log calls every refused connection an error, and its sockets that fail to connect stay open.
"""

from __future__ import annotations

import logging
import selectors
import warnings
from typing import Any

with warnings.catch_warnings():
    # It reads its protocol definitions with a function that Python 3.11 wants to see replaced.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, errors
    from kafka.net.compat import KafkaNetClient
    from kafka.protocol.admin.configs import DescribeConfigsRequest
    from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
    from kafka.protocol.metadata import MetadataRequest
    from kafka.record import MemoryRecords
    from kafka.record.legacy_records import LegacyRecordBatch

SETTINGS = frozenset(KafkaConsumer.DEFAULT_CONFIG)
"""Every keyword argument that some client of kafka-python knows and the connection may be given."""

# The next attempt mends most of what it logs as an error. A level that is set elsewhere stays.
if (_log := logging.getLogger("kafka")).level == logging.NOTSET:
    _log.setLevel(logging.CRITICAL)


class ClosingSelector(selectors.DefaultSelector):
    """Closes, when it is closed, every socket it ever watched."""

    def __init__(self) -> None:
        super().__init__()
        self._watched: set[Any] = set()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch a socket."""
        self._watched.add(fileobj)
        return super().register(fileobj, events, data)

    def close(self) -> None:
        """Close the selector and the sockets."""
        super().close()
        for watched in self._watched:
            watched.close()


__all__ = [
    "SETTINGS", "ClosingSelector", "DescribeConfigsRequest", "FetchRequest", "KafkaNetClient", "LegacyRecordBatch",
    "ListOffsetsRequest", "MemoryRecords", "MetadataRequest", "errors",
]  # fmt: skip
