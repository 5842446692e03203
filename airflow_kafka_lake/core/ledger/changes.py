"""How the ledger is changed: a write names the rows that it must see, and decides from them which rows change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

from airflow_kafka_lake.core.accounting import Accounting, Receipt
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, StreamRow, WaveRow
from airflow_kafka_lake.core.ledger.waves import (
    UNRESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    WaveState,
)
from airflow_kafka_lake.core.offsets import HasSlice, OffsetRange, Slice, Stream
from airflow_kafka_lake.core.ordering.layouts import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.spec import PipelineSpec

# The ledger's rows of pipelines, plans, skips and segments, as a change names them before and after.


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRow(HasSlice):
    """A skip: the slice that was asked for, how many offsets of it were passed, and whether the order may go on over
    it."""

    id: str
    pipeline: str
    slice: Slice
    offsets: int
    reason: str
    actor: str
    at: datetime
    acknowledged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRow:
    """One version of a pipeline's configuration; each has another digest."""

    version: int
    spec: PipelineSpec
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingRow:
    """The UUID of a table as it was first seen."""

    pipeline: str
    table: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A plan as it is recorded, with the configuration that it was made by."""

    id: str
    spec: PipelineSpec
    version: int
    observed_at: datetime
    recorded_at: datetime
    actor: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A plan's snapshot of a stream: for people, and for a while; nothing decides by it."""

    plan: str
    seen: PartitionSnapshot
    range: tuple[int, int]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRow:
    """A layout that a topic of the pipeline was seen in."""

    pipeline: str
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """A segment of the pipeline, with its parents."""

    pipeline: str
    segment: Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedRow:
    """How far a pipeline's moves were notified, and the delivery that is under way: of the moves after `sequence` up to
    `through`, by `holder`, until `until` at least. All three are None while none is."""

    pipeline: str
    sequence: int = 0
    through: int | None = None
    holder: str | None = None
    until: datetime | None = None

    def notified(self, sequence: int) -> NotifiedRow:
        """Return the row when all moves up to `sequence` were notified; a delivery that went no further is over."""
        row = replace(self, sequence=max(self.sequence, sequence))
        is_over = row.through is not None and row.through <= row.sequence
        return replace(row, through=None, holder=None, until=None) if is_over else row


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One task's request: a wave, wanted `until` then; `answer` is the error, as JSON, that ended the work on it. `at`
    is when it was asked first, `bytes_per_second` its run's own rate instead of the pipeline's."""

    id: str
    pipeline: str
    wave: str
    actor: str
    at: datetime
    until: datetime
    bytes_per_second: int | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan that is on record: `number` grows with each, `next_ordinal` is that of its next wave."""

    id: str
    number: int
    next_ordinal: int
    spec: PipelineSpec


# How the ledger is changed: a write names its scope, and decides from the records in it on a change, or refuses.
#
# A ledger loads the scope of a write under lock, lets it decide, and applies the change: all of it, or nothing.

T_co = TypeVar("T_co", covariant=True)

LONGEST = 500
"""How many characters of an error or a list a line of the history keeps."""

Row = (
    StreamRow
    | WaveRow
    | AttemptRecord
    | RangeRecord
    | SkipRow
    | ConfigurationRow
    | BindingRow
    | PlanRow
    | SnapshotRow
    | LayoutRow
    | SegmentRow
    | PauseRow
    | NotifiedRow
    | RequestRow
)


