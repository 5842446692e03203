"""Which records of a staging branch exist nowhere else, and the refusal that names the two ways on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import IdentityError, KafkaLakeError, LostRecordsError
from airflow_kafka_lake.core.lake.staging import RETAIN_DAYS, branch_of
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.wire import timestamp

NAMED = 5
"""Partitions that a refusal names; more are counted."""

Offsets = Mapping[Stream, RangeSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A branch that is to stay: its table, what is known of its attempt, and how a person gives it up."""

    table: str
    pipeline: str
    attempt: str
    give_up: str
    wave: str | None = None
    since: datetime | None = None

    def refusal(self, offsets: Offsets, *, why: str | None = None) -> str:
        """Return which records are only there, and what to do: publish them, or give them up.

        `why` is what keeps it from being published as it is, with what to do about that.
        """
        parts = [f"{key} {found.describe()}, {count(found.span, 'offset')}" for key, found in sorted(offsets.items())]
        more = f" and of {count(len(parts) - NAMED, 'more partition')}" if len(parts) > NAMED else ""
        whose = f" of wave {self.wave}" if self.wave else ""
        until = f", which an expiry of snapshots may drop from {timestamp(self._until)} on" if self._until else ""
        return (
            f"what attempt {self.attempt} has staged{whose} is the only copy of {'; '.join(parts[:NAMED])}{more}: "
            f"Kafka has them no more. It stays on branch {branch_of(self.attempt)} of {self.table}{until}. "
            + (why or f"Let it be published first: {remedies.run(self.pipeline)}")
            + f". To give it up: {self.give_up}"
        )

    @property
    def _until(self) -> datetime | None:
        return self.since and self.since + timedelta(days=RETAIN_DAYS)


def lost_by_kafka(
    ranges: Iterable[RangeRecord], failed: Mapping[str, KafkaLakeError], passed: Slice | None = None
) -> Offsets:
    """Return which offsets of some ranges cannot be read again, less those that a person passes unread.

    `failed` says by range what became of topic and log.
    """
    found: dict[Stream, RangeSet] = {}
    for item in ranges:
        error = failed.get(item.id)
        gone = NOTHING
        if isinstance(error, IdentityError):
            gone = RangeSet((item.range,))
        elif isinstance(error, LostRecordsError):
            gone = RangeSet((error.lost or item.range,))
        if passed and (item.stream.topic_id, item.stream.partition) == (
            passed.stream.topic_id,
            passed.stream.partition,
        ):
            gone -= RangeSet((passed.range,))
        if gone:
            found[item.stream] = found.get(item.stream, NOTHING) | gone
    return found
