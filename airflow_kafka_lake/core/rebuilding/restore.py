"""From a comparison to the one decision, and the one write, that make a ledger agree with the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from functools import partial

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    ENDED_BY_CLAIM,
    ENDED_BY_COMMIT,
    LONGEST,
    BindingRow,
    Change,
    Edit,
    Entry,
    PlanRow,
    Records,
    SkipRow,
    Write,
    WriteScope,
    origin_receipt,
    state_without_planned,
)
from airflow_kafka_lake.core.ledger.decisions import skipped_range
from airflow_kafka_lake.core.ledger.plans import version_of
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import (
    OPEN,
    RESOLVED,
    UNRESOLVED,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream, grouped, merged, offsets_by
from airflow_kafka_lake.core.rebuilding.comparison import (
    RESTORED,
    Edits,
    LakeComparison,
    LedgerMemory,
    PendingSlice,
    Reopens,
    Restoration,
    RestoredPlan,
    RestoredSkip,
    RestoredWave,
    TableReading,
)
from airflow_kafka_lake.core.spec import PipelineSpec

# The effect of a rebuild on recorded ranges: they give way to the proof of the lake.


def edits(
    what: Restoration, ranges: Sequence[RangeRecord], waves: Mapping[str, WaveState], origins: Mapping[Stream, int]
) -> Edits:
    """Decide how recorded ranges give way: a range committed in the lake wins over all, a skip over an unresolved one.

    The rest of a range that is cut keeps its state and wave. Raises ConcurrentError when a committed range is in the
    way: the restoration was made from other records.
    """
    committed = offsets_by((item.stream, item.range) for wave in what.waves for item in wave.receipts)
    skipped = offsets_by((skip.stream, part) for skip in what.skips for part in skip.passed)
    reopened = set(what.reopened)
    missing = reopened - {item.id for item in ranges if item.state is RangeState.COMMITTED}
    if missing:
        raise guards.overtaken_rebuild(what.spec.name)
    removed = set(reopened)
    kept: list[RangeRecord] = []
    cut: list[RangeRecord] = []
    for item in ranges:
        if item.id in reopened:
            continue
        left = _left_of(item, what, committed, skipped)
        if left.span == item.range.span:
            kept.append(item)
            continue
        if item.state is RangeState.COMMITTED:
            raise guards.overtaken_rebuild(what.spec.name)
        removed.add(item.id)
        cut += (replace(item.piece(at), accounting=item.accounting and Accounting(skipped=at.span)) for at in left)
    kept += cut
    published = list(_committed_ranges(what))
    again = list(_planned_again(what, kept))
    passed = list(_skipped_ranges(what, [*kept, *published, *again], origins))
    here = [*kept, *published, *again, *passed]
    covered = offsets_by((item.stream, item.range) for item in here if item.state not in UNRESOLVED)
    return Edits(
        removed=frozenset(removed),
        placed=(*published, *cut, *again, *passed),
        waves=_wave_states(what, ranges, here, waves),
        watermarks={key: covered[key].unbroken_end(origin) for key, origin in origins.items()},
        new_waves={item.wave: item.table for item in what.planned if item.wave in {i.wave for i in again}},
    )


def _left_of(
    item: RangeRecord, what: Restoration, committed: Mapping[Stream, RangeSet], skipped: Mapping[Stream, RangeSet]
) -> RangeSet:
    """Return the part of a recorded range that stays as it is."""
    if item.state is RangeState.PLANNED and item.wave in {wave.wave for wave in what.waves}:
        return NOTHING  # its wave is in the lake without it, and would never run it: it is planned anew
    wins = committed[item.stream] if item.state in RESOLVED else committed[item.stream] | skipped[item.stream]
    return RangeSet((item.range,)) - wins - what.reopens.later_than(item.stream, item.generation)


def _committed_ranges(what: Restoration) -> Iterable[RangeRecord]:
    for wave in what.waves:
        for item in wave.receipts:
            yield RangeRecord(
                id=item.range_id,
                pipeline=what.spec.name,
                plan=what.id,
                wave=wave.wave,
                slice=item.slice,
                state=RangeState.COMMITTED,
                generation=item.generation,
                leader_epoch=item.leader_epoch,
            ).committed(item)


def _planned_again(what: Restoration, kept: Sequence[RangeRecord]) -> Iterable[RangeRecord]:
    """Plan the slices that wait to be read again, less the ledger's own of that generation."""
    for item in what.planned:
        known = (i for i in kept if i.stream == item.stream and i.generation >= item.generation)
        for part in RangeSet((item.range,)) - RangeSet(i.range for i in known):
            yield RangeRecord(
                id=item.id if part.start == item.range.start else f"{item.id}.{part.start}",
                pipeline=what.spec.name,
                plan=what.id,
                wave=item.wave,
                slice=item.slice.part(part),
                state=RangeState.PLANNED,
                estimated_bytes=what.weights.bytes_of(item.stream, part.span),
                generation=item.generation,
                leader_epoch=item.leader_epoch,
            )


