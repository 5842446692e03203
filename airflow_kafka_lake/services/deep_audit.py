"""The deep audit: Kafka is read again, and its records are compared with the rows, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.check import AuditInputs, Finding, FindingKind, offsets_seen
from airflow_kafka_lake.core.audit.report import ObservedBounds
from airflow_kafka_lake.core.errors import IdentityError, JobFailedError
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, SliceSet, Stream, offsets_by, summed
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.core.spark.halving import OUT_OF_MEMORY
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.jobs.compare import (
    NOTHING,
    CompareJob,
    ContentComparison,
    ContentDifference,
    Mismatch,
    per_slice,
)
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import reading
from airflow_kafka_lake.services.identity import changed_topics
from airflow_kafka_lake.services.watching import Watch

# The result of comparing contents with Kafka, and its findings.


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStream:
    """How many offsets of a stream were compared, and which were not, and why."""

    stream: Stream
    offsets: int
    left_out: RangeSet
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deep:
    """The result of a comparison; `compacted` are the topics whose records may have been cleaned since, `deletions` how
    many rows of each stream were deleted on purpose."""

    comparison: ContentComparison
    streams: tuple[ComparedStream, ...]
    compacted: frozenset[str]
    deletions: Mapping[Stream, int] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        """Return every difference that is not explained, and that nothing could be compared."""
        yield from map(_finding, self._unexplained)
        if self.left_out and not self.offsets:
            yield Finding(kind=FindingKind.NOT_JUDGED, message=self.sentence)

    @property
    def _unexplained(self) -> list[ContentDifference]:
        """Differences that neither compaction nor a recorded deletion explains."""
        return [item for item in self.comparison.differences if item not in self.cleaned and item not in self.deleted]

    @property
    def deleted(self) -> tuple[ContentDifference, ...]:
        """Records without a row that are no more than the deleted ones of their stream: the count of rows shows that
        each range lacks exactly these."""
        return tuple(
            item
            for item in self.comparison.differences
            if item.mismatch is Mismatch.MISSING and item.offsets <= self.deletions.get(item.stream, 0)
        )

    @property
    def cleaned(self) -> tuple[ContentDifference, ...]:
        """Rows without a record in a compacted topic: the cleaner may have removed it since."""
        return tuple(
            item
            for item in self.comparison.differences
            if item.mismatch is Mismatch.UNKNOWN and item.stream.topic in self.compacted
        )

    @property
    def offsets(self) -> int:
        """The number of compared offsets."""
        return sum(item.offsets for item in self.streams)

    @property
    def left_out(self) -> int:
        """The number of committed offsets that could not be compared."""
        return sum(item.left_out.span for item in self.streams)

    @property
    def sentence(self) -> str:
        """The extent and the result of the comparison, and the amount that was not compared."""
        rest = f"{count(self.left_out, 'committed offset')} could not be compared"
        if not self.offsets:
            return f"nothing was compared with Kafka: {rest if self.left_out else 'nothing is committed'}"
        there = count(self.offsets, "committed offset was", "committed offsets were")
        read = f"{count(self.comparison.records, 'record')} at {there} read from Kafka again"
        found = "not all of them are" if self._unexplained else "keys, values, headers and timestamps are"
        rest = f"; {rest}" if self.left_out else ""
        return f"{read}: {found} what the table has{', but for deleted rows' if self.deleted else ''}{rest}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The differences that are explained, and the offsets that could not be compared."""
        left_out = (
            f"{item.stream}: {item.left_out.span:,} committed offsets could not be compared: {item.why}"
            for item in self.streams
            if item.left_out
        )
        return (*map(_cleaned, self.cleaned), *map(_deleted, self.deleted), *left_out)

    def to_json(self) -> dict[str, Any]:
        """Return the `deep` part of `audit --json`."""
        return {
            "records": self.comparison.records,
            "bytes": self.comparison.bytes,
            "offsets": self.offsets,
            "left_out": self.left_out,
            "sentence": self.sentence,
            "lines": list(self.lines),
        }


