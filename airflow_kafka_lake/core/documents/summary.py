"""The summary of a status: a pipeline in a few numbers, and all pipelines side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import OPEN, UNFINISHED, WaveState
from airflow_kafka_lake.core.planning.forecast import is_limited_by_size
from airflow_kafka_lake.core.status.facts import EVERYTHING, Facts
from airflow_kafka_lake.core.status.streams import (
    OBSERVED,
    WORST_FIRST,
    NewPartition,
    StreamState,
    StreamStatus,
    new_partition_statuses,
)
from airflow_kafka_lake.core.wire import timestamp

Json = dict[str, Any]
NOTHING_PLANNED = "nothing planned"
"""The state of a pipeline without a stream."""

_RANK = {state: number for number, state in enumerate((*WORST_FIRST, NOTHING_PLANNED))}
"""Of states of pipelines, the worst first: that of their worst stream."""


def summary_document(facts: Facts, streams: Sequence[StreamStatus], needs_person: int) -> Json:
    """Return a pipeline in a few numbers; offsets and lag are those of the chosen streams."""
    states = Counter(item.state for item in streams)
    new = new_partition_statuses(facts)
    everything: list[StreamStatus | NewPartition] = [*streams, *new]
    committed = [wave for wave in facts.recorded.waves if wave.state is WaveState.COMMITTED]
    last = max(committed, key=_committed_at, default=None)
    skipped = sum(item.skipped.span for item in streams)
    return {
        "state": _state(states + Counter({StreamState.NOT_PLANNED: sum(bool(item.lag) for item in new if streams)})),
        "paused": any(item.plan is None for item in facts.recorded.pauses),
        "needs_person": needs_person,
        "streams": len(streams),
        "topics": len({item.key.topic for item in streams}),
        "streams_by_state": {state.value: states[state] for state in WORST_FIRST if states[state]},
        "new_partitions": len(new),
        "landed_rows": sum(wave.rows or 0 for wave in committed) if facts.chosen == EVERYTHING else None,
        "landed_offsets": sum(item.record.covered.span for item in streams) - skipped,
        "skipped_offsets": skipped,
        "planned_offsets": sum(item.planned.span for item in streams),
        "running_offsets": sum(item.running.span for item in streams),
        "held_offsets": sum(item.held.span for item in streams),
        "lost_offsets": sum(item.lost.span for item in streams),
        **_lag(everything),
        **_behind(facts, everything),
        **_deadline(facts, everything),
        "last_landed_at": timestamp(last.committed_at) if last else None,
        "last_landed_wave": last.id if last else None,
        "waves": _waves(facts.recorded.waves),
    }


def overview_document(at: datetime, pipelines: Iterable[Json]) -> Json:
    """Return all pipelines, each with its summary and what runs, the worst first."""
    rows = sorted(pipelines, key=lambda item: (_RANK[item["state"]], -(item["behind_seconds"] or 0), item["pipeline"]))
    return {"observed_at": timestamp(at), "pipelines": rows}


def _state(states: Counter[StreamState]) -> str:
    return next((state.value for state in WORST_FIRST if states[state]), NOTHING_PLANNED)


def _committed_at(wave: WaveRecord) -> float:
    return wave.committed_at.timestamp() if wave.committed_at else 0.0


def _lag(streams: Sequence[StreamStatus | NewPartition]) -> Json:
    known = [item.lag for item in streams if item.lag is not None]
    unknown = [item for item in streams if item.bounds_state.startswith("unknown")]
    if not unknown:
        state = OBSERVED
    elif known:
        state = f"observed on {len(known):,} of {count(len(streams), 'partition')}"
    else:
        state = unknown[0].bounds_state
    return {"lag": sum(known) if known or not unknown else None, "lag_state": state}


def _behind(facts: Facts, streams: Sequence[StreamStatus | NewPartition]) -> Json:
    aged = [(item.age.seconds, item) for item in streams if item.age]
    seconds, oldest = max(aged, key=lambda one: one[0], default=(None, None))
    if any(item.first_unread is not None for item in streams):
        state = facts.seen.ages_state
    else:
        state = _lag(streams)["lag_state"]
        seconds = 0 if state == OBSERVED else None
    where = oldest.key if oldest else None
    return {
        "behind_seconds": seconds,
        "behind_below_seconds": oldest.age.below if oldest and oldest.age else None,
        "behind_state": state,
        "behind_stream": [where.topic, where.partition] if where else None,
    }


def _deadline(facts: Facts, streams: Sequence[StreamStatus | NewPartition]) -> Json:
    first = min(((i.deadline, i.key) for i in streams if i.deadline), key=lambda one: one[0], default=None)
    return {
        "retention_deadline": timestamp(first[0]) if first else None,
        "retention_deadline_state": _deadline_state(facts, streams, known=first is not None),
        "retention_stream": [first[1].topic, first[1].partition] if first else None,
    }


def _deadline_state(facts: Facts, streams: Sequence[StreamStatus | NewPartition], *, known: bool) -> str:
    unread = {item.key.topic for item in streams if item.first_unread is not None}
    by_size = [item for item in facts.seen.topics if item.topic in unread and is_limited_by_size(item)]
    if not unread:
        state: str = _lag(streams)["lag_state"]
        return "nothing is unread" if state == OBSERVED else state
    if by_size:
        return (
            "size-based retention rules: some may go sooner"
            if known
            else "size-based retention rules: no time can be told"
        )
    limited = {item.topic for item in facts.seen.topics if item.retention_ms is not None}
    unasked = any(i.first_unread is not None and i.age is None and i.key.topic in limited for i in streams)
    if known or unasked or facts.seen.ages_state.startswith("unknown"):
        return facts.seen.ages_state
    return "retention is unlimited"


def _waves(waves: Sequence[WaveRecord]) -> Json:
    """Return how many waves there are by what becomes of them, and how far the plans are that are not finished."""
    states = Counter(wave.state for wave in waves)
    open_ = [wave for wave in waves if wave.state in OPEN]
    plans = {wave.plan for wave in waves if wave.state in UNFINISHED}
    current = [wave for wave in waves if wave.plan in plans and wave.state is not WaveState.DISSOLVED]
    return {
        "running": sum(wave.lease_live for wave in open_),
        "interrupted": sum(not wave.lease_live for wave in open_),
        "planned": states[WaveState.PLANNED],
        "cancelled": states[WaveState.CANCELLED],
        "committed": states[WaveState.COMMITTED],
        "of_current_plans": len(current),
        "of_current_plans_committed": sum(wave.state is WaveState.COMMITTED for wave in current),
    }
