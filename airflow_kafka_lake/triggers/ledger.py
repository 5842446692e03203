"""A trigger that asks the ledger: soon after an event of its pipeline, ever more rarely without one (L15)."""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_lake.core.backoff import Wait
from airflow_kafka_lake.core.errors import ConnectionSettingsError, KafkaLakeError, TransientError, UnavailableError
from airflow_kafka_lake.ports import Ledger, OffsetSource
from airflow_kafka_lake.services.history import newest_event
from airflow_kafka_lake.triggers.shared import LEDGERS
from airflow_kafka_lake.wiring.connections import aget_connection
from airflow_kafka_lake.wiring.kafka import TYPES as KAFKA_TYPES
from airflow_kafka_lake.wiring.kafka import KafkaConnection
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER
from airflow_kafka_lake.wiring.ledger import TYPES as LEDGER_TYPES

T = TypeVar("T")
Source = Callable[[], OffsetSource]
POLL_SECONDS = 5.0
_UNKNOWN = (TransientError, ConnectionSettingsError)
"""The task resolved the same connections a moment ago: one that Airflow does not find now is unknown, not missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether the wait is over, and why (not), in one sentence."""

    done: bool
    message: str


class WaitEvent(TypedDict):
    """How a wait ended: with what it waited for, or with an error that more waiting cannot remove."""

    status: Literal["success", "error"]
    message: str


class LedgerTrigger(BaseTrigger):
    """Asks one question until the answer is yes, then fires one `WaitEvent`.

    A ledger, a Kafka or an Airflow that does not answer leaves the answer unknown: the wait goes on.
    """

    def __init__(self, *, pipeline: str, ledger_conn_id: str = DEFAULT_LEDGER) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.ledger_conn_id = ledger_conn_id
        self._ledger: Ledger | None = None
        self._source: OffsetSource | None = None

    @abstractmethod
    def ask(self, ledger: Ledger, source: Source) -> Answer:
        """Ask once; raises what keeps the answer from being known, or what no waiting can change."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and the constructor's arguments, which are attributes of the same names."""
        names = inspect.signature(type(self)).parameters
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ask when a check is due; look for new events of the pipeline in between."""
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
        """Give the ledger back."""
        ledger, self._ledger = self._ledger, None
        await asyncio.to_thread(LEDGERS.close, ledger)

    async def _look(self) -> WaitEvent | None:
        """Ask once; return the event that ends the wait, None to go on."""
        try:
            if self._source is None and (name := await self.kafka()):
                self._source = KafkaConnection(name, connection=await aget_connection(name, *KAFKA_TYPES)).source()
            answer = await self.query(lambda ledger: self.ask(ledger, self._opened_source))
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
            connection = await aget_connection(self.ledger_conn_id, *LEDGER_TYPES)
            self._ledger = await asyncio.to_thread(LEDGERS.open, connection)
        return await asyncio.to_thread(question, self._ledger)

    async def kafka(self) -> str | None:
        """Return the connection of the Kafka that `ask` needs; None where it needs none, or it is not known yet."""
        return None

    def _opened_source(self) -> OffsetSource:
        if self._source is None:
            raise UnavailableError("the pipeline's connection to Kafka is not known yet")
        return self._source

    def time_is_over(self) -> bool:
        """Return whether the wait has to end now: the next check is then due at once."""
        return False

    def now(self) -> float:
        """Return the time on a clock that does not run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the triggerer."""
        await asyncio.sleep(seconds)
