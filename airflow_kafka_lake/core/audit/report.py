"""The report of an audit: `audit --json`, its sentences, and the timeline of each stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.amounts import FEW, count
from airflow_kafka_lake.core.audit.check import AuditInputs, Finding, by_stream, rows_seen
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, RangeState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Stream, grouped
from airflow_kafka_lake.core.ordering.segments import Graph, Segment
from airflow_kafka_lake.core.planning.selection import EVERYTHING, StreamScope
from airflow_kafka_lake.core.wire import timestamp

# The timeline of a stream that a report draws: the status of each range of its offsets.


class OffsetStatus(StrEnum):
    """The status of a part of a timeline, the most urgent last."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    RUNNING = "running"
    PLANNED = "planned"
    WAITING = "waiting"
    UNREAD = "unread"
    HELD = "held"
    LOST = "lost"


STATUSES: Mapping[RangeState, OffsetStatus] = {
    RangeState.COMMITTED: OffsetStatus.COMMITTED,
    RangeState.SKIPPED: OffsetStatus.SKIPPED,
    RangeState.PLANNED: OffsetStatus.PLANNED,
    RangeState.HELD: OffsetStatus.HELD,
    RangeState.CANCELLED: OffsetStatus.HELD,
}

URGENCY = {status: number for number, status in enumerate(OffsetStatus)}

MEANINGS: Mapping[str, str] = {
    OffsetStatus.COMMITTED: "in the lake, every offset accounted for",
    OffsetStatus.RUNNING: "a worker has it",
    OffsetStatus.PLANNED: "planned, and not begun",
    OffsetStatus.UNREAD: "in Kafka, not planned yet",
    OffsetStatus.WAITING: "not stable yet, an open transaction is before it",
    OffsetStatus.SKIPPED: "passed by a person's decision",
    OffsetStatus.HELD: "needs a person",
    OffsetStatus.LOST: "gone from Kafka before it was read",
}
"""The legend, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSlice:
    """A range of offsets with one status; `message` is the reason, if any."""

    range: OffsetRange
    status: OffsetStatus
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return {"from": self.range.start, "to": self.range.end, "status": self.status.value, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBounds:
    """Kafka's bounds of a stream now: `[log_start, readable_end)`, the group offset of the end policy, and the leader
    epoch of the answer, if known."""

    log_start: int
    readable_end: int
    group_offset: int | None = None
    leader_epoch: int | None = None


def timeline(origin: int, ranges: Sequence[RangeRecord], bounds: StreamBounds | None) -> tuple[TimelineSlice, ...]:
    """Split a stream into sorted, disjoint parts: its ranges, and between them the unplanned offsets.

    Unresolved offsets below the log start are lost; without `bounds` there are no unplanned parts.
    """
    known = [
        TimelineSlice(range=item.range, status=STATUSES[item.state], message=item.reason or "")
        for item in sorted(ranges, key=lambda item: item.range)
    ]
    if bounds is None:
        return _joined(known)
    unplanned = RangeSet.between(origin, bounds.readable_end) - RangeSet(item.range for item in ranges)
    parts = [*known, *(TimelineSlice(range=item, status=OffsetStatus.UNREAD) for item in unplanned)]
    return _joined(part for item in sorted(parts, key=lambda p: p.range) for part in _lost(item, bounds.log_start))


def _lost(item: TimelineSlice, log_start: int) -> Iterator[TimelineSlice]:
    """Split off the part that retention has passed, unless the part was read or skipped."""
    if item.status in {OffsetStatus.COMMITTED, OffsetStatus.SKIPPED} or item.range.start >= log_start:
        yield item
        return
    message = f"Kafka's log starts at {log_start}" + (f"; {item.message}" if item.message else "")
    gone, *left = item.range.split_at((log_start,))
    yield TimelineSlice(range=gone, status=OffsetStatus.LOST, message=message)
    yield from (replace(item, range=part) for part in left)


def _joined(parts: Iterable[TimelineSlice]) -> tuple[TimelineSlice, ...]:
    """Join neighbours of the same status and message."""
    found: list[TimelineSlice] = []
    for item in parts:
        last = found[-1] if found else None
        if last and (last.range.end, last.status, last.message) == (item.range.start, item.status, item.message):
            found[-1] = replace(item, range=OffsetRange(last.range.start, item.range.end))
        else:
            found.append(item)
    return tuple(found)


def fewer(parts: Sequence[TimelineSlice], most: int) -> tuple[TimelineSlice, ...]:
    """Return at most so many parts: the shortest ones join a neighbour, and each has the most urgent status of its own.

    Nothing urgent is lost by that, and it seems larger than it is.
    """
    if len(parts) <= most:
        return tuple(parts)
    longest = sorted((item.range.span for item in parts), reverse=True)[most // 2 - 1]
    found: list[TimelineSlice] = []
    joins = False
    for item in parts:
        short = item.range.span < longest
        if short and joins:
            last = found[-1]
            worst = max(last.status, item.status, key=URGENCY.__getitem__)
            found[-1] = TimelineSlice(range=OffsetRange(last.range.start, item.range.end), status=worst)
        else:
            found.append(item)
        joins = short
    return tuple(found) if len(found) <= most else fewer_evenly(found, most)


def fewer_evenly(parts: Sequence[TimelineSlice], most: int) -> tuple[TimelineSlice, ...]:
    """Return at most so many parts, each of as many neighbours."""
    each = -(-len(parts) // most)
    return tuple(
        TimelineSlice(
            range=OffsetRange(some[0].range.start, some[-1].range.end),
            status=max((item.status for item in some), key=URGENCY.__getitem__),
        )
        for at in range(0, len(parts), each)
        if (some := parts[at : at + each])
    )


# The report of an audit, from inputs and findings.

Json = dict[str, Any]

CLEANED = (
    "{offsets} no record because Kafka's cleaner compacts the topic, or did once: a cleaned record cannot "
    "be told from a lost one"
)
NOT_ASKED = "not asked: Kafka is asked for --report, --deep and --cutover"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBounds:
    """Kafka's bounds of the streams now; for a stream without bounds `states` has the reason."""

    bounds: Mapping[Stream, StreamBounds] = field(default_factory=dict)
    states: Mapping[Stream, str] = field(default_factory=dict)

    @property
    def leader_epochs(self) -> Mapping[Stream, int]:
        """Under which leader epochs the bounds were told, as far as they were told."""
        return {stream: its.leader_epoch for stream, its in self.bounds.items() if its.leader_epoch is not None}


