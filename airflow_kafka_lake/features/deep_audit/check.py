"""Read Kafka again, where it still has what is settled, and compare it with the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core.audit.check import offsets_seen
from airflow_kafka_lake.core.audit.evidence import Evidence
from airflow_kafka_lake.core.audit.report import Observed, Scope
from airflow_kafka_lake.core.errors import IdentityError, JobFailedError
from airflow_kafka_lake.core.lake.halving import OUT_OF_MEMORY
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice, SliceSet, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.deep_audit.contents import Compared, Deep
from airflow_kafka_lake.features.deep_audit.job.comparing import NOTHING, CompareJob, Comparison, per_slice
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import polling
from airflow_kafka_lake.services.topics import changed_topics


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepCheck:
    """A comparison that an audit is asked for; `bytes_per_second` bounds what is read from Kafka, None does not.

    It is a `ports.feature.AuditCheck`.
    """

    bytes_per_second: int | None = None

    @property
    def name(self) -> str:
        """Its key in `audit --json`."""
        return "deep"

    @property
    def needs_spark(self) -> bool:
        """A job compares."""
        return True

    def narrow(self, evidence: Evidence) -> Evidence:
        """All rows are the pipeline's."""
        return evidence

    def check(self, ports: Ports, spec: PipelineSpec, evidence: Evidence, observed: Observed, scope: Scope) -> Deep:
        """Compare every settled offset that Kafka still has with the rows of its table, one job for each table.

        Raises JobFailedError when a job ends without a result, IdentityError when a topic was re-created meanwhile.
        """
        by_table, left_out = _stretches(evidence, observed, scope)
        compacted = _compacted(ports, {item.stream.topic for items in by_table.values() for item in items})
        weight = _bytes_per_offset(evidence, scope)
        found = NOTHING
        for table, stretches in sorted(by_table.items()):
            snapshot = ports.lake.table(table).head().snapshot
            if snapshot is None:
                continue  # a table without a row: what it should have is missing already
            offsets = sum(item.range.span for item in stretches)
            ports.say(f"comparing {offsets:,} offsets of {table} with Kafka, on {ports.runner.where()}")
            job = CompareJob(
                pipeline=spec.name,
                table=table,
                snapshot=snapshot,
                isolation=spec.isolation,
                stretches=tuple(stretches),
                per_slice=per_slice(self.bytes_per_second, weight),
                bytes_per_second=self.bytes_per_second,
            )
            found += _run(ports, job)
        stretches = [item for items in by_table.values() for item in items]
        _require_same_topics(ports, stretches)
        return Deep(
            comparison=found,
            streams=_compared(stretches, left_out),
            compacted=compacted,
            deletions=evidence.deletions.by_stream(evidence.ledger.settled, offsets_seen(evidence)),
        )


def _run(ports: Ports, job: CompareJob) -> Comparison:
    """Run a comparison; where it is too much for Spark, once more without what lies behind the stretches: there may be
    a record that was skipped because no job can hold it."""
    try:
        return Comparison.from_json(ports.runner.report(job, say=ports.say))
    except JobFailedError as error:
        if error.facts.get("reason") != OUT_OF_MEMORY or (again := _carefully(ports, job)) == job:
            raise
    ports.say("Spark ran out of memory: comparing once more, and polling nothing that lies behind what is compared")
    return Comparison.from_json(ports.runner.report(again, say=ports.say))


def _carefully(ports: Ports, job: CompareJob) -> CompareJob:
    """Return a comparison of the same stretches that unpacks no record behind them (`polling.careful`)."""
    if len(job.stretches) > polling.MOST_CAREFUL:
        return job
    bodies, ends = polling.divided(ports, job, lambda: None)
    return replace(job, singly=ends, unread=tuple(SliceSet(job.stretches) - SliceSet((*bodies, *ends))))


def _stretches(
    evidence: Evidence, observed: Observed, scope: Scope
) -> tuple[Mapping[str, list[Slice]], Mapping[Stream, tuple[RangeSet, str]]]:
    """Return what can be compared, by table, and what cannot, with the reason."""
    tables = {wave.id: wave.table for wave in evidence.ledger.waves}
    readable = {table.identifier for table in evidence.tables if not table.damaged}
    settled: dict[tuple[str, Stream], list[OffsetRange]] = defaultdict(list)
    for item in evidence.ledger.settled:
        if item.stream in scope:
            settled[tables.get(item.wave, ""), item.stream].append(item.range)
    found: dict[str, list[Slice]] = defaultdict(list)
    left_out: dict[Stream, tuple[RangeSet, str]] = {}
    for (table, stream), ranges in sorted(settled.items()):
        whole, bounds = RangeSet(ranges), observed.bounds.get(stream)
        if table not in readable or bounds is None:
            why = observed.states.get(stream, "unknown") if bounds is None else "its table could not be read"
            left_out[stream] = (whole, why)
            continue
        there = whole & RangeSet.between(bounds.log_start, bounds.readable_end)
        if gone := whole - there:
            left_out[stream] = (gone, f"Kafka has [{bounds.log_start}, {bounds.readable_end})")
        found[table] += [Slice(stream, item) for item in there]
    return {table: stretches for table, stretches in found.items() if stretches}, left_out


def _bytes_per_offset(evidence: Evidence, scope: Scope) -> float | None:
    """Return what the settled ranges weigh in Kafka, as far as they were planned; a rebuild's were not."""
    weighed = [item for item in evidence.ledger.settled if item.stream in scope and item.estimated_bytes]
    spans = sum(item.range.span for item in weighed)
    return sum(item.estimated_bytes for item in weighed) / spans if spans else None


def _compacted(ports: Ports, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose records may have been cleaned since they were read."""
    described = ports.source.describe(sorted(topics)) if topics else ()
    return frozenset(item.topic for item in described if "compact" in item.cleanup_policy)


def _require_same_topics(ports: Ports, stretches: Sequence[Slice]) -> None:
    changed = changed_topics(ports, {(item.stream.topic, item.stream.topic_id) for item in stretches})
    for topic, reason in changed.items():
        raise IdentityError(f"{reason}, while it was compared: what was found means nothing. Audit again", topic=topic)


def _compared(stretches: Iterable[Slice], left_out: Mapping[Stream, tuple[RangeSet, str]]) -> tuple[Compared, ...]:
    spans: dict[Stream, int] = defaultdict(int)
    for item in stretches:
        spans[item.stream] += item.range.span
    return tuple(
        Compared(stream=key, offsets=spans.get(key, 0), left_out=left_out.get(key, (RangeSet(), ""))[0], why=why)
        for key in sorted(spans.keys() | left_out.keys())
        for why in (left_out.get(key, (RangeSet(), ""))[1],)
    )
