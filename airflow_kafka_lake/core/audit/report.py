"""`audit --json`, as a pure function of inputs and findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.check import rows_seen
from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding, by_stream
from airflow_kafka_lake.core.audit.timeline import Bounds, timeline
from airflow_kafka_lake.core.lake.accounting import Accounting
from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import AttemptRows, RangeRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, RangeState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.ordering.segments import Graph, Segment
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.wire import timestamp

Json = dict[str, Any]

CLEANED = (
    "{offsets} no record because Kafka's cleaner compacts the topic, or did once: a cleaned record cannot "
    "be told from a lost one"
)
NOT_ASKED = "not asked: Kafka is asked for --report, --deep and --cutover"
NAMED = 3
"""Slices that a sentence names; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Kafka's bounds of the streams now; for a stream without bounds `states` has the reason."""

    bounds: Mapping[Stream, Bounds] = field(default_factory=dict)
    states: Mapping[Stream, str] = field(default_factory=dict)

    @property
    def leader_epochs(self) -> Mapping[Stream, int]:
        """Under which leader epochs the bounds were told, as far as they were told."""
        return {stream: its.leader_epoch for stream, its in self.bounds.items() if its.leader_epoch is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The streams that an audit is asked about: all of a topic, some of its partitions, or everything."""

    topic: str | None = None
    partitions: frozenset[int] | None = None

    def __contains__(self, stream: object) -> bool:
        if not isinstance(stream, tuple):
            return False
        topic, _, partition = stream
        return self.topic in (None, topic) and (self.partitions is None or partition in self.partitions)

    def of(self, inputs: AuditInputs, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Leave out findings about other streams, and about waves without a range of these."""
        waves = {item.wave for item in inputs.ledger.ranges if item.stream in self}
        others = {item.wave for item in inputs.ledger.ranges} - waves
        return tuple(item for item in findings if (item.stream in self if item.stream else item.wave not in others))


EVERYTHING = Scope()


def audit_document(
    inputs: AuditInputs,
    findings: Sequence[Finding],
    *,
    at: datetime,
    scope: Scope = EVERYTHING,
    observed: Observed | None = None,
    segments: Sequence[Segment] = (),
) -> Json:
    """Return `audit --json`: the numbers of each stream, and every finding, once as text beside what it is about.

    Streams and ranges are those before the lake was read: what has landed since is in the next audit. The accounting is
    the audited one: what the ledger calls visible and the table does not show is unexplained. Numbers of rows are null
    for a stream with waves in a table that could not be read; its accounting is the recorded one then.
    """
    observed = observed or Observed()
    streams = [stream for stream in inputs.before.streams if stream.key in scope]
    shown = scope.of(inputs, findings)
    known = {stream.key for stream in streams}
    lines = _lines(inputs, streams, shown, observed)
    graph = Graph(segments)
    for line, stream in zip(lines, streams, strict=True):
        line["seals"] = [item.seal for item in graph.of(stream.key) if item.sealed]
    return {
        "pipeline": inputs.ledger.pipeline,
        "audited_at": timestamp(at),
        "ok": not shown,
        "totals": _totals(lines),
        "streams": lines,
        "problems": [item.message for item in shown if item.stream not in known],
        "findings": [item.to_json() for item in shown],
    }


def messages(document: Mapping[str, Any], most: int) -> list[str]:
    """Return the sentence and the lines of further checks, deep audit and cutover; of each at most so many lines, and
    then how many more there are."""
    parts = [document[name] for name in ("deep", "cutover") if name in document]
    found = []
    for part in parts:
        found += [part["sentence"], *part["lines"][:most]]
        if more := part["lines"][most:]:
            found.append(f"… and {count(len(more), 'more line')} of that: all of them with --json")
    return found


def _lines(
    inputs: AuditInputs, streams: Sequence[StreamRecord], findings: Sequence[Finding], observed: Observed
) -> list[Json]:
    seen, unreadable, deletions = rows_seen(inputs), inputs.unreadable, inputs.deletions
    landed = {item.id for item in inputs.committed}
    ranges = by_stream(i for i in inputs.before.ranges if i.state is not RangeState.COMMITTED or i.id in landed)
    problems: dict[Stream | None, list[str]] = defaultdict(list)
    for finding in findings:
        problems[finding.stream].append(finding.message)
    return [
        _line(
            stream,
            ranges[stream.key],
            None if any(item.wave in unreadable for item in ranges[stream.key]) else seen.get(stream.key, []),
            observed=observed,
            deletions=deletions,
        )
        | {"problems": problems[stream.key]}
        for stream in streams
    ]


def _line(
    stream: StreamRecord,
    ranges: Sequence[RangeRecord],
    attempt_rows: Sequence[AttemptRows] | None,
    *,
    observed: Observed,
    deletions: Deletions,
) -> Json:
    rows = None if attempt_rows is None else RangeSet.union(item.offsets for item in attempt_rows)
    total = None if attempt_rows is None else sum(item.offsets.span + item.duplicates for item in attempt_rows)
    resolved = [item for item in ranges if item.state in RESOLVED]
    coverage = RangeSet(item.range for item in resolved)
    accounting, missing, deleted = _audited(resolved, rows, deletions)
    bounds = observed.bounds.get(stream.key)
    return {
        "topic": stream.key.topic,
        "topic_id": stream.key.topic_id,
        "partition": stream.key.partition,
        "coverage": coverage.to_pairs(),
        "span": coverage.span,
        "rows": total,
        "duplicates": None if total is None or rows is None else total - rows.span,
        "missing": missing,
        "deleted": deleted,
        "accounting": accounting.to_json(),
        "sentence": sentence(coverage, accounting, deleted),
        "notes": [CLEANED.format(offsets=count(accounting.compacted, "offset has", "offsets have"))]
        if accounting.compacted
        else [],
        "origin": stream.origin,
        "watermark": stream.watermark,
        "log_start": bounds.log_start if bounds else None,
        "readable_end": bounds.readable_end if bounds else None,
        "bounds_state": "observed" if bounds else observed.states.get(stream.key, NOT_ASKED),
        "timeline": [item.to_json() for item in timeline(stream.origin, ranges, bounds)],
    }


def _audited(
    resolved: Iterable[RangeRecord], rows: RangeSet | None, deletions: Deletions
) -> tuple[Accounting, int | None, int]:
    """Add up resolved ranges, each offset once; `rows` None leaves the recorded numbers as they are.

    Beside the sums: rows that are missing, and rows that were deleted on purpose, which are neither there nor missing.
    """
    sums, missing, deleted = Accounting(), 0, 0
    for item in resolved:
        if item.state is RangeState.SKIPPED:
            sums += Accounting(skipped=item.range.span)
            continue
        recorded = item.accounting or Accounting()
        inside = NOTHING if rows is None else rows.within(item.range)
        there = recorded.visible if rows is None else min(recorded.visible, inside.span)
        gone = recorded.visible - there
        wanted = min(gone, deletions.rows(item, inside))
        deleted += wanted
        missing += gone - wanted
        rest = recorded.control + recorded.aborted + recorded.compacted + recorded.skipped
        sums += Accounting(
            visible=there,
            control=recorded.control,
            aborted=recorded.aborted,
            compacted=recorded.compacted,
            skipped=recorded.skipped,
            unexplained=max(0, item.range.span - there - rest - wanted),
        )
    return sums, None if rows is None else missing, deleted


def _totals(lines: Sequence[Json]) -> Json:
    unread = [line for line in lines if line["rows"] is None]
    sums = Accounting()
    for line in lines:
        sums += Accounting(**line["accounting"])
    span, deleted = (sum(line[name] for line in lines) for name in ("span", "deleted"))
    return {
        "streams": len(lines),
        "span": span,
        **{name: None if unread else sum(line[name] for line in lines) for name in ("rows", "duplicates", "missing")},
        "deleted": deleted,
        "accounting": sums.to_json(),
        "sentence": f"of {count(span, 'offset')} of {count(len(lines), 'partition')}: {_explained(sums, deleted)}",
        "unread": len(unread),
    }


def sentence(coverage: RangeSet, accounting: Accounting, deleted: int = 0) -> str:
    """Return where every offset went: of [a, b): so many visible, markers, aborted, compacted, skipped, unexplained;
    and deleted, where some were."""
    if not coverage:
        return "nothing is committed yet"
    found = coverage.ranges
    if len(found) <= NAMED:
        where = " and ".join(map(_interval, found))
    else:
        whole = OffsetRange(found[0].start, found[-1].end)
        where = f"{coverage.span:,} offsets in {len(found):,} ranges of {_interval(whole)}"
    return f"of {where}: {_explained(accounting, deleted)}"


def _explained(sums: Accounting, deleted: int) -> str:
    gone = f"{deleted:,} deleted, " if deleted else ""
    return (
        f"{sums.visible:,} visible, {count(sums.control, 'marker')}, {sums.aborted:,} aborted, "
        f"{sums.compacted:,} compacted, {sums.skipped:,} skipped, {gone}{sums.unexplained:,} unexplained"
    )


def _interval(item: OffsetRange) -> str:
    return f"[{item.start}, {item.end})"
