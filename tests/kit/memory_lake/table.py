"""The lake and its tables in memory, held to the contract of `ports.Lake`.

What only a test or a memory job runner does (stage, expire, roll back, lose an answer) are methods of the table beside
the port's.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.core.accounting import StreamContent
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    JobFailedError,
    SchemaMismatchError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.records import (
    AttemptRows,
    Commit,
    Publication,
    ReceiptRow,
    StagedContent,
    UndecodedOffsets,
)
from airflow_kafka_lake.core.ledger.waves import (
    EMPTY_TABLE,
    PUBLISHES,
    Absent,
    AttemptRecord,
    CommitSearch,
    Committed,
    Found,
    PublishOutcome,
    Rejected,
    Requirement,
    TableHead,
    Token,
    Unclear,
    Unknown,
)
from airflow_kafka_lake.core.offsets import Slice, SliceSet
from airflow_kafka_lake.core.spark.job import PositionColumns, attempts_of, branch_of
from airflow_kafka_lake.core.wire import milliseconds
from tests.kit.memory_lake.store import (
    MAIN,
    Answer,
    Position,
    Row,
    Store,
    attempt_rows_of,
    contents_of,
    foreign,
    wall_clock,
)

if TYPE_CHECKING:
    from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob


def _judged(row: Row, wrong: UndecodedOffsets | None) -> Row:
    return replace(row, undecoded=wrong.reason) if wrong and row.offset in wrong.offsets else replace(row, decoded=True)


def _branch_exists(branch: str) -> JobFailedError:
    return JobFailedError(f"Branch {branch} exists already.", reason="branch-exists")


class MemoryLake:
    """`ports.Lake` in memory; set `reachable` to False to have every call raise UnavailableError."""

    def __init__(self, now: Callable[[], datetime] = wall_clock) -> None:
        self.reachable = True
        self.left = ""
        self.now = now
        self._tables: dict[str, MemoryTable] = {}

    def table(self, identifier: str) -> MemoryTable:
        """Return the table's handle, the same for the same name."""
        if identifier not in self._tables:
            self._tables[identifier] = MemoryTable(identifier, self)
        return self._tables[identifier]

    def look(self, identifier: str) -> str | None:
        """Return the table's name: its files are here."""
        if not self.reachable:
            raise UnavailableError("the lake cannot be reached")
        return f"{identifier}, read and removed"

    def rehearse(self, identifier: str, partition_by: str) -> tuple[str, str]:
        """Try a table that nothing knows of afterwards, unless something is `left`; it keeps branches as the other."""
        beside = MemoryTable(f"{identifier}_trial", self)
        beside.keeps_branches = self.table(identifier).keeps_branches
        beside.is_proven = self.table(identifier).is_proven
        beside.ensure(partition_by)
        return identifier, self.left

    def begin(self, identifier: str, attempt: str) -> None:
        """Create an attempt's branch, as a Spark job does before it reads."""
        self.table(identifier).begin(attempt)

    def stage(self, identifier: str, attempt: str, rows: Iterable[Position], **decoded: Any) -> None:
        """Commit rows to an attempt's branch, as a Spark job does."""
        self.table(identifier).stage(attempt, rows, **decoded)

    def redecode(self, job: RedecodeJob, problem: Callable[[str, bytes | None], str | None]) -> dict[str, Any]:
        """Decode a table's rows once more on the job's branch, as a Spark job does."""
        return self.table(job.table).redecode(job, problem)

    def records(self, identifier: str, snapshot: int) -> Iterable[Position]:
        """Return what a snapshot of a table shows, as a comparing job reads it."""
        return [row.position for row in self.table(identifier).rows_of(snapshot)]


