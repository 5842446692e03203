"""What a plan is decided from: what was observed, and the answers to what that left open. Gathered by a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.kafka.epochs import EpochEnds, EpochKey, epochs_in_doubt
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState, PartitionSnapshot, Snapshot
from airflow_kafka_lake.core.kafka.times import Times
from airflow_kafka_lake.core.ledger.records import PipelineRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ordering.layout_changes import KnownLayouts, Layout
from airflow_kafka_lake.core.ordering.segments import Graph
from airflow_kafka_lake.core.planning.estimates import WaveCost
from airflow_kafka_lake.core.planning.plan import Blocked, Elsewhere
from airflow_kafka_lake.core.planning.policies import Bounds, gone_in_doubt, start_in_doubt, times_needed
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec, PolicyKind

SAMPLED = 8
"""Partitions whose first and last records are read to learn what Kafka no longer has, or for a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a plan is decided from: Kafka's partitions, those that are asked about, the streams on record, and the
    topics that are left out."""

    snapshot: Snapshot
    selected: tuple[PartitionSnapshot, ...]
    known: Mapping[Stream, StreamRecord]
    blocked: tuple[Blocked, ...] = ()

    @property
    def new(self) -> tuple[PartitionSnapshot, ...]:
        """The selected partitions that the ledger knows nothing of."""
        return tuple(item for item in self.selected if item.stream not in self.known)

    def arrived(self, spec: PipelineSpec, bounds: Bounds) -> int:
        """Return how many offsets have arrived since the newest plan, if the next one reads all of them: else 0."""
        if bounds.is_period or (spec.start.kind, spec.end.kind) != (PolicyKind.EARLIEST, PolicyKind.LATEST):
            return 0
        planned = {stream: record.end_seen for stream, record in self.known.items()}
        return sum(
            max(0, item.readable_end(spec.isolation) - planned.get(item.stream, item.log_start))
            for item in self.selected
        )

    @property
    def epochs_in_doubt(self) -> tuple[EpochKey, ...]:
        """The leader epochs under which streams were planned that are not the partitions' any more."""
        known = self.known
        return epochs_in_doubt(
            (item, known[item.stream].leader_epoch) for item in self.selected if item.stream in known
        )

    def tables(self, spec: PipelineSpec) -> dict[str, list[str]]:
        """Return the tables that the selected partitions land in, with their topic ids."""
        tables: dict[str, set[str]] = {}
        for item in self.selected:
            tables.setdefault(spec.table_for(item.stream.topic), set()).add(item.stream.topic_id)
        return {table: sorted(ids) for table, ids in sorted(tables.items())}

    def without(self, problems: Mapping[str, KafkaLakeError]) -> Observed:
        """Leave topics out of the plan; raises the problem when none is left."""
        topics = {item.stream.topic for item in self.selected} - problems.keys()
        if problems and not topics:
            raise next(iter(problems.values()))
        return replace(
            self,
            snapshot=replace(
                self.snapshot,
                partitions=tuple(item for item in self.snapshot.partitions if item.stream.topic not in problems),
                unknown=tuple(item for item in self.snapshot.unknown if item.topic not in problems),
            ),
            selected=tuple(item for item in self.selected if item.stream.topic not in problems),
            blocked=self.blocked + blocked_topics(problems),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a plan is decided from, but for the weight of what it reads.

    `starts` has the start policy's group offsets of new streams where another group rules the end; `ends` has where
    leader epochs in doubt ended; `costs` are those of the last waves; `before` is the pipeline as it is on record, and
    `elsewhere` what is committed in other tables than its file names now.
    """

    plan_id: str
    spec: PipelineSpec
    bounds: Bounds
    seen: Observed
    times: Times
    starts: Mapping[Stream, PartitionSnapshot]
    ends: EpochEnds
    graph: Graph
    layouts: Sequence[Layout]
    costs: Sequence[WaveCost]
    before: PipelineRecord | None = None
    elsewhere: Sequence[Elsewhere] = ()

    @property
    def recorded(self) -> KnownLayouts:
        """What the ledger knows of streams, segments and layouts."""
        return KnownLayouts(streams=self.seen.known, graph=self.graph, layouts=self.layouts)

    @property
    def sizes(self) -> dict[str, int]:
        """How many partitions each topic has."""
        there = [(item.stream.topic, item.stream.partition) for item in self.seen.snapshot.partitions]
        there += [(item.topic, item.partition) for item in self.seen.snapshot.unknown]
        return {topic: partition + 1 for topic, partition in sorted(there)}


# What is asked next, from what is known so far.


def moments(spec: PipelineSpec, bounds: Bounds, seen: Observed) -> tuple[int, ...]:
    """Return the times whose offsets must be asked for, in milliseconds."""
    return times_needed(spec, bounds, new=bool(seen.new))


def doubtful_heads(spec: PipelineSpec, bounds: Bounds, seen: Observed, times: Times) -> list[Slice]:
    """Return where first records must be read: of partitions that may have lost the begin of the period, or of what is
    to be read at all."""
    doubts = [
        item
        for item in seen.selected
        if gone_in_doubt(bounds, item, seen.known.get(item.stream), times)
        or (item.stream not in seen.known and start_in_doubt(spec, item, times))
    ]
    return [head for item in doubts[:SAMPLED] if (head := item.readable(spec.isolation))]


def start_group(spec: PipelineSpec, seen: Observed) -> str | None:
    """Return the start policy's group where it is another one than the end policy's, for new streams only."""
    needed = spec.start.kind is PolicyKind.GROUP and spec.end.group not in (None, spec.start.group)
    return spec.start.group if needed and seen.new else None


def start_offsets(seen: Observed, answer: Iterable[PartitionSnapshot]) -> dict[Stream, PartitionSnapshot]:
    """Return new streams with the start policy's group offsets.

    A partition that is not in the answer has an offset that is not known: the other group's is none of its own.
    """
    unknown = {
        item.stream: replace(item, group_offset=None, group_offset_state=GroupOffsetState.UNKNOWN) for item in seen.new
    }
    return unknown | {item.stream: item for item in answer}


def blocked_topics(problems: Mapping[str, KafkaLakeError]) -> tuple[Blocked, ...]:
    """Return what leaves whole topics out of a plan."""
    return tuple(Blocked(topic=topic, partition=None, reason=error.message) for topic, error in problems.items())
