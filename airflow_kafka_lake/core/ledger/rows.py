"""What the ledger has of streams, waves and plans, row by row: what a change names before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.waves import AttemptKey, LeaseHolder, WaveState
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.slices import HasSlice, Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """A stream's own facts; what is planned and covered of it is counted from its ranges when it is read."""

    pipeline: str
    key: Stream
    origin: int
    watermark: int
    version: int
    end_seen: int
    leader_epoch: int | None = None
    since: datetime | None = None

    @property
    def decided(self) -> StreamRow:
        """The stream after a decision about it: who decides from what was before is refused."""
        return replace(self, version=self.version + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRow:
    """A wave's own facts; what its ranges say is counted when it is read."""

    id: str
    pipeline: str
    plan: str
    ordinal: int
    table: str
    state: WaveState = WaveState.PLANNED
    fence: int = 0
    attempt: str | None = None
    holder: LeaseHolder | None = None
    lease_until: datetime | None = None
    snapshot: int | None = None
    committed_at: datetime | None = None

    def is_held_by(self, key: AttemptKey) -> bool:
        """Return whether an attempt holds the wave: its fence and its id are the wave's (law L10)."""
        return (self.id, self.fence, self.attempt) == (key.wave, key.fence, key.attempt)

    def free(self, state: WaveState) -> WaveRow:
        """Return the wave in a state in which no attempt works on it."""
        return replace(self, state=state, attempt=None, holder=None, lease_until=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRow(HasSlice):
    """A skip: the slice that was asked for, how many offsets of it were passed, and whether the order may go on over
    it."""

    id: str
    pipeline: str
    slice: Slice
    offsets: int
    reason: str
    actor: str
    at: datetime
    acknowledged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRow:
    """One version of a pipeline's configuration."""

    version: int
    spec: PipelineSpec
    recorded_at: datetime

    @property
    def name(self) -> str:
        """The pipeline."""
        return self.spec.name

    @property
    def digest(self) -> str:
        """What tells it from other versions."""
        return self.spec.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingRow:
    """The UUID of a table as it was first seen."""

    pipeline: str
    table: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A plan as it is recorded, with the configuration that it was made by."""

    id: str
    spec: PipelineSpec
    version: int
    observed_at: datetime
    recorded_at: datetime
    actor: str
    detail: Mapping[str, Any]

    @property
    def pipeline(self) -> str:
        """The pipeline."""
        return self.spec.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """What a plan saw of a stream: for people, and for a while; nothing decides by it."""

    plan: str
    seen: PartitionSnapshot
    range: tuple[int, int]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRow:
    """A layout that a topic of the pipeline was seen in."""

    pipeline: str
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """A segment of the pipeline, with its parents."""

    pipeline: str
    segment: Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan that is on record: `number` grows with each, `next_ordinal` is that of its next wave."""

    id: str
    number: int
    next_ordinal: int
    spec: PipelineSpec
