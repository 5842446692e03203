"""Which unfinished waves a run takes: all of its pipeline, or those that hold something of what was asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_kafka_lake.core.amounts import count, size
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRecord
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Stream

NAMED = 100
"""Waves that a log names; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An unfinished wave, and what of it is still to be read; `bytes` are Kafka's, estimated."""

    wave: str
    plan: str
    table: str
    ranges: int
    bytes: int

    def describe(self) -> str:
        """Return the wave for a log."""
        return f"wave {self.wave} into {self.table}: {count(self.ranges, 'range')}, about {size(self.bytes)} in Kafka"

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "wave": self.wave,
            "plan": self.plan,
            "table": self.table,
            "ranges": self.ranges,
            "estimated_bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The unfinished waves that a run takes, those that are too many for it and stay for the next run, and those that
    it leaves to a run that asks for them."""

    taken: tuple[Work, ...] = ()
    later: tuple[Work, ...] = ()
    left: tuple[Work, ...] = ()

    def without(self, waves: Collection[str]) -> Choice:
        """Return the choice without some waves, taken, later and left alike."""
        return Choice(
            taken=tuple(item for item in self.taken if item.wave not in waves),
            later=tuple(item for item in self.later if item.wave not in waves),
            left=tuple(item for item in self.left if item.wave not in waves),
        )

    def only(self, most: int | None) -> Choice:
        """Return the choice of a run that is asked for no more waves than that: it takes the first, and leaves the rest
        as it leaves all that it is not asked for. None: for as many as there are."""
        if most is None:
            return self
        rest = (*self.taken[max(0, most) :], *self.later)
        return replace(self, taken=self.taken[: max(0, most)], later=(), left=(*rest, *self.left))

    def at_most(self, most: int) -> Choice:
        """Return the choice of a run that takes no more waves than that; the first are taken."""
        return replace(self, taken=self.taken[:most], later=(*self.taken[most:], *self.later))

    def describe(self, plan: str | None) -> Iterator[str]:
        """Yield a line for every wave; those of `plan`, which is the run's own, are not called earlier ones."""
        for act, works in (("takes", self.taken), ("has no room for", self.later), ("leaves", self.left)):
            for item in works[:NAMED]:
                earlier = "" if item.plan == plan else f" (planned earlier, by plan {item.plan})"
                yield f"this run {act} {item.describe()}{earlier}"
            if rest := works[NAMED:]:
                weight = size(sum(item.bytes for item in rest))
                yield f"this run {act} {count(len(rest), 'more wave')}, about {weight} in Kafka"


def choose(
    waves: Iterable[WaveRecord], planned: Iterable[RangeRecord], asked: Mapping[Stream, OffsetRange] | None
) -> Choice:
    """Choose from unfinished waves by what is PLANNED of them; `asked` None takes every one of them.

    By the offsets and not by the plan: what an earlier run has begun of the same offsets is asked for again, and so are
    waves into which others have come apart.
    """
    ranges: dict[str, list[RangeRecord]] = defaultdict(list)
    for item in planned:
        ranges[item.wave].append(item)
    taken: list[Work] = []
    left: list[Work] = []
    for wave in waves:
        mine = ranges[wave.id]
        (taken if asked is None or _holds(mine, asked) else left).append(_work(wave, mine))
    return Choice(taken=tuple(taken), left=tuple(left))


def _work(wave: WaveRecord, planned: Sequence[RangeRecord]) -> Work:
    size = sum(item.estimated_bytes for item in planned)
    return Work(wave=wave.id, plan=wave.plan, table=wave.table, ranges=len(planned), bytes=size)


def _holds(planned: Iterable[RangeRecord], asked: Mapping[Stream, OffsetRange]) -> bool:
    return any(item.stream in asked and item.range.overlaps(asked[item.stream]) for item in planned)