def _skipped_ranges(
    what: Restoration, here: Sequence[RangeRecord], origins: Mapping[Stream, int]
) -> Iterable[RangeRecord]:
    resolved = grouped((item.stream, item.range) for item in here if item.state in RESOLVED)
    number = 0
    for skip in what.skips:
        open_ = skip.passed - RangeSet(resolved[skip.stream])
        resolved[skip.stream].extend(open_)
        for part in (piece for gap in open_ for piece in gap.split_at((origins[skip.stream],))):
            record = skipped_range(skip.id, what.spec.name, Slice(skip.stream, part), RESTORED)
            yield replace(record, id=f"{what.id}s{number}", generation=skip.generation)
            number += 1


def _wave_states(
    what: Restoration, before: Sequence[RangeRecord], after: Sequence[RangeRecord], waves: Mapping[str, WaveState]
) -> dict[str, WaveState]:
    """Return the waves whose state changes: the ones in the lake, the ones claimed for this, the ones that lost."""
    found: dict[str, WaveState] = {item.wave: WaveState.COMMITTED for item in what.waves}
    left = grouped((item.wave, item.state) for item in after)
    touched = {item.wave for item in before if item.wave in waves} | {key.wave for key in what.guards}
    reopened = set(what.reopened)  # a wave whose rows are gone; one reopened on purpose keeps its rows
    vanished = {item.wave for item in before if item.id in reopened and not what.reopens.undo(item)}
    for name in touched - found.keys():
        if waves[name] is WaveState.COMMITTED and name not in vanished:
            continue  # it was published, and stays so: its cancelled or reopened ranges have a state of their own
        becomes = _left_with(set(left[name]), waves[name])
        if becomes is not waves[name]:
            found[name] = becomes
    return found


def _left_with(states: set[RangeState], now: WaveState) -> WaveState:
    if now is WaveState.DISSOLVED or (now is WaveState.COMMITTED and RangeState.COMMITTED in states):
        return now
    if now is WaveState.COMMITTED:
        return WaveState.DISSOLVED
    return WaveState.PLANNED if RangeState.PLANNED in states else state_without_planned(states)


# From findings to one decision that makes a ledger agree with the lake.


def restoration(
    spec: PipelineSpec,
    token: Token,
    ledger_id: str,
    *,
    now: datetime,
    readings: Sequence[TableReading],
    known: LedgerMemory,
    comparison: LakeComparison,
) -> Restoration:
    """Turn findings into one decision; new ids are made from the rebuild's."""
    receipts = [row for item in readings for row in item.receipts]
    waves = _numbered(token, comparison.waves, receipts)
    reopens = Reopens.of(receipts)
    skips = _restored_skips(receipts, reopens)
    streams = tuple(_restored_streams(spec, receipts, _origins(readings), {item.key for item in known.streams}))
    reached = _ends(receipts)
    known_origins = {item.key: item.origin for item in known.streams} | {item.key: item.origin for item in streams}
    sent = {row.stream for row in receipts if row.kind == "origin" and row.attempt == ledger_id}
    origins = [
        (table, origin_receipt(spec.name, token.wave, key, origin, ledger_id=ledger_id, at=now))
        for key, origin in sorted(known_origins.items())
        if key not in sent and (table := spec.table_for(key.topic)) in {item.table for item in readings}
    ]
    return Restoration(
        spec=spec,
        token=token,
        observed_at=now,
        versions={stream.key: stream.version for stream in known.streams},
        guards=known.guards,
        tables={item.table: item.uuid for item in readings},
        streams=streams,
        ends={
            item.key: reached[item.key]
            for item in known.streams
            if item.key in reached and reached[item.key][0] > item.end_seen
        },
        waves=waves,
        skips=skips,
        reopened=comparison.reopened,
        undone=frozenset(item.wave for reading in readings for item in known.undone(reading)),
        fences=_fences(readings),
        receipts=(*comparison.receipts, *origins),
        reopens=reopens,
        planned=_planned(token, comparison.pending, receipts),
    )


