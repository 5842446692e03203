"""The ports: protocols of the outside world as the services need it. Values in, values out.

Every adapter of a port passes that port's one contract suite (`tests/contracts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from airflow_kafka_lake.core.accounting import Explanation, StreamContent
from airflow_kafka_lake.core.decoding import RegisteredSchema
from airflow_kafka_lake.core.kafka.losses import EpochEnds, EpochKey
from airflow_kafka_lake.core.kafka.snapshots import OpenTransaction, Sample, Snapshot, TopicDescription
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.history import Event, EventRef
from airflow_kafka_lake.core.ledger.records import (
    Advance,
    AttemptRows,
    Commit,
    OutboxItem,
    PipelineRecord,
    Publication,
    PublishedWave,
    RangeRecord,
    ReceiptRow,
    StagedContent,
    StreamRecord,
    WaveRecord,
)
from airflow_kafka_lake.core.ledger.requests import RequestRecord
from airflow_kafka_lake.core.ledger.waves import (
    AttemptRecord,
    CommitSearch,
    LeaseHolder,
    PublishOutcome,
    RangeState,
    TableHead,
    Token,
    WaveState,
)
from airflow_kafka_lake.core.offsets import Slice, Stream
from airflow_kafka_lake.core.ordering.layouts import Layout
from airflow_kafka_lake.core.ordering.segments import Blocker, Segment
from airflow_kafka_lake.core.planning.costs import WaveCost
from airflow_kafka_lake.core.reports.progress import Counters, ProgressEvent
from airflow_kafka_lake.core.spark.job import PositionColumns, StageJob, Tip
from airflow_kafka_lake.core.spec import Isolation

# Jobs, time and processes.


class ReportingJob(Protocol):
    """A Spark job that returns a document; when it fails it has changed nothing."""

    @property
    def name(self) -> str:
        """The application name."""

    @property
    def table(self) -> str:
        """The table that it reads."""

    @property
    def program(self) -> str:
        """The driver's program, as a path inside the package."""

    @property
    def task(self) -> str:
        """The job's task, for messages: "compares … with Kafka"."""

    @property
    def left(self) -> str:
        """The state that a failure leaves behind, and its remedy, for messages."""

    @property
    def advice(self) -> Mapping[str, str]:
        """The remedies of the usual reasons of a failure, where they differ from staging."""

    @property
    def effort(self) -> int:
        """How much the job computes (`core.spark.job`)."""

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON, for the driver."""


class JobRunner(Protocol):
    """Runs Spark jobs."""

    def where(self) -> str:
        """Describe where jobs run, for plans and messages (e.g. "a local Spark master on this machine")."""

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = lambda _: None,
        read: Callable[[Sequence[Tip]], None] = lambda _: None,
    ) -> None:
        """Run the job to its end. `started` gets the job reference once; `heartbeat` is called every few seconds while
        the job makes progress, and an exception it raises ends the job. A job without progress for too long is ended.
        `counted` gets the job's counts before each beat, and at its end, as far as they are known; `read` gets the last
        record that each of its consumers has read of a slice, also of a job that fails over its commit. Raises
        JobFailedError with the last lines of the job's log, secrets masked."""

    def report(
        self, job: ReportingJob, *, progress: Callable[[str], None], counted: Callable[[Counters], None]
    ) -> Mapping[str, Any]:
        """Run a job to its end and return its document; a job that fails has changed nothing.

        `progress` gets a sentence from time to time, `counted` the job's counts. Raises JobFailedError as `stage` does,
        also for a slice that Kafka no longer has and for an expired snapshot, SchemaMismatchError for a schema that
        does not fit the table.
        """

    def end_orphan(self, job: str | None, name: str) -> bool:
        """End the job of an attempt that has ended, if it still runs; return whether one was ended.

        `job` is the reference that `started` was given; with None no process is ended, because its worker may live or
        no reference was recorded. `name` is the job's name (`core.spark.job.job_name`), for clusters that can be
        asked. Never touches anything but that job: not another host's processes, not a later process of the same id.
        A cluster that cannot be asked is no error: a job that goes on can only stage.
        """


