"""The reports of pipelines, waves and histories, the document of `advance`, and a wave that has landed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.audit.report import TimelineSlice, fewer, if_known
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.ledger.guards import LEASE, PauseRow
from airflow_kafka_lake.core.ledger.history import Event
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
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream, grouped
from airflow_kafka_lake.core.ordering.segments import Graph, SegmentOrder, blocked_by
from airflow_kafka_lake.core.planning.costs import is_limited_by_size
from airflow_kafka_lake.core.planning.selection import EVERYTHING
from airflow_kafka_lake.core.reports.attention import Attention, attention
from airflow_kafka_lake.core.reports.plan import WaitingPartition, waiting
from airflow_kafka_lake.core.reports.progress import Progress
from airflow_kafka_lake.core.reports.streams import (
    OBSERVED_STATES,
    WORST_FIRST,
    LedgerState,
    NewPartition,
    PipelineFacts,
    StreamState,
    StreamStatus,
    UnknownState,
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
        seconds: float | None,
        application: Application | None,
    ) -> LandedWave:
        """Choose the landed ranges of a wave, and the attempt whose commit is in the lake; it took as long as that,
        where no `seconds` are given."""
        ended = next((item for item in reversed(attempts) if item.outcome is AttemptOutcome.COMMITTED), None)
        its = ended.seconds if ended else None
        return cls(
            record=record,
            ranges=tuple(item for item in ranges if item.state is RangeState.COMMITTED),
            attempt=ended,
            seconds=(its or 0.0) if seconds is None else seconds,
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


# The summary of a status: a pipeline in a few numbers, and all pipelines side by side.

Json = dict[str, Any]

NOTHING_PLANNED = "nothing planned"
"""The state of a pipeline without a stream."""

RANK = {state: number for number, state in enumerate((*WORST_FIRST, NOTHING_PLANNED))}
"""Of states of streams, and of pipelines, whose state is that of their worst stream; the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSummary:
    """A pipeline in a few numbers; offsets, lag and age are those of the chosen streams; an unknown one is None beside
    a `_state`. The last numbers are of waves: `silent` are some of `running`, `of_current_plans` are of plans that
    are not finished."""

    state: str
    paused: bool
    needs_person: int
    streams: int
    topics: int
    streams_by_state: Mapping[StreamState, int]
    new_partitions: int
    new_by_state: Mapping[StreamState, int]
    landed_rows: int | None
    landed_offsets: int
    skipped_offsets: int
    planned_offsets: int
    running_offsets: int
    held_offsets: int
    lost_offsets: int
    reopened_offsets: int
    lag: int | None
    lag_state: str
    behind_seconds: int | None
    behind_below_seconds: int | None
    behind_state: str
    behind_stream: Stream | None
    retention_deadline: datetime | None
    retention_deadline_state: str
    retention_stream: Stream | None
    last_landed_at: datetime | None
    last_landed_wave: str | None
    running: int
    silent: int
    interrupted: int
    planned: int
    cancelled: int
    committed: int
    of_current_plans: int
    of_current_plans_committed: int

    def to_json(self) -> Json:
        """Return the wire form, in which the numbers of waves stand apart."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        waves = {name: found.pop(name) for name in list(found)[-8:]}
        return found | {
            "behind_stream": self.behind_stream and [*self.behind_stream.place],
            "retention_deadline": timestamp(self.retention_deadline),
            "retention_stream": self.retention_stream and [*self.retention_stream.place],
            "last_landed_at": timestamp(self.last_landed_at),
            "waves": waves,
        }


def summary_of(
    facts: PipelineFacts, streams: Sequence[StreamStatus], new: Sequence[NewPartition], needs_person: int
) -> PipelineSummary:
    """Return a pipeline in a few numbers."""
    states = Counter(item.state for item in streams)
    everything: list[StreamStatus | NewPartition] = [*streams, *new]
    waves = facts.recorded.waves
    of = Counter(wave.state for wave in waves)
    open_ = [wave for wave in waves if wave.state in OPEN]
    plans = {wave.plan for wave in waves if wave.state in UNFINISHED}
    current = [wave for wave in waves if wave.plan in plans and wave.state is not WaveState.DISSOLVED]
    committed = [wave for wave in waves if wave.state is WaveState.COMMITTED]
    landed = [wave for wave in committed if wave.ranges]  # a rebuild that finds nothing has none
    last = max(landed, key=lambda wave: wave.committed_at.timestamp() if wave.committed_at else 0.0, default=None)
    skipped = sum(item.skipped.span for item in streams)
    lag, lag_state = _lag(everything)
    aged = [(item.age.seconds, item) for item in everything if item.age]
    seconds, oldest = max(aged, key=lambda one: one[0], default=(None, None))
    ages_state = facts.seen.ages_state
    if len(aged) == sum(item.first_unread is not None for item in everything):
        ages_state = lag_state
        seconds = seconds if aged else 0 if lag_state == OBSERVED_STATES else None
    elif isinstance(ages_state, UnknownState):
        seconds, oldest = None, None
    first = min(((i.deadline, i.key) for i in everything if i.deadline), key=lambda one: one[0], default=(None, None))
    new_states = Counter(item.state for item in new)
    return PipelineSummary(
        state=_state(states + Counter(item.state for item in new if streams and (item.waits or item.lag != 0))),
        paused=any(item.plan is None for item in facts.recorded.pauses),
        needs_person=needs_person,
        streams=len(streams),
        topics=len({item.key.topic for item in streams}),
        streams_by_state={state: states[state] for state in WORST_FIRST if states[state]},
        new_partitions=len(new) - new_states[StreamState.UNKNOWN],
        new_by_state={state: new_states[state] for state in WORST_FIRST if new_states[state]},
        landed_rows=sum(wave.rows or 0 for wave in committed) if facts.chosen == EVERYTHING else None,
        landed_offsets=sum(item.record.covered.span for item in streams) - skipped,
        skipped_offsets=skipped,
        planned_offsets=sum(item.planned.span for item in streams),
        running_offsets=sum(item.running.span for item in streams),
        held_offsets=sum(item.held.span for item in streams),
        lost_offsets=sum(item.lost.span for item in streams),
        reopened_offsets=sum(one.range.span for item in streams for one in item.ranges if one.generation),
        lag=lag,
        lag_state=lag_state,
        behind_seconds=seconds,
        behind_below_seconds=oldest.age.below if oldest and oldest.age else None,
        behind_state=ages_state,
        behind_stream=oldest.key if oldest else None,
        retention_deadline=first[0],
        retention_deadline_state=_deadline_state(facts, everything, ages_state, known=first[0] is not None),
        retention_stream=first[1],
        last_landed_at=last.committed_at if last else None,
        last_landed_wave=last.id if last else None,
        running=sum(wave.lease_live for wave in open_),
        silent=sum(wave.lease_live and wave.overdue is not None for wave in open_),
        interrupted=sum(not wave.lease_live for wave in open_),
        planned=of[WaveState.PLANNED],
        cancelled=of[WaveState.CANCELLED],
        committed=of[WaveState.COMMITTED],
        of_current_plans=len(current),
        of_current_plans_committed=sum(wave.state is WaveState.COMMITTED for wave in current),
    )


def _state(states: Counter[StreamState]) -> str:
    return next((state.value for state in WORST_FIRST if states[state]), NOTHING_PLANNED)


def _lag(streams: Sequence[StreamStatus | NewPartition]) -> tuple[int | None, str]:
    known = [item.lag for item in streams if item.lag is not None]
    unknown = [item for item in streams if isinstance(item.bounds_state, UnknownState)]
    if not unknown:
        state = OBSERVED_STATES
    elif known:
        state = f"observed on {len(known):,} of {count(len(streams), 'partition')}"
    else:
        state = unknown[0].bounds_state
    return sum(known) if known or not unknown else None, state


def _deadline_state(
    facts: PipelineFacts, streams: Sequence[StreamStatus | NewPartition], ages_state: str, *, known: bool
) -> str:
    unread = {item.key.topic for item in streams if item.first_unread is not None}
    by_size = [item for item in facts.seen.topics if item.topic in unread and is_limited_by_size(item)]
    if not unread:
        return "nothing is unread" if ages_state == OBSERVED_STATES else ages_state
    if by_size:
        return f"size-based retention rules: {'some may go sooner' if known else 'no time can be told'}"
    limited = {item.topic for item in facts.seen.topics if item.retention_ms is not None}
    unasked = any(i.first_unread is not None and i.age is None and i.key.topic in limited for i in streams)
    if known or unasked or isinstance(ages_state, UnknownState):
        return ages_state
    return "retention is unlimited"


# Pauses in documents.


def pause_document(pause: PauseRow | None) -> Json | None:
    """Return a pause as every document has it; None while nothing is paused."""
    if pause is None:
        return None
    return {"plan": pause.plan, "since": timestamp(pause.at), "by": pause.actor, "reason": pause.reason}


# How far an attempt is, as `wave --json` has it.


def pace(wave: WaveRecord, attempt: AttemptRecord) -> float | None:
    """Return how many rows per second an attempt works at; None where that is not known, or nothing is known to go
    on."""
    goes_on = attempt.fence != wave.fence or not wave.overdue
    return attempt.progress.rows_per_second if attempt.progress and goes_on else None


def progress_document(progress: Progress | None, rate: float | None) -> Json | None:
    """Return the wire form; rates and times left are whole numbers, null where they are not known."""
    if progress is None:
        return None
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


def worst_first(streams: Iterable[StreamStatus]) -> list[StreamStatus]:
    """Sort streams: the worst state first, in it the ones behind by most."""
    return sorted(streams, key=lambda item: (RANK[item.state], -(item.behind_seconds or 0), -(item.lag or 0), item.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGroup(Document):
    """Partitions of one topic that are in one state; `lag` is the sum and `behind_seconds` the largest age, None where
    that of one is not known."""

    topic: str
    topic_id: str
    state: StreamState
    partitions: int
    numbers: RangeSet
    lag: int | None
    behind_seconds: int | None

    def to_json(self) -> Json:
        """Return the wire form, with the partitions as `[[first, last + 1], …]`."""
        return Document.to_json(self) | {"numbers": self.numbers.to_pairs()}


def groups_of(streams: Iterable[StreamStatus | NewPartition]) -> list[StreamGroup]:
    """Put streams of one topic and one state together, the worst state first."""
    found = grouped(((RANK[item.state], item.key.topic, item.key.topic_id), item) for item in streams)
    return [
        StreamGroup(
            topic=topic,
            topic_id=topic_id,
            state=WORST_FIRST[rank],
            partitions=len(items),
            numbers=RangeSet(OffsetRange(i.key.partition, i.key.partition + 1) for i in items),
            lag=if_known(sum, (item.lag for item in items)),
            behind_seconds=if_known(max, (item.behind_seconds for item in items)),
        )
        for (rank, topic, topic_id), items in sorted(found.items(), key=lambda one: one[0])
    ]


# The reports of `status`, `wave` and `advance`: terminal and page read them, `to_json` makes documents.

MOST_PARTS, LEAST_PARTS, ALL_PARTS = 100, 10, 20_000
"""Parts that one stream's timeline has at most, fewer where there are many streams: of all streams about so many."""

