"""Jobs, time and processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from airflow_kafka_lake.core.lake.staging import StageJob, Tip
from airflow_kafka_lake.core.ledger.waves import (
    LeaseHolder,
)
from airflow_kafka_lake.core.progress import Counters


def uncounted(_: Counters) -> None:
    """Take no notice of what a job counts."""


def unread(_: Sequence[Tip]) -> None:
    """Take no notice of what a job has read last."""


class ReportingJob(Protocol):
    """A Spark job that returns a document; when it fails it has changed nothing."""

    @property
    def name(self) -> str:
        """The application name."""

    @property
    def table(self) -> str:
        """The table that it reads."""

    @property
    def program(self) -> str:
        """The driver's program, as a path inside the package."""

    @property
    def task(self) -> str:
        """What the job does, for messages: "compares … with Kafka"."""

    @property
    def left(self) -> str:
        """What a failure leaves behind, and what to do next, for messages."""

    @property
    def advice(self) -> Mapping[str, str]:
        """What the usual reasons of a failure mean for this job, where it differs from staging."""

    @property
    def effort(self) -> int:
        """How much the job computes (`core.lake.effort`)."""

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON, for the driver."""


class JobRunner(Protocol):
    """Runs Spark jobs."""

    def where(self) -> str:
        """Describe where jobs run, for plans and messages (e.g. "a local Spark master on this machine")."""

    def stage(
        self,
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None] = uncounted,
        read: Callable[[Sequence[Tip]], None] = unread,
    ) -> None:
        """Run the job to its end. `started` gets the job reference once; `heartbeat` is called every few seconds while
        the job makes progress, and an exception it raises ends the job. A job without progress for too long is ended.
        `counted` gets what the job has counted before each beat, and at its end, as far as that is known; `read` gets
        the last record that each of its consumers has read of a slice, also of a job that fails over its commit.
        Raises JobFailedError with the last lines of the job's log, secrets masked."""

    def report(
        self,
        job: ReportingJob,
        *,
        progress: Callable[[str], None],
        counted: Callable[[Counters], None] = uncounted,
    ) -> Mapping[str, Any]:
        """Run a job to its end and return its document; a job that fails has changed nothing.

        `progress` gets a sentence from time to time, `counted` what the job has counted. Raises JobFailedError as
        `stage` does, also for a slice that Kafka no longer has and for an expired snapshot, SchemaMismatchError for a
        schema that does not fit the table.
        """

    def end_orphan(self, job: str | None, name: str) -> bool:
        """End the job of an attempt that has ended, if it still runs; return whether one was ended.

        `job` is the reference that `started` was given; with None no process is ended, because its worker may live or
        no reference was recorded. `name` is the job's name (`core.lake.staging.job_name`), for clusters that can be
        asked. Never touches anything but that job: not another host's processes, not a later process of the same id.
        A cluster that cannot be asked is no error: a job that goes on can only stage.
        """


class Clock(Protocol):
    """Time, as an argument."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC, for records; it may step, also back."""

    def monotonic(self) -> float:
        """Return seconds since some moment, for waits; setting the clock does not change it."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Processes(Protocol):
    """This process, and whether another lease holder still lives."""

    def this(self) -> LeaseHolder:
        """Return this process."""

    def dead(self, holder: LeaseHolder) -> bool:
        """Return whether a holder is known to be dead: it is of this host, and no process has its id and start time."""
