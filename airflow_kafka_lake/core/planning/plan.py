"""A plan: which offsets are read next, cut into ranges, packed into waves, and why.

Dry run and real run read the same `Plan` value (law L16).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.kafka.transactions import OBSERVED, OpenTransaction
from airflow_kafka_lake.core.ordering.layout_changes import LayoutChange
from airflow_kafka_lake.core.planning.periods import Period
from airflow_kafka_lake.core.slices import HasSlice, Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one stream is asked for: `[start, end)`, and the origin it would get if it is new."""

    snapshot: PartitionSnapshot
    origin: int
    start: int
    end: int
    reason: str
    landed_below: bool = False
    """Whether the period may begin below the log start, where everything is planned or in the lake already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStream:
    """One stream of a plan; `version` is None for a stream the ledger does not know yet."""

    snapshot: PartitionSnapshot
    origin: int
    version: int | None
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange(HasSlice):
    """One immutable piece of a stream."""

    id: str
    slice: Slice
    estimated_bytes: int
    """In Kafka's bytes: keys, values and headers, uncompressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWave:
    """Ranges that one Spark job reads and one commit publishes, all of one table."""

    id: str
    table: str
    ranges: tuple[PlannedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """What the plan leaves out, and why: a whole topic, or a partition in whole or in part."""

    topic: str
    partition: int | None
    reason: str

    @classmethod
    def of(cls, stream: Stream, reason: str) -> Blocked:
        """Return a partition, in whole or in part, that is left out."""
        return cls(topic=stream.topic, partition=stream.partition, reason=reason)

    @property
    def where(self) -> str:
        """Name the topic or the partition."""
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """How many offsets of a topic are committed in another table than the one that its pipeline names now."""

    topic: str
    table: str
    offsets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a plan would cost; each None has its reason in the `_state` beside it.

    `bytes` are Kafka's: keys, values and headers, uncompressed; `lake_bytes` those of the files written of them.
    """

    records: int | None = None
    bytes: int | None = None
    bytes_state: str = "nothing to read"
    lake_bytes: int | None = None
    lake_bytes_state: str = "nothing to read"
    seconds: float | None = None
    retention_deadline: datetime | None = None
    retention_deadline_state: str = "nothing to read"
    retention_stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A frozen decision; `spec` is the configuration it was made with.

    `waiting_for_stable` are the partitions that end at an open transaction: their high watermark is where they go on
    to. `transactions` names the first of each, or `transactions_state` says why none is known; `hanging` are those of
    them that no producer will end and that keep what was asked for from being read. `weighed` says where the bytes are
    known from. `notes` say what the plan makes of a pipeline file that was changed (`changed_keys`).
    """

    id: str
    spec: PipelineSpec
    observed_at: datetime
    streams: tuple[PlannedStream, ...]
    waves: tuple[PlannedWave, ...]
    blocked: tuple[Blocked, ...] = ()
    waiting_for_stable: tuple[PartitionSnapshot, ...] = ()
    layout_change: LayoutChange = field(default_factory=LayoutChange)
    transactions: tuple[OpenTransaction, ...] = ()
    transactions_state: str = OBSERVED
    hanging: tuple[OpenTransaction, ...] = ()
    weighed: str = ""
    forecast: Forecast = field(default_factory=Forecast)
    period: Period | None = None
    notes: tuple[str, ...] = ()

    @property
    def ranges(self) -> tuple[PlannedRange, ...]:
        """All ranges, in wave order."""
        return tuple(item for wave in self.waves for item in wave.ranges)

    def since(self, stream: PlannedStream) -> datetime | None:
        """Return by when everything below a new stream's origin had been written: the log was seen to reach to it."""
        return self.observed_at if stream.origin <= stream.snapshot.high_watermark else None

    @property
    def changes_nothing(self) -> bool:
        """Return whether recording this plan would add neither a range, nor a stream, nor anything to the segments."""
        return not self.waves and not self.layout_change and all(stream.version is not None for stream in self.streams)
