"""What Kafka no longer has of a planned range, in words that name the offsets and the commands that lead out."""

from __future__ import annotations

from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.records import RangeRecord
from airflow_kafka_lake.core.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.waves import LEADS_OUT

COMMAND = "kafka-lake "
"""How a command begins: a reason that has one names its own way out."""


def loss(item: RangeRecord, seen: PartitionSnapshot) -> str | None:
    """Say which offsets of a range are gone, at its begin or at its end; None when all of it is still there."""
    start, end = item.range.start, item.range.end
    if seen.log_start > start:
        gone = OffsetRange(start, min(seen.log_start, end))
        return f"{_proposed(gone)}, log start moved to {seen.log_start}. Pass them with: {_way_out(item, gone)}"
    if seen.high_watermark < end:
        gone = OffsetRange(max(start, seen.high_watermark), end)
        return (
            f"{_proposed(gone)}, the log ends at {seen.high_watermark}: Kafka lost what was there. Bring them back, or "
            f"let the log grow past {end}, then: kafka-lake release {item.id}. "
            f"Or pass them with: {_way_out(item, gone)}"
        )
    return None


def gone_topic(item: RangeRecord, what: str) -> str:
    """Say that a range's topic is not there any more (`what`), so that nothing of the range can be read."""
    return f"{what}. Nothing of it can be read; pass {item.range} with: {_way_out(item, item.range, generation=True)}"


def way_out(item: RangeRecord) -> str:
    """Return why a range is stuck and what leads out: what its reason names, else the command for its state."""
    if item.reason and COMMAND in item.reason:
        return item.reason
    return f"{item.reason}. Lead it out with: {LEADS_OUT[item.state].format(id=item.id, pipeline=item.pipeline)}"


def _proposed(gone: OffsetRange) -> str:
    return f"skip {gone}: {gone.span} offsets"


def _way_out(item: RangeRecord, gone: OffsetRange, *, generation: bool = False) -> str:
    chosen = f" --topic-id={item.topic_id}" if generation else ""
    words = (
        f"kafka-lake skip {item.pipeline} --topic {item.topic}{chosen} --partition {item.partition} "
        f"--from {gone.start} --to {gone.end} --reason TEXT"
    )
    rest = [part for part in item.range.split_at((gone.start, gone.end)) if part != gone]
    return words + "".join(
        f"; then let the rest, {part}, go on with: kafka-lake release {item.piece_id(part.start)}" for part in rest
    )
