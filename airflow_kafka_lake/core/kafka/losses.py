"""What Kafka no longer has of a planned range: errors and holds that name the offsets and the remedies."""

from __future__ import annotations

from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import (
    IdentityError,
    KafkaLakeError,
    LogRewrittenError,
    LogStartMovedError,
    LogTruncatedError,
    LostRecordsError,
)
from airflow_kafka_lake.core.kafka.epochs import EpochEnds, cut_below
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.holds import hold, passing
from airflow_kafka_lake.core.ledger.records import RangeRecord, Verdict
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice

NAMED = 5
"""Slices that a reason names; more are counted."""


def loss(item: RangeRecord, seen: PartitionSnapshot, ends: EpochEnds) -> LostRecordsError | None:
    """Return which offsets of a range are gone, at its begin or at its end, or are others now; None when it is whole.

    Raises UnavailableError when the end of the leader epoch that it was planned under could not be learned.
    """
    start, end = item.range.start, item.range.end
    facts: dict[str, Any] = {"topic": item.stream.topic, "partition": item.stream.partition}
    if seen.log_start > start:
        gone = OffsetRange(start, min(seen.log_start, end))
        return LogStartMovedError(
            f"{_proposed(gone)}, log start moved to {seen.log_start}. Skip them with: {passing(item, gone)}",
            lost=gone,
            **facts,
        )
    if (cut := cut_below(seen, item.leader_epoch, end, ends)) is None:
        return None
    gone = OffsetRange(max(start, cut), end)
    if seen.high_watermark < end:
        return LogTruncatedError(
            f"{_proposed(gone)}, the log ends at {cut}: Kafka lost what was there. Bring them back, then: "
            f"{remedies.release(item.id)}. Or pass them with: {passing(item, gone)}",
            lost=gone,
            **facts,
        )
    return LogRewrittenError(
        f"{_proposed(gone)}, the log was cut at {cut} after leader epoch {item.leader_epoch} had reached {end}, and "
        f"has grown to {seen.high_watermark} again: these offsets have other records now. Skip them with: "
        f"{passing(item, gone)}",
        lost=gone,
        **facts,
    )


def held_by(range_id: str, error: KafkaLakeError) -> Verdict:
    """Return the hold of a range for an error; it is due to what Kafka lost of it, where the error says what."""
    lost = error.lost if isinstance(error, LostRecordsError) else None
    return hold(range_id, error.named, RangeSet((lost,)) if lost else NOTHING)


def passed(item: RangeRecord, part: OffsetRange) -> Verdict:
    """Return the hold of offsets of which no row was read, and which the log start passed before they were explained.

    What was read beside them is staged and complete: it goes on without them.
    """
    reason = LogStartMovedError(
        f"{_proposed(part)}, no row came of them, and the log start has passed them before their batches could be "
        f"read: nothing can say any more that they were markers. What was read beside them goes on. Skip them with: "
        f"{passing(item.piece(part), part)}"
    )
    return Verdict(
        range_id=item.id,
        state=RangeState.HELD,
        reason=reason.named,
        held_for=RangeSet((part,)),
        part=None if part == item.range else part,
    )


def lost_end(pipeline: str, seen: PartitionSnapshot, record: StreamRecord, ends: EpochEnds) -> LostRecordsError | None:
    """Return how a log lost what a stream's newest plan has seen of it; None when it did not. Raises as `loss`."""
    until = record.end_seen
    if (cut := cut_below(seen, record.leader_epoch, until, ends)) is None:
        return None
    facts: dict[str, Any] = {"topic": seen.stream.topic, "partition": seen.stream.partition}
    skip = remedies.skip(pipeline, Slice(seen.stream, OffsetRange(cut, until)), name_topic_id=True)
    if seen.high_watermark < until:
        return LogTruncatedError(
            f"the log ends at {cut}, it ended at {until} before, and the topic is the same: Kafka lost records. Bring "
            f"them back, or give {cut}-{until} up with: {skip}. What is written there again is then not read, and "
            f"planning goes on once the log has passed {until}; if it must be read, write to a re-created topic, which "
            "is read from its start",
            **facts,
        )
    return LogRewrittenError(
        f"the log was cut at {cut} after leader epoch {record.leader_epoch} had reached {until}, and has grown to "
        f"{seen.high_watermark} again: offsets {cut}-{until} have other records now. Give the old ones up with: {skip}",
        **facts,
    )


def gone_topic(item: RangeRecord, what: IdentityError) -> IdentityError:
    """Return the refusal: a range's topic is not there any more (`what`), so that nothing of the range can be read."""
    pass_it = passing(item, item.range, generation=True)
    return type(what)(f"{what.message}. Nothing of it can be read; pass {item.range} with: {pass_it}", **what.facts)


def fewer_rows(item: RangeRecord, before: int, after: int, lost: RangeSet) -> str:
    """Return the refusal: what was read again has fewer rows than the lake has now, and how a person agrees to that."""
    named = lost.named(NAMED)
    more = f" and {count(lost.range_count - NAMED, 'more range')}" if lost.range_count > NAMED else ""
    return (
        f"read again it has {count(after, 'row')}, the lake has {before:,}: {count(lost.span, 'offset')} would be "
        f"gone, {named}{more}. The lake stays as it is. Accept the smaller result with: "
        f"{remedies.reopen(item.pipeline, item.slice, accept_fewer=True)}; "
        f"or bring the records back, then: {remedies.release(item.id)}"
    )


def _proposed(gone: OffsetRange) -> str:
    return f"skip {gone}: {count(gone.span, 'offset')}"
