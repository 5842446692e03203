"""Ledgers that are lost or set back, and what a rebuild owes: what the lake proves comes back, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_kafka_lake.core.ledger.records import RangeRecord, ReceiptRow
from airflow_kafka_lake.core.ledger.waves import RESOLVED, RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Stream
from tests.kit.memory_ledger import MemoryLedger, State
from tests.properties.scheduler import Worker
from tests.world import World

Covered = Mapping[Stream, RangeSet]
HELD = frozenset({RangeState.HELD, RangeState.CANCELLED})
NEWEST_CHECKED = frozenset({"published", "skip"})
"""Receipts that say by themselves that a range is passed."""


@dataclass(slots=True)
class Begun:
    """The life that a worker began in, its ledger, and the receipts that were there when it last moved main."""

    life: int
    ledger: MemoryLedger
    receipts: tuple[ReceiptRow, ...] = ()


@dataclass(slots=True)
class Lives:
    """Which ledger a world has, and whether it is behind the lake: from a loss to the end of a rebuild begun later."""

    world: World
    number: int = 0
    behind: bool = False
    disturbed: bool = False
    rebuilt: int = 0
    accepts: bool = False
    """Whether a rebuild accepts that main was rolled back: what vanished may be forgotten, and is read again."""
    origins: dict[Stream, int] = field(default_factory=dict)
    _begun: dict[int, Begun] = field(default_factory=dict)

    def begin(self, worker: Worker) -> None:
        """Remember what a worker begins with."""
        self._begun[worker.pid] = Begun(self.number, self.world.ledger)
        self.disturbed = self.disturbed or worker.name == "rebuild"

    def lose(self) -> None:
        """Go on with a fresh ledger: workers that are at work keep the old one."""
        self.world.lose_ledger(f"{self.number + 2:032x}")
        self._another()

    def set_back(self, backup: State) -> None:
        """Go on with the ledger as it was: under everybody's hands."""
        self.world.ledger.restore(backup)
        self._another()

    def _another(self) -> None:
        self.number += 1
        self.behind = self.disturbed = True
        self.world.watermarks.clear()

    def head(self) -> int | None:
        """Return where main is."""
        store = self.world.table._store
        return store.refs.get("main") if store else None

    def stepped(self, worker: Worker, call: str, before: State, head: int | None) -> bool:
        """Judge a call that a worker made; returns whether it brought a rebuild into the ledger there is."""
        begun, ledger = self._begun[worker.pid], self.world.ledger
        moved = self.head() != head
        if call == "table.fence":
            begun.receipts = tuple(self.world.table._receipts.values())
        if begun.ledger is not ledger and moved and not self.behind:
            assert self._shared(), f"{worker.name} moved main with a ledger that was lost: {call}"
            self.number += 1
            self.behind = True
        brought = ledger._state.plans.keys() - before.plans.keys() if ledger._state is not before else frozenset()
        if call != "ledger.restore" or not brought or begun.ledger is not ledger:
            return False
        self._check(before, begun.receipts)
        self.rebuilt += 1
        if begun.life == self.number:
            self.behind = False
        return True

    def _shared(self) -> bool:
        """Return whether another ledger owns a topic: a lost one was rebuilt, or was first at a new topic."""
        store = self.world.table._store
        owners = store.owners.values() if store else ()
        return any(ledger_id != self.world.ledger.ledger_id() for ledger_id, _ in owners)

    def note_origins(self) -> None:
        """Remember where streams began, from a ledger that is right."""
        for (_, key), stream in self.world.ledger._state.streams.items():
            self.origins.setdefault(key, stream.origin)

    def _check(self, before: State, receipts: Iterable[ReceiptRow]) -> None:
        """Hold what a rebuild brought against what was on record, and what the lake could and can prove.

        What was reopened since it was committed or skipped is neither, until a later generation of it is.
        """
        after, here = self.world.ledger._state, tuple(self.world.table._receipts.values())
        then, known = tuple(receipts), (*here, *(item.row for _, item in before.outbox.values()))
        now = _ranges(after.ranges.values(), RESOLVED)
        was = [item for item in before.ranges.values() if item.state in RESOLVED]
        surely = _newest(was, [*self._proving(then)], reopened=known)
        perhaps = _newest(was, [*self._proving(here)], reopened=then)
        for key in {*now, *surely, *perhaps}:
            missing = surely[key] - now[key]
            assert not missing or self.accepts, f"{key}: a rebuild forgot {missing}"
            foreign = now[key] - perhaps[key]
            assert not foreign, f"{key}: a rebuild made up {foreign}"
        stuck, still = _ranges(before.ranges.values(), HELD), _ranges(after.ranges.values(), HELD)
        again = _newest([], [], reopened=known, waiting=before.ranges.values())
        for key in {*stuck, *still}:
            assert still[key] == stuck[key] - now[key] - again[key], f"{key}: a rebuild changed what is held"
        streams = {key for _, key in before.streams}
        for stream in self.world.ledger.streams(self.world.spec.name):
            if stream.key not in streams and stream.key in self.origins:
                assert stream.origin == self.origins[stream.key], f"{stream.key}: another origin, {stream.origin}"

    def _proving(self, rows: tuple[ReceiptRow, ...]) -> Iterator[ReceiptRow]:
        """Yield the receipts that prove something, beside a table's rows, tokens and other receipts."""
        store = self.world.table._store
        published = {row.attempt for row in store.rows()} if store else set()
        published |= {item.token.attempt for item in store.history() if item.token} if store else set()
        published |= {row.attempt for row in rows if row.kind == "published"}
        for row in rows:
            if row.kind in NEWEST_CHECKED or (row.kind == "rows" and row.attempt in published):
                yield row


def _newest(
    committed: Iterable[RangeRecord],
    proving: Iterable[ReceiptRow],
    *,
    reopened: Iterable[ReceiptRow],
    waiting: Iterable[RangeRecord] = (),
) -> Covered:
    """Return the offsets whose newest generation is committed or skipped, offset by offset.

    With `waiting` it is the other way round: the offsets of these whose generation is older than a reopen of theirs.
    """
    due: dict[tuple[Stream, int], int] = defaultdict(int)
    for row in reopened:
        if row.kind == "reopen":
            for offset in range(row.range.start, row.range.end):
                due[row.stream, offset] = max(due[row.stream, offset], row.generation)
    found: dict[Stream, list[OffsetRange]] = defaultdict(list)
    newer: tuple[RangeRecord | ReceiptRow, ...] = (*committed, *proving, *waiting)
    for item in newer:
        for offset in range(item.range.start, item.range.end):
            is_newest = item.generation >= due.get((item.stream, offset), 0)
            if is_newest is not bool(waiting):
                found[item.stream].append(OffsetRange(offset, offset + 1))
    return _sets(found)


def _ranges(ranges: Iterable[RangeRecord], states: frozenset[RangeState]) -> Covered:
    found: dict[Stream, list[OffsetRange]] = defaultdict(list)
    for item in ranges:
        if item.state in states:
            found[item.stream].append(item.range)
    return _sets(found)


def _sets(found: Mapping[Stream, list[OffsetRange]]) -> Covered:
    return defaultdict(RangeSet, {key: RangeSet(parts) for key, parts in found.items()})
