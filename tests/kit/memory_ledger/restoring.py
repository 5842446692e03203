"""The part of the memory ledger that a rebuild writes."""

from __future__ import annotations

from dataclasses import replace

from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.rows import BindingRow, ConfigurationRow, SkipRow, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import OPEN, AttemptOutcome, AttemptRecord, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.rebuilding.editing import edits
from airflow_kafka_lake.core.rebuilding.restoration import RESTORED, Edits, Restoration, RestoredSkip, RestoredWave
from airflow_kafka_lake.core.slices import Slice
from tests.kit.memory_ledger.attempts import MemoryAttempts
from tests.kit.memory_ledger.state import State


class MemoryRestoring(MemoryAttempts):
    """Streams first, then waves and attempts, then ranges, as they refer to each other."""

    def reinstate(self, what: Restoration, actor: str) -> Edits:
        with self._writing() as draft:
            self._refuse_other_records(draft, what)
            name = what.spec.name
            if not any(row.digest == what.spec.digest for row in draft.specs.get(name, ())):
                known = draft.specs.get(name, ())
                new = ConfigurationRow(version=len(known) + 1, spec=what.spec, recorded_at=self._clock.now())
                draft.specs[name] = (*known, new)
            draft.plans[what.id] = what.spec
            for table, uuid in what.tables.items():
                draft.tables[name, table] = BindingRow(pipeline=name, table=table, uuid=uuid)
            self._restore_streams(draft, what)
            changed = edits(
                what,
                [item for item in draft.ranges.values() if item.pipeline == name],
                {wave.id: wave.state for wave in draft.waves.values() if wave.pipeline == name},
                {key: row.origin for (owner, key), row in draft.streams.items() if owner == name},
            )
            self._restore_waves(draft, what, changed)
            for gone in changed.removed:
                del draft.ranges[gone]
            draft.ranges.update({item.record.id: item.record for item in changed.placed})
            for skip in what.skips:
                draft.skips.setdefault(skip.id, _skipped(name, skip))
            self._restore_watermarks(draft, what, changed)
            for table, row in what.receipts:
                self._send(draft, table, row)
            self._event(draft, name, actor, "rebuild", what.id, history.rebuilt(what))
            return changed

    def _refuse_other_records(self, draft: State, what: Restoration) -> None:
        name = what.spec.name
        versions = {key: row.version for (owner, key), row in draft.streams.items() if owner == name}
        open_ = [wave for wave in draft.waves.values() if wave.pipeline == name and wave.state in OPEN]
        held = {item.wave: item for item in what.guards}
        others = [wave.id for wave in open_ if wave.id not in held or not self._holds(wave, held[wave.id])]
        if versions != dict(what.versions) or others or len(open_) != len(held) or what.id in draft.plans:
            raise guards.overtaken_rebuild(name)

    def _restore_streams(self, draft: State, what: Restoration) -> None:
        for item in what.streams:
            draft.streams[what.spec.name, item.stream] = StreamRow(
                pipeline=what.spec.name,
                key=item.stream,
                origin=item.origin,
                watermark=item.origin,
                version=0,
                end_seen=item.end_seen,
                leader_epoch=item.leader_epoch,
            )
        for key, (end, epoch) in what.ends.items():
            row = draft.streams[what.spec.name, key]
            draft.streams[what.spec.name, key] = replace(row, end_seen=end, leader_epoch=epoch)

    def _restore_waves(self, draft: State, what: Restoration, changed: Edits) -> None:
        for ordinal, item in enumerate(what.in_order):
            self._restore_wave(draft, what, item, ordinal)
        for ordinal, (name, table) in enumerate(changed.new_waves.items(), len(what.in_order)):
            new = WaveRow(id=name, pipeline=what.spec.name, plan=what.id, ordinal=ordinal, table=table)
            draft.waves[name] = new
        for name in {*changed.waves, *(key.wave for key in what.guards)}:
            row = draft.waves[name]
            state = changed.waves.get(name, row.state)
            draft.waves[name] = replace(row, state=state, attempt=None, holder=None, lease_until=None)
            self._end_tries(draft, name, guards.ENDED_BY_CLAIM)
            if state is WaveState.DISSOLVED:
                self._end_tries(draft, name, frozenset({AttemptOutcome.COMMITTED}))
        for name in what.undone:
            draft.waves[name] = replace(draft.waves[name], snapshot=None)
        for name, fence in what.fences.items():
            row_ = draft.waves.get(name)
            if row_ is not None and row_.pipeline == what.spec.name:
                draft.waves[name] = replace(row_, fence=max(fence, row_.fence))

    def _restore_wave(self, draft: State, what: Restoration, item: RestoredWave, ordinal: int) -> None:
        new = WaveRow(id=item.wave, pipeline=what.spec.name, plan=what.id, ordinal=ordinal, table=item.table)
        row = draft.waves.get(item.wave, new)
        known = next((found for found in draft.attempts.items() if found[1].attempt == item.attempt), None)
        self._end_tries(draft, item.wave, guards.ENDED_BY_SETTLE)
        top = max((fence for name, fence in draft.attempts if name == item.wave), default=0)
        if known:
            place, record = known
        else:
            place, record = (item.wave, item.fence), _attempt(item)
            if other := draft.attempts.pop(place, None):  # given out again by the older ledger: the lake's came first
                top = max(top, row.fence, item.fence) + 1
                draft.attempts[item.wave, top] = replace(other, fence=top)
        draft.attempts[place] = record.committed(item.at)
        draft.waves[item.wave] = replace(
            row,
            state=WaveState.COMMITTED,
            fence=max(row.fence, place[1], top),
            attempt=None,
            holder=None,
            lease_until=None,
            snapshot=item.snapshot,
        )
        if item.wave not in draft.settled:
            draft.settled.append(item.wave)

    def _restore_watermarks(self, draft: State, what: Restoration, changed: Edits) -> None:
        for key, reached in changed.watermarks.items():
            row = draft.streams[what.spec.name, key]
            draft.streams[what.spec.name, key] = replace(
                row, watermark=min(row.watermark, reached), version=row.version + 1
            )


def _skipped(pipeline: str, skip: RestoredSkip) -> SkipRow:
    stretch = OffsetRange(skip.passed.ranges[0].start, skip.passed.ranges[-1].end)
    return SkipRow(
        id=skip.id,
        pipeline=pipeline,
        slice=Slice(skip.stream, stretch),
        offsets=skip.passed.span,
        reason=RESTORED,
        actor="rebuild",
        at=skip.at,
        acknowledged=False,
    )


def _attempt(item: RestoredWave) -> AttemptRecord:
    return AttemptRecord(
        wave=item.wave,
        fence=item.fence,
        attempt=item.attempt,
        holder=guards.RESTORED_HOLDER,
        job=None,
        base=None,
        audited=None,
        outcome=AttemptOutcome.COMMITTED,
        error=None,
        started_at=item.at,
        ended_at=item.at,
    )
