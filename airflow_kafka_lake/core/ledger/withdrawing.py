"""Withdraw: take planned ranges that were never claimed off the plan again.

Nothing was read, so nothing is lost: a later plan takes the same offsets as if they had never been planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Entry, Records, Scope, Write
from airflow_kafka_lake.core.ledger.holds import HoldReason
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.wave_changes import given_back, states_after
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream

NEVER_CLAIMED = 0
"""The fence of a wave that was never claimed."""

NAMED = 3
"""Slices that a line of the history names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A range that is taken off the plan, in whole or in part; `gone` are its offsets that are."""

    record: RangeRecord
    gone: OffsetRange

    @property
    def kept(self) -> tuple[RangeRecord, ...]:
        """The pieces that stay planned."""
        return tuple(self.record.piece(part) for part in RangeSet((self.record.range,)) - RangeSet((self.gone,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """One decision; `versions` are those of the streams that it was made from, `subject` is what the caller named."""

    pipeline: str
    subject: str
    reason: str
    versions: Mapping[Stream, int]
    ranges: tuple[Withdrawn, ...]

    @property
    def waves(self) -> tuple[str, ...]:
        """The waves that lose ranges, sorted."""
        return tuple(sorted({item.record.wave for item in self.ranges}))

    @property
    def offsets(self) -> int:
        """How many offsets are not planned any more."""
        return sum(item.gone.span for item in self.ranges)

    @property
    def by_stream(self) -> dict[Stream, RangeSet]:
        """What is not planned any more."""
        found: dict[Stream, list[OffsetRange]] = {}
        for item in self.ranges:
            found.setdefault(item.record.stream, []).append(item.gone)
        return {key: RangeSet(parts) for key, parts in sorted(found.items())}

    def __str__(self) -> str:
        where = [f"{key} {offsets.describe()}" for key, offsets in self.by_stream.items()]
        more = f" and {len(where) - NAMED} more" if len(where) > NAMED else ""
        what = f"{count(self.offsets, 'offset')} in {count(len(self.ranges), 'range')}"
        return f"{what}: {', '.join(where[:NAMED])}{more}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A range in the scope of a withdrawal that stays, and why, with the command that is right for it."""

    record: RangeRecord
    reason: str


def withdrawal(
    pipeline: str,
    subject: str,
    reason: str,
    streams: Iterable[StreamRecord],
    waves: Iterable[WaveRecord],
    wanted: Sequence[tuple[RangeRecord, OffsetRange]],
) -> tuple[Withdrawal, tuple[Kept, ...]]:
    """Decide what of some unresolved ranges can be withdrawn, each with the offsets that are asked for."""
    known = {wave.id: wave for wave in waves}
    versions = {stream.key: stream.version for stream in streams}
    gone: list[Withdrawn] = []
    kept: list[Kept] = []
    for record, interval in wanted:
        if why := _why_kept(record, known[record.wave]):
            kept.append(Kept(record=record, reason=why))
        elif part := record.range.intersection(interval):
            gone.append(Withdrawn(record=record, gone=part))
    touched = {item.record.stream for item in gone}
    what = Withdrawal(
        pipeline=pipeline,
        subject=subject,
        reason=reason,
        versions={key: version for key, version in versions.items() if key in touched},
        ranges=tuple(gone),
    )
    return what, tuple(kept)


def _why_kept(item: RangeRecord, wave: WaveRecord) -> str | None:
    if may_be_withdrawn(item, wave.fence):
        return None
    if item.generation:
        return (
            "it was in the lake and is to be read again: its rows are there, and stay. Run it, or give the second "
            f"reading up with: {remedies.skip(item.pipeline, item.slice)}"
        )
    if item.state in ON_HOLD:
        return f"it is {item.state.lower()}, and its wave {item.wave} was claimed: {HoldReason.of(item).text}"
    return (
        f"its wave {item.wave} was claimed (fence {wave.fence}, {wave.state}), and something of it may be on its way. "
        f"Put it on hold with: {remedies.cancel(item.wave)}"
    )


def may_be_withdrawn(item: RangeRecord, fence: int) -> bool:
    """Return whether nothing of a range can ever have been read: its wave was never claimed, and it was never
    committed.

    What was on hold and came to a new wave was fenced before (law L11), so its new wave alone decides.
    """
    unread = item.state in UNRESOLVED - {RangeState.HELD}
    return unread and fence == NEVER_CLAIMED and not item.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw(Write[None]):
    """Take planned ranges that were never claimed off the plan: they leave the record, the event names them, and a
    later plan takes their offsets again.

    What is kept of a range stays in its wave; a wave without any range left is DISSOLVED. Refused with ConcurrentError
    unless streams and ranges are as `what` was decided from, and no wave of them was ever claimed.
    """

    name: ClassVar[str] = "withdraw"
    what: Withdrawal
    actor: str

    def scope(self) -> Scope:
        what = self.what
        return Scope(
            pipeline=what.pipeline,
            streams=tuple(what.versions),
            waves=what.waves,
            ranges=[item.record.id for item in what.ranges],
            counts=True,
        )

    def decide(self, records: Records) -> Change[None]:
        what = self.what
        _refuse_overtaken(what, records)
        changed = []
        for item in what.ranges:
            kept = {piece.id: piece for piece in item.kept}
            changed.append(Edit(before=item.record, after=kept.pop(item.record.id, None)))
            changed += [Edit(after=piece) for piece in kept.values()]
        left = states_after(records, changed)
        waves = (records.waves[name] for name in what.waves)
        detail = str(what)
        return Change(
            result=None,
            edits=(
                *(Edit(before=records.streams[key], after=records.streams[key].next_version) for key in what.versions),
                *(edit for wave in waves for edit in given_back(records, wave, left.get(wave.id, ()))),
                *changed,
            ),
            entries=(
                Entry(pipeline=what.pipeline, actor=self.actor, kind="withdraw", subject=what.subject, detail=detail),
            ),
        )


def _refuse_overtaken(what: Withdrawal, records: Records) -> None:
    """Raise ConcurrentError unless streams, ranges and waves are, under lock, as the decision was made from."""
    found = {item.id: item for item in records.ranges}
    versions = {key: stream.version for key, stream in records.streams.items()}
    if versions != dict(what.versions) or any(
        found.get(item.record.id) != item.record
        or not may_be_withdrawn(item.record, records.wave(item.record.wave).fence)
        for item in what.ranges
    ):
        raise ConcurrentError(
            f"What is planned of pipeline {what.pipeline} was claimed or decided about by another writer meanwhile. "
            "Nothing was withdrawn; repeat the call.",
            pipeline=what.pipeline,
        )
