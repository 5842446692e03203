"""Periods by time: where they lie in Kafka's offsets, and in which words a period is refused that holds nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from airflow_kafka_lake.core.errors import EmptyPeriodError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Sample, waiting_for_stable
from airflow_kafka_lake.core.kafka.times import Times, milliseconds
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.periods import Period
from airflow_kafka_lake.core.planning.plan import Asked
from airflow_kafka_lake.core.planning.policies import Bounds, gone_in_doubt, start_in_doubt, times_needed
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.core.wire import instant, timestamp
from airflow_kafka_lake.ports import Ports

_SAMPLED = 8
"""Partitions whose first and last records are read for a message; both ends of them are one small sample."""
_NAMED = 3
"""Partitions whose offsets a message names: the largest."""
_TAIL = 10
"""Offsets at a log's end that are searched for a record: the last ones may be transaction markers."""


def times_of(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    selected: Sequence[PartitionSnapshot],
    known: Mapping[Stream, StreamRecord],
) -> Times:
    """Ask Kafka where times lie; for partitions that may have lost the begin of the period, or of what is to be read at
    all, when their log begins."""
    partitions = [(item.stream.topic, item.stream.partition) for item in selected]
    new = {item.stream for item in selected} - known.keys()
    needed = times_needed(spec, bounds, new=bool(new))
    times = Times({at: ports.source.offsets_at(partitions, at) for at in needed})
    doubts = [
        item
        for item in selected
        if gone_in_doubt(bounds, item, known.get(item.stream), times)
        or (item.stream in new and start_in_doubt(spec, item, times))
    ]
    heads = [stretch for item in doubts[:_SAMPLED] if (stretch := _head(item, spec))]
    samples = ports.source.sample(heads, spec.isolation) if heads else ()
    firsts = {
        (s.stream.topic, s.stream.partition): s.first_timestamp_ms for s in samples if s.first_timestamp_ms is not None
    }
    return Times(times.answers, firsts)


def period_of(
    ports: Ports,
    spec: PipelineSpec,
    bounds: Bounds,
    asked: Sequence[Asked],
    known: Mapping[Stream, StreamRecord],
    times: Times,
    *,
    everything: bool,
) -> Period | None:
    """Return what lies in the period, None where none was asked for.

    Raises EmptyPeriodError when nothing does, if `everything` that was asked for could be looked at.
    """
    if not bounds.is_period:
        return None
    offsets = landed = planned = 0
    for item in asked:
        if item.start < item.end:
            stretch, record = OffsetRange(item.start, item.end), known.get(item.snapshot.stream)
            offsets += stretch.span
            landed += record.covered.within(stretch).span if record else 0
            planned += (record.planned - record.covered).within(stretch).span if record else 0
    below = any(item.landed_below for item in asked)
    if everything and not offsets and not below:
        raise _nothing_lies(ports, spec, bounds, [item.snapshot for item in asked])
    until = bounds.end if isinstance(bounds.end, datetime) else None
    unended = [item.snapshot for item in asked if until and times.found(milliseconds(until), item.snapshot) is None]
    return Period(
        offsets=offsets,
        landed=landed,
        planned=planned,
        landed_below=below,
        until=until,
        unended=tuple((item.stream.topic, item.stream.partition) for item in unended),
    )


def _nothing_lies(
    ports: Ports, spec: PipelineSpec, bounds: Bounds, partitions: Sequence[PartitionSnapshot]
) -> EmptyPeriodError:
    largest = sorted(partitions, key=lambda item: item.log_start - item.high_watermark)[:_SAMPLED]
    ends = [stretch for item in largest for stretch in (_head(item, spec), _tail(item, spec)) if stretch]
    samples = ports.source.sample(ends, spec.isolation) if ends else ()
    earliest, newest = _times(samples)
    has = [f"Kafka's records go from {earliest} to {newest}"] if earliest and newest else []
    has += [
        f"{item.stream} has offsets {item.log_start}-{item.readable_end(spec.isolation)}"
        if item.log_start < item.readable_end(spec.isolation)
        else f"{item.stream} has none"
        for item in largest[:_NAMED]
    ]
    open_ = [
        f"{item.stream} is stable to {item.last_stable} of {item.high_watermark}: a transaction is open"
        for item in waiting_for_stable(largest, spec.isolation)
    ]
    return EmptyPeriodError(
        f"nothing lies in the period {_in_words(bounds)} of pipeline {spec.name}: {'; '.join((*has, *open_))}. Correct "
        "the period, or leave it out to read what is missing",
        pipeline=spec.name,
        earliest=earliest,
        newest=newest,
    )


def _times(samples: Sequence[Sample]) -> tuple[str | None, str | None]:
    firsts = [at for s in samples if s.first_timestamp_ms is not None and (at := instant(s.first_timestamp_ms))]
    lasts = [at for s in samples if s.last_timestamp_ms is not None and (at := instant(s.last_timestamp_ms))]
    return timestamp(min(firsts, default=None)), timestamp(max(lasts, default=None))


def _head(item: PartitionSnapshot, spec: PipelineSpec) -> Slice | None:
    end = item.readable_end(spec.isolation)
    return Slice(item.stream, OffsetRange(item.log_start, end)) if item.log_start < end else None


def _tail(item: PartitionSnapshot, spec: PipelineSpec) -> Slice | None:
    end = item.readable_end(spec.isolation)
    start = max(item.log_start, end - _TAIL)
    return Slice(item.stream, OffsetRange(start, end)) if start < end else None


def _in_words(bounds: Bounds) -> str:
    start, end = (timestamp(at) if isinstance(at, datetime) else at for at in (bounds.start, bounds.end))
    return f"from {'the origin' if start is None else start} to {'the end policy' if end is None else end}"
