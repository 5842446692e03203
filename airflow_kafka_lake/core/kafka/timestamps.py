"""Which of the numbers that producers write as a record's time a table and its readers can hold as a time.

Kafka takes any number for milliseconds since 1970; producers that mean microseconds or nanoseconds are common.
"""

from __future__ import annotations

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999. Python, the transforms of table formats in it and most databases hold no others as a time."""

SPARK_LATEST_MS = (2**63 - 1) // 1000
"""The last number that Spark's Kafka source reads: it counts microseconds in 64 bits, and fails above (year 294247)."""


def is_beyond_spark(timestamp_ms: int) -> bool:
    """Return whether Spark's Kafka source fails on a record with this number as its time."""
    return not -SPARK_LATEST_MS <= timestamp_ms <= SPARK_LATEST_MS
