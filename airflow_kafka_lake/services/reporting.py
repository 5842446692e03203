"""Status, segments and waves: how far a pipeline is, and what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.documents.status import status_document, wave_document
from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownSubjectError, UnknownTopicError
from airflow_kafka_lake.core.kafka.snapshots import Snapshot, waiting_for_stable
from airflow_kafka_lake.core.ledger.records import WaveRecord
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, AttemptOutcome, RangeState
from airflow_kafka_lake.core.naming import nearest, require_streams
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.order import Order, segments_document
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.slices import Slice
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.ports import LedgerReader, OffsetSource, Ports
from airflow_kafka_lake.services.planning import open_transactions
from airflow_kafka_lake.services.topics import existing_topics


def known_spec(ledger: LedgerReader, name: str) -> PipelineSpec:
    """Return a pipeline's recorded configuration; UnknownSubjectError names what the ledger does know."""
    record = ledger.pipeline(name)
    if record is None:
        known = ", ".join(ledger.pipelines()) or "none yet"
        raise UnknownSubjectError(
            f"the ledger knows no pipeline {name!r}; it knows: {known}{nearest(name, ledger.pipelines()) or '.'} "
            "Give a pipeline file to begin one",
            pipeline=name,
        )
    return record.spec


def status(
    ports: Ports, spec: PipelineSpec, *, topic: str | None = None, partitions: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return `status --json`; an unreachable broker makes the bounds unknown and nothing else.

    Raises UnknownSubjectError for a topic or a partition of which the pipeline has no stream.
    """
    everyone = ports.ledger.streams(spec.name)
    require_streams(spec.name, (stream.key for stream in everyone), topic=topic, partitions=partitions)
    streams = [
        item
        for item in everyone
        if topic in (None, item.key.topic) and (partitions is None or item.key.partition in partitions)
    ]
    keys = {stream.key for stream in streams}
    everything = ports.ledger.ranges(pipeline=spec.name, states=UNRESOLVED)
    unresolved = [item for item in everything if item.stream in keys]
    topics = sorted({stream.key.topic for stream in streams})
    graph = Graph(ports.ledger.segments(spec.name))
    observed = observe(ports.source, topics, spec.end.group or spec.start.group)
    seen = () if isinstance(observed, str) else [item for item in observed.partitions if item.stream in keys]
    return status_document(
        spec.name,
        ports.clock.now(),
        streams=streams,
        waves=ports.ledger.waves(spec.name),
        unresolved=unresolved,
        order=Order(spec.name, graph, everyone, everything),
        observed=observed,
        isolation=spec.isolation,
        transactions=open_transactions(ports, waiting_for_stable(seen, spec.isolation)),
    )


def segments(ledger: LedgerReader, spec: PipelineSpec) -> dict[str, Any]:
    """Return `segments --json`: every segment with its parents, and what keeps it from starting."""
    unresolved = ledger.ranges(pipeline=spec.name, states=UNRESOLVED)
    graph = Graph(ledger.segments(spec.name))
    return segments_document(spec.name, graph, Order(spec.name, graph, ledger.streams(spec.name), unresolved))


def observe(source: OffsetSource, topics: Sequence[str], group: str | None) -> Snapshot | str:
    """Return a snapshot of those of the topics that still exist, or why there is none."""
    try:
        existing, problems = existing_topics(source, topics)
        if existing:
            return source.snapshot(sorted(existing), group)
        unknown = (error.message for error in problems.values() if not isinstance(error, UnknownTopicError))
        return next(unknown, "no topic of the pipeline exists")
    except KafkaLakeError as error:
        return error.message


def describe_landed(ledger: LedgerReader, record: WaveRecord) -> str:
    """Return since when a COMMITTED wave is in the lake, and the command that has its offsets read again."""
    ended = [item.ended_at for item in ledger.attempts(record.id) if item.outcome is AttemptOutcome.COMMITTED]
    since = timestamp(max((at for at in ended if at), default=None))
    committed = ledger.ranges(wave=record.id, states=(RangeState.COMMITTED,))
    slices = [
        (stream, interval)
        for stream in dict.fromkeys(item.stream for item in committed)
        for interval in RangeSet(item.range for item in committed if item.stream == stream)
    ]
    here = f"wave {record.id} is in the lake{f' since {since}' if since else ''}: {record.rows or 0} rows"
    if not slices:
        return f"{here}. All of it was reopened, and is read again in other waves"
    first = Slice(*slices[0])
    more = f"; {len(slices) - 1} more slices of it: {remedies.wave(record.id)}" if len(slices) > 1 else ""
    return (
        f"{here}, and there is nothing to do. Have it read again with: "
        f"{remedies.reopen(record.pipeline, first)}, then {remedies.run(record.pipeline)}{more}"
    )


def wave(ledger: LedgerReader, wave_id: str) -> dict[str, Any]:
    """Return `wave --json`."""
    record = ledger.wave(wave_id)
    return wave_document(record, ledger.ranges(wave=wave_id), ledger.attempts(wave_id))