def about(scope: StreamScope, inputs: AuditInputs, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Leave out findings about streams that are not in scope, and about waves without a range of one that is."""
    waves = {item.wave for item in inputs.ledger.ranges if item.stream in scope}
    others = {item.wave for item in inputs.ledger.ranges} - waves
    return tuple(item for item in findings if (item.stream in scope if item.stream else item.wave not in others))


class CheckResult(Protocol):
    """The result of a further check, of contents or of a cutover: a sentence and lines for people, and its document."""

    @property
    def sentence(self) -> str:
        """The result."""

    @property
    def lines(self) -> Sequence[str]:
        """The details."""

    def to_json(self) -> Json:
        """Return its part of `audit --json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedStream:
    """The numbers and problems of one stream. Numbers of rows are None for a stream with waves in a table that could
    not be read, and its accounting is the recorded one then.

    `rows` are the rows in the table, `duplicates` those beyond one for each offset, `missing` the recorded ones that it
    lacks; `deleted` were deleted on purpose, and are neither there nor missing.
    """

    record: StreamRecord
    coverage: RangeSet
    rows: int | None
    duplicates: int | None
    missing: int | None
    deleted: int
    accounting: Accounting
    bounds: StreamBounds | None
    bounds_state: str
    timeline: tuple[TimelineSlice, ...]
    seals: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The fate of every committed offset."""
        return sentence(self.coverage, self.accounting, self.deleted)

    @property
    def notes(self) -> tuple[str, ...]:
        """The limits of the numbers."""
        compacted = self.accounting.compacted
        return (CLEANED.format(offsets=count(compacted, "offset has", "offsets have")),) if compacted else ()

    def to_json(self) -> Json:
        """Return the wire form."""
        return {
            **self.record.key._asdict(),
            "coverage": self.coverage.to_pairs(),
            "span": self.coverage.span,
            "rows": self.rows,
            "duplicates": self.duplicates,
            "missing": self.missing,
            "deleted": self.deleted,
            "accounting": self.accounting.to_json(),
            "sentence": self.sentence,
            "notes": list(self.notes),
            "origin": self.record.origin,
            "watermark": self.record.watermark,
            "log_start": self.bounds.log_start if self.bounds else None,
            "readable_end": self.bounds.readable_end if self.bounds else None,
            "bounds_state": self.bounds_state,
            "timeline": [item.to_json() for item in self.timeline],
            "problems": list(self.problems),
            "seals": list(self.seals),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTotals(Document):
    """The sums of all streams; numbers of rows are None while some are `unread`."""

    streams: int
    span: int
    rows: int | None
    duplicates: int | None
    missing: int | None
    deleted: int
    accounting: Accounting
    unread: int

    @classmethod
    def of(cls, streams: Sequence[AuditedStream]) -> AuditTotals:
        """Add up streams."""
        return cls(
            streams=len(streams),
            span=sum(item.coverage.span for item in streams),
            rows=if_known(sum, (item.rows for item in streams)),
            duplicates=if_known(sum, (item.duplicates for item in streams)),
            missing=if_known(sum, (item.missing for item in streams)),
            deleted=sum(item.deleted for item in streams),
            accounting=sum((item.accounting for item in streams), Accounting()),
            unread=sum(item.rows is None for item in streams),
        )

    @property
    def sentence(self) -> str:
        """The fate of every committed offset."""
        where = f"{count(self.span, 'offset')} of {count(self.streams, 'partition')}"
        return f"of {where}: {_explained(self.accounting, self.deleted)}"

    def to_json(self) -> Json:
        """Return the wire form."""
        return Document.to_json(self) | {"sentence": self.sentence}


def if_known(total: Callable[[list[int]], int], numbers: Iterable[int | None]) -> int | None:
    """Return the total of some numbers; None where one of them is not known."""
    every = list(numbers)
    known = [number for number in every if number is not None]
    return total(known) if len(known) == len(every) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The result of an audit: the numbers of each stream, every finding, and the further checks by name.

    Streams and ranges are those before the lake was read: rows landed since are in the next audit. The accounting is
    the audited one: an offset visible to the ledger and missing in the table is unexplained.
    """

    pipeline: str
    at: datetime
    streams: tuple[AuditedStream, ...]
    findings: tuple[Finding, ...]
    checks: Mapping[str, CheckResult] = field(default_factory=dict)
    scope: StreamScope = EVERYTHING

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def totals(self) -> AuditTotals:
        """The sums of all streams."""
        return AuditTotals.of(self.streams)

    def check_lines(self, most: int) -> Iterator[str]:
        """Yield the sentence and the lines of the further checks; of each at most so many lines, and then how many more
        there are."""
        for check in self.checks.values():
            yield check.sentence
            yield from check.lines[:most]
            if more := check.lines[most:]:
                yield f"… and {count(len(more), 'more line')} of that: all of them with --json"

    def to_json(self) -> Json:
        """Return `audit --json`; `problems` are the findings about no stream of these."""
        known = {stream.record.key for stream in self.streams}
        return {
            "pipeline": self.pipeline,
            "audited_at": timestamp(self.at),
            "ok": self.ok,
            "totals": self.totals.to_json(),
            "streams": [stream.to_json() for stream in self.streams],
            "problems": [item.message for item in self.findings if item.stream not in known],
            "findings": [item.to_json() for item in self.findings],
            **{name: check.to_json() for name, check in self.checks.items()},
        }


def audited_streams(
    inputs: AuditInputs,
    findings: Iterable[Finding],
    segments: Iterable[Segment],
    *,
    scope: StreamScope,
    observed: ObservedBounds,
) -> Iterator[AuditedStream]:
    """Yield the numbers and problems of each stream in scope."""
    seen, unreadable, deletions = rows_seen(inputs), inputs.unreadable, inputs.deletions
    landed, graph = {item.id for item in inputs.committed}, Graph(segments)
    kept = by_stream(inputs.kept)
    ranges = by_stream(i for i in inputs.before.ranges if i.state is not RangeState.COMMITTED or i.id in landed)
    problems = grouped((finding.stream, finding.message) for finding in findings)
    for stream in inputs.before.streams:
        if stream.key not in scope:
            continue
        key, mine = stream.key, ranges[stream.key]
        unread = any(item.wave in unreadable for item in mine)
        attempt_rows = [] if unread else seen.get(key, [])
        rows = None if unread else RangeSet.union(item.offsets for item in attempt_rows)
        resolved = [item for item in mine if item.state in RESOLVED]
        accounting, missing, deleted = _audited(_with_kept(resolved, kept.get(key, ())), rows, deletions)
        total, bounds = sum(item.offsets.span + item.duplicates for item in attempt_rows), observed.bounds.get(key)
        yield AuditedStream(
            record=stream,
            coverage=RangeSet(item.range for item in resolved),
            rows=None if rows is None else total,
            duplicates=None if rows is None else total - rows.span,
            missing=missing,
            deleted=deleted,
            accounting=accounting,
            bounds=bounds,
            bounds_state="observed" if bounds else observed.states.get(key, NOT_ASKED),
            timeline=timeline(stream.origin, mine, bounds),
            seals=tuple(item.seal for item in graph.of(key) if item.sealed and item.seal is not None),
            problems=tuple(problems[key]),
        )


def _with_kept(resolved: Iterable[RangeRecord], kept: Sequence[RangeRecord]) -> Iterator[RangeRecord]:
    """Yield the resolved ranges, with the pieces of which a skip has left rows in place of these offsets."""
    yield from kept
    pieces = RangeSet(item.range for item in kept)
    for item in resolved:
        left = RangeSet((item.range,)) - pieces if item.state is RangeState.SKIPPED else RangeSet((item.range,))
        yield from ((item if part == item.range else item.piece(part)) for part in left)


def _audited(
    resolved: Iterable[RangeRecord], rows: RangeSet | None, deletions: Deletions
) -> tuple[Accounting, int | None, int]:
    """Add up resolved ranges, each offset once; `rows` None leaves the recorded numbers as they are.

    Beside the sums: rows that are missing, and rows that were deleted on purpose, which are neither there nor missing.
    """
    sums, missing, deleted = Accounting(), 0, 0
    for item in resolved:
        recorded = item.accounting or Accounting()
        if item.state is RangeState.SKIPPED and not recorded.visible:
            sums += Accounting(skipped=item.range.span)
            continue
        inside = NOTHING if rows is None else rows.within(item.range)
        there = recorded.visible if rows is None else min(recorded.visible, inside.span)
        gone = recorded.visible - there
        wanted = min(gone, deletions.rows(item, inside))
        deleted += wanted
        missing += gone - wanted
        rest = recorded.span - recorded.visible - recorded.unexplained
        unexplained = max(0, item.range.span - there - rest - wanted)
        sums += replace(recorded, visible=there, unexplained=unexplained)
    return sums, None if rows is None else missing, deleted


def sentence(coverage: RangeSet, accounting: Accounting, deleted: int = 0) -> str:
    """Return where every offset went: of [a, b): so many visible, markers, aborted, compacted, skipped, unexplained;
    and deleted, where some were."""
    if not coverage:
        return "nothing is committed yet"
    found = coverage.ranges
    if len(found) <= FEW:
        where = " and ".join(f"[{item.start}, {item.end})" for item in found)
    else:
        where = f"{coverage.span:,} offsets in {len(found):,} ranges of [{found[0].start}, {found[-1].end})"
    return f"of {where}: {_explained(accounting, deleted)}"


def _explained(sums: Accounting, deleted: int) -> str:
    gone = f"{deleted:,} deleted, " if deleted else ""
    return (
        f"{sums.visible:,} visible, {count(sums.control, 'marker')}, {sums.aborted:,} aborted, "
        f"{sums.compacted:,} compacted, {sums.skipped:,} skipped, {gone}{sums.unexplained:,} unexplained"
    )
