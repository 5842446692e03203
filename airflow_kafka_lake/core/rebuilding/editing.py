"""What a rebuild does to recorded ranges: they give way to what the lake proves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger.guards import overtaken_rebuild
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.wave_changes import state_without_planned
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNRESOLVED, RangeState, WaveState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.planning.packing import UNMEASURED_BYTES_PER_OFFSET
from airflow_kafka_lake.core.rebuilding.restoration import RESTORED, Edits, Placed, Restoration, RestoredSkip
from airflow_kafka_lake.core.slices import Slice, Stream


def edits(
    what: Restoration,
    ranges: Sequence[RangeRecord],
    waves: Mapping[str, WaveState],
    origins: Mapping[Stream, int],
) -> Edits:
    """Decide how recorded ranges give way: what is committed in the lake wins over all, a skip over what is unresolved.

    The rest of a range that is cut keeps its state and wave. Raises ConcurrentError when a committed range is in the
    way: the restoration was made from other records.
    """
    committed, skipped = _facts(what)
    reopened = set(what.reopened)
    missing = reopened - {item.id for item in ranges if item.state is RangeState.COMMITTED}
    if missing:
        raise _overtaken(what)
    removed, placed = set(reopened), list(_committed_ranges(what))
    kept: list[RangeRecord] = []
    for item in ranges:
        if item.id in reopened:
            continue
        left = _left_of(item, what, committed, skipped)
        if left.span == item.range.span:
            kept.append(item)
            continue
        if item.state is RangeState.COMMITTED:
            raise _overtaken(what)
        removed.add(item.id)
        parts = [_piece(item, part) for part in left]
        kept += parts
        placed += [Placed(record=part, source=item.id) for part in parts]
    again = list(_planned_again(what, kept))
    placed += again
    here = [*kept, *(item.record for item in placed if item.source is None)]
    passed = list(_skipped_ranges(what, here, origins))
    here += [item.record for item in passed]
    return Edits(
        removed=frozenset(removed),
        placed=(*placed, *passed),
        waves=_wave_states(what, ranges, here, waves),
        watermarks=_reached(here, origins),
        new_waves={item.wave: item.table for item in what.planned if item.wave in {i.record.wave for i in again}},
    )


def _facts(what: Restoration) -> tuple[Mapping[Stream, RangeSet], Mapping[Stream, RangeSet]]:
    committed: dict[Stream, list[OffsetRange]] = defaultdict(list)
    skipped: dict[Stream, list[OffsetRange]] = defaultdict(list)
    for wave in what.waves:
        for item in wave.receipts:
            committed[item.stream].append(item.range)
    for skip in what.skips:
        skipped[skip.stream].extend(skip.passed)
    return (
        defaultdict(RangeSet, {key: RangeSet(found) for key, found in committed.items()}),
        defaultdict(RangeSet, {key: RangeSet(found) for key, found in skipped.items()}),
    )


def _left_of(
    item: RangeRecord, what: Restoration, committed: Mapping[Stream, RangeSet], skipped: Mapping[Stream, RangeSet]
) -> RangeSet:
    """Return what of a recorded range stays as it is."""
    if _left_behind(item, what):
        return NOTHING
    wins = committed[item.stream] if item.state in RESOLVED else committed[item.stream] | skipped[item.stream]
    return RangeSet((item.range,)) - wins - what.reopens.later_than(item.stream, item.generation)


def _left_behind(item: RangeRecord, what: Restoration) -> bool:
    """Return whether a range would never be run: its wave is in the lake without it. It is planned anew."""
    return item.state is RangeState.PLANNED and item.wave in {wave.wave for wave in what.waves}


def _overtaken(what: Restoration) -> ConcurrentError:
    return overtaken_rebuild(what.spec.name)


def _piece(item: RangeRecord, part: OffsetRange) -> RangeRecord:
    return replace(item.piece(part), accounting=item.accounting and Accounting(skipped=part.span))


def _committed_ranges(what: Restoration) -> Iterable[Placed]:
    for wave in what.waves:
        for item in wave.receipts:
            yield Placed(
                record=RangeRecord(
                    id=item.range_id,
                    pipeline=what.spec.name,
                    plan=what.id,
                    wave=wave.wave,
                    slice=item.slice,
                    state=RangeState.COMMITTED,
                    reason=None,
                    estimated_bytes=0,
                    rows=item.rows,
                    first_offset=item.first_offset,
                    last_offset=item.last_offset,
                    accounting=item.accounting,
                    generation=item.generation,
                    leader_epoch=item.leader_epoch,
                )
            )


def _planned_again(what: Restoration, kept: Sequence[RangeRecord]) -> Iterable[Placed]:
    """Plan what waits to be read again, less what the ledger knows of it in that generation."""
    for item in what.planned:
        known = (i for i in kept if i.stream == item.stream and i.generation >= item.generation)
        for part in RangeSet((item.range,)) - RangeSet(i.range for i in known):
            record = RangeRecord(
                id=item.id if part.start == item.range.start else f"{item.id}.{part.start}",
                pipeline=what.spec.name,
                plan=what.id,
                wave=item.wave,
                slice=Slice(item.stream, part),
                state=RangeState.PLANNED,
                reason=None,
                estimated_bytes=round(UNMEASURED_BYTES_PER_OFFSET * part.span),
                generation=item.generation,
                leader_epoch=item.leader_epoch,
            )
            yield Placed(record=record)


def _skipped_ranges(what: Restoration, here: Sequence[RangeRecord], origins: Mapping[Stream, int]) -> Iterable[Placed]:
    resolved: dict[Stream, list[OffsetRange]] = defaultdict(list)
    for item in here:
        if item.state in RESOLVED:
            resolved[item.stream].append(item.range)
    number = 0
    for skip in what.skips:
        open_ = skip.passed - RangeSet(resolved[skip.stream])
        resolved[skip.stream].extend(open_)
        for part in (piece for gap in open_ for piece in gap.split_at((origins[skip.stream],))):
            yield Placed(record=_passed(what, skip, part, number))
            number += 1


def _passed(what: Restoration, skip: RestoredSkip, part: OffsetRange, number: int) -> RangeRecord:
    return RangeRecord(
        id=f"{what.id}s{number}",
        pipeline=what.spec.name,
        plan=skip.id,
        wave=skip.id,
        slice=Slice(skip.stream, part),
        state=RangeState.SKIPPED,
        reason=RESTORED,
        estimated_bytes=0,
        rows=0,
        accounting=Accounting(skipped=part.span),
        generation=skip.generation,
        skip=skip.id,
    )


def _wave_states(
    what: Restoration, before: Sequence[RangeRecord], after: Sequence[RangeRecord], waves: Mapping[str, WaveState]
) -> dict[str, WaveState]:
    """Return the waves whose state changes: those in the lake, those that were claimed for this, those that lost."""
    found: dict[str, WaveState] = {item.wave: WaveState.COMMITTED for item in what.waves}
    left: dict[str, set[RangeState]] = defaultdict(set)
    for item in after:
        left[item.wave].add(item.state)
    touched = {item.wave for item in before if item.wave in waves} | {key.wave for key in what.guards}
    vanished = _vanished(what, before)
    for name in touched - found.keys():
        if waves[name] is WaveState.COMMITTED and name not in vanished:
            continue  # it was published, and stays so: what was cancelled or reopened of it has a state of its own
        becomes = _left_with(left[name], waves[name])
        if becomes is not waves[name]:
            found[name] = becomes
    return found


def _vanished(what: Restoration, before: Iterable[RangeRecord]) -> set[str]:
    """Return the waves of which rows are gone from the lake; what a person reopened keeps its rows."""
    reopened = set(what.reopened)
    return {
        item.wave
        for item in before
        if item.id in reopened and not what.reopens.undo(item.stream, item.range, item.generation)
    }


def _left_with(states: set[RangeState], now: WaveState) -> WaveState:
    if now is WaveState.DISSOLVED or (now is WaveState.COMMITTED and RangeState.COMMITTED in states):
        return now
    if now is WaveState.COMMITTED:
        return WaveState.DISSOLVED
    return WaveState.PLANNED if RangeState.PLANNED in states else state_without_planned(states)


def _reached(here: Sequence[RangeRecord], origins: Mapping[Stream, int]) -> dict[Stream, int]:
    covered: dict[Stream, list[OffsetRange]] = defaultdict(list)
    for item in here:
        if item.state not in UNRESOLVED:
            covered[item.stream].append(item.range)
    return {key: RangeSet(covered[key]).unbroken_end(origin) for key, origin in origins.items()}