def _finding(item: ContentDifference) -> Finding:
    where = f"{count(item.offsets, 'offset')}, the first {item.first}"
    match item.mismatch:
        case Mismatch.MISSING:
            kind, message = FindingKind.LOST, f"Kafka has records that the table lacks, at {where}"
        case Mismatch.UNKNOWN:
            kind, message = FindingKind.INCONSISTENT, f"the table has rows where Kafka has no record, at {where}"
        case _:
            kind, message = FindingKind.DIFFERENT, f"the {item.mismatch} is not what Kafka has, at {where}"
    first = RangeSet((OffsetRange(item.first, item.first + 1),))
    return Finding(kind=kind, stream=item.stream, offsets=first, message=message)


def _cleaned(item: ContentDifference) -> str:
    return (
        f"{item.stream}: {count(item.offsets, 'row has', 'rows have')} no record in Kafka any more, the first at "
        f"{item.first}: the topic is compacted, there is nothing to compare with"
    )


def _deleted(item: ContentDifference) -> str:
    have = count(item.offsets, "record has", "records have")
    return f"{item.stream}: {have} no row, the first at {item.first}: deleted on purpose"


# Read committed offsets from Kafka again, where Kafka still has them, and compare them with the tables.


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepCheck:
    """A comparison that an audit is asked for; `bytes_per_second` bounds the reading from Kafka, None does not."""

    name: ClassVar[str] = "deep"
    needs_spark: ClassVar[bool] = True
    bytes_per_second: int | None = None

    def narrow(self, inputs: AuditInputs) -> AuditInputs:
        """All rows are the pipeline's."""
        return inputs

    def check(
        self, ports: Ports, spec: PipelineSpec, inputs: AuditInputs, observed: ObservedBounds, scope: StreamScope
    ) -> Deep:
        """Compare every committed offset that Kafka still has with the rows of its table, one job for each table.

        Raises JobFailedError when a job ends without a result, IdentityError when a topic was re-created meanwhile.
        """
        by_table, left_out = _slices(inputs, observed, scope)
        topics = sorted({item.stream.topic for items in by_table.values() for item in items})
        described = ports.source.describe(topics) if topics else ()
        compacted = frozenset(item.topic for item in described if "compact" in item.cleanup_policy)
        weight = _bytes_per_offset(inputs, scope)
        found = NOTHING
        for table, slices in sorted(by_table.items()):
            snapshot = ports.lake.table(table).head().snapshot
            if snapshot is None:
                continue  # a table without a row: its rows are missing already
            offsets = sum(item.range.span for item in slices)
            ports.progress(f"comparing {count(offsets, 'offset')} of {table} with Kafka, on {ports.runner.where()}")
            job = CompareJob(
                pipeline=spec.name,
                table=table,
                snapshot=snapshot,
                isolation=spec.isolation,
                slices=tuple(slices),
                per_slice=per_slice(self.bytes_per_second, weight),
                bytes_per_second=self.bytes_per_second,
                epochs=tuple(sorted(observed.leader_epochs.items())),
            )
            found += _run(ports, job)
        slices = [item for items in by_table.values() for item in items]
        read = {(item.stream.topic, item.stream.topic_id) for item in slices}
        for topic, reason in changed_topics(ports, read).items():
            told = f"{reason}, while it was compared: what was found means nothing. Audit again"
            raise IdentityError(told, topic=topic)
        return Deep(
            comparison=found,
            streams=_compared(slices, left_out),
            compacted=compacted,
            deletions=inputs.deletions.by_stream(inputs.committed, offsets_seen(inputs)),
        )


