"""Reopen: rewind a slice of a stream that was committed or skipped. Which ranges it takes, and what becomes of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import StateError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger.holds import HoldReason
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import ON_HOLD, RESOLVED, RangeState, Token
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.planning.packing import MAX_WAVE_OFFSETS, MAX_WAVE_RANGES, UNMEASURED_BYTES_PER_OFFSET
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a piece of a committed range counts, and the offsets of its rows."""

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
    def is_reopened(self) -> bool:
        """Return whether it was committed or skipped until now; a range on hold has its smaller result accepted."""
        return self.is_read_again and self.source.state in RESOLVED

    @property
    def is_kept(self) -> bool:
        """Return whether it stays committed beside the slice, with a share of the numbers of the range that was cut."""
        return self.record.state is RangeState.COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopening:
    """One decision to read a slice again.

    `id` is also the plan that the new `waves` belong to; `version` is the stream's that the decision was made from, and
    `seen` what Kafka had of it; `token` is what the commit says that moves main afterwards: it is of the
    first wave, with its first fence.
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
            topic=stream.key.topic,
            partition=stream.key.partition,
        )
    return next(iter(found), spec.table_for(stream.key.topic))


def to_be_shared(ranges: Sequence[RangeRecord], interval: OffsetRange) -> tuple[RangeRecord, ...]:
    """Return the committed ranges that an edge of the slice cuts: the numbers of their pieces are needed."""
    return tuple(item for item in ranges if item.state is RangeState.COMMITTED and len(parts(item, interval)) > 1)


def parts(item: RangeRecord, interval: OffsetRange) -> tuple[OffsetRange, ...]:
    """Return the pieces of a range beside and inside the slice."""
    return item.range.split_at((interval.start, interval.end))


def refuse_uncommitted(
    stream: StreamRecord, pipeline: str, interval: OffsetRange, ranges: Sequence[RangeRecord], *, accept_fewer: bool
) -> None:
    """Refuse a slice that is not committed or skipped as a whole, saying what its offsets are.

    With `accept_fewer`, what is on hold after it was reopened is taken too: that is how its smaller result is accepted.
    """
    where = f"{stream.key}"
    for item in ranges:
        if item.state in RESOLVED or (accept_fewer and item.generation and item.state in ON_HOLD):
            continue
        if item.state is RangeState.PLANNED:
            words = f"it is planned, and not read yet. Run it with: {remedies.ingest(item.wave)}"
        else:
            words = f"it is {item.state.lower()}: {HoldReason.of(item).text}"
        raise StateError(
            f"range {item.range} of {where} is not committed: {words}. Nothing was reopened",
            range=item.id,
            wave=item.wave,
        )
    if unplanned := RangeSet((interval,)) - RangeSet(item.range for item in ranges):
        raise StateError(
            f"offsets {unplanned} of {where} are neither committed nor skipped: nobody has planned them. Bring them in "
            f"with: {remedies.run(pipeline)}. Nothing was reopened",
            topic=stream.key.topic,
            partition=stream.key.partition,
        )


def reopening(
    name: str,
    spec: PipelineSpec,
    stream: StreamRecord,
    interval: OffsetRange,
    ranges: Sequence[RangeRecord],
    shares: Mapping[tuple[str, OffsetRange], Share],
    *,
    table: str,
    seen: PartitionSnapshot,
    segments: Sequence[int],
    attempt: str,
    reason: str,
    accept_fewer: bool,
) -> Reopening:
    """Decide what becomes of the ranges of a slice; `shares` has the numbers of each piece beside it, by range id.

    `table` is where the rows of the slice are. `segments` are the starts of the stream's segments: no wave holds two,
    as one may have to wait for the other. The ranges of the slice must have passed `refuse_uncommitted`.
    """
    again = {"plan": name, "leader_epoch": seen.leader_epoch, "fewer_accepted": accept_fewer}
    cuts = [cut for item in ranges for cut in _cuts(item, interval, shares, again)]
    return Reopening(
        id=name,
        pipeline=spec.name,
        stream=stream.key,
        interval=interval,
        version=stream.version,
        seen=seen,
        table=table,
        token=Token(pipeline=spec.name, wave=_wave(name, 0), attempt=attempt, fence=1, ranges="", kind="fence"),
        reason=reason,
        cuts=tuple(_in_waves(cuts, name, spec.max_wave_bytes, sorted(segments))),
    )


def _cuts(
    item: RangeRecord,
    interval: OffsetRange,
    shares: Mapping[tuple[str, OffsetRange], Share],
    again: Mapping[str, Any],
) -> Iterator[Cut]:
    for part in parts(item, interval):
        piece = item.piece(part)
        size = piece.estimated_bytes or round(UNMEASURED_BYTES_PER_OFFSET * part.span)
        piece = replace(piece, estimated_bytes=size)
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


def _in_waves(cuts: Sequence[Cut], name: str, most_bytes: int, segments: Sequence[int]) -> Iterator[Cut]:
    """Put what is read again into waves of at most so many bytes and one segment, in order of offsets."""
    number, size, offsets, count, segment = 0, 0, 0, 0, 0
    for cut in cuts:
        if not cut.is_read_again:
            yield cut
            continue
        here = bisect_right(segments, cut.record.range.start)
        size, offsets = size + cut.record.estimated_bytes, offsets + cut.record.range.span
        full = size > most_bytes or offsets > MAX_WAVE_OFFSETS or count >= MAX_WAVE_RANGES or here != segment
        if count and full:
            number, size, offsets, count = number + 1, cut.record.estimated_bytes, cut.record.range.span, 0
        count, segment = count + 1, here
        yield replace(cut, record=replace(cut.record, wave=_wave(name, number)))


def _wave(name: str, number: int) -> str:
    return f"{name}-w{number}"
