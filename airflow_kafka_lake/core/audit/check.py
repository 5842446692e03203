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
from airflow_kafka_lake.core.audit.evidence import Evidence, Finding, FindingKind, StreamTruth
from airflow_kafka_lake.core.audit.progress import check_progress
from airflow_kafka_lake.core.audit.settled import check_settled
from airflow_kafka_lake.core.audit.witnesses import Witnesses, check_witnesses
from airflow_kafka_lake.core.ledger.records import Holding, RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.wire import timestamp

GONE_ON = frozenset({WaveState.COMMITTED, WaveState.CANCELLED, WaveState.DISSOLVED})
"""Wave states in which rows of a range that is not settled cannot be waiting for their settlement."""


def check(evidence: Evidence) -> tuple[Finding, ...]:
    """Return everything that is wrong, by stream, then wave, then table; nothing when all is well."""
    witnesses = Witnesses.of(evidence)
    found = [
        *_damaged(evidence),
        *_check_streams(evidence, witnesses),
        *check_witnesses(evidence, witnesses),
        *check_progress(evidence),
    ]
    return tuple(sorted(found, key=lambda item: item.place))


def rows_seen(evidence: Evidence) -> dict[Stream, list[Holding]]:
    """Return what readers of the tables see of each stream, by attempt."""
    found: dict[Stream, list[Holding]] = defaultdict(list)
    for table in evidence.tables:
        for holding in table.holdings:
            found[holding.stream].append(holding)
    return found


def offsets_seen(evidence: Evidence) -> dict[Stream, RangeSet]:
    """Return at which offsets of each stream readers of the tables see a row."""
    return {key: RangeSet.union(item.offsets for item in held) for key, held in rows_seen(evidence).items()}


def _damaged(evidence: Evidence) -> Iterator[Finding]:
    for table in evidence.tables:
        if table.damaged:
            yield Finding(kind=FindingKind.LOST, table=table.identifier, words=table.damaged)


def _check_streams(evidence: Evidence, witnesses: Witnesses) -> Iterator[Finding]:
    seen = rows_seen(evidence)
    ranges = _by_stream(evidence.ledger.ranges)
    unreadable = evidence.unreadable
    deletions = evidence.deletions
    still = {item.id: (item.state, item.range, item.generation) for item in evidence.ledger.ranges}
    settled = _by_stream(
        item
        for item in evidence.ledger.settled
        if item.wave not in unreadable and still.get(item.id) == (item.state, item.range, item.generation)
    )
    for stream in sorted(seen.keys() | ranges.keys()):
        holdings = seen.get(stream, [])
        rows = RangeSet.union(holding.offsets for holding in holdings)
        truth = evidence.truth.get(stream)
        yield from _twice(stream, holdings, rows)
        for item in settled.get(stream, ()):
            others = partial(_by_others, item, evidence)
            yield from check_settled(item, rows, truth, deletions, by_others=others)
            yield from _check_replaced(item, holdings, witnesses)
        yield from _check_strays(stream, holdings, ranges.get(stream, []), witnesses)
        if truth is not None:
            yield from _check_contents(stream, rows, truth, evidence)


def _by_others(item: RangeRecord, evidence: Evidence) -> str:
    """Name the newest commit of others that took rows out of a range's table since, and what to do if it was wanted."""
    wave = next((wave for wave in evidence.ledger.waves if wave.id == item.wave), None)
    table = next((table for table in evidence.tables if wave and table.identifier == wave.table), None)
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


def _twice(stream: Stream, holdings: Sequence[Holding], rows: RangeSet) -> Iterator[Finding]:
    """Find offsets that several attempts brought, and rows that one attempt brought twice."""
    extra = sum(holding.offsets.span + holding.duplicates for holding in holdings) - rows.span
    if extra:
        shared = overlaps([holding.offsets for holding in holdings])
        where = f", at {shared.in_words()}" if shared else ""
        words = f"{extra} rows are there more than once{where}"
        yield Finding(kind=FindingKind.DUPLICATE, stream=stream, offsets=shared, words=words)


def overlaps(sets: Iterable[RangeSet]) -> RangeSet:
    """Return the offsets that more than one of the sets has."""
    found: list[OffsetRange] = []
    reached = 0
    for item in heapq.merge(*sets):
        if item.start < reached:
            found.append(OffsetRange(item.start, min(item.end, reached)))
        reached = max(reached, item.end)
    return RangeSet(found)


def _check_replaced(item: RangeRecord, holdings: Sequence[Holding], witnesses: Witnesses) -> Iterator[Finding]:
    """Where a range was read again, rows of the earlier reading are gone."""
    for holding in holdings if item.generation else ():
        wave = witnesses.wave_of(holding.attempt)
        if wave is not None and wave.id != item.wave and (old := holding.offsets.within(item.range)):
            words = f"range {item.range} was read again, and rows of attempt {holding.attempt} are still at {old}"
            yield Finding(kind=FindingKind.DUPLICATE, stream=item.stream, offsets=old, wave=item.wave, words=words)


def _check_strays(
    stream: Stream, holdings: Sequence[Holding], ranges: Sequence[RangeRecord], witnesses: Witnesses
) -> Iterator[Finding]:
    """Every row belongs to a settled range, to a published attempt whose settlement is still to come, or to a range
    that was reopened and is not read again yet (or never will be: it was skipped then)."""
    settled = RangeSet(item.range for item in ranges if item.state is RangeState.SETTLED or item.generation)
    skipped = [item for item in ranges if item.state is RangeState.SKIPPED]
    for holding in holdings:
        if not witnesses.published(holding.attempt):
            whose = f"attempt {holding.attempt}" if holding.attempt else "no attempt"
            where = holding.offsets.in_words()
            yield Finding(
                kind=FindingKind.VISIBLE_WITHOUT_TOKEN,
                stream=stream,
                offsets=holding.offsets,
                words=f"rows at {where} are of {whose}, which no commit or receipt of ours has published",
            )
            continue
        left = holding.offsets - settled
        for item in skipped:
            if inside := left & RangeSet((item.range,)):
                words = f"range {item.range} is skipped and has {inside.span} rows"
                yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=inside, words=words)
                left -= inside
        wave = witnesses.wave_of(holding.attempt)
        if wave is not None and wave.state not in GONE_ON:
            left -= RangeSet(item.range for item in ranges if item.wave == wave.id)
        if left:
            words = f"rows at {left.in_words()} belong to no settled range"
            yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=left, words=words)


def _check_contents(stream: Stream, rows: RangeSet, truth: StreamTruth, evidence: Evidence) -> Iterator[Finding]:
    if aborted := rows & truth.aborted:
        words = f"records of aborted transactions are visible at {aborted.in_words()}"
        yield Finding(kind=FindingKind.ABORTED_VISIBLE, stream=stream, offsets=aborted, words=words)
    for table in evidence.tables:
        theirs = table.digests.get(stream, {})
        wrong = [o for o, digest in theirs.items() if o in truth.digests and truth.digests[o] != digest]
        if wrong:
            offsets = RangeSet(OffsetRange(offset, offset + 1) for offset in wrong)
            words = f"rows at {offsets.in_words()} have another content than was acknowledged"
            yield Finding(kind=FindingKind.INCONSISTENT, stream=stream, offsets=offsets, words=words)
