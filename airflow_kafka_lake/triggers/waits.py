"""Triggers that ask the ledger now and then: at once faster when something happens, slower and slower otherwise (L15).

Constructor arguments are exactly what `serialize` returns. A ledger, a Kafka or an Airflow that does not answer makes
the answer unknown: the wait goes on.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, TypedDict, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_lake.core.backoff import Wait
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError, TransientError, UnavailableError
from airflow_kafka_lake.ports import LedgerReader, OffsetSource
from airflow_kafka_lake.triggers.conditions import (
    Condition,
    Drained,
    PlanResolved,
    WatermarkReached,
    WaveFree,
    WaveLaunchable,
)
from airflow_kafka_lake.wiring.connections import aget_connection
from airflow_kafka_lake.wiring.kafka import TYPES as KAFKA_TYPES
from airflow_kafka_lake.wiring.kafka import KafkaConnection
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER, LedgerConnection
from airflow_kafka_lake.wiring.ledger import TYPES as LEDGER_TYPES

T = TypeVar("T")
POLL_SECONDS = 5.0
EVENTS_AT_ONCE = 1000
_UNKNOWN = (TransientError, ConnectionSettingsError)
"""The task resolved the same connections a moment ago: one that Airflow does not find now is unknown, not missing."""


class WaitEvent(TypedDict):
    """What a wait ends with: what was waited for is there, or an error that waiting cannot help."""

    status: Literal["success", "error"]
    message: str


class LedgerTrigger(BaseTrigger):
    """Waits until a condition on the ledger holds; then fires one `WaitEvent`."""

    def __init__(self, *, pipeline: str, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.ledger_conn_id = ledger_conn_id
        self._ledger: LedgerReader | None = None
        self._source: OffsetSource | None = None

    @abstractmethod
    def condition(self) -> Condition:
        """Return what is waited for."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and the constructor's arguments."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {"pipeline": self.pipeline, "ledger_conn_id": self.ledger_conn_id, **self.own_arguments()}

    def own_arguments(self) -> dict[str, Any]:
        """Return the arguments that a subclass adds."""
        return {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check when the wait says so; watch the ledger's events in between."""
        wait = Wait.begin(self.now())
        seen: int | None = None
        while True:
            await self.sleep(min(POLL_SECONDS, max(0.0, (wait.due or 0.0) - self.now())))
            newest = await self._newest(seen)
            if seen is not None and newest is not None and newest > seen:
                wait = wait.progressed(self.now())
            seen = seen if newest is None else newest
            if not (wait.is_due(self.now()) or self.time_is_over()):
                continue
            event = await self._look()
            if event is not None:
                wait = wait.closed()
                yield TriggerEvent(dict(event))
                return
            wait = wait.checked(self.now())

    async def cleanup(self) -> None:
        """Close the ledger."""
        close = getattr(self._ledger, "close", None)
        self._ledger = None
        if close is not None:
            await asyncio.to_thread(close)

    async def _look(self) -> WaitEvent | None:
        """Return the event that ends the wait; None to go on."""
        try:
            await self.prepare()
            answer = await self._ask(lambda ledger: self.condition()(ledger, self._opened_source))
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
            return await self._ask(lambda ledger: newest_event(ledger, self.pipeline, after or 0))
        except KafkaLakeError:
            return None

    async def _ask(self, question: Callable[[LedgerReader], T]) -> T:
        if self._ledger is None:
            await self.open()
        ledger = self._ledger
        assert ledger is not None
        return await asyncio.to_thread(question, ledger)

    async def open(self) -> None:
        """Resolve the connections; each is opened on first use."""
        connection = await aget_connection(self.ledger_conn_id, *LEDGER_TYPES)
        self._ledger = await asyncio.to_thread(LedgerConnection(self.ledger_conn_id, connection=connection).ledger)

    async def prepare(self) -> None:
        """Resolve, before a look, what the ledger did not tell earlier."""

    def _opened_source(self) -> OffsetSource:
        if self._source is None:
            raise UnavailableError("the pipeline's connection to Kafka is not known yet")
        return self._source

    def time_is_over(self) -> bool:
        """Return whether the wait ends now, whatever the answer: then it is asked for at once."""
        return False

    def now(self) -> float:
        """Return the time on a clock that does not run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let others work."""
        await asyncio.sleep(seconds)


def newest_event(ledger: LedgerReader, pipeline: str, after: int) -> int:
    """Return the sequence of a pipeline's newest event; `after` when there is none above it."""
    while events := ledger.events(pipeline, after=after, limit=EVENTS_AT_ONCE):
        after = events[-1].sequence
        if len(events) < EVENTS_AT_ONCE:
            break
    return after


class PlanResolvedTrigger(LedgerTrigger):
    """Waits until every range of a plan is committed or skipped."""

    def __init__(self, *, pipeline: str, plan: str, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.plan = plan

    def own_arguments(self) -> dict[str, Any]:
        return {"plan": self.plan}

    def condition(self) -> Condition:
        return PlanResolved(plan=self.plan)


class DrainedTrigger(LedgerTrigger):
    """Waits until streams are drained up to given ends, `{topic: {partition: end}}`."""

    def __init__(
        self, *, pipeline: str, until: dict[str, dict[str, int]], ledger_conn_id: str = DEFAULT_LEDGER
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.until = until

    def own_arguments(self) -> dict[str, Any]:
        return {"until": self.until}

    def condition(self) -> Condition:
        return Drained(pipeline=self.pipeline, until=self.until)


class WaveFreeTrigger(LedgerTrigger):
    """Waits until no task works on a wave."""

    def __init__(self, *, pipeline: str, wave: str, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.wave = wave

    def own_arguments(self) -> dict[str, Any]:
        return {"wave": self.wave}

    def condition(self) -> Condition:
        return WaveFree(wave=self.wave)


class WaveLaunchableTrigger(WaveFreeTrigger):
    """Waits until everything is drained that must come before a wave; fails when only a person can go on."""

    def condition(self) -> Condition:
        return WaveLaunchable(wave=self.wave)


class WatermarkTrigger(LedgerTrigger):
    """Waits until watermarks reach an offset, or a time in milliseconds; only a time asks Kafka."""

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

    def own_arguments(self) -> dict[str, Any]:
        names = ("topic", "partition", "offset", "at_ms")
        return {name: getattr(self, name) for name in names}

    def condition(self) -> Condition:
        return WatermarkReached(
            pipeline=self.pipeline,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            at_ms=self.at_ms,
        )

    async def prepare(self) -> None:
        """Open Kafka by the connection that the pipeline's first plan has recorded."""
        if self.at_ms is None or self._source is not None:
            return
        record = await self._ask(lambda ledger: ledger.pipeline(self.pipeline))
        if record is not None:
            name = record.spec.kafka_connection
            connection = await aget_connection(name, *KAFKA_TYPES)
            self._source = KafkaConnection(name, connection=connection).source()