FINISHED_WAVES = 40
"""How many of the finished waves are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """The progress of a pipeline, and its blockers, at one moment. The summary counts all chosen streams, `groups` the
    shown ones and `new`; of these `streams` are listed one by one, and `not_listed` are more."""

    facts: PipelineFacts
    order: SegmentOrder
    tables: tuple[str, ...]
    summary: PipelineSummary
    needs: tuple[Attention, ...]
    groups: tuple[StreamGroup, ...]
    streams: tuple[StreamStatus, ...]
    new: tuple[NewPartition, ...]
    not_listed: int
    waiting: tuple[WaitingPartition, ...]

    @classmethod
    def of(
        cls, facts: PipelineFacts, *, show: Callable[[StreamStatus], bool] = lambda _: True, most: int | None = None
    ) -> PipelineReport:
        """Return the report of some facts; `show` narrows the streams that are listed, and of them the worst `most`
        are, if given."""
        own, seen = facts.recorded, facts.seen
        order = SegmentOrder(own.spec.name, Graph(own.segments), own.streams, own.unresolved)
        streams, new = stream_statuses(facts), new_partition_statuses(facts)
        needs = attention(facts, streams, new, order)
        shown = [item for item in streams if show(item)]
        others = tuple(new) if len(shown) == len(streams) else ()
        worst = {item.key for item in worst_first(shown)[:most]} if most is not None else None
        listed = [item for item in shown if worst is None or item.key in worst]
        held_up = [item.bounds for item in (*streams, *new) if item.waits and item.bounds][:most]
        return cls(
            facts=facts,
            order=order,
            tables=tuple(_tables(own, {item.key.topic for item in streams})),
            summary=summary_of(facts, streams, new, len(needs)),
            needs=needs,
            groups=tuple(groups_of([*shown, *others])),
            streams=tuple(listed),
            new=others,
            not_listed=len(shown) - len(listed),
            waiting=waiting(held_up, seen.transactions, facts.at, seen.transactions_state),
        )

    @property
    def pipeline(self) -> str:
        """Its name."""
        return self.facts.recorded.spec.name

    @property
    def at(self) -> datetime:
        """When it was observed."""
        return self.facts.at

    @property
    def waves(self) -> list[WaveRecord]:
        """The unfinished waves, and the newest of the others, in plan order."""
        waves = self.facts.recorded.waves
        finished = [wave.id for wave in waves if wave.state in FINISHED and wave.state is not WaveState.CANCELLED]
        left_out = set(finished[:-FINISHED_WAVES])
        return [wave for wave in waves if wave.id not in left_out]

    @property
    def running(self) -> list[tuple[WaveRecord, AttemptRecord | None]]:
        """The waves that an attempt works on, or has died on, with that attempt."""
        attempts = {(item.wave, item.fence): item for item in self.facts.recorded.attempts}
        found = [
            (wave, attempts.get((wave.id, wave.fence))) for wave in self.facts.recorded.waves if wave.state in OPEN
        ]
        return sorted(found, key=lambda one: not one[0].lease_live)

    def timeline(self, stream: StreamStatus) -> tuple[TimelineSlice, ...]:
        """Return the fates of the offsets of a stream, in fewer parts where many streams are listed."""
        return fewer(tuple(stream.timeline()), self._parts)

    @property
    def _parts(self) -> int:
        return max(LEAST_PARTS, min(MOST_PARTS, ALL_PARTS // max(1, len(self.streams))))

    def to_json(self) -> Json:
        """Return `status --json`."""
        return {
            "pipeline": self.pipeline,
            "observed_at": timestamp(self.at),
            "tables": list(self.tables),
            "summary": self.summary.to_json(),
            "running": self._running_json(),
            "needs_person": [_attention(item) for item in self.needs],
            "groups": [item.to_json() for item in self.groups],
            "streams": [self._stream(item) for item in self.streams],
            "not_listed": self.not_listed,
            "waves": [wave_line(wave) for wave in self.waves],
            "decoding": [_event(item) for item in self.facts.recorded.decoding],
            "waiting_for_stable": [item.to_json() for item in self.waiting],
        }

    def line_to_json(self) -> Json:
        """Return the pipeline as the list of all pipelines has it: its summary, and its work."""
        return {"pipeline": self.pipeline, **self.summary.to_json(), "running": self._running_json()}

    def _running_json(self) -> list[Json]:
        return [
            {
                **wave_line(wave),
                "attempt": attempt.attempt if attempt else None,
                "started_at": timestamp(attempt.started_at) if attempt else None,
                "job": attempt.job if attempt else None,
                "progress": progress_document(attempt.progress, pace(wave, attempt)) if attempt else None,
            }
            for wave, attempt in self.running
        ]

    def _stream(self, item: StreamStatus) -> Json:
        record, bounds, parts = item.record, item.bounds, tuple(item.timeline())
        return {
            **item.key._asdict(),
            "state": item.state.value,
            "lag": item.lag,
            "behind_seconds": item.behind_seconds,
            "origin": record.origin,
            "watermark": record.watermark,
            "hold": item.hold,
            "planned_until": item.planned_until,
            "coverage": record.covered.to_pairs(),
            "reopened": RangeSet(one.range for one in item.ranges if one.generation).to_pairs(),
            "timeline": [part.to_json() for part in fewer(parts, self._parts)],
            "timeline_parts": len(parts),
            "log_start": bounds.log_start if bounds else None,
            "last_stable": bounds.last_stable if bounds else None,
            "high_watermark": bounds.high_watermark if bounds else None,
            "bounds_state": item.bounds_state,
            "retention_deadline": timestamp(item.deadline),
            "group_offset": bounds.group_offset if bounds else None,
            "group_offset_state": bounds.group_offset_state.value if bounds else "unknown",
            "segments": self.order.documents(item.key),
            "blocked_by": [
                *(reason for one in item.ranges if (reason := blocked_by(one)) is not None),
                *(text for text, _ in self.order.waits(item.key)),
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All pipelines at one moment, the worst first."""

    at: datetime
    pipelines: tuple[PipelineReport, ...]

    @classmethod
    def of(cls, at: datetime, pipelines: Iterable[PipelineReport]) -> Overview:
        """Return some pipelines in their order."""
        ranked = sorted(
            pipelines, key=lambda one: (RANK[one.summary.state], -(one.summary.behind_seconds or 0), one.pipeline)
        )
        return cls(at=at, pipelines=tuple(ranked))

    def to_json(self) -> Json:
        """Return `status --json` without a pipeline: the summary of each, and its work."""
        return {"observed_at": timestamp(self.at), "pipelines": [item.line_to_json() for item in self.pipelines]}


