"""How heavy the records of a log in memory are."""

from __future__ import annotations

import itertools

from airflow_kafka_lake.core.kafka.snapshots import Sample
from airflow_kafka_lake.core.offsets import OffsetRange, Slice
from airflow_kafka_lake.core.spec import Isolation
from tests.kit.memory_kafka.log import Log

_RECORDS = 100


def weigh(log: Log, wanted: Slice, isolation: Isolation) -> Sample | None:
    """Read a little at the start of a slice; None when it has no visible record."""
    seen = list(itertools.islice(log.records(wanted.range, isolation), _RECORDS))
    if not seen:
        return None
    span = (seen[-1][0] + 1 if len(seen) == _RECORDS else wanted.range.end) - wanted.range.start
    return Sample(
        stream=wanted.stream,
        bytes_per_offset=sum(entry.bytes for _, entry in seen) / span,
        first_timestamp_ms=seen[0][1].timestamp_ms,
        earliest_timestamp_ms=min(entry.timestamp_ms for _, entry in seen),
        last_timestamp_ms=seen[-1][1].timestamp_ms,
        read=OffsetRange(wanted.range.start, wanted.range.start + span),
    )
