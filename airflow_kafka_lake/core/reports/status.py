"""The documents of `status --json`, `wave --json` and `advance --json`, and of a wave that has landed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.audit.report import fewer
from airflow_kafka_lake.core.ledger.guards import LEASE, PauseRow
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.waves import (
    FINISHED,
    OPEN,
    UNFINISHED,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.segments import Graph, SegmentOrder, blocked_by
from airflow_kafka_lake.core.planning.costs import is_limited_by_size
from airflow_kafka_lake.core.reports.attention import Attention, attention
from airflow_kafka_lake.core.reports.plan import waiting
from airflow_kafka_lake.core.reports.progress import Progress
from airflow_kafka_lake.core.reports.streams import (
    EVERYTHING,
    OBSERVED_STATES,
    WORST_FIRST,
    LedgerState,
    NewPartition,
    PipelineFacts,
    StreamState,
    StreamStatus,
    new_partition_statuses,
    stream_statuses,
)
from airflow_kafka_lake.core.spark.halving import why_halved
from airflow_kafka_lake.core.spark.job import Application
from airflow_kafka_lake.core.wire import timestamp

# One committed wave with everything by which it is found again: in the ledger, in the lake, in Spark, in a log.


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedWave:
    """A COMMITTED wave as the ledger has it, and the Spark application that worked for it in this process, if any.

    `seconds` are those of the work in this process; the wave may have been begun by another. `halved` says why a part
    of it went to a wave of its own before.
    """

    record: WaveRecord
    ranges: tuple[RangeRecord, ...]
    attempt: AttemptRecord | None
    seconds: float
    application: Application | None = None
    halved: str | None = None

    @classmethod
    def of(
        cls,
        record: WaveRecord,
        ranges: Sequence[RangeRecord],
        attempts: Sequence[AttemptRecord],
        *,
        seconds: float,
        application: Application | None,
    ) -> LandedWave:
        """Choose what landed of a wave's ranges, and the attempt whose commit is in the lake."""
        ended = [item for item in attempts if item.outcome is AttemptOutcome.COMMITTED]
        return cls(
            record=record,
            ranges=tuple(item for item in ranges if item.state is RangeState.COMMITTED),
            attempt=ended[-1] if ended else None,
            seconds=seconds,
            application=application,
            halved=why_halved(attempts),
        )

    @property
    def rows(self) -> int:
        """How many rows are visible since then."""
        return sum(item.rows or 0 for item in self.ranges)

    @property
    def bytes(self) -> int | None:
        """How large their files are; None where no attempt of ours has measured them."""
        return self.attempt.staged_bytes if self.attempt else None

    def describe(self) -> str:
        """Return the line for a log."""
        found = {
            "attempt": self.attempt.attempt if self.attempt else None,
            "snapshot": self.record.snapshot,
            "Spark application": self.application.id if self.application else None,
        }
        named = "".join(f", {what} {which}" for what, which in found.items() if which is not None)
        weight = f", {size(self.bytes)}" if self.bytes is not None else ""
        rest = f". It was {self.halved}; the other part is a wave of its own, for the next run" if self.halved else ""
        return (
            f"wave {self.record.id} is in {self.record.table}{named}: {count(self.rows, 'row')} of "
            f"{count(len(self.ranges), 'range')}{weight}, {self.seconds:.1f} s{rest}"
        )


def seconds_of(attempts: Sequence[AttemptRecord]) -> float:
    """Return how long the attempt took whose commit is in the lake; 0 where that is not known."""
    took = [item for item in attempts if item.outcome is AttemptOutcome.COMMITTED and item.ended_at is not None]
    return (took[-1].ended_at - took[-1].started_at).total_seconds() if took and took[-1].ended_at else 0.0


# The summary of a status: a pipeline in a few numbers, and all pipelines side by side.

NOTHING_PLANNED = "nothing planned"
"""The state of a pipeline without a stream."""

_PIPELINE_RANK = {state: number for number, state in enumerate((*WORST_FIRST, NOTHING_PLANNED))}
"""Of states of pipelines, the worst first: that of their worst stream."""


def summary_document(facts: PipelineFacts, streams: Sequence[StreamStatus], needs_person: int) -> Json:
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
    rows = sorted(
        pipelines, key=lambda item: (_PIPELINE_RANK[item["state"]], -(item["behind_seconds"] or 0), item["pipeline"])
    )
    return {"observed_at": timestamp(at), "pipelines": rows}


def _state(states: Counter[StreamState]) -> str:
    return next((state.value for state in WORST_FIRST if states[state]), NOTHING_PLANNED)


def _committed_at(wave: WaveRecord) -> float:
    return wave.committed_at.timestamp() if wave.committed_at else 0.0


def _lag(streams: Sequence[StreamStatus | NewPartition]) -> Json:
    known = [item.lag for item in streams if item.lag is not None]
    unknown = [item for item in streams if item.bounds_state.startswith("unknown")]
    if not unknown:
        state = OBSERVED_STATES
    elif known:
        state = f"observed on {len(known):,} of {count(len(streams), 'partition')}"
    else:
        state = unknown[0].bounds_state
    return {"lag": sum(known) if known or not unknown else None, "lag_state": state}


def _behind(facts: PipelineFacts, streams: Sequence[StreamStatus | NewPartition]) -> Json:
    aged = [(item.age.seconds, item) for item in streams if item.age]
    seconds, oldest = max(aged, key=lambda one: one[0], default=(None, None))
    if any(item.first_unread is not None for item in streams):
        state = facts.seen.ages_state
    else:
        state = _lag(streams)["lag_state"]
        seconds = 0 if state == OBSERVED_STATES else None
    where = oldest.key if oldest else None
    return {
        "behind_seconds": seconds,
        "behind_below_seconds": oldest.age.below if oldest and oldest.age else None,
        "behind_state": state,
        "behind_stream": [where.topic, where.partition] if where else None,
    }


