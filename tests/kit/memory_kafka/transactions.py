"""What is open in a log in memory, as a coordinator would describe it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import timedelta

from airflow_kafka_lake.core.kafka.snapshots import OpenTransaction
from airflow_kafka_lake.core.wire import instant
from tests.kit.memory_kafka.log import Entry, Log

_TIMEOUT = timedelta(minutes=1)


def open_transactions(log: Log, topic: str, partition: int) -> Iterator[OpenTransaction]:
    """Yield the transactions that have written to a log and have not ended; a producer's number is made of its name."""
    for name, offsets in log.running.items():
        left = [
            log.entries[at].timestamp_ms for at in offsets if at in log.entries
        ]  # the log start may have passed some
        first, last = (instant(at) for at in (left[0], left[-1])) if left else (None, None)
        yield OpenTransaction(
            topic=topic,
            partition=partition,
            producer_id=zlib.crc32(name.encode()),
            first_offset=offsets[0],
            transactional_id=name,
            started_at=first,
            last_written_at=last,
            timeout=_TIMEOUT,
        )


def pending_commits(group: str, timestamp_ms: int) -> Log:
    """Return a log like the one that a group's commits are written to, while they are pending."""
    return Log(running={f"commits of {group}": [0]}, entries={0: Entry(timestamp_ms=timestamp_ms)})
