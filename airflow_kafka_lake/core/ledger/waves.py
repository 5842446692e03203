"""States of ranges, waves and attempts, the history of main, and the decision after a look at the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.reports.progress import Progress

# Main's history: the snapshots before its newest one, as far as the table still has them.


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPosition:
    """A commit's place: its snapshot, and the sequence number, which grows with every snapshot of the table."""

    snapshot: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """Main's history as one load has it: newest to oldest, until it ends or has expired.

    `since` is the sequence number of the oldest snapshot; 0 where nothing came before it, so that nothing has expired.
    `left` are the attempts whose publishes the table still has beside that history, none of them older: main was moved
    away from them, whatever clocks say. `beside` are all snapshots that the table still has beside main's.
    """

    snapshots: frozenset[int] = frozenset()
    since: int = 0
    left: frozenset[str] = frozenset()
    beside: frozenset[int] = frozenset()

    def lacks(self, place: SnapshotPosition) -> bool:
        """Return whether main was moved away from a commit: it is not in the history, and is too new to have expired.

        Rows prove nothing here: other engines delete them, and the commit stays in main's history all the same.
        """
        return place.snapshot not in self.snapshots and place.sequence >= self.since

    def lacks_publish(self, attempt: str, *, base: int | None, snapshot: int) -> bool:
        """Return the same for a publish whose sequence number is not known, but a snapshot that came before it."""
        if snapshot in self.snapshots:
            return False
        return attempt in self.left or not self.since or base in self.snapshots


# States of ranges, waves and attempts, and the decision after looking at the lake.
#
# The tables here are the only place where a transition is named; every write of the ledger decides by them.


class RangeState(StrEnum):
    """The state of a range; a PLANNED one is worked on by whichever attempt holds its `wave`."""

    PLANNED = "PLANNED"
    CANCELLED = "CANCELLED"
    HELD = "HELD"
    COMMITTED = "COMMITTED"
    SKIPPED = "SKIPPED"


class WaveState(StrEnum):
    """The state of a wave."""

    PLANNED = "PLANNED"
    CLAIMED = "CLAIMED"
    STAGED = "STAGED"
    PUBLISHING = "PUBLISHING"
    COMMITTED = "COMMITTED"
    CANCELLED = "CANCELLED"
    DISSOLVED = "DISSOLVED"


class AttemptOutcome(StrEnum):
    """How one try at a wave ended, or `running`."""

    RUNNING = "running"
    STAGED = "staged"
    COMMITTED = "committed"
    REJECTED = "rejected"
    FAILED = "failed"
    UNKNOWN = "unknown"
    ABANDONED = "abandoned"


class AttemptCause(StrEnum):
    """The end of an attempt, where the next one at its wave depends on it; `AttemptRecord.error` is for people."""

    JOB_FAILED = "job failed"
    UNEXPECTED = "unexpected"
    UNREADABLE = "unreadable"
    SPLIT = "split"
    TAKEN = "taken"


class Act(StrEnum):
    """The acts on a wave."""

    CLAIM = "claim"
    STAGE = "stage"
    PUBLISH = "publish"
    COMMIT = "commit"
    GIVE_UP = "give up"
    CANCEL = "cancel"
    RELEASE = "release"
    DISSOLVE = "dissolve"


OPEN = frozenset({WaveState.CLAIMED, WaveState.STAGED, WaveState.PUBLISHING})
"""Wave states in which an attempt works on it, or has died while it did."""

WAVE_TRANSITIONS: Mapping[Act, tuple[frozenset[WaveState], WaveState]] = {
    Act.CLAIM: (frozenset({WaveState.PLANNED}) | OPEN, WaveState.CLAIMED),
    Act.STAGE: (frozenset({WaveState.CLAIMED}), WaveState.STAGED),
    Act.PUBLISH: (frozenset({WaveState.STAGED, WaveState.PUBLISHING}), WaveState.PUBLISHING),
    Act.COMMIT: (OPEN, WaveState.COMMITTED),
    Act.GIVE_UP: (OPEN, WaveState.PLANNED),
    Act.CANCEL: (frozenset({WaveState.PLANNED}) | OPEN, WaveState.CANCELLED),
    Act.RELEASE: (frozenset({WaveState.CANCELLED}), WaveState.PLANNED),
    Act.DISSOLVE: (frozenset({WaveState.PLANNED, WaveState.CANCELLED}) | OPEN, WaveState.DISSOLVED),
}
"""Act → (states it may start from, state it ends in)."""

