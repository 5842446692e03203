"""`status --json`, `wave --json` and `advance --json`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.documents.plan import waiting
from airflow_kafka_lake.core.documents.progress import progress_document
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, waiting_for_stable
from airflow_kafka_lake.core.kafka.transactions import OpenTransaction
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord, hold, lag
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.order import Order, blocked_by
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.core.wire import timestamp

Json = dict[str, Any]


def status_document(
    pipeline: str,
    observed_at: datetime,
    *,
    streams: Sequence[StreamRecord],
    waves: Sequence[WaveRecord],
    unresolved: Sequence[RangeRecord],
    order: Order,
    observed: Snapshot | str,
    isolation: Isolation,
    transactions: Sequence[OpenTransaction] = (),
) -> Json:
    """Return `status --json`; `observed` is what Kafka said, or the reason why it said nothing; `transactions` are
    those that hold the last stable offset of a partition."""
    stuck: dict[Stream, list[RangeRecord]] = defaultdict(list)
    for item in unresolved:
        stuck[item.stream].append(item)
    bounds = {} if isinstance(observed, str) else {item.stream: item for item in observed.partitions}
    states = bounds_states(streams, observed)
    return {
        "pipeline": pipeline,
        "observed_at": timestamp(observed_at),
        "streams": [
            _stream(
                stream,
                stuck[stream.key],
                order,
                bounds=bounds.get(stream.key),
                bounds_state=states[stream.key],
                isolation=isolation,
            )
            for stream in streams
        ],
        "waves": [wave_line(wave) for wave in waves],
        "waiting_for_stable": [
            waiting(item, transactions, observed_at)
            for item in waiting_for_stable(bounds.values(), isolation)
            if item.stream in states
        ],
    }


def bounds_states(streams: Iterable[StreamRecord], observed: Snapshot | str) -> dict[Stream, str]:
    """Return of each stream whether its bounds were observed, and if not, why."""
    if isinstance(observed, str):
        return {stream.key: f"unknown: {observed}" for stream in streams}
    seen = {item.stream for item in observed.partitions}
    topics = {item.stream.topic: item.stream.topic_id for item in observed.partitions}
    unknown = {(item.topic, item.partition): item.reason for item in observed.unknown}
    states: dict[Stream, str] = {}
    for stream in streams:
        if stream.key in seen:
            states[stream.key] = "observed"
        elif (reason := unknown.get((stream.key.topic, stream.key.partition))) is not None:
            states[stream.key] = f"unknown: {reason}"
        elif topics.get(stream.key.topic, stream.key.topic_id) != stream.key.topic_id:
            states[stream.key] = "gone: the topic was re-created"
        else:
            states[stream.key] = "gone: the topic was deleted"
    return states


def _stream(
    stream: StreamRecord,
    unresolved: Sequence[RangeRecord],
    order: Order,
    *,
    bounds: PartitionSnapshot | None,
    bounds_state: str,
    isolation: Isolation,
) -> Json:
    held_at = hold(stream.watermark, (item.range for item in unresolved))
    planned = stream.planned.ranges
    return {
        "topic": stream.key.topic,
        "topic_id": stream.key.topic_id,
        "partition": stream.key.partition,
        "origin": stream.origin,
        "watermark": stream.watermark,
        "hold": held_at,
        "planned_until": max(stream.origin, planned[-1].end) if planned else stream.origin,
        "coverage": stream.covered.to_pairs(),
        "reopened": RangeSet(item.range for item in unresolved if item.generation).to_pairs(),
        "log_start": bounds.log_start if bounds else None,
        "last_stable": bounds.last_stable if bounds else None,
        "high_watermark": bounds.high_watermark if bounds else None,
        "bounds_state": bounds_state,
        "lag": lag(stream.watermark, bounds.readable_end(isolation)) if bounds else None,
        "group_offset": bounds.group_offset if bounds else None,
        "group_offset_state": bounds.group_offset_state.value if bounds else "unknown",
        "segments": order.documents(stream.key),
        "blocked_by": [
            *(reason for item in unresolved if (reason := blocked_by(item)) is not None),
            *order.waits(stream.key),
        ],
    }


def wave_line(wave: WaveRecord) -> Json:
    """Return a wave as `status` lists it."""
    return {
        "wave": wave.id,
        "state": wave.state.value,
        "fence": wave.fence,
        "rows": wave.rows,
        "ranges": wave.ranges,
        "table": wave.table,
    }


def wave_document(wave: WaveRecord, ranges: Sequence[RangeRecord], attempts: Sequence[AttemptRecord]) -> Json:
    """Return `wave --json`."""
    return {
        **wave_line(wave),
        "pipeline": wave.pipeline,
        "plan": wave.plan,
        "snapshot_id": None if wave.snapshot is None else str(wave.snapshot),
        "ranges": [range_document(item) for item in ranges],
        "attempts": [
            {
                "attempt": item.attempt,
                "fence": item.fence,
                "outcome": item.outcome.value,
                "job": item.job,
                "started_at": timestamp(item.started_at),
                "ended_at": timestamp(item.ended_at),
                "error": item.error,
                "progress": progress_document(item.progress),
            }
            for item in attempts
        ],
    }


def range_document(item: RangeRecord) -> Json:
    """Return one range as `wave --json` lists it; accounting is null until it is committed."""
    return {
        "range": item.id,
        "topic": item.stream.topic,
        "topic_id": item.stream.topic_id,
        "partition": item.stream.partition,
        "start": item.range.start,
        "end": item.range.end,
        "state": item.state.value,
        "reason": item.reason,
        "held_for": item.held_for.to_pairs(),
        "generation": item.generation,
        "fewer_accepted": item.fewer_accepted,
        "rows": item.rows,
        "first_offset": item.first_offset,
        "last_offset": item.last_offset,
        "accounting": item.accounting.to_json() if item.accounting else None,
    }


def advance_document(pipeline: str, moves: Sequence[Advance]) -> Json:
    """Return `advance --json`."""
    return {
        "pipeline": pipeline,
        "streams": [
            {
                "topic": m.stream.topic,
                "topic_id": m.stream.topic_id,
                "partition": m.stream.partition,
                "from": m.start,
                "to": m.end,
            }
            for m in moves
        ],
        "rows": sum(move.rows for move in moves),
        "sequence": max((move.sequence for move in moves), default=None),
    }
