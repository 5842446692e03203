"""Read committed offsets from Kafka again, where Kafka still has them, and compare them with the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.audit.check import offsets_seen
from airflow_kafka_lake.core.audit.inputs import AuditInputs
from airflow_kafka_lake.core.audit.report import Observed, Scope
from airflow_kafka_lake.core.errors import IdentityError, JobFailedError
from airflow_kafka_lake.core.lake.halving import OUT_OF_MEMORY
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.progress import Progress, Step
from airflow_kafka_lake.core.slices import Slice, SliceSet, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.features.deep_audit.contents import Compared, Deep
from airflow_kafka_lake.features.deep_audit.job.comparing import NOTHING, CompareJob, Comparison, per_slice
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import polling
from airflow_kafka_lake.services.topics import changed_topics
from airflow_kafka_lake.services.watching import job_progress


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

    def narrow(self, inputs: AuditInputs) -> AuditInputs:
        """All rows are the pipeline's."""
        return inputs

    def check(self, ports: Ports, spec: PipelineSpec, inputs: AuditInputs, observed: Observed, scope: Scope) -> Deep:
        """Compare every committed offset that Kafka still has with the rows of its table, one job for each table.

        Raises JobFailedError when a job ends without a result, IdentityError when a topic was re-created meanwhile.
        """
        by_table, left_out = _slices(inputs, observed, scope)
        compacted = _compacted(ports, {item.stream.topic for items in by_table.values() for item in items})
        weight = _bytes_per_offset(inputs, scope)
        found = NOTHING
        for table, slices in sorted(by_table.items()):
            snapshot = ports.lake.table(table).head().snapshot
            if snapshot is None:
                continue  # a table without a row: what it should have is missing already
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
        _require_same_topics(ports, slices)
        return Deep(
            comparison=found,
            streams=_compared(slices, left_out),
            compacted=compacted,
            deletions=inputs.deletions.by_stream(inputs.committed, offsets_seen(inputs)),
        )


def _run(ports: Ports, job: CompareJob) -> Comparison:
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


def _compare(ports: Ports, job: CompareJob) -> Comparison:
    offsets = Progress(step=Step.AUDIT, rows_expected=sum(item.range.span for item in job.slices))
    with job_progress(ports, f"comparison of {job.table}", offsets) as counted:
        return Comparison.from_json(ports.runner.report(job, progress=ports.progress, counted=counted))


def _carefully(ports: Ports, job: CompareJob) -> CompareJob:
    """Return a comparison of the same slices that unpacks no record behind them (`polling.careful`)."""
    if len(job.slices) > polling.MOST_CAREFUL:
        return job
    bodies, ends = polling.divided(ports, job, lambda: None, epochs=dict(job.epochs))
    return replace(job, singly=ends, unread=tuple(SliceSet(job.slices) - SliceSet((*bodies, *ends))))


def _slices(
    inputs: AuditInputs, observed: Observed, scope: Scope
) -> tuple[Mapping[str, list[Slice]], Mapping[Stream, tuple[RangeSet, str]]]:
    """Return the slices that can be compared, by table, and the offsets that cannot, with the reason."""
    tables = {wave.id: wave.table for wave in inputs.ledger.waves}
    readable = {table.identifier for table in inputs.tables if not table.damaged}
    committed: dict[tuple[str, Stream], list[OffsetRange]] = defaultdict(list)
    for item in inputs.committed:
        if item.stream in scope:
            committed[tables.get(item.wave, ""), item.stream].append(item.range)
    found: dict[str, list[Slice]] = defaultdict(list)
    left_out: dict[Stream, tuple[RangeSet, str]] = {}

    def leave_out(stream: Stream, offsets: RangeSet, why: str) -> None:
        before, reason = left_out.get(stream, (RangeSet(), ""))  # of another table that it has landed in
        left_out[stream] = (before | offsets, f"{reason}; {why}" if reason not in {"", why} else why)

    for (table, stream), ranges in sorted(committed.items()):
        whole, bounds = RangeSet(ranges), observed.bounds.get(stream)
        if table not in readable or bounds is None:
            why = observed.states.get(stream, "unknown") if bounds is None else "its table could not be read"
            leave_out(stream, whole, why)
            continue
        present = whole & RangeSet.between(bounds.log_start, bounds.readable_end)
        if deleted := whole - present:
            leave_out(stream, deleted, f"Kafka has [{bounds.log_start}, {bounds.readable_end})")
        found[table] += [Slice(stream, item) for item in present]
    return {table: slices for table, slices in found.items() if slices}, left_out


def _bytes_per_offset(inputs: AuditInputs, scope: Scope) -> float | None:
    """Return the bytes per offset of committed ranges in Kafka; ranges of a rebuild have no estimate."""
    weighed = [item for item in inputs.committed if item.stream in scope and item.estimated_bytes]
    spans = sum(item.range.span for item in weighed)
    return sum(item.estimated_bytes for item in weighed) / spans if spans else None


def _compacted(ports: Ports, topics: Iterable[str]) -> frozenset[str]:
    """Return the topics whose records may have been cleaned since they were read."""
    described = ports.source.describe(sorted(topics)) if topics else ()
    return frozenset(item.topic for item in described if "compact" in item.cleanup_policy)


def _require_same_topics(ports: Ports, slices: Sequence[Slice]) -> None:
    changed = changed_topics(ports, {(item.stream.topic, item.stream.topic_id) for item in slices})
    for topic, reason in changed.items():
        raise IdentityError(f"{reason}, while it was compared: what was found means nothing. Audit again", topic=topic)


def _compared(slices: Iterable[Slice], left_out: Mapping[Stream, tuple[RangeSet, str]]) -> tuple[Compared, ...]:
    spans: dict[Stream, int] = defaultdict(int)
    for item in slices:
        spans[item.stream] += item.range.span
    return tuple(
        Compared(stream=key, offsets=spans.get(key, 0), left_out=left_out.get(key, (RangeSet(), ""))[0], why=why)
        for key in sorted(spans.keys() | left_out.keys())
        for why in (left_out.get(key, (RangeSet(), ""))[1],)
    )
