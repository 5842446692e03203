"""What of a period that a person asks for is in Kafka, in the lake, and still to come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.wire import timestamp

NAMED = 5
"""Partitions that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What lies in a period, in offsets over all partitions that can be read.

    `landed` of the `offsets` were committed or skipped before, `planned` were planned before and are not in the lake
    yet. `unended` are the partitions in which no record is as late as the end `until`. `landed_below`: what the period
    may hold below a log start was planned before; how much of it is not known any more.
    """

    offsets: int = 0
    landed: int = 0
    planned: int = 0
    landed_below: bool = False
    until: datetime | None = None
    unended: tuple[Stream, ...] = ()

    def describe(self) -> tuple[str, ...]:
        """Return how much lies in the period and what of it was there before; then what may still come, if anything."""
        known = [f"{number:,} {words}" for number, words in self._parts() if number]
        if self.landed_below:
            known.append("what Kafka has no longer was planned earlier")
        return (
            f"{count(self.offsets, 'offset lies', 'offsets lie')} in the period: {', '.join(known)}",
            *self._to_come(),
        )

    def _parts(self) -> tuple[tuple[int, str], ...]:
        new = self.offsets - self.landed - self.planned
        return (self.landed, "in the lake already"), (self.planned, "planned earlier"), (new, "not planned before")

    def _to_come(self) -> tuple[str, ...]:
        if not self.unended:
            return ()
        named = ", ".join(map(str, self.unended[:NAMED]))
        more = f" and {count(len(self.unended) - NAMED, 'more partition')}" if len(self.unended) > NAMED else ""
        text = f"Kafka has no record as late as {timestamp(self.until)} in {named}{more}"
        return (f"{text}: read as far as they go; what is written there later needs another run",)

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "offsets": self.offsets,
            "in_lake": self.landed,
            "planned": self.planned,
            "gone_and_planned": self.landed_below,
            "unended": [[item.topic, item.partition] for item in self.unended],
            "messages": list(self.describe()),
        }
