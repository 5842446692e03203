"""What the memory ledger remembers: plain dicts of frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_kafka_lake.core.ledger.changes import (
    BindingRow,
    ConfigurationRow,
    LayoutRow,
    NotifiedRow,
    RequestRow,
    SegmentRow,
    SkipRow,
)
from airflow_kafka_lake.core.ledger.guards import PauseRow
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    RangeRecord,
    StreamRow,
    WaveRow,
)
from airflow_kafka_lake.core.ledger.waves import (
    AttemptOutcome,
    AttemptRecord,
)
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet, Stream
from airflow_kafka_lake.core.ordering.segments import SegmentKey
from airflow_kafka_lake.core.spec import PipelineSpec


@dataclass(slots=True, kw_only=True)
class State:
    """Everything on record. Every field is a container of immutable values, so that a copy is a snapshot."""

    specs: dict[str, tuple[ConfigurationRow, ...]] = field(default_factory=dict)
    tables: dict[tuple[str, str], BindingRow] = field(default_factory=dict)
    pauses: dict[str, PauseRow] = field(default_factory=dict)
    streams: dict[tuple[str, Stream], StreamRow] = field(default_factory=dict)
    plans: dict[str, PipelineSpec] = field(default_factory=dict)
    waves: dict[str, WaveRow] = field(default_factory=dict)
    ranges: dict[str, RangeRecord] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptRecord] = field(default_factory=dict)
    commit_order: list[str] = field(default_factory=list)
    skips: dict[str, SkipRow] = field(default_factory=dict)
    layouts: dict[tuple[str, str, int], LayoutRow] = field(default_factory=dict)
    segments: dict[tuple[str, SegmentKey], SegmentRow] = field(default_factory=dict)
    events: list[tuple[str, Event]] = field(default_factory=list)
    moves: list[tuple[str, Advance]] = field(default_factory=list)
    notified: dict[str, NotifiedRow] = field(default_factory=dict)
    requests: dict[str, RequestRow] = field(default_factory=dict)
    outbox: dict[int, tuple[str, OutboxItem]] = field(default_factory=dict)
    last_item: list[int] = field(default_factory=lambda: [0])

    def copy(self) -> State:
        """Return an independent copy."""
        return State(**{name: getattr(self, name).copy() for name in self.__slots__})

    def sharing(self, *touched: str) -> State:
        """Return a copy of what will be written to; all else is shared, as nothing is ever changed in its place."""
        made = State.__new__(State)
        for name in self.__slots__:
            here = getattr(self, name)
            setattr(made, name, here.copy() if name in touched else here)
        return made

    def ranges_of(self, wave: str) -> list[RangeRecord]:
        """Return a wave's ranges, sorted by stream and start."""
        return ordered(item for item in self.ranges.values() if item.wave == wave)

    def committed(self, wave: str) -> str:
        """Return the attempt that brought a committed wave into the lake."""
        outcomes = {item.outcome: item.attempt for (name, _), item in self.attempts.items() if name == wave}
        return outcomes[AttemptOutcome.COMMITTED]

    def unacknowledged(self, pipeline: str, key: Stream) -> RangeSet:
        """Return what of a stream was skipped without acknowledging the order."""
        mine = [item for item in self.skips.values() if (item.pipeline, item.stream) == (pipeline, key)]
        silent = {item.id for item in mine if not item.acknowledged}
        if not silent:
            return NOTHING
        left = RangeSet(item.range for item in self.pieces(pipeline, key) if item.skip in silent)
        return left - RangeSet(item.range for item in mine if item.acknowledged)

    def pieces(self, pipeline: str, key: Stream) -> list[RangeRecord]:
        """Return a stream's ranges by start."""
        return ordered(item for item in self.ranges.values() if item.pipeline == pipeline and item.slice.stream == key)


def ordered(ranges: Iterable[RangeRecord]) -> list[RangeRecord]:
    """Sort by stream and start."""
    return sorted(ranges, key=lambda item: (item.stream, item.range.start, item.range.end))