class Clock(Protocol):
    """Time, as an argument."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC, for records; it may step, also back."""

    def monotonic(self) -> float:
        """Return seconds since some moment, for waits; setting the clock does not change it."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Processes(Protocol):
    """This process, and whether another lease holder still lives."""

    def this(self) -> LeaseHolder:
        """Return this process."""

    def dead(self, holder: LeaseHolder) -> bool:
        """Return whether a holder is known to be dead: it is of this host, and no process has its id and start time."""


# Kafka as the services need it: the bounds of the log, and its raw record batches.

NONE_KNOWN: Mapping[Any, int] = MappingProxyType({})


class OffsetSource(Protocol):
    """Kafka as the planner sees it. Any call may raise UnavailableError; an unknown value is never a number.

    A topic is missing (UnknownTopicError) when every broker of the cluster answers so for its name, twice, some time
    apart; when brokers differ or one does not answer, that is UnavailableError.
    """

    def topics(self, names: Sequence[str], pattern: str | None) -> tuple[str, ...]:
        """Return existing topics, sorted: `names` as given (UnknownTopicError names a missing one) or all that match
        the pattern (`core.spec.topic_matcher`), without topics that the connection's user may not describe."""

    def describe(self, topics: Sequence[str]) -> tuple[TopicDescription, ...]:
        """Return id, partition count and retention of each topic; UnknownTopicError names a missing one."""

    def snapshot(
        self, topics: Sequence[str], group: str | None, only: Collection[tuple[str, int]] | None = None
    ) -> Snapshot:
        """Observe all partitions in the safe order: describe → group offsets (require stable, partitions named) →
        last stable → high watermark → log start → describe again; ids and counts must match or it starts over.

        `only` are the partitions whose bounds are asked for, where not all are needed. A partition that cannot be
        observed is in `Snapshot.unknown`. Raises UnknownTopicError, UnavailableError.
        """

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int | Mapping[tuple[str, int], int]
    ) -> Mapping[tuple[str, int], int | None]:
        """Return each partition's first offset at or after a time, even of an open transaction; None where no record is
        that late. The time is one for all, or each partition's own."""

    def epoch_ends(self, epochs: Sequence[EpochKey], known: Mapping[tuple[str, int], int] = NONE_KNOWN) -> EpochEnds:
        """Return where leader epochs ended, as the leaders know it: the first offset of the next epoch, or the log end.

        None: the leader knows neither that epoch nor a later one. Epochs without an answer are left out. `known` are
        leader epochs of partitions: a broker that leads one under an older epoch is not believed.
        """

    def transactions(self, partitions: Sequence[tuple[str, int]], group: str | None) -> tuple[OpenTransaction, ...]:
        """Return the open transactions of partitions and of the `__consumer_offsets` partition of a group, which other
        groups share. Raises UnavailableError when Kafka does not say."""

    def sample(self, slices: Sequence[Slice], isolation: Isolation) -> tuple[Sample, ...]:
        """Read a few records at the start of each slice; slices without a record within the limits are left out."""


class BatchReader(Protocol):
    """Kafka's raw record batches: they explain offsets without a row."""

    def explain(
        self,
        gaps: Sequence[Slice],
        isolation: Isolation,
        heartbeat: Callable[[int], None] = lambda _: None,
        *,
        epochs: Mapping[Stream, int] = NONE_KNOWN,
    ) -> Mapping[Slice, tuple[Explanation, ...]]:
        """Return the explanations of each gap's offsets; the others are in none, or UNEXPLAINED.

        `heartbeat` is called after each read with the number of offsets that were explained since, and an exception it
        raises ends the reading. `epochs` are known leader epochs: a broker that leads a stream under an older one is
        not believed. Raises IdentityError when a topic's id is not the gap's, UnavailableError when the broker cannot
        be read.
        """

    def held(
        self, places: Sequence[tuple[Stream, int]], *, epochs: Mapping[Stream, int] = NONE_KNOWN
    ) -> Mapping[tuple[Stream, int], Tip]:
        """Return the records that the leaders hold at some offsets, each with its leader epoch and digest; an offset
        without a record is left out. Raises as `explain`."""


# The lake as the services need it: main, moved by compare-and-set, and staging branches that no reader sees.


