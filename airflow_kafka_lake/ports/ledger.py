"""The ledger: what plans, waves and ranges are on record. Everyone reads it; it is written only under a fence.

The reads are three ports, by who asks: planning reads pipelines, an attempt its wave, people and audits the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.events import Event, Line
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    PipelineRecord,
    Published,
    RangeRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import AttemptRecord, RangeState, Token, WaveState
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.estimates import WaveCost
from airflow_kafka_lake.core.slices import Slice

T = TypeVar("T")


class PipelineReader(Protocol):
    """The pipelines: configurations, streams and layouts, and what their waves cost."""

    def pipelines(self) -> tuple[str, ...]:
        """Return all names, sorted."""

    def pipeline(self, name: str) -> PipelineRecord | None:
        """Return a pipeline's newest configuration."""

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        """Return the pipeline's streams, sorted by key; every generation of a re-created topic."""

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        """Return the layouts in which the pipeline's topics were observed, also those that are not in force yet."""

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        """Return the pipeline's segments, sorted by stream and start."""

    def throughput(self, pipeline: str) -> tuple[WaveCost, ...]:
        """Return what the last committed waves of each table cost, without those that have no committed range or that
        a rebuild restored."""


class WaveReader(Protocol):
    """The waves: their ranges and attempts, and what they must wait for."""

    def wave(self, wave: str) -> WaveRecord:
        """Return one wave; UnknownSubjectError when there is none."""

    def waves(
        self, pipeline: str, states: Iterable[WaveState] | None = None, *, crossing: Slice | None = None
    ) -> tuple[WaveRecord, ...]:
        """Return waves, oldest plan first, in plan order: all, or those with ranges that share offsets with a slice."""

    def range(self, range_id: str) -> RangeRecord:
        """Return one range; UnknownSubjectError when there is none."""

    def ranges(
        self,
        *,
        pipeline: str | None = None,
        wave: str | None = None,
        plan: str | None = None,
        states: Iterable[RangeState] | None = None,
        crossing: Slice | None = None,
    ) -> tuple[RangeRecord, ...]:
        """Return ranges by one of pipeline, wave or plan, sorted by stream and start: all, or those that share offsets
        with a slice."""

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        """Return the attempts of one wave by fence, or those of a whole pipeline by wave and fence."""

    def requests(self, wave: str | None = None) -> tuple[RequestRecord, ...]:
        """Return what tasks ask workers for, of one wave or of all: in the order in which waves were planned."""

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        """Return what a wave must wait for: ancestors of its PLANNED ranges' segments that are not drained (law L14).

        HELD ranges are not read with the wave and wait for nothing, nor does a plan made without ordering."""


class HistoryReader(Protocol):
    """The history: events, watermark moves, published attempts, and receipts on their way to the lake."""

    def ledger_id(self) -> str:
        """Return the id this ledger was given at its creation (32 hex digits)."""

    def knows(self, token: Token, line: Line | None = None) -> Line | None:
        """Return the newest line of the pipeline's history if a table's newest commit is on record: the attempt of its
        token (an ownership token has none) and `line`, the history's newest line at that commit, if the table has one.
        None: one of them is not on record, so the ledger is older than the table."""

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        """Return those of some attempts that are on record, by id, each with the state of its wave."""

    def published(self, pipeline: str, *, table: str | None = None, newest: int | None = None) -> tuple[Published, ...]:
        """Return the committed waves with rows, newest commit first; at most `newest` of them."""

    def events(
        self,
        pipeline: str,
        after: int = 0,
        limit: int = 100,
        *,
        kind: str | None = None,
        actor: str | None = None,
        newest: bool = False,
    ) -> tuple[Event, ...]:
        """Return the events of a pipeline with a sequence above `after`, oldest first: all, or those of a kind or an
        actor; the first of them, or with `newest` the last, at most `limit`."""

    def unnotified(self, pipeline: str) -> tuple[Advance, ...]:
        """Return the watermark moves after the last notified one, by sequence."""

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        """Return the receipts, all or of one kind, that still have to be written to the lake."""


class LedgerReader(PipelineReader, WaveReader, HistoryReader, Protocol):
    """All reads: each call is one consistent read of O(1) statements, whatever the number of partitions."""

    def at_once(self, work: Callable[[LedgerReader], T]) -> T:
        """Return the answer to several reads that are of one moment; `work` only reads, and may be called again."""


class Ledger(LedgerReader, Protocol):
    """All reads, and the one way to write: a write decides in one transaction, and all of its changes are made or none.

    A write that is refused with StaleFenceError leaves one event `refused`, which names the attempt and its fence.
    Three methods decide nothing and are no writes: `advance`, and two acknowledgements of what others have received.
    """

    def commit(self, write: Write[T]) -> T:
        """Load the scope of a write under lock, let it decide, and apply its change: all or nothing.

        Raises the write's refusal, and ConcurrentError when another writer changed a row of it first.
        """

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        """Move every watermark to the end of the unbroken committed run, set-based; returns the moves of this call."""

    def mark_notified(self, pipeline: str, sequence: int) -> None:
        """Record that all moves up to `sequence` were notified; never moves back. A delivery of no more is over."""

    def sent(self, items: Sequence[int]) -> None:
        """Remove outbox items that are now in the lake."""
