"""What a table in memory consists of, and the one compare-and-set that moves its main."""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core import ddl
from airflow_kafka_lake.core.accounting import StreamContent
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.records import AttemptRows, Publication
from airflow_kafka_lake.core.ledger.waves import (
    PUBLISHES,
    UNNAMED,
    Ancestry,
    Committed,
    PublishOutcome,
    Rejected,
    Requirement,
    SnapshotPosition,
    TableHead,
    Token,
)
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, SliceSet, Stream
from airflow_kafka_lake.core.spark.job import branch_of, decoded_of

MAIN = "main"
HEADERS = {"type": "array", "elementType": ddl.struct({"key": "string", "value": "binary"})}
COLUMNS: dict[str, Any] = {
    "key": "binary",
    "value": "binary",
    "headers": HEADERS,
    "kafka_topic": "string",
    "kafka_topic_id": "string",
    "kafka_partition": "integer",
    "kafka_offset": "long",
    "kafka_timestamp": "timestamp",
    "kafka_timestamp_type": "integer",
    "kafka_timestamp_raw": "long",
    "ingest_attempt": "string",
}
"""The columns of every landing table (docs: lake table)."""

Headers = tuple[tuple[str, bytes | None], ...]
Position = tuple[str, str, int, int, bytes | None, bytes | None, Headers, int]
"""What a job writes of a record: topic, topic id, partition, offset, key, value, headers, timestamp in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    attempt: str
    headers: Headers = field(default=(), repr=False)
    timestamp_ms: int = field(default=0, repr=False)
    undecoded: str | None = field(default=None, repr=False)
    decoded: bool = field(default=False, repr=False)

    @classmethod
    def at(cls, position: Position, attempt: str) -> Row:
        """Return the row that a job writes of a record."""
        topic, topic_id, partition, offset, key, value, headers, timestamp_ms = position
        return cls(
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            offset=offset,
            key=key,
            value=value,
            attempt=attempt,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    @property
    def position(self) -> Position:
        """What a job wrote of the record, whichever job it was."""
        place = (self.topic, self.topic_id, self.partition, self.offset)
        return (*place, self.key, self.value, self.headers, self.timestamp_ms)

    @property
    def weight(self) -> int:
        """About how many bytes the row takes."""
        return len(self.key or b"") + len(self.value or b"") + len(self.topic) + 64

    @property
    def stream(self) -> Stream:
        """The stream of the record."""
        return Stream(self.topic, self.topic_id, self.partition)

    def is_in(self, offsets: SliceSet) -> bool:
        """Return whether the row is at one of some streams' offsets."""
        return self.offset in offsets[self.stream]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One snapshot: what it added, and all that it shows."""

    id: int
    parent: int | None
    at: datetime
    spec: int
    token: Token | None = None
    staged_by: str | None = None
    added: tuple[Row, ...] = ()
    rows: tuple[Row, ...] = ()
    deleted: int = 0


class Answer(StrEnum):
    """What becomes of the next commit to main."""

    GIVEN = "it lands or is rejected, and says so"
    LOST_LANDED = "it lands, and the answer is lost"
    LOST = "it never lands, and the answer is lost"
    LATE = "the answer is lost, and it lands at `land_late`, if its requirements still hold then"
    LIED = "it is answered as done, and never lands: a new load does not show it, so its outcome is unknown"


_IDS = itertools.count(1)


def wall_clock() -> datetime:
    """Return the time for a lake that is given no clock."""
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True)
class Store:
    """One table: snapshots, and the branches that point to them."""

    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    now: Callable[[], datetime] = wall_clock
    spec: int = 0
    columns: dict[str, Any] = field(default_factory=COLUMNS.copy)
    refs: dict[str, int] = field(default_factory=dict)
    commits: dict[int, Commit] = field(default_factory=dict)
    owners: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    last: Mapping[tuple[str, str], Token] = field(default_factory=dict)
    placed: Mapping[tuple[str, str], SnapshotPosition] = field(default_factory=dict)
    lines: Mapping[tuple[str, str], EventRef | None] = field(default_factory=dict)

    def head(self) -> TableHead:
        """Return what a load supplies; ids of snapshots grow, so they are their sequence numbers too."""
        walked = tuple(self.history())
        stood_on = frozenset(commit.id for commit in walked)
        since = walked[-1].id if walked and walked[-1].parent is not None else 0
        beside = (item.token for item in self.commits.values() if item.id >= since and item.id not in stood_on)
        ancestry = Ancestry(
            snapshots=stood_on,
            since=since,
            left=frozenset(token.attempt for token in beside if token and token.kind in PUBLISHES),
            beside=frozenset(self.commits) - stood_on,
        )
        return TableHead(
            uuid=self.uuid,
            snapshot=self.refs.get(MAIN),
            owners=dict(self.owners),
            last=dict(self.last),
            placed=dict(self.placed),
            lines={owner: line for owner, line in self.lines.items() if line},
            ancestry=ancestry,
            decoded=decoded_of(self.refs),
            columns=ddl.struct(self.columns),
        )

    def rows(self) -> tuple[Row, ...]:
        """Return what a reader of main sees."""
        return self.commits[self.refs[MAIN]].rows if MAIN in self.refs else ()

    def history(self) -> Iterator[Commit]:
        """Walk main back to the oldest snapshot that is not expired."""
        commit = self.commits.get(self.refs.get(MAIN, 0))
        while commit is not None:
            yield commit
            commit = None if commit.parent is None else self.commits.get(commit.parent)

    def add(
        self, branch: str, added: Iterable[Row], *, token: Token | None = None, without: Sequence[Slice] = ()
    ) -> Commit:
        """Commit rows on top of a branch, less what is replaced there; a branch that is not there begins at main."""
        parent, new, gone = self.refs.get(branch, self.refs.get(MAIN)), tuple(added), SliceSet(without)
        before = () if parent is None else self.commits[parent].rows
        rows = (*(row for row in before if not row.is_in(gone)), *new)
        commit = Commit(id=next(_IDS), parent=parent, at=self.now(), spec=self.spec, token=token, added=new, rows=rows)
        self.commits[commit.id] = commit
        self.refs[branch] = commit.id
        return commit

    def begin(self, branch: str) -> None:
        """Create a branch at main's head; where main has none, Iceberg lets it begin with an empty snapshot."""
        self.refs[branch] = self.refs[MAIN] if MAIN in self.refs else self.add(branch, ()).id

    def decode(self, name: str, rows: Sequence[Row]) -> Commit:
        """Commit the rows of main, decoded again, to the branch of a job."""
        parent, kept = self.refs[MAIN], tuple(rows)
        commit = Commit(id=next(_IDS), parent=parent, at=self.now(), spec=self.spec, staged_by=name, rows=kept)
        self.commits[commit.id] = commit
        self.refs[branch_of(name)] = commit.id
        return commit

    def delete(self, gone: Callable[[Row], bool]) -> Commit:
        """Commit main without some of its rows."""
        before = self.rows()
        rows = tuple(row for row in before if not gone(row))
        parent, deleted = self.refs.get(MAIN), len(before) - len(rows)
        commit = Commit(id=next(_IDS), parent=parent, at=self.now(), spec=self.spec, rows=rows, deleted=deleted)
        self.commits[commit.id] = commit
        self.refs[MAIN] = commit.id
        return commit

    def copy(self) -> Store:
        """Return the same metadata once more."""
        return replace(self, refs=dict(self.refs), commits=dict(self.commits))

    def publish(
        self, publication: Publication, owners: Mapping[str, tuple[str, str]], ended: Iterable[str]
    ) -> PublishOutcome:
        """Move main when all that the publication requires holds, else change nothing."""
        if rejected := self._unmet(publication):
            return rejected
        added: tuple[Row, ...] = ()
        if publication.audited is not None:
            added = self.commits[publication.audited].added
            del self.refs[branch_of(publication.token.attempt)]
            if publication.is_decoded_again:
                self.refs[MAIN] = publication.audited
                return Committed(snapshot=publication.audited)
        for attempt in ended:
            self.refs.pop(branch_of(attempt), None)
        commit = self.add(MAIN, added, token=publication.token, without=publication.replaces)
        self.owners = {**self.owners, **owners}
        if publication.token.kind not in UNNAMED:
            self.last = {**self.last, publication.owner: publication.newest}
            self.lines = {**self.lines, publication.owner: publication.line}
            own = SnapshotPosition(snapshot=commit.id, sequence=commit.id)
            if place := publication.head.place_after(publication.owner, publication.token.kind, own):
                self.placed = {**self.placed, publication.owner: place}
        return Committed(snapshot=commit.id)

    def _unmet(self, publication: Publication) -> Rejected | None:
        head, token, audited = publication.head, publication.token, publication.audited
        if self.uuid != head.uuid:
            return Rejected(requirement=Requirement.TABLE_UUID)
        moved_back = self.head().marks_of(publication.owner) != head.marks_of(publication.owner)
        if self.refs.get(MAIN) != head.snapshot or moved_back:
            return Rejected(requirement=Requirement.MAIN_HEAD)
        if audited is None:
            return None
        if self.refs.get(branch_of(token.attempt)) != audited:
            return Rejected(requirement=Requirement.STAGING_BRANCH)
        staged = self.commits[audited]
        return self._unmet_decoded(head, staged) if publication.is_decoded_again else self._unfit(publication, staged)

    def _unmet_decoded(self, head: TableHead, staged: Commit) -> Rejected | None:
        if staged.parent != head.snapshot:
            return Rejected(requirement=Requirement.STAGING_BRANCH)
        return None if self.owners == head.owners else Rejected(requirement=Requirement.OWNER)

    def _unfit(self, publication: Publication, staged: Commit) -> Rejected | None:
        if staged.added and staged.spec != self.spec:
            return Rejected(requirement=Requirement.SPEC)
        topic_ids = {row.topic_id for row in staged.added} | {item.stream.topic_id for item in publication.replaces}
        return foreign(self.head(), topic_ids, publication.owner)


