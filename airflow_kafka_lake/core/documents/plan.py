"""`plan --json`, and what partitions wait for. What is not known is null beside a `_state`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.kafka.transactions import OBSERVED, OpenTransaction
from airflow_kafka_lake.core.planning.plan import Plan
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
        "in_grace": [
            {
                "topic": item.stream.topic,
                "partition": item.stream.partition,
                "until": timestamp(item.until),
                "reason": item.reason,
            }
            for item in plan.layout_change.in_grace
        ],
        "waiting_for_stable": waiting_document(plan),
        "notes": list(plan.notes),
    }


def waiting_document(plan: Plan) -> list[Json]:
    """Return what the partitions of a plan wait for that end at an open transaction."""
    return waiting(plan.waiting_for_stable, plan.transactions, plan.observed_at, plan.transactions_state)


def waiting(
    partitions: Iterable[PartitionSnapshot], transactions: Sequence[OpenTransaction], now: datetime, state: str
) -> list[Json]:
    """Return what partitions wait for: the end that each goes on to, and the first transaction that holds it; `state`
    says why none is known."""
    first = {(item.topic, item.partition): item for item in reversed(transactions)}
    return [_waiting(item, first.get((item.stream.topic, item.stream.partition)), now, state) for item in partitions]


def _waiting(item: PartitionSnapshot, held_by: OpenTransaction | None, now: datetime, state: str) -> Json:
    unnamed = None if state == OBSERVED else f"a transaction of which nothing is known, nor whether it hangs ({state})"
    return {
        "topic": item.stream.topic,
        "partition": item.stream.partition,
        "last_stable": item.last_stable,
        "high_watermark": item.high_watermark,
        "transaction": held_by.to_json(now) if held_by else None,
        "transaction_state": state,
        "message": held_by.describe(now) if held_by else unnamed,
    }
