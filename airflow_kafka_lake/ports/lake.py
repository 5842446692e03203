"""The lake as the services need it: one head, one compare-and-set, branches that no reader sees."""

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


class LakeTable(Protocol):
    """One lake table. Any call may raise UnavailableError (catalog or storage out of reach)."""

    identifier: str

    def ensure(self, partition_by: str) -> TableHead:
        """Create the table when it is missing; refuse with SchemaMismatchError when it does not fit, naming how."""

    def head(self) -> TableHead:
        """Load the table freshly; UnknownSubjectError when it does not exist."""

    def claim_ownership(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic inside a commit that moves main; Rejected names another owner."""

    def find_commit(self, attempts: Sequence[AttemptRecord]) -> CommitSearch:
        """Search main for any of the attempts: its history back to the oldest base and, where that is not there any
        more, rows by `ingest_attempt` at the same head. Attempts without a base never published."""

    def staged(self, attempt: str, heartbeat: Callable[[], None] = lambda: None) -> Staged | None:
        """Open every file that the attempt's branch added and read partition and offset columns; None: no branch, or
        nothing committed on it yet. `heartbeat` is called after each file, and an exception it raises ends the reading.
        Raises SchemaMismatchError for a row of another attempt or topic id."""

    def publish(self, publication: Publication, heartbeat: Callable[[], None] = lambda: None) -> PublishOutcome:
        """Make a staged attempt visible by one compare-and-set commit on `publication.head` (law L9).

        Every row that main has of the slices in `publication.replaces`, whichever attempt wrote it, is gone with the
        same commit; all other rows of its files stay as they are. Raises SchemaMismatchError for a table whose rows
        cannot be taken out of their files. `heartbeat` is called for each file that is written anew, before anything is
        sent; an exception it raises ends the publish.
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
        """Move main with an empty commit, so that no publisher that looked at an earlier head can succeed.

        The topics of `owned` belong to the token's pipeline and this ledger from then on, if others owned them too.
        The staging branches of the attempts in `ended` go with the same commit, as they are then: what these have
        staged can never be published, also if main is rolled back to the head they looked at. `line` is the newest of
        the ledger's history as the head was checked; None for a commit that the ledger comes to know after it.
        """

    def branches(self) -> tuple[str, ...]:
        """Return the attempts that have a staging branch, sorted; none when the table does not exist."""

    def drop(self, attempt: str) -> None:
        """Remove an attempt's staging branch, if there is one. Never touches main."""

    def positions(
        self, columns: PositionColumns, topics: Sequence[str], *, live_only: bool
    ) -> tuple[StreamContent, ...]:
        """Read which offsets of some topics main holds, from a table of any schema; topic ids are empty.

        Rows without a position are left out; `live_only` also leaves out rows that name an attempt. Raises
        UnknownSubjectError when the table does not exist, SchemaMismatchError when a column is missing or of a type
        that no position has, DamagedTableError as `attempt_rows`.
        """

    def commits(self) -> tuple[Commit, ...]:
        """Return main's history, oldest first, as far as it has not expired."""

    def attempt_rows(self, topic_ids: Sequence[str] | None = None) -> tuple[AttemptRows, ...]:
        """Read main's position columns and `ingest_attempt` of some topics (None: all): which attempt's rows are
        there, whatever has compacted or expired since, sorted. Rows without a position are not ours and left out.
        Raises DamagedTableError when a file of main is missing or cannot be read."""

    def visible(self, slices: Sequence[Slice], heartbeat: Callable[[], None] = lambda: None) -> tuple[AttemptRows, ...]:
        """Return what main holds of some slices, by attempt, sorted; files that hold nothing of them are not opened.
        `heartbeat` is called while they are read.
        Raises as `publish` does when rows of theirs could not be replaced."""

    def add_receipts(self, rows: Sequence[ReceiptRow]) -> None:
        """Append to `<table>__receipts`, creating it when missing; rows that are there already are not added twice
        (same attempt, kind, topic id, partition, start, end, generation)."""

    def receipts(self, attempt: str) -> tuple[ReceiptRow, ...]:
        """Return the `rows` receipts of an attempt."""

    def all_receipts(self) -> tuple[ReceiptRow, ...]:
        """Return every row of `<table>__receipts`, of every pipeline, oldest first; none when it does not exist.
        Rows that lack what a receipt needs are of no writer of ours and left out."""


class Lake(Protocol):
    """The catalog: tables by `namespace.table`."""

    def table(self, identifier: str) -> LakeTable:
        """Return the table's handle; opens nothing yet."""
