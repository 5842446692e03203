"""Streams as the ledger has them, with their watermark and its hold: pure functions of the committed ranges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime

from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """A stream's own facts, as a write reads and changes them; `version` grows with every decision about the stream."""

    pipeline: str
    key: Stream
    origin: int
    watermark: int
    version: int
    end_seen: int
    """Readable end at the newest plan: a smaller one now means that Kafka lost records."""
    leader_epoch: int | None = None
    since: datetime | None = None
    """By when everything below the origin had been written; None where that is not on record (a rebuilt ledger)."""

    @property
    def next_version(self) -> StreamRow:
        """The stream after a decision about it: a write that was decided from the version before is refused."""
        return replace(self, version=self.version + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord(StreamRow):
    """A stream with the sums of its ranges.

    `planned` holds every live range whatever its state (compacted: `[origin, watermark)` is one range), `covered` the
    committed and skipped part of it, `unacknowledged` the offsets skipped without acknowledging the order: they free
    the watermark, and no later segment.
    """

    planned: RangeSet
    covered: RangeSet
    unacknowledged: RangeSet = NOTHING

    @classmethod
    def of(cls, row: StreamRow, *, planned: RangeSet, covered: RangeSet, unacknowledged: RangeSet) -> StreamRecord:
        """Return a stream with the sums of its ranges."""
        own = {item.name: getattr(row, item.name) for item in fields(StreamRow)}
        return cls(**own, planned=planned, covered=covered, unacknowledged=unacknowledged)


def watermark(origin: int, coverage: RangeSet) -> int:
    """Return the end of the unbroken committed run that begins at the origin (law L2)."""
    return coverage.unbroken_end(origin)


def hold(current: int, unresolved: Iterable[OffsetRange]) -> int | None:
    """Return the smallest start, at or above the watermark, of an unresolved range; None when nothing holds."""
    return min((item.start for item in unresolved if item.start >= current), default=None)


def lag(first: int, readable_end: int, covered: RangeSet = NOTHING) -> int:
    """Return how many offsets from the first one that can be read are not covered; never negative."""
    return (RangeSet.between(first, readable_end) - covered).span
