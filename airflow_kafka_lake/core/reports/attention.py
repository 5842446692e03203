"""The problems that wait for a person or a worker, with the commands that help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import FEW, count, some, span
from airflow_kafka_lake.core.errors import UnfinishedError
from airflow_kafka_lake.core.ledger.changes import RequestRow
from airflow_kafka_lake.core.ledger.guards import LEASE, PauseRow
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord, ways_out
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, OPEN, AttemptOutcome, AttemptRecord, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream, grouped
from airflow_kafka_lake.core.ordering.segments import SegmentOrder
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.reports.progress import Moment, ProgressEvent
from airflow_kafka_lake.core.reports.streams import LedgerState, NewPartition, PipelineFacts, StreamState, StreamStatus
from airflow_kafka_lake.core.wire import timestamp

# The problems that stop some offsets on their way into the lake, in words, with the commands that help.

SOON = timedelta(days=1)
"""How long before retention may delete an unread record a person is told."""

TAKEN_WITHIN = timedelta(minutes=2)
"""How long a requested wave may wait for a worker before a person is told."""


class Need(StrEnum):
    """Why a person is needed."""

    HELD = "held"
    CANCELLED = "cancelled"
    LOST = "lost"
    UNANSWERED = "unanswered"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    TRANSACTION = "transaction"
    MISSING = "missing"
    ORDER = "order"
    RETENTION = "retention"
    PAUSED = "paused"
    UNTAKEN = "untaken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One thing that needs a person; `subject` is the wave, range, plan or pipeline that its commands name, if there is
    one."""

    need: Need
    text: str
    commands: tuple[Remedy, ...] = ()
    slices: tuple[Slice, ...] = ()
    subject: str | None = None

    @property
    def streams(self) -> list[Stream]:
        """The streams of its slices."""
        return sorted({item.stream for item in self.slices})


def attention(
    facts: PipelineFacts, streams: Sequence[StreamStatus], new: Sequence[NewPartition], order: SegmentOrder
) -> tuple[Attention, ...]:
    """Return the problems that need a person, the most urgent first: holds and losses, then waits for a command."""
    pipeline = facts.recorded.spec.name
    return (
        *_on_hold(item for stream in streams for item in stream.ranges if item.state in ON_HOLD),
        *_lost(pipeline, streams),
        *_without_worker(facts.recorded),
        *_failed(facts.recorded),
        *_hanging(facts, [*streams, *new]),
        *_missing(facts),
        *_out_of_order(streams, order),
        *_retention(pipeline, streams, facts.at),
        *_paused(facts.recorded.pauses),
        *_untaken(pipeline, facts.recorded.requests, facts.at),
    )


def _on_hold(ranges: Iterable[RangeRecord]) -> Iterator[Attention]:
    """Give the holds, those of one wave and one reason together."""
    groups = grouped(((i.wave, i.state.value, i.cause.kind if i.cause else i.reason), i) for i in ranges)
    for (wave, state, _), found in groups.items():
        slices = tuple(item.slice for item in found)
        need = Need(state.lower())
        if len(found) == 1:
            yield Attention(
                need=need,
                text=f"{found[0].slice} is {need}: {found[0].reason}",
                commands=ways_out(found[0]),
                slices=slices,
                subject=found[0].id,
            )
        else:
            ways = [way for item in found[:FEW] for way in ways_out(item)]
            others = [way for way in ways if way.command != "release"]
            # Of a wave one release ends all of its holds, and passes nothing.
            released = [remedies.release(wave)] * (not others or len(others) < len(ways))
            yield Attention(
                need=need,
                text=f"{_named(slices)} are {need} (wave {wave}): {found[0].reason}",
                commands=(*released, *others, remedies.wave(wave)),
                slices=slices,
                subject=wave,
            )


def _lost(pipeline: str, streams: Iterable[StreamStatus]) -> Iterator[Attention]:
    lost = [(Slice(i.key, part), i.is_gone) for i in streams for part in i.lost - i.held]
    slices = tuple(item for item, _ in lost)
    if slices:
        least = ", and what the topic got after the last plan" if any(gone for _, gone in lost) else ""
        yield Attention(
            need=Need.LOST,
            text=f"{_named(slices)}: Kafka deleted them before they were read{least}. Pass them, and go on behind them",
            commands=tuple(
                remedies.skip(pipeline, item, name_topic_id=gone, acknowledge_order=gone) for item, gone in lost[:FEW]
            ),
            slices=slices,
        )


