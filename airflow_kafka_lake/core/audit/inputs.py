"""The inputs of an audit, and its findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core.ledger.deletions import Deletions
from airflow_kafka_lake.core.ledger.records import AttemptRows, Commit, RangeRecord, ReceiptRow, WaveRecord
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import AttemptRecord, RangeState
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Stream

SHOWN = 100
"""Slices of offsets that a document names; the rest is counted."""


def by_stream(ranges: Iterable[RangeRecord]) -> defaultdict[Stream, list[RangeRecord]]:
    """Return ranges by their stream."""
    found: defaultdict[Stream, list[RangeRecord]] = defaultdict(list)
    for item in ranges:
        found[item.stream].append(item)
    return found


class FindingKind(StrEnum):
    """The kinds of findings."""

    LOST = "lost"
    DUPLICATE = "duplicate"
    INCONSISTENT = "inconsistent"
    ABORTED_VISIBLE = "aborted-visible"
    VISIBLE_BEFORE_ACCOUNTED = "visible-before-accounted"
    WATERMARK_AHEAD = "watermark-ahead"
    WATERMARK_BACK = "watermark-back"
    VISIBLE_WITHOUT_TOKEN = "visible-without-token"  # noqa: S105  # the token of a commit
    TOKEN_WITHOUT_ROWS = "token-without-rows"  # noqa: S105  # the same
    STALE_FENCE = "stale-fence"
    DIFFERENT = "different"
    CUTOVER_MISSING = "cutover-missing"
    CUTOVER_TWICE = "cutover-twice"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault; `stream` and `offsets` where it is about offsets, else `wave` or `table`."""

    kind: FindingKind
    message: str
    stream: Stream | None = None
    offsets: RangeSet = field(default_factory=RangeSet)
    wave: str | None = None
    table: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the wire form; of many slices the first are named, and all offsets are counted."""
        topic, topic_id, partition = self.stream or (None, None, None)
        return {
            "kind": self.kind.value,
            "topic": topic,
            "topic_id": topic_id,
            "partition": partition,
            "offsets": self.offsets.to_pairs()[:SHOWN],
            "span": self.offsets.span,
            "wave": self.wave,
            "table": self.table,
            "message": self.message,
        }

    @property
    def place(self) -> tuple[str, ...]:
        """The sort key: by stream, then wave, then table."""
        stream = (
            (self.stream.topic, self.stream.topic_id, f"{self.stream.partition:06}") if self.stream else ("~", "", "")
        )
        return (*stream, self.wave or "", self.table or "", self.kind, self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTruth:
    """What Kafka and its producers know of one stream.

    `acknowledged`: offsets whose records readers must see, as producers were told; `aborted`: those that no reader may
    see. Digests of contents by offset are compared where lake and truth both have one.
    """

    acknowledged: RangeSet
    aborted: RangeSet = field(default_factory=RangeSet)
    log_start: int = 0
    digests: Mapping[int, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerInputs:
    """What the ledger has of one pipeline, all of it at one moment."""

    pipeline: str
    streams: tuple[StreamRecord, ...]
    ranges: tuple[RangeRecord, ...]
    waves: tuple[WaveRecord, ...]
    attempts: tuple[AttemptRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInputs:
    """What one table of the pipeline has: main's history oldest first, what main holds, and all receipts.

    The history and the receipts were read after the rows, and `behind_rows` are the snapshots of the history as it was
    before them: what landed in between has commits, and rows that were not read.

    `digests` are those of the rows' contents by stream and offset, where they have been read. `damaged` says why
    main could not be read: what it holds is not known then.
    """

    identifier: str
    commits: tuple[Commit, ...] = ()
    behind_rows: frozenset[int] = frozenset()
    attempt_rows: tuple[AttemptRows, ...] = ()
    receipts: tuple[ReceiptRow, ...] = ()
    digests: Mapping[Stream, Mapping[int, int | str]] = field(default_factory=dict)
    damaged: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInputs:
    """All inputs of a check, of a pipeline that goes on meanwhile: the ledger as it was `before` the lake was read,
    whose commits the lake has, and as it was after it, with all on record that the lake has.

    `at_rest`: no process works, faults are healed, and everything should be finished.
    """

    before: LedgerInputs
    ledger: LedgerInputs
    tables: tuple[TableInputs, ...]
    truth: Mapping[Stream, StreamTruth] = field(default_factory=dict)
    at_rest: bool = False

    @property
    def committed(self) -> tuple[RangeRecord, ...]:
        """The ranges that were COMMITTED all the while: their rows are in the lake."""
        still = {item.id: (item.state, item.range, item.generation) for item in self.ledger.ranges}
        return tuple(
            item
            for item in self.before.ranges
            if item.state is RangeState.COMMITTED and still.get(item.id) == (item.state, item.range, item.generation)
        )

    @property
    def deletions(self) -> Deletions:
        """What was deleted on purpose, as the tables' receipts say."""
        return Deletions.of(row for table in self.tables for row in table.receipts)

    @property
    def unreadable(self) -> frozenset[str]:
        """The waves whose rows are in a damaged table, present or not."""
        damaged = {table.identifier for table in self.tables if table.damaged}
        return frozenset(wave.id for wave in self.ledger.waves if wave.table in damaged)
