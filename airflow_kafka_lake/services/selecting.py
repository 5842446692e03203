"""Which offsets of which streams a person means: topic, partitions, and a period by offset or by time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from airflow_kafka_lake.core.errors import (
    KafkaLakeError,
    RangeExpiredError,
    UnavailableError,
    UsageError,
)
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.kafka.times import FIRST, Times, milliseconds
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.naming import require_streams
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds, below_log_start
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.topics import changed_topics

LAST = 2**63 - 1
"""The end of every log."""

NAMED = 5
"""Partitions that a refusal names; more are counted."""


T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A stretch of one stream that a person means."""

    stream: StreamRecord
    stretch: OffsetRange

    def __str__(self) -> str:
        return f"{self.stream.key} {self.stretch}"


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


def stretches(
    ports: Ports, streams: Sequence[StreamRecord], scope: Selection, ends: Mapping[Stream, int] | None = None
) -> dict[Stream, OffsetRange]:
    """Return the offsets of each stream that a scope means; a stream of which it means none is left out.

    `ends` bound what has no end by itself: a time after the last record. Raises IdentityError for a period by time of
    a topic that is not there any more, UnavailableError when Kafka does not say where a time begins.
    """
    if scope.times:
        _refuse_changed(ports, streams)
    partitions = [(item.key.topic, item.key.partition) for item in streams]
    answers = {at: ports.source.offsets_at(partitions, at) for at in scope.times} if streams else {}

    def edge(bound: int | datetime | None, stream: StreamRecord, without: int) -> int:
        if not isinstance(bound, datetime):
            return without if bound is None else bound
        found = answers[milliseconds(bound)]
        if (stream.key.topic, stream.key.partition) not in found:
            raise UnavailableError(
                f"Kafka did not say where {bound.isoformat()} begins in {stream.key}. Nothing "
                "was decided; repeat when its partitions have leaders",
                topic=stream.key.topic,
                partition=stream.key.partition,
            )
        offset = found[stream.key.topic, stream.key.partition]
        return last(stream) if offset is None else offset

    def last(stream: StreamRecord) -> int:
        return LAST if ends is None else ends[stream.key]

    edges = {item.key: (edge(scope.start, item, 0), edge(scope.end, item, last(item))) for item in streams}
    return {key: OffsetRange(start, end) for key, (start, end) in edges.items() if start < end}


def choose(ports: Ports, pipeline: str, selection: Selection) -> tuple[Chosen, ...]:
    """Return what a selection means of a pipeline's streams, sorted; a time after the last record is the log's end.

    Raises UnknownSubjectError for a partition that the pipeline has not, UsageError where a topic was re-created and no
    generation is chosen, or where no partition has an offset in the period, RangeExpiredError where a period by time
    may begin among offsets that are gone: what is left of it would be taken for all of it.
    """
    streams = ports.ledger.streams(pipeline)
    selection.require(pipeline, streams)
    found = [stream for stream in streams if selection.has(stream.key)]
    _refuse_generations(selection, found)
    ends = None
    if selection.times:
        _refuse_changed(ports, found)
        snapshot = ports.source.snapshot(sorted({stream.key.topic for stream in found}), None)
        seen = {item.stream: item for item in snapshot.partitions}
        ends = {key: item.high_watermark for key, item in seen.items()}
        if silent := [stream for stream in found if stream.key not in ends]:
            raise UnavailableError(
                f"{silent[0].key.topic}/{silent[0].key.partition} could not be observed. Nothing was "
                "decided; repeat when "
                "Kafka answers",
                topic=silent[0].key.topic,
                partition=silent[0].key.partition,
            )
        refuse_gone(ports, selection.start, found, seen)
    meant = stretches(ports, found, selection, ends)
    if not meant:
        raise UsageError(f"no partition of {selection.topic} has an offset in this period: correct --from or --to")
    return tuple(Chosen(stream=stream, stretch=meant[stream.key]) for stream in found if stream.key in meant)


def _refuse_changed(ports: Ports, streams: Sequence[StreamRecord]) -> None:
    for gone in changed_topics(ports, {item.key[:2] for item in streams}).values():
        raise type(gone)(f"{gone.message}. Kafka cannot tell times of it: give offsets", **gone.facts)


def refuse_gone(
    ports: Ports,
    start: int | datetime | None,
    streams: Sequence[StreamRecord],
    seen: Mapping[Stream, PartitionSnapshot],
) -> None:
    """Refuse a begin by time below which nothing is left, where something was: nobody can tell any more which of it is
    of the period."""
    streams = [item for item in streams if item.key in seen]
    if not isinstance(start, datetime) or not streams:
        return
    partitions = [(item.key.topic, item.key.partition) for item in streams]
    times = Times({at: ports.source.offsets_at(partitions, at) for at in (FIRST, milliseconds(start))})
    bounds = Bounds(start=start)
    below = {item: gone for item in streams if (gone := below_log_start(bounds, seen[item.key], item, times))}
    if not below:
        return
    first = next(iter(below))
    named = [f"{item.key} {gone}" for item, gone in below.items()]
    more = f" and {len(named) - NAMED} more partitions" if len(named) > NAMED else ""
    raise RangeExpiredError(
        f"the period may begin among offsets that Kafka has no longer: {', '.join(named[:NAMED])}{more}. Nothing was "
        "decided; give offsets there, or a later begin, or the other partitions by name",
        topic=first.key.topic,
        partition=first.key.partition,
        log_start=below[first].end,
    )


def _refuse_generations(selection: Selection, found: Sequence[StreamRecord]) -> None:
    partitions = [stream.key.partition for stream in found]
    if len(set(partitions)) < len(partitions):
        ids = ", ".join(dict.fromkeys(stream.key.topic_id for stream in found))
        raise UsageError(f"topic {selection.topic} was re-created: choose a generation with --topic-id, one of {ids}")


def all_or_nothing(chosen: Sequence[Chosen], prepare: Callable[[Chosen], T]) -> list[T]:
    """Prepare every part before any is carried out; when one is refused nothing is done, and all refusals are named."""
    prepared: list[T] = []
    refused: list[tuple[Chosen, KafkaLakeError]] = []
    for item in chosen:
        try:
            prepared.append(prepare(item))
        except KafkaLakeError as error:
            refused.append((item, error))
    if not refused:
        return prepared
    first = refused[0][1]
    if len(chosen) == 1:
        raise first
    each = "; ".join(f"{item}: {error.message}" for item, error in refused)
    raise type(first)(
        f"nothing was done: {len(refused)} of {len(chosen)} partitions are refused. {each}", **first.facts
    )


def one_by_one(chosen: Sequence[Chosen], parts: Sequence[T], carry_out: Callable[[T], U]) -> list[U]:
    """Carry out prepared parts, each a decision of its own; when one fails, what was done and what was not is named."""
    done: list[U] = []
    for number, part in enumerate(parts):
        try:
            done.append(carry_out(part))
        except KafkaLakeError as error:
            if len(parts) == 1:
                raise
            before, left = ([str(item) for item in some] for some in (chosen[:number], chosen[number:]))
            raise type(error)(
                f"{error.message}. Done: {', '.join(before) or 'nothing'}. Not done: {', '.join(left)}. Repeat the "
                "call: what is done stays as it is",
                **(error.facts | {"done": before, "not_done": left}),
            ) from error
    return done