def _numbered(token: Token, waves: Sequence[RestoredWave], receipts: Iterable[ReceiptRow]) -> tuple[RestoredWave, ...]:
    """Give ranges their ids, and the leader epoch that their attempt has read them under: a log that was cut since has
    other records there."""
    read = grouped(((row.attempt, row.stream), row) for row in receipts)
    numbers = iter(range(sum(len(wave.receipts) for wave in waves)))
    return tuple(
        replace(
            wave,
            receipts=tuple(
                replace(
                    item,
                    range_id=f"{token.wave}r{next(numbers)}",
                    leader_epoch=_epoch(read[wave.attempt, item.stream], item.range),
                )
                for item in wave.receipts
            ),
        )
        for wave in waves
    )


def _epoch(receipts: Iterable[ReceiptRow], part: OffsetRange) -> int | None:
    """Return the leader epoch under which offsets were read last; None where no receipt has it."""
    read = [row for row in receipts if row.kind == "rows" and row.range.overlaps(part)]
    return max(read, key=lambda row: row.recorded_at).leader_epoch if read else None


def _planned(token: Token, pending: Sequence[PendingSlice], receipts: Sequence[ReceiptRow]) -> tuple[RestoredPlan, ...]:
    """Put slices that wait to be read again into waves of their own: one may have to wait for the other."""
    return tuple(
        RestoredPlan(
            id=f"{token.wave}p{number}",
            wave=f"{token.wave}-w{number}",
            table=item.table,
            slice=item.slice,
            generation=item.generation,
            leader_epoch=_epoch((row for row in receipts if row.stream == item.stream), item.range),
        )
        for number, item in enumerate(pending)
    )


def _restored_skips(receipts: Iterable[ReceiptRow], reopens: Reopens) -> tuple[RestoredSkip, ...]:
    """Return the skips, less the parts reopened since."""
    skipped = (row for row in receipts if row.kind == "skip")
    found = grouped(((row.attempt, row.stream, row.generation), row) for row in skipped)
    skips = [
        RestoredSkip(
            id=name,
            stream=stream,
            at=rows[0].recorded_at,
            passed=RangeSet(row.range for row in rows) - reopens.later_than(stream, generation),
            generation=generation,
        )
        for (name, stream, generation), rows in found.items()
    ]
    return tuple(sorted((skip for skip in skips if skip.passed), key=lambda skip: (skip.at, skip.id)))


def _origins(readings: Iterable[TableReading]) -> Mapping[Stream, int]:
    """Return the origins that the lake has receipts of: of the ledger that owned the topic last, or else the first.

    A planner of a lost ledger may send its decision long after another ledger decided anew.
    """
    origins: dict[Stream, int] = {}
    for reading in readings:
        sent = (row for row in reading.receipts if row.kind == "origin")
        for row in sorted(
            sent, key=lambda row: (row.attempt != reading.owners.get(row.stream.topic_id), row.recorded_at)
        ):
            origins.setdefault(row.stream, row.range.start)
    return origins


def _restored_streams(
    spec: PipelineSpec, receipts: Sequence[ReceiptRow], origins: Mapping[Stream, int], known: AbstractSet[Stream]
) -> Iterator[StreamRow]:
    """Yield the streams that the ledger lacks, at their origins and before their first version.

    Where the lake has no receipt of one, it is the smallest offset that any other receipt names.
    """
    ends = _ends(receipts)
    starts = merged(min, ((row.stream, row.range.start) for row in receipts if row.kind != "origin"))
    for key in sorted({*starts, *origins} - known):
        origin = origins[key] if key in origins else starts[key]
        end, epoch = ends.get(key, (origin, None))
        new = StreamRow(
            pipeline=spec.name, key=key, origin=origin, watermark=origin, version=0, end_seen=max(origin, end)
        )
        yield replace(new, leader_epoch=epoch)


def _ends(receipts: Iterable[ReceiptRow]) -> Mapping[Stream, tuple[int, int | None]]:
    """Return the highest end in a stream's receipts, and the leader epoch that its log had that end under.

    Of several with one end the last of a read or a skip counts: a skip of lost records accepts the log as it is.
    """
    reached = partial(max, key=lambda row: (row.range.end, row.kind in {"rows", "skip"}, row.recorded_at))
    ends = merged(reached, ((row.stream, row) for row in receipts if row.kind != "origin"))
    return {key: (row.range.end, row.leader_epoch) for key, row in ends.items()}


