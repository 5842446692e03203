"""A Spark job: the frozen request of a staging job, its division among tasks, its driver and application."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from airflow_kafka_lake.core.addresses import web_address
from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Decoder
from airflow_kafka_lake.core.document import Document
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, dealt
from airflow_kafka_lake.core.spec import Isolation

# Which columns of a table say where in Kafka a row comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionColumns:
    """The columns of a row's position; `topic` None: every row is of `only_topic`."""

    topic: str | None = "kafka_topic"
    partition: str = "kafka_partition"
    offset: str = "kafka_offset"
    only_topic: str = ""


QUIET_SECONDS, IDLE_SECONDS = 1800.0, 600.0
"""How long a driver may make no progress, and how long a warm one waits for its next job, unless that is said."""


def is_local(master: str) -> bool:
    """Return whether Spark runs wholly inside the driver."""
    return master == "local" or master.startswith("local[")


# How much Java a Spark job computes with, counted in records that land as they are, and its worth.
#
# With Java's quick compiler alone a job of a thousand records takes half a second less, and each further million about
# 1.3 seconds on two cores; where the better one compiles hot code, 0.8. Bytes hardly matter: the work on them is not
# Java's.

LIGHT = 1_500_000
"""Up to so much effort the quick compiler alone is better."""

_DECODED_WEIGHT, _COMPARED = 4, 2


def effort(records: int, *, is_decoded: bool = False, is_compared: bool = False) -> int:
    """Return the effort of a job over so many records."""
    return records * (_DECODED_WEIGHT if is_decoded else 1) * (_COMPARED if is_compared else 1)


# The request of a staging job: frozen, and travelling with the submit.

LANDED = (
    "key",
    "value",
    "headers",
    "kafka_topic",
    "kafka_topic_id",
    "kafka_partition",
    "kafka_offset",
    "kafka_timestamp",
    "kafka_timestamp_type",
    "kafka_timestamp_raw",
    "ingest_attempt",
)
"""The columns that every landing table has, in their order."""

METADATA_COLUMNS = frozenset(
    {"_change_ordinal", "_change_type", "_commit_snapshot_id", "_deleted", "_file", "_last_updated_sequence_number"}
    | {"_partition", "_pos", "_row_id", "_spec_id"}
)
"""The lake's metadata columns: Spark reads no table with a column of such a name."""

OWN_COLUMNS = METADATA_COLUMNS | {*LANDED, ERROR_COLUMN, SCHEMA_ID_COLUMN}
"""Names that no column of a decoded field has."""

CAREFUL_POLL = 500
"""Records that one poll takes where no poll may reach behind a slice."""

RETAIN_DAYS = 30
"""How long a table keeps a staging branch that no one drops: longer than topics usually keep their records."""

BRANCH_PREFIX = "kafka_lake_"
_BRANCH = re.compile(BRANCH_PREFIX + "([0-9a-f]{16})")
_DECODED = re.compile(BRANCH_PREFIX + "(decode_[0-9a-f]{16})")


class BranchFault(StrEnum):
    """The faults of a catalog that must not get a job's rows: they would be visible before they are audited, or
    published twice."""

    NOT_STORED = "a branch that it answered to have created is not there"
    NOT_WRITTEN = "what it answered to have committed to a branch is not there"
    ON_MAIN = "what was committed to a branch is on main"
    STALE_TAKEN = "it took a commit that required another state of the table"
    IN_PART = "of a commit that removed a branch and set a property it did one thing and not the other"


def branch_of(attempt: str) -> str:
    """Return the staging branch of an attempt."""
    return BRANCH_PREFIX + attempt


def attempts_of(refs: Iterable[str]) -> tuple[str, ...]:
    """Return the attempts whose staging branches are among some refs of a table, sorted; other refs are others'."""
    return tuple(sorted(found[1] for ref in refs if (found := _BRANCH.fullmatch(ref))))


