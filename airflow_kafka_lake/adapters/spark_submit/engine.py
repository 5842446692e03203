"""One warm Spark driver, which runs the jobs of this process one after another: see `jobs.serve`."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from airflow_kafka_lake.adapters.spark_submit.current import OF_DRIVER, write_current
from airflow_kafka_lake.adapters.spark_submit.driver import Driver
from airflow_kafka_lake.adapters.spark_submit.folder import private_folder, unusable
from airflow_kafka_lake.adapters.spark_submit.running import LOG_FILE, RunningJob
from airflow_kafka_lake.adapters.spark_submit.submission import write_request
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.lake.effort import LIGHT
from airflow_kafka_lake.core.lake.wear import Wear
from airflow_kafka_lake.jobs.serve import DONE_FILE, JOB_FILE, ORDERS_FILE, READY_FILE, WEAR_FILE, Order

TAKEN_SECONDS = 30.0
"""How long a driver that waits for a job may take to begin one; a stopped one does not."""

_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStart:
    """How a driver is started: two with equal `settings` may stand in for each other.

    A driver that is not `is_heavy` compiles quickly, and is too slow for heavy jobs. `begin` starts it in a folder
    below `temporary`. It is given `stop_seconds` to leave the cluster in an orderly way; a local one needs none.
    """

    settings: tuple[object, ...]
    is_heavy: bool
    temporary: Path | None
    begin: Callable[[Path], Driver]
    stop_seconds: float


class NoPipeError(OSError):
    """The file system of the temporary files has no named pipes, or no locks."""


class WarmDriver:
    """A driver that was started to run many jobs, and its private folder; NoPipeError where there cannot be one."""

    def __init__(self, start: DriverStart) -> None:
        self._start = start
        self._jobs = 0
        with ExitStack() as stack:
            self._folder = stack.enter_context(private_folder(start.temporary))
            self._orders = _pipe(self._folder)
            self._open = stack.enter_context(ExitStack())
            self._open.callback(os.close, self._orders)
            self._driver = start.begin(self._folder)
            self._rest = stack.pop_all()

    def fits(self, start: DriverStart) -> bool:
        """Return whether the driver lives, is not worn, and does what one that is started so would do."""
        same = self._start.settings == start.settings and (self._start.is_heavy or not start.is_heavy)
        return same and not self._driver.has_exited() and not self._is_worn()

    def order(self, program: str, name: str, request: Mapping[str, Any]) -> RunningJob:
        """Have a job run as soon as the driver is ready; UnavailableError when there is no room for its files."""
        self._jobs += 1
        number = str(self._jobs)
        folder = self._folder / number
        log = self._folder / LOG_FILE
        try:
            folder.mkdir(mode=0o700)
            write_request(folder / JOB_FILE, request)
            write_current(self._folder, number)
        except OSError as error:
            raise unusable(self._start.temporary, error) from None
        job = RunningJob(
            driver=self._driver,
            ref=f"{self._driver.ref}{OF_DRIVER}{number}",
            folder=folder,
            log=log,
            log_begin=log.stat().st_size if self._jobs > 1 else 0,
            done=folder / DONE_FILE,
            beat=lambda: self._send(b"\n"),
        )
        self._send(Order(folder=number, program=program, name=name).to_line())
        return job

    def is_starting(self) -> bool:
        """Return whether the driver does not wait for jobs yet: it begins its first one as soon as it does."""
        return not (self._folder / READY_FILE).exists()

    def has_begun(self, job: RunningJob) -> bool:
        """Wait a moment until the driver has begun a job; False when it has ended before, or hangs."""
        until = time.monotonic() + TAKEN_SECONDS
        while is_waiting := (job.folder / JOB_FILE).exists():
            if self._driver.has_exited() or time.monotonic() > until:
                break
            time.sleep(_POLL_SECONDS)
        return not is_waiting

    def kill(self) -> None:
        """End the driver at once, and leave its files."""
        self._driver.end(grace_seconds=0)

    def forget(self, job: RunningJob) -> None:
        """Remove what a job that has ended well has left."""
        write_current(self._folder, "")
        shutil.rmtree(job.folder, ignore_errors=True)

    def close(self) -> None:
        """Let the driver go: in an orderly way where it has time for it, else before it begins to stop by itself."""
        if self._start.stop_seconds:
            self._open.close()
            until = time.monotonic() + self._start.stop_seconds
            while not self._driver.has_exited() and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
        self._driver.end(grace_seconds=0)
        self._rest.close()

    def end(self) -> None:
        """End the driver and what it works on, with the time that Spark needs to leave a cluster."""
        self._driver.end()
        self._open.close()
        self._rest.close()

    def _send(self, line: bytes) -> None:
        with suppress(BlockingIOError):  # a stopped driver does not read; it is found by its lack of progress
            os.write(self._orders, line)

    def _is_worn(self) -> bool:
        try:
            wear = Wear.from_json((self._folder / WEAR_FILE).read_text(encoding="utf-8"))
        except OSError:
            return False
        return wear is None or wear.is_too_much


def _pipe(folder: Path) -> int:
    """Make a named pipe and open it. The driver reads the pipe's end when this process ends."""
    try:
        write_current(folder, "")
        os.mkfifo(folder / ORDERS_FILE, 0o600)
        return os.open(folder / ORDERS_FILE, os.O_RDWR | os.O_NONBLOCK)  # for both, so as not to wait for the driver
    except OSError as error:
        raise NoPipeError(str(error)) from None


