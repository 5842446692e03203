"""The writes of a person's decisions: cancel and release, skip, withdraw, pause and resume."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.amounts import FEW, count, some
from airflow_kafka_lake.core.errors import ConcurrentError, StateError, UsageError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    LONGEST,
    Change,
    Edit,
    Entry,
    Late,
    PipelineLock,
    Records,
    SkipRow,
    Write,
    WriteScope,
    dissolved,
    given_back,
    new_wave,
    range_receipt,
    states_after,
)
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.records import (
    RangeDecision,
    RangeRecord,
    ReceiptRow,
    SkipResult,
    StreamRecord,
    WaveRecord,
    WaveRow,
    explained,
)
from airflow_kafka_lake.core.ledger.waves import (
    ON_HOLD,
    RESOLVED,
    UNRESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream, grouped, offsets_by

# The reason of a decision, and every other text of a person that the ledger keeps.


def kept_text(text: object) -> str:
    """Return a text as it is; UsageError for one that a database cannot keep."""
    if not isinstance(text, str) or "\0" in text or text != text.encode(errors="replace").decode():
        raise UsageError("it must be text, without NUL and bytes that are not UTF-8: leave them out")
    return text


def needed_reason(text: str) -> str:
    """Return the reason of a decision without blanks around it; UsageError for none, also where messages leave room."""
    if text.strip() in {"", "…", "...", remedies.REASON[-1]}:
        raise UsageError("a reason is needed: say why with --reason, others will read it")
    return kept_text(text).strip()


# Revoke ranges from a wave, for a person to decide about or to go on in another wave; and release them again.


class Revoke(Write[None]):
    """Take ranges away from a wave (law L11): each → CANCELLED or HELD with its reason, or PLANNED, which moves it to
    a new wave named `apart`. A verdict about a part cuts its range; the rest of the range stays PLANNED in the wave.

    Guarded by the fence; `attempt` is None only for a wave that was never claimed (fence 0). When no PLANNED range is
    left the wave becomes CANCELLED (all its ranges CANCELLED) or DISSOLVED; else it returns to PLANNED. The attempt
    ends as `abandoned` unless it has ended. StateError for a range that is no PLANNED one of the wave; ValueError for
    verdicts that contradict each other; ConcurrentError for a part that is not inside its range any more.
    """

    wave: str
    fence: int
    attempt: str | None
    verdicts: Sequence[RangeDecision]
    actor: str
    apart: str | None = None

    @property
    def key(self) -> AttemptKey:
        """The attempt that the wave is taken from; one that was never claimed has none."""
        return AttemptKey(wave=self.wave, fence=self.fence, attempt=self.attempt or "-")

    def late(self) -> Late:
        """Return the line of history that a refusal leaves."""
        return Late(key=self.key, write=self.name)

    def scope(self) -> WriteScope:
        _check_verdicts(self.verdicts, self.apart)
        new = () if self.apart is None else (self.apart,)
        return WriteScope(
            waves=(self.wave, *new),
            ranges=[item.range_id for item in self.verdicts],
            counts=True,
            attempts=True,
            plans=self.apart is not None,
        )

    def decide(self, records: Records) -> Change[None]:
        home = self._home(records)
        found = {item.id: item for item in records.ranges}
        changed = list(self._revoked(found))
        moved = [row for edit in changed if isinstance(row := edit.after, RangeRecord) and row.wave != home.id]
        new = (new_wave(records, self.apart, home, moved),) if self.apart else ()
        left, detail = states_after(records, changed), self._detail(found)
        kind = "split" if all(item.state is RangeState.PLANNED for item in self.verdicts) else self.name
        entry = Entry(pipeline=home.pipeline, actor=self.actor, kind=kind, subject=self.wave, detail=detail)
        return Change(
            result=None,
            edits=(*(Edit(after=row) for row in new), *given_back(records, home, left.get(home.id, ())), *changed),
            entries=(entry,),
        )

    def _home(self, records: Records) -> WaveRow:
        """Return the wave, at the fence and with the attempt of the caller, whether that still works on it or not."""
        wave = records.wave(self.wave)
        mine = next((item.attempt for item in records.attempts_of(wave.id) if item.fence == self.fence), None)
        if (wave.fence, mine) != (self.fence, self.attempt):
            raise guards.stale(self.key, wave.state, wave.fence)
        if wave.state not in WAVE_TRANSITIONS[Act.CANCEL][0]:
            raise guards.forbidden(wave.id, wave.pipeline, wave.state, WAVE_TRANSITIONS[Act.CANCEL])
        return wave

    def _revoked(self, found: Mapping[str, RangeRecord]) -> Iterator[Edit]:
        """Yield whole ranges as they become, then the parts of cut ranges."""
        cut: dict[str, list[RangeDecision]] = defaultdict(list)
        for verdict in self.verdicts:
            item = found.get(verdict.range_id)
            if item is None or item.wave != self.wave or item.state is not RangeState.PLANNED:
                raise StateError(
                    f"Range {verdict.range_id} is no PLANNED range of wave {self.wave}. Nothing was taken; look with: "
                    f"{remedies.wave(self.wave)}",
                    range=verdict.range_id,
                    wave=self.wave,
                )
            if verdict.part is None:
                yield Edit(before=item, after=self._decided(item, verdict))
            else:
                cut[item.id].append(verdict)
        for name, verdicts in cut.items():
            for part, decided in _cut(found[name], verdicts):
                yield Edit(before=found.get(part.id), after=self._decided(part, decided) if decided else part)

    def _decided(self, item: RangeRecord, verdict: RangeDecision) -> RangeRecord:
        if verdict.state is RangeState.PLANNED:
            return item.decided(verdict.state, wave=self.apart or item.wave, held_for=verdict.held_for)
        return item.decided(
            verdict.state, wave=item.wave, reason=verdict.reason, held_for=verdict.held_for, cause=verdict.cause
        )

    def _detail(self, found: Mapping[str, RangeRecord]) -> str:
        """Return which ranges left the wave and why; the first few by name."""
        ids = (found[v.range_id].piece_id(v.part.start) if v.part else v.range_id for v in self.verdicts)
        named = "; ".join(f"{name} {v.state}: {v.reason}" for name, v in zip(ids, self.verdicts[:FEW], strict=False))
        more = f"; and {len(self.verdicts) - FEW} more" if len(self.verdicts) > FEW else ""
        return named[:LONGEST] + more


def _cut(item: RangeRecord, verdicts: Sequence[RangeDecision]) -> Iterator[tuple[RangeRecord, RangeDecision | None]]:
    """Cut a range at the edges of the parts that are decided about; each part with its verdict, if it has one."""
    by_part = {verdict.part: verdict for verdict in verdicts if verdict.part is not None}
    cuts = item.range.split_at(edge for part in by_part for edge in (part.start, part.end))
    if sum(part.span for part in by_part) != RangeSet(by_part).span or len(by_part) != len(verdicts):
        raise ValueError(f"the parts of range {item.id} overlap")
    if by_part.keys() - set(cuts):
        raise guards.overtaken(f"Range {item.id} was cut by another writer, and is {item.range} now.")
    return ((item.piece(cut), by_part.get(cut)) for cut in cuts)


def _check_verdicts(verdicts: Sequence[RangeDecision], apart: str | None) -> None:
    """Refuse verdicts that name nothing, something twice, or a state that is no hold.

    PLANNED is for ranges that go to the wave `apart`; naming that wave for nothing is refused too.
    """
    if not verdicts:
        raise ValueError("no range is named to be taken from the wave")
    whole = {verdict.range_id for verdict in verdicts if verdict.part is None}
    if len(whole) + sum(verdict.range_id not in whole for verdict in verdicts) != len(verdicts):
        raise ValueError("a range is named twice")
    allowed = (RangeState.CANCELLED, RangeState.HELD, *((RangeState.PLANNED,) if apart else ()))
    for verdict in verdicts:
        if verdict.state not in allowed:
            raise ValueError(f"range {verdict.range_id} cannot be taken to {verdict.state}")
        if verdict.held_for and verdict.state is not RangeState.HELD:
            raise ValueError(f"range {verdict.range_id} is not HELD, but it would be held for {verdict.held_for}")
    if apart and all(verdict.state is not RangeState.PLANNED for verdict in verdicts):
        raise ValueError(f"no range is taken to wave {apart}")


class Release(Write[str]):
    """CANCELLED or HELD → PLANNED. Answers with the wave they are in: their own, when that is CANCELLED and all its
    ranges are released; else the new wave named `wave`. StateError names a range in another state."""

    ranges: Sequence[str]
    wave: str
    actor: str
    reason: str | None

    def scope(self) -> WriteScope:
        if not self.ranges:
            raise ValueError("no range is named to be released")
        return WriteScope(waves=(self.wave,), ranges=self.ranges, follow=True, counts=True, plans=True)

    def decide(self, records: Records) -> Change[str]:
        wanted = self._wanted(records)
        homes = [records.of_range(item) for item in wanted]
        if len({(row.pipeline, row.table) for row in homes}) > 1:
            raise StateError(
                "The ranges belong to several lake tables. Nothing was released; release them table by table."
            )
        home = homes[0]
        whole = self._is_whole(records, home, wanted)
        target = home if whole else new_wave(records, self.wave, home, wanted)
        changed = [Edit(before=item, after=item.decided(RangeState.PLANNED, wave=target.id)) for item in wanted]
        left = states_after(records, changed)
        again = replace(home, state=WAVE_TRANSITIONS[Act.RELEASE][1])
        detail = count(len(wanted), "range") + (f": {self.reason}" if self.reason else "")
        entry = Entry(pipeline=home.pipeline, actor=self.actor, kind="release", subject=target.id, detail=detail)
        return Change(
            result=target.id,
            edits=(
                Edit(before=home, after=again) if whole else Edit(after=target),
                *(() if whole else dissolved({row.id: row for row in homes}.values(), left)),
                *changed,
            ),
            entries=(entry,),
        )

    def _wanted(self, records: Records) -> list[RangeRecord]:
        found = {item.id: item for item in records.ranges}
        wanted = []
        for name in dict.fromkeys(self.ranges):
            if name not in found:
                raise guards.unknown("range", name)
            if found[name].state not in ON_HOLD:
                state = found[name].state
                raise StateError(f"Range {name} is {state}, not CANCELLED or HELD.", range=name, state=state.value)
            wanted.append(found[name])
        return wanted

    @staticmethod
    def _is_whole(records: Records, home: WaveRow, wanted: Sequence[RangeRecord]) -> bool:
        """Return whether all that is unresolved of one CANCELLED wave is released: it goes on as it is."""
        if home.state not in WAVE_TRANSITIONS[Act.RELEASE][0] or any(item.wave != home.id for item in wanted):
            return False
        return len(wanted) == sum(records.counts[home.id].get(state, 0) for state in UNRESOLVED)


# Skip: what a person decided to pass unread, cut out of what was planned.

_NEED_NO_GUARD = frozenset({WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED})
"""States of a claimed wave in which nothing of it can be published: ranges leave it without a guard (law L11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipCut:
    """The effect of a skip: `pieces` of the unresolved ranges in its way and of the offsets that were not planned.

    `passed` are the offsets that it passes, `waves` the new waves of the pieces that go on, each with its old wave.
    """

    pieces: tuple[RangeRecord, ...]
    passed: RangeSet
    waves: Mapping[str, str]

    def generations(self) -> Iterator[tuple[int, OffsetRange]]:
        """Yield the passed offsets by how often they were reopened before: only a later reopen undoes the skip."""
        passed = grouped((item.generation, item.range) for item in self.pieces if item.state is RangeState.SKIPPED)
        for generation, ranges in sorted(passed.items()):
            yield from ((generation, part) for part in RangeSet(ranges))


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
        rows=0,
        accounting=Accounting(skipped=passed.range.span),
        skip=skip_id,
    )


