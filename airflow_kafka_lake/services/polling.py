"""After a failure, keep a job from polling records behind its slices: one of them may be what it failed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from airflow_kafka_lake.core.errors import StaleFenceError, TransientError
from airflow_kafka_lake.core.lake.accounting import EXPLAINED
from airflow_kafka_lake.core.lake.staging import CAREFUL_POLL, StageJob, ending
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.ports.kafka import NONE_KNOWN


class Reading(Protocol):
    """A job that reads slices of Kafka."""

    @property
    def name(self) -> str:
        """The application name."""

    @property
    def isolation(self) -> Isolation:
        """Which records it sees."""

    @property
    def slices(self) -> tuple[Slice, ...]:
        """What it reads."""


MOST_CAREFUL = 100
"""Slices whose ends are read record by record, a second or so each."""

_WIDER = 4


def careful(ports: Ports, job: StageJob, heartbeat: Callable[[], None]) -> StageJob:
    """Return a job that unpacks no record behind its slices.

    A consumer unpacks all records of its poll. Kafka's raw batches name the offsets at the end of a slice that have a
    record; where they cannot be read, every offset counts as one. A job of more than `MOST_CAREFUL` slices stays.
    """
    if len(job.slices) > MOST_CAREFUL:
        return job
    bodies, ends = divided(ports, job, heartbeat, epochs=dict(job.epochs))
    return replace(job, slices=bodies, singly=ends)


def divided(
    ports: Ports, job: Reading, heartbeat: Callable[[], None], *, epochs: Mapping[Stream, int] = NONE_KNOWN
) -> tuple[tuple[Slice, ...], tuple[Slice, ...]]:
    """Split a job's slices into what small polls read, and their last records."""
    try:
        records = _last_records(ports, job, heartbeat, epochs)
    except StaleFenceError:
        raise
    except TransientError as problem:
        ports.progress(f"where the records of {job.name} end could not be read: {problem}")
        records = {slice_: RangeSet([slice_.range]) for slice_ in job.slices}
    parts = [ending(slice_, found) for slice_, found in records.items()]
    return tuple(body for body, _ in parts if body is not None), tuple(end for _, end in parts if end is not None)


def _last_records(
    ports: Ports, job: Reading, heartbeat: Callable[[], None], epochs: Mapping[Stream, int]
) -> Mapping[Slice, RangeSet]:
    """Return where each slice has a record, from its end back to `CAREFUL_POLL` records."""
    found: dict[Slice, RangeSet] = {}
    asked, width = job.slices, CAREFUL_POLL
    while asked:
        gaps = {_tail(slice_, width): slice_ for slice_ in asked}
        explained = ports.batches.explain(tuple(gaps), job.isolation, lambda _: heartbeat(), epochs=epochs)
        found |= {
            slice_: RangeSet(item.range for item in explained[gap] if item.fate not in EXPLAINED)
            for gap, slice_ in gaps.items()
        }
        asked = tuple(item for item in asked if found[item].span < CAREFUL_POLL and width < item.range.span)
        width *= _WIDER
    return found


def _tail(slice_: Slice, width: int) -> Slice:
    last = OffsetRange(max(slice_.range.start, slice_.range.end - width), slice_.range.end)
    return slice_.part(last)
