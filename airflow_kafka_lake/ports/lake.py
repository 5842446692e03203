"""The lake as the services need it: main, moved by compare-and-set, and staging branches that no reader sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from airflow_kafka_lake.core.lake.accounting import StreamContent
from airflow_kafka_lake.core.lake.positions import PositionColumns
from airflow_kafka_lake.core.ledger.events import Line
from airflow_kafka_lake.core.ledger.records import (
    AttemptRows,
    Commit,
    Publication,
    ReceiptRow,
    Staged,
)
from airflow_kafka_lake.core.ledger.waves import (
    AttemptRecord,
    CommitSearch,
    PublishOutcome,
    TableHead,
    Token,
)
from airflow_kafka_lake.core.slices import Slice


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
        """Make what is staged visible by one compare-and-set commit on `publication.head` (law L9): the rows of an
        attempt beside those of main, or all rows of main, decoded again.

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
        line: Line | None = None,
    ) -> PublishOutcome:
        """Move main with an empty commit, so that no publisher that checked an earlier head can succeed.

        The token's pipeline in this ledger owns the topics of `owned` from then on, even if another owned them before.
        The same commit removes the staging branches of the attempts in `ended`: what they have staged can never be
        published, even if main is rolled back to the head that they checked. `line` is the newest line of the ledger's
        history when the head was checked; None for a commit that the ledger records only afterwards.
        """

    def claim_ownership(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic inside a commit that moves main; Rejected names another owner."""


class StagingBranches(Protocol):
    """What attempts have staged."""

    def staged(self, attempt: str, heartbeat: Callable[[int], None] = lambda _: None) -> Staged | None:
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

    def positions(
        self, columns: PositionColumns, topics: Sequence[str], *, live_only: bool
    ) -> tuple[StreamContent, ...]:
        """Read which offsets of some topics main holds, from a table of any schema; topic ids are empty.

        Rows without a position are left out; `live_only` also leaves out rows that name an attempt. Raises
        UnknownSubjectError when the table does not exist, SchemaMismatchError when a column is missing or of a type
        that no position has, DamagedTableError as `attempt_rows`.
        """


class ReceiptsTable(Protocol):
    """`<table>__receipts`: what each attempt published, in the lake itself."""

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
        """Look whether catalog and store answer, and return where a file was written, read and removed again: among
        the table's files, or where they would be. None: that is not known before the table is there.

        Raises UnavailableError or ConnectionSettingsError.
        """
