"""Threads of the pages: bounded, and a value that many ask for is made once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.pages.web.access import Workers

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that a test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_twenty_pages_cost_one_look() -> None:
    """Who asks while a value is made waits for it; who asks while it is fresh gets it; later it is made anew."""
    made: list[int] = []
    clock, go_on = Clock(), threading.Event()

    def work() -> int:
        go_on.wait(60)
        made.append(1)
        return len(made)

    async def ask() -> None:
        workers = Workers(threads=2, now=clock)
        asking = [asyncio.ensure_future(workers.shared(("a",), 3.0, work)) for _ in range(20)]
        await asyncio.sleep(0)
        asking.pop().cancel()
        go_on.set()
        assert await asyncio.gather(*asking) == [1] * 19
        clock.now = 2.9
        assert await workers.shared(("a",), 3.0, work) == 1
        clock.now = 3.0
        assert await workers.shared(("a",), 3.0, work) == 2

    asyncio.run(ask())


def test_what_was_made_before_a_decision_is_not_shown_after_it() -> None:
    """Also not what was being made meanwhile."""
    go_on, begun = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        go_on.wait(60)
        return "before"

    async def ask() -> None:
        workers = Workers()
        early = asyncio.ensure_future(workers.shared(("a", "x"), 100.0, slow))
        await asyncio.to_thread(begun.wait, 60)
        workers.forget("a")
        assert await workers.shared(("a", "x"), 100.0, lambda: "after") == "after"
        go_on.set()
        assert await early == "before"
        assert await workers.shared(("a", "x"), 100.0, lambda: "made again") == "after"

    asyncio.run(ask())


def test_an_error_is_not_kept() -> None:
    """All who waited for it have it, and the next one asks anew."""

    def broken() -> str:
        raise UnavailableError("no answer")

    async def ask() -> None:
        workers = Workers()
        waiting = [workers.shared(("a",), 100.0, broken) for _ in range(3)]
        assert {type(found) for found in await asyncio.gather(*waiting, return_exceptions=True)} == {UnavailableError}
        assert await workers.shared(("a",), 100.0, lambda: "well") == "well"

    asyncio.run(ask())


def test_too_many_are_refused_at_once() -> None:
    """A page whose broker hangs takes no thread that others need, and keeps no user waiting without end."""
    go_on = threading.Event()

    async def ask() -> None:
        workers = Workers(threads=1, waiting=1)
        several = [asyncio.ensure_future(workers.run(lambda: go_on.wait(60))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="too many"):
            await workers.run(lambda: None)
        go_on.set()
        assert await asyncio.gather(*several) == [True, True]

    asyncio.run(ask())


def test_what_takes_long_to_make_is_made_less_often() -> None:
    """It is kept for a multiple of the time that it took."""
    clock = Clock()

    def slow() -> float:
        clock.now += 2.0
        return clock.now

    async def ask() -> None:
        workers = Workers(now=clock)
        first = await workers.shared(("a",), 1.0, slow)
        clock.now = 11.9
        assert await workers.shared(("a",), 1.0, slow) == first
        clock.now = 12.0
        assert await workers.shared(("a",), 1.0, slow) > first

    asyncio.run(ask())
