"""How far are we, what blocks, and is anything missing or twice?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.accounting import Accounting, StreamContent
from airflow_kafka_lake.core.documents import status_document, wave_document
from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownSubjectError
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.plan import StreamKey, StreamRecord
from airflow_kafka_lake.core.records import RangeRecord
from airflow_kafka_lake.core.snapshots import Snapshot
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.waves import RESOLVED, UNRESOLVED, RangeState
from airflow_kafka_lake.ports import LedgerReader, OffsetSource, Ports
from airflow_kafka_lake.services.identity import look_at_table


def known_spec(ledger: LedgerReader, name: str) -> PipelineSpec:
    """Return a pipeline's recorded configuration; UnknownSubjectError names what the ledger does know."""
    record = ledger.pipeline(name)
    if record is None:
        known = ", ".join(ledger.pipelines()) or "none yet"
        raise UnknownSubjectError(
            f"the ledger knows no pipeline {name!r}; it knows: {known}. Give a pipeline file to begin one",
            pipeline=name,
        )
    return record.spec


def status(
    ports: Ports, spec: PipelineSpec, *, topic: str | None = None, partitions: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return `status --json`; an unreachable broker makes the bounds unknown and nothing else."""
    streams = ports.ledger.streams(spec.name, topic=topic, partitions=partitions)
    keys = {stream.key for stream in streams}
    unresolved = [i for i in ports.ledger.ranges(pipeline=spec.name, states=UNRESOLVED) if i.stream in keys]
    topics = sorted({stream.topic for stream in streams})
    return status_document(
        spec.name,
        ports.clock.now(),
        streams,
        ports.ledger.waves(spec.name),
        unresolved,
        observe(ports.source, topics, spec.end.group or spec.start.group),
        spec.isolation,
    )


def observe(source: OffsetSource, topics: Sequence[str], group: str | None) -> Snapshot | str:
    """Return a snapshot of those of the topics that still exist, or why there is none."""
    try:
        existing = set(source.topics((), ".*")) & set(topics)
        return source.snapshot(sorted(existing), group) if existing else "no topic of the pipeline exists"
    except KafkaLakeError as error:
        return error.message


def wave(ledger: LedgerReader, wave_id: str) -> dict[str, Any]:
    """Return `wave --json`."""
    record = ledger.wave(wave_id)
    return wave_document(record, ledger.ranges(wave=wave_id), ledger.attempts(wave_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAudit:
    """What the audit of one stream found; `missing` counts offsets the ledger says are visible and no row has."""

    stream: StreamRecord
    rows: int
    duplicates: int
    missing: int
    accounting: Accounting
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the wire form."""
        return {
            "topic": self.stream.topic,
            "topic_id": self.stream.topic_id,
            "partition": self.stream.partition,
            "coverage": self.stream.covered.to_pairs(),
            "rows": self.rows,
            "duplicates": self.duplicates,
            "missing": self.missing,
            "accounting": self.accounting.to_json(),
            "problems": list(self.problems),
        }


def audit(ports: Ports, spec: PipelineSpec) -> dict[str, Any]:
    """Compare ledger and lake, stream by stream; returns `audit --json`.

    Rows are counted in the table itself, per settled range; what the ledger says about a range must be what a reader
    of the table sees.
    """
    streams = ports.ledger.streams(spec.name)
    settled: dict[StreamKey, list[RangeRecord]] = defaultdict(list)
    for item in ports.ledger.ranges(pipeline=spec.name, states=RESOLVED):
        settled[item.stream].append(item)
    contents, problems = _contents(ports, spec, streams)
    audits = [_audit_stream(stream, settled[stream.key], contents.get(stream.key)) for stream in streams]
    return {
        "pipeline": spec.name,
        "ok": not problems and not any(item.problems for item in audits),
        "streams": [item.to_json() for item in audits],
        "problems": problems,
    }


def _contents(
    ports: Ports, spec: PipelineSpec, streams: Sequence[StreamRecord]
) -> tuple[dict[StreamKey, StreamContent], list[str]]:
    tables: dict[str, set[str]] = defaultdict(set)
    for stream in streams:
        tables[spec.table_for(stream.topic)].add(stream.topic_id)
    found: dict[StreamKey, StreamContent] = {}
    problems: list[str] = []
    for table, topic_ids in sorted(tables.items()):
        try:
            look_at_table(ports, spec.name, table, sorted(topic_ids))
            ports.say(f"reading {table}")
            contents = ports.lake.table(table).contents(sorted(topic_ids))
        except KafkaLakeError as error:
            problems.append(error.message)
            continue
        found |= {(item.topic, item.topic_id, item.partition): item for item in contents}
    return found, problems


def _audit_stream(stream: StreamRecord, resolved: Sequence[RangeRecord], content: StreamContent | None) -> StreamAudit:
    rows = content.offsets if content else RangeSet()
    duplicates = content.duplicates if content else 0
    total = Accounting()
    missing = 0
    problems: list[str] = []
    for item in resolved:
        inside = (rows & RangeSet((item.range,))).span
        if item.state is RangeState.SKIPPED:
            total += Accounting(skipped=item.range.span)
            if inside:
                problems.append(f"range {item.range} is skipped and has {inside} rows")
            continue
        recorded = item.accounting or Accounting()
        total += recorded
        if recorded.span != item.range.span or recorded.unexplained:
            problems.append(f"range {item.range}: {recorded.span} of {item.range.span} offsets are accounted for")
        if inside != recorded.visible:
            missing += max(0, recorded.visible - inside)
            problems.append(f"range {item.range}: {inside} rows are in the table, {recorded.visible} were published")
    if duplicates:
        problems.append(f"{duplicates} rows are there more than once")
    if stray := rows - RangeSet(item.range for item in resolved):
        problems.append(f"rows at {stray} belong to no settled range")
    expected = stream.covered.unbroken_end(stream.origin)
    if stream.watermark > expected:
        problems.append(f"the watermark {stream.watermark} is ahead of what is settled: {expected}")
    return StreamAudit(
        stream=stream,
        rows=rows.span + duplicates,
        duplicates=duplicates,
        missing=missing,
        accounting=total,
        problems=tuple(problems),
    )
