"""Moves of watermarks, put together, the periods that they close, and the delivery of both to Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.kafka.snapshots import Snapshot
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit, NotifiedRow, Records, Write, WriteScope
from airflow_kafka_lake.core.ledger.records import Advance, StreamRecord

# Moves of watermarks, put together: for the history, and as if one advance had made them.


def advanced(moves: Sequence[Advance]) -> str:
    """Return how far some moves took the watermarks, for the history."""
    offsets = sum(move.end - move.start for move in moves)
    return ", ".join(
        (count(len(moves), "watermark"), count(offsets, "offset"), count(sum(move.rows for move in moves), "row"))
    )


def joined(moves: Iterable[Advance]) -> tuple[Advance, ...]:
    """Join moves of a stream that follow each other, as if one advance had made them; sorted by stream and start."""
    found: list[Advance] = []
    for move in sorted(moves, key=lambda move: (move.stream, move.start)):
        last = found[-1] if found else None
        if last is not None and (last.stream, last.end) == (move.stream, move.start):
            sequence = max(last.sequence, move.sequence)
            found[-1] = replace(last, end=move.end, rows=last.rows + move.rows, sequence=sequence)
        else:
            found.append(move)
    return tuple(found)


# Periods: the hours or days (UTC) that every partition has passed. A period is a number, counted from 1970.

PERIODS = {"hour": (timedelta(hours=1), "%Y-%m-%dT%H"), "day": (timedelta(days=1), "%Y-%m-%d")}
"""For each kind of period its length, and the form of its key."""

AT_ONCE = 100
"""Periods that are closed at a time, and periods with late records that are named: so many Dag runs come at once."""


_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def period_of(kind: str, at: datetime) -> int:
    """Return the period that a moment is in."""
    return (at - _FIRST) // PERIODS[kind][0]


def begin_of(kind: str, period: int) -> datetime:
    """Return the begin of a period, which is the end of the one before."""
    return _FIRST + period * PERIODS[kind][0]


def period_key(kind: str, period: int) -> str:
    """Return the key of a period, such as 2026-11-25T14."""
    return begin_of(kind, period).strftime(PERIODS[kind][1])


def behind(
    streams: Iterable[StreamRecord], seen: Snapshot, firsts: Mapping[tuple[str, int], int | None]
) -> Iterator[str]:
    """Yield why partitions have not passed a time, which was over when Kafka was `seen`.

    A partition has passed it when everything before its first record at or after that time (`firsts`) is in the lake
    or, where it has none, everything that had been written. An open transaction is written, and is not in the lake.
    """
    left = {item.key: item for item in streams}
    for item in seen.partitions:
        known = left.pop(item.stream, None)
        watermark = known.watermark if known else item.log_start
        first = firsts.get(item.stream.place)
        end = item.high_watermark if first is None else min(first, item.high_watermark)
        if watermark < end:
            yield f"{item.stream}: the watermark is {watermark}, and {end} is waited for"
    yield from (f"{item.topic}/{item.partition}: {item.reason}" for item in seen.unknown)
    yield from (f"{topic}: {reason}" for topic, reason in seen.silent.items())
    there = {item.stream.topic_id for item in seen.partitions}
    for key, stream in left.items():  # of a topic that was deleted, or created again; or the broker is behind
        if stream.watermark < stream.end_seen or key.topic_id in there:
            yield f"{key}: the watermark is {stream.watermark}, {stream.end_seen} was seen, and Kafka does not name it"


# Deliveries: the task that tells Airflow of moves of a pipeline's watermarks. One task at a time, so that events are in
# the order of the moves.

LEASE = timedelta(minutes=5)
"""How long no other task delivers, unless the deliverer is known to have ended: from the end of a task's work until
Airflow has accepted its success, which is a second or two, and longer while Airflow's API server is away."""


class BeginDelivery(Write[NotifiedRow]):
    """Take on the delivery of all moves that were not notified, up to `through`.

    Returns the record then: the delivery is `holder`'s if it has that holder. Where another holder has one, it stays,
    unless that is `over`: a holder known to have `ended`, or whose lease has.
    """

    pipeline: str
    holder: str
    through: int
    over: str | None = None
    ended: bool = False
    lease: timedelta = LEASE

    def scope(self) -> WriteScope:
        return WriteScope(pipeline=self.pipeline, notified=True)

    def decide(self, records: Records) -> Change[NotifiedRow]:
        before = records.notified
        row = before or NotifiedRow(pipeline=self.pipeline)
        is_over = row.holder == self.over and (self.ended or not guards.lease_is_live(row.until, records.now))
        if self.through <= row.sequence or not (row.holder in {None, self.holder} or is_over):
            return Change(result=row)
        after = replace(row, through=self.through, holder=self.holder, until=records.now + self.lease)
        return Change(result=after, edits=(Edit(before=before, after=after),))

    def refused(self, *, overlap: bool) -> KafkaLakeError | None:  # noqa: ARG002  # as every write has it
        return guards.overtaken(f"Another task began to notify of pipeline {self.pipeline}.")
