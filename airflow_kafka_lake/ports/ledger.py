"""The record that decides: read by everyone, written only under a fence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from airflow_kafka_lake.core.ledger.attempts import (
    ClaimWave,
    EndAttempt,
    MarkPublishing,
    MarkStaged,
    RecordBase,
    RecordJob,
    Renew,
)
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.commits import RecordCommit
from airflow_kafka_lake.core.ledger.deletions import AcceptDeletes
from airflow_kafka_lake.core.ledger.events import Event, Line
from airflow_kafka_lake.core.ledger.plans import BindTable, RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    OutboxItem,
    PipelineRecord,
    Published,
    RangeRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.rereading import Reopen
from airflow_kafka_lake.core.ledger.revoking import Release, Revoke
from airflow_kafka_lake.core.ledger.skips import Skip
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import (
    AttemptRecord,
    RangeState,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.ledger.withdrawing import Withdraw
from airflow_kafka_lake.core.ordering.layout_changes import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.estimates import WaveCost
from airflow_kafka_lake.core.rebuilding.restore import Restore

T = TypeVar("T")


class LedgerReader(Protocol):
    """What is on record. One consistent read per call, O(1) statements whatever the number of partitions."""

    def ledger_id(self) -> str:
        """Return the id this ledger was given at its creation (32 hex digits)."""

    def pipeline(self, name: str) -> PipelineRecord | None:
        """Return a pipeline's newest configuration."""

    def pipelines(self) -> tuple[str, ...]:
        """Return all names, sorted."""

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        """Return the pipeline's streams, sorted by key; every generation of a re-created topic."""

    def waves(self, pipeline: str, states: Iterable[WaveState] | None = None) -> tuple[WaveRecord, ...]:
        """Return waves, oldest plan first, in plan order."""

    def wave(self, wave: str) -> WaveRecord:
        """Return one wave; UnknownSubjectError when there is none."""

    def range(self, range_id: str) -> RangeRecord:
        """Return one range; UnknownSubjectError when there is none."""

    def ranges(
        self,
        *,
        pipeline: str | None = None,
        wave: str | None = None,
        plan: str | None = None,
        states: Iterable[RangeState] | None = None,
    ) -> tuple[RangeRecord, ...]:
        """Return ranges by one of pipeline, wave or plan, sorted by stream and start."""

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        """Return the attempts of one wave by fence, or those of a whole pipeline by wave and fence."""

    def published(self, pipeline: str, *, table: str | None = None, newest: int | None = None) -> tuple[Published, ...]:
        """Return the committed waves that brought rows, newest committed first; `newest` is how many at most."""

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        """Return each of some attempts that is on record, by its id, with the state of its wave."""

    def knows(self, token: Token, line: Line | None = None) -> Line | None:
        """Return the newest line of the pipeline's history when what a table says is known: the token, whose wave has
        an attempt of that id and fence (or it speaks of an ownership), and `line` of the history, if it names one.
        None where either is not on record: the ledger is older than the table."""

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        """Return the layouts that the pipeline's topics were seen in, those that are not in force yet included."""

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        """Return the pipeline's segments, sorted by stream and start."""

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        """Return what a wave must wait for: ancestors of its PLANNED ranges' segments that are not drained (law L14).

        What is on hold is not read with the wave, and waits for nothing; nor does a plan made without ordering."""

    def throughput(self, pipeline: str) -> tuple[WaveCost, ...]:
        """Return what the last committed waves of each table cost; those without a committed range, or restored by a
        rebuild, tell nothing."""

    def events(self, pipeline: str, after: int = 0, limit: int = 100) -> tuple[Event, ...]:
        """Return the events of a pipeline with a sequence above `after`."""

    def unnotified(self, pipeline: str) -> tuple[Advance, ...]:
        """Return the watermark moves that were not told yet, by sequence."""

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        """Return the receipts, all or of one kind, that the lake does not have yet."""


WRITES: Mapping[str, type[Write[Any]]] = {
    write.name: write
    for write in (
        SavePipeline,
        BindTable,
        RecordPlan,
        ClaimWave,
        Renew,
        RecordBase,
        RecordJob,
        MarkStaged,
        MarkPublishing,
        RecordCommit,
        EndAttempt,
        Revoke,
        Release,
        Skip,
        Reopen,
        Withdraw,
        AcceptDeletes,
        Restore,
    )
}
"""Every write that a ledger commits, by its name: each decides in one place what it changes, and refuses there."""


class Ledger(LedgerReader, Protocol):
    """The record, and the one way to change it: a write is one transaction, and changes everything it says or nothing.

    A write that is refused with StaleFenceError leaves one event `refused`, which names the attempt and its fence.
    What is no decision is a method of its own: how far the watermarks go, and what is known to have arrived elsewhere.
    """

    def commit(self, write: Write[T]) -> T:
        """Let a write decide from the records of its scope, under lock, and write what it changes: all or nothing.

        Raises what the write refuses with, and ConcurrentError where another writer was first.
        """

    def advance(self, pipeline: str) -> tuple[Advance, ...]:
        """Move every watermark to the end of the unbroken committed run, set-based; returns the moves of this call."""

    def mark_notified(self, pipeline: str, sequence: int) -> None:
        """Record that all moves up to `sequence` were told; never moves back."""

    def sent(self, items: Sequence[int]) -> None:
        """Remove outbox items that the lake has now."""
