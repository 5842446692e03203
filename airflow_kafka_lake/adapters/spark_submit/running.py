"""A job in a driver: where its files are, how it is named, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_lake.adapters.spark_submit.driver import Driver

LOG_FILE = "driver.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that a driver was started for, or that a warm driver was given.

    `folder` has the job's files, `log` the driver's lines, this job's from `log_begin` on. `done` is the file that a
    warm driver leaves at the job's end; a driver of one job ends itself. `beat` is the worker's sign of life.
    """

    driver: Driver
    ref: str
    folder: Path
    log: Path
    log_begin: int = 0
    done: Path | None = None
    beat: Callable[[], None] = lambda: None

    def is_done(self) -> bool:
        """Return whether the job has ended well, and its driver lives on."""
        return self.done is not None and self.done.exists()

    def has_failed(self, code: int | None) -> bool:
        """Return whether the job has failed, by the code with which its driver has ended."""
        return bool(code) if self.done is None else not self.done.exists()
