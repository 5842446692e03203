"""The end of a rebuild: one write that makes the record agree with the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import LONGEST, Change, Edit, Entry, Records, Scope, Write
from airflow_kafka_lake.core.ledger.plans import version_of
from airflow_kafka_lake.core.ledger.records import WaveRow
from airflow_kafka_lake.core.ledger.rows import BindingRow, PlanRow, SkipRow
from airflow_kafka_lake.core.ledger.streams import StreamRow
from airflow_kafka_lake.core.ledger.wave_changes import ENDED_BY_CLAIM, ENDED_BY_COMMIT
from airflow_kafka_lake.core.ledger.waves import OPEN, AttemptOutcome, AttemptRecord, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.rebuilding.editing import edits
from airflow_kafka_lake.core.rebuilding.restoration import RESTORED, Edits, Restoration, RestoredWave
from airflow_kafka_lake.core.slices import Slice, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Write[Edits]):
    """Make the record agree with the lake: the end of a rebuild.

    Refused with ConcurrentError unless the pipeline's streams have the versions of `what`, and every open wave is held
    by one of its guards. What is committed or skipped in the lake is recorded, under the waves and attempts that it
    names; what was recorded in its way gives way as `core.rebuilding.editing` decides; the guards' attempts end.
    Watermarks only fall here, to the end of what is left committed; `advance` moves them on. Fences rise to the highest
    the lake has seen. From then on the ledger `knows` the rebuild's token.
    """

    name: ClassVar[str] = "restore"
    what: Restoration
    actor: str

    def scope(self) -> Scope:
        what = self.what
        return Scope(
            pipeline=what.spec.name,
            every=True,
            waves=[item.wave for item in what.in_order],
            attempts=True,
            attempt_ids=[item.attempt for item in what.in_order],
            plan_ids=(what.id,),
            skips=[item.id for item in what.skips],
            tables=True,
            configurations=True,
            digest=what.spec.digest,
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
            detail={},
        )
        ranges = {item.id: item for item in records.ranges}
        return Change(
            result=changed,
            edits=(
                *configured,
                *_tables(what, records),
                Edit(after=plan),
                *_streams(streams, changed, records),
                *_Waves.of(records).restored(what, changed),
                *_skips(what, records),
                *(Edit(before=ranges[item]) for item in sorted(changed.removed)),
                *(Edit(after=item.record) for item in changed.placed),
            ),
            outbox=tuple((table, replace(row, recorded_at=records.now)) for table, row in what.receipts),
            entries=(Entry(pipeline=name, actor=self.actor, kind="rebuild", subject=what.id, detail=_numbers(what)),),
        )


def _numbers(what: Restoration) -> str:
    """Return what a rebuild brought back, and what it reopened."""
    ranges = sum(len(wave.receipts) for wave in what.waves)
    text = ", ".join((count(len(what.waves), "wave"), count(ranges, "range"), count(len(what.skips), "skip")))
    text += " found in the lake"
    if not what.reopened:
        return text
    reopened = count(len(what.reopened), "range")
    return f"{text}; {reopened} reopened, the rows are gone: {', '.join(what.reopened)[:LONGEST]}"


def _refuse_overtaken(what: Restoration, records: Records) -> None:
    """Refuse when others have decided or claimed something since.

    All waves are locked, not the open ones only: who claimed a planned one meanwhile would work on ranges that are cut.
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
    """Return the streams with those that only the lake knows, and with the ends that the lake has seen."""
    new = {
        item.stream: StreamRow(
            pipeline=what.spec.name,
            key=item.stream,
            origin=item.origin,
            watermark=item.origin,
            version=0,
            end_seen=item.end_seen,
            leader_epoch=item.leader_epoch,
        )
        for item in what.streams
    }
    found = {**records.streams, **new}
    for key, (end, epoch) in what.ends.items():
        found[key] = replace(found[key], end_seen=end, leader_epoch=epoch)
    return found


def _streams(streams: Mapping[Stream, StreamRow], changed: Edits, records: Records) -> Iterator[Edit]:
    for key, reached in changed.watermarks.items():
        row = streams[key]
        yield Edit(
            before=records.streams.get(key), after=replace(row.next_version, watermark=min(row.watermark, reached))
        )


def _skips(what: Restoration, records: Records) -> Iterator[Edit]:
    new = {item.id: item for item in reversed(what.skips) if item.id not in records.skips}
    for item in reversed(new.values()):
        passed = OffsetRange(item.passed.ranges[0].start, item.passed.ranges[-1].end)
        yield Edit(
            after=SkipRow(
                id=item.id,
                pipeline=what.spec.name,
                slice=Slice(item.stream, passed),
                offsets=item.passed.span,
                reason=RESTORED,
                actor="rebuild",
                at=item.at,
                acknowledged=False,
            )
        )


@dataclass(slots=True)
class _Waves:
    """Waves and attempts as they become, and as they are on record."""

    records: Records
    waves: dict[str, WaveRow] = field(default_factory=dict)
    attempts: dict[str, AttemptRecord] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Records) -> _Waves:
        return cls(records, dict(records.waves), {item.attempt: item for item in records.attempts})

    def restored(self, what: Restoration, changed: Edits) -> Iterator[Edit]:
        """Decide about each, and return what is different."""
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
            known = _restored(item)
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


def _restored(item: RestoredWave) -> AttemptRecord:
    return AttemptRecord(
        wave=item.wave, fence=item.fence, attempt=item.attempt, holder=guards.RESTORED_HOLDER, started_at=item.at
    )
