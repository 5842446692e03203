"""Triggers: each asks the ledger one question, soon after an event of its pipeline and ever more rarely without one."""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, dataclass_transform

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.amounts import FEW, count, some
from airflow_kafka_lake.core.errors import (
    ConnectionSettingsError,
    HeldError,
    KafkaLakeError,
    TransientError,
    UnavailableError,
    UnknownTopicError,
    UsageError,
    nearest,
    unknown_topic,
)
from airflow_kafka_lake.core.ledger.guards import pause_of, paused
from airflow_kafka_lake.core.ledger.records import StreamRecord
from airflow_kafka_lake.core.ledger.requests import RENEWALS, AskForWave, EndRequest, error_of
from airflow_kafka_lake.core.ledger.waves import FINISHED, OPEN, UNRESOLVED
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.ordering.layouts import Layout
from airflow_kafka_lake.core.ordering.segments import describe
from airflow_kafka_lake.core.reports.attention import serving, untaken_for_too_long
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.ports import Ledger, LedgerReader, OffsetSource
from airflow_kafka_lake.services.decisions import newest_event
from airflow_kafka_lake.services.reporting import order_of
from airflow_kafka_lake.wiring.connections import (
    DEFAULT_LEDGER,
    KAFKA_TYPES,
    LEDGER_TYPES,
    KafkaConnection,
    aget_connection,
    ledger_url,
)

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SharedLedger


# When a waiting task looks again: one timer per wait, slower and slower, at once faster when something happens
# (L15).
#
# Times are seconds on any clock that does not run backwards.

FIRST_SECONDS = 2.0
LONGEST_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One wait: the next check is `due` then, `pause` after the last one."""

    due: float
    pause: float

    @classmethod
    def begin(cls, now: float) -> Wait:
        """Start a wait: the first check is due after `FIRST_SECONDS`."""
        return cls(due=now + FIRST_SECONDS, pause=FIRST_SECONDS)

    def is_due(self, now: float) -> bool:
        """Return whether it is time to check."""
        return now >= self.due

    def checked(self, now: float) -> Wait:
        """Return the wait after a check that did not end it: the pause doubles, up to `LONGEST_SECONDS`."""
        pause = min(self.pause * 2, LONGEST_SECONDS)
        return Wait(due=now + pause, pause=pause)

    def progressed(self, now: float) -> Wait:
        """Return the wait after something happened: the pauses start anew.

        No check comes later by that: where something always happens, none would come at all.
        """
        anew = Wait.begin(now)
        return replace(anew, due=min(self.due, anew.due))


# A trigger that asks the ledger: soon after an event of its pipeline, ever more rarely without one (L15).

T = TypeVar("T")
POLL_SECONDS = 5.0
_UNKNOWN = (TransientError, ConnectionSettingsError)
"""The task resolved the same connections a moment ago: one that Airflow does not find now is unknown, not missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitAnswer:
    """Whether the wait is over, and why (not), in one sentence."""

    done: bool
    message: str