def _deadline(facts: PipelineFacts, streams: Sequence[StreamStatus | NewPartition]) -> Json:
    first = min(((i.deadline, i.key) for i in streams if i.deadline), key=lambda one: one[0], default=None)
    return {
        "retention_deadline": timestamp(first[0]) if first else None,
        "retention_deadline_state": _deadline_state(facts, streams, known=first is not None),
        "retention_stream": [first[1].topic, first[1].partition] if first else None,
    }


def _deadline_state(facts: PipelineFacts, streams: Sequence[StreamStatus | NewPartition], *, known: bool) -> str:
    unread = {item.key.topic for item in streams if item.first_unread is not None}
    by_size = [item for item in facts.seen.topics if item.topic in unread and is_limited_by_size(item)]
    if not unread:
        state: str = _lag(streams)["lag_state"]
        return "nothing is unread" if state == OBSERVED_STATES else state
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


# What documents say of pauses.


def pause_document(pause: PauseRow | None) -> dict[str, Any] | None:
    """Return a pause as every document has it; None while nothing is paused."""
    if pause is None:
        return None
    return {"plan": pause.plan, "since": timestamp(pause.at), "by": pause.actor, "reason": pause.reason}


# How far an attempt is, as `wave --json` has it.


def progress_document(progress: Progress | None, *, goes_on: bool = True) -> dict[str, Any] | None:
    """Return the wire form; rates and times left are whole numbers, null where they are not known, or nothing is known
    to go on."""
    if progress is None:
        return None
    rate = progress.rows_per_second if goes_on else None
    return {
        "step": progress.step.value,
        "rows_done": progress.rows,
        "rows_expected": progress.rows_expected,
        "bytes_done": progress.bytes,
        "bytes_expected": progress.bytes_expected,
        "rows_per_second": _whole(rate),
        "bytes_per_second": _whole(progress.bytes_per_second(rate)),
        "seconds_left": _whole(progress.seconds_left(rate)),
        "step_at": timestamp(progress.since),
        "progress_at": timestamp(progress.at),
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


# Streams of a status, worst first and put together, so that thousands of partitions fit on a screen.

_STATE_RANK = {state.value: number for number, state in enumerate(WORST_FIRST)}


def worst_first(streams: Iterable[Json]) -> list[Json]:
    """Sort streams of a status document: the worst state first, in it those that are behind by most."""
    return sorted(
        streams,
        key=lambda item: (
            _STATE_RANK[item["state"]],
            -(item["behind_seconds"] or 0),
            -(item["lag"] or 0),
            item["topic"],
            item["topic_id"],
            item["partition"],
        ),
    )


def groups_of(streams: Iterable[Json]) -> list[dict[str, Any]]:
    """Put streams of one topic and one state together, the worst state first.

    `numbers` are the partitions as `[[first, last + 1], …]`.
    """
    found: dict[tuple[int, str, str], list[Json]] = defaultdict(list)
    for item in streams:
        found[_STATE_RANK[item["state"]], item["topic"], item["topic_id"]].append(item)
    return [
        {
            "topic": topic,
            "topic_id": topic_id,
            "state": items[0]["state"],
            "partitions": len(items),
            "numbers": RangeSet(OffsetRange(i["partition"], i["partition"] + 1) for i in items).to_pairs(),
            "lag": _sum([item["lag"] for item in items]),
            "behind_seconds": _largest([item["behind_seconds"] for item in items]),
        }
        for (_, topic, topic_id), items in sorted(found.items(), key=lambda one: one[0])
    ]


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _largest(numbers: Sequence[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


# `status --json`, `wave --json` and `advance --json`.

Json = dict[str, Any]

MOST_PARTS, LEAST_PARTS, ALL_PARTS = 100, 10, 20_000
"""Parts that one stream's timeline has at most, fewer where there are many streams: of all streams about so many."""

FINISHED_WAVES = 40
"""How many of the finished waves are listed."""


def status_document(
    facts: PipelineFacts, *, show: Callable[[StreamStatus], bool] = lambda _: True, most: int | None = None
) -> Json:
    """Return `status --json`; `show` narrows the streams that are listed, and of them the worst `most` are, if given.
    The summary counts all, and the groups all that are shown."""
    own, seen = facts.recorded, facts.seen
    order = SegmentOrder(own.spec.name, Graph(own.segments), own.streams, own.unresolved)
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


def _tables(own: LedgerState, topics: set[str]) -> list[str]:
    """Return the tables that are there: of those that the file names for some topics the ones that were written to, and
    all that it does not name any more, which keep what is in them."""
    named = {own.spec.table_for(stream.key.topic) for stream in own.streams}
    return sorted(set(own.tables) - (named - {own.spec.table_for(topic) for topic in topics}))


def pipeline_line(facts: PipelineFacts) -> Json:
    """Return a pipeline as the list of all pipelines has it: its summary, and what runs."""
    own = facts.recorded
    streams = stream_statuses(facts)
    order = SegmentOrder(own.spec.name, Graph(own.segments), own.streams, own.unresolved)
    needs = attention(facts, streams, order)
    return {
        "pipeline": own.spec.name,
        **summary_document(facts, streams, len(needs)),
        "running": running_documents(facts),
    }


def running_documents(facts: PipelineFacts) -> list[Json]:
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
        "commands": [remedy.to_json() | {"line": str(remedy)} for remedy in item.commands],
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


def _stream(item: StreamStatus, order: SegmentOrder, most: int) -> Json:
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
            *(text for text, _ in order.waits(item.key)),
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