def decoded_of(refs: Iterable[str]) -> tuple[str, ...]:
    """Return the names, as `branch_of` takes them, of the branches with rows that were decoded again, sorted."""
    return tuple(sorted(found[1] for ref in refs if (found := _DECODED.fullmatch(ref))))


def job_name(pipeline: str, wave: str, attempt: str) -> str:
    """Return the name of an attempt's job: always the same, so that it can be found on a cluster."""
    return f"kafka-lake {pipeline} {wave} {attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip(Document):
    """The last record that one consumer has read of a slice; `slice` ends with it.

    It stands for all that was read before it: of two logs that have a record of the same offset and leader epoch, all
    before it is the same. `leader_epoch` is the one that it was written under. Where a reader does not tell that, which
    is so for Spark's own source, `digest` is of the row that was staged (`record_digest`).
    """

    slice: Slice
    leader_epoch: int | None = None
    digest: str | None = None

    @property
    def offset(self) -> int:
        """The record's."""
        return self.slice.range.end - 1

    def is_of(self, held: Tip | None) -> bool:
        """Return whether this is the record that a log holds at the same offset, as far as both are known."""
        return held is not None and all(
            mine is None or mine == its
            for mine, its in ((self.leader_epoch, held.leader_epoch), (self.digest, held.digest))
        )


RECORD_DIGEST = (
    "concat_ws('|', coalesce(sha2(key, 256), ''), coalesce(sha2(value, 256), ''), "
    "greatest(coalesce(unix_millis(kafka_timestamp), kafka_timestamp_raw), -1L))"
)
"""`record_digest` of a row of a landing table, in SQL."""


