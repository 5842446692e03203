"""`status --json`, `wave --json` and `advance --json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_kafka_lake.core.audit.timeline import fewer
from airflow_kafka_lake.core.documents.groups import groups_of, worst_first
from airflow_kafka_lake.core.documents.pauses import pause_document
from airflow_kafka_lake.core.documents.plan import waiting
from airflow_kafka_lake.core.documents.progress import progress_document
from airflow_kafka_lake.core.documents.summary import summary_document
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import FINISHED, OPEN, AttemptRecord, WaveState
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.order import Order, blocked_by
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.status.attention import Attention, attention
from airflow_kafka_lake.core.status.facts import Facts, Recorded
from airflow_kafka_lake.core.status.streams import (
    NewPartition,
    StreamState,
    StreamStatus,
    new_partition_statuses,
    stream_statuses,
)
from airflow_kafka_lake.core.wire import timestamp

Json = dict[str, Any]

MOST_PARTS, LEAST_PARTS, ALL_PARTS = 100, 10, 20_000
"""Parts that one stream's timeline has at most, fewer where there are many streams: of all streams about so many."""

FINISHED_WAVES = 40
"""How many of the finished waves are listed."""


def status_document(
    facts: Facts, *, show: Callable[[StreamStatus], bool] = lambda _: True, most: int | None = None
) -> Json:
    """Return `status --json`; `show` narrows the streams that are listed, and of them the worst `most` are, if given.
    The summary counts all, and the groups all that are shown."""
    own, seen = facts.recorded, facts.seen
    order = Order(own.spec.name, Graph(own.segments), own.streams, own.unresolved)
    streams = stream_statuses(facts)
    needs = attention(facts, streams, order)
    shown = [item for item in streams if show(item)]
    new = new_partition_statuses(facts) if len(shown) == len(streams) else []
    briefs = [_brief(item) for item in shown]
    listed = shown if most is None else _worst(shown, briefs, most)
    parts = max(LEAST_PARTS, min(MOST_PARTS, ALL_PARTS // max(1, len(listed))))
    return {
        "pipeline": own.spec.name,
        "observed_at": timestamp(facts.at),
        "tables": _tables(own, {item.key.topic for item in streams}),
        "summary": summary_document(facts, streams, len(needs)),
        "running": running_documents(facts),
        "needs_person": [_attention(item) for item in needs],
        "groups": groups_of([*briefs, *map(_brief_of_new, new)]),
        "streams": [_stream(item, order, parts) for item in listed],
        "not_listed": len(shown) - len(listed),
        "waves": [wave_line(wave) for wave in _worth_listing(own.waves)],
        "waiting_for_stable": waiting(
            [item.bounds for item in streams if item.waits and item.bounds][:most],
            seen.transactions,
            facts.at,
            seen.transactions_state,
        ),
    }


def _tables(own: Recorded, topics: set[str]) -> list[str]:
    """Return the tables that are there: of those that the file names for some topics the ones that were written to, and
    all that it does not name any more, which keep what is in them."""
    named = {own.spec.table_for(stream.key.topic) for stream in own.streams}
    return sorted(set(own.tables) - (named - {own.spec.table_for(topic) for topic in topics}))


def pipeline_line(facts: Facts) -> Json:
    """Return a pipeline as the list of all pipelines has it: its summary, and what runs."""
    own = facts.recorded
    streams = stream_statuses(facts)
    order = Order(own.spec.name, Graph(own.segments), own.streams, own.unresolved)
    needs = attention(facts, streams, order)
    return {
        "pipeline": own.spec.name,
        **summary_document(facts, streams, len(needs)),
        "running": running_documents(facts),
    }


def running_documents(facts: Facts) -> list[Json]:
    """Return the waves that an attempt works on, or has died on, with how far it is."""
    attempts = {(item.wave, item.fence): item for item in facts.recorded.attempts}
    found = [(wave, attempts.get((wave.id, wave.fence))) for wave in facts.recorded.waves if wave.state in OPEN]
    return [
        {
            **wave_line(wave),
            "attempt": attempt.attempt if attempt else None,
            "started_at": timestamp(attempt.started_at) if attempt else None,
            "job": attempt.job if attempt else None,
            "progress": progress_document(attempt.progress, goes_on=not wave.overdue) if attempt else None,
        }
        for wave, attempt in sorted(found, key=lambda one: not one[0].lease_live)
    ]


def _attention(item: Attention) -> Json:
    return {
        "need": item.need.value,
        "text": item.text,
        "subject": item.subject,
        "offsets": sum(one.range.span for one in item.slices),
        "streams": [list(key) for key in sorted({one.stream for one in item.slices})[:MOST_PARTS]],
        "commands": [
            {"command": remedy.command, "words": list(remedy.words), "line": str(remedy)} for remedy in item.commands
        ],
    }


def _worst(streams: Sequence[StreamStatus], briefs: Sequence[Json], most: int) -> list[StreamStatus]:
    worst = {(item["topic"], item["topic_id"], item["partition"]) for item in worst_first(briefs)[:most]}
    return [item for item in streams if item.key in worst]


def _brief_of_new(item: NewPartition) -> Json:
    return _in_brief(item, StreamState.NOT_PLANNED, 0 if item.lag == 0 else None)


def _brief(item: StreamStatus) -> Json:
    return _in_brief(item, item.state, None if item.age else _no_age(item))


def _in_brief(item: StreamStatus | NewPartition, state: StreamState, without_age: int | None) -> Json:
    return {
        "topic": item.key.topic,
        "topic_id": item.key.topic_id,
        "partition": item.key.partition,
        "state": state.value,
        "lag": item.lag,
        "behind_seconds": item.age.seconds if item.age else without_age,
    }


def _stream(item: StreamStatus, order: Order, most: int) -> Json:
    record, bounds = item.record, item.bounds
    parts = tuple(item.timeline())
    return {
        **_brief(item),
        "origin": record.origin,
        "watermark": record.watermark,
        "hold": item.hold,
        "planned_until": item.planned_until,
        "coverage": record.covered.to_pairs(),
        "reopened": RangeSet(one.range for one in item.ranges if one.generation).to_pairs(),
        "timeline": [part.to_json() for part in fewer(parts, most)],
        "timeline_parts": len(parts),
        "log_start": bounds.log_start if bounds else None,
        "last_stable": bounds.last_stable if bounds else None,
        "high_watermark": bounds.high_watermark if bounds else None,
        "bounds_state": item.bounds_state,
        "retention_deadline": timestamp(item.deadline),
        "group_offset": bounds.group_offset if bounds else None,
        "group_offset_state": bounds.group_offset_state.value if bounds else "unknown",
        "segments": order.documents(item.key),
        "blocked_by": [
            *(reason for one in item.ranges if (reason := blocked_by(one)) is not None),
            *order.waits(item.key),
        ],
    }


def _no_age(item: StreamStatus) -> int | None:
    return 0 if item.bounds is not None and item.first_unread is None else None


def _worth_listing(waves: Sequence[WaveRecord]) -> list[WaveRecord]:
    """Return the unfinished waves, and the newest of the others, in plan order."""
    finished = [wave.id for wave in waves if wave.state in FINISHED and wave.state is not WaveState.CANCELLED]
    left_out = set(finished[:-FINISHED_WAVES])
    return [wave for wave in waves if wave.id not in left_out]


def wave_line(wave: WaveRecord) -> Json:
    """Return a wave as `status` lists it."""
    return {
        "wave": wave.id,
        "state": wave.state.value,
        "fence": wave.fence,
        "rows": wave.rows,
        "ranges": wave.ranges,
        "table": wave.table,
        "plan": wave.plan,
        "committed_at": timestamp(wave.committed_at),
        **_signs_of_life(wave),
    }


def _signs_of_life(wave: WaveRecord) -> Json:
    """Return whether the worker of a wave still has it, and since when it is silent; nothing where none has it."""
    silent = round(wave.overdue.total_seconds()) if wave.overdue else None
    return {
        "alive": wave.lease_live if wave.state in OPEN else None,
        "silent_seconds": silent,
        "free_in_seconds": None if silent is None else max(0, round(LEASE.total_seconds()) - silent),
    }


def wave_document(
    wave: WaveRecord, ranges: Sequence[RangeRecord], attempts: Sequence[AttemptRecord], paused: PauseRow | None = None
) -> Json:
    """Return `wave --json`; `paused` keeps it from being begun."""
    return {
        **wave_line(wave),
        "pipeline": wave.pipeline,
        "paused": pause_document(paused),
        "snapshot_id": None if wave.snapshot is None else str(wave.snapshot),
        "ranges": [range_document(item) for item in ranges],
        "attempts": [
            {
                "attempt": item.attempt,
                "fence": item.fence,
                "outcome": item.outcome.value,
                "job": item.job,
                "application": item.application,
                "actor": item.actor,
                "started_at": timestamp(item.started_at),
                "ended_at": timestamp(item.ended_at),
                "seconds": None if item.ended_at is None else (item.ended_at - item.started_at).total_seconds(),
                "staged_bytes": item.staged_bytes,
                "error": item.error,
                "progress": progress_document(item.progress, goes_on=item.fence != wave.fence or wave.overdue is None),
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
