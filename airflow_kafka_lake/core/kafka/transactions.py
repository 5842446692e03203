"""Transactions that are open in a partition, and when one of them hangs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import HangingTransactionError
from airflow_kafka_lake.core.wire import timestamp

OBSERVED = "observed"
"""The state of transactions of which Kafka has told; any other says why it has not."""

BROKERS_LIMIT = timedelta(minutes=15)
"""`transaction.max.timeout.ms` as brokers come: the longest that a transaction that no broker describes may take."""

GRACE = timedelta(seconds=60)
"""A coordinator looks for transactions that are overdue only every few seconds, and writes their markers then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has written to a partition, its first record at `first_offset`, and has not ended.

    `transactional_id`, `started_at` and `timeout` are the coordinator's, None where it does not know the producer's
    transaction any more; `last_written_at` is the partition's.
    """

    topic: str
    partition: int
    producer_id: int
    first_offset: int
    transactional_id: str | None = None
    started_at: datetime | None = None
    last_written_at: datetime | None = None
    timeout: timedelta | None = None

    def hangs(self, now: datetime) -> bool:
        """Return whether it is open for longer than the broker lets any transaction be: no broker will end it."""
        since = self.started_at or self.last_written_at
        return since is not None and now - since > (self.timeout or BROKERS_LIMIT) + GRACE

    def describe(self, now: datetime) -> str:
        """Name it for a person, and what ends it when it hangs."""
        unnamed = "a transaction that its coordinator does not know"
        name = f"transaction {self.transactional_id!r}" if self.transactional_id else unnamed
        since = f"open since {timestamp(self.started_at)}" if self.started_at else "open since an unknown time"
        text = f"{name} of producer {self.producer_id}, from offset {self.first_offset} on, {since}"
        if not self.hangs(now):
            return text
        return (
            f"{text}, which hangs: no coordinator has ended it in time. Its owner ends it by starting again under the "
            "same transactional id, an administrator with: kafka-transactions.sh --bootstrap-server BROKER abort "
            f"--topic {self.topic} --partition {self.partition} --start-offset {self.first_offset}"
        )

    def to_json(self, now: datetime) -> dict[str, Any]:
        """Return the wire form."""
        return {
            "producer_id": self.producer_id,
            "transactional_id": self.transactional_id,
            "first_offset": self.first_offset,
            "started_at": timestamp(self.started_at),
            "last_written_at": timestamp(self.last_written_at),
            "timeout_seconds": self.timeout.total_seconds() if self.timeout else None,
            "hanging": self.hangs(now),
        }


def hanging_error(transactions: Sequence[OpenTransaction], now: datetime) -> HangingTransactionError:
    """Return which transactions keep records from being read; the first of them is described."""
    first = transactions[0]
    more = (
        f". {count(len(transactions) - 1, 'more partition is', 'more partitions are')} held so"
        if len(transactions) > 1
        else ""
    )
    return HangingTransactionError(
        f"{first.topic}/{first.partition} is read no further than offset {first.first_offset}, nor will it be: "
        f"{first.describe(now)}{more}",
        topic=first.topic,
        partition=first.partition,
        transactions=[{"topic": item.topic, "partition": item.partition, **item.to_json(now)} for item in transactions],
    )


def oldest(transactions: Iterable[OpenTransaction]) -> tuple[OpenTransaction, ...]:
    """Return the first transaction of each partition: the one that holds its last stable offset; sorted."""
    first: dict[tuple[str, int], OpenTransaction] = {}
    for item in sorted(transactions, key=lambda item: (item.topic, item.partition, item.first_offset)):
        first.setdefault((item.topic, item.partition), item)
    return tuple(first.values())