def record_digest(key: bytes | None, value: bytes | None, timestamp_ms: int) -> str:
    """Return the digest that tells a record from another one: key, value and time, where that is not before 1970."""
    parts = ("" if part is None else hashlib.sha256(part).hexdigest() for part in (key, value))
    return "|".join((*parts, str(max(timestamp_ms, -1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob(Document):
    """Everything the Spark job needs but settings that may hold secrets.

    `tasks` is the number of write tasks (small ranges are coalesced into that many); `max_records_per_partition`
    splits large slices, None does not. `decoders` say how values become columns; none leaves them as they are.
    `overflowing` are further slices: records whose time Spark's Kafka source cannot read, for the driver to read.
    `singly` are slices too, read record by record, so that nothing behind one is touched (`ending`). `rate` is how many
    of Kafka's bytes the job may read in a second; None: as fast as Kafka answers. `by_time`: the table is partitioned
    by time, and each task reads the same stretch of every slice (`core.spark.job.abreast`). `epochs` are leader epochs
    that partitions were seen under: a broker that leads one of them under an older epoch has been deposed.
    """

    pipeline: str
    wave: str
    attempt: str
    table: str
    isolation: Isolation
    slices: tuple[Slice, ...]
    tasks: int
    max_records_per_partition: int | None
    decoders: tuple[Decoder, ...] = ()
    overflowing: tuple[Slice, ...] = ()
    singly: tuple[Slice, ...] = ()
    rate: int | None = None
    by_time: bool = False
    epochs: tuple[tuple[Stream, int], ...] = ()

    @property
    def parts(self) -> tuple[Slice, ...]:
        """Everything the job reads, in whatever way."""
        return (*self.slices, *self.singly, *self.overflowing)

    @property
    def effort(self) -> int:
        """How much the job computes (`core.spark.job`)."""
        return effort(sum(item.range.span for item in self.parts), is_decoded=bool(self.decoders))

    @property
    def name(self) -> str:
        """The application name, see `job_name`."""
        return job_name(self.pipeline, self.wave, self.attempt)

    @property
    def branch(self) -> str:
        """The branch the job writes to."""
        return branch_of(self.attempt)

    @property
    def decoding(self) -> str | None:
        """The digest of the pipeline's request; None where values are left as they are."""
        return next((item.asked for item in self.decoders), None)

    def scans(self) -> tuple[tuple[Slice, ...], ...]:
        """Group the slices into Kafka reads: Spark takes one `[start, end)` per partition and read."""
        ordered = sorted(self.slices, key=lambda item: (*item.stream.place, item.range))
        return tuple(map(tuple, dealt((item.stream.place, item) for item in ordered)))


def ending(slice_: Slice, records: RangeSet) -> tuple[Slice | None, Slice | None]:
    """Divide a slice so that no poll touches offsets behind it: into a part for polls of `CAREFUL_POLL` records, and
    its last `CAREFUL_POLL` records, to be read one by one. Both are None where it has no record.

    `records` are the offsets of the slice that have a record; of a slice with more than `CAREFUL_POLL`, at least
    its last ones. A read that ends behind a record asks no further, while one that ends in a gap polls once more, and
    gets the neighbour's record.
    """
    if not records:
        return None, None
    middle, left = records.first, CAREFUL_POLL
    for part in reversed(records):
        if part.span >= left:
            middle = part.end - left
            break
        left -= part.span
    start, end = slice_.range.start, records.last + 1
    body = None if records.span < CAREFUL_POLL or start == middle else slice_.part(OffsetRange(start, middle))
    return body, slice_.part(OffsetRange(middle, end))


def packing(slices: Iterable[Slice], estimated_bytes: int, task_bytes: int) -> tuple[int, int | None]:
    """Return `(tasks, max_records_per_partition)` so that a task writes about `task_bytes`.

    One task per `task_bytes`, at least one; a slice that is heavier than a task is split by its offsets.
    """
    spans = [slice_.range.span for slice_ in slices]
    total = sum(spans)
    if not total:
        return 1, None
    tasks = max(1, math.ceil(estimated_bytes / task_bytes))
    per_task = max(1, math.ceil(total / tasks))
    return tasks, per_task if tasks > 1 and max(spans) > per_task else None


# Divide the slices of a staging job among its tasks.

FEWEST = 500
"""Offsets that a part of a slice has on average at least, where tasks share all slices: about one poll."""

_TIME = re.compile(r"\b(?:year|month|day|hour)s?\(")
_PLACE = re.compile(r"\bkafka_(?:topic|topic_id|partition|offset)\b")


def is_by_time(partition_by: str) -> bool:
    """Return whether a table that is partitioned so is divided by time, and not by Kafka's partitions as well."""
    return bool(_TIME.search(partition_by)) and not _PLACE.search(partition_by)


def abreast(slices: Iterable[Slice], tasks: int, fewest: int = FEWEST) -> tuple[tuple[Slice, ...], ...] | None:
    """Return the slices of at most `tasks` tasks of about the same weight, each with the same stretch of every slice:
    the first has the beginnings of all, the last the ends. None where parts would have fewer than `fewest` offsets.

    Records of all partitions that were written at the same time then come to the same task. So where a table is
    partitioned by time, a task writes few of its partitions, and each of those has few files, without a shuffle.
    """
    found = sorted(slices, key=lambda item: (item.stream, item.range))
    if sum(item.range.span for item in found) < fewest * tasks * len(found):
        return None
    shares: list[list[Slice]] = [[] for _ in range(tasks)]
    for item in found:
        parts = _cut(item, min(tasks, item.range.span))
        for number, part in enumerate(parts):
            shares[number * tasks // len(parts)].append(part)
    return tuple(tuple(share) for share in shares if share)


def divided(slices: Iterable[Slice], tasks: int, limit: int | None) -> tuple[tuple[Slice, ...], ...]:
    """Return the slices of each task: every offset of every slice once, in tasks of about the same weight.

    A slice of more than `limit` offsets is split, and each part has a task of its own. The others, in their order, fill
    as many tasks as their offsets need: `tasks` where nothing is split. Neighbours stay together, so that a file holds
    few partitions.
    """
    found = sorted(slices, key=lambda item: (item.stream, item.range))
    heavy = [item for item in found if limit is not None and item.range.span > limit]
    light = [item for item in found if limit is None or item.range.span <= limit]
    total = sum(item.range.span for item in light)
    count = tasks if limit is None else math.ceil(total / limit)
    parts = (part for item in heavy for part in _cut(item, math.ceil(item.range.span / (limit or 1))))
    return (*((part,) for part in parts), *_gathered(light, total, count))


def evenly(slices: Iterable[Slice], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """Return the slices of at most `tasks` tasks of equal weight: slices are split wherever that takes it."""
    found = sorted(slices, key=lambda item: (item.stream, item.range))
    *starts, total = itertools.accumulate((item.range.span for item in found), initial=0)
    edges = [total * number // tasks for number in range(1, tasks)]
    parts = [
        item.part(piece)
        for before, item in zip(starts, found, strict=True)
        for piece in item.range.split_at(item.range.start + edge - before for edge in edges)
    ]
    return tuple(_gathered(parts, total, tasks))


def _cut(item: Slice, count: int) -> list[Slice]:
    edges = [item.range.start + item.range.span * number // count for number in range(count + 1)]
    return [item.part(OffsetRange(start, end)) for start, end in itertools.pairwise(edges)]


def _gathered(light: list[Slice], total: int, count: int) -> list[tuple[Slice, ...]]:
    """Put each slice where its middle falls when all of them, one after the other, are cut into equal lengths."""
    before = itertools.accumulate((item.range.span for item in light), initial=0)
    places = [(2 * start + item.range.span) * count // (2 * total) for item, start in zip(light, before, strict=False)]
    grouped = itertools.groupby(zip(places, light, strict=True), key=lambda pair: pair[0])
    return [tuple(item for _, item in its) for _, its in grouped]


# When a Spark driver that runs job after job is worn, and the next job gets a new one.

MOST_JOBS = 100
"""A start costs seconds: spread over so many jobs it is nothing, and whatever grows unseen has an end."""

MOST_HEAP = 0.5
"""Share of the heap that may still be in use after a collection: a job needs the rest."""

MOST_METASPACE = 512 * 1024 * 1024
"""Bytes of loaded classes; a driver that has run every kind of job has about half as many."""


MOST_SECONDS = 6 * 3600
"""A cluster's tickets and tokens, which are given at the start, last for a day or less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverAge(Document):
    """The resources a driver has used: jobs, seconds, and bytes after a garbage collection."""

    jobs: int
    seconds: int
    heap: int
    heap_most: int
    metaspace: int

    @property
    def is_too_much(self) -> bool:
        """Whether the driver should take no further job."""
        is_old = self.jobs >= MOST_JOBS or self.seconds >= MOST_SECONDS
        return is_old or self.heap > MOST_HEAP * self.heap_most or self.metaspace > MOST_METASPACE


# The Spark application that works on a wave, and where people can watch it.

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
HISTORY = "spark.yarn.historyServer.address"
"""Spark's own setting of a history server, `host:port`, which YARN shows; only there Spark has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A Spark application: its id, the address of its page while it runs, and that of a history server for afterwards.

    An address is None where there is no such page: a local master has no page unless its connection asks for one, and a
    history server shows only applications with an event log.
    """

    id: str
    page: str | None = None
    history: str | None = None

    @classmethod
    def of(cls, name: str, page: str | None, *, history_server: str | None) -> Application | None:
        """Return the application of a driver's own account; None where that names none."""
        if not _ID.fullmatch(name):
            return None
        base = web_address(history_server)
        history = None if base is None else f"{base.rstrip('/')}/history/{quote(name, safe='')}/"
        return cls(id=name, page=web_address(page), history=history)

    def describe(self) -> str:
        """Return the line for a log."""
        shown = self.page or self.history
        later = f", later {self.history}" if self.page and self.history else ""
        return f"Spark application {self.id}{f': {shown}' if shown else ''}{later}"