def _without_worker(recorded: LedgerState) -> Iterator[Attention]:
    pipeline, wanted = recorded.spec.name, {item.wave for item in recorded.requests if item.is_wanted}
    for wave in recorded.waves:
        if wave.state not in OPEN or wave.lease_live:
            continue
        since = timestamp(wave.lease_until and wave.lease_until - LEASE) or "an unknown time"  # when it renewed that
        if wave.state is WaveState.PUBLISHING:
            yield Attention(
                need=Need.UNANSWERED,
                text=f"wave {wave.id} may be in the lake: its worker has given no sign since {since}",
                commands=(remedies.recover(pipeline),),
                subject=wave.id,
            )
        else:
            is_asked_for = wave.id in wanted
            yield Attention(
                need=Need.INTERRUPTED,
                text=f"wave {wave.id} was interrupted: its worker has given no sign since {since}. The next "
                f"{'worker that is free' if is_asked_for else 'run'} takes it up",
                commands=(remedies.worker() if is_asked_for else remedies.run(pipeline),),
                subject=wave.id,
            )


def _failed(recorded: LedgerState) -> Iterator[Attention]:
    """Give why no plan succeeds, and the planned waves whose last attempt failed."""
    if found := recorded.trouble:
        yield Attention(
            need=Need.FAILED,
            text=f"since {timestamp(found.at)} no plan succeeds, and nothing new is read: {found.detail}",
            commands=(remedies.run(recorded.spec.name),),
        )
    last = {item.wave: item for item in recorded.attempts}  # they come by fence
    failed = {AttemptOutcome.FAILED, AttemptOutcome.REJECTED}
    for wave in recorded.waves:
        tried = last.get(wave.id)
        if wave.state is WaveState.PLANNED and tried and tried.outcome in failed:
            yield Attention(
                need=Need.FAILED,
                text=f"the last attempt at wave {wave.id} failed at {timestamp(tried.ended_at)}; a retry of its task, "
                f"or the next run, tries again: {tried.error}",
                commands=(remedies.run(wave.pipeline), remedies.wave(wave.id)),
                subject=wave.id,
            )


def _hanging(facts: PipelineFacts, partitions: Iterable[StreamStatus | NewPartition]) -> Iterator[Attention]:
    waiting = {item.key.place for item in partitions if item.waits}
    for item in facts.seen.transactions:
        if item.hangs(facts.at) and (item.topic, item.partition) in waiting:
            yield Attention(need=Need.TRANSACTION, text=f"{item.topic}/{item.partition}: {item.describe(facts.at)}")


def _missing(facts: PipelineFacts) -> Iterator[Attention]:
    if names := sorted(set(facts.recorded.spec.topics).intersection(facts.seen.missing)):
        yield Attention(
            need=Need.MISSING,
            text=f"Kafka has no topic {some(names, FEW)}: records that it got after the last plan are lost. Create it, "
            "or take it out of the pipeline's topics. Every run fails until then",
        )


def _out_of_order(streams: Iterable[StreamStatus], order: SegmentOrder) -> Iterator[Attention]:
    """Give the waits for a decision about the order; a wait for a hold is told with the hold."""
    waits = ((remedy, (item.key, text)) for item in streams for text, remedy in order.waits(item.key))
    found = grouped((remedy, waiting) for remedy, waiting in waits if remedy)
    for command, waiting in found.items():
        (key, text), *rest = waiting
        more = f" ({count(len(rest), 'more stream waits', 'more streams wait')} for the same)" if rest else ""
        yield Attention(need=Need.ORDER, text=f"{key}: {text}{more}", commands=(command,))


def _retention(pipeline: str, streams: Iterable[StreamStatus], now: datetime) -> Iterator[Attention]:
    waiting = (i for i in streams if not i.running and i.state is not StreamState.LOST)
    urgent = [(i.deadline, i) for i in waiting if i.deadline and i.deadline < now + SOON]
    if urgent:
        at, first = min(urgent, key=lambda one: one[0])
        more = f", and {count(len(urgent) - 1, 'more partition')} within a day" if len(urgent) > 1 else ""
        yield Attention(
            need=Need.RETENTION,
            text=f"retention may delete unread records of {first.key} as early as about {timestamp(at)}{more}",
            commands=(remedies.run(pipeline),),
            slices=(Slice(first.key, OffsetRange(unread, unread + 1)),) if (unread := first.first_unread) else (),
        )


