"""Which offsets of which streams a person means: topic, partitions, and a period by offset or by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import RangeExpiredError, UnavailableError, UsageError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.kafka.times import Times, milliseconds
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.naming import require_streams
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds, below_log_start
from airflow_kafka_lake.core.slices import Stream

LAST = 2**63 - 1
"""The end of every log."""

NAMED = 5
"""Partitions that a refusal names; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A slice of one stream that a person means."""

    stream: StreamRecord
    interval: OffsetRange

    def __str__(self) -> str:
        return f"{self.stream.key} {self.interval}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is meant; None is everything: all topics, generations, partitions, from the first offset, to the last."""

    topic: str | None = None
    topic_id: str | None = None
    partitions: frozenset[int] | None = None
    start: int | datetime | None = None
    end: int | datetime | None = None

    def has(self, stream: Stream) -> bool:
        """Return whether a stream is meant."""
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
        found, key = answers[milliseconds(bound)], (stream.key.topic, stream.key.partition)
        if key not in found:
            raise UnavailableError(
                f"Kafka did not say where {bound.isoformat()} begins in {stream.key}. Nothing was decided; repeat when "
                "its partitions have leaders",
                topic=stream.key.topic,
                partition=stream.key.partition,
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
    named = [f"{stream} {gone}" for stream, gone in below.items()]
    more = f" and {count(len(named) - NAMED, 'more partition')}" if len(named) > NAMED else ""
    return RangeExpiredError(
        f"the period may begin among offsets that Kafka has no longer: {', '.join(named[:NAMED])}{more}. Nothing was "
        "decided; give offsets there, or a later begin, or the other partitions by name",
        topic=first.topic,
        partition=first.partition,
        log_start=below[first].end,
    )