class WaitEvent(TypedDict):
    """The end of a wait: with its answer, or with an error that more waiting cannot remove."""

    status: Literal["success", "error"]
    message: str


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False, repr=False)
class LedgerTrigger(BaseTrigger):
    """Asks one question until the answer is yes, then fires one `WaitEvent`.

    A ledger, a Kafka or an Airflow that does not answer leaves the answer unknown: the wait goes on.
    """

    pipeline: str
    ledger_conn_id: str = DEFAULT_LEDGER
    source: OffsetSource | None = field(default=None, init=False)
    _ledger: SharedLedger | None = field(default=None, init=False)

    def __init_subclass__(cls) -> None:
        """Make a dataclass of a class with fields of its own: they are its arguments."""
        if inspect.get_annotations(cls):
            dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        super().__init__()

    @abstractmethod
    def ask(self, ledger: Ledger) -> WaitAnswer:
        """Ask once; raises the error that keeps the answer unknown, or that no waiting can change."""

    def kafka(self, ledger: Ledger) -> str | None:  # noqa: ARG002  # most need none
        """Return the connection of the Kafka that `ask` needs as `source`; None where it needs none, or none yet."""
        return None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and the constructor's arguments, which are attributes of the same names."""
        # Airflow keeps a trigger as this, and makes it anew in whichever triggerer takes it.
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        return f"{type(self).__module__}.{type(self).__qualname__}", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask when a check is due; look for new events of the pipeline in between."""
        wait = Wait.begin(self.now())
        seen: int | None = None
        while True:
            await self.sleep(min(POLL_SECONDS, max(0.0, wait.due - self.now())))
            newest = await self._newest(seen)
            if seen is not None and newest is not None and newest > seen:
                wait = wait.progressed(self.now())
            seen = seen if newest is None else newest
            if not (wait.is_due(self.now()) or self.time_is_over()):
                continue
            if event := await self._look():
                yield TriggerEvent(dict(event))
                return
            wait = wait.checked(self.now())

    async def cleanup(self) -> None:
        """Give the ledger back."""
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            await asyncio.to_thread(ledger.close)

    async def _look(self) -> WaitEvent | None:
        """Ask once; return the event that ends the wait, None to go on."""
        try:
            if self.source is None and (name := await self.query(self.kafka)):
                self.source = KafkaConnection(name, connection=await aget_connection(name, *KAFKA_TYPES)).source()
            answer = await self.query(self.ask)
        except _UNKNOWN as error:
            self.log.info("not known: %s", error.message)
            return None
        except KafkaLakeError as error:
            return {"status": "error", "message": f"{type(error).__name__}: {error.message}"}
        self.log.info("%s", answer.message)
        return {"status": "success", "message": answer.message} if answer.done else None

    async def _newest(self, after: int | None) -> int | None:
        """Return the newest event's sequence; None when it cannot be known."""
        try:
            return await self.query(lambda ledger: newest_event(ledger, self.pipeline, after or 0))
        except KafkaLakeError:
            return None

    async def query(self, question: Callable[[Ledger], T]) -> T:
        """Ask the ledger in a thread, and open it first where it is not open."""
        if self._ledger is None:
            from airflow_kafka_lake.adapters.sql_ledger.ledger import shared

            # Within a triggerer's loop Airflow resolves connections by its asynchronous call alone.
            connection = await aget_connection(self.ledger_conn_id, *LEDGER_TYPES)
            self._ledger = await asyncio.to_thread(shared, ledger_url(connection))
        return await asyncio.to_thread(question, self._ledger)

    def time_is_over(self) -> bool:
        """Return whether the wait has to end now: the next check is then due at once."""
        return False

    def now(self) -> float:
        """Return the time on a clock that does not run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the triggerer."""
        await asyncio.sleep(seconds)


# The waits of a task: each trigger asks one question, answered with yes or with the missing part.


class PlanResolvedTrigger(LedgerTrigger):
    """Waits until no range of a plan is open: each is committed, skipped, or withdrawn by a person."""

    plan: str

    def ask(self, ledger: LedgerReader) -> WaitAnswer:
        """See `LedgerTrigger`; a plan that the ledger does not know is not resolved."""
        if not (found := ledger.ranges(plan=self.plan)):
            return WaitAnswer(done=False, message=f"the ledger knows no range of plan {self.plan}")
        open_ranges = [item for item in found if item.state in UNRESOLVED]
        if not open_ranges:
            return WaitAnswer(done=True, message=f"no range of plan {self.plan} is open")
        first = open_ranges[0]
        where = f"first {first.stream} {first.range}, {first.state}"
        ranges = count(len(open_ranges), f"range of plan {self.plan} is", f"ranges of plan {self.plan} are")
        return WaitAnswer(done=False, message=f"{ranges} open, {where}")


class WaveFreeTrigger(LedgerTrigger):
    """Waits until no process works on a wave."""

    wave: str

    def ask(self, ledger: LedgerReader) -> WaitAnswer:
        """See `LedgerTrigger`."""
        record = ledger.wave(self.wave)
        if record.state in FINISHED or not record.lease_live:
            return WaitAnswer(done=True, message=f"wave {self.wave} is {record.state} and free")
        holder = record.holder.shown if record.holder else "another process"
        until = timestamp(record.lease_until)
        return WaitAnswer(done=False, message=f"{holder} works on wave {self.wave}; its lease is until {until}")


class WaveLaunchableTrigger(WaveFreeTrigger):
    """Waits until all ancestors of a wave are drained. Raises HeldError where only a person can go on."""

    def ask(self, ledger: LedgerReader) -> WaitAnswer:
        """See `LedgerTrigger`."""
        closed = ledger.gate(self.wave)
        if not closed:
            return WaitAnswer(done=True, message=f"everything that comes before wave {self.wave} is drained")
        pipeline = ledger.wave(self.wave).pipeline
        order = order_of(ledger, pipeline)
        message = f"wave {self.wave} waits for its turn: {describe(closed[0], pipeline)}{order.because(closed[0])}"
        if any(order.needs_person(blocker) for blocker in closed):
            raise HeldError(f"{message}. See: {remedies.status(pipeline)}", wave=self.wave)
        return WaitAnswer(done=False, message=message)


