"""Reopen: read a slice again that was committed or skipped."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import ConcurrentError, StateError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    Change,
    ConfigurationRow,
    Edit,
    Entry,
    PlanRow,
    Records,
    SnapshotRow,
    Write,
    WriteScope,
    dissolved,
    range_receipt,
    states_after,
)
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, StreamRecord, StreamRow, WaveRow, explained
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, RESOLVED, AttemptOutcome, AttemptRecord, RangeState, Token
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.planning.plan import MAX_WAVE_OFFSETS, MAX_WAVE_RANGES, Weights
from airflow_kafka_lake.core.spec import PipelineSpec

# Whether a slice can be reopened, in which table its rows are, and which ranges its edges cut.


def table_of(stream: StreamRecord, spec: PipelineSpec, ranges: Sequence[RangeRecord], tables: Mapping[str, str]) -> str:
    """Return the table that has the rows of some ranges: not the pipeline's of today where it has moved since.

    `tables` has the table of each wave. Raises StateError for rows in several tables: no one commit replaces those.
    """
    found: dict[str, RangeRecord] = {}
    for item in ranges:
        if table := tables.get(item.wave):
            found.setdefault(table, item)
    if len(found) > 1:
        where = "; ".join(f"{item.range} in {table}" for table, item in found.items())
        raise StateError(
            f"the rows of {stream.key} are in {len(found)} tables ({where}), and one commit "
            "replaces rows of one table only. Nothing was reopened; reopen what is in each table by itself",
            **stream.key.facts,
        )
    return next(iter(found), spec.table_for(stream.key.topic))


def to_be_shared(ranges: Sequence[RangeRecord], interval: OffsetRange) -> tuple[RangeRecord, ...]:
    """Return the committed ranges that an edge of the slice cuts: the numbers of their pieces are needed."""
    return tuple(item for item in ranges if item.state is RangeState.COMMITTED and len(parts(item, interval)) > 1)


def parts(item: RangeRecord, interval: OffsetRange) -> tuple[OffsetRange, ...]:
    """Return the pieces of a range beside and inside the slice."""
    return item.range.split_at((interval.start, interval.end))


def refuse_uncommitted(
    stream: StreamRecord, pipeline: str, interval: OffsetRange, ranges: Sequence[RangeRecord], *, agreed: bool
) -> None:
    """Refuse a slice that is not committed or skipped as a whole, naming the state of its offsets.

    Where a person has `agreed` to a smaller result, or to deleted rows that come back, a range on hold after it was
    reopened is taken too.
    """
    where = f"{stream.key}"
    for item in ranges:
        if item.state in RESOLVED or (agreed and item.generation and item.state in ON_HOLD):
            continue
        if item.state is RangeState.PLANNED:
            words = f"it is planned, and not read yet. Run it with: {remedies.ingest(item.wave)}"
        else:
            words = f"it is {item.state.lower()}: {explained(item)}"
        raise StateError(
            f"range {item.range} of {where} is not committed: {words}. Nothing was reopened",
            range=item.id,
            wave=item.wave,
        )
    if unplanned := RangeSet((interval,)) - RangeSet(item.range for item in ranges):
        is_beyond = unplanned.last >= stream.end_seen
        ends = f", and the newest plan has seen the log end at {stream.end_seen}" if is_beyond else ""
        raise StateError(
            f"offsets {unplanned} of {where} are neither committed nor skipped: they were never planned{ends}. Bring "
            f"in {'what was written since' if ends else 'these'} with: {remedies.run(pipeline)}. Nothing was reopened",
            **stream.key.facts,
        )


# Reopen: read a slice of a stream again that was committed or skipped. Its ranges, and the write.

RECEIPT = "reopen"
"""The kind of the receipts that record it."""

REOPEN_HOLDER = "reopen/0/0"
"""The holder of the attempt that is recorded for the fence commit of a reopen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The numbers of a piece of a committed range, and the offsets of its rows."""

    accounting: Accounting
    visible: RangeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A range as it will be on record, and the one on record that it is, or is a piece of."""

    record: RangeRecord
    source: RangeRecord

    @property
    def is_read_again(self) -> bool:
        """Return whether the piece is planned again."""
        return self.record.state is RangeState.PLANNED

    @property
    def is_kept(self) -> bool:
        """Return whether it stays committed beside the slice, with a share of the numbers of the range that was cut."""
        return self.record.state is RangeState.COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenDecision:
    """One decision to read a slice again.

    `id` is also the plan that the new `waves` belong to; `version` is the stream's that the decision was made from, and
    `seen` its partition in Kafka; `token` is that of the commit that moves main afterwards: it is of the first wave,
    with its first fence.
    """

    id: str
    pipeline: str
    stream: Stream
    interval: OffsetRange
    version: int
    seen: PartitionSnapshot
    table: str
    token: Token
    reason: str
    cuts: tuple[Cut, ...]
    there: RangeSet
    """The offsets at which the table has a row of these ranges now."""
    restored: int = 0
    """Rows that are gone from the table, and come back."""

    @property
    def waves(self) -> tuple[str, ...]:
        """The new waves, in order."""
        return tuple(dict.fromkeys(cut.record.wave for cut in self.cuts if cut.is_read_again))

    @property
    def sources(self) -> tuple[RangeRecord, ...]:
        """The ranges of the slice as they were on record."""
        return tuple({cut.source.id: cut.source for cut in self.cuts}.values())

    @property
    def offsets(self) -> int:
        """How many offsets are read again."""
        return sum(cut.record.range.span for cut in self.cuts if cut.is_read_again)

    def describe(self, before: int, after: int) -> str:
        """Return the slice that is read again and the reason; the watermark was at `before` and is at `after`."""
        fell = f"watermark {before} → {after}" if after != before else f"watermark {after}"
        generation = max(cut.record.generation for cut in self.cuts if cut.is_read_again)
        accepted = ", fewer rows accepted" if any(cut.record.fewer_accepted for cut in self.cuts) else ""
        accepted += f", {count(self.restored, 'deleted row')} restored" if self.restored else ""
        where = f"{self.stream} {self.interval}"
        return f"{where}, {count(self.offsets, 'offset')}, generation {generation}{accepted}; {fell}: {self.reason}"