def _fences(readings: Sequence[TableReading]) -> dict[str, int]:
    seen = [(row.wave, row.fence) for item in readings for row in item.receipts]
    tokens = (commit.token for item in readings for commit in item.commits if commit.token)
    return merged(max, (*seen, *((token.wave, token.fence) for token in tokens)))


# The end of a rebuild: one write that makes the record agree with the lake.


class Restore(Write[Edits]):
    """Make the record agree with the lake: the end of a rebuild.

    Refused with ConcurrentError unless the pipeline's streams have the versions of `what`, and every open wave is held
    by one of its guards. Ranges committed or skipped in the lake are recorded, under the waves and attempts that it
    names; records in their way give way as `core.rebuilding.restore` decides; the guards' attempts end. Watermarks only
    fall here, to the end of the remaining committed ranges; `advance` moves them on. Fences rise to the highest the
    lake has seen. From then on the ledger `knows` the rebuild's token.
    """

    what: Restoration
    actor: str

    def scope(self) -> WriteScope:
        return WriteScope(
            pipeline=self.what.spec.name,
            every=True,
            waves=[item.wave for item in self.what.in_order],
            attempts=True,
            attempt_ids=[item.attempt for item in self.what.in_order],
            plan_ids=(self.what.id,),
            skips=[item.id for item in self.what.skips],
            tables=True,
            configurations=True,
            digest=self.what.spec.digest,
        )

    def decide(self, records: Records) -> Change[Edits]:
        what, name = self.what, self.what.spec.name
        _refuse_overtaken(what, records)
        streams = _known_streams(what, records)
        changed = edits(
            what,
            records.ranges,
            {wave.id: wave.state for wave in records.waves.values() if wave.pipeline == name},
            {key: row.origin for key, row in streams.items()},
        )
        version, configured = version_of(records, what.spec)
        plan = PlanRow(
            id=what.id,
            spec=what.spec,
            version=version,
            observed_at=what.observed_at,
            recorded_at=records.now,
            actor=self.actor,
        )
        ranges = {item.id: item for item in records.ranges}
        return Change(
            result=changed,
            edits=(
                *configured,
                *_tables(what, records),
                Edit(after=plan),
                *(
                    Edit(
                        before=records.streams.get(key),
                        after=replace(streams[key].next_version, watermark=min(streams[key].watermark, at)),
                    )
                    for key, at in changed.watermarks.items()
                ),
                *_Waves(records).restored(what, changed),
                *_skips(what, records),
                *(Edit(before=ranges[item]) for item in sorted(changed.removed)),
                *(Edit(after=item) for item in changed.placed),
            ),
            outbox=tuple((table, replace(row, recorded_at=records.now)) for table, row in what.receipts),
            entries=(Entry(pipeline=name, actor=self.actor, kind="rebuild", subject=what.id, detail=_numbers(what)),),
        )


def _numbers(what: Restoration) -> str:
    """Return the numbers of ranges that a rebuild brought back, and reopened."""
    ranges = sum(len(wave.receipts) for wave in what.waves)
    text = ", ".join((count(len(what.waves), "wave"), count(ranges, "range"), count(len(what.skips), "skip")))
    text += " found in the lake"
    if not what.reopened:
        return text
    reopened = count(len(what.reopened), "range")
    return f"{text}; {reopened} reopened, the rows are gone: {', '.join(what.reopened)[:LONGEST]}"


def _refuse_overtaken(what: Restoration, records: Records) -> None:
    """Refuse when others have decided or claimed something since.

    All waves are locked, not the open ones only: a claim of a planned one meanwhile would work on ranges that are cut.
    """
    name = what.spec.name
    versions = {key: row.version for key, row in records.streams.items()}
    mine = [wave for wave in records.waves.values() if wave.pipeline == name and wave.state in OPEN]
    open_ = {(wave.id, wave.fence, wave.attempt) for wave in mine}
    held = {(key.wave, key.fence, key.attempt) for key in what.guards}
    if versions != dict(what.versions) or open_ != held or what.id in records.plans:
        raise guards.overtaken_rebuild(name)


def _tables(what: Restoration, records: Records) -> Iterator[Edit]:
    for table, uuid in what.tables.items():
        new = BindingRow(pipeline=what.spec.name, table=table, uuid=uuid)
        known = records.tables.get(table)
        yield Edit(before=None if known is None else replace(new, uuid=known), after=new)


