"""A person's decisions: cancel, release, skip, withdraw, pause, resume, accept deletes, seal, migrate, retry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import (
    KafkaLakeError,
    RangeBeyondEndError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
    UnknownTopicError,
    UsageError,
    expected,
)
from airflow_kafka_lake.core.kafka.losses import cut_below, epochs_in_doubt, leader_epochs
from airflow_kafka_lake.core.ledger.decisions import (
    NEVER_CLAIMED,
    KeptRange,
    Pause,
    PauseAnswer,
    Release,
    Resume,
    Skip,
    Withdrawal,
    cut_for_skip,
    needed_reason,
    skipped_range,
    withdrawal,
)
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.records import (
    Claim,
    RangeDecision,
    RangeRecord,
    SkipResult,
    StreamRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.waves import FINISHED, OPEN, UNFINISHED, UNRESOLVED, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, grouped, merged
from airflow_kafka_lake.core.ordering.layouts import (
    KnownLayouts,
    LayoutChange,
    ObservedTopic,
    apply_layout_change,
    declared,
    migrated,
)
from airflow_kafka_lake.core.ordering.segments import Graph, Levels, Segment
from airflow_kafka_lake.core.planning.decision import Declare
from airflow_kafka_lake.core.planning.plan import Plan
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.core.reports.status import pause_document
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.claims import ending_on_error, new_id
from airflow_kafka_lake.services.only_copies import REPEAT
from airflow_kafka_lake.services.planning import observe_and_gather, plan_from, record
from airflow_kafka_lake.services.recovery import OVERTAKEN, fenced, recover_wave, revoke
from airflow_kafka_lake.services.reporting import describe_landed
from airflow_kafka_lake.services.stream_choice import refuse_gone, slices

# What a pipeline's history says, however long it has become: its newest event, and what an actor has decided.

_AT_ONCE = 1000


def newest_event(ledger: LedgerReader, pipeline: str, after: int = 0) -> int:
    """Return the sequence of a pipeline's newest event; `after` when there is none above it."""
    newest = ledger.events(pipeline, after, 1, newest=True)
    return newest[0].sequence if newest else after


def recorded(ledger: LedgerReader, pipeline: str, kind: str, actor: str, *, after: int) -> frozenset[Slice]:
    """Return the slices about which an actor has recorded decisions of a kind since an event of the history."""
    found: set[Slice] = set()
    while own := ledger.events(pipeline, after, _AT_ONCE, kind=kind, actor=actor):
        found |= {slice_ for item in own for slice_ in item.slices}
        after = own[-1].sequence
    return frozenset(found)


# A person's decisions about what is planned: cancel, release, skip, withdraw.


def _ranges_of(ports: Ports, subject: str, state: Sequence[RangeState]) -> list[RangeRecord]:
    try:
        wave = ports.ledger.wave(subject)
    except UnknownSubjectError:
        return [ports.ledger.range(subject)]
    return list(ports.ledger.ranges(wave=wave.id, states=state))


def cancel(ports: Ports, subject: str, reason: str, *, drop_staged: bool = False) -> tuple[str, ...]:
    """Put a wave's open ranges, or one range, on hold as CANCELLED; returns the ids of the ranges.

    A wave that is being worked on is claimed from its holder. A wave that turns out to be published is refused, and so
    is one whose staging branch is the only copy of some records, unless `drop_staged` gives that up.
    """
    reason = needed_reason(reason)
    found = _ranges_of(ports, subject, (RangeState.PLANNED,))
    if not found or any(item.state is not RangeState.PLANNED for item in found):
        states = ", ".join(sorted({item.state for item in found})) or "no open range"
        raise StateError(f"{subject} cannot be cancelled: it has {states}. Only what is PLANNED can", subject=subject)
    verdicts = [RangeDecision(range_id=item.id, state=RangeState.CANCELLED, reason=reason) for item in found]
    revoke(ports, ports.ledger.wave(found[0].wave), verdicts, by_force=True, drop_staged=drop_staged)
    return tuple(item.id for item in found)


