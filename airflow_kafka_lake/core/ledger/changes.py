"""How the ledger is changed: a write names what it must see, and decides from that what changes, or refuses.

A ledger loads the scope of a write under lock, lets it decide, and applies the change: all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow, WaveRow
from airflow_kafka_lake.core.ledger.rows import (
    BindingRow,
    ConfigurationRow,
    LayoutRow,
    NotifiedRow,
    PlanRecord,
    PlanRow,
    RequestRow,
    SegmentRow,
    SkipRow,
    SnapshotRow,
)
from airflow_kafka_lake.core.ledger.streams import StreamRow
from airflow_kafka_lake.core.ledger.waves import AttemptKey, AttemptRecord, RangeState
from airflow_kafka_lake.core.ordering.segments import Blocker
from airflow_kafka_lake.core.slices import Slice, Stream

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


class Turn(Enum):
    """How a write takes its turn at a pipeline, before all other locks, so that a pause is seen by all that follow it.

    Plans go side by side, also with a claim; claims go one after another; a pause waits until none of them goes on.
    """

    PLAN = "plan"
    CLAIM = "claim"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a write must see. Its streams are locked first, then its waves, each in a fixed order.

    `streams` and `waves` may name what is not on record. `ranges` are chosen by id, `crossing` by the slice that they
    share offsets with; with `follow` their waves are locked too. `planned` asks for the PLANNED ranges of the waves,
    `counts` for how many ranges of each state each wave has; `attempts` for those of the waves, `attempt_ids` for
    others by id; `plans` for those of the waves and the ranges, `plan_ids` and `skips` name others that may be on
    record; `tables` asks for the UUIDs of the pipeline's tables, `configurations` for its newest configuration and the
    one with the `digest`, `layouts` for the layouts and segments of its topics; `gate` for what the one wave must wait
    for; `notified` for how far the pipeline's moves were notified, under lock; `requests` for what was asked for the
    waves. `every` asks for all streams, waves and
    ranges of the pipeline; `alone` waits until no other write goes on. With a `turn` the pipeline, which may be named
    by one of its waves, is locked first of all; then its pauses are read and, for a claim, which of its waves have a
    live lease (`at_work`).
    """

    pipeline: str | None = None
    turn: Turn | None = None
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
    """What is on record of a scope, as long as its locks are held; `now` is the ledger's own clock after locking."""

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

    It is written only while the row is what `before` says: a stream of its version; a wave of its fence, attempt and
    state; an attempt of its outcome; a range of its wave, state and offsets.
    """

    before: Row | None = None
    after: Row | None = None

    @property
    def row(self) -> Row:
        """What the edit is about, as far as its kind."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T_co]):
    """What a write changes: rows, lines of the history, receipts for the lake, each with its table; and its answer."""

    result: T_co
    edits: tuple[Edit, ...] = ()
    entries: tuple[Entry, ...] = ()
    outbox: tuple[tuple[str, ReceiptRow], ...] = ()


class Write(Generic[T_co]):
    """A write: a frozen value with two pure methods. `name` is what history and the interceptors of tests call it."""

    __slots__ = ()
    name: ClassVar[str]

    def scope(self) -> Scope:
        """Return what it must see."""
        raise NotImplementedError

    def decide(self, records: Records) -> Change[T_co]:
        """Return what changes; raises the refusal."""
        raise NotImplementedError

    def refused(self, *, overlap: bool) -> KafkaLakeError | None:  # noqa: ARG002 (for writes that have a refusal of their own)
        """Return the refusal for a change that a constraint of the database refuses; None for the database's error."""
        return None


class AttemptWrite(Write[T_co]):
    """A write of an attempt, guarded by its key; refused as stale, it leaves an event."""

    __slots__ = ()
    key: AttemptKey

    def late(self) -> Late:
        """Return what is written down of a refusal."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Late(Write[None]):
    """A write that came too late is written down, in a transaction of its own: its own wrote nothing."""

    name = "late"
    key: AttemptKey
    write: str

    def scope(self) -> Scope:
        return Scope(waves=(self.key.wave,))

    def decide(self, records: Records) -> Change[None]:
        wave = records.wave(self.key.wave)
        key = self.key
        detail = (
            f"{self.write} of attempt {key.attempt}, fence {key.fence}: the wave is {wave.state} at fence {wave.fence}"
        )
        entry = Entry(pipeline=wave.pipeline, actor=key.attempt, kind="refused", subject=wave.id, detail=detail)
        return Change(result=None, entries=(entry,))
