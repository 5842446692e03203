"""Streams: the unit of a watermark, as the ledger has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """A stream as the ledger has it.

    `planned` holds every live range whatever its state (compacted: `[origin, watermark)` is one range); `version`
    grows with every decision about the stream and guards the next one.
    """

    key: Stream
    origin: int
    watermark: int
    version: int
    planned: RangeSet
    covered: RangeSet
    end_seen: int
    """Readable end at the newest plan: a smaller one now means that Kafka lost records."""
    leader_epoch: int | None = None
    unacknowledged: RangeSet = field(default_factory=RangeSet)
    """What of `covered` was skipped without acknowledging the order: it frees the watermark, and no later segment."""
    since: datetime | None = None
    """By when everything below the origin had been written; None where that is not on record (a rebuilt ledger)."""
