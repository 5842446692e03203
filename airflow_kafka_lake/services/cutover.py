"""The cutover to a live stream: nothing missing between two tables, nothing in both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from airflow_kafka_lake.core.accounting import EXPLAINED, Explanation
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.check import SHOWN, AuditInputs, Finding, FindingKind, by_stream, offsets_seen
from airflow_kafka_lake.core.audit.report import ObservedBounds, StreamBounds
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RESOLVED, UNRESOLVED, RangeState
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet, Slice, Stream
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.core.spark.job import PositionColumns
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports

# The cutover from a pipeline's committed rows to a live stream's: nothing missing, nothing twice.


def position_columns(text: str, topics: Sequence[str]) -> PositionColumns:
    """Read `topic=…,partition=…,offset=…`, each of which may be left out; `topic=` says that there is no such column,
    which needs a pipeline of one topic. Raises UsageError for anything else."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, column = (word.strip() for word in part.partition("="))
        if not equals or name not in {"topic", "partition", "offset"} or name in given:
            raise UsageError("cutover columns are given as topic=COLUMN,partition=COLUMN,offset=COLUMN")
        given[name] = column
    if given.get("topic") != "":
        return PositionColumns(**given)
    if len(topics) != 1:
        raise UsageError("a live table without a column for the topic needs a pipeline of one topic")
    return PositionColumns(**{**given, "topic": None}, only_topic=topics[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutover:
    """One stream at its cutover.

    `at`: the end of the unbroken committed run; `live_from`: the live stream's first row from there on; `pending`:
    planned and uncommitted offsets between them; `open`: unplanned offsets that neither table has, and `missing` the
    ones that Kafka, once asked, does not explain. Not `judged`: the live stream has not reached the cutover yet;
    `quiet`: Kafka has nothing behind it.
    """

    stream: Stream
    at: int
    live_from: int | None
    twice: RangeSet
    pending: RangeSet
    open: RangeSet
    judged: bool = True
    quiet: bool = False
    missing: RangeSet = NOTHING

    @property
    def sound(self) -> bool:
        """Return whether nothing is missing, pending or twice."""
        return not (self.missing or self.pending or self.twice)

    def findings(self) -> Iterator[Finding]:
        """Name offsets that neither table has, and offsets that both have."""
        behind = f"behind the cutover at {self.at}"
        for kind, offsets, text in (
            (FindingKind.CUTOVER_MISSING, self.missing, f"{behind} neither table has what Kafka has at"),
            (FindingKind.CUTOVER_MISSING, self.pending, f"{behind} these are planned and not committed yet:"),
            (FindingKind.CUTOVER_TWICE, self.twice, "both the pipeline and the live stream have"),
        ):
            if offsets:
                yield Finding(kind=kind, stream=self.stream, offsets=offsets, message=f"{text} {offsets.describe()}")

    def to_json(self) -> dict[str, Any]:
        """Return the stream's entry in `audit --json` under `cutover`."""
        sets = {"missing": self.missing, "pending": self.pending, "twice": self.twice}
        return {
            **self.stream._asdict(),
            "at": self.at,
            "live_from": self.live_from,
            **{name: found.to_pairs()[:SHOWN] for name, found in sets.items()},
            **{f"{name}_span": found.span for name, found in sets.items()},
        }

    def line(self) -> str:
        """Return one line for people: where the cutover is, and its state."""
        live = "has no row from there on" if self.live_from is None else f"begins at {self.live_from}"
        state = "nothing missing, nothing twice"
        if not self.judged:
            state = "nothing twice; there is nothing to judge behind it yet"
        if not self.sound:
            state = (
                f"{self.missing.span:,} missing, {self.pending.span:,} not committed yet, {self.twice.span:,} in both"
            )
        return f"{self.stream}: committed up to {self.at}, the live stream {live}: {state}"


def ask(
    stream: Stream,
    origin: int,
    ranges: Iterable[RangeRecord],
    *,
    rows: RangeSet,
    live: RangeSet,
    bounds: StreamBounds,
) -> Cutover:
    """Find a stream's cutover: from the end of the unbroken committed run to the live stream's first row; `rows` are
    the pipeline's, also those of a slice that was reopened and waits or was skipped.

    Without such a row, up to the live stream's group offset.
    """
    mine = tuple(ranges)
    covered = RangeSet(item.range for item in mine if item.state in RESOLVED)
    at = covered.unbroken_end(origin)
    live_from = next((max(item.start, at) for item in live if item.end > at), None)
    end = live_from if live_from is not None else max(at, bounds.group_offset or 0)
    between = RangeSet.between(at, end) - covered
    pending = between & RangeSet(item.range for item in mine if item.state in UNRESOLVED)
    committed = RangeSet(item.range for item in mine if item.state is RangeState.COMMITTED)
    return Cutover(
        stream=stream,
        at=at,
        live_from=live_from,
        twice=(committed | rows) & live,
        pending=pending,
        open=between - pending,
        judged=live_from is not None or at < bounds.readable_end <= end,
        quiet=bounds.readable_end == at,
    )


def judge(asked: Cutover, explanations: Iterable[Explanation]) -> Cutover:
    """Return the cutover: open offsets that Kafka explains (markers, aborted and cleaned records) are not missing."""
    explained = RangeSet(item.range for item in explanations if item.fate in EXPLAINED)
    return replace(asked, missing=asked.open - explained)


# Compare the rows of a live stream with the ranges that a pipeline has committed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutovers:
    """The cutover of every stream, and lines about streams that could not be judged."""

    table: str
    cutovers: tuple[Cutover, ...]
    remarks: tuple[str, ...]
    silent: int = 0
    """Streams of which Kafka has nothing any more: nothing can be judged of them."""
    unplanned: int = 0
    """Partitions with records that no plan has seen."""
    twice: int = 0
    """Rows that the live stream has more than once."""

    def findings(self) -> list[Finding]:
        """Return the offsets that are missing or twice, or that nothing could be judged."""
        found = [item for cutover in self.cutovers for item in cutover.findings()]
        if self._judged and not self._waiting:
            return found
        return [*found, Finding(kind=FindingKind.NOT_JUDGED, message=self.sentence)]

    def to_json(self) -> dict[str, Any]:
        """Return the `cutover` part of `audit --json`."""
        return {
            "table": self.table,
            "ok": not self.findings(),
            "sentence": self.sentence,
            "lines": list(self.lines),
            "streams": [cutover.to_json() for cutover in self.cutovers],
        }

    @property
    def _judged(self) -> int:
        return sum(cutover.judged or not cutover.sound for cutover in self.cutovers)

    @property
    def _waiting(self) -> int:
        return sum(c.sound and not (c.judged or c.quiet) for c in self.cutovers) + self.unplanned

    @property
    def lines(self) -> tuple[str, ...]:
        """The state of each cutover, and the remarks."""
        return (*(cutover.line() for cutover in self.cutovers), *self.remarks)

    @property
    def sentence(self) -> str:
        """The findings, and the number of streams that could not be judged."""
        if not self._judged:
            all_ = count(len(self.cutovers) + self.silent + self.unplanned, "partition")
            return f"no cutover with {self.table} could be judged: of {all_} nothing can be told yet"
        state = f"nothing is missing and nothing is {'in both' if self.twice else 'twice'}"
        more = f"; {count(self.twice, 'row is', 'rows are')} twice in {self.table} itself" if self.twice else ""
        more += f"; {count(self._waiting, 'partition')} could not be judged yet" if self._waiting else ""
        more += f"; Kafka has nothing of {count(self.silent, 'partition')} any more" if self.silent else ""
        wrong = sum(not cutover.sound for cutover in self.cutovers)
        state = f"{wrong} not sound" if wrong else state
        return f"{count(self._judged, 'cutover')} with {self.table}: {state}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverCheck:
    """The check of the table that a live stream writes to; `columns` is the text that `position_columns` reads."""

    name: ClassVar[str] = "cutover"
    needs_spark: ClassVar[bool] = False
    table: str
    columns: str | None = None

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
        self, ports: Ports, spec: PipelineSpec, inputs: AuditInputs, observed: ObservedBounds, scope: StreamScope
    ) -> Cutovers:
        """Judge the cutover of every stream that Kafka still has; Kafka explains offsets without a row.

        Raises the errors of `ports.LakeTable.positions`, and UsageError for columns that are not given correctly.
        """
        streams = [stream for stream in inputs.ledger.streams if stream.key in scope]
        topics = sorted({stream.key.topic for stream in streams})
        columns = position_columns(self.columns, topics) if self.columns else PositionColumns()
        shared = self.table in {table.identifier for table in inputs.tables}
        ports.progress(f"reading {self.table}")
        contents = ports.lake.table(self.table).positions(columns, topics, live_only=shared)
        rows, seen = {item.stream.place: item for item in contents}, offsets_seen(inputs)
        ranges = by_stream(inputs.ledger.ranges)
        asked, lines, twice = [], [], 0
        for stream in streams:
            bounds, theirs = observed.bounds.get(stream.key), rows.get(stream.key.place)
            if bounds is None:
                why = observed.states.get(stream.key, "unknown")
                lines.append(f"{stream.key} ({stream.key.topic_id}): not judged: {why}")
                continue
            offsets = theirs.offsets if theirs else RangeSet()
            mine = seen.get(stream.key, NOTHING)
            asked.append(ask(stream.key, stream.origin, ranges[stream.key], rows=mine, live=offsets, bounds=bounds))
            if theirs and theirs.duplicates:
                twice += theirs.duplicates
                lines.append(f"{stream.key}: the live stream has {count(theirs.duplicates, 'row')} twice")
        planned = {stream.key for stream in inputs.ledger.streams}
        new = sorted(key for key, its in observed.bounds.items() if its.readable_end and key in scope)
        new = [key for key in new if key not in planned]
        return Cutovers(
            table=self.table,
            cutovers=_judged(ports, spec, asked, observed.leader_epochs),
            remarks=(*lines, *(f"{key}: not judged: no plan has seen it" for key in new)),
            silent=len(streams) - len(asked),
            unplanned=len(new),
            twice=twice,
        )


def _judged(
    ports: Ports, spec: PipelineSpec, cutovers: Sequence[Cutover], epochs: Mapping[Stream, int]
) -> tuple[Cutover, ...]:
    gaps = {cutover.stream: [Slice(cutover.stream, item) for item in cutover.open] for cutover in cutovers}
    asked = [gap for mine in gaps.values() for gap in mine]
    explained = ports.batches.explain(asked, spec.isolation, epochs=epochs) if asked else {}
    return tuple(
        judge(cutover, (item for gap in gaps[cutover.stream] for item in explained.get(gap, ())))
        for cutover in cutovers
    )