def reopening(
    name: str,
    spec: PipelineSpec,
    stream: StreamRecord,
    interval: OffsetRange,
    ranges: Sequence[RangeRecord],
    shares: Mapping[tuple[str, OffsetRange], Share],
    *,
    table: str,
    there: RangeSet,
    seen: PartitionSnapshot,
    weights: Weights,
    segments: Sequence[int],
    attempt: str,
    reason: str,
    accept_fewer: bool,
) -> ReopenDecision:
    """Decide the ranges of a slice; `shares` has the numbers of each piece beside it, by range id.

    `table` is where the rows of the slice are, `there` at which offsets; `weights` are for ranges that no plan has
    weighed. `segments` are the starts of the stream's segments: no wave holds two, as one may have to wait for the
    other. The ranges of the slice must have passed `refuse_uncommitted`.
    """
    again = {"plan": name, "leader_epoch": seen.leader_epoch, "fewer_accepted": accept_fewer}
    cuts = [cut for item in ranges for cut in _cuts(item, interval, shares, again)]
    return ReopenDecision(
        id=name,
        pipeline=spec.name,
        stream=stream.key,
        interval=interval,
        version=stream.version,
        seen=seen,
        table=table,
        token=Token(pipeline=spec.name, wave=_wave(name, 0), attempt=attempt, fence=1, ranges="", kind="fence"),
        reason=reason,
        there=there,
        cuts=tuple(_in_waves(cuts, name, spec.max_wave_bytes, sorted(segments), weights)),
    )


