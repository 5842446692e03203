"""`wave --json`: a wave, its ranges and its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.core.wire import timestamp

Json = dict[str, Any]


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
