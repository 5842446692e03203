"""Whether anything is lost, twice, visible too early, or other than recorded: inputs in, findings out.

`check` calls all parts: rows against ledger and truth (here), commits and receipts (`commit_check`), watermarks and
unfinished work (`progress`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.commit_check import CommitCheck, check_commits
from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding, FindingKind, StreamTruth, by_stream
from airflow_kafka_lake.core.audit.progress import check_progress
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import AttemptRows, RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.wire import timestamp

GONE_ON = frozenset({WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED})
"""Wave states in which rows of a range that is not committed cannot be waiting for their commit."""


def check(inputs: AuditInputs) -> tuple[Finding, ...]:
    """Return all findings, by stream, then wave, then table."""
    commit_check = CommitCheck.of(inputs)
    found = [
        *_damaged(inputs),
        *_check_streams(inputs, commit_check),
        *check_commits(inputs, commit_check),
        *check_progress(inputs),
    ]
    return tuple(sorted(found, key=lambda item: item.place))


def rows_seen(inputs: AuditInputs) -> dict[Stream, list[AttemptRows]]:
    """Return the rows of each stream that readers of the tables see, by attempt."""
    found: dict[Stream, list[AttemptRows]] = defaultdict(list)
    for table in inputs.tables:
        for rows in table.attempt_rows:
            found[rows.stream].append(rows)
    return found


def offsets_seen(inputs: AuditInputs) -> dict[Stream, RangeSet]:
    """Return at which offsets of each stream readers of the tables see a row."""
    return {key: RangeSet.union(item.offsets for item in rows) for key, rows in rows_seen(inputs).items()}


def _damaged(inputs: AuditInputs) -> Iterator[Finding]:
    for table in inputs.tables:
        if table.damaged:
            yield Finding(kind=FindingKind.LOST, table=table.identifier, message=table.damaged)


def _check_streams(inputs: AuditInputs, commit_check: CommitCheck) -> Iterator[Finding]:
    seen = rows_seen(inputs)
    ranges = by_stream(inputs.ledger.ranges)
    unreadable = inputs.unreadable
    deletions = inputs.deletions
    committed = by_stream(item for item in inputs.committed if item.wave not in unreadable)
    for stream in sorted(seen.keys() | ranges.keys()):
        attempt_rows = seen.get(stream, [])
        rows = RangeSet.union(item.offsets for item in attempt_rows)
        truth = inputs.truth.get(stream)
        yield from _twice(stream, attempt_rows, rows)
        for item in committed.get(stream, ()):
            others = partial(_by_others, item, inputs)
            yield from check_committed(item, rows, truth, deletions, by_others=others)
            yield from _check_replaced(item, attempt_rows, commit_check)
        yield from _check_unplanned(stream, attempt_rows, ranges.get(stream, []), commit_check)
        if truth is not None:
            yield from _check_contents(stream, rows, truth, inputs)


def _by_others(item: RangeRecord, inputs: AuditInputs) -> str:
    """Name the newest commit of others that deleted rows from a range's table, and the remedy if it was on purpose."""
    wave = next((wave for wave in inputs.ledger.waves if wave.id == item.wave), None)
    table = next((table for table in inputs.tables if wave and table.identifier == wave.table), None)
    since = list(table.commits) if table else []
    published = [n for n, commit in enumerate(since) if wave and commit.snapshot == wave.snapshot]
    theirs = [commit for commit in since[max(published, default=0) :] if commit.deleted and commit.token is None]
    if not theirs:
        return ""
    last = theirs[-1]
    engine = f" by {last.engine}" if last.engine else ""
    return (
        f". {count(last.deleted, 'row was', 'rows were')} deleted{engine} with snapshot {last.snapshot} at "
        f"{timestamp(last.at)}. If that was on purpose, record it: {remedies.accept_deletes(item.pipeline, item.slice)}"
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


def _check_contents(stream: Stream, rows: RangeSet, truth: StreamTruth, inputs: AuditInputs) -> Iterator[Finding]:
    if aborted := rows & truth.aborted:
        message = f"records of aborted transactions are visible at {aborted.describe()}"
        yield Finding(kind=FindingKind.ABORTED_VISIBLE, stream=stream, offsets=aborted, message=message)
    for table in inputs.tables:
        theirs = table.digests.get(stream, {})
        wrong = [o for o, digest in theirs.items() if o in truth.digests and truth.digests[o] != digest]
        if wrong:
            offsets = RangeSet(OffsetRange(offset, offset + 1) for offset in wrong)
            message = f"rows at {offsets.describe()} have another content than was acknowledged"
            yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=offsets, message=message)


def check_committed(
    item: RangeRecord,
    rows: RangeSet,
    truth: StreamTruth | None,
    deletions: Deletions,
    *,
    by_others: Callable[[], str] = str,
) -> Iterator[Finding]:
    """Find what a committed range lacks: offsets in its accounting, rows, less those deleted on purpose, and
    acknowledged records. `by_others` describes deletions by others."""
    asked = RangeSet((item.range,))
    recorded = item.accounting or Accounting()
    if recorded.span != item.range.span or recorded.unexplained:
        asked_for = count(item.range.span, "offset is", "offsets are")
        message = f"range {item.range}: {recorded.span:,} of {asked_for} accounted for"
        yield Finding(kind=FindingKind.INCONSISTENT, stream=item.stream, offsets=asked, wave=item.wave, message=message)
    inside = rows.within(item.range)
    deleted = deletions.rows(item, inside)
    missing = truth.acknowledged.within(item.range) - inside if truth else RangeSet()
    there = count(inside.span, "row is", "rows are")
    numbers = f"range {item.range}: {there} in the table, {recorded.visible:,} were published"
    if deleted:
        numbers += f", {deleted:,} of them deleted on purpose"
    if missing.span > deleted or inside.span < recorded.visible - deleted:
        lost = missing or asked - inside
        lost = lost - deletions.offsets(item, inside) or lost
        named = f"; missing: {count(missing.span, 'acknowledged record')}" if missing else ""
        message = numbers + named + by_others()
        yield Finding(kind=FindingKind.LOST, stream=item.stream, offsets=lost, wave=item.wave, message=message)
    elif inside.span > recorded.visible:
        yield Finding(
            kind=FindingKind.INCONSISTENT, stream=item.stream, offsets=inside, wave=item.wave, message=numbers
        )
    elif inside and not deleted and _ends(inside) != (item.first_offset, item.last_offset):
        # As many rows as were published, at other offsets.
        first, last = _ends(inside)
        message = f"range {item.range}: its rows are at {first} to {last}, published were {item.first_offset} to "
        message += f"{item.last_offset}"
        yield Finding(
            kind=FindingKind.INCONSISTENT, stream=item.stream, offsets=inside, wave=item.wave, message=message
        )


def _ends(offsets: RangeSet) -> tuple[int, int]:
    return offsets.first, offsets.last