class MainBranch(Protocol):
    """Main of a table: its head, its history, and the three ways to move it."""

    def ensure(self, partition_by: str) -> TableHead:
        """Create the table when it is missing; refuse with SchemaMismatchError when it does not fit, naming how, and
        with ConnectionSettingsError a catalog that does not keep branches apart from main: it is tried with this very
        table, unless that is on record there, and nothing of the trial stays."""

    def head(self) -> TableHead:
        """Load the table freshly; UnknownSubjectError when it does not exist."""

    def commits(self) -> tuple[Commit, ...]:
        """Return main's history, oldest first, as far as it has not expired."""

    def find_commit(self, attempts: Sequence[AttemptRecord]) -> CommitSearch:
        """Search main for a commit of any of the attempts: its history back to the oldest base and, where that has
        expired, rows by `ingest_attempt` at the same head. Attempts without a base never published."""

    def publish(self, publication: Publication, heartbeat: Callable[[], None] = lambda: None) -> PublishOutcome:
        """Make staged rows visible by one compare-and-set commit on `publication.head` (law L9): the rows of an attempt
        beside those of main, or all rows of main, decoded again.

        The same commit removes every row that main has of the slices in `publication.replaces`, whichever attempt wrote
        it; all other rows of the rewritten files stay. Raises SchemaMismatchError for a table whose rows cannot be
        removed from their files. `heartbeat` is called for each file that is rewritten, before anything is sent to the
        catalog; an exception it raises ends the publish.
        """

    def fence(
        self,
        head: TableHead,
        ledger_id: str,
        token: Token,
        *,
        owned: Collection[str] = (),
        ended: Collection[str] = (),
        line: EventRef | None = None,
    ) -> PublishOutcome:
        """Move main with an empty commit, so that no publisher that checked an earlier head can succeed.

        The token's pipeline in this ledger owns the topics of `owned` from then on, even if another owned them before.
        The same commit removes the staging branches of the attempts in `ended`: their staged rows can never be
        published, even if main is rolled back to the head that they checked. `line` is the newest line of the ledger's
        history when the head was checked; None for a commit that the ledger records only afterwards.
        """

    def claim_ownership(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic inside a commit that moves main; Rejected names another owner."""


class StagingBranches(Protocol):
    """The staged rows of attempts."""

    def staged(self, attempt: str, heartbeat: Callable[[int], None] = lambda _: None) -> StagedContent | None:
        """Open every file that the attempt's branch added and read partition and offset columns; None: no branch, or
        nothing committed on it yet. `heartbeat` gets the number of rows of each file after it, and an exception it
        raises ends the reading. Raises SchemaMismatchError for a row of another attempt or topic id."""

    def branches(self) -> tuple[str, ...]:
        """Return the attempts that have a staging branch, sorted; none when the table does not exist."""

    def drop(self, attempt: str) -> None:
        """Remove an attempt's staging branch, if there is one. Never touches main."""


class TableRows(Protocol):
    """Which offsets the rows of main have."""

    def attempt_rows(
        self, topic_ids: Sequence[str] | None = None, attempt: str | None = None
    ) -> tuple[AttemptRows, ...]:
        """Return which offsets of some topics (None: all) main holds, by the attempt that wrote them (of one attempt
        alone: other files are not opened), sorted; read from
        position columns and `ingest_attempt`, so compaction and expiry do not matter. Rows without a position are
        foreign and left out. Raises DamagedTableError when a file of main is missing or cannot be read."""

    def visible(self, slices: Sequence[Slice], heartbeat: Callable[[], None] = lambda: None) -> tuple[AttemptRows, ...]:
        """Return which offsets of some slices main holds, by attempt, sorted; files whose bounds exclude the slices are
        not opened. `heartbeat` is called while files are read. Raises as `publish` does for rows that it could not
        replace."""

    def rows_between(self, of: Sequence[Slice], *, start: datetime, end: datetime, by: timedelta) -> Mapping[int, int]:
        """Return how many rows of some slices have a timestamp from one time to another, exclusive, by the number of
        their period since 1970, of the length `by`; none when the table does not exist. Raises as `attempt_rows`."""

    def positions(
        self, columns: PositionColumns, topics: Sequence[str], *, live_only: bool
    ) -> tuple[StreamContent, ...]:
        """Read which offsets of some topics main holds, from a table of any schema; topic ids are empty.

        Rows without a position are left out; `live_only` also leaves out rows that name an attempt. Raises
        UnknownSubjectError when the table does not exist, SchemaMismatchError when a column is missing or of a type
        that no position has, DamagedTableError as `attempt_rows`.
        """


class ReceiptsTable(Protocol):
    """`<table>__receipts`: the publishes of each attempt, in the lake itself."""

    def add_receipts(self, rows: Sequence[ReceiptRow]) -> None:
        """Append to `<table>__receipts`, creating it when missing; rows that are there already are not added twice
        (same attempt, kind, topic id, partition, start, end, generation)."""

    def receipts(self, attempt: str) -> tuple[ReceiptRow, ...]:
        """Return the `rows` receipts of an attempt."""

    def all_receipts(self) -> tuple[ReceiptRow, ...]:
        """Return every row of `<table>__receipts`, of every pipeline, oldest first; none when it does not exist.
        Incomplete rows are foreign and left out."""


class LakeTable(MainBranch, StagingBranches, TableRows, ReceiptsTable, Protocol):
    """One lake table. Any call may raise UnavailableError (catalog or storage out of reach)."""

    identifier: str


class Lake(Protocol):
    """The catalog: tables by `namespace.table`."""

    def table(self, identifier: str) -> LakeTable:
        """Return the table's handle; opens nothing yet."""

    def look(self, identifier: str) -> str | None:
        """Look whether catalog and store answer, and return in words where a file was written, read and removed: among
        the table's files, or where they would be. None: that is not known before the table is there.

        Raises UnavailableError or ConnectionSettingsError.
        """

    def rehearse(self, identifier: str, partition_by: str) -> tuple[str, str]:
        """Create a table beside another one, which need not be there, with the trial of `MainBranch.ensure`, write a
        file among its files, and remove all of it: return where it was, and in words what stays. Raises as both do."""


# The ledger: the record of plans, waves and ranges. Everyone reads it; it is written only under a fence.
#
# The reads are three ports, by asker: planning reads pipelines, an attempt its wave, people and audits the history.

T = TypeVar("T")


class PipelineReader(Protocol):
    """The pipelines: configurations, streams and layouts, and the costs of their waves."""

    def pipelines(self) -> tuple[str, ...]:
        """Return all names, sorted."""

    def pipeline(self, name: str) -> PipelineRecord | None:
        """Return a pipeline's newest configuration."""

    def streams(
        self, pipeline: str, *, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> tuple[StreamRecord, ...]:
        """Return the pipeline's streams, sorted by key; every generation of a re-created topic."""

    def layouts(self, pipeline: str) -> tuple[Layout, ...]:
        """Return the layouts in which the pipeline's topics were observed, also layouts that are not in force yet."""

    def segments(self, pipeline: str) -> tuple[Segment, ...]:
        """Return the pipeline's segments, sorted by stream and start."""

    def throughput(self, pipeline: str) -> tuple[WaveCost, ...]:
        """Return the costs of each table's last committed waves, without waves that have no committed range or that a
        rebuild restored."""


class WaveReader(Protocol):
    """The waves: their ranges and attempts, and their blockers."""

    def wave(self, wave: str) -> WaveRecord:
        """Return one wave; UnknownSubjectError when there is none."""

    def waves(
        self, pipeline: str, states: Collection[WaveState] | None = None, *, crossing: Slice | None = None
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
        states: Collection[RangeState] | None = None,
        crossing: Slice | None = None,
    ) -> tuple[RangeRecord, ...]:
        """Return ranges by one of pipeline, wave or plan, sorted by stream and start: all, or the ones that share
        offsets with a slice."""

    def attempts(self, wave: str | None = None, *, pipeline: str | None = None) -> tuple[AttemptRecord, ...]:
        """Return the attempts of one wave by fence, or those of a whole pipeline by wave and fence."""

    def requests(self, wave: str | None = None) -> tuple[RequestRecord, ...]:
        """Return the tasks' requests to workers, of one wave or of all: in the order in which waves were planned."""

    def gate(self, wave: str) -> tuple[Blocker, ...]:
        """Return the blockers of a wave: ancestors of its PLANNED ranges' segments that are not drained (law L14).

        HELD ranges are not read with the wave and wait for nothing, nor does a plan made without ordering."""


class HistoryReader(Protocol):
    """The history: events, watermark moves, published attempts, and receipts on their way to the lake."""

    def ledger_id(self) -> str:
        """Return the id this ledger was given at its creation (32 hex digits)."""

    def knows(self, token: Token, line: EventRef | None = None) -> EventRef | None:
        """Return the newest line of the pipeline's history if a table's newest commit is on record: the attempt of its
        token (an ownership token has none) and `line`, the history's newest line at that commit, if the table has one.
        None: one of them is not on record, so the ledger is older than the table."""

    def standing(self, attempts: Collection[str]) -> Mapping[str, tuple[AttemptRecord, WaveState]]:
        """Return those of some attempts that are on record, by id, each with the state of its wave."""

    def published(
        self, pipeline: str, *, table: str | None = None, newest: int | None = None
    ) -> tuple[PublishedWave, ...]:
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

    def unnotified(self, pipeline: str, subject: str | None = None) -> tuple[Advance, ...]:
        """Return the watermark moves after the last notified one, or the last of another subject, by sequence."""

    def outbox(self, pipeline: str, *, kind: str | None = None) -> tuple[OutboxItem, ...]:
        """Return the receipts, all or of one kind, that still have to be written to the lake."""


class LedgerReader(PipelineReader, WaveReader, HistoryReader, Protocol):
    """All reads: each call is one consistent read of O(1) statements, whatever the number of partitions."""

    def at_once(self, work: Callable[[LedgerReader], T]) -> T:
        """Return the answer to several reads that are of one moment; `work` only reads, and may be called again."""


class Ledger(LedgerReader, Protocol):
    """All reads, and the one way to write: a write decides in one transaction, and all of its changes are made or none.

    A write that is refused with StaleFenceError leaves one event `refused`, which names the attempt and its fence.
    Three methods decide nothing and are no writes: `advance`, and two acknowledgements of deliveries.
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


# The parts that a pipeline may ask for beside the lake: its watermarks in a Kafka group, and schemas of its values.


class GroupCommitter(Protocol):
    """Commits offsets to a consumer group, which is never read back as truth."""

    def commit(self, group: str, offsets: Mapping[Stream, int]) -> Mapping[Stream, str]:
        """Commit offsets to a group, each only while its topic has the stream's id; returns the streams that were not
        committed, with the reason: another id, a refusal of the broker (quiet ones too). Raises UnavailableError,
        UnknownTopicError."""


class SchemaRegistry(Protocol):
    """A schema registry with Confluent's API; read only."""

    def versions(self, subject: str) -> tuple[RegisteredSchema, ...]:
        """Return every version of a subject that was not deleted, oldest first; an older one that jobs cannot use
        says why.

        Raises UnknownSubjectError for a subject that is not there, UnavailableError when the registry does not answer,
        ConnectionSettingsError when it refuses the credentials, SchemaMismatchError for a newest version that jobs
        cannot use (Avro with references to other subjects; a kind that is neither Avro nor Protobuf).
        """


# All ports as one value.


@dataclass(frozen=True, kw_only=True)
class Ports:
    """All ports as one value, which every service takes."""

    ledger: Ledger
    source: OffsetSource
    batches: BatchReader
    lake: Lake
    runner: JobRunner
    group_sync: GroupCommitter
    schemas: SchemaRegistry
    clock: Clock
    processes: Processes
    actor: str
    progress: Callable[[str], None]
    """Shows a person the current step, one short sentence at a time."""
    live: Callable[[ProgressEvent], None] = lambda _: None
    """Shows a person how far it is, moment by moment; it fails nothing."""
    wanted: Callable[[str], None] = lambda _: None
    """Asked about a wave each time its lease is renewed; its error ends the attempt, and its job."""
    prepare: Callable[[int], None] = lambda _: None
    """Told that jobs of so much effort (`core.spark.job`) will probably follow, whose driver may start meanwhile; it
    fails nothing."""
