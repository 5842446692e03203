"""The common proof of lake and ledger, their contradictions, and the parts to restore."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import chain, pairwise

from airflow_kafka_lake.core.accounting import Receipt
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger.changes import range_receipt
from airflow_kafka_lake.core.ledger.records import (
    AttemptRows,
    Commit,
    PublishedWave,
    RangeRecord,
    ReceiptRow,
    StreamRecord,
    StreamRow,
)
from airflow_kafka_lake.core.ledger.waves import PUBLISHES, Ancestry, AttemptKey, RangeState, Token, WaveState
from airflow_kafka_lake.core.offsets import HasSlice, OffsetRange, RangeSet, Slice, Stream, grouped, offsets_by
from airflow_kafka_lake.core.planning.plan import Weights
from airflow_kafka_lake.core.spec import PipelineSpec

# The lake's records of reopening: the receipts that they undo, and the offsets to be read again.

Reopened = Sequence[tuple[OffsetRange, int]]
"""Slices with the generation in which they are to be read again."""


@dataclass(frozen=True, slots=True)
class Reopens:
    """The reopened slices of each stream."""

    by_stream: Mapping[Stream, Reopened]

    @classmethod
    def of(cls, receipts: Iterable[ReceiptRow]) -> Reopens:
        """Collect them from receipts; those without a generation accept a loss, and are about one attempt only."""
        reopened = (row for row in receipts if row.kind == "reopen" and row.generation)
        return cls(grouped((row.stream, (row.range, row.generation)) for row in reopened))

    def undo(self, done: RangeRecord | ReceiptRow) -> bool:
        """Return whether some of a range was reopened after it was committed in its generation; the rest of it then has
        records of its own."""
        reopened = self.by_stream.get(done.stream, ())
        return any(newer > done.generation and item.overlaps(done.range) for item, newer in reopened)

    def later_than(self, stream: Stream, generation: int) -> RangeSet:
        """Return the offsets of a stream that were reopened after a generation."""
        return RangeSet(item for item, newer in self.by_stream.get(stream, ()) if newer > generation)

    def open(self, since: Iterable[ReceiptRow]) -> Iterator[tuple[Stream, OffsetRange, int]]:
        """Yield the slices neither committed nor skipped since they were reopened, with their newest generation."""
        done = grouped((row.stream, row) for row in since)
        for stream, slices in sorted(self.by_stream.items()):
            edges = sorted({edge for item, _ in slices for edge in (item.start, item.end)})
            for item in RangeSet(item for item, _ in slices):
                for part in item.split_at(edges):
                    newest = max(generation for other, generation in slices if other.overlaps(part))
                    ended = RangeSet(row.range for row in done[stream] if row.generation >= newest)
                    yield from ((stream, left, newest) for left in RangeSet((part,)) - ended)


# The parts that a rebuild puts back into a ledger.


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWave:
    """A wave that the lake holds: its publisher, and its rows; the receipts' `range_id` is for new ranges.

    `at` is when its receipts were written, `snapshot` None once its commit has expired.
    """

    wave: str
    table: str
    attempt: str
    fence: int
    snapshot: int | None = None
    at: datetime
    receipts: tuple[Receipt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSkip:
    """A skip that the lake has a receipt of; its author and reason were only in the ledger."""

    id: str
    stream: Stream
    at: datetime
    passed: RangeSet
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSlice(HasSlice):
    """A slice that was reopened and not committed or skipped since: it is to be read again, in this generation."""

    table: str
    slice: Slice
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPlan(PendingSlice):
    """Such a slice in a new wave of the table; `leader_epoch` is the epoch of the first read."""

    id: str
    wave: str
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """One decision to make a ledger agree with the lake.

    `token` is that of the commit that moved main first. `versions` are those of the streams it was made from; `ends`
    has the streams whose logs the lake has seen longer, each with the leader epoch it had that end under, where it is
    known. `guards` are the open waves that the caller has claimed; `streams` are not on record.
    `reopened` names committed ranges whose rows are gone, `undone` the committed waves whose commit is not in main's
    history, so that it proves nothing any more, even where their rows came back with another commit. `fences` has the
    highest fence that the lake has seen of each wave, `receipts` the ones that the lake still lacks, with their tables.
    `reopens` is all that was ever reopened, `planned` the part to be read again, with its `weights`.
    """

    spec: PipelineSpec
    token: Token
    observed_at: datetime
    versions: Mapping[Stream, int]
    guards: tuple[AttemptKey, ...]
    tables: Mapping[str, str]
    streams: tuple[StreamRow, ...]
    waves: tuple[RestoredWave, ...]
    skips: tuple[RestoredSkip, ...]
    reopened: tuple[str, ...]
    fences: Mapping[str, int]
    receipts: tuple[tuple[str, ReceiptRow], ...]
    ends: Mapping[Stream, tuple[int, int | None]] = field(default_factory=dict)
    reopens: Reopens = field(default_factory=lambda: Reopens({}))
    planned: tuple[RestoredPlan, ...] = ()
    weights: Weights = field(default_factory=lambda: Weights(by_stream={}))
    undone: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The id of the rebuild: of its plan, its wave, and the ranges it brings."""
        return self.token.wave

    @property
    def in_order(self) -> tuple[RestoredWave, ...]:
        """The waves with the rebuild's own, which has no range and no table and makes its token known; oldest first."""
        token = self.token
        own = RestoredWave(wave=self.id, table="", attempt=token.attempt, fence=token.fence, at=self.observed_at)
        return tuple(sorted((*self.waves, own), key=lambda wave: (wave.at, wave.wave)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """The changes of a restoration: ranges that go, ranges that come, waves that change state, watermarks that fall."""

    removed: frozenset[str]
    placed: tuple[RangeRecord, ...]
    waves: Mapping[str, WaveState]
    watermarks: Mapping[Stream, int]
    new_waves: Mapping[str, str] = field(default_factory=dict)
    """New PLANNED waves, with their tables."""


RESTORED = "restored from the lake's receipt; the reason was in the lost ledger"
"""The reason of a restored skip."""


# The readings and the findings of a rebuild: values only.

Range = tuple[str, Stream, OffsetRange]
"""Attempt, stream and range of a receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """The reading of one table after main was moved; receipts and rows are this pipeline's only.

    `owners` maps each topic id to the id of the ledger that owned it before main was moved; `commits` are main's, as
    far back as `ancestry` goes.
    """

    table: str
    uuid: str
    owners: Mapping[str, str]
    commits: tuple[Commit, ...]
    ancestry: Ancestry
    attempt_rows: tuple[AttemptRows, ...]
    receipts: tuple[ReceiptRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMemory:
    """The ledger's remaining records; `published` maps a committed wave to its publish, for waves that brought rows,
    and `committed` names the attempts that it knows as committed, whatever their ranges are now."""

    streams: tuple[StreamRecord, ...]
    ranges: tuple[RangeRecord, ...]
    published: Mapping[str, PublishedWave]
    committed: frozenset[str]
    guards: tuple[AttemptKey, ...]

    def undone(self, reading: TableReading) -> tuple[PublishedWave, ...]:
        """Return the publishes that are not in a table's history: main was rolled back to before them. Any of their
        rows there came with other commits."""
        return tuple(
            item
            for item in self.published.values()
            if item.table == reading.table
            and item.snapshot is not None
            and reading.ancestry.lacks_publish(item.attempt, base=item.base, snapshot=item.snapshot)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction(HasSlice):
    """One range, or one attempt's rows, about which the table contradicts its receipts."""

    table: str
    attempt: str
    slice: Slice
    expected: int
    found: int
    what: str

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "table": self.table,
            **self.slice.entry(),
            "attempt": self.attempt,
            "expected": self.expected,
            "found": self.found,
            "what": self.what,
        }

    def __str__(self) -> str:
        rows = f"attempt {self.attempt}: {count(self.found, 'row')} of {self.expected:,}"
        return f"{self.table}: {self.slice}: {self.what} ({rows})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeComparison:
    """The findings: `vanished` can be read again, `contradictions` need a person; the rest can be restored, also slices
    of which others have `deleted` rows."""

    waves: tuple[RestoredWave, ...]
    vanished: tuple[Contradiction, ...]
    deleted: tuple[Contradiction, ...]
    contradictions: tuple[Contradiction, ...]
    reopened: tuple[str, ...]
    receipts: tuple[tuple[str, ReceiptRow], ...]
    pending: tuple[PendingSlice, ...] = ()


# The comparison of lake and ledger.
#
# A range counts as committed when its attempt was published (a token in main's history, rows by `ingest_attempt`,
# or a `published` receipt) and the table holds no more rows than its receipt names. Fewer are there when others
# have deleted some; where none is left, main's history must have the commit, or the commit must be old enough to
# have expired.


def compare(readings: Sequence[TableReading], known: LedgerMemory, now: datetime) -> LakeComparison:
    """Compare every table with its receipts and with the ledger's committed ranges."""
    skips = [row for item in readings for row in item.receipts if row.kind == "skip" and row.generation]
    found = [_Table(item, known, now, skips) for item in readings]
    for table in found:
        table.compare()
    parts = {part.name: [getattr(one, part.name) for one in found] for part in fields(LakeComparison)}
    whole = LakeComparison(**{name: tuple(chain.from_iterable(lists)) for name, lists in parts.items()})
    return replace(whole, contradictions=whole.contradictions + _overlaps(whole, known))


class _Table:
    """The comparison of one table; its lists become those of the `LakeComparison` of all."""

    def __init__(self, reading: TableReading, known: LedgerMemory, now: datetime, skips: Sequence[ReceiptRow]) -> None:
        self.reading, self.known, self.now, self.skips = reading, known, now, skips
        self.reopens = Reopens.of(reading.receipts)
        self.rows = {(item.attempt, item.stream): item for item in reading.attempt_rows if item.attempt}
        self.accepted = {_range(row) for row in reading.receipts if row.kind == "reopen"}
        self.shown = _tokens(reading) | {attempt for attempt, _ in self.rows}
        self.undone = reading.ancestry.left | {item.attempt for item in known.undone(reading)}
        self.published_at = {_range(row): row.recorded_at for row in reading.receipts if row.kind == "published"}
        self.proved: dict[str, list[ReceiptRow]] = defaultdict(list)
        self.read: list[ReceiptRow] = []
        self.vanished: list[Contradiction] = []
        self.deleted: list[Contradiction] = []
        self.contradictions: list[Contradiction] = []
        self.reopened: list[str] = []
        self.receipts: list[tuple[str, ReceiptRow]] = []
        self.waves: Sequence[RestoredWave] = ()
        self.pending: Sequence[PendingSlice] = ()

    def compare(self) -> None:
        """Check every published attempt's ranges, and every attempt's rows."""
        self.reopened += [item.id for item in self.known.ranges if self.reopens.undo(item)]
        recorded = {**self._remembered(), **self._claimed()}
        committed = (item for item in self.known.ranges if item.state is RangeState.COMMITTED)
        index = grouped(((item.stream, item.range), item) for item in committed if not self.reopens.undo(item))
        for key, row in recorded.items():
            self._check_range(row, [item.id for item in index[key[1:]] if self._brought(item, row.attempt)])
        self.pending = self._pending()
        self._check_unplanned(recorded)
        self.waves = (*(self._wave(rows) for rows in self.proved.values()), *self._without_a_range())

    def _check_range(self, row: ReceiptRow, ids: Sequence[str]) -> None:
        """Decide about a committed range, which has these ids in the ledger: it stands, was reopened, or is lost."""
        if _range(row) in self.accepted:
            self.reopened += ids
            return
        if self._is_lost(row):
            self.reopened += ids
            self._add_receipt("reopen", row)
            return
        if not ids:  # of the lake alone: the ledger's own have their range
            self.proved[row.attempt].append(row)
        self.read.append(row)
        if _range(row) not in self.published_at:
            self._add_receipt("published", row)

    def _add_receipt(self, kind: str, row: ReceiptRow) -> None:
        self.receipts.append((self.reading.table, replace(row, kind=kind, recorded_at=self.now)))

    def _pending(self) -> tuple[PendingSlice, ...]:
        """Return the reopened slices, less the parts read again or skipped since; a skip's receipt is in the table of
        the pipeline's file, which may be another since."""
        return tuple(
            PendingSlice(table=self.reading.table, slice=Slice(stream, part), generation=generation)
            for stream, part, generation in self.reopens.open(
                row for row in (*self.read, *self.skips) if row.generation
            )
        )

    def _claimed(self) -> dict[Range, ReceiptRow]:
        """Return the committed ranges by the lake: the receipts of published attempts, less the reopened parts.

        A range is only ever cut. Where an attempt has receipts of a range and of parts of it, the parts were published:
        its worker, believed dead, wrote the others when they had been cut and staged rows went on being published.
        """
        published = self.shown | {row.attempt for row in self.reading.receipts if row.kind == "published"}
        found: dict[Range, ReceiptRow] = {}
        for row in self.reading.receipts:
            counts = row.attempt in published and _range(row) not in self.accepted
            if row.kind in {"rows", "published"} and counts and not self.reopens.undo(row):
                found.setdefault(_range(row), row)
        cut = _cut_since(found.values())
        return {key: row for key, row in found.items() if key not in cut}

    def _remembered(self) -> dict[Range, ReceiptRow]:
        """Return the ledger's committed ranges with rows in this table, as if they were receipts."""
        found = {}
        for item in self.known.ranges:
            publish, committed = self.known.published.get(item.wave), item.state is RangeState.COMMITTED
            if committed and publish and publish.table == self.reading.table and not self.reopens.undo(item):
                found[publish.attempt, item.stream, item.range] = range_receipt(
                    "published", item, attempt=publish.attempt, fence=0, at=self.now
                )
        return found

    def _brought(self, item: RangeRecord, attempt: str) -> bool:
        """Return whether a committed range is an attempt's; one of a wave without rows may be any attempt's."""
        publish = self.known.published.get(item.wave)
        return publish is None or publish.attempt == attempt

    def _is_lost(self, row: ReceiptRow) -> bool:
        """Compare one range's rows with its receipt; returns whether main has lost its commit."""
        mine = self.rows.get((row.attempt, row.stream))
        there = mine.offsets.within(row.range).span if mine else 0
        if there == row.rows:
            return False
        where, what = self.vanished, "its rows are gone"
        if there > row.rows:
            where, what = self.contradictions, "more rows than its receipt says"
        elif self._stands_on(row):
            where, what = self.deleted, "rows of it were deleted"
        where.append(self._problem(row.attempt, row.slice, row.rows, found=there, what=what))
        return where is self.vanished

    def _stands_on(self, row: ReceiptRow) -> bool:
        """Return whether the commit of a range is in main's history, so that missing rows were deleted from it.

        A commit brings all of its rows or none: one row of the attempt is enough. Without any, its token must be in the
        history, or its commit be older than all that is left of the history. Where the table still has the commit
        beside main, or the ledger knows its snapshot, no clock is asked whether that was undone.
        """
        if row.attempt in self.shown:
            return True
        committed = self.published_at.get(_range(row))
        if committed is None or row.attempt in self.undone:
            return False
        return bool(self.reading.ancestry.since) and committed < self.reading.commits[0].at

    def _check_unplanned(self, committed: Mapping[Range, ReceiptRow]) -> None:
        """Name rows without a receipt, and rows that are there twice.

        Where something was reopened, rows of the earlier reading stay until it is read again, and for good where that
        was skipped.
        """
        planned = offsets_by(((attempt, stream), part) for attempt, stream, part in committed)
        reopened = ((item.stream, item.range) for item in self.pending)
        waiting = offsets_by(chain(reopened, ((row.stream, row.range) for row in self.skips)))
        for key, item in self.rows.items():
            unplanned = item.offsets - planned[key] - waiting[key[1]]
            if unplanned:
                self._contradict(item, unplanned, 0, found=unplanned.span, what="rows without a receipt")
            if item.duplicates:
                expected = item.offsets.span
                self._contradict(
                    item, item.offsets, expected, found=expected + item.duplicates, what="rows that are there twice"
                )

    def _contradict(self, item: AttemptRows, where: RangeSet, expected: int, *, found: int, what: str) -> None:
        first = Slice(item.stream, OffsetRange(where.starts[0], where.ends[0]))
        self.contradictions.append(self._problem(item.attempt or "", first, expected, found=found, what=what))

    def _problem(self, attempt: str, where: Slice, expected: int, *, found: int, what: str) -> Contradiction:
        table = self.reading.table
        return Contradiction(table=table, attempt=attempt, slice=where, expected=expected, found=found, what=what)

    def _without_a_range(self) -> Iterator[RestoredWave]:
        """Return the waves in main's history that the ledger lacks, of which nothing counts: all was reopened since.

        They were published all the same: they must not be published again, and their commits and rows are known.
        """
        undone = (row for row in self.reading.receipts if row.kind == "rows" and self.reopens.undo(row))
        rows = grouped((row.attempt, row) for row in undone)
        for attempt in sorted(rows.keys() & _tokens(self.reading) - self.proved.keys() - self.known.committed):
            yield replace(self._wave(rows[attempt]), receipts=())

    def _wave(self, rows: Sequence[ReceiptRow]) -> RestoredWave:
        first = rows[0]
        snapshots = {item.token.attempt: item.snapshot for item in self.reading.commits if item.token}
        return RestoredWave(
            wave=first.wave,
            table=self.reading.table,
            attempt=first.attempt,
            fence=first.fence,
            snapshot=snapshots.get(first.attempt),
            at=max(row.recorded_at for row in rows),
            receipts=tuple(row.receipt("") for row in sorted(rows, key=lambda row: (row.stream, row.range))),
        )


def _overlaps(found: LakeComparison, known: LedgerMemory) -> tuple[Contradiction, ...]:
    """Name ranges that two attempts claim to have committed: no offset is committed twice."""
    claims = [(r.slice, wave.table, wave.attempt, r.rows) for wave in found.waves for r in wave.receipts]
    reopened = set(found.reopened)
    for item in known.ranges:
        if item.state is RangeState.COMMITTED and item.id not in reopened:
            publish = known.published.get(item.wave)
            table, attempt = (publish.table, publish.attempt) if publish else ("ledger", item.wave)
            claims.append((item.slice, table, attempt, item.rows or 0))
    claims.sort(key=lambda claim: claim[0])
    return tuple(
        Contradiction(table=table, attempt=attempt, slice=b, expected=0, found=rows, what=f"committed by {other} too")
        for (a, _, other, _), (b, table, attempt, rows) in pairwise(claims)
        if a.stream == b.stream and a.range.overlaps(b.range)
    )


def _cut_since(claimed: Iterable[ReceiptRow]) -> AbstractSet[Range]:
    """Return the ranges of which the same attempt has receipts of parts."""
    by_place = sorted(claimed, key=lambda row: (row.attempt, row.stream, row.range.start, -row.range.end))
    return {
        _range(whole)
        for whole, part in pairwise(by_place)
        if (whole.attempt, whole.stream) == (part.attempt, part.stream) and part.range.end <= whole.range.end
    }


def _tokens(reading: TableReading) -> set[str]:
    """Return the attempts whose commits are in main's history, as far as it has not expired."""
    return {item.token.attempt for item in reading.commits if item.token and item.token.kind in PUBLISHES}


def _range(row: ReceiptRow) -> Range:
    return (row.attempt, row.stream, row.range)