def _cuts(
    item: RangeRecord, interval: OffsetRange, shares: Mapping[tuple[str, OffsetRange], Share], again: Mapping[str, Any]
) -> Iterator[Cut]:
    for part in parts(item, interval):
        piece = item.piece(part)
        if part.overlaps(interval):
            yield Cut(record=_again(piece, again), source=item)
        elif item.state is RangeState.COMMITTED:
            yield Cut(record=_shared(piece, shares[item.id, part]), source=item)
        elif item.state is RangeState.SKIPPED:
            yield Cut(record=replace(piece, accounting=Accounting(skipped=part.span)), source=item)
        else:
            yield Cut(record=piece, source=item)


def _again(piece: RangeRecord, changes: Mapping[str, Any]) -> RangeRecord:
    return replace(
        piece,
        state=RangeState.PLANNED,
        reason=None,
        cause=None,
        rows=None,
        first_offset=None,
        last_offset=None,
        accounting=None,
        held_for=RangeSet(),
        skip=None,
        generation=piece.generation + (piece.state in RESOLVED),
        **changes,
    )


def _shared(piece: RangeRecord, share: Share) -> RangeRecord:
    rows = share.visible.within(piece.range)
    return replace(
        piece,
        rows=share.accounting.visible,
        first_offset=rows.first if rows else None,
        last_offset=rows.last if rows else None,
        accounting=share.accounting,
    )


def _in_waves(cuts: Sequence[Cut], name: str, most: int, segments: Sequence[int], weights: Weights) -> Iterator[Cut]:
    """Put the ranges to read again into waves of at most so many bytes and one segment, in order of offsets."""
    number, size, offsets, count, segment = 0, 0, 0, 0, 0
    for cut in cuts:
        if not cut.is_read_again:
            yield cut
            continue
        here = bisect_right(segments, cut.record.range.start)
        weight = cut.record.estimated_bytes or weights.bytes_of(cut.record.stream, cut.record.range.span)
        size, offsets = size + weight, offsets + cut.record.range.span
        full = size > most or offsets > MAX_WAVE_OFFSETS or count >= MAX_WAVE_RANGES or here != segment
        if count and full:
            number, size, offsets, count = number + 1, weight, cut.record.range.span, 0
        count, segment = count + 1, here
        yield replace(cut, record=replace(cut.record, wave=_wave(name, number), estimated_bytes=weight))


def _wave(name: str, number: int) -> str:
    return f"{name}-w{number}"


