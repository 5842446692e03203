"""Which offsets of which streams a person means: topic, partitions, and a period by offset or by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.policies import milliseconds
from airflow_kafka_lake.core.streams import StreamKey, StreamRecord
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.topics import changed_topics

LAST = 2**63 - 1
"""The end of every log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is meant; None is everything: all topics, generations, partitions, from the first offset, to the last."""

    topic: str | None = None
    topic_id: str | None = None
    partitions: frozenset[int] | None = None
    start: int | datetime | None = None
    end: int | datetime | None = None

    def has(self, stream: StreamKey) -> bool:
        """Return whether a stream is meant."""
        topic, topic_id, partition = stream
        return (
            self.topic in (None, topic)
            and self.topic_id in (None, topic_id)
            and (self.partitions is None or partition in self.partitions)
        )

    @property
    def times(self) -> tuple[int, ...]:
        """The times of its edges, in milliseconds since 1970."""
        return tuple(milliseconds(bound) for bound in (self.start, self.end) if isinstance(bound, datetime))


def stretches(
    ports: Ports, streams: Sequence[StreamRecord], scope: Selection, ends: Mapping[StreamKey, int] | None = None
) -> dict[StreamKey, OffsetRange]:
    """Return the offsets of each stream that a scope means; a stream of which it means none is left out.

    `ends` bound what has no end by itself: a time after the last record. Raises IdentityError for a period by time of
    a topic that is not there any more, UnavailableError when Kafka does not say where a time begins.
    """
    if scope.times:
        for gone in changed_topics(ports, {item.key[:2] for item in streams}).values():
            raise type(gone)(f"{gone.message}. Kafka cannot tell times of it: give offsets", **gone.facts)
    partitions = [(item.topic, item.partition) for item in streams]
    answers = {at: ports.source.offsets_at(partitions, at) for at in scope.times} if streams else {}

    def edge(bound: int | datetime | None, stream: StreamRecord, without: int) -> int:
        if not isinstance(bound, datetime):
            return without if bound is None else bound
        found = answers[milliseconds(bound)]
        if (stream.topic, stream.partition) not in found:
            raise UnavailableError(
                f"Kafka did not say where {bound.isoformat()} begins in {stream.topic}/{stream.partition}. Nothing "
                "was decided; repeat when its partitions have leaders",
                topic=stream.topic,
                partition=stream.partition,
            )
        offset = found[stream.topic, stream.partition]
        return last(stream) if offset is None else offset

    def last(stream: StreamRecord) -> int:
        return LAST if ends is None else ends[stream.key]

    edges = {item.key: (edge(scope.start, item, 0), edge(scope.end, item, last(item))) for item in streams}
    return {key: OffsetRange(start, end) for key, (start, end) in edges.items() if start < end}
