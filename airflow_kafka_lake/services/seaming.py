"""Hold what a live stream has written against what a pipeline has settled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.core.audit.evidence import Evidence, Finding
from airflow_kafka_lake.core.audit.report import Observed, Scope
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.seams import PositionColumns, Seam, SeamQuestion, ask, judge
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTable:
    """The table that a live stream writes to, and, as text, its columns (`PositionColumns.parse`)."""

    table: str
    columns: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Every stream's seam, and what could not be judged."""

    table: str
    seams: tuple[Seam, ...]
    lines: tuple[str, ...]

    def findings(self) -> list[Finding]:
        """Return what is missing or twice."""
        return [item for seam in self.seams for item in seam.findings()]

    def to_json(self) -> dict[str, Any]:
        """Return what `audit --json` has under `seam`."""
        wrong = sum(not seam.sound for seam in self.seams)
        state = f"{wrong} not sound" if wrong else "nothing is missing and nothing is twice"
        return {
            "table": self.table,
            "ok": not wrong,
            "sentence": f"{len(self.seams)} seams with {self.table}: {state}",
            "lines": [*(seam.line() for seam in self.seams), *self.lines],
            "streams": [seam.to_json() for seam in self.seams],
        }


def without_live_rows(evidence: Evidence, live: LiveTable) -> Evidence:
    """Leave out the rows without an attempt of a table that pipeline and live stream share: they are the latter's."""
    tables = tuple(
        replace(table, holdings=tuple(item for item in table.holdings if item.attempt is not None))
        if table.identifier == live.table
        else table
        for table in evidence.tables
    )
    return replace(evidence, tables=tables)


def seams(
    ports: Ports, spec: PipelineSpec, evidence: Evidence, observed: Observed, scope: Scope, live: LiveTable
) -> Seams:
    """Judge the seam of every stream that Kafka still has; Kafka explains offsets that neither side has a row of.

    Raises what `ports.LakeTable.positions` does, and UsageError for columns that are not given as they should be.
    """
    streams = [stream for stream in evidence.ledger.streams if stream.key in scope]
    topics = sorted({stream.key.topic for stream in streams})
    columns = PositionColumns.parse(live.columns, topics) if live.columns else PositionColumns()
    shared = live.table in {table.identifier for table in evidence.tables}
    ports.say(f"reading {live.table}")
    contents = ports.lake.table(live.table).positions(columns, topics, live_only=shared)
    rows = {(item.stream.topic, item.stream.partition): item for item in contents}
    ranges: dict[Stream, list[RangeRecord]] = defaultdict(list)
    for item in evidence.ledger.ranges:
        ranges[item.stream].append(item)
    questions, lines = [], []
    for stream in streams:
        bounds, theirs = observed.bounds.get(stream.key), rows.get((stream.key.topic, stream.key.partition))
        if bounds is None:
            why = observed.states.get(stream.key, "unknown")
            lines.append(f"{stream.key} ({stream.key.topic_id}): not judged: {why}")
            continue
        offsets = theirs.offsets if theirs else RangeSet()
        questions.append(ask(stream.key, stream.origin, ranges[stream.key], offsets, bounds.group_offset))
        if theirs and theirs.duplicates:
            lines.append(f"{stream.key}: the live stream has {theirs.duplicates:,} rows twice")
    return Seams(table=live.table, seams=_judged(ports, spec, questions), lines=tuple(lines))


def _judged(ports: Ports, spec: PipelineSpec, questions: Sequence[SeamQuestion]) -> tuple[Seam, ...]:
    gaps = {question.stream: [Slice(question.stream, item) for item in question.open] for question in questions}
    asked = [gap for mine in gaps.values() for gap in mine]
    said = ports.batches.explain(asked, spec.isolation) if asked else {}
    return tuple(
        judge(question, (item for gap in gaps[question.stream] for item in said.get(gap, ()))) for question in questions
    )
