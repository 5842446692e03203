"""Whether watermarks are where they should be, and, at rest, whether anything is unfinished."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding, FindingKind, StreamTruth, by_stream
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNFINISHED, UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import RangeSet


def check_progress(inputs: AuditInputs) -> Iterator[Finding]:
    """Find watermarks ahead of committed ranges; at rest also everything that is unfinished."""
    ranges = by_stream(inputs.ledger.ranges)
    for stream in inputs.ledger.streams:
        mine = ranges[stream.key]
        # Computed from the ranges: the stored coverage may depend on the watermark.
        end = RangeSet(item.range for item in mine if item.state in RESOLVED).unbroken_end(stream.origin)
        if stream.watermark > end:
            message = f"the watermark {stream.watermark} is ahead of what is committed: {end}"
            ahead = RangeSet.between(end, stream.watermark)
            yield Finding(kind=FindingKind.WATERMARK_AHEAD, stream=stream.key, offsets=ahead, message=message)
        elif stream.watermark not in {stream.origin, *(edge for i in mine for edge in (i.range.start, i.range.end))}:
            # Every legal move ends at an end of a range.
            message = (
                f"the watermark {stream.watermark} is at the end of no range: it was edited; committed is up to {end}"
            )
            yield Finding(kind=FindingKind.WATERMARK_BACK, stream=stream.key, message=message)
        if inputs.at_rest:
            yield from _left_over(stream, end, mine, inputs.truth.get(stream.key))
    if inputs.at_rest:
        yield from _unknown_streams(inputs)
        yield from _unfinished(inputs)


def _left_over(
    stream: StreamRecord, end: int, ranges: list[RangeRecord], truth: StreamTruth | None
) -> Iterator[Finding]:
    if stream.watermark < end:
        message = f"the watermark {stream.watermark} could be at {end}: run {remedies.advance()}"
        behind = RangeSet.between(stream.watermark, end)
        yield Finding(kind=FindingKind.STUCK, stream=stream.key, offsets=behind, message=message)
    for item in ranges:
        if item.state in UNRESOLVED - {RangeState.PLANNED}:
            message = f"range {item.range} is {item.state}: {item.reason}"
            yield Finding(
                kind=FindingKind.STUCK,
                stream=stream.key,
                offsets=RangeSet((item.range,)),
                wave=item.wave,
                message=message,
            )
    if truth is not None:
        due = truth.acknowledged - RangeSet.between(0, max(stream.origin, truth.log_start))
        if unread := due - RangeSet(item.range for item in ranges):
            message = f"{count(unread.span, 'acknowledged record')} not even planned: {unread.describe()}"
            yield Finding(kind=FindingKind.STUCK, stream=stream.key, offsets=unread, message=message)


def _unknown_streams(inputs: AuditInputs) -> Iterator[Finding]:
    known = {stream.key for stream in inputs.ledger.streams}
    for key, truth in inputs.truth.items():
        due = truth.acknowledged - RangeSet.between(0, truth.log_start)
        if key not in known and due:
            message = f"the ledger does not know this stream, with {count(due.span, 'acknowledged record')}"
            yield Finding(kind=FindingKind.STUCK, stream=key, offsets=due, message=message)


def _unfinished(inputs: AuditInputs) -> Iterator[Finding]:
    for wave in inputs.ledger.waves:
        if wave.state in UNFINISHED:
            message = f"wave {wave.id} is still {wave.state} at fence {wave.fence}"
            yield Finding(kind=FindingKind.STUCK, wave=wave.id, table=wave.table, message=message)
