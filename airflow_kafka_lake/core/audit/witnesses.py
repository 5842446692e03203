"""What commits, receipts and ledger say about the same attempts, held against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_lake.core.audit.evidence import Evidence, Finding, FindingKind, LedgerEvidence, TableEvidence
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

SHOWN_BY_ATTEMPT = frozenset({RangeState.PLANNED, RangeState.SETTLED})
"""What a range of a published wave can be: not settled yet, or settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """Who says what: attempts and waves of the ledger, tokens and receipts of the lake, by id."""

    attempts: Mapping[str, AttemptRecord]
    waves: Mapping[str, WaveRecord]
    tokens: Mapping[str, Token]
    receipts: Mapping[str, Sequence[ReceiptRow]]
    settled: frozenset[str]
    snapshots: frozenset[int]
    reopened: Mapping[Stream, Sequence[RangeRecord]]
    deletions: Deletions

    @classmethod
    def of(cls, evidence: Evidence) -> Witnesses:
        """Sort the evidence by who it speaks of."""
        ledger = evidence.ledger
        receipts: dict[str, list[ReceiptRow]] = defaultdict(list)
        published = set()
        for table in evidence.tables:
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
                for table in evidence.tables
                for commit in publishes(table, ledger.pipeline)
                if commit.token
            },
            receipts=receipts,
            settled=frozenset(published),
            snapshots=frozenset(commit.snapshot for table in evidence.tables for commit in table.commits),
            reopened=reopened_ranges(ledger.ranges),
            deletions=evidence.deletions,
        )

    def is_cut(self, attempt: str) -> bool:
        """Return whether some of what an attempt published was reopened: later readings take the place of its rows."""
        return any(
            item.generation > row.generation and item.range.overlaps(row.range)
            for row in self.receipts.get(attempt, ())
            for item in self.reopened.get(row.stream, ())
        )

    def published(self, attempt: str | None) -> bool:
        """Return whether something proves that an attempt was published: its commit, or, once that has expired, the
        receipt of its settlement, the ledger, or the ledger's base that has expired too."""
        if attempt is None:
            return False
        if attempt in self.tokens or attempt in self.settled:
            return True
        known = self.attempts.get(attempt)
        if known is None or known.base in {None, EMPTY_TABLE} or known.base in self.snapshots:
            return False
        return known.outcome is AttemptOutcome.COMMITTED or bool(self.receipts.get(attempt))

    def wave_of(self, attempt: str | None) -> WaveRecord | None:
        """Return the wave of an attempt, as the ledger knows it."""
        known = self.attempts.get(attempt or "")
        return self.waves.get(known.wave) if known else None


def reopened_ranges(ranges: Iterable[RangeRecord]) -> Mapping[Stream, Sequence[RangeRecord]]:
    """Return the ranges that were ever reopened, by stream."""
    found: dict[Stream, list[RangeRecord]] = defaultdict(list)
    for item in ranges:
        if item.generation:
            found[item.stream].append(item)
    return found


def publishes(table: TableEvidence, pipeline: str) -> list[Commit]:
    """Return the commits of a pipeline that made rows visible, oldest first."""
    return [c for c in table.commits if c.token and c.token.pipeline == pipeline and c.token.kind in PUBLISHES]


def check_witnesses(evidence: Evidence, witnesses: Witnesses) -> Iterator[Finding]:
    """Hold commits, receipts and ledger against each other."""
    ranges: dict[str, list[RangeRecord]] = defaultdict(list)
    for item in evidence.ledger.ranges:
        ranges[item.wave].append(item)
    for table in evidence.tables:
        yield from _check_commits(table, evidence.ledger, witnesses, ranges)
        yield from _check_receipts(table, witnesses)
    yield from _check_rollback(evidence, witnesses)
    yield from _check_numbers(evidence)


def _check_commits(
    table: TableEvidence,
    ledger: LedgerEvidence,
    witnesses: Witnesses,
    ranges: Mapping[str, Sequence[RangeRecord]],
) -> Iterator[Finding]:
    """Each publishing commit is one that the ledger knows, of the ranges it names, once per wave, above its fence."""
    holding = {item.attempt for item in table.holdings}
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
            words = f"{name} has fence {token.fence}, after main was fenced with {fences[token.wave]}"
            yield _about(table, token, FindingKind.STALE_FENCE, words)
        if token.wave in first:
            words = f"wave {token.wave} was published twice: {name}, and snapshot {first[token.wave]}"
            yield _about(table, token, FindingKind.DUPLICATE, words)
        first.setdefault(token.wave, commit.snapshot)
        if not table.damaged and not _has_rows_or_needs_none(token, holding, witnesses):
            words = f"{name} is a publish, and no row of it is in the table"
            yield _about(table, token, FindingKind.TOKEN_WITHOUT_ROWS, words)
        if unlike := _unlike_ledger(token, witnesses, ranges.get(token.wave, ())):
            yield _about(table, token, FindingKind.INCONSISTENT, f"{name} {unlike}")


