"""A job runner without Spark: reads what a job names from Kafka in memory and stages it in the lake in memory."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from airflow_kafka_lake.core.ddl import columns, leaves
from airflow_kafka_lake.core.decoding import Decoder, Format, column_of
from airflow_kafka_lake.core.errors import (
    JobFailedError,
    KafkaLakeError,
    RangeBeyondEndError,
    RangeExpiredError,
    UnavailableError,
    UnknownPartitionError,
    UnknownSubjectError,
    UnknownTopicError,
)
from airflow_kafka_lake.core.ledger.records import UndecodedOffsets
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import OWN_COLUMNS, StageJob, Tip, record_digest
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.compare import CompareJob, ContentComparison, ContentDifference, Mismatch
from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob
from airflow_kafka_lake.ports import ReportingJob

Headers = tuple[tuple[str, bytes | None], ...]
Position = tuple[str, str, int, int, bytes | None, bytes | None, Headers, int]
_FRAME_BYTES = 5

Record = tuple[object, ...]
"""`(key, value, headers, timestamp, timestamp type)`, or the first of them where there is no more."""

_FIELDS = (Mismatch.KEY, Mismatch.VALUE, Mismatch.HEADERS, Mismatch.TIMESTAMP, Mismatch.TIMESTAMP_TYPE)


def differences(
    slices: Sequence[Slice], kafka: Mapping[Stream, Mapping[int, Record]], lake: Mapping[Stream, Mapping[int, Record]]
) -> tuple[ContentDifference, ...]:
    """Compare two sides that are at hand, offset by offset: a comparing job's result, in the simplest words."""
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
        ContentDifference(stream=stream, mismatch=mismatch, first=min(offsets), offsets=len(offsets))
        for (stream, mismatch), offsets in sorted(found.items())
    )


_REASONS: Mapping[type[KafkaLakeError], str] = {
    RangeExpiredError: "data-loss",
    RangeBeyondEndError: "kafka-unreachable",  # Spark waits for what does not come
    UnknownTopicError: "unknown-topic",
    UnknownPartitionError: "unknown-topic",
    UnknownSubjectError: "table-not-found",
}
"""The reasons that Spark's log would show, by the error that a record reader or a lake in memory raises."""


class Reader(Protocol):
    """Where records come from."""

    def read(
        self, topic: str, partition: int, slice_: OffsetRange, isolation: Isolation, *, any_time: bool = False
    ) -> list[tuple[int, bytes | None, bytes | None, Headers, int]]:
        """Return `(offset, key, value, headers, timestamp in ms)` of every record that a reader of the slice sees."""


class Stage(Protocol):
    """Where rows go to."""

    def begin(self, identifier: str, attempt: str) -> None:
        """Create an attempt's branch; an existing one is an error."""

    def stage(
        self,
        identifier: str,
        attempt: str,
        rows: Iterable[Position],
        *,
        undecoded: Sequence[UndecodedOffsets] = (),
        decoding: str | None = None,
        filled: Mapping[str, int],
    ) -> None:
        """Commit rows to an attempt's branch, with their decoding, the undecoded ones, and how many fill a column."""

    def records(self, identifier: str, snapshot: int) -> Iterable[Position]:
        """Return the rows that a snapshot shows."""

    def redecode(self, job: RedecodeJob, problem: Callable[[str, bytes | None], str | None]) -> dict[str, Any]:
        """Commit main's rows to the job's branch, the job's own decoded again, and return the job's document;
        `problem` judges a topic's value."""


