"""What a task waits for: each trigger asks one question, answered with yes or with what is missing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import HeldError, UnknownTopicError, UsageError
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.ledger.pauses import pause_of, paused
from airflow_kafka_lake.core.ledger.streams import StreamRecord
from airflow_kafka_lake.core.ledger.waves import FINISHED, OPEN, UNRESOLVED
from airflow_kafka_lake.core.naming import nearest, unknown_topic
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.ordering.order import Order
from airflow_kafka_lake.core.ordering.segments import Graph, describe
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.ports import LedgerReader, OffsetSource
from airflow_kafka_lake.triggers.ledger import Answer, LedgerTrigger, Source
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER

NAMED = 3
"""Partitions that an answer names; more are counted."""


class PlanResolvedTrigger(LedgerTrigger):
    """Waits until every range of a plan is committed or skipped."""

    def __init__(self, *, pipeline: str, plan: str, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.plan = plan

    def ask(self, ledger: LedgerReader, _source: Source) -> Answer:
        """See `LedgerTrigger`; a plan that the ledger does not know is not resolved."""
        if not (found := ledger.ranges(plan=self.plan)):
            return Answer(done=False, message=f"the ledger knows no range of plan {self.plan}")
        open_ranges = [item for item in found if item.state in UNRESOLVED]
        if not open_ranges:
            return Answer(done=True, message=f"every range of plan {self.plan} is committed or skipped")
        first = open_ranges[0]
        where = f"first {first.stream} {first.range}, {first.state}"
        ranges = count(len(open_ranges), f"range of plan {self.plan} is", f"ranges of plan {self.plan} are")
        return Answer(done=False, message=f"{ranges} open, {where}")


class DrainedTrigger(LedgerTrigger):
    """Waits until every offset of some streams, from their origin up to an end, is committed or skipped.

    `until` is `{topic: {partition: end}}` with partitions as text, the form of an offsets file.
    """

    def __init__(
        self, *, pipeline: str, until: Mapping[str, Mapping[str, int]], ledger_conn_id: str = DEFAULT_LEDGER
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.until = until

    def ask(self, ledger: LedgerReader, _source: Source) -> Answer:
        """See `LedgerTrigger`; a stream that the ledger does not know is not drained."""
        streams = ledger.streams(self.pipeline)
        unread: list[StreamRecord] = []
        for topic, ends in self.until.items():
            if missing := _not_known_yet(ledger, self.pipeline, topic, streams):
                return Answer(done=False, message=missing)
            for partition, end in ends.items():
                stream = _only(streams, topic, int(partition))
                if stream is None:
                    return Answer(done=False, message=f"the ledger knows no stream {topic}/{partition} yet")
                if left := RangeSet.between(stream.origin, end) - stream.covered:
                    message = f"{topic}/{partition}: {count(left.span, 'offset is', 'offsets are')} open, first {left}"
                    return Answer(done=False, message=message)
                unread += [stream] if 0 < end <= stream.origin else []
        return Answer(done=True, message=f"every stream is drained up to its end{_below_origins(unread)}")


class WaveFreeTrigger(LedgerTrigger):
    """Waits until no process works on a wave."""

    def __init__(self, *, pipeline: str, wave: str, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.wave = wave

    def ask(self, ledger: LedgerReader, _source: Source) -> Answer:
        """See `LedgerTrigger`."""
        record = ledger.wave(self.wave)
        if record.state in FINISHED or not record.lease_live:
            return Answer(done=True, message=f"wave {self.wave} is {record.state} and free")
        holder = record.holder.shown if record.holder else "another process"
        until = timestamp(record.lease_until)
        return Answer(done=False, message=f"{holder} works on wave {self.wave}; its lease is until {until}")


class WaveLaunchableTrigger(WaveFreeTrigger):
    """Waits until everything is drained that must come before a wave; a HeldError where only a person can go on."""

    def ask(self, ledger: LedgerReader, _source: Source) -> Answer:
        """See `LedgerTrigger`."""
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


class WaveAllowedTrigger(WaveFreeTrigger):
    """Waits until fewer other waves of the pipeline are at work than it allows at once."""

    def __init__(self, *, pipeline: str, wave: str, limit: int, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__(pipeline=pipeline, wave=wave, ledger_conn_id=ledger_conn_id)
        self.limit = limit

    def ask(self, ledger: LedgerReader, _source: Source) -> Answer:
        """See `LedgerTrigger`; who claims the wave may still find that another one was faster."""
        others = [item for item in ledger.waves(self.pipeline, OPEN) if item.lease_live and item.id != self.wave]
        at_work = f"{count(len(others), 'other wave is', 'other waves are')} at work"
        if len(others) < self.limit:
            return Answer(done=True, message=f"{at_work}, and {self.limit:,} may be at once")
        return Answer(done=False, message=f"{at_work}, first {others[0].id}")


class ResumedTrigger(LedgerTrigger):
    """Waits until a pipeline, and a plan of it, is not paused, at most until a time (epoch seconds)."""

    def __init__(
        self, *, pipeline: str, until: float, plan: str | None = None, ledger_conn_id: str = DEFAULT_LEDGER
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.until = until
        self.plan = plan

    def time_is_over(self) -> bool:
        """Return whether the longest wait is over."""
        return time.time() >= self.until

    def ask(self, ledger: LedgerReader, _source: Source) -> Answer:
        """See `LedgerTrigger`; the end of the time ends the wait too, because the task then asks again itself."""
        record = ledger.pipeline(self.pipeline)
        pause = pause_of(record.pauses, self.plan) if record else None
        if pause is None:
            return Answer(done=True, message=f"{self.plan or self.pipeline} is not paused")
        return Answer(done=self.time_is_over(), message=paused(pause).message)


class WatermarkTrigger(LedgerTrigger):
    """Waits until the watermark of one partition, or of all of a topic, reaches an offset or a time (milliseconds).

    A time is reached when Kafka knows a first record at or after it and everything before that record is committed.
    Only a time asks Kafka.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        topic: str,
        partition: int | None = None,
        offset: int | None = None,
        at_ms: int | None = None,
        ledger_conn_id: str = DEFAULT_LEDGER,
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.at_ms = at_ms

    async def kafka(self) -> str | None:
        """Return the connection that the pipeline's first plan has recorded."""
        if self.at_ms is None:
            return None
        record = await self.query(lambda ledger: ledger.pipeline(self.pipeline))
        return record.spec.kafka_connection if record else None

    def ask(self, ledger: LedgerReader, source: Source) -> Answer:
        """See `LedgerTrigger`."""
        known = ledger.streams(self.pipeline)
        if missing := _not_known_yet(ledger, self.pipeline, self.topic, known):
            return Answer(done=False, message=missing)
        streams: Sequence[StreamRecord] = [stream for stream in known if stream.key.topic == self.topic]
        try:
            if self.at_ms is None:
                ends = self._ends_by_offset(ledger, streams)
            else:
                streams, ends = self._ends_by_time(self.at_ms, ledger, streams, source())
        except LookupError as unknown:
            return Answer(done=False, message=str(unknown))
        unread: list[StreamRecord] = []
        for partition, end in ends.items():
            name = f"{self.topic}/{partition}"
            stream = _only(streams, self.topic, partition)
            if stream is None:
                return Answer(done=False, message=f"the ledger knows no stream {name} yet")
            if stream.watermark < end:
                message = f"{name}: the watermark is {stream.watermark}, and {end} is waited for"
                return Answer(done=False, message=message)
            unread += [stream] if 0 < end <= stream.origin else []
        return Answer(done=True, message=f"the watermarks of {self.topic} are there{_below_origins(unread)}")

    def _ends_by_offset(self, ledger: LedgerReader, streams: Sequence[StreamRecord]) -> dict[int, int]:
        """Return the end that each partition has to reach; LookupError while no partition is known."""
        if self.partition is not None:
            return {self.partition: self.offset or 0}
        partitions = {stream.key.partition for stream in streams}
        if not partitions:
            raise LookupError(f"the ledger knows no stream of {self.topic} yet")
        # Also those that a plan has seen and could not observe.
        for layout in ledger.layouts(self.pipeline):
            if layout.topic == self.topic:
                partitions.update(range(layout.partitions))
        return dict.fromkeys(sorted(partitions), self.offset or 0)

    def _ends_by_time(
        self, at_ms: int, ledger: LedgerReader, streams: Sequence[StreamRecord], kafka: OffsetSource
    ) -> tuple[Sequence[StreamRecord], dict[int, int]]:
        """Return the streams of the topic as Kafka has it now, and the end that each partition has to reach.

        The watermark of an older generation says nothing about a time. LookupError while Kafka has no end.
        """
        try:
            topic = kafka.describe([self.topic])[0]
        except UnknownTopicError as error:
            if streams:
                raise
            raise LookupError(error.message) from error
        sizes = [item.partitions for item in ledger.layouts(self.pipeline) if item.topic_id == topic.topic_id]
        if max(sizes, default=0) > topic.partitions:
            raise LookupError(f"Kafka's answer leaves out partitions of {self.topic} that a plan has seen: asked again")
        partitions = range(topic.partitions) if self.partition is None else [self.partition]
        found = kafka.offsets_at([(self.topic, partition) for partition in partitions], at_ms)
        ends: dict[int, int] = {}
        for partition in partitions:
            end = found.get((self.topic, partition))
            if end is None:
                raise LookupError(f"Kafka has no record of {self.topic}/{partition} that late yet")
            ends[partition] = end
        return [stream for stream in streams if stream.key.topic_id == topic.topic_id], ends


