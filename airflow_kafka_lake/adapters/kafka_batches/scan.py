"""Scan the gaps of one partition: isolated ones with small reads, dense ones as one stream."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_kafka_lake.adapters.kafka_batches.records import end_of, facts, opened
from airflow_kafka_lake.adapters.kafka_batches.session import Answer, Session
from airflow_kafka_lake.core.kafka.batches import Pieces, explain, joined, unexplained
from airflow_kafka_lake.core.lake.accounting import Explanation
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Stream
from airflow_kafka_lake.core.spec import Isolation

_ONE_BATCH = 1
_FIRST_STREAM_BYTES, _LARGEST_STREAM_BYTES = 64 * 1024, 4 * 1024 * 1024
_WORTH_A_PROBE_BYTES = 256 * 1024
"""Reading this much takes about as long as asking once more."""

_SIGN_OF_LIFE_SECONDS = 10.0
_FIRST_GUESS_BYTES = 1024.0
_BELIEVE_SILENCE_AFTER = 3
_WITHOUT_END = 2**63 - 1


class Throughput:
    """Keeps all scans of a reader below a number of bytes per second; None: no bound. `now` returns seconds."""

    def __init__(self, bytes_per_second: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._paid_until = 0.0

    @property
    def largest_read(self) -> int:
        """How much may be asked for at once: what a second pays for, so that the broker's load is even."""
        return _LARGEST_STREAM_BYTES if self._rate is None else min(max(1, int(self._rate)), _LARGEST_STREAM_BYTES)

    def pause_after(self, size: int) -> float:
        """Return how many seconds to wait after `size` bytes were read."""
        if self._rate is None:
            return 0.0
        now = self._now()
        self._paid_until = max(now, self._paid_until) + size / self._rate
        return self._paid_until - now


class GapScan:
    """Explains the asked offsets of one stream, in offset order.

    Each Fetch answer is explained by itself: at isolation 1 it lists every aborted transaction that overlaps it, also
    those that began before it or whose marker lies behind it.
    """

    def __init__(
        self,
        session: Session,
        stream: Stream,
        asked: RangeSet,
        *,
        isolation: Isolation,
        throughput: Throughput,
        heartbeat: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._session = session
        self.stream = stream
        self._left = Pieces(asked)
        self._level = 1 if isolation is Isolation.READ_COMMITTED else 0
        self._throughput = throughput
        self._heartbeat = heartbeat
        self._bytes_per_offset = _FIRST_GUESS_BYTES
        self._told = 0
        self.found: list[Explanation] = []

    async def run(self) -> None:
        """Explain exactly the asked offsets: `found` is then sorted and disjoint."""
        size, empty_answers = _ONE_BATCH, 0
        while (start := self._left.next) is not None:
            answer = await self._session.fetch(self.stream, start, isolation=self._level, max_bytes=size)
            self._beat()
            if answer is None:
                await self._out_of_range(start)
                continue
            if (reached := self._take(answer)) > start:
                size, empty_answers = self._next_size(size, reached), 0
                await self._rest(self._throughput.pause_after(len(answer.records)))
                continue
            empty_answers += 1
            await self._empty_answer(start, answer, believe=empty_answers == _BELIEVE_SILENCE_AFTER)
        self._beat()
        self.found = list(joined(self.found))

    def _beat(self) -> None:
        """Tell that the scan goes on, and how many offsets it has explained since."""
        explained = sum(item.range.span for item in self.found[self._told :])
        self._told = len(self.found)
        self._heartbeat(explained)

    async def _rest(self, seconds: float) -> None:
        """Wait, with a sign of life now and then: one batch may be worth more than a lease."""
        while seconds > 0:
            await self._session.sleep(min(seconds, _SIGN_OF_LIFE_SECONDS))
            self._beat()
            seconds -= _SIGN_OF_LIFE_SECONDS

    def _take(self, answer: Answer) -> int:
        """Explain what lies before the end of the answer's last batch; return that end, 0 for an empty answer."""
        batches = opened(answer.records)
        if not batches:
            return 0
        reached = end_of(batches[-1])
        wanted = RangeSet(self._left.upto(reached))
        read = facts(batches, wanted)
        self.found += explain(wanted, read, answer.aborted, log_start=answer.log_start)
        if any(batch.control is None for batch in read):
            self._bytes_per_offset = len(answer.records) / (reached - batches[0].base_offset)
        return reached

    def _next_size(self, size: int, reached: int) -> int:
        ahead = self._left.next
        if ahead is None or (ahead - reached) * self._bytes_per_offset > _WORTH_A_PROBE_BYTES:
            return _ONE_BATCH
        return min(max(4 * size, _FIRST_STREAM_BYTES), self._throughput.largest_read)

    async def _empty_answer(self, start: int, answer: Answer, *, believe: bool) -> None:
        """Look behind an empty answer: at isolation 1 nothing is left up to an open transaction, which bounds it."""
        behind = None
        if self._level == 1 and start < answer.last_stable:
            behind = await self._session.fetch(self.stream, start, isolation=0, max_bytes=_ONE_BATCH)
        if behind and (batches := opened(behind.records)) and batches[0].base_offset > start:
            end = batches[0].base_offset
            self.found += explain(RangeSet(self._left.upto(end)), (), (), log_start=behind.log_start, end_known=end)
        elif believe:
            end = answer.last_stable if self._level == 1 else answer.high_watermark
            self._give_up(f"Kafka returned nothing from offset {start} on, with its readable end at {end}")

    async def _out_of_range(self, start: int) -> None:
        log_start = await self._session.first_offset(self.stream)
        if start < log_start:
            self.found += unexplained(RangeSet(self._left.upto(log_start)), f"below the log start {log_start}")
        else:
            self._give_up(f"offset {start} lies beyond the end of the log")

    def _give_up(self, seen: str) -> None:
        self.found += unexplained(RangeSet(self._left.upto(_WITHOUT_END)), seen)
