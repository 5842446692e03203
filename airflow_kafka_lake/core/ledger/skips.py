"""Skip: what a person decided to pass unread, cut out of what was planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit, Entry, Records, Scope, Write
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.receipts import range_receipt
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, WaveRow
from airflow_kafka_lake.core.ledger.rows import SkipRow
from airflow_kafka_lake.core.ledger.streams import StreamRow
from airflow_kafka_lake.core.ledger.wave_changes import dissolved, given_back, new_wave, states_after
from airflow_kafka_lake.core.ledger.waves import RESOLVED, AttemptKey, RangeState, WaveState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice

_NEED_NO_GUARD = frozenset({WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED})
"""States of a claimed wave in which nothing of it can be published: ranges leave it without a guard (law L11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipCut:
    """What a skip leaves: `pieces` of the unresolved ranges in its way and of what was not planned.

    `passed` are the offsets that it passes, `waves` the new waves of what goes on, each with the wave it comes from.
    """

    pieces: tuple[RangeRecord, ...]
    passed: RangeSet
    waves: Mapping[str, str]

    def generation(self, passed: OffsetRange) -> int:
        """Return how often something of a passed slice was reopened before: only a later reopen undoes the skip."""
        inside = (item for item in self.pieces if item.state is RangeState.SKIPPED and item.range.overlaps(passed))
        return max((item.generation for item in inside), default=0)


def skipped_range(skip_id: str, pipeline: str, passed: Slice, reason: str) -> RangeRecord:
    """Return the range of a skipped slice that was not planned: plan and wave are the skip."""
    return RangeRecord(
        id=skip_id,
        pipeline=pipeline,
        plan=skip_id,
        wave=skip_id,
        slice=passed,
        state=RangeState.SKIPPED,
        reason=reason,
        estimated_bytes=0,
        rows=0,
        accounting=Accounting(skipped=passed.range.span),
        skip=skip_id,
    )


def cut_for_skip(recorded: Iterable[RangeRecord], asked: RangeRecord, origin: int) -> SkipCut:
    """Decide what becomes of a stream's ranges under a skip; `asked` is its `skipped_range`.

    The first piece of a range keeps its id. A piece without any of the offsets that its range was held for goes on, in
    a new wave for each that such pieces come from: of one wave none waits for another. Unplanned offsets are cut at the
    origin, so that the watermark always lies on an edge.
    """
    interval, found = asked.range, tuple(recorded)
    pieces: list[RangeRecord] = []
    waves: dict[str, str] = {}
    for item in found:
        if item.state in RESOLVED:
            continue
        for piece in map(item.piece, item.range.split_at((interval.start, interval.end))):
            if piece.range.overlaps(interval):
                pieces.append(_passed(piece, asked))
            elif item.held_for and not piece.held_for:
                wave = waves.setdefault(item.wave, f"{asked.id}-w{len(waves)}")
                pieces.append(replace(piece, state=RangeState.PLANNED, reason=None, wave=wave))
            else:
                pieces.append(piece)
    passed = RangeSet((interval,)) - RangeSet(item.range for item in found if item.state in RESOLVED)
    for gap in passed - RangeSet(piece.range for piece in pieces):
        unplanned = (
            replace(asked, id=f"{asked.id}.{part.start}", slice=asked.slice.part(part))
            for part in gap.split_at((origin,))
        )
        pieces += [_passed(piece, asked) for piece in unplanned]
    return SkipCut(pieces=tuple(pieces), passed=passed, waves={new: home for home, new in waves.items()})


def _passed(piece: RangeRecord, asked: RangeRecord) -> RangeRecord:
    sums = Accounting(skipped=piece.range.span)
    passed = replace(piece, state=asked.state, reason=asked.reason, rows=0, accounting=sums, held_for=NOTHING)
    return replace(passed, skip=asked.skip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Write[Passed]):
    """Record a skip: what of the slice is not committed or skipped becomes SKIPPED.

    Unresolved ranges that cross an edge are split; the rest keeps state and wave, but for what was HELD for offsets of
    which it has none any more: that is PLANNED again, in new waves. Every touched wave that was ever claimed and is not
    CANCELLED/DISSOLVED/COMMITTED must be held by one of `guards`, else ConcurrentError. Puts a `skip` receipt into the
    outbox. `epoch` is the leader epoch of a log that lost what is skipped: it becomes the stream's, so that the loss is
    accepted; None leaves the recorded one.
    """

    name: ClassVar[str] = "skip"
    id: str
    pipeline: str
    slice: Slice
    reason: str
    actor: str
    acknowledge_order: bool
    guards: Sequence[AttemptKey]
    epoch: int | None = None

    def scope(self) -> Scope:
        return Scope(
            pipeline=self.pipeline,
            streams=(self.slice.stream,),
            waves=[key.wave for key in self.guards],
            crossing=self.slice,
            follow=True,
            counts=True,
            attempts=True,
            plans=True,
            configurations=True,
            skips=(self.id,),
        )

    def decide(self, records: Records) -> Change[Passed]:
        stream = self._stream(records)
        losing, held = self._losing(records), self._held(records)
        for wave in losing.values():
            if wave.fence and wave.state not in _NEED_NO_GUARD and wave.id not in held:
                raise ConcurrentError(
                    f"Wave {wave.id} was claimed by another writer meanwhile. Nothing was skipped; repeat.",
                    wave=wave.id,
                )
        asked = skipped_range(self.id, self.pipeline, self.slice, self.reason)
        cut = cut_for_skip(records.ranges, asked, stream.origin)
        found = {item.id: item for item in records.ranges}
        changed = [Edit(before=found.get(piece.id), after=piece) for piece in cut.pieces]
        left = states_after(records, changed)
        leaving = losing | held
        cancelled = {item.wave for item in records.ranges if item.state is RangeState.CANCELLED}
        decided = replace(stream.next_version, leader_epoch=stream.leader_epoch if self.epoch is None else self.epoch)
        rest = f"; the rest goes on in {', '.join(cut.waves)}" if cut.waves else ""
        detail = f"{self.slice}, {count(cut.passed.span, 'offset')}{rest}: {self.reason}"
        return Change(
            result=Passed(offsets=cut.passed.span, waves=tuple(cut.waves)),
            edits=(
                Edit(before=stream, after=decided),
                *(Edit(after=wave) for wave in self._new_waves(records, cut)),
                *(edit for name in leaving for edit in given_back(records, leaving[name], left.get(name, ()))),
                *dissolved((records.waves[name] for name in sorted(cancelled - leaving.keys())), left),
                Edit(after=self._row(records, cut)),
                *changed,
            ),
            outbox=self._receipts(records, asked, cut),
            entries=(Entry(pipeline=self.pipeline, actor=self.actor, kind="skip", subject=self.id, detail=detail),),
        )

    def _stream(self, records: Records) -> StreamRow:
        stream = records.streams.get(key := self.slice.stream)
        if stream is None:
            raise guards.unknown("stream", f"{key} ({key.topic_id})")
        if self.id in records.skips:
            raise guards.taken_id("skip", self.id)
        return stream

    @staticmethod
    def _losing(records: Records) -> dict[str, WaveRow]:
        """Return the waves of which ranges are passed, as far as they may be at work."""
        homes = {item.wave: records.of_range(item) for item in records.ranges if item.wave != item.skip}
        planned = {item.wave for item in records.ranges if item.state is RangeState.PLANNED}
        return {name: homes[name] for name in sorted(planned)}

    def _held(self, records: Records) -> dict[str, WaveRow]:
        found = ((records.waves.get(key.wave), key) for key in self.guards)
        return {wave.id: wave for wave, key in found if wave is not None and wave.is_held_by(key)}

    @staticmethod
    def _new_waves(records: Records, cut: SkipCut) -> list[WaveRow]:
        made: list[WaveRow] = []
        for new, old in cut.waves.items():
            ranges = [item for item in cut.pieces if item.wave == new]
            made.append(new_wave(records, new, records.waves[old], ranges, beside=made))
        return made

    def _row(self, records: Records, cut: SkipCut) -> SkipRow:
        return SkipRow(
            id=self.id,
            pipeline=self.pipeline,
            slice=self.slice,
            offsets=cut.passed.span,
            reason=self.reason,
            actor=self.actor,
            at=records.now,
            acknowledged=self.acknowledge_order,
        )

    def _receipts(self, records: Records, asked: RangeRecord, cut: SkipCut) -> tuple[tuple[str, ReceiptRow], ...]:
        assert records.newest is not None
        table = records.newest.spec.table_for(self.slice.stream.topic)
        passed = (
            replace(
                asked,
                slice=asked.slice.part(item),
                accounting=Accounting(skipped=item.span),
                generation=cut.generation(item),
            )
            for item in cut.passed
        )
        return tuple((table, range_receipt("skip", item, attempt=self.id, fence=0, at=records.now)) for item in passed)
