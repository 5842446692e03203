"""Notify of the moves of watermarks: each once, in their order, by one deliverer at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.deliveries import BeginDelivery
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.ledger.rows import NotifiedRow
from airflow_kafka_lake.ports import Ledger


class Receiver(Protocol):
    """Who is notified (Airflow), as far as it can be asked."""

    def has_ended(self, holder: str) -> bool:
        """Return whether a deliverer is known to have ended: nothing that he sends is accepted any more."""

    def has_accepted(self, delivery: NotifiedRow) -> bool:
        """Return whether the last event of a delivery has arrived, and so all of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The moves that one deliverer notifies of: all of the pipeline after move `after`, in their order."""

    after: int
    moves: tuple[Advance, ...]


def begin_delivery(ledger: Ledger, pipeline: str, holder: str, receiver: Receiver) -> Delivery | None:
    """Take on the delivery of everything that was not notified; None when there is nothing to notify of.

    What a deliverer has left that has ended is taken over, unless it has arrived. Raises ConcurrentError while another
    one delivers: what it does not deliver is left to the next task that asks.
    """
    moves = ledger.unnotified(pipeline)
    if not moves:
        return None
    write = BeginDelivery(pipeline=pipeline, holder=holder, through=moves[-1].sequence)
    row = ledger.commit(write)
    if row.holder not in {None, holder}:
        row = _after(ledger, row, write, receiver)
    if write.through <= row.sequence:
        return None
    if row.holder != holder:
        raise ConcurrentError(
            f"Another task notifies of pipeline {pipeline} now: {row.holder}. What it leaves is notified by the next "
            "that asks.",
            pipeline=pipeline,
        )
    return Delivery(after=row.sequence, moves=tuple(move for move in moves if move.sequence > row.sequence))


def end_delivery(ledger: Ledger, delivery: NotifiedRow, receiver: Receiver) -> bool:
    """Record that a delivery has arrived, if it has; returns whether it has."""
    assert delivery.through is not None
    if not receiver.has_accepted(delivery):
        return False
    ledger.mark_notified(delivery.pipeline, delivery.through)
    return True


def _after(ledger: Ledger, busy: NotifiedRow, write: BeginDelivery, receiver: Receiver) -> NotifiedRow:
    """Begin after another deliverer: as soon as his delivery has arrived, or when he has ended without.

    First whether he has ended, then whether it has arrived: the other way round it might arrive in between, and be
    sent once more.
    """
    assert busy.holder is not None
    ended = receiver.has_ended(busy.holder)
    if end_delivery(ledger, busy, receiver):
        return ledger.commit(write)
    return ledger.commit(replace(write, over=busy.holder, ended=ended))
