"""What producers were told, held against ledger and lake: only a test knows it.

At rest, when no process works and all faults are healed, whatever is left over is a fault too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, cast

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.check import AuditInputs, Finding, FindingKind, by_stream, offsets_seen
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, RESOLVED, UNFINISHED
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Stream


class TruthKind(StrEnum):
    """The kinds of findings that an audit cannot have."""

    ABORTED_VISIBLE = "aborted-visible"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTruth:
    """The truth about one stream, from Kafka and its producers.

    `acknowledged`: offsets whose records readers must see, as producers were told; `aborted`: offsets that no reader
    may see. Digests of contents by offset are compared where lake and truth both have one.
    """

    acknowledged: RangeSet
    aborted: RangeSet = field(default_factory=RangeSet)
    log_start: int = 0
    digests: Mapping[int, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(AuditInputs):
    """The inputs of an audit, what producers were told, and the digests of the rows' contents where they were read.

    `at_rest`: no process works, faults are healed, and everything should be finished.
    """

    truth: Mapping[Stream, StreamTruth] = field(default_factory=dict)
    digests: Mapping[Stream, Mapping[int, int | str]] = field(default_factory=dict)
    at_rest: bool = False

    @classmethod
    def of(cls, inputs: AuditInputs, **known: Any) -> Evidence:
        """Add what a test knows."""
        return cls(**{item.name: getattr(inputs, item.name) for item in fields(inputs)}, **known)


def check_truth(evidence: Evidence) -> Iterator[Finding]:
    """Find what is visible and may not be, what was acknowledged and is lost, and at rest all that is left over."""
    seen = offsets_seen(evidence)
    for stream, truth in evidence.truth.items():
        yield from _check_contents(evidence, stream, truth, seen.get(stream, NOTHING))
    for item in evidence.committed:
        said = evidence.truth.get(item.stream)
        inside = seen.get(item.stream, NOTHING).within(item.range)
        missing = said.acknowledged.within(item.range) - inside if said else NOTHING
        if item.wave not in evidence.unreadable and missing.span > evidence.deletions.rows(item, inside):
            message = f"range {item.range}: missing: {count(missing.span, 'acknowledged record')}"
            yield _finding(FindingKind.LOST, message, stream=item.stream, offsets=missing, wave=item.wave)
    if evidence.at_rest:
        yield from _check_rest(evidence)


def _finding(kind: StrEnum, message: str, **about: Any) -> Finding:
    return Finding(kind=cast(FindingKind, kind), message=message, **about)


def _check_contents(evidence: Evidence, stream: Stream, truth: StreamTruth, rows: RangeSet) -> Iterator[Finding]:
    if aborted := rows & truth.aborted:
        message = f"records of aborted transactions are visible at {aborted.describe()}"
        yield _finding(TruthKind.ABORTED_VISIBLE, message, stream=stream, offsets=aborted)
    theirs = evidence.digests.get(stream, {})
    wrong = [o for o, digest in theirs.items() if o in truth.digests and truth.digests[o] != digest]
    if wrong:
        offsets = RangeSet(OffsetRange(offset, offset + 1) for offset in wrong)
        message = f"rows at {offsets.describe()} have another content than was acknowledged"
        yield _finding(FindingKind.INCONSISTENT, message, stream=stream, offsets=offsets)


def _check_rest(evidence: Evidence) -> Iterator[Finding]:
    ranges = by_stream(evidence.ledger.ranges)
    for stream in evidence.ledger.streams:
        yield from _left_over(stream, ranges[stream.key], evidence.truth.get(stream.key))
    known = {stream.key for stream in evidence.ledger.streams}
    for key, truth in evidence.truth.items():
        due = truth.acknowledged - RangeSet.between(0, truth.log_start)
        if key not in known and due:
            message = f"the ledger does not know this stream, with {count(due.span, 'acknowledged record')}"
            yield _finding(TruthKind.STUCK, message, stream=key, offsets=due)
    for wave in evidence.ledger.waves:
        if wave.state in UNFINISHED:
            message = f"wave {wave.id} is still {wave.state} at fence {wave.fence}"
            yield _finding(TruthKind.STUCK, message, wave=wave.id, table=wave.table)


def _left_over(stream: StreamRecord, ranges: list[RangeRecord], truth: StreamTruth | None) -> Iterator[Finding]:
    end = RangeSet(item.range for item in ranges if item.state in RESOLVED).unbroken_end(stream.origin)
    if stream.watermark < end:
        message = f"the watermark {stream.watermark} could be at {end}: run {remedies.advance()}"
        yield _finding(TruthKind.STUCK, message, stream=stream.key, offsets=RangeSet.between(stream.watermark, end))
    for item in ranges:
        if item.state in ON_HOLD:
            message = f"range {item.range} is {item.state}: {item.reason}"
            yield _finding(TruthKind.STUCK, message, stream=stream.key, offsets=RangeSet((item.range,)), wave=item.wave)
    if truth is not None:
        due = truth.acknowledged - RangeSet.between(0, max(stream.origin, truth.log_start))
        if unread := due - RangeSet(item.range for item in ranges):
            message = f"{count(unread.span, 'acknowledged record')} not even planned: {unread.describe()}"
            yield _finding(TruthKind.STUCK, message, stream=stream.key, offsets=unread)