def foreign(head: TableHead, topic_ids: Iterable[str], owner: tuple[str, str]) -> Rejected | None:
    """Return the refusal that names another owner of one of the topics; None when there is none."""
    for topic_id in sorted(topic_ids):
        ledger_id, pipeline = head.owners.get(topic_id, owner)
        if (ledger_id, pipeline) != owner:
            whose = f"belongs to pipeline {pipeline} of ledger {ledger_id}"
            return Rejected(requirement=Requirement.OWNER, detail=f"topic {topic_id} {whose}")
    return None


def contents_of(rows: Iterable[Row]) -> tuple[StreamContent, ...]:
    """Return per stream which offsets some rows hold, and how many of them twice."""
    found: dict[Stream, list[int]] = defaultdict(list)
    for row in rows:
        found[row.stream].append(row.offset)
    return tuple(
        StreamContent(stream=key, offsets=_set(some), duplicates=_twice(some)) for key, some in sorted(found.items())
    )


def attempt_rows_of(rows: Iterable[Row]) -> tuple[AttemptRows, ...]:
    """Return the same per attempt."""
    found: dict[tuple[str, Stream], list[int]] = defaultdict(list)
    for row in rows:
        found[row.attempt, row.stream].append(row.offset)
    return tuple(
        AttemptRows(attempt=attempt or None, stream=stream, offsets=_set(some), duplicates=_twice(some))
        for (attempt, stream), some in sorted(found.items())
    )


def _set(offsets: Iterable[int]) -> RangeSet:
    return RangeSet(OffsetRange(offset, offset + 1) for offset in set(offsets))


def _twice(offsets: Sequence[int]) -> int:
    return len(offsets) - len(set(offsets))
