"""Which of the numbers that producers write as a record's time a table and its readers can hold as a time.

Kafka takes any number for milliseconds since 1970; producers that mean microseconds or nanoseconds are common.
"""

from __future__ import annotations

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999. Python, the transforms of table formats in it and most databases hold no others as a time."""

NO_TIMESTAMP = -1
"""What Kafka has where a record has no time; it is no moment of 1969."""

SPARK_EARLIEST_MS = -2_208_902_400_000
"""The second day of 1900. What is earlier Spark's Kafka source takes for a time of the calendar before 1582, and of the
zone of its Java as it was then: other numbers come out, and some of them become the same."""

SPARK_LATEST_MS = (2**63 - 1) // 1000
"""The last number that Spark's Kafka source reads: it counts microseconds in 64 bits, and fails above (year 294247)."""


def is_holdable(timestamp_ms: int) -> bool:
    """Return whether a table has this number as a time; it keeps any other as a number."""
    return EARLIEST_MS <= timestamp_ms <= LATEST_MS and timestamp_ms != NO_TIMESTAMP


def is_beyond_spark(timestamp_ms: int) -> bool:
    """Return whether Spark's Kafka source fails on a record with this number as its time, or reads another."""
    return not SPARK_EARLIEST_MS <= timestamp_ms <= SPARK_LATEST_MS
