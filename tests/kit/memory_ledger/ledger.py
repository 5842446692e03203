"""The ledger in memory: the whole contract without a database, for tests, simulations and dry runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger import guards, history
from airflow_kafka_lake.core.ledger.cutting import cut_for_taking
from airflow_kafka_lake.core.ledger.holds import Passed
from airflow_kafka_lake.core.ledger.records import Advance, RangeRecord, ReceiptRow, Verdict
from airflow_kafka_lake.core.ledger.reopening import Cut, Reopening
from airflow_kafka_lake.core.ledger.waves import (
    ON_HOLD,
    RESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.ledger.withdrawing import Withdrawal, refuse_overtaken
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream
from tests.kit.memory_ledger.planning import MemoryPlanning
from tests.kit.memory_ledger.state import Skipped, State, Try, Wave


class MemoryLedger(MemoryPlanning):
    """`ports.Ledger` over dicts; see the port for every method."""

    def take(
        self,
        wave: str,
        *,
        fence: int,
        attempt: str | None,
        verdicts: Sequence[Verdict],
        actor: str,
        apart: str | None = None,
    ) -> None:
        guards.check_verdicts(verdicts, apart)
        key = AttemptKey(wave=wave, fence=fence, attempt=attempt or "-")
        with self._writing_as(key, "take") as draft:
            row, found = self._wave(draft, wave), draft.tries.get((wave, fence))
            if row.fence != fence or (found.record.attempt if found else None) != attempt:
                raise guards.stale(key, row.state, row.fence)
            if row.state not in WAVE_TRANSITIONS[Act.CANCEL][0]:
                raise guards.forbidden(wave, row.pipeline, row.state, WAVE_TRANSITIONS[Act.CANCEL])
            pieces, verdicts = cut_for_taking(wave, draft.ranges, verdicts)
            draft.ranges.update({item.id: item for item in pieces})
            for verdict in verdicts:
                item = draft.ranges.get(verdict.range_id)
                if item is None or item.wave != wave or item.state is not RangeState.PLANNED:
                    raise guards.not_planned(verdict.range_id, wave)
                draft.ranges[item.id] = replace(
                    item, state=verdict.state, reason=verdict.reason, held_for=verdict.held_for
                )
            self._set_apart(draft, row, apart, verdicts)
            self._give_back(draft, row)
            self._event(draft, row.pipeline, actor, "take", wave, history.taken(verdicts))

    def _set_apart(self, draft: State, home: Wave, new: str | None, verdicts: Sequence[Verdict]) -> None:
        moved = [draft.ranges[item.range_id] for item in verdicts if item.state is RangeState.PLANNED]
        if new is None or not moved:
            return
        self._new_wave(draft, new, home, {item.plan for item in moved})
        for item in moved:
            draft.ranges[item.id] = replace(item, wave=new, reason=None)

    def _give_back(self, draft: State, row: Wave) -> None:
        """Leave a wave, after ranges went from it, to the next claim: or to none, when it is empty."""
        states = [item.state for item in draft.ranges_of(row.id)]
        state = WaveState.PLANNED if RangeState.PLANNED in states else guards.emptied(states)
        draft.waves[row.id] = replace(row, state=state, attempt=None, holder=None, lease_until=None)
        self._end_tries(draft, row.id, guards.ENDED_BY_CLAIM)

    def release(self, ranges: Sequence[str], *, wave: str, actor: str, reason: str | None) -> str:
        if not ranges:
            raise ValueError("no range is named to be released")
        with self._writing() as draft:
            found = [self._releasable(draft, name) for name in dict.fromkeys(ranges)]
            sources = list(dict.fromkeys(item.wave for item in found))
            home = draft.waves[sources[0]]
            if len({(draft.waves[name].pipeline, draft.waves[name].table) for name in sources}) > 1:
                raise guards.mixed_tables()
            left = {item.id for item in draft.ranges_of(home.id) if item.state not in RESOLVED}
            if len(sources) == 1 and home.state is WaveState.CANCELLED and left <= set(ranges):
                target = home.id
                draft.waves[target] = replace(home, state=WAVE_TRANSITIONS[Act.RELEASE][1])
            else:
                target = self._new_wave(draft, wave, home, {item.plan for item in found})
            for item in found:
                draft.ranges[item.id] = replace(
                    item, wave=target, state=RangeState.PLANNED, reason=None, held_for=RangeSet()
                )
            self._dissolve_empty(draft, sources)
            self._event(draft, home.pipeline, actor, "release", target, history.released(len(found), reason))
            return target

    @staticmethod
    def _releasable(draft: State, name: str) -> RangeRecord:
        if name not in draft.ranges:
            raise guards.unknown("range", name)
        item = draft.ranges[name]
        if item.state not in ON_HOLD:
            raise guards.wrong_state(name, item.state, "CANCELLED or HELD")
        return item

    @staticmethod
    def _new_wave(draft: State, name: str, home: Wave, plans: set[str]) -> str:
        if name in draft.waves:
            raise guards.taken_id("wave", name)
        plan = [item for item in draft.plans if item in plans][-1]
        ordinal = 1 + max(item.ordinal for item in draft.waves.values() if item.plan == plan)
        draft.waves[name] = Wave(id=name, pipeline=home.pipeline, plan=plan, ordinal=ordinal, table=home.table)
        return name

    @staticmethod
    def _dissolve_empty(draft: State, waves: Iterable[str]) -> None:
        for name in waves:
            row = draft.waves[name]
            if row.state is WaveState.CANCELLED and all(item.state in RESOLVED for item in draft.ranges_of(name)):
                draft.waves[name] = replace(row, state=WaveState.DISSOLVED)

    def skip(
        self,
        pipeline: str,
        stream: Stream,
        stretch: OffsetRange,
        *,
        skip_id: str,
        reason: str,
        actor: str,
        acknowledge_order: bool,
        guards: Sequence[AttemptKey],
        epoch: int | None = None,
    ) -> Passed:
        with self._writing() as draft:
            passed = self._skip(draft, pipeline, stream, stretch, skip_id, reason, actor, acknowledge_order, guards)
            if epoch is not None:
                row = draft.streams[pipeline, stream]
                draft.streams[pipeline, stream] = replace(row, leader_epoch=epoch)
            return passed

    def _skip(
        self,
        draft: State,
        pipeline: str,
        key: Stream,
        stretch: OffsetRange,
        skip_id: str,
        reason: str,
        actor: str,
        acknowledge_order: bool,
        held: Sequence[AttemptKey],
    ) -> Passed:
        row = draft.streams.get((pipeline, key))
        if row is None:
            raise guards.unknown("stream", f"{key} ({key.topic_id})")
        if skip_id in draft.skips:
            raise guards.taken_id("skip", skip_id)
        touched = [item for item in draft.pieces(pipeline, key) if item.range.overlaps(stretch)]
        taken_from = {item.wave for item in touched if item.state is RangeState.PLANNED}
        for name in sorted(taken_from):
            self._refuse_unguarded(draft.waves[name], held)
        asked = guards.skipped_range(skip_id, pipeline, key, stretch, reason)
        cut = guards.cut_for_skip(touched, asked, row.origin)
        for new, old in cut.waves.items():
            self._new_wave(draft, new, draft.waves[old], {item.plan for item in cut.pieces if item.wave == new})
        draft.ranges.update({piece.id: piece for piece in cut.pieces})
        draft.skips[skip_id] = Skipped(
            pipeline=pipeline, stream=key, stretch=stretch, passed=cut.passed, acknowledged=acknowledge_order
        )
        draft.streams[pipeline, key] = replace(row, version=row.version + 1)
        for name in sorted(taken_from | {item.wave for item in held if self._holds(draft.waves.get(item.wave), item)}):
            self._give_back(draft, draft.waves[name])
        self._dissolve_empty(draft, {item.wave for item in touched if item.state is RangeState.CANCELLED})
        table = draft.specs[pipeline][-1].table_for(key.topic)
        for item in cut.passed:
            told = replace(
                asked,
                slice=asked.slice.part(item),
                accounting=Accounting(skipped=item.span),
                generation=cut.generation(item),
            )
            self._outbox(draft, table, "skip", told, attempt=skip_id, fence=0)
        said = history.skipped(key, stretch, cut.passed.span, reason, cut.waves)
        self._event(draft, pipeline, actor, "skip", skip_id, said)
        return Passed(offsets=cut.passed.span, waves=tuple(cut.waves))

    def _refuse_unguarded(self, row: Wave, held: Sequence[AttemptKey]) -> None:
        if (
            row.fence
            and row.state in guards.GUARDED
            and not any(item.wave == row.id and self._holds(row, item) for item in held)
        ):
            raise guards.unguarded(row.id)

    def reopen(self, what: Reopening, actor: str) -> int:
        with self._writing() as draft:
            row = draft.streams.get((what.pipeline, what.stream))
            touched = [i for i in draft.pieces(what.pipeline, what.stream) if i.range.overlaps(what.stretch)]
            if row is None or row.version != what.version or touched != list(what.sources):
                raise guards.overtaken_reopen(what)
            if what.id in draft.plans or set(what.waves) & draft.waves.keys():
                raise guards.taken_id("plan", what.id)
            draft.plans[what.id] = draft.specs[what.pipeline][-1]
            for ordinal, name in enumerate(what.waves):
                wave = Wave(id=name, pipeline=what.pipeline, plan=what.id, ordinal=ordinal, table=what.table)
                draft.waves[name] = replace(wave, fence=what.token.fence) if name == what.token.wave else wave
            draft.tries[what.token.wave, what.token.fence] = Try(record=self._moved_by(what, actor))
            for cut in what.cuts:
                draft.ranges[cut.record.id] = cut.record
                self._tell_cut(draft, what, cut)
            self._dissolve_empty(draft, {i.wave for i in touched if i.state is RangeState.CANCELLED})
            watermark = max(row.origin, min(row.watermark, what.stretch.start))
            draft.streams[what.pipeline, what.stream] = replace(row, watermark=watermark, version=row.version + 1)
            said = history.reopened(what, row.watermark, watermark)
            self._event(draft, what.pipeline, actor, "reopen", what.id, said)
            return watermark

    def withdraw(self, what: Withdrawal, actor: str) -> None:
        with self._writing() as draft:
            versions = {key: row.version for (owner, key), row in draft.streams.items() if owner == what.pipeline}
            fences = {name: draft.waves[name].fence for name in what.waves}
            refuse_overtaken(what, versions, draft.ranges.values(), fences)
            for item in what.ranges:
                del draft.ranges[item.record.id]
                draft.ranges.update({piece.id: piece for piece in item.kept})
            for key, version in what.versions.items():
                row = draft.streams[what.pipeline, key]
                draft.streams[what.pipeline, key] = replace(row, version=version + 1)
            for name in what.waves:
                self._give_back(draft, draft.waves[name])
            self._event(draft, what.pipeline, actor, "withdraw", what.subject, str(what))

    def _moved_by(self, what: Reopening, actor: str) -> AttemptRecord:
        now = self._clock.now()
        return AttemptRecord(
            wave=what.token.wave,
            fence=what.token.fence,
            attempt=what.token.attempt,
            holder=guards.REOPEN_HOLDER,
            job=None,
            base=None,
            audited=None,
            outcome=AttemptOutcome.ABANDONED,
            error=guards.MOVED_MAIN.format(actor=actor),
            started_at=now,
            ended_at=now,
        )

    def _tell_cut(self, draft: State, what: Reopening, cut: Cut) -> None:
        if cut.is_reopened:
            token = what.token
            self._outbox(draft, what.table, "reopen", cut.record, attempt=token.attempt, fence=token.fence)
        elif cut.is_kept:
            attempt = draft.committed(cut.source.wave)
            fences = {item.record.attempt: item.record.fence for item in draft.tries.values()}
            self._outbox(draft, what.table, "published", cut.record, attempt=attempt, fence=fences[attempt])

    def accept_deletes(
        self, pipeline: str, receipts: Sequence[tuple[str, ReceiptRow]], *, decision: str, reason: str, actor: str
    ) -> None:
        with self._writing() as draft:
            for table, row in receipts:
                self._send(draft, table, replace(row, recorded_at=self._clock.now()))
            said = history.deleted([row for _, row in receipts], reason)
            self._event(draft, pipeline, actor, "accept-deletes", decision, said)

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        moves: list[Advance] = []
        with self._writing() as draft:
            for (owner, key), row in sorted(draft.streams.items(), key=lambda item: item[0]):
                if owner != pipeline:
                    continue
                resolved = [item for item in draft.pieces(pipeline, key) if item.state in RESOLVED]
                end = RangeSet(item.range for item in resolved).unbroken_end(row.watermark)
                if end == row.watermark:
                    continue
                moved = [item for item in resolved if row.watermark <= item.range.start < end]
                move = Advance(
                    stream=row.key,
                    sequence=len(draft.moves) + 1,
                    start=row.watermark,
                    end=end,
                    rows=sum(item.rows or 0 for item in moved),
                )
                draft.streams[owner, key] = replace(row, watermark=end, version=row.version + 1)
                draft.moves.append((pipeline, move))
                moves.append(move)
            if moves:
                self._event(draft, pipeline, self._actor, "advance", pipeline, history.advanced(moves))
        return tuple(moves)

    def told(self, pipeline: str, sequence: int) -> None:
        with self._writing() as draft:
            draft.told[pipeline] = max(sequence, draft.told.get(pipeline, 0))

    def sent(self, items: Sequence[int]) -> None:
        with self._writing() as draft:
            for item in items:
                draft.outbox.pop(item, None)
