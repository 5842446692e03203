"""Observe topics and tables for a plan, and leave out the blocked ones (law L13)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from airflow_kafka_lake.core.errors import (
    DamagedTableError,
    IdentityError,
    OwnershipError,
    PipelineFileError,
    SchemaMismatchError,
    UnknownPartitionError,
    UnknownTopicError,
)
from airflow_kafka_lake.core.kafka.snapshots import LEFT_OUT, PartitionSnapshot, Snapshot, UnknownPartition
from airflow_kafka_lake.core.naming import unknown_topic
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.decision import Observation, blocked_topics
from airflow_kafka_lake.core.planning.policies import Bounds, deleted_unread
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import RECEIPTS_SUFFIX, PipelineSpec, topic_matcher
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.identity import check_table
from airflow_kafka_lake.services.topics import Problems, ask_about

MAX_TABLE_NAME = 128
_OF_ONE_TABLE = (DamagedTableError, IdentityError, OwnershipError, SchemaMismatchError)
"""Errors of one table alone; a ledger that is behind is behind for all tables."""


def observe(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> Observation:
    """Read Kafka, then the ledger: a plan that another planner overtakes is refused when it is recorded."""
    ports.progress(f"observing {spec.name}")
    topics, problems = _topics(ports, spec, bounds)
    seen = ports.source.snapshot(topics, spec.end.group or spec.start.group)
    known = {stream.key: stream for stream in ports.ledger.streams(spec.name)}
    snapshot = _with_left_out(seen, known)
    return Observation(
        snapshot=snapshot, selected=_selected(snapshot, bounds), known=known, blocked=blocked_topics(problems)
    )


def check_asked(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> None:
    """Refuse a topic or a partition that is not there, by Kafka's list of partitions alone: before a plan is begun."""
    topics, _ = _topics(ports, spec, bounds)
    if bounds.partitions is not None:
        counts = {item.topic: item.partitions for item in ports.source.describe(topics)}
        _refuse_unknown(bounds.partitions, counts, range(max(counts.values(), default=0)))


def check_tables(ports: Ports, spec: PipelineSpec, seen: Observation) -> Observation:
    """Check the tables of the observed topics, and leave out the topics of tables with an error.

    Raises that error when no other table is left.
    """
    problems: Problems = {}
    for table, topic_ids in seen.tables(spec).items():
        try:
            check_table(ports, spec.name, table, topic_ids)
        except _OF_ONE_TABLE as error:
            problems |= {
                item.stream.topic: error for item in seen.selected if spec.table_for(item.stream.topic) == table
            }
    return seen.without(problems)


def _topics(ports: Ports, spec: PipelineSpec, bounds: Bounds) -> tuple[tuple[str, ...], Problems]:
    """Return the topics that a plan reads, and why it leaves others out; raises the reason when no topic is left."""
    wanted = spec.topics if spec.topic_pattern is None else _matching(ports, spec.name, spec.topic_pattern)
    if bounds.topic is not None:
        if bounds.topic not in wanted:
            raise unknown_topic(spec.name, bounds.topic, wanted)
        wanted = {bounds.topic}
    found, problems = ask_about(lambda names: ports.source.topics(names, None), wanted)
    for topic in found:
        if not _is_legal(table := spec.table_for(topic)):
            problems[topic] = PipelineFileError(
                f"it would land in table {table}, which is too long, or the receipts table of another topic. Leave it "
                "out, or give it a pipeline with a table of its own",
                topic=topic,
            )
    topics = tuple(sorted(set(found) - problems.keys()))
    if problems and not topics:
        raise next(iter(problems.values()))
    if not topics:
        raise UnknownTopicError(f"no topic matches {spec.topic_pattern!r} of pipeline {spec.name}")
    return topics, problems if spec.topic_pattern is None else _without_finished(ports, spec.name, problems)


def _without_finished(ports: Ports, pipeline: str, problems: Problems) -> Problems:
    """Leave out the topics that are there no more and were read to the end that was seen: a pattern means them no
    longer. One of which records were seen and not read stays a problem: they are lost."""
    graph = Graph(ports.ledger.segments(pipeline))
    found: Problems = {}
    for topic, error in problems.items():
        if not isinstance(error, UnknownTopicError):
            found[topic] = error
        elif unread := deleted_unread(pipeline, topic, ports.ledger.streams(pipeline, topic=topic), graph):
            found[topic] = unread
    return found


def _matching(ports: Ports, pipeline: str, pattern: str) -> Collection[str]:
    """Return the topics that match: those in Kafka's list, and known ones, which the list may lack."""
    matches = topic_matcher(pattern)
    known = {item.key.topic for item in ports.ledger.streams(pipeline) if matches(item.key.topic)}
    return known | set(ports.source.topics((), pattern))


def _with_left_out(seen: Snapshot, known: Collection[Stream]) -> Snapshot:
    """Count known partitions that an answer leaves out as unknown: the broker that answered is behind.

    A topic never has fewer partitions under the same id.
    """
    streams = [item.stream for item in seen.partitions]
    everything: tuple[Stream | UnknownPartition, ...] = (*streams, *seen.unknown)
    ids = {(item.topic, item.topic_id) for item in everything}
    answered = {(item.topic, item.partition) for item in everything}
    left_out = tuple(
        UnknownPartition(topic=topic, topic_id=topic_id, partition=partition, reason=LEFT_OUT)
        for topic, topic_id, partition in sorted(known)
        if (topic, topic_id) in ids and (topic, partition) not in answered
    )
    return replace(seen, unknown=seen.unknown + left_out) if left_out else seen


def _is_legal(table: str) -> bool:
    return not table.lower().endswith(RECEIPTS_SUFFIX) and len(table.rpartition(".")[2]) <= MAX_TABLE_NAME


def _selected(snapshot: Snapshot, bounds: Bounds) -> tuple[PartitionSnapshot, ...]:
    if bounds.partitions is None:
        return snapshot.partitions
    there = {item.stream.partition for item in snapshot.partitions} | {item.partition for item in snapshot.unknown}
    _refuse_unknown(bounds.partitions, {item.stream.topic for item in snapshot.partitions}, there)
    return tuple(item for item in snapshot.partitions if item.stream.partition in bounds.partitions)


def _refuse_unknown(partitions: Iterable[int], topics: Iterable[str], there: Collection[int]) -> None:
    for partition in partitions:
        if partition not in there:
            raise UnknownPartitionError(
                f"{', '.join(sorted(topics))} has no partition {partition}: it has 0 to {max(there, default=0)}",
                partition=partition,
            )
