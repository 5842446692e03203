"""Moves of watermarks, put together, and their delivery to Airflow by one task at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Change, Edit, NotifiedRow, Records, Write, WriteScope
from airflow_kafka_lake.core.ledger.records import Advance

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


# Deliveries: the task that tells Airflow of moves of a pipeline's watermarks. One task at a time, so that events are in
# the order of the moves.

LEASE = timedelta(minutes=5)
"""How long no other task delivers, unless the deliverer is known to have ended: from the end of a task's work until
Airflow has accepted its success, which is a second or two, and longer while Airflow's API server is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginDelivery(Write[NotifiedRow]):
    """Take on the delivery of all moves that were not notified, up to `through`.

    Returns the record then: the delivery is `holder`'s if it has that holder. Where another holder has one, it stays,
    unless that is `over`: a holder known to have `ended`, or whose lease has.
    """

    name: ClassVar[str] = "begin_delivery"
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
        if self.through <= row.sequence or not self._is_free(row, records):
            return Change(result=row)
        after = replace(row, through=self.through, holder=self.holder, until=records.now + self.lease)
        return Change(result=after, edits=(Edit(before=before, after=after),))

    def refused(self, *, overlap: bool) -> KafkaLakeError | None:  # noqa: ARG002  # as every write has it
        return guards.overtaken(f"Another task began to notify of pipeline {self.pipeline}.")

    def _is_free(self, row: NotifiedRow, records: Records) -> bool:
        if row.holder in {None, self.holder}:
            return True
        return row.holder == self.over and (self.ended or not guards.lease_is_live(row.until, records.now))
