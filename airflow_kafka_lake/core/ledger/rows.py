"""What the ledger has of pipelines, plans, skips and segments, row by row: what a change names before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.slices import HasSlice, Slice
from airflow_kafka_lake.core.spec import PipelineSpec


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
        """The digest, which differs between versions."""
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
class NotifiedRow:
    """How far a pipeline's moves were notified, and the delivery that is under way: of the moves after `sequence` up to
    `through`, by `holder`, until `until` at least. All three are None while none is."""

    pipeline: str
    sequence: int = 0
    through: int | None = None
    holder: str | None = None
    until: datetime | None = None

    def notified(self, sequence: int) -> NotifiedRow:
        """Return the row when all moves up to `sequence` were notified; a delivery that went no further is over."""
        row = replace(self, sequence=max(self.sequence, sequence))
        is_over = row.through is not None and row.through <= row.sequence
        return replace(row, through=None, holder=None, until=None) if is_over else row


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """What one task has asked for: a wave, wanted `until` then; `answer` is the error, as JSON, that ended the work on
    it. `at` is when it was asked first, `bytes_per_second` what its run asks for instead of the pipeline's rate."""

    id: str
    pipeline: str
    wave: str
    actor: str
    at: datetime
    until: datetime
    bytes_per_second: int | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan that is on record: `number` grows with each, `next_ordinal` is that of its next wave."""

    id: str
    number: int
    next_ordinal: int
    spec: PipelineSpec