class MemoryTable:
    """`ports.LakeTable` in memory."""

    def __init__(self, identifier: str, lake: MemoryLake) -> None:
        self.identifier = identifier
        self.next_answer = Answer.GIVEN
        self.next_rejection: Requirement | None = None
        self.keeps_branches = self.is_proven = True
        self._lake = lake
        self._store: Store | None = None
        self._receipts: dict[tuple[object, ...], ReceiptRow] = {}
        self._damaged: set[int] = set()
        self._decoded: dict[str, Mapping[str, Any]] = {}
        self._late: Callable[[], PublishOutcome] | None = None
        self._committing = threading.RLock()

    # What the port asks for.

    def ensure(self, partition_by: str) -> TableHead:
        """Create the table when it is missing."""
        self._require_reachable()
        if self._store is None:
            self._store = Store(now=self._lake.now)
        if not self.is_proven and not self.keeps_branches:
            raise ConnectionSettingsError(f"The catalog does not keep the branches of table {self.identifier}.")
        self.is_proven = True
        return self.head()

    def head(self) -> TableHead:
        """Return the head; UnknownSubjectError when the table does not exist."""
        return replace(self._load().head(), is_proven=self.is_proven)

    def claim_ownership(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic in a commit that moves main, when one is missing."""
        head, owner = self.head(), (ledger_id, pipeline)
        if refused := foreign(head, topic_ids, owner):
            return refused
        missing = {topic_id: owner for topic_id in topic_ids if topic_id not in head.owners}
        if not missing and head.snapshot is not None:
            return Committed(snapshot=head.snapshot)
        token = Token(pipeline=pipeline, wave="owner", attempt="0" * 16, fence=0, ranges="", kind="owner")
        return self._commit(Publication(head=head, audited=None, token=token, ledger_id=ledger_id), owners=missing)

    def find_commit(self, attempts: Sequence[AttemptRecord]) -> CommitSearch:
        """Search main's history and rows for any of the attempts."""
        store, head = self._load(), self.head()
        bases = {attempt.attempt: attempt.base for attempt in attempts if attempt.base is not None}
        waiting = set(bases.values())
        if not bases:
            return Absent(head=head)
        whole, oldest = False, None
        for commit in store.history():
            waiting.discard(commit.id)
            if whole := not waiting:
                break
            if commit.token and commit.token.attempt in bases and commit.token.kind in PUBLISHES:
                return Found(attempt=commit.token.attempt, snapshot=commit.id, head=head)
            if commit.staged_by in bases:
                return Found(attempt=commit.staged_by, snapshot=commit.id, head=head, is_ours=False)
            oldest = commit
        if whole or (waiting == {EMPTY_TABLE} and (oldest is None or oldest.parent is None)):
            return Absent(head=head)
        return self._by_rows(bases, head) or Unclear(
            head=head, reason="main's history ends before the attempt began, and no row or receipt is there"
        )

    def _by_rows(self, bases: Mapping[str, int], head: TableHead) -> Found | None:
        for row in self.rows():
            if row.attempt in bases:
                return Found(attempt=row.attempt, snapshot=None, head=head, is_ours=False)
        for receipt in self._receipts.values():
            if receipt.kind == "published" and receipt.attempt in bases:
                return Found(attempt=receipt.attempt, snapshot=None, head=head)
        return None

    def staged(self, attempt: str, heartbeat: Callable[[int], None] = lambda _: None) -> StagedContent | None:
        """Return what the attempt's branch added; None when nothing is committed on it."""
        store = self._load()
        ref = store.refs.get(branch_of(attempt))
        if ref is None:
            return None
        if ref in self._damaged:
            raise JobFailedError(f"Staged file of snapshot {ref} of attempt {attempt} cannot be read. Stage again.")
        if store.commits[ref].staged_by != attempt:
            return None
        added = store.commits[ref].added
        heartbeat(len(added))
        if foreign := {row.attempt for row in added} - {attempt}:
            raise SchemaMismatchError(f"Attempt {attempt} has staged rows of attempt {min(foreign)}.")
        return StagedContent(
            snapshot=ref,
            bytes=sum(row.weight for row in added),
            streams=contents_of(added),
            **self._decoded.get(attempt, {}),
        )

    def publish(self, publication: Publication, heartbeat: Callable[[], None] = lambda: None) -> PublishOutcome:
        """Make a staged attempt visible by one compare-and-set commit on `publication.head`."""
        if publication.replaces:
            heartbeat()
        return self._commit(publication)

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
        """Move main with an empty commit; what is owned changes hands, and the branches of what is ended go."""
        asked = Publication(head=head, audited=None, token=token, ledger_id=ledger_id, line=line)
        return self._commit(asked, owners=dict.fromkeys(owned, asked.owner), ended=ended)

    def branches(self) -> tuple[str, ...]:
        """Return the attempts that have a staging branch."""
        self._require_reachable()
        return attempts_of(self._store.refs) if self._store else ()

    def drop(self, attempt: str) -> None:
        """Remove an attempt's branch, if there is one."""
        self._require_reachable()
        if self._store is not None:
            self._store.refs.pop(branch_of(attempt), None)

    def positions(
        self,
        columns: PositionColumns,
        topics: Sequence[str],
        *,
        live_only: bool,
    ) -> tuple[StreamContent, ...]:
        """Return which offsets of some topics main holds."""
        rows = (row for row in self.rows() if row.topic in topics and not (live_only and row.attempt))
        return contents_of(replace(row, topic_id="") for row in rows)

    def commits(self) -> tuple[Commit, ...]:
        """Return main's history, oldest first."""
        found = [
            Commit(snapshot=c.id, parent=c.parent, at=c.at, token=c.token, deleted=c.deleted)
            for c in self._load().history()
        ]
        return tuple(reversed(found))

    def attempt_rows(
        self, topic_ids: Sequence[str] | None = None, attempt: str | None = None
    ) -> tuple[AttemptRows, ...]:
        """Return what main holds, by attempt."""
        rows = (row for row in self.rows() if topic_ids is None or row.topic_id in topic_ids)
        return attempt_rows_of(row for row in rows if attempt in {None, row.attempt})

    def visible(self, slices: Sequence[Slice], heartbeat: Callable[[], None] = lambda: None) -> tuple[AttemptRows, ...]:
        """Return what main holds of some slices, by attempt."""
        heartbeat()
        wanted = SliceSet(slices)
        return attempt_rows_of(row for row in self.rows() if row.is_in(wanted))

    def rows_between(self, of: Sequence[Slice], *, start: datetime, end: datetime, by: timedelta) -> Mapping[int, int]:
        """Count the rows of some slices with a time from one to another, by period."""
        self._require_reachable()
        wanted, length = SliceSet(of), by // timedelta(milliseconds=1)
        rows = self.rows() if self._store else ()
        found = (row.timestamp_ms for row in rows if row.is_in(wanted))
        return Counter(time // length for time in found if milliseconds(start) <= time < milliseconds(end))

    def add_receipts(self, rows: Sequence[ReceiptRow]) -> None:
        """Keep the receipts that are not there yet."""
        self._require_reachable()
        for row in rows:
            key = (row.attempt, row.kind, row.stream.topic_id, row.stream.partition, row.range, row.generation)
            self._receipts.setdefault(key, row)

    def receipts(self, attempt: str) -> tuple[ReceiptRow, ...]:
        """Return the `rows` receipts of an attempt."""
        self._require_reachable()
        found = [row for row in self._receipts.values() if row.attempt == attempt and row.kind == "rows"]
        return tuple(sorted(found, key=lambda r: (r.stream.topic, r.stream.topic_id, r.stream.partition, r.range)))

    def all_receipts(self) -> tuple[ReceiptRow, ...]:
        """Return every receipt."""
        self._require_reachable()
        return tuple(sorted(self._receipts.values(), key=lambda row: row.recorded_at))

    # What a job does.

    def begin(self, attempt: str) -> None:
        """Create an attempt's branch at main's head; JobFailedError when it exists already."""
        with self._committing:
            store, branch = self._load(), branch_of(attempt)
            if branch in store.refs:
                raise _branch_exists(branch)
            if self.keeps_branches:
                store.begin(branch)

    def stage(
        self,
        attempt: str,
        rows: Iterable[Position],
        *,
        written_as: str | None = None,
        **decoded: Any,
    ) -> None:
        """Commit rows to an attempt's branch, which need not have begun; JobFailedError when it has rows already.

        `written_as` is the attempt that the rows themselves name, when it differs; `decoded` is what `Staged` tells of
        their decoding.
        """
        self._decoded[attempt] = decoded
        with self._committing:
            store = self._load()
            branch = branch_of(attempt)
            if branch in store.refs and store.commits[store.refs[branch]].staged_by == attempt:
                raise _branch_exists(branch)
            wrong = {item.stream: item for item in decoded.get("undecoded", ())}
            made = (Row.at(position, written_as or attempt) for position in rows)
            is_decoded = decoded.get("decoding") is not None
            added = tuple(_judged(row, wrong.get(row.stream)) if is_decoded else row for row in made)
            commit = store.add(branch if self.keeps_branches else MAIN, added)
            store.commits[commit.id] = replace(commit, staged_by=attempt)

    def redecode(self, job: RedecodeJob, problem: Callable[[str, bytes | None], str | None]) -> dict[str, Any]:
        """Commit main's rows to the job's branch, those of its topics judged again."""
        store, topics = self._load(), {topic for decoder in job.decoders for topic in decoder.topics}
        mine = {
            row: replace(row, undecoded=(found := problem(row.topic, row.value)), decoded=found is None)
            for row in store.rows()
            if row.attempt and row.topic in topics and (row.undecoded or not job.only_failed)
        }
        if not mine:
            return {"rows": 0, "failed": 0}
        with self._committing:
            base, staged = store.refs[MAIN], store.decode(job.staged_as, [mine.get(row, row) for row in store.rows()])
        failed = sum(row.undecoded is not None for row in mine.values())
        worse = sum(row.decoded and not now.decoded for row, now in mine.items())
        return {"rows": len(mine), "failed": failed, "worse": worse, "base": base, "staged": staged.id}

    # What happens to tables in the world.

    def rows(self) -> tuple[Row, ...]:
        """Return what a reader of main sees."""
        return self._load().rows()

    def rows_of(self, snapshot: int) -> tuple[Row, ...]:
        """Return what a reader of one snapshot sees; UnknownSubjectError when it is gone."""
        if (commit := self._load().commits.get(snapshot)) is None:
            raise UnknownSubjectError(f"Snapshot {snapshot} is gone.", table=self.identifier)
        return commit.rows

    def write_foreign(self, rows: Iterable[Row] = ()) -> int:
        """Commit to main without a token, as another writer does; return the new head."""
        with self._committing:
            return self._load().add(MAIN, rows).id

    def delete_foreign(self, gone: Callable[[Row], bool]) -> int:
        """Delete rows of main as another engine does; return the new head."""
        with self._committing:
            return self._load().delete(gone).id

    def damage(self, attempt: str) -> None:
        """Make a staged file unreadable."""
        self._damaged.add(self._load().refs[branch_of(attempt)])

    def expire(self) -> None:
        """Forget every snapshot that no branch points to, tokens included; no row of a live snapshot goes."""
        store = self._load()
        store.commits = {id_: commit for id_, commit in store.commits.items() if id_ in store.refs.values()}

    def roll_back(self, snapshot: int) -> None:
        """Set main to an earlier snapshot."""
        self._load().refs[MAIN] = snapshot

    def metadata(self) -> Store:
        """Return the table's metadata as they are now."""
        return self._load().copy()

    def set_back(self, metadata: Store) -> None:
        """Let the catalog point to older metadata: snapshots, branches and properties are as they were."""
        self._store = metadata.copy()

    def recreate(self) -> None:
        """Drop the table and create another one of the same name."""
        self._store = None
        self.ensure("")

    def drop_properties(self) -> None:
        """Lose the table's properties, as with an engine that knows only its own."""
        store = self._load()
        store.owners, store.last, store.lines = {}, {}, {}

    def change_spec(self) -> None:
        """Change the partition spec: files staged before do not fit any more."""
        self._load().spec += 1

    def land_late(self) -> PublishOutcome | None:
        """Let the commit arrive whose answer was lost as LATE; None when there is none."""
        late, self._late = self._late, None
        return late() if late else None

    def _commit(
        self,
        publication: Publication,
        *,
        owners: Mapping[str, tuple[str, str]] | None = None,
        ended: Collection[str] = (),
    ) -> PublishOutcome:
        with self._committing:
            self._load()
            answer, self.next_answer = self.next_answer, Answer.GIVEN
            rejection, self.next_rejection = self.next_rejection, None
            if rejection is not None:
                return Rejected(requirement=rejection, detail="asked for")
            if answer in {Answer.GIVEN, Answer.LOST_LANDED}:
                outcome = self._load().publish(publication, owners or {}, ended)
                if answer is Answer.GIVEN or isinstance(outcome, Rejected):
                    return outcome
            if answer is Answer.LATE:
                self._late = lambda: self._load().publish(publication, owners or {}, ended)
            return Unknown(reason=f"connection lost: {answer}")

    def _load(self) -> Store:
        self._require_reachable()
        if self._store is None:
            raise UnknownSubjectError(f"Table {self.identifier} does not exist.", table=self.identifier)
        return self._store

    def _require_reachable(self) -> None:
        if not self._lake.reachable:
            raise UnavailableError("The lake is out of reach. Try again.")
