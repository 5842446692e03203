"""Find the streams and offsets that a selection means, and carry out a decision about several streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from airflow_kafka_lake.core.errors import KafkaLakeError, UnavailableError, UsageError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange, Stream
from airflow_kafka_lake.core.planning.plan import BY_TIME, none_of
from airflow_kafka_lake.core.planning.policies import FIRST, Times
from airflow_kafka_lake.core.planning.selection import (
    SelectedSlice,
    Selection,
    begins_among_what_is_gone,
    gone_below,
    ranges_meant,
)
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services.identity import changed_topics, moved

T = TypeVar("T")
U = TypeVar("U")


def slices(
    ports: Ports, streams: Sequence[StreamRecord], scope: Selection, ends: Mapping[Stream, int] | None = None
) -> dict[Stream, OffsetRange]:
    """Return the offsets of each stream that a scope means; a stream without any is left out.

    `ends` bound a time after the last record, which has no offset. Raises IdentityError for a period by time of
    a topic that is not there any more, UnavailableError when Kafka does not say where a time begins.
    """
    if scope.times:
        _refuse_changed(ports, streams)
    partitions = [item.key.place for item in streams]
    answers = {at: ports.source.offsets_at(partitions, at) for at in scope.times} if streams else {}
    return ranges_meant(scope, streams, answers, ends)


def choose(ports: Ports, pipeline: str, selection: Selection) -> tuple[SelectedSlice, ...]:
    """Return a selection's slices of a pipeline's streams, sorted; a time after the last record is the log's end.

    Raises UnknownSubjectError for a partition that the pipeline has not, UsageError where a topic was re-created and no
    generation is chosen, or where no partition has an offset in the period, RangeExpiredError where a period by time
    may begin among offsets that are gone: its rest would be taken for all of it; UnavailableError where retention went
    on while offsets by time were asked for.
    """
    streams = ports.ledger.streams(pipeline)
    selection.require(pipeline, streams)
    found = [stream for stream in streams if stream.key in selection]
    selection.refuse_generations(found)
    ends = None
    if selection.times:
        _refuse_changed(ports, found)
        snapshot = ports.source.snapshot(sorted({stream.key.topic for stream in found}), None)
        seen = {item.stream: item for item in snapshot.partitions}
        ends = {key: item.high_watermark for key, item in seen.items()}
        if silent := [stream for stream in found if stream.key not in ends]:
            raise UnavailableError(
                f"{silent[0].key} could not be observed. Nothing was decided; repeat when Kafka answers",
                **silent[0].key.facts,
            )
        refuse_gone(ports, selection.start, found, seen)
    meant = slices(ports, found, selection, ends)
    if selection.times and (gone := moved(ports, {key: item.log_start for key, item in seen.items()})):
        raise UnavailableError(
            f"Kafka deleted records of {gone[0]} while the offsets of times were asked for. Nothing was decided; "
            "repeat when it has deleted what its retention asks for"
        )
    if not meant:
        raise UsageError(f"no partition of {selection.topic} has an offset in this period: correct --from or --to")
    if selection.times:
        ports.progress(BY_TIME)
        if without := [stream.key for stream in found if stream.key not in meant]:
            ports.progress(none_of(without))
    return tuple(SelectedSlice(stream=stream, interval=meant[stream.key]) for stream in found if stream.key in meant)


def _refuse_changed(ports: Ports, streams: Sequence[StreamRecord]) -> None:
    for changed in changed_topics(ports, {item.key[:2] for item in streams}).values():
        raise type(changed)(f"{changed.message}. Kafka cannot tell times of it: give offsets", **changed.facts)


def refuse_gone(
    ports: Ports,
    start: int | datetime | None,
    streams: Sequence[StreamRecord],
    seen: Mapping[Stream, PartitionSnapshot],
) -> None:
    """Refuse a start by time that may lie among deleted offsets: which of them belong to the period is unknown."""
    streams = [item for item in streams if item.key in seen]
    if not isinstance(start, datetime) or not streams:
        return
    partitions = [item.key.place for item in streams]
    times = Times({at: ports.source.offsets_at(partitions, at) for at in (FIRST, milliseconds(start))})
    if below := gone_below(start, streams, seen, times):
        raise begins_among_what_is_gone(below)


def all_or_nothing(chosen: Sequence[SelectedSlice], prepare: Callable[[SelectedSlice], T]) -> list[T]:
    """Prepare every part before any is carried out; when one is refused, nothing is done and all refusals are named."""
    prepared: list[T] = []
    refused: list[tuple[SelectedSlice, KafkaLakeError]] = []
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
        f"nothing was done: {len(refused):,} of {len(chosen):,} partitions are refused. {each}", **first.facts
    )


def one_by_one(chosen: Sequence[SelectedSlice], parts: Sequence[T], carry_out: Callable[[T], U]) -> list[U]:
    """Carry out prepared parts, each a decision of its own; an error names the parts done and not done."""
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
