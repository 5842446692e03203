"""Is anything lost, twice, visible too early, or not what the record says? Values in, findings out.

`check` judges everything; the parts are `lake` against ledger and truth (here), commits and receipts
(`core/witnesses.py`) and progress (`core/progress.py`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.audit.commit_check import CommitCheck, check_commits
from airflow_kafka_lake.core.audit.committed import check_committed
from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding, FindingKind, StreamTruth
from airflow_kafka_lake.core.audit.progress import check_progress
from airflow_kafka_lake.core.ledger.records import AttemptRows, RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.wire import timestamp

GONE_ON = frozenset({WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED})
"""Wave states in which rows of a range that is not committed cannot be waiting for their commit."""


def check(inputs: AuditInputs) -> tuple[Finding, ...]:
    """Return everything that is wrong, by stream, then wave, then table; nothing when all is well."""
    commit_check = CommitCheck.of(inputs)
    found = [
        *_damaged(inputs),
        *_check_streams(inputs, commit_check),
        *check_commits(inputs, commit_check),
        *check_progress(inputs),
    ]
    return tuple(sorted(found, key=lambda item: item.place))


def rows_seen(inputs: AuditInputs) -> dict[Stream, list[AttemptRows]]:
    """Return what readers of the tables see of each stream, by attempt."""
    found: dict[Stream, list[AttemptRows]] = defaultdict(list)
    for table in inputs.tables:
        for holding in table.attempt_rows:
            found[holding.stream].append(holding)
    return found


def offsets_seen(inputs: AuditInputs) -> dict[Stream, RangeSet]:
    """Return at which offsets of each stream readers of the tables see a row."""
    return {key: RangeSet.union(item.offsets for item in held) for key, held in rows_seen(inputs).items()}


def _damaged(inputs: AuditInputs) -> Iterator[Finding]:
    for table in inputs.tables:
        if table.damaged:
            yield Finding(kind=FindingKind.LOST, table=table.identifier, message=table.damaged)


def _check_streams(inputs: AuditInputs, commit_check: CommitCheck) -> Iterator[Finding]:
    seen = rows_seen(inputs)
    ranges = _by_stream(inputs.ledger.ranges)
    unreadable = inputs.unreadable
    deletions = inputs.deletions
    still = {item.id: (item.state, item.range, item.generation) for item in inputs.ledger.ranges}
    committed = _by_stream(
        item
        for item in inputs.ledger.committed
        if item.wave not in unreadable and still.get(item.id) == (item.state, item.range, item.generation)
    )
    for stream in sorted(seen.keys() | ranges.keys()):
        attempt_rows = seen.get(stream, [])
        rows = RangeSet.union(holding.offsets for holding in attempt_rows)
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
    """Name the newest commit of others that took rows out of a range's table since, and what to do if it was wanted."""
    wave = next((wave for wave in inputs.ledger.waves if wave.id == item.wave), None)
    table = next((table for table in inputs.tables if wave and table.identifier == wave.table), None)
    since = list(table.commits) if table else []
    published = [n for n, commit in enumerate(since) if wave and commit.snapshot == wave.snapshot]
    theirs = [commit for commit in since[max(published, default=0) :] if commit.deleted and commit.token is None]
    if not theirs:
        return ""
    last = theirs[-1]
    who = f" by {last.engine}" if last.engine else ""
    return (
        f". {last.deleted} rows were deleted{who} with snapshot {last.snapshot} at {timestamp(last.at)}. If that was "
        f"on purpose, record it: {remedies.accept_deletes(item.pipeline, item.slice)}"
    )


def _by_stream(ranges: Iterable[RangeRecord]) -> Mapping[Stream, list[RangeRecord]]:
    found: dict[Stream, list[RangeRecord]] = defaultdict(list)
    for item in ranges:
        found[item.stream].append(item)
    return found


def _twice(stream: Stream, attempt_rows: Sequence[AttemptRows], rows: RangeSet) -> Iterator[Finding]:
    """Find offsets that several attempts brought, and rows that one attempt brought twice."""
    extra = sum(holding.offsets.span + holding.duplicates for holding in attempt_rows) - rows.span
    if extra:
        shared = overlaps([holding.offsets for holding in attempt_rows])
        where = f", at {shared.describe()}" if shared else ""
        message = f"{extra} rows are there more than once{where}"
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
    """Where a range was read again, rows of the earlier reading are gone."""
    for holding in attempt_rows if item.generation else ():
        wave = commit_check.wave_of(holding.attempt)
        if wave is not None and wave.id != item.wave and (old := holding.offsets.within(item.range)):
            message = f"range {item.range} was read again, and rows of attempt {holding.attempt} are still at {old}"
            yield Finding(kind=FindingKind.DUPLICATE, stream=item.stream, offsets=old, wave=item.wave, message=message)


def _check_unplanned(
    stream: Stream, attempt_rows: Sequence[AttemptRows], ranges: Sequence[RangeRecord], commit_check: CommitCheck
) -> Iterator[Finding]:
    """Every row belongs to a committed range, to a published attempt whose commit is still to come, or to a range
    that was reopened and is not read again yet (or never will be: it was skipped then)."""
    committed = RangeSet(item.range for item in ranges if item.state is RangeState.COMMITTED or item.generation)
    skipped = [item for item in ranges if item.state is RangeState.SKIPPED]
    for holding in attempt_rows:
        if not commit_check.published(holding.attempt):
            whose = f"attempt {holding.attempt}" if holding.attempt else "no attempt"
            where = holding.offsets.describe()
            yield Finding(
                kind=FindingKind.VISIBLE_WITHOUT_TOKEN,
                stream=stream,
                offsets=holding.offsets,
                message=f"rows at {where} are of {whose}, which no commit or receipt of ours has published",
            )
            continue
        left = holding.offsets - committed
        for item in skipped:
            if inside := left & RangeSet((item.range,)):
                message = f"range {item.range} is skipped and has {inside.span} rows"
                yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=inside, message=message)
                left -= inside
        wave = commit_check.wave_of(holding.attempt)
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
