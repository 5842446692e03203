"""The JSON documents of WIRE.md as pure functions of records. What is not known is null beside a `_state`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, waiting_for_stable
from airflow_kafka_lake.core.kafka.transactions import OpenTransaction
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.watermarks import hold, lag
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.order import Order, blocked_by
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.core.wire import timestamp

Json = dict[str, Any]


def plan_document(plan: Plan, *, recorded: bool) -> Json:
    """Return `plan --json`; `plan` is null when nothing was recorded."""
    forecast = plan.forecast
    return {
        "plan": plan.id if recorded else None,
        "pipeline": plan.spec.name,
        "observed_at": timestamp(plan.observed_at),
        "streams": [
            {
                "topic": stream.snapshot.stream.topic,
                "topic_id": stream.snapshot.stream.topic_id,
                "partition": stream.snapshot.stream.partition,
                "start": stream.start,
                "end": stream.end,
                "reason": stream.reason,
            }
            for stream in plan.streams
        ],
        "waves": [
            {
                "wave": wave.id if recorded else None,
                "table": wave.table,
                "ranges": [
                    {
                        "topic": item.stream.topic,
                        "partition": item.stream.partition,
                        "start": item.range.start,
                        "end": item.range.end,
                        "estimated_bytes": item.estimated_bytes,
                    }
                    for item in wave.ranges
                ],
            }
            for wave in plan.waves
        ],
        "period": None if plan.period is None else plan.period.to_json(),
        "estimated_records": forecast.records,
        "estimated_bytes": forecast.bytes,
        "estimated_bytes_state": forecast.bytes_state,
        "estimated_lake_bytes": forecast.lake_bytes,
        "estimated_lake_bytes_state": forecast.lake_bytes_state,
        "estimated_seconds": forecast.seconds,
        "retention_deadline": timestamp(forecast.retention_deadline),
        "retention_deadline_state": forecast.retention_deadline_state,
        "retention_stream": [held.topic, held.partition] if (held := forecast.retention_stream) else None,
        "blocked": [{"topic": b.topic, "partition": b.partition, "reason": b.reason} for b in plan.blocked],
        "settling": [
            {"topic": item.topic, "partition": item.partition, "until": timestamp(item.until), "reason": item.reason}
            for item in plan.growth.settling
        ],
        "waiting_for_stable": waiting_document(plan),
    }


def waiting_document(plan: Plan) -> list[Json]:
    """Return what the partitions of a plan wait for that end at an open transaction."""
    return [_waiting(item, plan.transactions, plan.observed_at) for item in plan.waiting_for_stable]


def _waiting(item: PartitionSnapshot, transactions: Iterable[OpenTransaction], now: datetime) -> Json:
    """Return what a partition waits for: the end that it goes on to, and the transaction that holds it, if known."""
    held_by = next(
        (t for t in transactions if (t.topic, t.partition) == (item.stream.topic, item.stream.partition)), None
    )
    return {
        "topic": item.stream.topic,
        "partition": item.stream.partition,
        "last_stable": item.last_stable,
        "high_watermark": item.high_watermark,
        "transaction": held_by.to_json(now) if held_by else None,
        "words": held_by.in_words(now) if held_by else None,
    }


def status_document(
    pipeline: str,
    observed_at: datetime,
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
            _stream(stream, stuck[stream.key], order, bounds.get(stream.key), states[stream.key], isolation)
            for stream in streams
        ],
        "waves": [wave_line(wave) for wave in waves],
        "waiting_for_stable": [
            _waiting(item, transactions, observed_at)
            for item in waiting_for_stable(bounds.values(), isolation)
            if item.stream in states
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
            }
            for item in attempts
        ],
    }


def range_document(item: RangeRecord) -> Json:
    """Return one range as `wave --json` lists it; accounting is null until it is settled."""
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