def release(ports: Ports, subject: str, reason: str | None) -> tuple[str, tuple[str, ...]]:
    """Release the held ranges of a wave, or one range, into a new wave; returns its id and the ids of the ranges."""
    found = _ranges_of(ports, subject, (RangeState.CANCELLED, RangeState.HELD))
    if not found:
        raise StateError(f"nothing of {subject} is cancelled or held: there is nothing to release", subject=subject)
    ids = tuple(item.id for item in found)
    return ports.ledger.commit(Release(ranges=ids, wave=f"{new_id()}-w0", actor=ports.actor, reason=reason)), ids


def preview_skip(
    ports: Ports, pipeline: str, stream: StreamRecord, interval: OffsetRange, *, reason: str
) -> SkipResult:
    """Return the effect that a skip would have now; raises the errors with which it would refuse for good."""
    asked = skipped_range("preview", pipeline, Slice(stream.key, interval), needed_reason(reason))
    _refuse_beyond_end(ports, pipeline, stream, interval)
    topic, _, partition = stream.key
    streams, touched = ports.ledger.at_once(
        lambda read: (
            read.streams(pipeline, topic=topic, partitions=[partition]),
            read.ranges(pipeline=pipeline, states=UNRESOLVED, crossing=asked.slice),
        )
    )
    covered = next((item.covered for item in streams if item.key == stream.key), stream.covered)
    cut = cut_for_skip(touched, asked, stream.origin)
    waves = sorted({item.wave for item in cut.pieces if item.range.overlaps(interval) and item.wave != asked.id})
    claimed = [item for item in map(ports.ledger.wave, waves) if _to_be_fenced(item)]
    return SkipResult(
        offsets=(RangeSet((interval,)) - covered).span,
        waves=tuple(waves),
        fenced=tuple(item.id for item in claimed),
        busy=tuple(i.id for i in claimed if i.lease_live and not (i.holder and ports.processes.dead(i.holder))),
        goes_on=RangeSet(item.range for item in cut.pieces if item.wave in cut.waves),
    )


def log_starts(ports: Ports, streams: Iterable[Stream]) -> Mapping[Stream, int]:
    """Return from which offset on Kafka has records of some streams, as far as it answers."""
    keys = sorted(streams)
    try:
        seen = ports.source.snapshot(sorted({key.topic for key in keys}), None, {key.place for key in keys})
    except KafkaLakeError:
        return {}
    return {item.stream: item.log_start for item in seen.partitions}


def _to_be_fenced(wave: WaveRecord) -> bool:
    return wave.fence != NEVER_CLAIMED and wave.state not in FINISHED


def skip(
    ports: Ports,
    pipeline: str,
    stream: StreamRecord,
    interval: OffsetRange,
    *,
    reason: str,
    acknowledge_order: bool,
    drop_staged: bool = False,
) -> SkipResult:
    """Leave offsets unread, by a person's decision. Ranges that were held for nothing but them go on in new waves.

    Waves that were ever claimed are fenced first, so that no earlier publisher shows rows of a skipped slice.
    Raises OnlyCopyError where rows staged beside it exist nowhere else, unless `drop_staged` gives that up.
    """
    reason = needed_reason(reason)
    _refuse_beyond_end(ports, pipeline, stream, interval)
    accepted = accepted_epoch(ports, stream, interval)
    gone = Slice(stream.key, interval)
    claims: list[Claim] = []
    with ending_on_error(ports, claims):
        touched = ports.ledger.ranges(pipeline=pipeline, states=UNRESOLVED, crossing=gone)
        for wave in sorted({item.wave for item in touched}):
            # A wave that nobody has claimed, or that is over, has no publisher who could show the slice.
            if not _to_be_fenced(ports.ledger.wave(wave)):
                continue
            if claim := fenced(ports, wave, skipped=gone, give_up=None if drop_staged else REPEAT):
                claims.append(claim)
        skipped = ports.ledger.commit(
            Skip(
                pipeline=pipeline,
                slice=Slice(stream.key, interval),
                id=new_id(),
                reason=reason,
                actor=ports.actor,
                acknowledge_order=acknowledge_order,
                guards=[claim.key for claim in claims],
                epoch=accepted,
            )
        )
    flush(ports, pipeline)
    return skipped


