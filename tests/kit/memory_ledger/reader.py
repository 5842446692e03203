"""How the memory ledger is read."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields
from typing import TypeVar

from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import RequestRow
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.history import Event, EventRef
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    PipelineRecord,
    PublishedWave,
    RangeRecord,
    StreamRecord,
    StreamRow,
    WaveRecord,
    WaveRow,
)
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import (
    RESOLVED,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import RangeSet, Slice, Stream
from airflow_kafka_lake.core.ordering.layouts import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Graph, Segment, gate_of
from airflow_kafka_lake.core.planning.costs import TopicCost, WaveCost
from airflow_kafka_lake.core.spec import Ordering
from airflow_kafka_lake.ports import Clock, LedgerReader
from tests.kit.memory_ledger.state import State, ordered

T = TypeVar("T")


class MemoryReader:
    """`ports.LedgerReader` over dicts; one lock makes every call one transaction."""

    def __init__(self, clock: Clock, *, ledger_id: str) -> None:
        self._clock = clock
        self._ledger_id = ledger_id
        self._state = State()
        self._lock = threading.RLock()
        self._covered: dict[tuple[str, Stream], tuple[object, StreamRecord]] = {}

    def snapshot(self) -> State:
        """Return a copy of all state, for `restore`: an older ledger, as after a restored backup."""
        with self._lock:
            return self._state.copy()

    def restore(self, state: State) -> None:
        """Go back to what `snapshot` returned."""
        with self._lock:
            self._state = state.copy()

    @contextmanager
    def _writing(self) -> Iterator[State]:
        with self._lock:
            draft = self._state.copy()
            yield draft
            self._state = draft

    def at_once(self, work: Callable[[LedgerReader], T]) -> T:
        """See `ports.LedgerReader`, as for all below."""
        return work(copy(self))  # no write changes the state that it has

    def ledger_id(self) -> str:
        return self._ledger_id

    def pipeline(self, name: str) -> PipelineRecord | None:
        state = self._state
        if name not in state.specs:
            return None
        tables = {row.table: row.uuid for row in state.tables.values() if row.pipeline == name}
        return PipelineRecord(spec=state.specs[name][-1].spec, tables=tables, pauses=self._pauses({name}))

    def _pauses(self, pipelines: Collection[str | None]) -> tuple[PauseRow, ...]:
        found = (row for row in self._state.pauses.values() if row.pipeline in pipelines)
        return tuple(sorted(found, key=lambda row: (row.at, row.id)))

    def pipelines(self) -> tuple[str, ...]:
        return tuple(sorted(self._state.specs))

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        state = self._state
        pieces: dict[Stream, list[RangeRecord]] = defaultdict(list)
        for item in state.ranges.values():
            if item.pipeline == pipeline:
                pieces[item.stream].append(item)
        found = []
        for (owner, key), stream in sorted(state.streams.items(), key=lambda item: item[0]):
            if owner != pipeline or topic not in (None, key.topic):
                continue
            if partitions is None or key.partition in partitions:
                found.append(self._with_coverage(state, pipeline, stream, pieces[key]))
        return tuple(found)

    def _with_coverage(
        self, state: State, pipeline: str, stream: StreamRow, pieces: Sequence[RangeRecord]
    ) -> StreamRecord:
        """Count a stream's offsets once, as long as nothing that they are counted from changes."""
        counted = (stream, pieces, state.skips)
        before, known = self._covered.get((pipeline, stream.key), (None, None))
        if known is None or before != counted:
            known = StreamRecord(
                **{item.name: getattr(stream, item.name) for item in fields(StreamRow)},
                planned=RangeSet(item.range for item in pieces),
                covered=RangeSet(item.range for item in pieces if item.state in RESOLVED),
                unacknowledged=state.unacknowledged(pipeline, stream.key),
            )
            self._covered[pipeline, stream.key] = (counted, known)
        return known

    def waves(
        self, pipeline: str, states: Iterable[WaveState] | None = None, *, crossing: Slice | None = None
    ) -> tuple[WaveRecord, ...]:
        state, wanted = self._state, set(WaveState if states is None else states)
        order = {plan: number for number, plan in enumerate(state.plans)}
        found = [wave for wave in state.waves.values() if wave.pipeline == pipeline and wave.state in wanted]
        if crossing is not None:
            mine = {item.wave for item in self.ranges(pipeline=pipeline, crossing=crossing)}
            found = [wave for wave in found if wave.id in mine]
        found.sort(key=lambda wave: (order[wave.plan], wave.ordinal))
        return tuple(self._wave_record(state, wave) for wave in found)

    def wave(self, wave: str) -> WaveRecord:
        state = self._state
        if wave not in state.waves:
            raise guards.unknown("wave", wave)
        return self._wave_record(state, state.waves[wave])

    def _wave_record(self, state: State, wave: WaveRow) -> WaveRecord:
        ranges = state.ranges_of(wave.id)
        rows = [item.rows for item in ranges if item.rows is not None and item.state is RangeState.COMMITTED]
        return WaveRecord.of(wave, now=self._clock.now(), ranges=len(ranges), rows=sum(rows) if rows else None)

    def range(self, range_id: str) -> RangeRecord:
        if range_id not in self._state.ranges:
            raise guards.unknown("range", range_id)
        return self._state.ranges[range_id]

    def ranges(
        self,
        *,
        pipeline: str | None = None,
        wave: str | None = None,
        plan: str | None = None,
        states: Iterable[RangeState] | None = None,
        crossing: Slice | None = None,
    ) -> tuple[RangeRecord, ...]:
        if [pipeline, wave, plan].count(None) != 2:
            raise ValueError("name exactly one of pipeline, wave and plan")
        wanted = set(RangeState if states is None else states)
        known = {*self._state.waves, *self._state.plans}
        return tuple(
            ordered(
                item
                for item in self._state.ranges.values()
                if item.state in wanted
                and (item.pipeline == pipeline or item.wave == wave in known or item.plan == plan in known)
                and (crossing is None or (item.stream == crossing.stream and item.range.overlaps(crossing.range)))
            )
        )

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        waves = {wave} if pipeline is None else {w.id for w in self._state.waves.values() if w.pipeline == pipeline}
        found = [item for (name, _), item in self._state.attempts.items() if name in waves]
        return tuple(sorted(found, key=lambda record: (record.wave, record.fence)))

    def published(
        self, pipeline: str, *, table: str | None = None, newest: int | None = None
    ) -> tuple[PublishedWave, ...]:
        state = self._state
        found = []
        for name in reversed(state.commit_order):
            wave = state.waves[name]
            if wave.pipeline != pipeline or table not in (None, wave.table) or wave.state is not WaveState.COMMITTED:
                continue
            if any(item.rows for item in state.ranges_of(name) if item.state is RangeState.COMMITTED):
                attempt = state.committed(name)
                bases = [record.base for record in self.attempts(name) if record.base is not None]
                base = bases[-1] if bases else None
                found.append(
                    PublishedWave(wave=name, table=wave.table, attempt=attempt, snapshot=wave.snapshot, base=base)
                )
        return tuple(found[:newest])

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        state = self._state
        found = [item for item in state.attempts.values() if item.attempt in attempts]
        return {record.attempt: (record, state.waves[record.wave].state) for record in found}

    def knows(self, token: Token, line: EventRef | None = None) -> EventRef | None:
        found = self._state.attempts.get((token.wave, token.fence))
        known = token.wave == guards.OWNER_WAVE or (found is not None and found.attempt == token.attempt)
        events = [event for name, event in self._state.events if name == token.pipeline]
        if not (known and events):
            return None
        has_line = line is None or any(event.line == line for event in events if event.sequence == line.sequence)
        return events[-1].line if has_line else None

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        mine = {key: row.layout for key, row in self._state.layouts.items() if row.pipeline == pipeline}
        return tuple(mine[key] for key in sorted(mine))

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        mine = (row.segment for row in self._state.segments.values() if row.pipeline == pipeline)
        return tuple(sorted(mine, key=lambda item: item.key))

    def requests(self, wave: str | None = None) -> tuple[RequestRecord, ...]:
        state, now = self._state, self._clock.now()
        order = {plan: number for number, plan in enumerate(state.plans)}
        names = state.waves if wave is None else {wave}
        found = [(state.waves[row.wave], row) for row in self._requests(names)]
        found.sort(key=lambda pair: (order[pair[0].plan], pair[0].ordinal, pair[0].id))
        return tuple(
            RequestRecord(
                **{item.name: getattr(row, item.name) for item in fields(RequestRow)},
                live=now < row.until,
                state=home.state,
                holder=home.holder,
                lease_live=guards.lease_is_live(home.lease_until, now),
            )
            for home, row in found
        )

    def _requests(self, waves: Collection[str]) -> tuple[RequestRow, ...]:
        mine = (row for row in self._state.requests.values() if row.wave in waves)
        return tuple(sorted(mine, key=lambda row: (row.at, row.id)))

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        found = self.wave(wave)
        if self._state.plans[found.plan].ordering is Ordering.NONE:
            return ()
        wanted = self.ranges(wave=wave, states=(RangeState.PLANNED,))
        return gate_of(Graph(self.segments(found.pipeline)), self.streams(found.pipeline), wanted)

    def throughput(self, pipeline: str) -> tuple[WaveCost, ...]:
        state = self._state
        mine = [wave for wave in reversed(state.commit_order) if state.waves[wave].pipeline == pipeline]
        seen: Counter[str] = Counter()
        costs = []
        for wave in mine[: guards.THROUGHPUT_HISTORY]:
            seen[state.waves[wave].table] += 1
            if seen[state.waves[wave].table] <= guards.THROUGHPUT_WAVES:
                costs += self._cost(wave)
        return tuple(costs)

    def _cost(self, wave: str) -> list[WaveCost]:
        offsets: Counter[str] = Counter()
        weight: Counter[str] = Counter()
        for item in self._state.ranges_of(wave):
            if item.state is RangeState.COMMITTED:
                offsets[item.stream.topic] += item.range.span
                weight[item.stream.topic] += item.estimated_bytes
        topics = tuple(TopicCost(topic=t, offsets=offsets[t], kafka_bytes=weight[t]) for t in sorted(offsets))
        attempts = [item for (name, _), item in self._state.attempts.items() if name == wave and topics]
        return [
            WaveCost(
                seconds=(item.ended_at - item.started_at).total_seconds(),
                lake_bytes=item.staged_bytes,
                topics=topics,
            )
            for item in attempts
            if item.outcome is AttemptOutcome.COMMITTED and item.ended_at is not None
            if item.holder != guards.RESTORED_HOLDER
        ]

    def events(
        self,
        pipeline: str,
        after: int = 0,
        limit: int = 100,
        *,
        kind: str | None = None,
        actor: str | None = None,
        newest: bool = False,
    ) -> tuple[Event, ...]:
        mine = [
            event
            for name, event in self._state.events
            if name == pipeline and event.sequence > after
            if kind in (None, event.kind) and actor in (None, event.actor)
        ]
        return tuple(mine[-limit:] if newest else mine[:limit])

    def unnotified(self, pipeline: str, subject: str | None = None) -> tuple[Advance, ...]:
        state = self._state
        row = state.notified.get(subject or pipeline)
        seen = row.sequence if row else 0
        return tuple(move for name, move in state.moves if name == pipeline and move.sequence > seen)

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        mine = (item for name, item in self._state.outbox.values() if name == pipeline)
        return tuple(item for item in mine if kind in (None, item.row.kind))
