"""Which offsets a person means, and which unfinished waves a run takes for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_lake.core.amounts import NAMED, count, size, some
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.errors import RangeExpiredError, UnavailableError, UsageError, require_streams
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.records import RangeRecord, StreamRecord, WaveRecord
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream, grouped
from airflow_kafka_lake.core.planning.policies import Bounds, Times, below_log_start
from airflow_kafka_lake.core.wire import milliseconds

# Which offsets of which streams a person means: topic, partitions, and a period by offset or by time.

LAST = 2**63 - 1
"""The end of every log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedSlice:
    """A slice of one stream that a person means."""

    stream: StreamRecord
    interval: OffsetRange

    @property
    def slice(self) -> Slice:
        """The slice by the name of its stream."""
        return Slice(self.stream.key, self.interval)

    def __str__(self) -> str:
        return str(self.slice)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamScope:
    """Chosen streams of a pipeline; None is all: topics, generations, partitions."""

    topic: str | None = None
    topic_id: str | None = None
    partitions: frozenset[int] | None = None

    def __contains__(self, stream: Stream) -> bool:
        topic, topic_id, partition = stream
        return (
            self.topic in (None, topic)
            and self.topic_id in (None, topic_id)
            and (self.partitions is None or partition in self.partitions)
        )

    def require(self, pipeline: str, streams: Iterable[StreamRecord]) -> None:
        """Raise UnknownSubjectError where a topic, a generation or a partition is named that none of them is of."""
        keys = (stream.key for stream in streams)
        require_streams(pipeline, keys, topic=self.topic, topic_id=self.topic_id, partitions=self.partitions)


EVERYTHING = StreamScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(StreamScope):
    """Chosen streams and offsets of them; None is also: from the first offset, to the last."""

    start: int | datetime | None = None
    end: int | datetime | None = None

    @property
    def times(self) -> tuple[int, ...]:
        """The times of its edges, in milliseconds since 1970."""
        return tuple(milliseconds(bound) for bound in (self.start, self.end) if isinstance(bound, datetime))

    def refuse_generations(self, found: Sequence[StreamRecord]) -> None:
        """Refuse a topic that was re-created, where no generation of it is chosen."""
        partitions = [stream.key.partition for stream in found]
        if len(set(partitions)) < len(partitions):
            ids = ", ".join(dict.fromkeys(stream.key.topic_id for stream in found))
            raise UsageError(f"topic {self.topic} was re-created: choose a generation with --topic-id, one of {ids}")


def ranges_meant(
    scope: Selection,
    streams: Sequence[StreamRecord],
    answers: Mapping[int, Mapping[tuple[str, int], int | None]],
    ends: Mapping[Stream, int] | None,
) -> dict[Stream, OffsetRange]:
    """Return the offsets of each stream that a scope means; `answers` are the offsets at its times.

    Raises UnavailableError where a time has no answer.
    """

    def last(stream: StreamRecord) -> int:
        return LAST if ends is None else ends[stream.key]

    def edge(bound: int | datetime | None, stream: StreamRecord, without: int) -> int:
        if not isinstance(bound, datetime):
            return without if bound is None else bound
        found, key = answers[milliseconds(bound)], stream.key.place
        if key not in found:
            raise UnavailableError(
                f"Kafka did not say where {bound.isoformat()} begins in {stream.key}. Nothing was decided; repeat when "
                "its partitions have leaders",
                **stream.key.facts,
            )
        offset = found[key]
        return last(stream) if offset is None else offset

    edges = {item.key: (edge(scope.start, item, 0), edge(scope.end, item, last(item))) for item in streams}
    return {key: OffsetRange(start, end) for key, (start, end) in edges.items() if start < end}


def gone_below(
    start: datetime, streams: Iterable[StreamRecord], seen: Mapping[Stream, PartitionSnapshot], times: Times
) -> dict[Stream, OffsetRange]:
    """Return where below the log start, of which nothing is left, something of the period may have been."""
    bounds = Bounds(start=start)
    return {item.key: gone for item in streams if (gone := below_log_start(bounds, seen[item.key], item, times))}