RANGE_TRANSITIONS: Mapping[RangeState, frozenset[RangeState]] = {
    RangeState.PLANNED: frozenset({RangeState.CANCELLED, RangeState.HELD, RangeState.COMMITTED, RangeState.SKIPPED}),
    RangeState.CANCELLED: frozenset({RangeState.PLANNED, RangeState.SKIPPED}),
    RangeState.HELD: frozenset({RangeState.PLANNED, RangeState.SKIPPED}),
    RangeState.COMMITTED: frozenset({RangeState.PLANNED}),
    RangeState.SKIPPED: frozenset({RangeState.PLANNED}),
}
"""State → states that may follow it. COMMITTED and SKIPPED are left only by a recorded reopen."""

UNRESOLVED = frozenset({RangeState.PLANNED, RangeState.CANCELLED, RangeState.HELD})
"""Range states that hold the watermark."""

ON_HOLD = UNRESOLVED - {RangeState.PLANNED}
"""Range states that a person can release."""

RESOLVED = frozenset({RangeState.COMMITTED, RangeState.SKIPPED})
"""Range states that count towards coverage."""

UNFINISHED = frozenset({WaveState.PLANNED}) | OPEN
"""Wave states on which `run` has work to do."""

FINISHED = frozenset(WaveState) - UNFINISHED
"""Wave states in which nothing of the wave can be published any more."""

