"""Jobs, time and processes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from airflow_kafka_lake.core.staging import StageJob
from airflow_kafka_lake.core.waves import (
    Holder,
)


class JobRunner(Protocol):
    """Runs the Spark job."""

    def where(self) -> str:
        """Say in words where jobs run, for plans and messages (e.g. "a local Spark master on this machine")."""

    def stage(self, job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None]) -> None:
        """Run the job to its end. `started` gets the job reference once; `heartbeat` is called every few seconds while
        the job makes progress, and an exception it raises ends the job. Raises JobFailedError with the job's last
        words (never a secret)."""

    def end_orphan(self, job: str) -> bool:
        """End the job of a worker that died, by the reference that `started` was given; True when one was ended.

        Never touches anything but that job: not another host's, not a process that was given the same id later.
        """


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class Processes(Protocol):
    """Who we are, and whether another holder still lives."""

    def this(self) -> Holder:
        """Return this process."""

    def dead(self, holder: Holder) -> bool:
        """Say whether a holder is known to be dead: same host, and no process of that id and start time. Unknown is
        not dead."""