def cut_for_skip(recorded: Iterable[RangeRecord], asked: RangeRecord, origin: int) -> SkipCut:
    """Return the effect of a skip on a stream's ranges; `asked` is its `skipped_range`.

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
                pieces.append(replace(piece, state=RangeState.PLANNED, reason=None, cause=None, wave=wave))
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
    passed = replace(piece, state=asked.state, reason=asked.reason, rows=0, accounting=sums, skip=asked.skip)
    return replace(passed, held_for=NOTHING, cause=None)


class Skip(Write[SkipResult]):
    """Record a skip: the offsets of the slice that are not committed or skipped become SKIPPED.

    Unresolved ranges that cross an edge are split; the rest keeps state and wave, but for pieces that were HELD for
    offsets of which they have none any more: these are PLANNED again, in new waves. Every touched wave that was ever
    claimed and is not CANCELLED/DISSOLVED/COMMITTED must be held by one of `guards`, else ConcurrentError. The outbox
    gets a `skip` receipt for each generation of the passed offsets. `epoch` is the leader epoch of a log that lost the
    skipped offsets: it becomes the stream's, so that the loss is accepted; None leaves the recorded one.
    """

    id: str
    pipeline: str
    slice: Slice
    reason: str
    actor: str
    acknowledge_order: bool
    guards: Sequence[AttemptKey]
    epoch: int | None = None

    def scope(self) -> WriteScope:
        return WriteScope(
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

    def decide(self, records: Records) -> Change[SkipResult]:
        stream = records.streams.get(key := self.slice.stream)
        if stream is None:
            raise guards.unknown("stream", f"{key} ({key.topic_id})")
        if self.id in records.skips:
            raise guards.taken_id("skip", self.id)
        losing = self._losing(records)
        guarded = ((records.waves.get(at.wave), at) for at in self.guards)
        held = {wave.id: wave for wave, at in guarded if wave is not None and wave.is_held_by(at)}
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
        entry = Entry(pipeline=self.pipeline, actor=self.actor, kind="skip", subject=self.id, detail=detail)
        return Change(
            result=SkipResult(offsets=cut.passed.span, waves=tuple(cut.waves)),
            edits=(
                Edit(before=stream, after=decided),
                *(Edit(after=wave) for wave in self._new_waves(records, cut)),
                *(edit for name in leaving for edit in given_back(records, leaving[name], left.get(name, ()))),
                *dissolved((records.waves[name] for name in sorted(cancelled - leaving.keys())), left),
                Edit(
                    after=SkipRow(
                        id=self.id,
                        pipeline=self.pipeline,
                        slice=self.slice,
                        offsets=cut.passed.span,
                        reason=self.reason,
                        actor=self.actor,
                        at=records.now,
                        acknowledged=self.acknowledge_order,
                    )
                ),
                *changed,
            ),
            outbox=self._receipts(records, asked, cut),
            entries=(replace(entry, slices=(self.slice,)),),
        )

    @staticmethod
    def _losing(records: Records) -> dict[str, WaveRow]:
        """Return the waves of which ranges are passed, as far as they may be at work."""
        homes = {item.wave: records.of_range(item) for item in records.ranges if item.wave != item.skip}
        planned = {item.wave for item in records.ranges if item.state is RangeState.PLANNED}
        return {name: homes[name] for name in sorted(planned)}

    @staticmethod
    def _new_waves(records: Records, cut: SkipCut) -> list[WaveRow]:
        made: list[WaveRow] = []
        for new, old in cut.waves.items():
            ranges = [item for item in cut.pieces if item.wave == new]
            made.append(new_wave(records, new, records.waves[old], ranges, beside=made))
        return made

    def _receipts(self, records: Records, asked: RangeRecord, cut: SkipCut) -> tuple[tuple[str, ReceiptRow], ...]:
        assert records.newest is not None
        table = records.newest.spec.table_for(self.slice.stream.topic)
        passed = (
            replace(
                asked, slice=asked.slice.part(item), accounting=Accounting(skipped=item.span), generation=generation
            )
            for generation, item in cut.generations()
        )
        return tuple((table, range_receipt("skip", item, attempt=self.id, fence=0, at=records.now)) for item in passed)


# Withdraw: take planned ranges that were never claimed off the plan again.
#
# Nothing was read, so nothing is lost: a later plan takes the same offsets as if they had never been planned.

NEVER_CLAIMED = 0
"""The fence of a wave that was never claimed."""

NAMED_SLICES, KEPT_SLICES = 3, 100
"""Slices that a line of the history names, and has as values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawnRange:
    """A range that is taken off the plan, in whole or in part; `gone` are its offsets that are."""

    record: RangeRecord
    gone: OffsetRange

    @property
    def kept(self) -> tuple[RangeRecord, ...]:
        """The pieces that stay planned."""
        return tuple(self.record.piece(part) for part in RangeSet((self.record.range,)) - RangeSet((self.gone,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """One decision, made from streams of these `versions`; `subject` is the name that the caller gave for its scope."""

    pipeline: str
    subject: str
    reason: str
    versions: Mapping[Stream, int]
    ranges: tuple[WithdrawnRange, ...]

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
        """The offsets that are not planned any more."""
        return dict(sorted(offsets_by((item.record.stream, item.gone) for item in self.ranges).items()))

    @property
    def slices(self) -> tuple[Slice, ...]:
        """The slices that are not planned any more."""
        return tuple(Slice(key, part) for key, parts in self.by_stream.items() for part in parts)

    def __str__(self) -> str:
        where = [f"{key} {offsets.describe()}" for key, offsets in self.by_stream.items()]
        what = f"{count(self.offsets, 'offset')} in {count(len(self.ranges), 'range')}"
        return f"{what}: {some(where, NAMED_SLICES)}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRange:
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
) -> tuple[Withdrawal, tuple[KeptRange, ...]]:
    """Split unresolved ranges, each with the offsets that are asked for, into a withdrawal and the ranges that stay."""
    known = {wave.id: wave for wave in waves}
    versions = {stream.key: stream.version for stream in streams}
    gone: list[WithdrawnRange] = []
    kept: list[KeptRange] = []
    for record, interval in wanted:
        if why := _why_kept(record, known[record.wave]):
            kept.append(KeptRange(record=record, reason=why))
        elif part := record.range.intersection(interval):
            gone.append(WithdrawnRange(record=record, gone=part))
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
        return f"it is {item.state.lower()}, and a worker had begun its wave {item.wave}: {explained(item)}"
    return (
        f"a worker has begun its wave {item.wave}, and rows of it may be on their way. "
        f"Put it on hold with: {remedies.cancel(item.wave)}"
    )


def may_be_withdrawn(item: RangeRecord, fence: int) -> bool:
    """Return whether nothing of a range can ever have been read: its wave was never claimed, and it was never
    committed.

    A range that was on hold and came to a new wave was fenced before (law L11), so its new wave alone decides.
    """
    unread = item.state in UNRESOLVED - {RangeState.HELD}
    return unread and fence == NEVER_CLAIMED and not item.generation


class Withdraw(Write[None]):
    """Take planned ranges that were never claimed off the plan: they leave the record, the event names them, and a
    later plan takes their offsets again.

    The kept pieces of a range stay in its wave; a wave without any range left is DISSOLVED. Refused with
    ConcurrentError unless streams and ranges are as the decision found them, and no wave of them was ever claimed.
    """

    what: Withdrawal
    actor: str

    def scope(self) -> WriteScope:
        return WriteScope(
            pipeline=self.what.pipeline,
            streams=tuple(self.what.versions),
            waves=self.what.waves,
            ranges=[item.record.id for item in self.what.ranges],
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
        detail, subject = str(what), what.subject
        entry = Entry(pipeline=what.pipeline, actor=self.actor, kind="withdraw", subject=subject, detail=detail)
        return Change(
            result=None,
            edits=(
                *(Edit(before=records.streams[key], after=records.streams[key].next_version) for key in what.versions),
                *(edit for wave in waves for edit in given_back(records, wave, left.get(wave.id, ()))),
                *changed,
            ),
            entries=(replace(entry, slices=what.slices[:KEPT_SLICES]),),
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


class RecordLine(Write[None]):
    """Write down something that changes no record: that rows were decoded again, or that no plan succeeds."""

    pipeline: str
    kind: str
    subject: str
    detail: str
    actor: str

    def scope(self) -> WriteScope:
        return WriteScope(pipeline=self.pipeline)

    def decide(self, records: Records) -> Change[None]:  # noqa: ARG002 (nothing on record refuses it)
        line = Entry(pipeline=self.pipeline, actor=self.actor, kind=self.kind, subject=self.subject, detail=self.detail)
        return Change(result=None, entries=(line,))


# Pause a pipeline or a plan, and resume it: nothing new of it is planned or begun in between.


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseAnswer:
    """The answer to a pause or a resume: whether it changed anything, and the pause that is there, or was."""

    changed: bool
    pause: PauseRow | None


class PauseWrite(Write[PauseAnswer]):
    """A write about the pause of a pipeline, or of one plan of it.

    Raises UnknownSubjectError for a pipeline that has no configuration yet, and for a plan that is none of it.
    """

    pipeline: str
    actor: str
    plan: str | None = None

    def scope(self) -> WriteScope:
        plans = (self.plan,) if self.plan else ()
        return WriteScope(pipeline=self.pipeline, turn=PipelineLock.PAUSE, configurations=True, plan_ids=plans)

    def recorded(self, records: Records) -> PauseRow | None:
        """Return the pause that is on record."""
        if records.newest is None:
            raise guards.unknown("pipeline", self.pipeline)
        plan = self.plan
        if plan is not None and (plan not in records.plans or records.plans[plan].spec.name != self.pipeline):
            raise guards.unknown("plan", plan)
        return next((item for item in records.pauses if item.plan == plan), None)


class Pause(PauseWrite):
    """Pause a pipeline, or one plan of it: from then on no new plan of that pipeline is recorded, and no wave claimed.

    Waves at work go on. A pause that is there stays as it was first recorded.
    """

    reason: str

    def decide(self, records: Records) -> Change[PauseAnswer]:
        """Add the pause, unless one is there."""
        if known := self.recorded(records):
            return Change(result=PauseAnswer(changed=False, pause=known))
        new = PauseRow(pipeline=self.pipeline, plan=self.plan, reason=self.reason, actor=self.actor, at=records.now)
        entry = Entry(pipeline=self.pipeline, actor=self.actor, kind="pause", subject=new.subject, detail=self.reason)
        return Change(result=PauseAnswer(changed=True, pause=new), edits=(Edit(after=new),), entries=(entry,))


class Resume(PauseWrite):
    """End the pause of a pipeline, or of one plan of it; nothing changes where there is none."""

    reason: str | None = None

    def decide(self, records: Records) -> Change[PauseAnswer]:
        """Take the pause away, if one is there."""
        known = self.recorded(records)
        if known is None:
            return Change(result=PauseAnswer(changed=False, pause=None))
        detail = f"the pause by {known.actor} ended" + (f": {self.reason}" if self.reason else "")
        entry = Entry(pipeline=self.pipeline, actor=self.actor, kind="resume", subject=known.subject, detail=detail)
        return Change(result=PauseAnswer(changed=True, pause=known), edits=(Edit(before=known),), entries=(entry,))