def _run(ports: Ports, job: CompareJob) -> ContentComparison:
    """Run a comparison; when Spark runs out of memory, run it again without polling behind the slices.

    A record may be there that was skipped because no job can hold it.
    """
    try:
        return _compare(ports, job)
    except JobFailedError as error:
        if error.facts.get("reason") != OUT_OF_MEMORY or (again := _carefully(ports, job)) == job:
            raise
    ports.progress(
        "Spark ran out of memory: comparing once more, and polling nothing that lies behind what is compared"
    )
    return _compare(ports, again)


def _compare(ports: Ports, job: CompareJob) -> ContentComparison:
    watch = Watch(ports, f"comparison of {job.table}")
    watch.begin(Progress(step=Step.READ, rows_expected=sum(item.range.span for item in job.slices)))
    done = ContentComparison.from_json(ports.runner.report(job, progress=ports.progress, counted=watch.follow))
    watch.end()
    return done


def _carefully(ports: Ports, job: CompareJob) -> CompareJob:
    """Return a comparison of the same slices that unpacks no record behind them (`polling.careful`)."""
    if len(job.slices) > reading.MOST_CAREFUL:
        return job
    bodies, ends = reading.divided(ports, job, lambda: None)
    return replace(job, singly=ends, unread=tuple(SliceSet(job.slices) - SliceSet((*bodies, *ends))))


def _slices(
    inputs: AuditInputs, observed: ObservedBounds, scope: StreamScope
) -> tuple[Mapping[str, list[Slice]], Mapping[Stream, tuple[RangeSet, str]]]:
    """Return the slices that can be compared, by table, and the offsets that cannot, with the reason."""
    tables, seen = inputs.tables_of_waves, offsets_seen(inputs)
    readable = {table.identifier for table in inputs.tables if not table.damaged}
    left = ((item, part) for item in inputs.kept for part in seen.get(item.stream, RangeSet()).within(item.range))
    chosen = ((item, part) for item, part in (*((item, item.range) for item in inputs.committed), *left))
    landed = offsets_by(
        ((tables.get(item.wave, ""), item.stream), part) for item, part in chosen if item.stream in scope
    )
    found: dict[str, list[Slice]] = defaultdict(list)
    left_out: dict[Stream, tuple[RangeSet, str]] = {}

    def leave_out(stream: Stream, offsets: RangeSet, why: str) -> None:
        before, reason = left_out.get(stream, (RangeSet(), ""))  # of another table that it has landed in
        left_out[stream] = (before | offsets, f"{reason}; {why}" if reason not in {"", why} else why)

    for (table, stream), whole in sorted(landed.items(), key=lambda one: one[0]):
        bounds = observed.bounds.get(stream)
        if table not in readable or bounds is None:
            why = observed.states.get(stream, "unknown") if bounds is None else "its table could not be read"
            leave_out(stream, whole, why)
            continue
        present = whole & RangeSet.between(bounds.log_start, bounds.readable_end)
        if deleted := whole - present:
            leave_out(stream, deleted, f"Kafka has [{bounds.log_start}, {bounds.readable_end})")
        found[table] += [Slice(stream, item) for item in present]
    return {table: slices for table, slices in found.items() if slices}, left_out


def _bytes_per_offset(inputs: AuditInputs, scope: StreamScope) -> float | None:
    """Return the bytes per offset of committed ranges in Kafka; ranges of a rebuild have no estimate."""
    weighed = [item for item in inputs.committed if item.stream in scope and item.estimated_bytes]
    spans = sum(item.range.span for item in weighed)
    return sum(item.estimated_bytes for item in weighed) / spans if spans else None


def _compared(slices: Iterable[Slice], left_out: Mapping[Stream, tuple[RangeSet, str]]) -> tuple[ComparedStream, ...]:
    spans = summed((item.stream, item.range.span) for item in slices)
    return tuple(
        ComparedStream(stream=key, offsets=spans.get(key, 0), left_out=left_out.get(key, (RangeSet(), ""))[0], why=why)
        for key in sorted(spans.keys() | left_out.keys())
        for why in (left_out.get(key, (RangeSet(), ""))[1],)
    )