def _tables(own: LedgerState, topics: set[str]) -> list[str]:
    """Return the tables that are there: of the tables that the file names for some topics the written ones, and
    all that it does not name any more, which keep their rows."""
    named = {own.spec.table_for(stream.key.topic) for stream in own.streams}
    return sorted(set(own.tables) - (named - {own.spec.table_for(topic) for topic in topics}))


def _attention(item: Attention) -> Json:
    return {
        "need": item.need.value,
        "text": item.text,
        "subject": item.subject,
        "offsets": sum(one.range.span for one in item.slices),
        "streams": [list(key) for key in item.streams[:MOST_PARTS]],
        "commands": [remedy.to_json() | {"line": str(remedy)} for remedy in item.commands],
    }


def wave_line(wave: WaveRecord) -> Json:
    """Return a wave as `status --json` lists it: also whether its worker still has it, and since when it is silent."""
    silent = round(wave.overdue.total_seconds()) if wave.overdue else None
    return {
        "wave": wave.id,
        "state": wave.state.value,
        "fence": wave.fence,
        "rows": wave.rows,
        "ranges": wave.ranges,
        "table": wave.table,
        "plan": wave.plan,
        "committed_at": timestamp(wave.committed_at),
        "alive": wave.lease_live if wave.state in OPEN else None,
        "silent_seconds": silent,
        "free_in_seconds": None if silent is None else max(0, round(LEASE.total_seconds()) - silent),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReport:
    """A wave with its ranges and attempts, oldest first; `paused` keeps it from being begun, `decoding` says which of
    its values do not decode, or which column none of them fills."""

    record: WaveRecord
    ranges: tuple[RangeRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    paused: PauseRow | None = None
    decoding: str | None = None

    def to_json(self) -> Json:
        """Return `wave --json`."""
        wave = self.record
        return {
            **wave_line(wave),
            "pipeline": wave.pipeline,
            "paused": pause_document(self.paused),
            "snapshot_id": None if wave.snapshot is None else str(wave.snapshot),
            "decoding": self.decoding,
            "ranges": [range_document(item) for item in self.ranges],
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
                    "seconds": item.seconds,
                    "staged_bytes": item.staged_bytes,
                    "error": item.error,
                    "progress": progress_document(item.progress, pace(wave, item)),
                }
                for item in self.attempts
            ],
        }


def range_document(item: RangeRecord) -> Json:
    """Return one range as `wave --json` lists it; accounting is null until it is committed."""
    return {
        "range": item.id,
        **item.stream._asdict(),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """A part of a pipeline's history, newest first."""

    pipeline: str
    events: tuple[Event, ...]

    def to_json(self) -> Json:
        """Return the wire form."""
        return {"pipeline": self.pipeline, "events": [_event(item) for item in self.events]}


def _event(item: Event) -> Json:
    names = ("sequence", "actor", "kind", "subject", "detail")
    return {"at": timestamp(item.at)} | {name: getattr(item, name) for name in names}


def advance_document(pipeline: str, moves: Sequence[Advance]) -> Json:
    """Return `advance --json`."""
    return {
        "pipeline": pipeline,
        "streams": [move.to_json() for move in moves],
        "rows": sum(move.rows for move in moves),
        "sequence": max((move.sequence for move in moves), default=None),
    }
