"""Work of requests in threads of its own: Airflow's event loop never waits for a ledger, a broker or a lake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from airflow_kafka_lake.core.errors import UnavailableError

T = TypeVar("T")
THREADS = 8
SHARE, LONGEST = 5, 15.0
"""How many times longer a value is kept, at least, than it took to make; but for that, no more seconds than these."""

WAITING = 100
"""How many requests may wait for a thread; what comes then is refused at once, and Airflow's own pages go on."""


@dataclass
class Workers:
    """A bounded number of threads. Values can be shared: who asks while one is made, or while it is fresh, gets it."""

    threads: int = THREADS
    waiting: int = WAITING
    now: Callable[[], float] = time.monotonic
    _limiter: CapacityLimiter | None = None
    _here: int = 0
    _made: dict[Hashable, tuple[float, Any]] = field(default_factory=dict)
    _making: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)
    _forgotten: int = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; UnavailableError when too many wait already."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self.threads)
        if self._here >= self.threads + self.waiting:
            raise UnavailableError("too many requests wait for this page. Nothing was done; repeat in a few seconds")
        self._here += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._here -= 1

    async def shared(self, key: Hashable, seconds: float, work: Callable[[], T]) -> T:
        """Return a value that is at most `seconds` old; however many ask for it, one thread makes it."""
        found = self._made.get(key)
        if found is not None and self.now() < found[0]:
            return found[1]
        making = self._making.get(key)
        if making is None:
            making = asyncio.ensure_future(self._make(key, seconds, work))
            self._making[key] = making
            making.add_done_callback(lambda done: self._end(key, done))
        # One who goes away does not end what the others wait for.
        return await asyncio.shield(making)

    def forget(self, first: object) -> None:
        """Make the values anew whose key begins so; one that is being made is not kept."""
        self._forgotten += 1
        for kept in (self._made, self._making):
            for key in [key for key in kept if isinstance(key, tuple) and key[0] == first]:
                del kept[key]

    async def _make(self, key: Hashable, seconds: float, work: Callable[[], T]) -> T:
        before, begun = self._forgotten, self.now()
        value = await self.run(work)
        now = self.now()
        # What takes long to make is made less often: one page never takes more than a share of the server.
        seconds = max(seconds, min(SHARE * (now - begun), LONGEST))
        if before == self._forgotten:
            self._made = {name: kept for name, kept in self._made.items() if now < kept[0]}
            self._made[key] = (now + seconds, value)
        return value

    def _end(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        if self._making.get(key) is done:
            del self._making[key]
        if not done.cancelled():
            done.exception()