def _paused(pauses: Iterable[PauseRow]) -> Iterator[Attention]:
    for item in pauses:
        what = f"pipeline {item.pipeline}" if item.plan is None else f"plan {item.plan}"
        yield Attention(
            need=Need.PAUSED,
            text=f"{what} is paused {item.since}",
            commands=(remedies.resume(item.subject),),
            subject=item.subject,
        )


def _untaken(pipeline: str, requests: Iterable[RequestRecord], now: datetime) -> Iterator[Attention]:
    """Give the tasks' requests while no worker has any wave: one that is busy takes it later."""
    wanted = [item for item in requests if item.is_wanted]
    mine = [item for item in wanted if item.pipeline == pipeline and item.at < now - TAKEN_WITHIN]
    if mine and not any(item.lease_live for item in wanted):
        first = min(mine, key=lambda item: item.at)
        more = f", nor {len(mine) - 1:,} more" if len(mine) > 1 else ""
        yield Attention(
            need=Need.UNTAKEN,
            text=f"no worker has taken wave {first.wave}{more}, which {first.actor} asks for since "
            f"{timestamp(first.at)}: start one beside Airflow",
            commands=(remedies.worker(),),
            subject=first.wave,
        )


def _named(slices: Sequence[Slice]) -> str:
    """Return some slices by name, or the first of them and how many more there are."""
    offsets = sum(item.range.span for item in slices)
    return some(slices, FEW, "slice") + (f" ({count(offsets, 'offset')})" if len(slices) > FEW else "")


# The state of a requested wave: its worker and its progress, or since when no process has it.

TAKEN_SOON = timedelta(seconds=30)
"""A free worker takes a wave within some seconds: a wave that waits for less is not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStatus:
    """One sentence for the task's log; `untaken` is for how long no process has worked on the wave, None while one
    does."""

    message: str
    untaken: timedelta | None = None


def serving(request: RequestRow, wave: WaveRecord, attempts: Sequence[AttemptRecord], now: datetime) -> ServingStatus:
    """Return how a wave is that is not finished, from its attempts, oldest first."""
    if wave.lease_live:
        return ServingStatus(message=_at_work(wave, attempts, now))
    last = [attempts[-1].ended_at, wave.lease_until] if attempts else []
    untaken = now - max([request.at, *(moment for moment in last if moment is not None and moment <= now)])
    if untaken < TAKEN_SOON:
        return ServingStatus(message=f"wave {wave.id} of pipeline {wave.pipeline} waits for a worker", untaken=untaken)
    return ServingStatus(
        message=f"no worker has taken wave {wave.id} of pipeline {wave.pipeline} for {span(untaken.total_seconds())}: "
        f"all are busy, or none runs. Start one beside Airflow with: {remedies.worker()}",
        untaken=untaken,
    )


def _at_work(wave: WaveRecord, attempts: Sequence[AttemptRecord], now: datetime) -> str:
    process = wave.holder.shown if wave.holder else "another process"
    if silent := silence_of(wave):
        return f"wave {wave.id}, {process}: {silent}"
    progress = attempts[-1].progress if attempts else None
    if progress is None:
        return f"{process} works on wave {wave.id}"
    live = ProgressEvent(
        subject=f"wave {wave.id}",
        moment=Moment.GOING,
        progress=progress,
        at=0.0,
        seconds=(now - progress.since).total_seconds() if progress.since else 0.0,
        rows_per_second=progress.rows_per_second,
    )
    return f"{process} works on {live.sentence()}"


def silence_of(wave: WaveRecord) -> str:
    """Return since when the worker of a wave gives no sign of life; nothing where the next sign is not overdue."""
    if wave.overdue is None:
        return ""
    left = round((LEASE - wave.overdue).total_seconds())
    when = f"in {span(left)}, on its own host at once if it is dead" if left > 0 else "now"
    return f"no sign of life for {span(wave.overdue.total_seconds())}; another worker can take it over {when}"


def untaken_for_too_long(wave: WaveRecord, found: ServingStatus, longest: timedelta) -> UnfinishedError | None:
    """Return the error that ends a wait in which no worker has come; None while it goes on."""
    if found.untaken is None or found.untaken < longest:
        return None
    return UnfinishedError(
        f"No worker has taken wave {wave.id} of pipeline {wave.pipeline} for {span(longest.total_seconds())}, the "
        f"task's worker_timeout. Nothing was begun. Start one beside Airflow with: {remedies.worker()}; then clear the "
        "task",
        wave=wave.id,
    )
