"""Compare the rows of a live stream with the ranges that a pipeline has committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.inputs import AuditInputs, Finding, by_stream
from airflow_kafka_lake.core.audit.report import Observed, Scope
from airflow_kafka_lake.core.lake.positions import PositionColumns
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.cutover.decision import Cutover, CutoverQuestion, ask, judge, position_columns
from airflow_kafka_lake.ports import Ports


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutovers:
    """The cutover of every stream, and lines about streams that could not be judged."""

    table: str
    cutovers: tuple[Cutover, ...]
    lines: tuple[str, ...]
    silent: int = 0
    """Streams of which Kafka has nothing any more: nothing can be judged of them."""
    twice: int = 0
    """Rows that the live stream has more than once."""

    def findings(self) -> list[Finding]:
        """Return what is missing or twice."""
        return [item for cutover in self.cutovers for item in cutover.findings()]

    def to_json(self) -> dict[str, Any]:
        """Return what `audit --json` has under `cutover`."""
        wrong = sum(not cutover.sound for cutover in self.cutovers)
        return {
            "table": self.table,
            "ok": not wrong,
            "sentence": self._sentence(wrong),
            "lines": [*(cutover.line() for cutover in self.cutovers), *self.lines],
            "streams": [cutover.to_json() for cutover in self.cutovers],
        }

    def _sentence(self, wrong: int) -> str:
        """Return what was judged and found, and of how many streams nothing could be."""
        judged = sum(cutover.question.judged or not cutover.sound for cutover in self.cutovers)
        left = len(self.cutovers) - judged + self.silent
        if not judged:
            return (
                f"no cutover with {self.table} could be judged: of {count(left, 'partition')} nothing can be told yet"
            )
        state = f"nothing is missing and nothing is {'in both' if self.twice else 'twice'}"
        more = f"; {count(self.twice, 'row is', 'rows are')} twice in {self.table} itself" if self.twice else ""
        more += f"; {count(left, 'partition')} could not be judged yet" if left else ""
        return f"{count(judged, 'cutover')} with {self.table}: {f'{wrong} not sound' if wrong else state}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverCheck:
    """The check of the table that a live stream writes to; `columns` is the text that `position_columns` reads.

    It is a `ports.feature.AuditCheck`.
    """

    table: str
    columns: str | None = None

    @property
    def name(self) -> str:
        """Its key in `audit --json`."""
        return "cutover"

    @property
    def needs_spark(self) -> bool:
        """It reads the table without a job."""
        return False

    def narrow(self, inputs: AuditInputs) -> AuditInputs:
        """Leave out the live stream's rows, which have no attempt, where it shares a table with the pipeline."""
        tables = tuple(
            replace(table, attempt_rows=tuple(item for item in table.attempt_rows if item.attempt is not None))
            if table.identifier == self.table
            else table
            for table in inputs.tables
        )
        return replace(inputs, tables=tables)

    def check(
        self, ports: Ports, spec: PipelineSpec, inputs: AuditInputs, observed: Observed, scope: Scope
    ) -> Cutovers:
        """Judge the cutover of every stream that Kafka still has; Kafka explains what neither side has a row of.

        Raises what `ports.LakeTable.positions` does, and UsageError for columns that are not given as they should be.
        """
        streams = [stream for stream in inputs.ledger.streams if stream.key in scope]
        topics = sorted({stream.key.topic for stream in streams})
        columns = position_columns(self.columns, topics) if self.columns else PositionColumns()
        shared = self.table in {table.identifier for table in inputs.tables}
        ports.progress(f"reading {self.table}")
        contents = ports.lake.table(self.table).positions(columns, topics, live_only=shared)
        rows = {(item.stream.topic, item.stream.partition): item for item in contents}
        ranges = by_stream(inputs.ledger.ranges)
        questions, lines, twice = [], [], 0
        for stream in streams:
            bounds, theirs = observed.bounds.get(stream.key), rows.get((stream.key.topic, stream.key.partition))
            if bounds is None:
                why = observed.states.get(stream.key, "unknown")
                lines.append(f"{stream.key} ({stream.key.topic_id}): not judged: {why}")
                continue
            offsets = theirs.offsets if theirs else RangeSet()
            questions.append(
                ask(stream.key, stream.origin, ranges[stream.key], live=offsets, group_offset=bounds.group_offset)
            )
            if theirs and theirs.duplicates:
                twice += theirs.duplicates
                lines.append(f"{stream.key}: the live stream has {count(theirs.duplicates, 'row')} twice")
        return Cutovers(
            table=self.table,
            cutovers=_judged(ports, spec, questions, observed.leader_epochs),
            lines=tuple(lines),
            silent=len(streams) - len(questions),
            twice=twice,
        )


def _judged(
    ports: Ports, spec: PipelineSpec, questions: Sequence[CutoverQuestion], epochs: Mapping[Stream, int]
) -> tuple[Cutover, ...]:
    gaps = {question.stream: [Slice(question.stream, item) for item in question.open] for question in questions}
    asked = [gap for mine in gaps.values() for gap in mine]
    explained = ports.batches.explain(asked, spec.isolation, epochs=epochs) if asked else {}
    return tuple(
        judge(question, (item for gap in gaps[question.stream] for item in explained.get(gap, ())))
        for question in questions
    )