def begins_among_what_is_gone(below: Mapping[Stream, OffsetRange]) -> RangeExpiredError:
    """Return the refusal of a period by time that may begin among offsets whose times Kafka no longer has."""
    first = next(iter(below))
    named = some((f"{stream} {gone}" for stream, gone in below.items()), NAMED, "partition")
    return RangeExpiredError(
        f"the period may begin among offsets that Kafka has no longer: {named}. Nothing "
        "was decided; give offsets there, or a later begin, or the other partitions by name",
        **first.facts,
        log_start=below[first].end,
    )


# Which unfinished waves a run takes: all of its pipeline, or the ones that hold something of the demand.

NAMED_WAVES = 100
"""Waves that a log names; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Document):
    """An unfinished wave, and its slices still to be read; the bytes are Kafka's."""

    wave: str
    plan: str
    table: str
    ranges: int
    estimated_bytes: int

    def describe(self) -> str:
        """Return the wave for a log."""
        about = f"{count(self.ranges, 'range')}, about {size(self.estimated_bytes)} in Kafka"
        return f"wave {self.wave} into {self.table}: {about}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveChoice:
    """The unfinished waves of a run: `taken` by it; `later`, too many for it; `left`, not asked for."""

    taken: tuple[Work, ...] = ()
    later: tuple[Work, ...] = ()
    left: tuple[Work, ...] = ()

    def without(self, waves: Collection[str]) -> WaveChoice:
        """Return the choice without some waves, taken, later and left alike."""
        return WaveChoice(
            taken=tuple(item for item in self.taken if item.wave not in waves),
            later=tuple(item for item in self.later if item.wave not in waves),
            left=tuple(item for item in self.left if item.wave not in waves),
        )

    def only(self, most: int | None) -> WaveChoice:
        """Return the choice with the first `most` waves, the rest of them left; None is no limit."""
        if most is None:
            return self
        rest = (*self.taken[max(0, most) :], *self.later)
        return replace(self, taken=self.taken[: max(0, most)], later=(), left=(*rest, *self.left))

    def at_most(self, most: int) -> WaveChoice:
        """Return the choice of a run that takes no more waves than that; the first are taken."""
        return replace(self, taken=self.taken[:most], later=(*self.taken[most:], *self.later))

    def describe(self, plan: str | None) -> Iterator[str]:
        """Yield a line for every wave; those of `plan`, which is the run's own, are not called earlier ones."""
        for act, works in (("takes", self.taken), ("has no room for", self.later), ("leaves", self.left)):
            for item in works[:NAMED_WAVES]:
                earlier = "" if item.plan == plan else f" (planned earlier, by plan {item.plan})"
                yield f"this run {act} {item.describe()}{earlier}"
            if rest := works[NAMED_WAVES:]:
                weight = size(sum(item.estimated_bytes for item in rest))
                yield f"this run {act} {count(len(rest), 'more wave')}, about {weight} in Kafka"


def choose(
    waves: Iterable[WaveRecord], planned: Iterable[RangeRecord], asked: Mapping[Stream, OffsetRange] | None
) -> WaveChoice:
    """Choose from unfinished waves by their PLANNED offsets; `asked` None takes every one of them.

    By the offsets and not by the plan: waves that an earlier run has begun of the same offsets are asked for again, and
    so are waves into which others have come apart.
    """
    ranges = grouped((item.wave, item) for item in planned)
    taken: list[Work] = []
    left: list[Work] = []
    for wave in waves:
        mine = ranges[wave.id]
        is_asked = asked is None or any(i.stream in asked and i.range.overlaps(asked[i.stream]) for i in mine)
        size = sum(item.estimated_bytes for item in mine)
        work = Work(wave=wave.id, plan=wave.plan, table=wave.table, ranges=len(mine), estimated_bytes=size)
        (taken if is_asked else left).append(work)
    return WaveChoice(taken=tuple(taken), left=tuple(left))
