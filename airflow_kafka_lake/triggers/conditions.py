"""What a waiting task waits for: one question to the ledger (and Kafka), answered with yes or with what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.errors import HeldError, UnknownTopicError, UsageError
from airflow_kafka_lake.core.kafka.times import milliseconds
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import FINISHED, UNRESOLVED
from airflow_kafka_lake.core.naming import nearest, unknown_topic
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.order import Order
from airflow_kafka_lake.core.ordering.segments import Graph, describe
from airflow_kafka_lake.ports import LedgerReader, OffsetSource

Source = Callable[[], OffsetSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether the wait is over, and why (not), in one sentence."""

    done: bool
    message: str


class Condition(Protocol):
    """One question. Errors pass: the caller knows which of them mean "unknown"."""

    def __call__(self, ledger: LedgerReader, source: Source, /) -> Answer:
        """Look once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResolved:
    """Every range of a plan is committed or skipped."""

    plan: str

    def __call__(self, ledger: LedgerReader, _source: Source, /) -> Answer:
        """Look once; a plan that the ledger does not know is not resolved."""
        if not ledger.ranges(plan=self.plan):
            return Answer(done=False, message=f"the ledger knows no range of plan {self.plan}")
        left = ledger.ranges(plan=self.plan, states=UNRESOLVED)
        if not left:
            return Answer(done=True, message=f"every range of plan {self.plan} is committed or skipped")
        first = left[0]
        where = f"first {first.stream} {first.range}, {first.state}"
        return Answer(
            done=False,
            message=f"{len(left)} ranges of plan {self.plan} are open, {where}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Every offset of some streams, from their origin up to an end, is committed or skipped.

    `until` is `{topic: {partition: end}}` with partitions as text, the form of an offsets file.
    """

    pipeline: str
    until: Mapping[str, Mapping[str, int]]

    def __call__(self, ledger: LedgerReader, _source: Source, /) -> Answer:
        """Look once; a stream that the ledger does not know is not drained."""
        known = ledger.streams(self.pipeline)
        for topic, ends in self.until.items():
            if missing := not_known_yet(ledger, self.pipeline, topic, known):
                return Answer(done=False, message=missing)
            for partition, end in ends.items():
                stream = only(known, topic, int(partition))
                if stream is None:
                    return Answer(done=False, message=f"the ledger knows no stream {topic}/{partition} yet")
                left = RangeSet.between(stream.origin, end) - stream.covered
                if left:
                    return Answer(
                        done=False, message=f"{topic}/{partition}: {left.span} offsets are open, first {left}"
                    )
        return Answer(done=True, message="every stream is drained up to its end")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkReached:
    """The watermark of one partition, or of all of a topic, has reached an offset or a time (milliseconds).

    A time is reached when Kafka knows a first record at or after it and everything before that record is committed.
    """

    pipeline: str
    topic: str
    partition: int | None = None
    offset: int | None = None
    at_ms: int | None = None

    def __call__(self, ledger: LedgerReader, source: Source, /) -> Answer:
        """Look once."""
        try:
            known, targets = self._targets(ledger, source)
        except LookupError as missing:
            return Answer(done=False, message=str(missing.args[0]))
        for partition, target in targets.items():
            stream = only(known, self.topic, partition)
            if stream is None:
                return Answer(done=False, message=f"the ledger knows no stream {self.topic}/{partition} yet")
            if stream.watermark < target:
                return Answer(
                    done=False,
                    message=f"{self.topic}/{partition}: the watermark is {stream.watermark}, "
                    f"and {target} is waited for",
                )
        return Answer(done=True, message=f"the watermarks of {self.topic} are there")

    def _targets(self, ledger: LedgerReader, source: Source) -> tuple[Sequence[StreamRecord], dict[int, int]]:
        """Return the streams that are meant, and the end that each partition waits for; LookupError says what is not
        known yet. Times are of the topic as it is now: the watermark of an older generation says nothing about them."""
        everything = ledger.streams(self.pipeline)
        if missing := not_known_yet(ledger, self.pipeline, self.topic, everything):
            raise LookupError(missing)
        known = [stream for stream in everything if stream.key.topic == self.topic]
        if self.at_ms is None:
            partitions = {stream.key.partition for stream in known}
            if self.partition is None and not partitions:
                raise LookupError(f"the ledger knows no stream of {self.topic} yet")
            # Also those that a plan has seen and could not observe.
            partitions |= {
                p for i in ledger.layouts(self.pipeline) if i.topic == self.topic for p in range(i.partitions)
            }
            numbers = sorted(partitions) if self.partition is None else [self.partition]
            return known, dict.fromkeys(numbers, self.offset or 0)
        kafka = source()
        try:
            topic = kafka.describe([self.topic])[0]
        except UnknownTopicError as error:
            if known:
                raise
            raise LookupError(error.message) from error
        numbers = [*range(topic.partitions)] if self.partition is None else [self.partition]
        asked = [(self.topic, number) for number in numbers]
        found = kafka.offsets_at(asked, self.at_ms)
        targets: dict[int, int] = {}
        for _, number in asked:
            target = found.get((self.topic, number))
            if target is None:
                raise LookupError(f"Kafka has no record of {self.topic}/{number} that late yet")
            targets[number] = target
        return [stream for stream in known if stream.key.topic_id == topic.topic_id], targets


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveFree:
    """No process works on a wave any more."""

    wave: str

    def __call__(self, ledger: LedgerReader, _source: Source, /) -> Answer:
        """Look once."""
        record = ledger.wave(self.wave)
        if record.state in FINISHED or not record.lease_live:
            return Answer(done=True, message=f"wave {self.wave} is {record.state} and free")
        return Answer(done=False, message=f"{record.holder} works on wave {self.wave} until {record.lease_until}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLaunchable:
    """What must come before a wave is drained. Where only a person can go on, waiting cannot help: a HeldError.

    A ledger that does not answer is an error that the caller reads as "unknown": not drained, and no failure (law L5).
    """

    wave: str

    def __call__(self, ledger: LedgerReader, _source: Source, /) -> Answer:
        """Look once."""
        closed = ledger.gate(self.wave)
        if not closed:
            return Answer(done=True, message=f"everything that comes before wave {self.wave} is drained")
        pipeline = ledger.wave(self.wave).pipeline
        order = Order(
            pipeline,
            Graph(ledger.segments(pipeline)),
            ledger.streams(pipeline),
            ledger.ranges(pipeline=pipeline, states=UNRESOLVED),
        )
        message = f"wave {self.wave} waits for its turn: {describe(closed[0], pipeline)}{order.because(closed[0])}"
        if any(order.needs_person(blocker) for blocker in closed):
            raise HeldError(f"{message}. See: {remedies.status(pipeline)}", wave=self.wave)
        return Answer(done=False, message=message)


def only(streams: Sequence[StreamRecord], topic: str, partition: int) -> StreamRecord | None:
    """Return the stream of a partition, None when there is none; refuse to choose between generations of a topic."""
    found = [stream for stream in streams if (stream.key.topic, stream.key.partition) == (topic, partition)]
    if len(found) > 1:
        raise UsageError(
            f"topic {topic} was re-created, and the ledger knows {len(found)} generations of partition {partition}: "
            "wait for a plan instead of an offset",
            topic=topic,
            partition=partition,
        )
    return found[0] if found else None


def not_known_yet(ledger: LedgerReader, pipeline: str, topic: str, known: Sequence[StreamRecord]) -> str | None:
    """Return why nothing can be known of a topic before its pipeline's first plan; None once something can.

    Refuses to wait for a topic that is none of a pipeline's, and never was: nothing would ever come of it.
    """
    topics = {stream.key.topic for stream in known}
    if topic in topics:
        return None
    record = ledger.pipeline(pipeline)
    if record is None:
        return f"the ledger knows no pipeline {pipeline!r} yet{nearest(pipeline, ledger.pipelines())}"
    if not record.spec.reads(topic):
        raise unknown_topic(pipeline, topic, topics | set(record.spec.topics))
    return None


def checked_until(until: Any) -> dict[str, dict[str, int]]:
    """Read `{topic: {partition: end}}` as people give it; UsageError otherwise."""
    legal = isinstance(until, Mapping) and bool(until)
    for topic, ends in until.items() if legal else ():
        legal = legal and isinstance(topic, str) and isinstance(ends, Mapping) and bool(ends)
        for partition, end in ends.items() if isinstance(ends, Mapping) else ():
            legal = legal and str(partition).isdecimal() and type(end) is int and end >= 0
    if not legal:
        raise UsageError('until must be {"TOPIC": {"PARTITION": END}}, such as {"orders": {"0": 120}}')
    return {topic: {str(partition): end for partition, end in ends.items()} for topic, ends in until.items()}


def time_in_ms(at: int | datetime) -> int:
    """Return Kafka's time of a bound that was read as a time; an offset is refused."""
    if isinstance(at, int):
        raise UsageError("time must be a time with its offset from UTC; for an offset use offset")
    return milliseconds(at)
