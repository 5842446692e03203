"""What a rebuild reads, and what it finds: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.lake.ancestry import Ancestry
from airflow_kafka_lake.core.ledger.records import AttemptRows, Commit, Published, RangeRecord, ReceiptRow
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import AttemptKey
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.rebuilding.restoration import RestoredWave
from airflow_kafka_lake.core.slices import Stream

Range = tuple[str, Stream, OffsetRange]
"""Attempt, stream and range of a receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """What was read of one table after main was moved; receipts and rows are this pipeline's only.

    `owners` maps each topic id to the id of the ledger that owned it before main was moved; `commits` are main's, as
    far back as `ancestry` goes.
    """

    table: str
    uuid: str
    owners: Mapping[str, str]
    commits: tuple[Commit, ...]
    ancestry: Ancestry
    attempt_rows: tuple[AttemptRows, ...]
    receipts: tuple[ReceiptRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the ledger still has; `published` maps a committed wave to its publish, for waves that brought rows, and
    `committed` names the attempts that it knows as committed, whatever became of their ranges."""

    streams: tuple[StreamRecord, ...]
    ranges: tuple[RangeRecord, ...]
    published: Mapping[str, Published]
    committed: frozenset[str]
    guards: tuple[AttemptKey, ...]

    def undone(self, reading: TableReading) -> tuple[Published, ...]:
        """Return the publishes that are not in a table's history: main was rolled back to before them. What is there of
        their rows came with other commits."""
        return tuple(
            item
            for item in self.published.values()
            if item.table == reading.table
            and item.snapshot is not None
            and reading.ancestry.lacks_publish(item.attempt, base=item.base, snapshot=item.snapshot)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One range, or one attempt's rows, about which the table contradicts its receipts."""

    table: str
    attempt: str
    stream: Stream
    range: OffsetRange
    expected: int
    found: int
    what: str

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "table": self.table,
            "topic": self.stream.topic,
            "topic_id": self.stream.topic_id,
            "partition": self.stream.partition,
            "from": self.range.start,
            "to": self.range.end,
            "attempt": self.attempt,
            "expected": self.expected,
            "found": self.found,
            "what": self.what,
        }

    def __str__(self) -> str:
        where = f"{self.table}: {self.stream} {self.range}"
        return f"{where}: {self.what} (attempt {self.attempt}: {count(self.found, 'row')} of {self.expected:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A slice that was reopened and not committed or skipped since: it is to be read again, in this generation."""

    table: str
    stream: Stream
    range: OffsetRange
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found: `vanished` can be read again, `contradictions` need a person; the rest can be restored, also what
    others have `deleted` rows of."""

    waves: tuple[RestoredWave, ...]
    vanished: tuple[Difference, ...]
    deleted: tuple[Difference, ...]
    contradictions: tuple[Difference, ...]
    reopened: tuple[str, ...]
    receipts: tuple[tuple[str, ReceiptRow], ...]
    pending: tuple[Pending, ...] = ()