class MemoryRunner:
    """`ports.JobRunner` in memory.

    `failures` holds the last words of the next jobs that shall fail; `unfinished` is how many of the next jobs end
    without a word and without a result, as a killed driver does; `tamper` may change what a job writes. A job that
    reads an offset of `poison`, as `(topic, partition, offset)`, or more rows than `most`, fails for no known reason.
    Whatever else a job meets, it ends as a driver does: in a JobFailedError.
    """

    def __init__(self, kafka: Reader, lake: Stage) -> None:
        self.failures: deque[str] = deque()
        self.unfinished = 0
        self.poison: set[tuple[str, int, int]] = set()
        self.most: int | None = None
        self.tamper: Callable[[list[Position]], list[Position]] = lambda rows: rows
        self.jobs: list[StageJob] = []
        self.redecoded: list[RedecodeJob] = []
        self._kafka = kafka
        self._lake = lake

    def read_from(self, kafka: Reader) -> None:
        """Let the next jobs read another cluster, such as the log of a leader that was deposed."""
        self._kafka = kafka

    def where(self) -> str:
        """Return where jobs run."""
        return "in this process (memory)"

    def end_orphan(self, job: str | None, name: str) -> bool:
        """Return False: a job in memory ends with its caller."""
        return False

    def report(
        self, job: ReportingJob, *, progress: Callable[[str], None], counted: Callable[[Counters], None]
    ) -> Mapping[str, Any]:
        """Compare keys, values, headers and times; or decode again, of which a row in memory keeps only the error."""
        if self.failures:
            raise JobFailedError(self.failures.popleft(), table=job.table)
        if isinstance(job, RedecodeJob):
            return self._redecode(job, progress)
        assert isinstance(job, CompareJob)
        kafka: dict[Stream, dict[int, Record]] = defaultdict(dict)
        lake: dict[Stream, dict[int, Record]] = defaultdict(dict)
        with _as_a_driver("kafka-unreachable"):
            for item in job.slices:
                for offset, *record in self._kafka.read(
                    item.stream.topic, item.stream.partition, item.range, job.isolation, any_time=True
                ):
                    kafka[item.stream][offset] = tuple(record)
        with _as_a_driver("catalog-unreachable"):
            for topic, topic_id, partition, offset, *record in self._lake.records(job.table, job.snapshot):
                lake[Stream(topic, topic_id, partition)][offset] = tuple(record)
        progress("compared")
        counted(Counters(rows=sum(map(len, kafka.values()))))
        return ContentComparison(
            records=sum(map(len, kafka.values())), bytes=0, differences=differences(job.slices, kafka, lake)
        ).to_json()

    def _redecode(self, job: RedecodeJob, progress: Callable[[str], None]) -> Mapping[str, Any]:
        self.redecoded.append(job)
        progress("decoded")
        by_topic = {topic: decoder for decoder in job.decoders for topic in decoder.topics}
        with _as_a_driver("catalog-unreachable", table=job.table):
            done = self._lake.redecode(
                job, lambda topic, value: None if value is None else _problem(by_topic[topic], value)
            )
            staged = done.get("staged")
            return done | ({"filled": _filled(job.decoders, self._lake.records(job.table, staged))} if staged else {})

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = lambda _: None,
        read: Callable[[Sequence[Tip]], None] = lambda _: None,
    ) -> None:
        """Read every slice of the job and stage all rows in one commit, also when there are none."""
        self.jobs.append(job)
        facts = {"wave": job.wave, "attempt": job.attempt}
        started(f"memory-{len(self.jobs)}")
        with _as_a_driver("catalog-unreachable", **facts):
            self._lake.begin(job.table, job.attempt)
        if self.failures:
            raise JobFailedError(self.failures.popleft(), reason=None, **facts)
        self.finish(job, heartbeat=heartbeat, counted=counted, read=read)

    def finish(
        self,
        job: StageJob,
        *,
        heartbeat: Callable[[], None] = lambda: None,
        counted: Callable[[Counters], None] = lambda _: None,
        read: Callable[[Sequence[Tip]], None] = lambda _: None,
    ) -> None:
        """Do what is left of a job that has begun: one that outlives its worker goes on by itself."""
        facts = {"wave": job.wave, "attempt": job.attempt}
        rows: list[Position] = []
        tips: list[Tip] = []
        for part in job.parts:
            with _as_a_driver("kafka-unreachable", **facts):
                records = self._kafka.read(
                    part.stream.topic,
                    part.stream.partition,
                    part.range,
                    job.isolation,
                    any_time=part in job.overflowing,
                )
            rows += [(part.stream.topic, part.stream.topic_id, part.stream.partition, *record) for record in records]
            tips += [_tip(part, *record) for record in records[-1:]]
            counted(Counters(rows=len(rows)))
            heartbeat()
        counted(Counters(rows=len(rows)))
        if self.poison & {(row[0], row[2], row[3]) for row in rows} or len(rows) > (self.most or len(rows)):
            raise JobFailedError(
                "the job ended.\nCaused by: IllegalStateException: what is this?",
                last_words="IllegalStateException: what is this?",
                reason=None,
                **facts,
            )
        if self.unfinished:
            self.unfinished -= 1
            return
        rows = self.tamper(rows)
        read(tips)
        with _as_a_driver("catalog-unreachable", **facts):
            failed = _undecoded(job.decoders, rows)
            filled = _filled(job.decoders, rows)
            self._lake.stage(job.table, job.attempt, rows, undecoded=failed, decoding=job.decoding, filled=filled)