def _about(table: TableEvidence, token: Token, kind: FindingKind, words: str) -> Finding:
    return Finding(kind=kind, words=words, wave=token.wave, table=table.identifier)


def _has_rows_or_needs_none(token: Token, holding: set[str | None], witnesses: Witnesses) -> bool:
    receipts = witnesses.receipts.get(token.attempt, ())
    left = any(row.rows > witnesses.deletions.rows(row, NOTHING) for row in receipts)
    needs_none = bool(receipts) and (witnesses.is_cut(token.attempt) or not left)
    return token.attempt in holding or needs_none


def _unlike_ledger(token: Token, witnesses: Witnesses, ranges: Sequence[RangeRecord]) -> str | None:
    known = witnesses.attempts.get(token.attempt)
    # What an attempt has staged may be committed under the fence of a later one, which a rebuild does not bring back.
    if known is None or known.wave != token.wave or known.fence > token.fence:
        return "is unknown to the ledger"
    wave = witnesses.waves.get(token.wave)
    if wave is not None and wave.state is WaveState.COMMITTED and known.outcome is not AttemptOutcome.COMMITTED:
        return f"is {known.outcome} in the ledger, though wave {token.wave} is settled by another attempt"
    if witnesses.is_cut(token.attempt):
        receipts = witnesses.receipts[token.attempt]
        told = ranges_digest(row.slice for row in receipts)
        return None if token.ranges == told else "names other ranges than its receipts"
    shown = [item for item in ranges if item.state in SHOWN_BY_ATTEMPT]
    if shown and token.ranges != ranges_digest(item.slice for item in shown):
        return "names other ranges than the ledger has of its wave"
    return None


def _check_receipts(table: TableEvidence, witnesses: Witnesses) -> Iterator[Finding]:
    """Nothing is visible before every offset of its range is accounted for."""
    complete: dict[tuple[str, Stream], list[OffsetRange]] = defaultdict(list)
    for attempt, rows in witnesses.receipts.items():
        for row in rows:
            if _complete(row):
                complete[attempt, row.stream].append(row.range)
    for holding in table.holdings:
        if holding.attempt is None or not witnesses.published(holding.attempt):
            continue  # a finding of its own
        proved = RangeSet(complete.get((holding.attempt, holding.stream), ()))
        if bare := holding.offsets - proved:
            words = f"rows at {bare.in_words()} of attempt {holding.attempt} are visible without a complete receipt"
            yield Finding(kind=FindingKind.VISIBLE_BEFORE_ACCOUNTED, stream=holding.stream, offsets=bare, words=words)


def _complete(row: ReceiptRow) -> bool:
    sums = row.accounting
    return sums.span == row.range.span and not sums.unexplained and sums.visible == row.rows


def _check_rollback(evidence: Evidence, witnesses: Witnesses) -> Iterator[Finding]:
    """The snapshot of a settled wave is in main's history, if the one before it is: else history has expired there."""
    settled = {item.wave for item in evidence.ledger.settled}
    for attempt in evidence.ledger.attempts:
        wave = witnesses.waves.get(attempt.wave)
        if wave is None or wave.id not in settled or attempt.outcome is not AttemptOutcome.COMMITTED:
            continue
        if attempt.base in witnesses.snapshots and wave.snapshot not in {None, *witnesses.snapshots}:
            words = f"wave {wave.id} was published as snapshot {wave.snapshot}, which main's history has lost"
            yield Finding(kind=FindingKind.INCONSISTENT, wave=wave.id, table=wave.table, words=words)


def _check_numbers(evidence: Evidence) -> Iterator[Finding]:
    """A receipt of a settlement has the ledger's numbers."""
    settled = {(item.stream, item.range): item for item in evidence.ledger.settled}
    for table in evidence.tables:
        for row in table.receipts:
            item = settled.get((row.stream, row.range))
            if row.kind != "published" or item is None or row.wave != item.wave:
                continue
            if (row.rows, row.accounting) != (item.rows, item.accounting):
                words = f"range {item.range}: the receipt says {row.rows} rows, the ledger {item.rows}"
                yield Finding(
                    kind=FindingKind.INCONSISTENT,
                    stream=item.stream,
                    offsets=RangeSet((OffsetRange(item.range.start, item.range.end),)),
                    wave=item.wave,
                    words=f"{words}, or their accounting differs",
                )