class Reopen(Write[int]):
    """Plan a slice again that was committed or skipped; answers with the stream's watermark, which falls to the slice's
    start where it was above: the only other move backwards is a rebuild's.

    Refused with ConcurrentError unless the stream has the version of `what`, and the ranges of its slice are its
    sources. Each range becomes its cuts; the ones read again are in new waves, of which the first has the token's
    attempt, already abandoned, so that the ledger `knows` the token. Puts into the outbox a `reopen` receipt for each
    piece that is read again, with the offsets at which the table has no row of it, and a `published` one for each that
    stays committed of a range that was cut.
    """

    what: ReopenDecision
    actor: str

    def scope(self) -> WriteScope:
        return WriteScope(
            pipeline=self.what.pipeline,
            streams=(self.what.stream,),
            waves=sorted({item.wave for item in self.what.sources} | {*self.what.waves}),
            crossing=Slice(self.what.stream, self.what.interval),
            counts=True,
            attempts=True,
            plan_ids=(self.what.id,),
            configurations=True,
        )

    def decide(self, records: Records) -> Change[int]:
        what = self.what
        stream = self._stream(records)
        assert records.newest is not None
        watermark = max(stream.origin, min(stream.watermark, what.interval.start))
        changed = [
            Edit(before=cut.source if cut.record.id == cut.source.id else None, after=cut.record) for cut in what.cuts
        ]
        homes = {item.wave for item in what.sources if item.state is RangeState.CANCELLED}
        detail = what.describe(stream.watermark, watermark)
        entry = Entry(pipeline=what.pipeline, actor=self.actor, kind="reopen", subject=what.id, detail=detail)
        return Change(
            result=watermark,
            edits=(
                Edit(before=stream, after=replace(stream.next_version, watermark=watermark)),
                *self._plan(records, records.newest),
                *(Edit(after=wave) for wave in self._waves()),
                Edit(after=self._moved_main(records)),
                *dissolved((records.waves[name] for name in sorted(homes)), states_after(records, changed)),
                *changed,
            ),
            outbox=tuple(self._receipts(records)),
            entries=(replace(entry, slices=(Slice(what.stream, what.interval),)),),
        )

    def _stream(self, records: Records) -> StreamRow:
        """Return the stream; refuse when others have changed anything since the reopen was decided."""
        what, stream = self.what, records.streams.get(self.what.stream)
        if stream is None or stream.version != what.version or records.ranges != what.sources:
            raise ConcurrentError(
                f"Stream {what.stream} of pipeline {what.pipeline} was changed by another writer meanwhile. "
                "Nothing was reopened; repeat the call."
            )
        if what.id in records.plans or {*what.waves} & records.waves.keys():
            raise guards.taken_id("plan", what.id)
        return stream

    def _plan(self, records: Records, newest: ConfigurationRow) -> Iterator[Edit]:
        what, now = self.what, records.now
        yield Edit(
            after=PlanRow(
                id=what.id,
                spec=newest.spec,
                version=newest.version,
                observed_at=now,
                recorded_at=now,
                actor=self.actor,
            )
        )
        seen = (what.interval.start, what.interval.end)
        yield Edit(after=SnapshotRow(plan=what.id, seen=what.seen, range=seen, reason=what.reason))

    def _waves(self) -> Iterator[WaveRow]:
        what, token = self.what, self.what.token
        for ordinal, name in enumerate(what.waves):
            fence = token.fence if name == token.wave else 0
            yield WaveRow(id=name, pipeline=what.pipeline, plan=what.id, ordinal=ordinal, table=what.table, fence=fence)

    def _moved_main(self, records: Records) -> AttemptRecord:
        token, now = self.what.token, records.now
        return AttemptRecord(
            wave=token.wave,
            fence=token.fence,
            attempt=token.attempt,
            holder=REOPEN_HOLDER,
            outcome=AttemptOutcome.ABANDONED,
            error=f"moved main for a reopen, by {self.actor}",
            started_at=now,
            ended_at=now,
        )

    def _receipts(self, records: Records) -> Iterator[tuple[str, ReceiptRow]]:
        what, token = self.what, self.what.token
        brought = {item.wave: item for item in records.attempts if item.outcome is AttemptOutcome.COMMITTED}
        for cut in what.cuts:
            if cut.is_read_again or cut.is_kept:
                kind, by = (RECEIPT, token) if cut.is_read_again else ("published", brought[cut.source.wave])
                receipt = range_receipt(kind, cut.record, attempt=by.attempt, fence=by.fence, at=records.now)
                bare = RangeSet((cut.record.range,)) - what.there if cut.is_read_again else None
                yield what.table, replace(receipt, offsets=bare)


def rows_before(item: RangeRecord, receipts: Iterable[ReceiptRow]) -> RangeSet:
    """Return at which offsets of a reopened range the table had a row then, as far as receipts tell: those of older
    versions do not. Rows that were gone when it was last decided to read it again are none."""
    told = [
        row
        for row in receipts
        if (row.kind, row.stream, row.generation) == (RECEIPT, item.stream, item.generation) and row.offsets is not None
    ]
    known = RangeSet.union(RangeSet((row.range,)) for row in told).within(item.range)
    return known - RangeSet.union(row.offsets for row in told if row.offsets)