def _tip(part: Slice, offset: int, key: bytes | None, value: bytes | None, _: Headers, timestamp_ms: int) -> Tip:
    return Tip(
        slice=part.part(OffsetRange(part.range.start, offset + 1)), digest=record_digest(key, value, timestamp_ms)
    )


@contextmanager
def _as_a_driver(unreachable: str, **facts: object) -> Iterator[None]:
    """End a job like a driver, from which its worker gets only the end of the log and the reason that it shows."""
    try:
        yield
    except KafkaLakeError as error:
        reason = unreachable if isinstance(error, UnavailableError) else _REASONS.get(type(error))
        facts = {**facts, "reason": error.facts.get("reason", reason)}
        raise JobFailedError(f"the job ended.\n{error.message}", last_words=error.message, **facts) from error


def _undecoded(decoders: Sequence[Decoder], rows: Iterable[Position]) -> tuple[UndecodedOffsets, ...]:
    by_topic = {topic: decoder for decoder in decoders for topic in decoder.topics}
    found: dict[Stream, list[tuple[int, str]]] = defaultdict(list)
    for topic, topic_id, partition, offset, _, value, *_ in rows:
        if topic in by_topic and value is not None and (problem := _problem(by_topic[topic], value)):
            found[Stream(topic, topic_id, partition)].append((offset, problem))
    return tuple(
        UndecodedOffsets(
            stream=stream,
            offsets=RangeSet(OffsetRange(offset, offset + 1) for offset, _ in wrong),
            reason=min(wrong)[1],
        )
        for stream, wrong in sorted(found.items())
    )


def _filled(decoders: Sequence[Decoder], rows: Iterable[Position]) -> dict[str, int]:
    """Count keys and values, and of JSON schemas those that have a field, whatever its type."""
    taken = [*rows]
    values = [(topic, value) for topic, _, _, _, _, value, *_ in taken if value is not None]
    found = {"key": sum(key is not None for _, _, _, _, key, *_ in taken), "value": len(values)}
    for decoder in decoders:
        if decoder.format is Format.JSON and not decoder.refused:
            mine = [value for topic, value in values if topic in decoder.topics]
            good = [json.loads(value) for value in mine if not _problem(decoder, value)]
            for first, *rest in leaves(columns(decoder.schema)):
                there = [item.get(first) for item in good]
                for name in rest:
                    there = [item.get(name) if isinstance(item, dict) else None for item in there]
                found[".".join((column_of(first, OWN_COLUMNS), *rest))] = sum(item is not None for item in there)
    return found


def _problem(decoder: Decoder, value: bytes) -> str | None:
    """Judge a value without its schema: text, a JSON object, a frame with a known id."""
    if decoder.refused:
        return decoder.refused
    if decoder.format.is_registered:
        known = len(value) >= _FRAME_BYTES and value[0] == 0
        number = int.from_bytes(value[1:_FRAME_BYTES], "big")
        return None if known and number in dict(decoder.writers) else "the frame names no known schema"
    try:
        text = value.decode()
        fits = decoder.format is not Format.JSON or isinstance(json.loads(text), dict)
    except ValueError:
        fits = False
    return None if fits else f"the value is no {decoder.format.value}"
