"""The checks of an audit: is anything lost, twice, visible too early, or other than recorded?"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import (
    AttemptRows,
    Commit,
    RangeRecord,
    ReceiptRow,
    StreamRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.reopening import RECEIPT as REOPENED
from airflow_kafka_lake.core.ledger.reopening import rows_before
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    PUBLISHES,
    RESOLVED,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Stream, grouped, offsets_by, ranges_digest
from airflow_kafka_lake.core.wire import timestamp

# The inputs of an audit, and its findings.

SHOWN = 100
"""Slices of offsets that a document names; the rest is counted."""


def by_stream(ranges: Iterable[RangeRecord]) -> defaultdict[Stream, list[RangeRecord]]:
    """Return ranges by their stream."""
    return grouped((item.stream, item) for item in ranges)


class FindingKind(StrEnum):
    """The kinds of findings."""

    LOST = "lost"
    DUPLICATE = "duplicate"
    INCONSISTENT = "inconsistent"
    VISIBLE_BEFORE_ACCOUNTED = "visible-before-accounted"
    WATERMARK_AHEAD = "watermark-ahead"
    WATERMARK_BACK = "watermark-back"
    VISIBLE_WITHOUT_TOKEN = "visible-without-token"  # noqa: S105  # the token of a commit
    TOKEN_WITHOUT_ROWS = "token-without-rows"  # noqa: S105  # the same
    STALE_FENCE = "stale-fence"
    DIFFERENT = "different"
    CUTOVER_MISSING = "cutover-missing"
    CUTOVER_TWICE = "cutover-twice"
    NOT_JUDGED = "not-judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault; `stream` and `offsets` where it is about offsets, else `wave` or `table`."""

    kind: FindingKind
    message: str
    stream: Stream | None = None
    offsets: RangeSet = field(default_factory=RangeSet)
    wave: str | None = None
    table: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the wire form; of many slices the first are named, and all offsets are counted."""
        topic, topic_id, partition = self.stream or (None, None, None)
        return {
            "kind": self.kind.value,
            "topic": topic,
            "topic_id": topic_id,
            "partition": partition,
            "offsets": self.offsets.to_pairs()[:SHOWN],
            "span": self.offsets.span,
            "wave": self.wave,
            "table": self.table,
            "message": self.message,
        }

    @property
    def where(self) -> str:
        """The partition, or else the wave or the table that it is about."""
        return str(self.stream) if self.stream else self.wave or self.table or ""

    @property
    def place(self) -> tuple[str, ...]:
        """The sort key: by stream and offsets, then wave, then table."""
        stream = (
            (self.stream.topic, self.stream.topic_id, f"{self.stream.partition:06}") if self.stream else ("~", "", "")
        )
        offset = f"{self.offsets.first:020}" if self.offsets else ""
        return (*stream, offset, self.wave or "", self.table or "", self.kind, self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInputs:
    """The ledger's records of one pipeline, all of one moment."""

    pipeline: str
    streams: tuple[StreamRecord, ...]
    ranges: tuple[RangeRecord, ...]
    waves: tuple[WaveRecord, ...]
    attempts: tuple[AttemptRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInputs:
    """The content of one table of the pipeline: main's history oldest first, main's rows, and all receipts.

    The history and the receipts were read after the rows, and `behind_rows` are the snapshots of the history as it was
    before them: a wave landed in between has commits, and rows that were not read.

    `damaged` says why main could not be read: its rows are not known then.
    """

    identifier: str
    commits: tuple[Commit, ...] = ()
    behind_rows: frozenset[int] = frozenset()
    attempt_rows: tuple[AttemptRows, ...] = ()
    receipts: tuple[ReceiptRow, ...] = ()
    damaged: str | None = None


@dataclass(frozen=True, kw_only=True)
class AuditInputs:
    """All inputs of a check, of a pipeline that goes on meanwhile: the ledger as it was `before` the lake was read,
    whose commits the lake has, and as it was after it, with all on record that the lake has."""

    before: LedgerInputs
    ledger: LedgerInputs
    tables: tuple[TableInputs, ...]

    @property
    def committed(self) -> tuple[RangeRecord, ...]:
        """The ranges that were COMMITTED all the while: their rows are in the lake."""
        return self._always(RangeState.COMMITTED)

    @cached_property
    def kept(self) -> tuple[RangeRecord, ...]:
        """The offsets that were SKIPPED all the while after a reopen, with the rows of the reading before, which the
        skip has left in the lake.

        The pieces are those of skips and of the receipts of reopens, of the newest receipt's wave: records of deleted
        rows name range and wave, and a ledger that was rebuilt from receipts has no others.
        """
        receipts = [row for table in self.tables for row in table.receipts if row.kind == REOPENED]
        by_reopen = grouped(((row.stream, row.generation), row) for row in receipts)
        skips = grouped(((i.stream, i.generation, i.skip), i) for i in self._always(RangeState.SKIPPED) if i.generation)
        return tuple(
            piece
            for (stream, generation, _), items in skips.items()
            for piece in _left_by_skip(items, by_reopen.get((stream, generation), ()))
        )

    @property
    def landed(self) -> tuple[RangeRecord, ...]:
        """Both: the ranges whose rows are to be in the lake."""
        return (*self.committed, *self.kept)

    def _always(self, state: RangeState) -> tuple[RangeRecord, ...]:
        still = {item.id: (item.state, item.range, item.generation) for item in self.ledger.ranges}
        return tuple(
            item
            for item in self.before.ranges
            if item.state is state and still.get(item.id) == (item.state, item.range, item.generation)
        )

    @property
    def deletions(self) -> Deletions:
        """The rows deleted on purpose, as the tables' receipts say."""
        return Deletions.of(row for table in self.tables for row in table.receipts)

    @property
    def unreadable(self) -> frozenset[str]:
        """The waves whose rows are in a damaged table, present or not."""
        damaged = {table.identifier for table in self.tables if table.damaged}
        return frozenset(wave for wave, table in self.tables_of_waves.items() if table in damaged)

    @property
    def tables_of_waves(self) -> Mapping[str, str]:
        """The table of each wave; also of those that only receipts name, as the reopens of a lost ledger."""
        known = {row.wave: table.identifier for table in self.tables for row in table.receipts}
        return known | {wave.id: wave.table for wave in self.ledger.waves}


def _left_by_skip(items: Sequence[RangeRecord], receipts: Sequence[ReceiptRow]) -> Iterator[RangeRecord]:
    edges = sorted({edge for row in receipts for edge in (row.range.start, row.range.end)})
    for part in (piece for item in RangeSet(item.range for item in items) for piece in item.split_at(edges)):
        around = [row for row in receipts if row.range.overlaps(part)]
        piece = replace(items[0], slice=items[0].slice.part(part))
        if rows := rows_before(piece, around):
            yield replace(
                piece,
                wave=max(around, key=lambda row: (row.recorded_at, row.wave)).wave,
                rows=rows.span,
                first_offset=rows.first,
                last_offset=rows.last,
                accounting=Accounting(visible=rows.span, skipped=part.span - rows.span),
            )


# Whether watermarks are where they should be.


def check_progress(inputs: AuditInputs) -> Iterator[Finding]:
    """Find watermarks ahead of committed ranges."""
    ranges = by_stream(inputs.ledger.ranges)
    for stream in inputs.ledger.streams:
        mine = ranges[stream.key]
        # Computed from the ranges: the stored coverage may depend on the watermark.
        end = RangeSet(item.range for item in mine if item.state in RESOLVED).unbroken_end(stream.origin)
        if stream.watermark > end:
            message = f"the watermark {stream.watermark} is ahead of what is committed: {end}"
            ahead = RangeSet.between(end, stream.watermark)
            yield Finding(kind=FindingKind.WATERMARK_AHEAD, stream=stream.key, offsets=ahead, message=message)
        elif stream.watermark not in {stream.origin, *(edge for i in mine for edge in (i.range.start, i.range.end))}:
            # Every legal move ends at an end of a range.
            message = (
                f"the watermark {stream.watermark} is at the end of no range: it was edited; committed is up to {end}"
            )
            yield Finding(kind=FindingKind.WATERMARK_BACK, stream=stream.key, message=message)


# Compare commits, receipts and ledger about the same attempts.

SHOWN_BY_ATTEMPT = frozenset({RangeState.PLANNED, RangeState.COMMITTED})
"""The states of a range of a published wave: not committed yet, or committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCheck:
    """Attempts and waves of the ledger, tokens and receipts of the lake, by id."""

    attempts: Mapping[str, AttemptRecord]
    waves: Mapping[str, WaveRecord]
    tokens: Mapping[str, Token]
    receipts: Mapping[str, Sequence[ReceiptRow]]
    committed: frozenset[str]
    snapshots: frozenset[int]
    reopened: Mapping[Stream, Sequence[RangeRecord]]
    deletions: Deletions

    @classmethod
    def of(cls, inputs: AuditInputs) -> CommitCheck:
        """Index the inputs of an audit."""
        ledger = inputs.ledger
        receipts = [row for table in inputs.tables for row in table.receipts]
        return cls(
            attempts={item.attempt: item for item in ledger.attempts},
            waves={item.id: item for item in ledger.waves},
            tokens={
                commit.token.attempt: commit.token
                for table in inputs.tables
                for commit in publishes(table, ledger.pipeline)
                if commit.token
            },
            receipts=grouped((row.attempt, row) for row in receipts if row.kind == "rows"),
            committed=frozenset(row.attempt for row in receipts if row.kind == "published"),
            snapshots=frozenset(commit.snapshot for table in inputs.tables for commit in table.commits),
            reopened=by_stream(item for item in ledger.ranges if item.generation),
            deletions=inputs.deletions,
        )

    def is_cut(self, attempt: str) -> bool:
        """Return whether some of an attempt's published ranges were reopened: later readings replace their rows."""
        return any(
            item.generation > row.generation and item.range.overlaps(row.range)
            for row in self.receipts.get(attempt, ())
            for item in self.reopened.get(row.stream, ())
        )

    def published(self, attempt: str | None) -> bool:
        """Return whether something proves that an attempt was published: its commit, or, once that has expired, the
        receipt of its commit, the ledger, or the ledger's base that has expired too."""
        if attempt is None:
            return False
        if attempt in self.tokens or attempt in self.committed:
            return True
        known = self.attempts.get(attempt)
        if known is None or known.base in {None, EMPTY_TABLE} or known.base in self.snapshots:
            return False
        return known.outcome is AttemptOutcome.COMMITTED or bool(self.receipts.get(attempt))

    def wave_of(self, attempt: str | None) -> WaveRecord | None:
        """Return the wave of an attempt, as the ledger knows it."""
        known = self.attempts.get(attempt or "")
        return self.waves.get(known.wave) if known else None


def publishes(table: TableInputs, pipeline: str) -> list[Commit]:
    """Return the commits of a pipeline that made rows visible, oldest first."""
    return [c for c in table.commits if c.token and c.token.pipeline == pipeline and c.token.kind in PUBLISHES]


def check_commits(inputs: AuditInputs, commit_check: CommitCheck) -> Iterator[Finding]:
    """Compare commits, receipts and ledger."""
    ranges = grouped((item.wave, item) for item in inputs.ledger.ranges)
    for table in inputs.tables:
        yield from _check_commits(table, inputs.ledger, commit_check, ranges)
        yield from _check_receipts(table, commit_check)
    yield from _check_rollback(inputs, commit_check)
    yield from _check_numbers(inputs)


def _check_commits(
    table: TableInputs, ledger: LedgerInputs, commit_check: CommitCheck, ranges: Mapping[str, Sequence[RangeRecord]]
) -> Iterator[Finding]:
    """Each publishing commit is one that the ledger knows, of the ranges it names, once per wave, above its fence."""
    with_rows = {item.attempt for item in table.attempt_rows}
    first: dict[str, int] = {}
    fences: dict[str, int] = {}
    ours = [(item, item.token) for item in table.commits if item.token and item.token.pipeline == ledger.pipeline]
    for commit, token in ours:
        if token.kind == "fence":
            fences[token.wave] = max(token.fence, fences.get(token.wave, 0))
        if token.kind not in PUBLISHES:
            continue
        name = f"snapshot {commit.snapshot} of attempt {token.attempt}"
        if token.fence < fences.get(token.wave, 0):
            message = f"{name} has fence {token.fence}, after main was fenced with {fences[token.wave]}"
            yield _about(table, token, FindingKind.STALE_FENCE, message)
        if token.wave in first:
            message = f"wave {token.wave} was published twice: {name}, and snapshot {first[token.wave]}"
            yield _about(table, token, FindingKind.DUPLICATE, message)
        first.setdefault(token.wave, commit.snapshot)
        readable = not table.damaged and commit.snapshot in table.behind_rows
        if readable and not _has_rows_or_needs_none(token, with_rows, commit_check):
            message = f"{name} is a publish, and no row of it is in the table"
            yield _about(table, token, FindingKind.TOKEN_WITHOUT_ROWS, message)
        if unlike := _unlike_ledger(token, commit_check, ranges.get(token.wave, ())):
            yield _about(table, token, FindingKind.INCONSISTENT, f"{name} {unlike}")


def _about(table: TableInputs, token: Token, kind: FindingKind, message: str) -> Finding:
    return Finding(kind=kind, message=message, wave=token.wave, table=table.identifier)


def _has_rows_or_needs_none(token: Token, with_rows: set[str | None], commit_check: CommitCheck) -> bool:
    receipts = commit_check.receipts.get(token.attempt, ())
    left = any(row.rows > commit_check.deletions.rows(row, NOTHING) for row in receipts)
    needs_none = bool(receipts) and (commit_check.is_cut(token.attempt) or not left)
    return token.attempt in with_rows or needs_none


def _unlike_ledger(token: Token, commit_check: CommitCheck, ranges: Sequence[RangeRecord]) -> str | None:
    known = commit_check.attempts.get(token.attempt)
    # An attempt's staged rows may be committed under the fence of a later one, which a rebuild does not bring back.
    if known is None or known.wave != token.wave or known.fence > token.fence:
        return "is unknown to the ledger"
    wave = commit_check.waves.get(token.wave)
    if wave is not None and wave.state is WaveState.COMMITTED and known.outcome is not AttemptOutcome.COMMITTED:
        return f"is {known.outcome} in the ledger, though wave {token.wave} is committed by another attempt"
    if commit_check.is_cut(token.attempt):
        receipts = commit_check.receipts[token.attempt]
        told = ranges_digest(row.slice for row in receipts)
        return None if token.ranges == told else "names other ranges than its receipts"
    shown = [item for item in ranges if item.state in SHOWN_BY_ATTEMPT]
    if shown and token.ranges != ranges_digest(item.slice for item in shown):
        return "names other ranges than the ledger has of its wave"
    return None


def _check_receipts(table: TableInputs, commit_check: CommitCheck) -> Iterator[Finding]:
    """Nothing is visible before every offset of its range is accounted for."""
    receipts = (row for rows in commit_check.receipts.values() for row in rows)
    complete = offsets_by(((row.attempt, row.stream), row.range) for row in receipts if _complete(row))
    for seen in table.attempt_rows:
        if seen.attempt is None or not commit_check.published(seen.attempt):
            continue  # a finding of its own
        if bare := seen.offsets - complete[seen.attempt, seen.stream]:
            message = f"rows at {bare.describe()} of attempt {seen.attempt} are visible without a complete receipt"
            yield Finding(kind=FindingKind.VISIBLE_BEFORE_ACCOUNTED, stream=seen.stream, offsets=bare, message=message)


def _complete(row: ReceiptRow) -> bool:
    sums = row.accounting
    return sums.span == row.range.span and not sums.unexplained and sums.visible == row.rows


def _check_rollback(inputs: AuditInputs, commit_check: CommitCheck) -> Iterator[Finding]:
    """The snapshot of a committed wave is in main's history, if the one before it is: else history has expired
    there."""
    committed = {item.wave for item in inputs.committed}
    for attempt in inputs.ledger.attempts:
        wave = commit_check.waves.get(attempt.wave)
        if wave is None or wave.id not in committed or attempt.outcome is not AttemptOutcome.COMMITTED:
            continue
        if attempt.base in commit_check.snapshots and wave.snapshot not in {None, *commit_check.snapshots}:
            message = f"wave {wave.id} was published as snapshot {wave.snapshot}, which main's history has lost"
            yield Finding(kind=FindingKind.INCONSISTENT, wave=wave.id, table=wave.table, message=message)


def _check_numbers(inputs: AuditInputs) -> Iterator[Finding]:
    """A receipt of a commit has the ledger's numbers."""
    committed = {(item.stream, item.range): item for item in inputs.committed}
    for table in inputs.tables:
        for row in table.receipts:
            item = committed.get((row.stream, row.range))
            if row.kind != "published" or item is None or row.wave != item.wave:
                continue
            if (row.rows, row.accounting) != (item.rows, item.accounting):
                message = f"range {item.range}: the receipt says {count(row.rows, 'row')}, the ledger {item.rows:,}"
                yield Finding(
                    kind=FindingKind.INCONSISTENT,
                    stream=item.stream,
                    offsets=RangeSet((OffsetRange(item.range.start, item.range.end),)),
                    wave=item.wave,
                    message=f"{message}, or their accounting differs",
                )


# Whether anything is lost, twice, visible too early, or other than recorded: inputs in, findings out.
#
# `check` calls all parts: rows against the ledger (here), commits and receipts (`commit_check`), watermarks.

GONE_ON = frozenset({WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED})
"""Wave states in which rows of a range that is not committed cannot be waiting for their commit."""


def check(inputs: AuditInputs) -> tuple[Finding, ...]:
    """Return all findings, by stream, then wave, then table."""
    commit_check = CommitCheck.of(inputs)
    lost = FindingKind.LOST
    found = [
        *(Finding(kind=lost, table=item.identifier, message=item.damaged) for item in inputs.tables if item.damaged),
        *_check_streams(inputs, commit_check),
        *check_commits(inputs, commit_check),
        *check_progress(inputs),
    ]
    return tuple(sorted(found, key=lambda item: item.place))


def rows_seen(inputs: AuditInputs) -> dict[Stream, list[AttemptRows]]:
    """Return the rows of each stream that readers of the tables see, by attempt."""
    return grouped((rows.stream, rows) for table in inputs.tables for rows in table.attempt_rows)


def offsets_seen(inputs: AuditInputs) -> dict[Stream, RangeSet]:
    """Return at which offsets of each stream readers of the tables see a row."""
    return {key: RangeSet.union(item.offsets for item in rows) for key, rows in rows_seen(inputs).items()}


def _check_streams(inputs: AuditInputs, commit_check: CommitCheck) -> Iterator[Finding]:
    seen = rows_seen(inputs)
    ranges = by_stream(inputs.ledger.ranges)
    unreadable, homes, deletions = inputs.unreadable, inputs.tables_of_waves, inputs.deletions
    landed = by_stream(item for item in inputs.landed if item.wave not in unreadable)
    for stream in sorted(seen.keys() | ranges.keys()):
        attempt_rows = seen.get(stream, [])
        rows = RangeSet.union(item.offsets for item in attempt_rows)
        yield from _twice(stream, attempt_rows, rows)
        for item in landed.get(stream, ()):
            yield from check_committed(item, rows, deletions, by_others=partial(_by_others, item, inputs, homes))
            if item.state is RangeState.COMMITTED:
                yield from _check_replaced(item, attempt_rows, commit_check)
        yield from _check_unplanned(stream, attempt_rows, ranges.get(stream, []), commit_check)


def _by_others(item: RangeRecord, inputs: AuditInputs, homes: Mapping[str, str]) -> str:
    """Name the newest commit of others that deleted rows from a range's table, and the remedy if it was on purpose."""
    wave = next((wave for wave in inputs.ledger.waves if wave.id == item.wave), None)
    table = next((table for table in inputs.tables if table.identifier == homes.get(item.wave)), None)
    since = list(table.commits) if table else []
    published = [n for n, commit in enumerate(since) if wave and commit.snapshot == wave.snapshot]
    theirs = [commit for commit in since[max(published, default=0) :] if commit.deleted and commit.token is None]
    if not theirs:
        return ""
    last = theirs[-1]
    engine = f" by {last.engine}" if last.engine else ""
    return (  # how many it deleted is of all ranges: said for each, people would add it up
        f". Rows were deleted{engine} with snapshot {last.snapshot} at {timestamp(last.at)}. If that was on purpose, "
        f"record it: {remedies.accept_deletes(item.pipeline, item.slice)}"
    )


def _twice(stream: Stream, attempt_rows: Sequence[AttemptRows], rows: RangeSet) -> Iterator[Finding]:
    """Find offsets with rows of several attempts, and rows that one attempt has twice."""
    extra = sum(item.offsets.span + item.duplicates for item in attempt_rows) - rows.span
    if extra:
        shared = overlaps([item.offsets for item in attempt_rows])
        where = f", at {shared.describe()}" if shared else ""
        message = f"{count(extra, 'row is', 'rows are')} there more than once{where}"
        yield Finding(kind=FindingKind.DUPLICATE, stream=stream, offsets=shared, message=message)


def overlaps(sets: Iterable[RangeSet]) -> RangeSet:
    """Return the offsets that more than one of the sets has."""
    found: list[OffsetRange] = []
    reached = 0
    for item in heapq.merge(*sets):
        if item.start < reached:
            found.append(OffsetRange(item.start, min(item.end, reached)))
        reached = max(reached, item.end)
    return RangeSet(found)


def _check_replaced(
    item: RangeRecord, attempt_rows: Sequence[AttemptRows], commit_check: CommitCheck
) -> Iterator[Finding]:
    """Find rows of an earlier reading where a range was read again."""
    for its in attempt_rows if item.generation else ():
        wave = commit_check.wave_of(its.attempt)
        if wave is not None and wave.id != item.wave and (old := its.offsets.within(item.range)):
            message = f"range {item.range} was read again, and rows of attempt {its.attempt} are still at {old}"
            yield Finding(kind=FindingKind.DUPLICATE, stream=item.stream, offsets=old, wave=item.wave, message=message)


def _check_unplanned(
    stream: Stream, attempt_rows: Sequence[AttemptRows], ranges: Sequence[RangeRecord], commit_check: CommitCheck
) -> Iterator[Finding]:
    """Find rows without a published attempt, and rows outside committed ranges.

    A published attempt's commit may not be on record yet; a reopened range keeps its rows until it is read again, or
    for good where it was skipped.
    """
    committed = RangeSet(item.range for item in ranges if item.state is RangeState.COMMITTED or item.generation)
    skipped = [item for item in ranges if item.state is RangeState.SKIPPED]
    for its in attempt_rows:
        if not commit_check.published(its.attempt):
            whose = f"attempt {its.attempt}" if its.attempt else "no attempt"
            where = its.offsets.describe()
            yield Finding(
                kind=FindingKind.VISIBLE_WITHOUT_TOKEN,
                stream=stream,
                offsets=its.offsets,
                message=f"rows at {where} are of {whose}, which no commit or receipt of ours has published",
            )
            continue
        left = its.offsets - committed
        for item in skipped:
            if inside := left & RangeSet((item.range,)):
                message = f"range {item.range} is skipped and has {count(inside.span, 'row')}"
                yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=inside, message=message)
                left -= inside
        wave = commit_check.wave_of(its.attempt)
        if wave is not None and wave.state not in GONE_ON:
            left -= RangeSet(item.range for item in ranges if item.wave == wave.id)
        if left:
            message = f"rows at {left.describe()} belong to no committed range"
            yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=left, message=message)