class WaveAllowedTrigger(WaveFreeTrigger):
    """Waits until fewer other waves of the pipeline are at work than it allows at once."""

    limit: int

    def ask(self, ledger: LedgerReader) -> WaitAnswer:
        """See `LedgerTrigger`; a claim of the wave may still find that another one was faster."""
        others = [item for item in ledger.waves(self.pipeline, OPEN) if item.lease_live and item.id != self.wave]
        at_work = f"{count(len(others), 'other wave is', 'other waves are')} at work"
        if len(others) < self.limit:
            return WaitAnswer(done=True, message=f"{at_work}, and {self.limit:,} may be at once")
        return WaitAnswer(done=False, message=f"{at_work}, first {others[0].id}")


class ResumedTrigger(LedgerTrigger):
    """Waits until a pipeline, and a plan of it, is not paused, at most until a time (epoch seconds)."""

    until: float
    plan: str | None = None

    def time_is_over(self) -> bool:
        """Return whether the longest wait is over."""
        # By the wall clock: the task has set the time in another process, perhaps on another machine.
        return time.time() >= self.until

    def ask(self, ledger: LedgerReader) -> WaitAnswer:
        """See `LedgerTrigger`; the end of the time ends the wait too, because the task then asks again itself."""
        record = ledger.pipeline(self.pipeline)
        pause = pause_of(record.pauses, self.plan) if record else None
        if pause is None:
            return WaitAnswer(done=True, message=f"{self.plan or self.pipeline} is not paused")
        return WaitAnswer(done=self.time_is_over(), message=paused(pause).message)


class WatermarkTrigger(LedgerTrigger):
    """Waits until the watermark of one partition, or of all of a topic, reaches an offset or a time (milliseconds).

    A time is reached when Kafka has a record at or after it and everything before the first one is committed.
    """

    topic: str
    offset: int = 0
    partition: int | None = None
    at_ms: int | None = None

    def kafka(self, ledger: LedgerReader) -> str | None:
        """See `LedgerTrigger`: the pipeline's first plan has recorded it."""
        record = None if self.at_ms is None else ledger.pipeline(self.pipeline)
        return record.spec.kafka_connection if record else None

    def ask(self, ledger: LedgerReader) -> WaitAnswer:
        """See `LedgerTrigger`."""
        known = ledger.streams(self.pipeline)
        if missing := _not_known_yet(ledger, self.pipeline, self.topic, known):
            return WaitAnswer(done=False, message=missing)
        try:
            topic = None if self.at_ms is None else self._opened().describe([self.topic])[0]
        except UnknownTopicError as error:
            if any(stream.key.topic == self.topic for stream in known):
                raise
            return WaitAnswer(done=False, message=error.message)

        def is_meant(item: Stream | Layout) -> bool:
            # The watermark of an older generation says nothing about a time.
            return item.topic == self.topic and (topic is None or item.topic_id == topic.topic_id)

        streams = [stream for stream in known if is_meant(stream.key)]
        # All are also the partitions that a plan has seen and could not observe, or that this broker does not know yet.
        sizes = [item.partitions for item in ledger.layouts(self.pipeline) if is_meant(item)]
        there = topic.partitions if topic else 0
        seen = {stream.key.partition for stream in streams}.union(range(max(there, *sizes, 0)))
        partitions = sorted(seen) if self.partition is None else [self.partition]
        if topic is None:
            return self._answer(streams, dict.fromkeys(partitions, self.offset))
        asked = [(self.topic, partition) for partition in partitions if partition < there]
        firsts = self._opened().offsets_at(asked, self.at_ms or 0)
        return self._answer(streams, {partition: firsts.get((self.topic, partition)) for partition in partitions})

    def _answer(self, streams: Sequence[StreamRecord], ends: Mapping[int, int | None]) -> WaitAnswer:
        """Compare the watermarks with the ends, which Kafka may not have yet."""
        message = "" if ends else f"the ledger knows no stream of {self.topic} yet"
        unread: list[StreamRecord] = []
        for partition, end in ends.items():
            name, stream = f"{self.topic}/{partition}", _only(streams, self.topic, partition)
            if end is None:
                message = message or f"Kafka has no record of {name} that late yet"
            elif stream is None:
                message = message or f"the ledger knows no stream {name} yet"
            elif stream.watermark < end:
                message = message or f"{name}: the watermark is {stream.watermark}, and {end} is waited for"
            elif 0 < end <= stream.origin:
                unread.append(stream)
        there = f"the watermarks of {self.topic} are there"
        if unread:  # they begin at or above the awaited end: the offsets below were passed without a row
            named = some((f"{item.key} begins at {item.origin}" for item in unread), FEW, "partition")
            there += f"; nothing of it was read below an origin: {named}"
        return WaitAnswer(done=not message, message=message or there)

    def _opened(self) -> OffsetSource:
        if self.source is None:
            raise UnavailableError("the pipeline's connection to Kafka is not known yet")
        return self.source


