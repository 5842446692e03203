"""Import kafka-python without the warning that its import gives, and the log lines that a repeat makes untrue."""

from __future__ import annotations

import logging
import warnings

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

# It reports every refused connection as an error, also those that the next attempt mends. A level set elsewhere stays.
if (_log := logging.getLogger("kafka")).level == logging.NOTSET:
    _log.setLevel(logging.CRITICAL)

__all__ = [
    "SETTINGS", "DescribeConfigsRequest", "FetchRequest", "KafkaNetClient", "LegacyRecordBatch", "ListOffsetsRequest", "MemoryRecords",
    "MetadataRequest", "errors",
]  # fmt: skip
