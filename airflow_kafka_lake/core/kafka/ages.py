"""How old the first unread record of each partition is, found by asking Kafka for offsets by time.

A search by halves over fixed ages, for all partitions at once: a few calls, whatever the number of partitions, and no
record is read. What Kafka answers goes by the records' own timestamps, as producers or the broker wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from airflow_kafka_lake.core.kafka.times import milliseconds

_FIRST_SECONDS, _GROWTH, _STEPS = 60, 1.25, 63
AGES = tuple(round(_FIRST_SECONDS * _GROWTH**number) for number in range(_STEPS))
"""Seconds that are asked about: from a minute to almost two years, each a quarter more than the one before."""

_MILLI = 1000

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """An age in seconds: at least `seconds`, and less than `below`, which is None beyond the oldest age."""

    seconds: int
    below: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeSearch:
    """What is known so far: for each partition its first unread offset, and between which two ages its record is.

    `young` is the place in `AGES` of the oldest age that the record has passed, -1 for none; `old` is that of the
    youngest age that it has not passed.
    """

    now_ms: int
    heads: Mapping[Key, int]
    young: Mapping[Key, int]
    old: Mapping[Key, int]

    @classmethod
    def of(cls, heads: Mapping[Key, int], now: datetime) -> Self:
        """Begin for partitions with something unread, each with its first unread offset."""
        return cls(
            now_ms=milliseconds(now),
            heads=heads,
            young=dict.fromkeys(heads, -1),
            old=dict.fromkeys(heads, len(AGES)),
        )

    def questions(self) -> dict[Key, int]:
        """Return the time, in milliseconds, to ask each partition about next; none when all is known."""
        return {
            key: self.now_ms - AGES[self._middle(key)] * _MILLI
            for key in self.heads
            if self.old[key] - self.young[key] > 1
        }

    def after(self, answers: Mapping[Key, int | None]) -> Self:
        """Return what is known with Kafka's answers: the first offset at or after each time, None for no such record.

        When that offset lies above the first unread one, everything between is older than the time that was asked for.
        """
        young, old = dict(self.young), dict(self.old)
        for key, found in answers.items():
            passed = found is None or found > self.heads[key]
            (young if passed else old)[key] = self._middle(key)
        return replace(self, young=young, old=old)

    def ages(self) -> dict[Key, Age]:
        """Return the ages, as far as they are known."""
        return {
            key: Age(
                seconds=0 if self.young[key] < 0 else AGES[self.young[key]],
                below=None if self.old[key] == len(AGES) else AGES[self.old[key]],
            )
            for key in self.heads
        }

    def _middle(self, key: Key) -> int:
        return (self.young[key] + self.old[key]) // 2
