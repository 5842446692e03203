"""A person's decisions about what is planned: cancel, release, skip, withdraw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import (
    KafkaLakeError,
    RangeBeyondEndError,
    StateError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.kafka.epochs import cut_below, epochs_in_doubt, leader_epochs
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord, Verdict, WaveRecord
from airflow_kafka_lake.core.ledger.revoking import Release
from airflow_kafka_lake.core.ledger.skips import Skip, cut_for_skip, skipped_range
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import FINISHED, UNRESOLVED, RangeState
from airflow_kafka_lake.core.ledger.withdrawing import NEVER_CLAIMED, Kept, Withdraw, Withdrawal, withdrawal
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.selection import Selection
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.ports import LedgerReader, Ports
from airflow_kafka_lake.services.advance import flush
from airflow_kafka_lake.services.claims import ending_on_error, new_id
from airflow_kafka_lake.services.fencing import fenced, revoke
from airflow_kafka_lake.services.only_copies import REPEAT
from airflow_kafka_lake.services.stream_choice import refuse_gone, slices


def _ranges_of(ports: Ports, subject: str, state: Sequence[RangeState]) -> list[RangeRecord]:
    try:
        wave = ports.ledger.wave(subject)
    except UnknownSubjectError:
        return [ports.ledger.range(subject)]
    return list(ports.ledger.ranges(wave=wave.id, states=state))


def needed_reason(text: str) -> str:
    """Return the reason of a decision; UsageError when it is empty."""
    if not text.strip():
        raise UsageError("a reason is needed: say why with --reason, others will read it")
    return text.strip()


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
    verdicts = [Verdict(range_id=item.id, state=RangeState.CANCELLED, reason=reason) for item in found]
    revoke(ports, ports.ledger.wave(found[0].wave), verdicts, by_force=True, drop_staged=drop_staged)
    return tuple(item.id for item in found)


def release(ports: Ports, subject: str, reason: str | None) -> tuple[str, tuple[str, ...]]:
    """Release the held ranges of a wave, or one range, into a new wave; returns its id and the ids of the ranges."""
    found = _ranges_of(ports, subject, (RangeState.CANCELLED, RangeState.HELD))
    if not found:
        raise StateError(f"nothing of {subject} is cancelled or held: there is nothing to release", subject=subject)
    ids = tuple(item.id for item in found)
    return ports.ledger.commit(Release(ranges=ids, wave=f"{new_id()}-w0", actor=ports.actor, reason=reason)), ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipPreview:
    """What a skip would do: the number of offsets that it would skip, and the waves that have them; `fenced` waves were
    claimed, and are fenced first; `goes_on` are offsets that were held only for the skipped ones, and go on."""

    offsets: int
    waves: tuple[str, ...]
    fenced: tuple[str, ...]
    goes_on: RangeSet


def preview_skip(
    ports: Ports, pipeline: str, stream: StreamRecord, interval: OffsetRange, *, reason: str
) -> SkipPreview:
    """Return what a skip would do now; raises what it would refuse for good."""
    asked = skipped_range("preview", pipeline, Slice(stream.key, interval), needed_reason(reason))
    _refuse_beyond_end(ports, pipeline, stream, interval)
    cut = cut_for_skip(_touched(ports, pipeline, stream, interval), asked, stream.origin)
    waves = sorted({item.wave for item in cut.pieces if item.range.overlaps(interval) and item.wave != asked.id})
    return SkipPreview(
        offsets=(RangeSet((interval,)) - stream.covered).span,
        waves=tuple(waves),
        fenced=tuple(wave for wave in waves if _to_be_fenced(ports.ledger.wave(wave))),
        goes_on=RangeSet(item.range for item in cut.pieces if item.wave in cut.waves),
    )


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
) -> Passed:
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
        for wave in sorted({item.wave for item in _touched(ports, pipeline, stream, interval)}):
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
    seen = ports.source.snapshot((stream.key.topic,), None, {stream.key[::2]})
    end = max([known, *(item.high_watermark for item in seen.partitions if item.stream == stream.key)])
    if interval.end > end:
        raise RangeBeyondEndError(
            f"{stream.key}: offset {interval.end} is beyond the end of the log, {end}: what is "
            f"written there later would be passed unread. Skip up to {end} at most",
            topic=stream.key.topic,
            partition=stream.key.partition,
            high_watermark=end,
        )


def _touched(ports: Ports, pipeline: str, stream: StreamRecord, interval: OffsetRange) -> list[RangeRecord]:
    gone = Slice(stream.key, interval)
    return list(ports.ledger.ranges(pipeline=pipeline, states=UNRESOLVED, crossing=gone))


def accepted_epoch(ports: Ports, stream: StreamRecord, interval: OffsetRange) -> int | None:
    """Return the log's leader epoch now, when a skip covers all that the log lost since its newest plan.

    None when it covers less, when nothing was lost, or when Kafka does not answer: the next plan is refused then as it
    was before.
    """
    if stream.leader_epoch is None or interval.end < stream.end_seen:
        return None
    try:
        snapshot = ports.source.snapshot((stream.key.topic,), None, {stream.key[::2]})
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
class Withdrawn:
    """What was withdrawn, or would be; `kept` stays planned, with the reason."""

    what: Withdrawal
    kept: tuple[Kept, ...]


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


def withdraw(ports: Ports, subject: Subject, selection: Selection, *, reason: str, dry_run: bool = False) -> Withdrawn:
    """Take the selected ranges off the plan, as far as their waves were never claimed.

    Raises StateError when none of them can be withdrawn, naming the first that stays; ConcurrentError when another
    process has claimed or changed any of them meanwhile (nothing is withdrawn); RangeExpiredError for a period by time
    that may begin among planned offsets that Kafka has deleted.
    """
    reason = needed_reason(reason)
    streams = {stream.key: stream for stream in ports.ledger.streams(subject.pipeline)}
    selection.require(subject.pipeline, streams.values())
    found = [item for item in subject.ranges if selection.has(item.stream)]
    touched = [streams[key] for key in sorted({item.stream for item in found})]
    asked = slices(ports, touched, selection)
    if isinstance(selection.start, datetime) and touched:
        seen = ports.source.snapshot(sorted({item.key.topic for item in touched}), None).partitions
        starts: dict[Stream, int] = {}
        for item in found:
            starts[item.stream] = min(item.range.start, starts.get(item.stream, item.range.start))
        expired = {i.stream: i for i in seen if i.stream in starts and starts[i.stream] < i.log_start}
        refuse_gone(ports, selection.start, touched, expired)
    wanted = [(i, asked[i.stream]) for i in found if i.stream in asked and i.range.overlaps(asked[i.stream])]
    waves = ports.ledger.waves(subject.pipeline) if wanted else ()
    what, kept = withdrawal(subject.pipeline, subject.name, reason, streams.values(), waves, wanted)
    if not what.ranges:
        stays = [f"{item.record.stream} {item.record.range}: {item.reason}" for item in kept]
        why = stays[0] if stays else f"nothing is planned there that is not read yet (see {remedies.status()})"
        raise StateError(f"nothing was withdrawn of {subject.name}: {why}", subject=subject.name)
    if not dry_run:
        ports.ledger.commit(Withdraw(what=what, actor=ports.actor))
    return Withdrawn(what=what, kept=kept)
