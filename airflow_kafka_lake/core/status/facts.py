"""All that a status is made of: what the ledger has of a pipeline, and what Kafka says of its topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_lake.core.kafka.ages import Age, Unread
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Snapshot, TopicDescription
from airflow_kafka_lake.core.kafka.transactions import OBSERVED, OpenTransaction
from airflow_kafka_lake.core.ledger.pauses import PauseRow
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import AttemptRecord
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the ledger has of a pipeline. `unresolved` are its PLANNED, HELD and CANCELLED ranges, `skipped` the SKIPPED
    ones; `attempts` are those of waves that an attempt works on. `requests` are those of all pipelines: a worker that
    has a wave of another one is busy, and not missing. `tables` are those that it has ever written to."""

    spec: PipelineSpec
    streams: Sequence[StreamRecord]
    tables: Collection[str] = ()
    unresolved: Sequence[RangeRecord] = ()
    skipped: Sequence[RangeRecord] = ()
    waves: Sequence[WaveRecord] = ()
    attempts: Sequence[AttemptRecord] = ()
    segments: Sequence[Segment] = ()
    pauses: Sequence[PauseRow] = ()
    requests: Sequence[RequestRecord] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What Kafka says of some topics, or the reason why it says nothing.

    `topics` are those that exist. `ages` say how old the first unread record of a partition is, for those that were
    asked about; `ages_state` is "observed", or says of which partitions they are, or why there are none.
    """

    snapshot: Snapshot | str
    topics: Sequence[TopicDescription] = ()
    transactions: Sequence[OpenTransaction] = ()
    transactions_state: str = OBSERVED
    ages: Mapping[Unread, Age] = field(default_factory=dict)
    ages_state: str = "observed"

    @property
    def partitions(self) -> Mapping[Stream, PartitionSnapshot]:
        """The partitions that were observed."""
        return {} if isinstance(self.snapshot, str) else {item.stream: item for item in self.snapshot.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which streams a status is about: those of a topic, of some partitions, or all."""

    topic: str | None = None
    partitions: frozenset[int] | None = None

    def __contains__(self, key: object) -> bool:
        return (
            isinstance(key, Stream)
            and self.topic in (None, key.topic)
            and (self.partitions is None or key.partition in self.partitions)
        )


EVERYTHING = Chosen()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One moment of a pipeline."""

    at: datetime
    recorded: Recorded
    seen: Seen
    chosen: Chosen = EVERYTHING
