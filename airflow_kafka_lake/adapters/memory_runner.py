"""A job runner without Spark: reads what a job names from Kafka in memory and stages it in the lake in memory."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Protocol

from airflow_kafka_lake.core.comparing import CompareJob, Comparison, Record, differences
from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.core.staging import StageJob
from airflow_kafka_lake.core.streams import StreamKey

Position = tuple[str, str, int, int, bytes | None, bytes | None]


class Reader(Protocol):
    """Where records come from."""

    def read(
        self, topic: str, partition: int, stretch: OffsetRange, isolation: Isolation
    ) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return `(offset, key, value)` of every record that a reader of the stretch sees."""


class Stage(Protocol):
    """Where rows go to."""

    def stage(self, identifier: str, attempt: str, rows: Iterable[Position]) -> None:
        """Commit rows to an attempt's branch."""

    def records(self, identifier: str, snapshot: int) -> Iterable[Position]:
        """Return the rows that a snapshot shows."""


class MemoryRunner:
    """`ports.JobRunner` in memory.

    `failures` holds the last words of the next jobs that shall fail; `unfinished` is how many of the next jobs end
    without a word and without a result, as a killed driver does; `tamper` may change what a job writes.
    """

    def __init__(self, kafka: Reader, lake: Stage) -> None:
        self.failures: deque[str] = deque()
        self.unfinished = 0
        self.tamper: Callable[[list[Position]], list[Position]] = lambda rows: rows
        self.jobs: list[StageJob] = []
        self._kafka = kafka
        self._lake = lake

    def where(self) -> str:
        """Say where jobs run."""
        return "in this process (memory)"

    def end_orphan(self, job: str | None, name: str) -> bool:  # noqa: ARG002 - there is none
        """There is never one: a job here ends with its caller."""
        return False

    def compare(self, job: CompareJob, *, say: Callable[[str], None]) -> Comparison:
        """Compare keys and values, which is all that rows in memory have."""
        if self.failures:
            raise JobFailedError(self.failures.popleft(), table=job.table)
        kafka: dict[StreamKey, dict[int, Record]] = defaultdict(dict)
        lake: dict[StreamKey, dict[int, Record]] = defaultdict(dict)
        for item in job.stretches:
            for offset, *record in self._kafka.read(item.topic, item.partition, item.range, job.isolation):
                kafka[item.topic, item.topic_id, item.partition][offset] = tuple(record)
        for topic, topic_id, partition, offset, *record in self._lake.records(job.table, job.snapshot):
            lake[topic, topic_id, partition][offset] = tuple(record)
        say("compared")
        return Comparison(
            records=sum(map(len, kafka.values())), bytes=0, differences=differences(job.stretches, kafka, lake)
        )

    def stage(self, job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None]) -> None:
        """Read every stretch of the job and stage all rows in one commit, also when there are none."""
        self.jobs.append(job)
        started(f"memory-{len(self.jobs)}")
        if self.failures:
            raise JobFailedError(self.failures.popleft(), attempt=job.attempt)
        rows: list[Position] = []
        for stretch in job.stretches:
            records = self._kafka.read(stretch.topic, stretch.partition, stretch.range, job.isolation)
            rows += [(stretch.topic, stretch.topic_id, stretch.partition, *record) for record in records]
            heartbeat()
        if self.unfinished:
            self.unfinished -= 1
            return
        self._lake.stage(job.table, job.attempt, self.tamper(rows))
