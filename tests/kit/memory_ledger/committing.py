"""How the memory ledger is written: the scope of a write is read, the write decides, and its change is applied."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise
from operator import attrgetter
from typing import Any, TypeVar

from airflow_kafka_lake.core.errors import StaleFenceError, StateError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import (
    BindingRow,
    Change,
    ConfigurationRow,
    Edit,
    Entry,
    LayoutRow,
    NotifiedRow,
    PipelineLock,
    PlanRecord,
    PlanRow,
    Records,
    RequestRow,
    SegmentRow,
    SkipRow,
    Write,
    WriteScope,
)
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.records import OutboxItem, RangeRecord, ReceiptRow, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import AttemptRecord, RangeState
from airflow_kafka_lake.core.offsets import Stream
from tests.kit.memory_ledger.reader import MemoryReader
from tests.kit.memory_ledger.state import State, ordered

T = TypeVar("T")
ROWS: Mapping[type, str] = {
    StreamRow: "streams",
    WaveRow: "waves",
    AttemptRecord: "attempts",
    RangeRecord: "ranges",
    SkipRow: "skips",
    BindingRow: "tables",
    LayoutRow: "layouts",
    SegmentRow: "segments",
    PauseRow: "pauses",
    NotifiedRow: "notified",
    RequestRow: "requests",
}
"""The dictionary that holds each kind of row."""
KEYS: Mapping[type, Callable[[Any], Any]] = {
    StreamRow: attrgetter("pipeline", "key"),
    BindingRow: attrgetter("pipeline", "table"),
    LayoutRow: attrgetter("pipeline", "layout.topic_id", "layout.partitions"),
    SegmentRow: attrgetter("pipeline", "segment.key"),
    NotifiedRow: attrgetter("pipeline"),
    AttemptRecord: attrgetter("wave", "fence"),
    WaveRow: attrgetter("id"),
    RangeRecord: attrgetter("id"),
}
"""What names a row there."""


class MemoryWriter(MemoryReader):
    """Decides nothing: a change is applied to a draft, which replaces the state only when all of it succeeds."""

    def commit(self, write: Write[T]) -> T:
        """See `ports.Ledger`."""
        try:
            with self._lock:
                change = write.decide(self._load(write.scope()))
                draft = self._state.sharing(*_touched(change))
                self._apply(draft, change, write)
                self._state = draft
                return change.result
        except StaleFenceError:
            if late := write.late():
                self.commit(late)
            raise

    def _load(self, scope: WriteScope) -> Records:
        state = self._state
        ranges = self._chosen(scope)
        names = {*scope.waves, *(item.wave for item in ranges if scope.follow)} & state.waves.keys()
        if scope.every:
            names |= {wave.id for wave in state.waves.values() if wave.pipeline == scope.pipeline}
        waves = {name: state.waves[name] for name in sorted(names)}
        if scope.planned:
            ranges = [i for i in state.ranges.values() if i.wave in waves and i.state is RangeState.PLANNED]
        return Records(
            now=self._clock.now(),
            streams=self._streams(scope) if scope.streams or scope.every else {},
            waves=waves,
            ranges=tuple(ordered(ranges)),
            counts=self._counts(waves) if scope.counts else {},
            attempts=self._some_attempts(waves, scope.attempt_ids) if scope.attempts else (),
            plans=self._plans(scope, waves.values(), ranges) if scope.plans or scope.plan_ids else {},
            tables=self._tables(scope, waves.values()) if scope.tables else {},
            gate=self.gate(*waves) if scope.gate and waves else (),
            skips={*scope.skips} & state.skips.keys(),
            configurations=self._configurations(scope, waves.values()) if scope.configurations else (),
            at_work=self._at_work(waves.values()) if scope.turn is PipelineLock.CLAIM else (),
            layouts=self._of(scope.pipeline, state.layouts) if scope.layouts else (),
            segments=self._of(scope.pipeline, state.segments) if scope.layouts else (),
            ledger_id=self._ledger_id,
            pauses=self._pauses({scope.pipeline, *(wave.pipeline for wave in waves.values())}) if scope.turn else (),
            notified=state.notified.get(scope.pipeline or "") if scope.notified else None,
            requests=self._requests(waves) if scope.requests else (),
        )

    def _streams(self, scope: WriteScope) -> dict[Stream, StreamRow]:
        mine = {key: row for (name, key), row in self._state.streams.items() if name == scope.pipeline}
        return mine if scope.every else {key: mine[key] for key in scope.streams if key in mine}

    @staticmethod
    def _of(pipeline: str | None, rows: Mapping[Any, Any]) -> tuple[Any, ...]:
        return tuple(row for row in rows.values() if row.pipeline == pipeline)

    def _chosen(self, scope: WriteScope) -> list[RangeRecord]:
        found = [self._state.ranges[name] for name in scope.ranges if name in self._state.ranges]
        if scope.every:
            found += [item for item in self._state.ranges.values() if item.pipeline == scope.pipeline]
        if (asked := scope.crossing) is not None:
            mine = self._state.pieces(scope.pipeline or "", asked.stream)
            found += [item for item in mine if item.range.overlaps(asked.range)]
        return found

    def _counts(self, waves: Collection[str]) -> dict[str, Counter[RangeState]]:
        found: dict[str, Counter[RangeState]] = defaultdict(Counter)
        for item in self._state.ranges.values():
            if item.wave in waves:
                found[item.wave][item.state] += 1
        return found

    def _some_attempts(self, waves: Collection[str], ids: Collection[str]) -> tuple[AttemptRecord, ...]:
        found = (item for item in self._state.attempts.values() if item.wave in waves or item.attempt in ids)
        return tuple(sorted(found, key=lambda item: (item.wave, item.fence)))

    def _plans(
        self, scope: WriteScope, waves: Collection[WaveRow], ranges: Iterable[RangeRecord]
    ) -> dict[str, PlanRecord]:
        wanted = {*scope.plan_ids}
        if scope.plans:
            wanted |= {item.plan for item in waves} | {item.plan for item in ranges}
        return {
            name: PlanRecord(
                id=name,
                number=number,
                next_ordinal=1 + max((w.ordinal for w in self._state.waves.values() if w.plan == name), default=0),
                spec=spec,
            )
            for number, (name, spec) in enumerate(self._state.plans.items())
            if name in wanted
        }

    def _tables(self, scope: WriteScope, waves: Collection[WaveRow]) -> dict[str, str]:
        names = {scope.pipeline, *(wave.pipeline for wave in waves)}
        return {row.table: row.uuid for row in self._state.tables.values() if row.pipeline in names}

    def _at_work(self, waves: Collection[WaveRow]) -> Collection[str]:
        mine, now = {wave.pipeline for wave in waves}, self._clock.now()
        every = self._state.waves.values()
        return [item.id for item in every if item.pipeline in mine and guards.lease_is_live(item.lease_until, now)]

    def _configurations(self, scope: WriteScope, waves: Collection[WaveRow]) -> tuple[ConfigurationRow, ...]:
        name = scope.pipeline or next((wave.pipeline for wave in waves), "")
        versions = self._state.specs.get(name, ())
        return tuple(row for row in versions if row is versions[-1] or row.spec.digest == scope.digest)

    def _apply(self, draft: State, change: Change[Any], write: Write[Any]) -> None:
        """Check what a database checks: rows are as they were read, names are used once, no two ranges overlap."""
        for edit in change.edits:
            if edit.before is not None:
                self._edit(draft, edit, write)
        for edit in change.edits:
            if edit.before is None:
                self._edit(draft, edit, write)
        if any(isinstance(edit.after, RangeRecord) and edit.before is None for edit in change.edits):
            _refuse_overlaps(draft, write)
        for table, row in change.outbox:
            self._send(draft, table, row)
        for entry in change.entries:
            self._event(draft, entry)

    def _edit(self, draft: State, edit: Edit, write: Write[Any]) -> None:
        row = edit.row
        if name := ROWS.get(type(row)):
            _replace(getattr(draft, name), edit, write)
        elif isinstance(row, ConfigurationRow):
            draft.specs[row.spec.name] = (*draft.specs.get(row.spec.name, ()), row)
        elif isinstance(row, PlanRow):
            draft.plans[row.id] = row.spec
        if isinstance(edit.after, WaveRow):
            self._note_settled(draft, edit)

    @staticmethod
    def _note_settled(draft: State, edit: Edit) -> None:
        """Keep the order in which waves were committed: the clock of a test may stand still."""
        before, after = edit.before, edit.after
        if isinstance(after, WaveRow) and after.committed_at != (before and getattr(before, "committed_at", None)):
            draft.commit_order[:] = [*(name for name in draft.commit_order if name != after.id), after.id]

    def _event(self, draft: State, entry: Entry) -> None:
        event = Event(
            sequence=len(draft.events) + 1,
            at=self._clock.now(),
            actor=entry.actor,
            kind=entry.kind,
            subject=entry.subject,
            detail=entry.detail,
            slices=entry.slices,
        )
        draft.events.append((entry.pipeline, event))

    @staticmethod
    def _send(draft: State, table: str, row: ReceiptRow) -> None:
        draft.last_item[0] += 1
        number = draft.last_item[0]
        draft.outbox[number] = (row.pipeline, OutboxItem(id=number, table=table, row=row))


def _replace(rows: dict[Any, Any], edit: Edit, write: Write[Any]) -> None:
    if edit.before is not None:
        if rows.get(_key(edit.before)) != edit.before:
            raise guards.overtaken("What this was decided from was changed by another writer meanwhile.")
        if edit.after is None or _key(edit.after) != _key(edit.before):
            del rows[_key(edit.before)]
    elif _key(edit.after) in rows:
        raise write.refused(overlap=False) or StateError(f"{_key(edit.after)} is on record already.")
    if edit.after is not None:
        rows[_key(edit.after)] = edit.after


def _refuse_overlaps(draft: State, write: Write[Any]) -> None:
    for a, b in pairwise(ordered(draft.ranges.values())):
        if a.stream == b.stream and a.pipeline == b.pipeline and a.range.overlaps(b.range):
            raise write.refused(overlap=True) or StateError("Ranges of a stream never overlap.")


def _touched(change: Change[Any]) -> set[str]:
    """Return what of the state a change writes to."""
    more = {ConfigurationRow: "specs", PlanRow: "plans"}
    found = {ROWS.get(kind) or more.get(kind, "events") for kind in {type(edit.row) for edit in change.edits}}
    found |= {"commit_order"} if "waves" in found else set()
    found |= {"outbox", "last_item"} if change.outbox else set()
    return found | {"events"}


def _key(row: Any) -> Any:
    return KEYS.get(type(row), attrgetter("id"))(row)