class PipelineLock(Enum):
    """How a write takes its turn at a pipeline, before all other locks, so that a pause is seen by all that follow it.

    Plans go side by side, also with a claim; claims go one after another; a pause waits until none of them goes on.
    """

    PLAN = "plan"
    CLAIM = "claim"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteScope:
    """The scope of a write. Its streams are locked first, then its waves, each in a fixed order.

    `streams` and `waves` may name unrecorded ones. `ranges` are chosen by id, `crossing` by the slice that they share
    offsets with; with `follow` their waves are locked too. `planned` asks for the PLANNED ranges of the waves, `counts`
    for how many ranges of each state each wave has; `attempts` for those of the waves, `attempt_ids` for others by id;
    `plans` for those of the waves and the ranges, `plan_ids` and `skips` name others that may be on record; `tables`
    asks for the UUIDs of the pipeline's tables, `configurations` for its newest configuration and the one with the
    `digest`, `layouts` for the layouts and segments of its topics; `gate` for the blockers of the one wave; `notified`
    for how far the pipeline's moves were notified, under lock; `requests` for those of the waves. `every` asks for all
    streams, waves and ranges of the pipeline; `alone` waits until no other write goes on. With a `turn` the pipeline,
    which may be named by one of its waves, is locked first of all; then its pauses are read and, for a claim, which of
    its waves have a live lease (`at_work`).
    """

    pipeline: str | None = None
    turn: PipelineLock | None = None
    streams: Collection[Stream] = ()
    waves: Collection[str] = ()
    ranges: Collection[str] = ()
    crossing: Slice | None = None
    follow: bool = False
    planned: bool = False
    counts: bool = False
    attempts: bool = False
    attempt_ids: Collection[str] = ()
    plans: bool = False
    tables: bool = False
    gate: bool = False
    skips: Collection[str] = ()
    plan_ids: Collection[str] = ()
    configurations: bool = False
    digest: str | None = None
    layouts: bool = False
    ledger_id: bool = False
    notified: bool = False
    requests: bool = False
    every: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of a scope, as long as its locks are held; `now` is the ledger's own clock after locking."""

    now: datetime
    ledger_id: str = ""
    streams: Mapping[Stream, StreamRow] = field(default_factory=dict)
    waves: Mapping[str, WaveRow] = field(default_factory=dict)
    ranges: tuple[RangeRecord, ...] = ()
    counts: Mapping[str, Mapping[RangeState, int]] = field(default_factory=dict)
    attempts: tuple[AttemptRecord, ...] = ()
    plans: Mapping[str, PlanRecord] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    gate: tuple[Blocker, ...] = ()
    skips: Collection[str] = ()
    configurations: tuple[ConfigurationRow, ...] = ()
    layouts: tuple[LayoutRow, ...] = ()
    segments: tuple[SegmentRow, ...] = ()
    pauses: tuple[PauseRow, ...] = ()
    notified: NotifiedRow | None = None
    requests: tuple[RequestRow, ...] = ()
    at_work: Collection[str] = ()

    @property
    def newest(self) -> ConfigurationRow | None:
        """The pipeline's newest configuration."""
        return self.configurations[-1] if self.configurations else None

    def wave(self, name: str) -> WaveRow:
        """Return a wave; UnknownSubjectError when it is not on record."""
        if name not in self.waves:
            raise guards.unknown("wave", name)
        return self.waves[name]

    def of_range(self, item: RangeRecord) -> WaveRow:
        """Return a range's wave; ConcurrentError where it went there while the locks were awaited."""
        if item.wave not in self.waves:
            raise guards.overtaken(f"Range {item.id} was moved by another writer.")
        return self.waves[item.wave]

    def attempts_of(self, wave: str) -> tuple[AttemptRecord, ...]:
        """Return a wave's attempts, by fence."""
        return tuple(item for item in self.attempts if item.wave == wave)

    def attempt(self, key: AttemptKey) -> AttemptRecord:
        """Return the attempt that a key names; the wave that it holds has it."""
        return next(item for item in self.attempts if item.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One row before and after: without `before` it is new, without `after` it goes.

    It is written only while the row is as in `before`: a stream of its version; a wave of its fence, attempt and state;
    an attempt of its outcome; a range of its wave, state and offsets.
    """

    before: Row | None = None
    after: Row | None = None

    @property
    def row(self) -> Row:
        """The row of the edit, as far as its kind."""
        row = self.after or self.before
        assert row is not None
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a pipeline's history; the ledger gives it its number and its time as it writes it."""

    pipeline: str
    actor: str
    kind: str
    subject: str
    detail: str
    slices: tuple[Slice, ...] = ()
    """Of a skip, a reopen or a withdrawal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T_co]):
    """The changes of a write: rows, lines of history, receipts for the lake with their tables; and its answer."""

    result: T_co
    edits: tuple[Edit, ...] = ()
    entries: tuple[Entry, ...] = ()
    outbox: tuple[tuple[str, ReceiptRow], ...] = ()


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Write(Generic[T_co]):
    """A write: a frozen value with two pure methods. A class of it is a frozen dataclass with keywords only.

    `name` is for history and for tests: that of the class, unless it gives itself another.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
        dataclass(frozen=True, kw_only=True)(cls)

    def scope(self) -> WriteScope:
        """Return its scope."""
        raise NotImplementedError

    def decide(self, records: Records) -> Change[T_co]:
        """Return the change; raises the refusal."""
        raise NotImplementedError

    def refused(self, *, overlap: bool) -> KafkaLakeError | None:  # noqa: ARG002 (for writes that have a refusal of their own)
        """Return the refusal for a change that a constraint of the database refuses; None for the database's error."""
        return None

    def late(self) -> Late | None:
        """Return the write that records that this one came too late; None where nothing does."""
        return None


class AttemptWrite(Write[T_co]):
    """A write of an attempt, guarded by its key; refused as stale, it leaves an event."""

    key: AttemptKey

    def scope(self) -> WriteScope:
        return WriteScope(waves=(self.key.wave,), attempts=True)

    def late(self) -> Late:
        """Return the line of history that a refusal leaves."""
        return Late(key=self.key, write=self.name)

    def held(self, records: Records, transition: guards.Transition | None = None) -> WaveRow:
        """Return the wave, in the state that a transition ends in.

        Raises StaleFenceError when the attempt does not hold it, StateError when its state does not allow the change.
        """
        wave = records.wave(self.key.wave)
        if not wave.is_held_by(self.key):
            raise guards.stale(self.key, wave.state, wave.fence)
        if transition is not None and wave.state not in transition[0]:
            raise guards.forbidden(wave.id, wave.pipeline, wave.state, transition)
        return wave

    def entry(self, wave: WaveRow, kind: str, detail: str) -> Entry:
        """Return a line about the wave, by the attempt."""
        return Entry(pipeline=wave.pipeline, actor=self.key.attempt, kind=kind, subject=wave.id, detail=detail)


class Late(Write[None]):
    """A write that came too late is written down, in a transaction of its own: its own wrote nothing."""

    key: AttemptKey
    write: str

    def scope(self) -> WriteScope:
        return WriteScope(waves=(self.key.wave,))

    def decide(self, records: Records) -> Change[None]:
        wave, key = records.wave(self.key.wave), self.key
        detail = (
            f"{self.write} of attempt {key.attempt}, fence {key.fence}: the wave is {wave.state} at fence {wave.fence}"
        )
        entry = Entry(pipeline=wave.pipeline, actor=key.attempt, kind="refused", subject=wave.id, detail=detail)
        return Change(result=None, entries=(entry,))


# The state of a wave whose ranges change or leave, and of the attempts at it.

ENDED_BY_CLAIM = frozenset({AttemptOutcome.RUNNING, AttemptOutcome.STAGED})
"""Outcomes that become `abandoned` when the wave goes to another attempt."""

ENDED_BY_COMMIT = ENDED_BY_CLAIM | {AttemptOutcome.UNKNOWN}
"""Outcomes that become `abandoned` when the commit of another attempt is the one in the lake."""


def abandoned(records: Records, wave: str, outcomes: Collection[AttemptOutcome] = ENDED_BY_CLAIM) -> list[Edit]:
    """End the attempts at a wave that have one of these outcomes."""
    running = (item for item in records.attempts_of(wave) if item.outcome in outcomes)
    return [Edit(before=item, after=item.abandoned(records.now)) for item in running]


def states_after(records: Records, edits: Sequence[Edit]) -> dict[str, set[RangeState]]:
    """Return the states that the ranges of each wave have after some edits of ranges."""
    counts = Counter({(name, state): n for name, states in records.counts.items() for state, n in states.items()})
    after = (edit.after for edit in edits)
    before = (edit.before for edit in edits)
    counts.update((item.wave, item.state) for item in after if isinstance(item, RangeRecord))
    counts.subtract((item.wave, item.state) for item in before if isinstance(item, RangeRecord))
    found: dict[str, set[RangeState]] = {}
    for (name, state), number in counts.items():
        found.setdefault(name, set())
        if number > 0:
            found[name].add(state)
    return found


def state_without_planned(states: Collection[RangeState]) -> WaveState:
    """Return the state of a wave without PLANNED ranges: CANCELLED can be released as it is, DISSOLVED is over."""
    return WaveState.CANCELLED if UNRESOLVED & {*states} == {RangeState.CANCELLED} else WaveState.DISSOLVED


def given_back(records: Records, wave: WaveRow, left: Collection[RangeState]) -> list[Edit]:
    """Leave a wave, after ranges went from it, to its next claim: or to none, when nothing PLANNED is `left`."""
    state = WaveState.PLANNED if RangeState.PLANNED in left else state_without_planned(left)
    return [Edit(before=wave, after=wave.free(state)), *abandoned(records, wave.id)]


def dissolved(waves: Iterable[WaveRow], left: Mapping[str, Collection[RangeState]]) -> list[Edit]:
    """End CANCELLED waves whose last unresolved range went elsewhere."""
    return [
        Edit(before=wave, after=replace(wave, state=WAVE_TRANSITIONS[Act.DISSOLVE][1]))
        for wave in waves
        if wave.state is WaveState.CANCELLED and not UNRESOLVED & {*left.get(wave.id, ())}
    ]


def new_wave(
    records: Records, name: str, home: WaveRow, ranges: Sequence[RangeRecord], *, beside: Sequence[WaveRow] = ()
) -> WaveRow:
    """Return a new wave for ranges of another one, in the newest of their plans.

    `beside` are new waves of the same change. Raises StateError where the name is taken.
    """
    if name in records.waves:
        raise guards.taken_id("wave", name)
    plan = max((records.plans[item.plan] for item in ranges), key=lambda plan: plan.number)
    ordinal = plan.next_ordinal + sum(wave.plan == plan.id for wave in beside)
    return WaveRow(id=name, pipeline=home.pipeline, plan=plan.id, ordinal=ordinal, table=home.table)


# Receipts: the receipts that record a commit are checked, and the ones for the lake are made from the records.


def origin_receipt(
    pipeline: str, plan: str, stream: Stream, origin: int, *, ledger_id: str, at: datetime
) -> ReceiptRow:
    """Return the receipt of a new stream's origin; `plan` is the decision that gave it its origin."""
    return ReceiptRow(
        pipeline=pipeline,
        wave=plan,
        attempt=ledger_id,
        fence=0,
        kind="origin",
        slice=Slice(stream, OffsetRange(origin, origin + 1)),
        recorded_at=at,
    )


def range_receipt(
    kind: str, item: RangeRecord, *, attempt: str, fence: int, at: datetime, leader_epoch: int | None = None
) -> ReceiptRow:
    """Return a receipt of a range as the ledger has it; numbers that it does not have yet are zero."""
    return ReceiptRow(
        pipeline=item.pipeline,
        wave=item.wave,
        attempt=attempt,
        fence=fence,
        kind=kind,
        slice=item.slice,
        generation=item.generation,
        rows=item.rows or 0,
        first_offset=item.first_offset,
        last_offset=item.last_offset,
        accounting=item.accounting or Accounting(),
        recorded_at=at,
        leader_epoch=leader_epoch,
    )


def check_receipts(planned: Iterable[RangeRecord], receipts: Sequence[Receipt]) -> None:
    """Refuse receipts that are not exactly the planned ranges, each fully accounted for (law L8)."""
    wanted = {item.id: item.slice for item in planned}
    given = {item.range_id: item.slice for item in receipts}
    if len(given) != len(receipts) or given != wanted:
        odd = sorted(key for key in given.keys() | wanted.keys() if given.get(key) != wanted.get(key))
        raise ValueError(f"receipts are not exactly the wave's planned ranges: {', '.join(odd[:5]) or 'one twice'}")
    for item in receipts:
        sums = item.accounting
        if sums.unexplained or sums.span != item.range.span or sums.visible != item.rows:
            raise ValueError(
                f"range {item.range_id} is not accounted for: {sums.to_json()} of {item.range.span} offsets"
            )
        if min(sums.to_json().values()) < 0:
            raise ValueError(f"range {item.range_id} has a negative number in its accounting: {sums.to_json()}")
