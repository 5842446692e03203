"""The result of comparing contents with Kafka, and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.inputs import Finding, FindingKind
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.features.deep_audit.job.comparing import Comparison, Difference, Mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How many offsets of a stream were compared, and which were not, and why."""

    stream: Stream
    offsets: int
    left_out: RangeSet
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deep:
    """The result of a comparison; `compacted` are the topics whose records may have been cleaned since, `deletions` how
    many rows of each stream were deleted on purpose."""

    comparison: Comparison
    streams: tuple[Compared, ...]
    compacted: frozenset[str]
    deletions: Mapping[Stream, int] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        """Return every difference that neither compaction nor a recorded deletion explains."""
        for item in self.comparison.differences:
            if item not in self.cleaned and item not in self.deleted:
                yield _finding(item)

    @property
    def deleted(self) -> tuple[Difference, ...]:
        """Records without a row that are no more than what was deleted of their stream: that each range lacks exactly
        those is counted with its rows."""
        return tuple(
            item
            for item in self.comparison.differences
            if item.mismatch is Mismatch.MISSING and item.offsets <= self.deletions.get(item.stream, 0)
        )

    @property
    def cleaned(self) -> tuple[Difference, ...]:
        """Rows without a record in a compacted topic: the cleaner may have removed it since."""
        return tuple(
            item
            for item in self.comparison.differences
            if item.mismatch is Mismatch.UNKNOWN and item.stream.topic in self.compacted
        )

    def to_json(self) -> dict[str, Any]:
        """Return what `audit --json` has under `deep`."""
        wrong = sum(1 for _ in self.findings())
        offsets = sum(item.offsets for item in self.streams)
        left_out = sum(item.left_out.span for item in self.streams)
        return {
            "records": self.comparison.records,
            "bytes": self.comparison.bytes,
            "offsets": offsets,
            "left_out": left_out,
            "sentence": _sentence(self.comparison.records, offsets, left_out, wrong),
            "lines": [
                *map(_cleaned, self.cleaned),
                *map(_deleted, self.deleted),
                *(_left_out(item) for item in self.streams if item.left_out),
            ],
        }


def _finding(item: Difference) -> Finding:
    where = f"{count(item.offsets, 'offset')}, the first {item.first}"
    match item.mismatch:
        case Mismatch.MISSING:
            kind, message = FindingKind.LOST, f"Kafka has records that the table lacks, at {where}"
        case Mismatch.UNKNOWN:
            kind, message = FindingKind.INCONSISTENT, f"the table has rows where Kafka has no record, at {where}"
        case _:
            kind, message = FindingKind.DIFFERENT, f"the {item.mismatch} is not what Kafka has, at {where}"
    first = RangeSet((OffsetRange(item.first, item.first + 1),))
    return Finding(kind=kind, stream=item.stream, offsets=first, message=message)


def _sentence(records: int, offsets: int, left_out: int, wrong: int) -> str:
    """Return what was compared and found, and how much was not, of which nothing is known."""
    rest = f"{count(left_out, 'committed offset')} could not be compared"
    if not offsets:
        return f"nothing was compared with Kafka: {rest if left_out else 'nothing is committed'}"
    there = count(offsets, "committed offset was", "committed offsets were")
    read = f"{count(records, 'record')} at {there} read from Kafka again"
    found = "not all of them are" if wrong else "keys, values, headers and timestamps are"
    more = f"; {rest}" if left_out else ""
    return f"{read}: {found} what the table has{more}"


def _cleaned(item: Difference) -> str:
    return (
        f"{item.stream}: {count(item.offsets, 'row has', 'rows have')} no record in Kafka any more, the first at "
        f"{item.first}: the topic is compacted, there is nothing to compare with"
    )


def _deleted(item: Difference) -> str:
    have = count(item.offsets, "record has", "records have")
    return f"{item.stream}: {have} no row, the first at {item.first}: deleted on purpose"


def _left_out(item: Compared) -> str:
    topic, _, partition = item.stream
    return f"{topic}/{partition}: {item.left_out.span:,} committed offsets could not be compared: {item.why}"