class StableTrigger(LedgerTrigger):
    """Waits until no commit of a group is pending in some partitions, at most until a time (epoch seconds)."""

    def __init__(
        self,
        *,
        pipeline: str,
        kafka_conn_id: str,
        group: str,
        partitions: Sequence[Sequence[str | int]],
        until: float,
        ledger_conn_id: str = DEFAULT_LEDGER,
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.kafka_conn_id = kafka_conn_id
        self.group = group
        self.partitions = [list(item) for item in partitions]
        self.until = until

    async def kafka(self) -> str:
        """Return the connection that the task uses: its pipeline may have no plan yet."""
        return self.kafka_conn_id

    def time_is_over(self) -> bool:
        """Return whether the longest wait is over."""
        return time.time() >= self.until

    def ask(self, _ledger: LedgerReader, source: Source) -> Answer:
        """See `LedgerTrigger`; the end of the time ends the wait too, because the task then asks again itself."""
        if self.time_is_over():
            return Answer(done=True, message=f"commits of group {self.group!r} are still pending, and the time is over")
        only = {(str(topic), int(partition)) for topic, partition in self.partitions}
        snapshot = source().snapshot(sorted({topic for topic, _ in only}), self.group, only)
        unstable = (item for item in snapshot.partitions if item.group_offset_state is GroupOffsetState.UNSTABLE)
        pending = [str(item.stream) for item in unstable]
        if not pending:
            return Answer(done=True, message=f"no commit of group {self.group!r} is pending")
        return Answer(done=False, message=f"commits of group {self.group!r} are pending on {', '.join(pending)}")


def _only(streams: Sequence[StreamRecord], topic: str, partition: int) -> StreamRecord | None:
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


def _below_origins(streams: Sequence[StreamRecord]) -> str:
    """Return which streams begin at or above the end that was waited for: what lies below was passed without a row."""
    if not streams:
        return ""
    named = ", ".join(f"{item.key} begins at {item.origin}" for item in streams[:NAMED])
    more = f" and {count(len(streams) - NAMED, 'more partition')}" if len(streams) > NAMED else ""
    return f"; nothing of it was read below an origin: {named}{more}"


def _not_known_yet(ledger: LedgerReader, pipeline: str, topic: str, streams: Sequence[StreamRecord]) -> str | None:
    """Return why nothing can be known of a topic before its pipeline's first plan; None once something can.

    Refuses a topic that the pipeline does not read and never did: the wait would not end.
    """
    topics = {stream.key.topic for stream in streams}
    if topic in topics:
        return None
    record = ledger.pipeline(pipeline)
    if record is None:
        return f"the ledger knows no pipeline {pipeline!r} yet{nearest(pipeline, ledger.pipelines())}"
    if not record.spec.reads(topic):
        raise unknown_topic(pipeline, topic, topics | set(record.spec.topics))
    return None