def _refuse_beyond_end(ports: Ports, pipeline: str, stream: StreamRecord, interval: OffsetRange) -> None:
    """Refuse to skip offsets that are not written yet: later records there would stay unread."""
    known = Graph(ports.ledger.segments(pipeline)).known_end(stream)
    if interval.end <= known:
        return
    seen = ports.source.snapshot((stream.key.topic,), None, {stream.key.place})
    end = max([known, *(item.high_watermark for item in seen.partitions if item.stream == stream.key)])
    if interval.end > end:
        raise RangeBeyondEndError(
            f"{stream.key}: offset {interval.end} is beyond the end of the log, {end}: what is "
            f"written there later would be passed unread. Skip up to {end} at most",
            **stream.key.facts,
            high_watermark=end,
        )


def accepted_epoch(ports: Ports, stream: StreamRecord, interval: OffsetRange) -> int | None:
    """Return the log's leader epoch now, when a skip covers all that the log lost since its newest plan.

    None when it covers less, when nothing was lost, or when Kafka does not answer: the next plan is refused then as it
    was before.
    """
    if stream.leader_epoch is None or interval.end < stream.end_seen:
        return None
    try:
        snapshot = ports.source.snapshot((stream.key.topic,), None, {stream.key.place})
        seen = next((item for item in snapshot.partitions if item.stream == stream.key), None)
        if seen is None:
            return None
        doubts = epochs_in_doubt([(seen, stream.leader_epoch)])
        ends = ports.source.epoch_ends(doubts, leader_epochs([seen])) if doubts else {}
        cut = cut_below(seen, stream.leader_epoch, stream.end_seen, ends, set_back=True)
    except KafkaLakeError as error:
        ports.progress(f"whether {stream.key} lost records is not known: {error.message}")
        return None
    return seen.leader_epoch if cut is not None and interval.start <= cut else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A pipeline, plan, wave or range that a person names, its pipeline, and its unresolved ranges."""

    name: str
    pipeline: str
    ranges: tuple[RangeRecord, ...]


def find_subject(ledger: LedgerReader, name: str) -> Subject:
    """Find a pipeline, a plan, a wave or a range by its name or id; UnknownSubjectError for none of these."""
    if ledger.pipeline(name) is not None:
        return Subject(name=name, pipeline=name, ranges=ledger.ranges(pipeline=name, states=UNRESOLVED))
    for found in (ledger.ranges(plan=name), ledger.ranges(wave=name)):
        if found:
            open_ = tuple(item for item in found if item.state in UNRESOLVED)
            return Subject(name=name, pipeline=found[0].pipeline, ranges=open_)
    try:
        item = ledger.range(name)
    except UnknownSubjectError:
        known = ", ".join(ledger.pipelines()) or "none yet"
        raise UnknownSubjectError(
            f"the ledger knows no pipeline, plan, wave or range {name!r} with anything planned: take one from "
            f"{remedies.status('PIPELINE')} (pipelines that it knows: {known})",
            subject=name,
        ) from None
    return Subject(name=name, pipeline=item.pipeline, ranges=(item,) if item.state in UNRESOLVED else ())


def preview_withdraw(
    ports: Ports, subject: Subject, selection: Selection, *, reason: str
) -> tuple[Withdrawal, tuple[KeptRange, ...]]:
    """Return the selected ranges that can leave the plan, as their waves were never claimed, and the others.

    Raises StateError when none of them can, naming the first that stays; RangeExpiredError for a period by time that
    may begin among planned offsets that Kafka has deleted.
    """
    reason = needed_reason(reason)
    streams = {stream.key: stream for stream in ports.ledger.streams(subject.pipeline)}
    selection.require(subject.pipeline, streams.values())
    found = [item for item in subject.ranges if item.stream in selection]
    touched = [streams[key] for key in sorted({item.stream for item in found})]
    asked = slices(ports, touched, selection)
    if isinstance(selection.start, datetime) and touched:
        seen = ports.source.snapshot(sorted({item.key.topic for item in touched}), None).partitions
        starts = merged(min, ((item.stream, item.range.start) for item in found))
        expired = {i.stream: i for i in seen if i.stream in starts and starts[i.stream] < i.log_start}
        refuse_gone(ports, selection.start, touched, expired)
    wanted = [(i, asked[i.stream]) for i in found if i.stream in asked and i.range.overlaps(asked[i.stream])]
    waves = ports.ledger.waves(subject.pipeline) if wanted else ()
    what, kept = withdrawal(subject.pipeline, subject.name, reason, streams.values(), waves, wanted)
    if not what.ranges:
        stays = [f"{item.record.stream} {item.record.range}: {item.reason}" for item in kept]
        why = stays[0] if stays else f"nothing is planned there that is not read yet (see {remedies.status()})"
        raise StateError(f"nothing was withdrawn of {subject.name}: {why}", subject=subject.name)
    return what, kept


# A person pauses a pipeline or a plan, and resumes it.


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSubject:
    """A pipeline, or one plan of it, that a person names."""

    pipeline: str
    plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseResult:
    """The effect of a pause or a resume. `pause` is the one that is there, or was; None where a resume found none.

    `at_work` are the waves that an attempt works on and that go on to their end; `stopped` waves were taken from their
    attempt and are planned still, `landed` ones turned out to be in the lake; `waiting` counts the waves that are not
    begun.
    """

    subject: PauseSubject
    changed: bool
    pause: PauseRow | None
    at_work: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    landed: tuple[str, ...] = ()
    waiting: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return `pause --json` and `resume --json`."""
        return {
            "pipeline": self.subject.pipeline,
            "plan": self.subject.plan,
            "changed": self.changed,
            "paused": pause_document(self.pause),
            "at_work": list(self.at_work),
            "stopped": list(self.stopped),
            "landed": list(self.landed),
            "waiting": self.waiting,
        }


