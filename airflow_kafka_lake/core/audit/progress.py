"""Is a watermark where it should be, and, once no process works any more, is anything left over?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.audit.evidence import Evidence, Finding, FindingKind, StreamTruth
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNFINISHED, UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Stream


def check_progress(evidence: Evidence) -> Iterator[Finding]:
    """Find watermarks ahead of what is settled; at rest also whatever is not finished."""
    ranges: dict[Stream, list[RangeRecord]] = defaultdict(list)
    for item in evidence.ledger.ranges:
        ranges[item.stream].append(item)
    for stream in evidence.ledger.streams:
        mine = ranges[stream.key]
        # From the ranges themselves: what the ledger calls covered may lean on the watermark.
        end = RangeSet(item.range for item in mine if item.state in RESOLVED).unbroken_end(stream.origin)
        if stream.watermark > end:
            words = f"the watermark {stream.watermark} is ahead of what is settled: {end}"
            ahead = RangeSet.between(end, stream.watermark)
            yield Finding(kind=FindingKind.WATERMARK_AHEAD, stream=stream.key, offsets=ahead, words=words)
        elif stream.watermark not in {stream.origin, *(edge for i in mine for edge in (i.range.start, i.range.end))}:
            # Whatever moves a watermark moves it from one end of a range to another.
            words = f"the watermark {stream.watermark} is at the end of no range: it was edited; settled is up to {end}"
            yield Finding(kind=FindingKind.WATERMARK_BACK, stream=stream.key, words=words)
        if evidence.at_rest:
            yield from _left_over(stream, end, mine, evidence.truth.get(stream.key))
    if evidence.at_rest:
        yield from _unknown_streams(evidence)
        yield from _unfinished(evidence)


def _left_over(
    stream: StreamRecord, end: int, ranges: list[RangeRecord], truth: StreamTruth | None
) -> Iterator[Finding]:
    if stream.watermark < end:
        words = f"the watermark {stream.watermark} could be at {end}: run {remedies.advance()}"
        behind = RangeSet.between(stream.watermark, end)
        yield Finding(kind=FindingKind.STUCK, stream=stream.key, offsets=behind, words=words)
    for item in ranges:
        if item.state in UNRESOLVED - {RangeState.PLANNED}:
            words = f"range {item.range} is {item.state}: {item.reason}"
            yield Finding(
                kind=FindingKind.STUCK,
                stream=stream.key,
                offsets=RangeSet((item.range,)),
                wave=item.wave,
                words=words,
            )
    if truth is not None:
        due = truth.acknowledged - RangeSet.between(0, max(stream.origin, truth.log_start))
        if unread := due - RangeSet(item.range for item in ranges):
            words = f"{unread.span} acknowledged records at {unread.in_words()} are not even planned"
            yield Finding(kind=FindingKind.STUCK, stream=stream.key, offsets=unread, words=words)


def _unknown_streams(evidence: Evidence) -> Iterator[Finding]:
    known = {stream.key for stream in evidence.ledger.streams}
    for key, truth in evidence.truth.items():
        due = truth.acknowledged - RangeSet.between(0, truth.log_start)
        if key not in known and due:
            words = f"the ledger does not know this stream, and {due.span} records of it were acknowledged"
            yield Finding(kind=FindingKind.STUCK, stream=key, offsets=due, words=words)


def _unfinished(evidence: Evidence) -> Iterator[Finding]:
    for wave in evidence.ledger.waves:
        if wave.state in UNFINISHED:
            words = f"wave {wave.id} is still {wave.state} at fence {wave.fence}"
            yield Finding(kind=FindingKind.STUCK, wave=wave.id, table=wave.table, words=words)
