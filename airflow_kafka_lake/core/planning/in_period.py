"""How much lies in a period that is asked for, and the refusal of one that holds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from airflow_kafka_lake.core.errors import EmptyPeriodError
from airflow_kafka_lake.core.kafka.snapshots import PartitionSnapshot, Sample, waiting_for_stable
from airflow_kafka_lake.core.kafka.times import Times, milliseconds
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.facts import SAMPLED, Facts
from airflow_kafka_lake.core.planning.periods import Period
from airflow_kafka_lake.core.planning.plan import Asked
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.core.wire import instant, timestamp

NOT_KNOWN = "a time that is not known"
_NAMED = 3
"""Partitions whose offsets a message names: the largest."""
_TAIL = 10
"""Offsets at a log's end that are searched for a record: the last ones may be transaction markers."""


def period_of(
    bounds: Bounds, asked: Iterable[Asked], known: Mapping[Stream, StreamRecord], times: Times
) -> Period | None:
    """Return what lies in the period, None where none was asked for."""
    if not bounds.is_period:
        return None
    asked = tuple(asked)
    offsets = landed = planned = 0
    for item in asked:
        if item.start < item.end:
            interval, record = OffsetRange(item.start, item.end), known.get(item.snapshot.stream)
            offsets += interval.span
            landed += record.covered.within(interval).span if record else 0
            planned += (record.planned - record.covered).within(interval).span if record else 0
    below = any(item.landed_below for item in asked)
    until = bounds.end if isinstance(bounds.end, datetime) else None
    unended = [item.snapshot for item in asked if until and times.found(milliseconds(until), item.snapshot) is None]
    return Period(
        offsets=offsets,
        landed=landed,
        planned=planned,
        landed_below=below,
        until=until,
        unended=tuple(item.stream for item in unended),
    )


def ends_of(facts: Facts, asked: Sequence[Asked]) -> list[Slice]:
    """Return where records are sampled to say which times Kafka has: both ends of the largest partitions."""
    found = (part for item in _largest(asked) for part in _both_ends(item, facts.spec.isolation))
    return [item for item in found if item]


def _both_ends(item: PartitionSnapshot, isolation: Isolation) -> tuple[Slice | None, Slice | None]:
    whole = item.readable(isolation)
    tail = whole and whole.part(OffsetRange(max(item.log_start, whole.range.end - _TAIL), whole.range.end))
    return whole, tail


def _largest(asked: Sequence[Asked]) -> list[PartitionSnapshot]:
    partitions = (item.snapshot for item in asked)
    return sorted(partitions, key=lambda item: item.log_start - item.high_watermark)[:SAMPLED]


def nothing_lies(facts: Facts, asked: Sequence[Asked], samples: Sequence[Sample]) -> EmptyPeriodError:
    """Return the refusal of a period in which nothing lies: it says what Kafka has instead."""
    spec, bounds, largest = facts.spec, facts.bounds, _largest(asked)
    earliest, newest = _times([part for item in largest if (part := item.readable(spec.isolation))], samples)
    whose = "Kafka's records" if len(largest) == len(asked) else f"records of the {len(largest)} largest partitions"
    has = [f"{whose} go from {earliest or NOT_KNOWN} to {newest or NOT_KNOWN}"] if earliest or newest else []
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
        f"nothing lies in the period {_describe(bounds)} of pipeline {spec.name}: {'; '.join((*has, *open_))}. Correct "
        "the period, or leave it out to read what is missing",
        pipeline=spec.name,
        earliest=earliest,
        newest=newest,
    )


def _times(wholes: Sequence[Slice], samples: Sequence[Sample]) -> tuple[str | None, str | None]:
    """Return the earliest and the newest time of some partitions; None unless that end of each of them was read."""
    firsts = {(s.stream, s.read.start): s.first_timestamp_ms for s in samples if s.read}
    lasts = {(s.stream, s.read.end): s.last_timestamp_ms for s in samples if s.read}
    earliest = [_instant(firsts.get((item.stream, item.range.start))) for item in wholes]
    newest = [_instant(lasts.get((item.stream, item.range.end))) for item in wholes]
    return (
        timestamp(min(filter(None, earliest))) if earliest and all(earliest) else None,
        timestamp(max(filter(None, newest))) if newest and all(newest) else None,
    )


def _instant(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else instant(milliseconds)


def _describe(bounds: Bounds) -> str:
    start, end = (timestamp(at) if isinstance(at, datetime) else at for at in (bounds.start, bounds.end))
    return f"from {'the origin' if start is None else start} to {'the end policy' if end is None else end}"