def _only(streams: Sequence[StreamRecord], topic: str, partition: int) -> StreamRecord | None:
    """Return the stream of a partition, None when there is none; refuse to choose between generations of a topic."""
    found = [stream for stream in streams if stream.key.place == (topic, partition)]
    if len(found) > 1:
        raise UsageError(
            f"topic {topic} was re-created, and the ledger knows {len(found)} generations of partition {partition}: "
            "wait for a plan instead of an offset",
            topic=topic,
            partition=partition,
        )
    return found[0] if found else None


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


# Wait for a worker that brings a wave into the lake, and keep the request for it alive meanwhile.

ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States in which a task does not come back by itself."""


class WaveServedTrigger(LedgerTrigger):
    """Waits until a requested wave has ended, or was answered; renews the request while it waits, and revives none.

    So the request lapses when the trigger ends without a word: a triggerer that starts again within `wanted_for`
    (seconds) finds it alive, and the worker at work. It ends at once where Airflow says that the task has ended by a
    person's hand. A task that was cleared asks anew, and goes on with the attempt that runs.
    """

    wave: str
    request: str
    actor: str
    wanted_for: float
    worker_timeout: float
    bytes_per_second: int | None = None
    _renew_at: float | None = field(default=None, init=False)

    def ask(self, ledger: Ledger) -> WaitAnswer:
        """See `LedgerTrigger`; UnfinishedError when no worker has come for `worker_timeout` (seconds)."""
        asked = ledger.commit(
            AskForWave(
                id=self.request,
                wave=self.wave,
                actor=self.actor,
                wanted_for=timedelta(seconds=self.wanted_for),
                bytes_per_second=self.bytes_per_second,
                renews=True,
            )
        )
        self._renew_at = self.now() + self.wanted_for / RENEWALS
        record = ledger.wave(self.wave)
        if asked.request is None and record.state in FINISHED:
            return WaitAnswer(done=True, message=f"wave {self.wave} is {record.state}")
        if asked.request is None:
            ended = f"the request {self.request} for wave {self.wave} has ended: a task that still waits asks anew"
            return WaitAnswer(done=True, message=ended)
        if error := error_of(asked.request):
            return WaitAnswer(done=True, message=f"a worker has tried wave {self.wave}: {type(error).__name__}")
        found = serving(asked.request, record, ledger.attempts(self.wave), asked.now)
        if problem := untaken_for_too_long(record, found, timedelta(seconds=self.worker_timeout)):
            ledger.commit(EndRequest(id=self.request, wave=self.wave))
            raise problem
        return WaitAnswer(done=False, message=found.message)

    def time_is_over(self) -> bool:
        """Return whether the request has to be renewed."""
        return self._renew_at is not None and self.now() >= self._renew_at

    async def on_kill(self) -> None:
        """End the request of a task that a person has marked as ended; the worker ends its job then.

        Airflow calls this as well when the task is cleared, which is about to ask again: its request is left to lapse.
        """
        if await asyncio.to_thread(self._has_ended):
            await self.query(lambda ledger: ledger.commit(EndRequest(id=self.request, wave=self.wave)))
            self.log.info("wave %s is not wanted any more", self.wave)

    def _has_ended(self) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti: Any = self.task_instance
        found = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=[ti.task_id], map_index=ti.map_index
        )
        key = ti.task_id if ti.map_index < 0 else f"{ti.task_id}_{ti.map_index}"
        return found.get(ti.run_id, {}).get(key) in ENDED
