"""How far are we, and what blocks?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_lake.core.documents import status_document, wave_document
from airflow_kafka_lake.core.errors import KafkaLakeError, UnknownSubjectError
from airflow_kafka_lake.core.order import Order, segments_document
from airflow_kafka_lake.core.segments import Graph
from airflow_kafka_lake.core.snapshots import Snapshot, waiting_for_stable
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.waves import UNRESOLVED
from airflow_kafka_lake.ports import LedgerReader, OffsetSource, Ports
from airflow_kafka_lake.services.stability import holders
from airflow_kafka_lake.services.topics import described


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
    everything = ports.ledger.ranges(pipeline=spec.name, states=UNRESOLVED)
    unresolved = [item for item in everything if item.stream in keys]
    topics = sorted({stream.topic for stream in streams})
    graph = Graph(ports.ledger.segments(spec.name))
    everyone = streams if topic is None and partitions is None else ports.ledger.streams(spec.name)
    observed = observe(ports.source, topics, spec.end.group or spec.start.group)
    seen = () if isinstance(observed, str) else [item for item in observed.partitions if item.key in keys]
    return status_document(
        spec.name,
        ports.clock.now(),
        streams,
        ports.ledger.waves(spec.name),
        unresolved,
        Order(spec.name, graph, everyone, everything),
        observed,
        spec.isolation,
        holders(ports, waiting_for_stable(seen, spec.isolation)),
    )


def segments(ledger: LedgerReader, spec: PipelineSpec) -> dict[str, Any]:
    """Return `segments --json`: every segment with its parents, and what keeps it from starting."""
    unresolved = ledger.ranges(pipeline=spec.name, states=UNRESOLVED)
    graph = Graph(ledger.segments(spec.name))
    return segments_document(spec.name, graph, Order(spec.name, graph, ledger.streams(spec.name), unresolved))


def observe(source: OffsetSource, topics: Sequence[str], group: str | None) -> Snapshot | str:
    """Return a snapshot of those of the topics that still exist, or why there is none."""
    try:
        existing = described(source, topics)
        return source.snapshot(sorted(existing), group) if existing else "no topic of the pipeline exists"
    except KafkaLakeError as error:
        return error.message


def wave(ledger: LedgerReader, wave_id: str) -> dict[str, Any]:
    """Return `wave --json`."""
    record = ledger.wave(wave_id)
    return wave_document(record, ledger.ranges(wave=wave_id), ledger.attempts(wave_id))
