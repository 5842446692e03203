"""A person's decisions: cancel, release, skip."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.errors import (
    RangeBeyondEndError,
    StateError,
    UnknownSubjectError,
    UsageError,
)
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.records import Claim, RangeRecord, Verdict, WaveRecord
from airflow_kafka_lake.core.ledger.revoking import Release
from airflow_kafka_lake.core.ledger.skips import Skip, cut_for_skip, skipped_range
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import FINISHED, RangeState
from airflow_kafka_lake.core.ledger.withdrawing import NEVER_CLAIMED
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.claims import ending_on_error
from airflow_kafka_lake.services.fencing import fenced
from airflow_kafka_lake.services.losses import accepted_epoch
from airflow_kafka_lake.services.only_copies import REPEAT
from airflow_kafka_lake.services.outbox import flush
from airflow_kafka_lake.services.revocation import revoke


def new_id() -> str:
    """Return a fresh opaque id, unique over pipelines."""
    return secrets.token_hex(6)


def _ranges_of(ports: Ports, subject: str, state: Sequence[RangeState]) -> list[RangeRecord]:
    try:
        wave = ports.ledger.wave(subject)
    except UnknownSubjectError:
        return [ports.ledger.range(subject)]
    return list(ports.ledger.ranges(wave=wave.id, states=state))


def needed_reason(text: str) -> str:
    """Return why a person decides; UsageError when nothing is said."""
    if not text.strip():
        raise UsageError("a reason is needed: say why with --reason, others will read it")
    return text.strip()


def cancel(ports: Ports, subject: str, reason: str, *, drop_staged: bool = False) -> tuple[str, ...]:
    """Put a wave's open ranges, or one range, on hold as CANCELLED; returns the ids of the ranges.

    A wave that is being worked on is taken from its holder; one that turns out to be published is refused,
    and so is one of which the only copy of some records is staged, unless `drop_staged` gives that up.
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
    """Take a wave's or one range's hold off; returns the wave to run and the ids of the ranges."""
    found = _ranges_of(ports, subject, (RangeState.CANCELLED, RangeState.HELD))
    if not found:
        raise StateError(f"nothing of {subject} is cancelled or held: there is nothing to release", subject=subject)
    ids = tuple(item.id for item in found)
    return ports.ledger.commit(Release(ranges=ids, wave=f"{new_id()}-w0", actor=ports.actor, reason=reason)), ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipPreview:
    """What a skip would do: offsets that it would pass and that were not yet, in which waves; `fenced` of them were
    claimed, and are fenced first; `goes_on` are the offsets that were held for these, and go on."""

    offsets: int
    waves: tuple[str, ...]
    fenced: tuple[str, ...]
    goes_on: RangeSet


def preview_skip(
    ports: Ports, pipeline: str, stream: StreamRecord, interval: OffsetRange, *, reason: str
) -> SkipPreview:
    """Return what a skip would do, from the records as they are now; raises what it would refuse for good."""
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
    """Pass offsets unread, by a person's decision. What was held for nothing but them goes on in new waves.

    Waves that were ever claimed are fenced first, so that no forgotten publisher shows rows of a skipped slice.
    Raises OnlyCopyError where what is staged beside it exists nowhere else, unless `drop_staged` gives that up.
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
    """Refuse to skip offsets that are not written yet: they would be passed unread when they come."""
    known = Graph(ports.ledger.segments(pipeline)).known_end(stream)
    if interval.end <= known:
        return
    seen = ports.source.snapshot((stream.key.topic,), None)
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
    unresolved = (RangeState.PLANNED, RangeState.HELD, RangeState.CANCELLED)
    found = ports.ledger.ranges(pipeline=pipeline, states=unresolved)
    return [item for item in found if item.stream == stream.key and item.range.overlaps(interval)]