def find_pausable(ledger: LedgerReader, name: str) -> PauseSubject:
    """Find a pipeline by its name, or a plan by its id; UnknownSubjectError for neither."""
    if ledger.pipeline(name) is not None:
        return PauseSubject(pipeline=name)
    if found := ledger.ranges(plan=name):
        return PauseSubject(pipeline=found[0].pipeline, plan=name)
    known = ", ".join(ledger.pipelines()) or "none yet"
    raise UnknownSubjectError(
        f"the ledger knows no pipeline and no plan {name!r}: take one from {remedies.status('PIPELINE')} (pipelines "
        f"that it knows: {known})",
        subject=name,
    )


def pause(ports: Ports, subject: PauseSubject, reason: str, *, now: bool = False) -> PauseResult:
    """Let nothing new of a pipeline or a plan be begun until it is resumed; a pause that is there stays as it is.

    Waves at work go on to their end. With `now` they are taken from their attempts, whose Spark jobs end with their
    next heartbeat, and stay planned; one that has been published meanwhile is committed. Raises the error that
    kept a wave from being stopped, after all others were; the pause holds all the same.
    """
    reason = needed_reason(reason)
    done = ports.ledger.commit(Pause(pipeline=subject.pipeline, plan=subject.plan, reason=reason, actor=ports.actor))
    stopped, landed = _stop(ports, subject) if now else ((), ())
    return replace(_answer(ports, subject, done), stopped=stopped, landed=landed)


def resume(ports: Ports, subject: PauseSubject, reason: str | None = None) -> PauseResult:
    """End the pause of a pipeline or a plan; its planned waves wait for the next run, which is not started here."""
    done = ports.ledger.commit(Resume(pipeline=subject.pipeline, plan=subject.plan, reason=reason, actor=ports.actor))
    return _answer(ports, subject, done)


