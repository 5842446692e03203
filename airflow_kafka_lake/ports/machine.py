"""Jobs, time and processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from airflow_kafka_lake.core.lake.staging import StageJob
from airflow_kafka_lake.core.ledger.waves import (
    LeaseHolder,
)
from airflow_kafka_lake.core.redecoding import Redecoded, RedecodeJob


class ReportingJob(Protocol):
    """A Spark job that reads, and leaves a document."""

    @property
    def name(self) -> str:
        """The application name."""

    @property
    def table(self) -> str:
        """The table that it reads."""

    @property
    def program(self) -> str:
        """Where in the package the driver's program is."""

    @property
    def task(self) -> str:
        """What the job does, in words: "compares … with Kafka"."""

    @property
    def left(self) -> str:
        """What a failure leaves behind, and what to do then."""

    @property
    def advice(self) -> Mapping[str, str]:
        """What the usual reasons of a failure mean for this job, where that is another thing than for staging."""

    @property
    def is_heavy(self) -> bool:
        """Return whether the job is worth a start that takes longer."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that travels."""


class JobRunner(Protocol):
    """Runs the Spark job."""

    def where(self) -> str:
        """Return in words where jobs run, for plans and messages (e.g. "a local Spark master on this machine")."""

    def stage(self, job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None]) -> None:
        """Run the job to its end. `started` gets the job reference once; `heartbeat` is called every few seconds while
        the job makes progress, and an exception it raises ends the job. A job without any progress for long is ended.
        Raises JobFailedError with the job's last words (never a secret)."""

    def report(self, job: ReportingJob, *, progress: Callable[[str], None]) -> Mapping[str, Any]:
        """Run a job to its end that changes nothing, and return the document that it leaves.

        `say` gets a sentence now and then. Raises JobFailedError as `stage` does; a slice that Kafka no longer has,
        or a snapshot that is gone, is such an end.
        """

    def redecode(self, job: RedecodeJob, *, progress: Callable[[str], None]) -> Redecoded:
        """Decode rows of a table once more from their raw bytes; nothing else of a row changes, no row comes or goes.

        `say` gets a sentence now and then. Raises JobFailedError as `stage` does, SchemaMismatchError for a schema that
        the table cannot take, ConcurrentError when the table's main moved meanwhile: nothing was changed then.
        """

    def end_orphan(self, job: str | None, name: str) -> bool:
        """End the job of an attempt that is over, should it still run; True when one was ended.

        `job` is the reference that `started` was given; None leaves processes alone, because their worker may live, or
        was never heard. `name` is the job's (`core.lake.staging.job_name`), for clusters that can be asked. Never
        touches anything but that job: not another host's processes, not one that was given the same id later. What
        cannot be asked is not ended, and is no error: it can only stage.
        """


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC: for what is recorded. It may step, also back."""

    def monotonic(self) -> float:
        """Return seconds since some moment, for waits: steady, whatever sets the clock."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Processes(Protocol):
    """Who we are, and whether another holder still lives."""

    def this(self) -> LeaseHolder:
        """Return this process."""

    def dead(self, holder: LeaseHolder) -> bool:
        """Return whether a holder is known to be dead: same host, and no process of that id and start time. Unknown is
        not dead."""
