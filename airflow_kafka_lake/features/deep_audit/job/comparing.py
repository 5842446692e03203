"""Are the rows of a table the records that Kafka still has? What a job is asked to compare, and what it finds.

Both sides are digested: first per bucket of offsets, then, where a bucket differs, per offset. Nothing but digests and
counts leaves the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core.lake.effort import effort
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet
from airflow_kafka_lake.core.slices import Slice, Stream
from airflow_kafka_lake.core.spec import Isolation

BUCKET = 10_000
"""Offsets that are digested together at first."""

MOST_PER_SLICE = 4_000_000
"""Offsets that are read between two signs of progress."""

SLICE_SECONDS = 20
"""How long one slice of a read at a given rate shall take: the rate holds on average over that time."""


class Mismatch(StrEnum):
    """In what a row and a record can differ."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TYPE = "timestamp type"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareJob:
    """Everything a comparing job needs but settings that may hold secrets.

    `snapshot` is the table's snapshot that is read. The slices are disjoint, and Kafka has all of them.
    `bytes_per_second` bounds, on average, what is read from Kafka; None: as fast as it comes. Where something behind a
    slice must not be touched, its last records are in `singly`, as in `StageJob`, and what has none in `unread`.
    `epochs` are leader epochs, as in `StageJob`.
    """

    pipeline: str
    table: str
    snapshot: int
    isolation: Isolation
    slices: tuple[Slice, ...]
    bucket: int = BUCKET
    per_slice: int = MOST_PER_SLICE
    bytes_per_second: int | None = None
    singly: tuple[Slice, ...] = ()
    unread: tuple[Slice, ...] = ()
    epochs: tuple[tuple[Stream, int], ...] = ()

    @property
    def program(self) -> str:
        """Where in the package the driver's program is."""
        return "features/deep_audit/job/compare.py"

    @property
    def task(self) -> str:
        """What the job does, in words."""
        return f"compares {self.table} with Kafka"

    @property
    def left(self) -> str:
        """What a failure leaves behind, and what to do then."""
        return "nothing was changed: audit again"

    @property
    def advice(self) -> Mapping[str, str]:
        """What else the usual reasons of a failure mean here."""
        return {"data-loss": f"Retention or deletion passed offsets while they were compared; {self.left}."}

    @property
    def effort(self) -> int:
        """How much the job computes."""
        return effort(sum(item.range.span for item in self.slices), is_compared=True)

    @property
    def name(self) -> str:
        """The application name."""
        return f"kafka-lake {self.pipeline} audit of {self.table}"

    def to_json(self) -> dict[str, Any]:
        """Return the form that travels."""
        return {
            "pipeline": self.pipeline,
            "table": self.table,
            "snapshot": self.snapshot,
            "isolation": self.isolation.value,
            **{name: [item.to_json() for item in getattr(self, name)] for name in _SLICES},
            "bucket": self.bucket,
            "per_slice": self.per_slice,
            "bytes_per_second": self.bytes_per_second,
            "epochs": [[*stream, epoch] for stream, epoch in self.epochs],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CompareJob:
        """Read the form that travels."""
        slices = {name: tuple(map(Slice.from_json, data[name])) for name in _SLICES}
        epochs = tuple((Stream(*stream), epoch) for *stream, epoch in data["epochs"])
        return cls(**{**data, "isolation": Isolation(data["isolation"]), **slices, "epochs": epochs})


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How many offsets of a stream differ in one way, and the first of them."""

    stream: Stream
    mismatch: Mismatch
    first: int
    offsets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a job found: records and bytes of keys and values that Kafka gave, and every difference, sorted."""

    records: int
    bytes: int
    differences: tuple[Difference, ...]

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            differences=self.differences + other.differences,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form that travels."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "differences": [[*d.stream, d.mismatch.value, d.first, d.offsets] for d in self.differences],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """Read the form that travels."""
        return cls(
            records=data["records"],
            bytes=data["bytes"],
            differences=tuple(
                Difference(stream=Stream(t, i, p), mismatch=Mismatch(m), first=first, offsets=offsets)
                for t, i, p, m, first, offsets in data["differences"]
            ),
        )


NOTHING = Comparison(records=0, bytes=0, differences=())

Record = tuple[object, ...]
"""`(key, value, headers, timestamp, timestamp type)`, or the first of them where there is no more."""

_FIELDS = (Mismatch.KEY, Mismatch.VALUE, Mismatch.HEADERS, Mismatch.TIMESTAMP, Mismatch.TIMESTAMP_TYPE)


_SLICES = ("slices", "singly", "unread")


def per_slice(bytes_per_second: int | None, bytes_per_offset: float | None) -> int:
    """Return how many offsets one slice has: so many that, at the rate, it takes about `SLICE_SECONDS`."""
    if bytes_per_second is None:
        return MOST_PER_SLICE
    weight = max(1.0, bytes_per_offset or 1024.0)
    return min(MOST_PER_SLICE, max(1, int(bytes_per_second * SLICE_SECONDS / weight)))


def parts_of(job: CompareJob) -> tuple[tuple[Slice, ...], ...]:
    """Cut the slices into slices of `per_slice` offsets; a bucket that is in two of them is compared in parts."""
    found: list[list[Slice]] = [[]]
    room = job.per_slice
    for item in sorted(job.slices, key=lambda s: (*s.stream, s.range)):
        left: OffsetRange | None = item.range
        while left is not None:
            if room <= 0:
                found.append([])
                room = job.per_slice
            part = OffsetRange(left.start, min(left.end, left.start + room))
            found[-1].append(item.part(part))
            room -= part.span
            left = OffsetRange(part.end, left.end) if part.end < left.end else None
    return tuple(tuple(part) for part in found if part)


def narrowed(slices: Iterable[Slice], buckets: Iterable[tuple[str, int, int]], size: int) -> tuple[Slice, ...]:
    """Return what of the slices lies in some buckets, each `(topic id, partition, number)`."""
    wanted: dict[tuple[str, int], list[OffsetRange]] = defaultdict(list)
    for topic_id, partition, number in buckets:
        wanted[topic_id, partition].append(OffsetRange(number * size, (number + 1) * size))
    sets = {key: RangeSet(ranges) for key, ranges in wanted.items()}
    return tuple(
        item.part(part)
        for item in slices
        if (chosen := sets.get((item.stream.topic_id, item.stream.partition)))
        for part in chosen.within(item.range)
    )


def differences(
    slices: Sequence[Slice],
    kafka: Mapping[Stream, Mapping[int, Record]],
    lake: Mapping[Stream, Mapping[int, Record]],
) -> tuple[Difference, ...]:
    """Compare two sides that are at hand, offset by offset: what a job must find, in the simplest words."""
    found: dict[tuple[Stream, Mismatch], list[int]] = defaultdict(list)
    for item in slices:
        stream = item.stream
        theirs, ours = kafka.get(stream, {}), lake.get(stream, {})
        for offset in sorted(o for o in theirs.keys() | ours.keys() if o in item.range):
            if offset not in ours:
                found[stream, Mismatch.MISSING].append(offset)
            elif offset not in theirs:
                found[stream, Mismatch.UNKNOWN].append(offset)
            else:
                for field, a, b in zip(_FIELDS, theirs[offset], ours[offset], strict=False):
                    if a != b:
                        found[stream, field].append(offset)
    return tuple(
        Difference(stream=stream, mismatch=mismatch, first=min(offsets), offsets=len(offsets))
        for (stream, mismatch), offsets in sorted(found.items())
    )