def _answer(ports: Ports, subject: PauseSubject, done: PauseAnswer) -> PauseResult:
    left = _waves(ports, subject, UNFINISHED)
    at_work = tuple(wave.id for wave in left if wave.lease_live)
    return PauseResult(
        subject=subject, changed=done.changed, pause=done.pause, at_work=at_work, waiting=len(left) - len(at_work)
    )


def _waves(ports: Ports, subject: PauseSubject, states: frozenset[WaveState]) -> list[WaveRecord]:
    return [wave for wave in ports.ledger.waves(subject.pipeline, states) if subject.plan in (None, wave.plan)]


def _stop(ports: Ports, subject: PauseSubject) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take every wave at work from its attempt; return the waves that are planned still, and the ones in the lake."""
    stopped: list[str] = []
    landed: list[str] = []
    problems: list[KafkaLakeError] = []
    for wave in _waves(ports, subject, OPEN):
        try:
            (landed if recover_wave(ports, wave, by_force=True) else stopped).append(wave.id)
        except OVERTAKEN as error:
            ports.progress(f"wave {wave.id} was ended or taken by another process meanwhile: {error}")
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a problem of this wave alone
            problems.append(expected(error, f"stopping wave {wave.id}", wave=wave.id))
    if problems:
        raise problems[0]
    return tuple(stopped), tuple(landed)


# A person's declarations about segments: where a stream ends, and which topic continues which.


def seal(ports: Ports, spec: PipelineSpec, stream: StreamRecord, at: int) -> Segment:
    """Declare the end of a stream; it counts once a plan has found it unchanged a layout grace later.

    Refused with StateError unless the log ends exactly there, with no open transaction; a seal is never moved.
    """

    def declare(known: KnownLayouts, topics: Sequence[ObservedTopic]) -> LayoutChange:
        topic = _topic(topics, stream.key.topic)
        if topic.id != stream.key.topic_id:
            raise StateError(f"topic {stream.key.topic} of id {stream.key.topic_id} is gone: it ends where it ended")
        _refuse_unobserved(topic, [stream.key.partition])
        return LayoutChange(segments=(declared(topic, stream.key.partition, at, known),))

    decided = _record(ports, spec, Bounds(topic=stream.key.topic), declare)
    return next(item for item in decided.layout_change.segments if item.stream == stream.key and item.declared_at)


def migrate(
    ports: Ports, spec: PipelineSpec, source: str, *, target: str, seals: Mapping[int, int]
) -> tuple[Segment, ...]:
    """Declare that one topic continues another, whose partitions end at `seals`; returns the segments that wait.

    Each end counts once a plan has found it unchanged a layout grace later; until then nothing more of the target is
    published. Waves that would wait for themselves are split first. Refused with UsageError or StateError when a
    partition is missing, a log does not end at its seal, or a segment would wait for itself.
    """
    if source == target:
        raise UsageError(f"topic {source} cannot continue itself: give two topics")

    def declare(known: KnownLayouts, topics: Sequence[ObservedTopic]) -> LayoutChange:
        old, new = _topic(topics, source), _topic(topics, target)
        if missing := sorted(set(range(old.partitions)) ^ set(seals)):
            partitions = count(old.partitions, "partition")
            raise UsageError(f"the seals of {source} must name each of its {partitions} once: look at {missing}")
        _refuse_unobserved(old, range(old.partitions))
        _refuse_unobserved(new, range(new.partitions))
        return migrated(spec, old, new, seals=seals, known=known)

    decided = _record(ports, spec, Bounds(), declare)
    return tuple(item for item in decided.layout_change.segments if item.stream.topic == target)


def _record(ports: Ports, spec: PipelineSpec, bounds: Bounds, declare: Declare) -> Plan:
    """Record a declaration as a plan that reads nothing: under the same guards as every plan."""
    facts = observe_and_gather(ports, spec, bounds, plan_id=new_id())
    decided = plan_from(ports, facts, declare)
    graph = apply_layout_change(facts.graph, decided.layout_change).graph
    _split(ports, spec.name, graph, Levels(graph, facts.seen.known))
    record(ports, replace(decided, waves=()), facts.seen)
    return decided


def _topic(topics: Sequence[ObservedTopic], name: str) -> ObservedTopic:
    found = next((item for item in topics if item.name == name), None)
    if found is None:
        raise UnknownTopicError(
            f"topic {name!r} is not one of the pipeline's, or could not be observed: add it to its topics", topic=name
        )
    return found


def _refuse_unobserved(topic: ObservedTopic, partitions: Iterable[int]) -> None:
    if left := sorted(set(partitions) - (topic.seen.keys() & set(topic.asked))):
        raise UnavailableError(
            f"{topic.name}: partitions {left} could not be observed, or are not in order: see what {remedies.plan()} "
            "says of them, then repeat the call",
            topic=topic.name,
        )


def _split(ports: Ports, pipeline: str, graph: Graph, levels: Levels) -> None:
    """Move ranges that would wait for their own wave into waves of their own, level by level."""
    for wave in ports.ledger.waves(pipeline, UNFINISHED):
        moved = _waiting_for_each_other(graph, ports.ledger.ranges(wave=wave.id, states=(RangeState.PLANNED,)))
        if not moved:
            continue
        reason = "it continues what the same wave reads, and goes into a wave of its own"
        verdicts = [RangeDecision(range_id=item.id, state=RangeState.CANCELLED, reason=reason) for item in moved]
        revoke(ports, wave, verdicts, by_force=True)
        by_level = grouped((levels.at(item.stream, item.range.start), item.id) for item in moved)
        for _, ids in sorted(by_level.items()):
            ports.ledger.commit(Release(ranges=ids, wave=f"{new_id()}-w0", actor=ports.actor, reason=reason))


def _waiting_for_each_other(graph: Graph, ranges: Sequence[RangeRecord]) -> list[RangeRecord]:
    segments = {item.id: graph.at(item.stream, item.range.start) for item in ranges}
    there = {segment.key for segment in segments.values() if segment}
    return [item for item in ranges if (segment := segments[item.id]) and graph.ancestors(segment.key) & there]


# Make a wave ready for its next try, by what became of the last one.


class WaveContinuation(StrEnum):
    """How a wave goes on, by the state in which it was found."""

    RELEASED = "released"
    """It was on hold: its ranges are in a wave of their own now, which the next run reads."""
    ADOPTED = "adopted"
    """Its commit was in the lake: it is recorded, and nothing is left to do."""
    RETURNED = "returned"
    """Its last attempt had left nothing in the lake: the next run stages it again, or uses the rows it had staged."""
    WAITING = "waiting"
    """No worker had it: the next run takes it as it is."""


def retry(ports: Ports, wave_id: str, reason: str) -> tuple[str, WaveContinuation]:
    """Make a wave ready for its next try; returns the wave that goes on, and how.

    Raises StateError for a wave that is over and of which nothing is on hold, ConcurrentError while another process
    works on it: `cancel` takes it away from one that hangs.
    """
    reason = needed_reason(reason)
    wave = ports.ledger.wave(wave_id)
    if ports.ledger.ranges(wave=wave_id, states=(RangeState.HELD, RangeState.CANCELLED)):
        released, _ = release(ports, wave_id, reason)
        return released, WaveContinuation.RELEASED
    if wave.state in OPEN:
        adopted = recover_wave(ports, wave, asked=f"{ports.actor}: {reason}; ")
        return wave_id, WaveContinuation.ADOPTED if adopted else WaveContinuation.RETURNED
    if wave.state in FINISHED:
        landed = describe_landed(ports.ledger, wave) if wave.snapshot else f"wave {wave_id} is over: nothing is left"
        raise StateError(landed, wave=wave_id)
    return wave_id, WaveContinuation.WAITING
