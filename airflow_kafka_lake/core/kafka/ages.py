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

_MINUTE, _HOUR, _DAY, _MILLI = 60, 3600, 86_400, 1000
AGES = (
    *(_MINUTE * number for number in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)),
    *(_HOUR * number // 4 for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 60, 72, 84)),
    *(_DAY * number // 4 for number in (4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 36, 44, 56, 68)),
    *(
        _DAY * number
        for number in (21, 25, 30, 35, 42, 50, 60, 75, 90, 110, 135, 165, 200, 250, 300, 365, 450, 550, 700)
    ),
)
"""Seconds that are asked about, 63 of them, so that six questions find one's place: round ones, from a minute to almost
two years. From three minutes on none is more than a third above the one before."""

Key = tuple[str, int]
"""`(topic, partition)`."""

Unread = tuple[Key, int]
"""A partition and the first offset in it that was not read."""

MOST, MOST_READERS = 1_000, 8
"""Of how many partitions, and of how many readers of one partition that are not equally far, ages are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """An age in seconds: at least `seconds`, and at most `below`, which is None beyond the oldest age."""

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

    def ages(self) -> dict[Unread, Age]:
        """Return the ages, as far as they are known."""
        return {
            (key, head): Age(
                seconds=0 if self.young[key] < 0 else AGES[self.young[key]],
                below=None if self.old[key] == len(AGES) else AGES[self.old[key]],
            )
            for key, head in self.heads.items()
        }

    def _middle(self, key: Key) -> int:
        return (self.young[key] + self.old[key]) // 2


def searches(unread: Mapping[Unread, int], now: datetime) -> tuple[AgeSearch, ...]:
    """Return what to search for some first unread offsets, each with how much is unread; of too many, those with most.

    Two in one partition need two searches, as Kafka is asked about one time of a partition at once.
    """
    found: list[dict[Key, int]] = []
    for key, first in sorted(unread, key=lambda one: (-unread[one], one)):
        place = next((heads for heads in found if key not in heads), None)
        if place is None and len(found) < MOST_READERS:
            found.append(place := {})
        if place is not None and len(place) < MOST:
            place[key] = first
    return tuple(AgeSearch.of(heads, now) for heads in found)