_ENDED = frozenset(AttemptOutcome) - {AttemptOutcome.RUNNING, AttemptOutcome.STAGED, AttemptOutcome.UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """The process that works on a wave. The time at which it was started distinguishes it from one with a reused pid.

    `started` counts clock ticks since `boot`, an id of the host's last start, which no step of the clock changes. Where
    the host has no such id (`boot` is None), it is in epoch seconds. `machine` distinguishes hosts of one name; None
    where a host has no such id, or shares it (in a container).
    """

    host: str
    pid: int
    started: float
    boot: str | None = None
    machine: str | None = None

    def __str__(self) -> str:
        machine = "" if self.machine is None else f"{self.machine}."
        started = f"{self.started:.2f}" if self.boot is None else f"{machine}{self.boot}:{self.started:.0f}"
        return f"{self.host}/{self.pid}/{started}"

    @classmethod
    def parse(cls, text: str) -> LeaseHolder:
        """Read the form of `str`."""
        host, pid, started = text.rsplit("/", 2)
        where, _, ticks = started.rpartition(":")
        machine, _, boot = where.rpartition(".")
        return cls(host=host, pid=int(pid), started=float(ticks), boot=boot or None, machine=machine or None)

    @property
    def shown(self) -> str:
        """The process by name, for people: "process 4711 on worker-3"."""
        return f"process {self.pid} on {self.host}"

    @property
    def clock(self) -> str:
        """The clock that counts the ticks of this process: only ticks of the same one can be compared."""
        return self.host if self.boot is None else f"{self.host}:{self.boot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """The guard of every ledger write of an attempt (law L10)."""

    wave: str
    fence: int
    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The text of a commit of this package about itself in its summary (docs/reference/tables.md)."""

    pipeline: str
    wave: str
    attempt: str
    fence: int
    ranges: str
    kind: str = "publish"


PUBLISHES = frozenset({"publish", "replace"})
"""Kinds of tokens whose commits show rows."""

DECODE = "decode"
"""The kind of a commit that makes main the same rows, decoded again; and of lines of the history about decoding."""

TROUBLE, OVER = "trouble", "over"
"""The kind of a line of the history about plans that do not succeed, and its subject once one has."""

UNNAMED = frozenset({"owner", DECODE})
"""Kinds of commits that no ledger has a record of: the table does not name them as its newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """A load of the table: the base of every decision about it.

    `snapshot` is None for a table without any commit; `owners` maps a topic id to `(ledger id, pipeline)`; `last` maps
    each `(ledger id, pipeline)` to the newest commit that it made, so that none hides behind another's, and `placed` to
    where its newest publish stands, and `lines` to the line of the ledger's history that it names. `decoded` are the
    branches with rows that were decoded again, as `LakeTable.drop` takes them, `columns` the table's as a struct
    of `core.ddl`. `is_proven`: it was tried that this catalog keeps branches apart from main; `LakeTable.ensure` tries.
    """

    uuid: str
    snapshot: int | None
    owners: Mapping[str, tuple[str, str]]
    last: Mapping[tuple[str, str], Token]
    placed: Mapping[tuple[str, str], SnapshotPosition] = field(default_factory=dict)
    lines: Mapping[tuple[str, str], EventRef] = field(default_factory=dict)
    ancestry: Ancestry = field(default=Ancestry(), repr=False)
    decoded: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=lambda: {"fields": []}, repr=False)
    is_proven: bool = True

    def marks_of(self, owner: tuple[str, str]) -> tuple[Token | None, SnapshotPosition | None, EventRef | None]:
        """Return all that the table records of an owner's newest commit: a fence that is repeated has one token, and
        something may have been published between the two."""
        return self.last.get(owner), self.placed.get(owner), self.lines.get(owner)

    def lost(self, owner: tuple[str, str]) -> SnapshotPosition | None:
        """Return an owner's newest publish when main was moved away from it.

        Each publish is made on a head that has lost none. So when main's history has the newest, it has all.
        """
        place = self.placed.get(owner)
        return place if place and self.ancestry.lacks(place) else None

    def place_after(self, owner: tuple[str, str], kind: str, own: SnapshotPosition) -> SnapshotPosition | None:
        """Return where the newest publish stands after a commit at `own`: an empty commit leaves it where it was.

        A pipeline goes on from the publishes of another ledger under its name. Only a rebuild commits on a head that
        has lost a publish, after which its history begins anew.
        """
        if kind in PUBLISHES:
            return own
        mine = [place for (_, pipeline), place in self.placed.items() if pipeline == owner[1]]
        newest = max(mine, key=lambda place: place.sequence, default=None)
        return own if newest and self.ancestry.lacks(newest) else newest


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One try at a wave as the ledger has it. `base` is the head at which its search began (-1: an empty table);
    `progress` is its last report; `actor` is the person, or the task of Airflow, that it works for, and `application`
    its Spark application."""

    wave: str
    fence: int
    attempt: str
    holder: str
    started_at: datetime
    job: str | None = None
    base: int | None = None
    audited: int | None = None
    outcome: AttemptOutcome = AttemptOutcome.RUNNING
    error: str | None = None
    cause: AttemptCause | None = None
    ended_at: datetime | None = None
    staged_bytes: int | None = None
    progress: Progress | None = None
    actor: str | None = None
    application: str | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it goes on."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()

    def abandoned(self, at: datetime, cause: AttemptCause | None = None) -> AttemptRecord:
        """Return the attempt after its wave went to another; the time of one that has ended before stays."""
        return replace(self, outcome=AttemptOutcome.ABANDONED, ended_at=self.ended_at or at, cause=cause or self.cause)

    def committed(self, at: datetime) -> AttemptRecord:
        """Return the attempt as the one whose commit is in the lake."""
        progress = self.progress and self.progress.landed(at)
        outcome = AttemptOutcome.COMMITTED
        return replace(self, outcome=outcome, error=None, cause=None, ended_at=self.ended_at or at, progress=progress)

    def at(self, progress: Progress | None, now: datetime) -> AttemptRecord:
        """Return the attempt as it reports `now` how far it is; None reports nothing."""
        return self if progress is None else replace(self, progress=progress.recorded(self.progress, now))

    @property
    def key(self) -> AttemptKey:
        """The guard of this attempt's writes."""
        return AttemptKey(wave=self.wave, fence=self.fence, attempt=self.attempt)


def is_resumable(attempt: AttemptRecord) -> bool:
    """Return whether an attempt that ended, or was overtaken, has left something that may be published as it is."""
    return attempt.audited is not None and attempt.outcome not in (AttemptOutcome.REJECTED, AttemptOutcome.COMMITTED)


def is_over(attempt: AttemptRecord, wave: WaveState) -> bool:
    """Return whether an attempt's staged rows are of no use any more: its wave has ended, or it has for good.

    While its wave goes on, an attempt of unknown outcome may still be found in the lake, and an audited one may be
    published by another.
    """
    return wave in FINISHED or (attempt.outcome in _ENDED and not is_resumable(attempt))


EMPTY_TABLE = -1
"""`AttemptRecord.base` of an attempt that began on a table without any snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The lake holds the wave: published by `attempt`; the snapshot is None once expired (rows remain).

    `is_ours`: by a commit of ours, which comes after an audit. Otherwise main shows a job's rows because a person, or a
    catalog without branches, has put them there.
    """

    attempt: str
    snapshot: int | None
    head: TableHead
    is_ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The lake, at `head`, holds nothing of the wave: its whole history since the base was seen."""

    head: TableHead


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """The lake gives no answer: part of the history has expired, and no row decides."""

    head: TableHead
    reason: str


CommitSearch = Found | Absent | Unclear


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The commit landed as `snapshot`."""

    snapshot: int


class Requirement(StrEnum):
    """A commit's requirement of the table (law L9); a failed one is named."""

    MAIN_HEAD = "main moved"
    STAGING_BRANCH = "staging branch changed"
    TABLE_UUID = "another table"
    SPEC = "partition spec changed"
    SCHEMA = "schema changed"
    OWNER = "another owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A named requirement failed; the commit did not and will not land."""

    requirement: Requirement
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.requirement}: {self.detail}" if self.detail else str(self.requirement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The answer was lost or is not one of the other two; only a search in a newer head decides."""

    reason: str

    def __str__(self) -> str:
        return self.reason


PublishOutcome = Committed | Rejected | Unknown