class Engine:
    """Keeps a Spark driver for the next job of this process, whichever runner it comes from, instead of starting one
    for each.

    There is at most one, with one job at a time; it is replaced when the next job needs another one, when its job has
    failed, and when it is worn. Close it at the end: until then it waits for the next job, some minutes at most.
    `is_verified` says whether what the next driver loads was verified when the command began.
    """

    def __init__(self) -> None:
        self.is_verified = False
        self._spent = 0
        self._driver: WarmDriver | None = None
        self._busy = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the driver go, if there is one."""
        if driver := self._take():
            driver.close()

    def is_heavy(self, effort: int) -> bool:
        """Return whether a job, with all that this process has done before it, is worth a driver that compiles well.

        What was done is taken for what will still be done.
        """
        return self._spent + effort > LIGHT

    def spent(self, effort: int) -> None:
        """Count what a job has computed."""
        self._spent += effort

    def has_driver(self) -> bool:
        """Return whether there is a driver, of whatever job and in whatever state."""
        return self._driver is not None

    def prepare(self, start: DriverStart) -> None:
        """Start the driver of the job that is next, unless there is a driver; whatever the job needs else replaces it.

        What keeps it from starting, the job will meet and tell.
        """
        if self._driver is None and self._busy.acquire(blocking=False):
            try:
                with suppress(KafkaLakeError, OSError):
                    self._driver = WarmDriver(start)
            finally:
                self._busy.release()

    @contextmanager
    def running(
        self, start: DriverStart, program: str, name: str, request: Mapping[str, Any]
    ) -> Iterator[RunningJob | None]:
        """Yield a job in the warm driver; None while it works on another one, and where there cannot be any.

        An exception ends the driver.
        """
        if not self._busy.acquire(blocking=False):
            yield None
            return
        try:
            job = self._ordered(start, program, name, request)
            yield job
            if job and self._driver:
                self._driver.forget(job)
        except BaseException:
            if driver := self._take():
                driver.end()
            raise
        finally:
            self._busy.release()

    def _ordered(self, start: DriverStart, program: str, name: str, request: Mapping[str, Any]) -> RunningJob | None:
        if self._driver and not self._driver.fits(start):
            self.close()
        if self._driver:
            is_starting = self._driver.is_starting()
            job = self._driver.order(program, name, request)
            if is_starting or self._driver.has_begun(job):
                return job
            self._driver.kill()
            if self._driver.has_begun(job):
                return job  # just then, and its end is that of any job whose driver is killed
            self.close()
        try:
            self._driver = WarmDriver(start)
        except NoPipeError:
            return None
        return self._driver.order(program, name, request)

    def _take(self) -> WarmDriver | None:
        driver, self._driver = self._driver, None
        return driver
