"""Compare commits, receipts and ledger about the same attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding, FindingKind, LedgerInputs, TableInputs, by_stream
from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import Commit, RangeRecord, ReceiptRow, WaveRecord
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    PUBLISHES,
    AttemptOutcome,
    AttemptRecord,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.wire import ranges_digest

SHOWN_BY_ATTEMPT = frozenset({RangeState.PLANNED, RangeState.COMMITTED})
"""What a range of a published wave can be: not committed yet, or committed."""


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
        receipts: dict[str, list[ReceiptRow]] = defaultdict(list)
        published = set()
        for table in inputs.tables:
            for row in table.receipts:
                if row.kind == "rows":
                    receipts[row.attempt].append(row)
                elif row.kind == "published":
                    published.add(row.attempt)
        return cls(
            attempts={item.attempt: item for item in ledger.attempts},
            waves={item.id: item for item in ledger.waves},
            tokens={
                commit.token.attempt: commit.token
                for table in inputs.tables
                for commit in publishes(table, ledger.pipeline)
                if commit.token
            },
            receipts=receipts,
            committed=frozenset(published),
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
    ranges: dict[str, list[RangeRecord]] = defaultdict(list)
    for item in inputs.ledger.ranges:
        ranges[item.wave].append(item)
    for table in inputs.tables:
        yield from _check_commits(table, inputs.ledger, commit_check, ranges)
        yield from _check_receipts(table, commit_check)
    yield from _check_rollback(inputs, commit_check)
    yield from _check_numbers(inputs)


def _check_commits(
    table: TableInputs,
    ledger: LedgerInputs,
    commit_check: CommitCheck,
    ranges: Mapping[str, Sequence[RangeRecord]],
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
    # What an attempt has staged may be committed under the fence of a later one, which a rebuild does not bring back.
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
    complete: dict[tuple[str, Stream], list[OffsetRange]] = defaultdict(list)
    for attempt, rows in commit_check.receipts.items():
        for row in rows:
            if _complete(row):
                complete[attempt, row.stream].append(row.range)
    for seen in table.attempt_rows:
        if seen.attempt is None or not commit_check.published(seen.attempt):
            continue  # a finding of its own
        proved = RangeSet(complete.get((seen.attempt, seen.stream), ()))
        if bare := seen.offsets - proved:
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