def _known_streams(what: Restoration, records: Records) -> dict[Stream, StreamRow]:
    """Return the streams with the lake's own, and with the ends that the lake has seen."""
    found = {**records.streams, **{row.key: row for row in what.streams}}
    for key, (end, epoch) in what.ends.items():
        found[key] = replace(found[key], end_seen=end, leader_epoch=epoch)
    return found


def _skips(what: Restoration, records: Records) -> Iterator[Edit]:
    for name, parts in grouped((item.id, item) for item in what.skips if item.id not in records.skips).items():
        passed = RangeSet.union(item.passed for item in parts)  # of each generation a part
        yield Edit(
            after=SkipRow(
                id=name,
                pipeline=what.spec.name,
                slice=Slice(parts[0].stream, OffsetRange(passed.ranges[0].start, passed.ranges[-1].end)),
                offsets=passed.span,
                reason=RESTORED,
                actor="rebuild",
                at=parts[0].at,
                acknowledged=False,
            )
        )


class _Waves:
    """Waves and attempts as they become, and as they are on record."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.waves = dict(records.waves)
        self.attempts = {item.attempt: item for item in records.attempts}

    def restored(self, what: Restoration, changed: Edits) -> Iterator[Edit]:
        """Decide about each, and return the edits."""
        name = what.spec.name
        for ordinal, item in enumerate(what.in_order):
            new = WaveRow(id=item.wave, pipeline=name, plan=what.id, ordinal=ordinal, table=item.table)
            self._publish(item, self.waves.get(item.wave, new))
        for ordinal, (wave, table) in enumerate(changed.new_waves.items(), len(what.in_order)):
            self.waves[wave] = WaveRow(id=wave, pipeline=name, plan=what.id, ordinal=ordinal, table=table)
        for wave in sorted({*changed.waves, *(key.wave for key in what.guards)}):
            row = self.waves[wave]
            self.waves[wave] = row.free(changed.waves.get(wave, row.state))
            gone = self.waves[wave].state is WaveState.DISSOLVED
            self._abandon(wave, ENDED_BY_CLAIM | ({AttemptOutcome.COMMITTED} if gone else set()))
        for wave in what.undone & self.waves.keys():
            self.waves[wave] = replace(self.waves[wave], snapshot=None)
        for wave, fence in what.fences.items():
            known = self.waves.get(wave)
            if known is not None and known.pipeline == name:
                self.waves[wave] = replace(known, fence=max(fence, known.fence))
        return self._edits()

    def _publish(self, item: RestoredWave, row: WaveRow) -> None:
        """Record a wave as COMMITTED by an attempt; one that the ledger knows keeps its place and its own fence."""
        known = self.attempts.get(item.attempt)
        self._abandon(item.wave, ENDED_BY_COMMIT)
        fences = [other.fence for other in self.attempts.values() if other.wave == item.wave]
        if known is None:
            known = AttemptRecord(
                wave=item.wave,
                fence=item.fence,
                attempt=item.attempt,
                holder=guards.RESTORED_HOLDER,
                started_at=item.at,
            )
            fences.append(self._make_room(item, max([row.fence, item.fence, *fences])))
        self.attempts[item.attempt] = known.committed(item.at)
        self.waves[item.wave] = replace(
            row.free(WaveState.COMMITTED),
            fence=max([row.fence, known.fence, *fences]),
            snapshot=item.snapshot,
            committed_at=row.committed_at or item.at,
        )

    def _make_room(self, item: RestoredWave, highest: int) -> int:
        """Return the fence of another attempt that had this one's: the older ledger gave it out again, after the
        lake's, so it gets a new number."""
        for other in self.attempts.values():
            if (other.wave, other.fence) == (item.wave, item.fence):
                self.attempts[other.attempt] = replace(other, fence=highest + 1)
                return highest + 1
        return item.fence

    def _abandon(self, wave: str, outcomes: Collection[AttemptOutcome]) -> None:
        for item in [item for item in self.attempts.values() if item.wave == wave and item.outcome in outcomes]:
            self.attempts[item.attempt] = item.abandoned(self.records.now)

    def _edits(self) -> Iterator[Edit]:
        before = {item.attempt: item for item in self.records.attempts}
        for name, wave in self.waves.items():
            if (known := self.records.waves.get(name)) != wave:
                yield Edit(before=known, after=wave)
        for name, attempt in self.attempts.items():
            if (earlier := before.get(name)) != attempt:
                yield Edit(before=earlier, after=attempt)