def check_committed(
    item: RangeRecord, rows: RangeSet, deletions: Deletions, *, by_others: Callable[[], str]
) -> Iterator[Finding]:
    """Find the gaps of a committed range: offsets in its accounting, and rows, less those deleted on purpose.
    `by_others` describes deletions by others."""
    about = partial(Finding, stream=item.stream, wave=item.wave)
    asked = RangeSet((item.range,))
    recorded = item.accounting or Accounting()
    if recorded.span != item.range.span or recorded.unexplained:
        asked_for = count(item.range.span, "offset is", "offsets are")
        message = f"range {item.range}: {recorded.span:,} of {asked_for} accounted for"
        yield about(kind=FindingKind.INCONSISTENT, offsets=asked, message=message)
    inside = rows.within(item.range)
    deleted = deletions.rows(item, inside)
    there = count(inside.span, "row is", "rows are")
    numbers = f"range {item.range}: {there} in the table, {recorded.visible:,} were published"
    if deleted:
        numbers += f", {deleted:,} of them deleted on purpose"
    if inside.span < recorded.visible - deleted:
        lost = asked - inside
        lost = lost - deletions.offsets(item, inside) or lost
        yield about(kind=FindingKind.LOST, offsets=lost, message=numbers + by_others())
    elif inside.span > recorded.visible:
        yield about(kind=FindingKind.INCONSISTENT, offsets=inside, message=numbers)
    elif inside and not deleted and (inside.first, inside.last) != (item.first_offset, item.last_offset):
        # As many rows as were published, at other offsets.
        published = f"published were {item.first_offset} to {item.last_offset}"
        message = f"range {item.range}: its rows are at {inside.first} to {inside.last}, {published}"
        yield about(kind=FindingKind.INCONSISTENT, offsets=inside, message=message)
