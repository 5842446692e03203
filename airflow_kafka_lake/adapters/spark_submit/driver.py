"""The driver's process group: started in a session of its own, watched, and ended as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.spark_submit.current import OF_DRIVER, working_on
from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.ledger.waves import LeaseHolder

GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Driver:
    """One running driver; `ref` is `host/pid/starttime`, by which `end_orphan` finds it later."""

    def __init__(self, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str], cwd: Path) -> None:
        try:
            with log.open("wb") as output:
                # A session of its own: signals for the worker's group are not the driver's, and the group is endable.
                self._process = subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(env),
                    cwd=cwd,
                    start_new_session=True,
                )
        except OSError as error:
            raise JobFailedError(
                f"{command[0]} does not start: {error.strerror}. Check the Spark installation and the Java it uses."
            ) from error
        # Not reaped yet, so that its pid cannot be another's.
        self.ref = str(HostProcesses().named(self._process.pid))

    def wait(
        self,
        every: Callable[[], None],
        seconds: float,
        tick: Callable[[], None],
        is_done: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """Return the exit code, or None once `is_done` holds while the driver lives.

        `every` is called each `seconds`, `tick` often.
        """
        due = time.monotonic() + seconds
        while not self.has_exited():
            tick()
            if is_done():
                return None
            if time.monotonic() >= due:
                every()
                due = time.monotonic() + seconds
            time.sleep(_POLL_SECONDS)
        return self.end()

    def end(self, grace_seconds: float = GRACE_SECONDS) -> int:
        """End what is left of the group, TERM and then KILL, and return the first process's code; safe to repeat.

        Without a grace it is KILL at once.
        """
        if self._process.returncode is None:
            _end_group(self._process.pid, self.has_exited, grace_seconds)
        return self._process.wait()

    def has_exited(self) -> bool:
        """Return whether the driver has ended, without reaping it: until `end` has signalled the group, the kernel must
        not give its number to another process."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True


def end_orphan(job_ref: str) -> bool:
    """End the process group of a job whose worker died; return whether there was one.

    Touches nothing unless the reference is of this host and its pid still has its start time and leads a group of its
    own: a pid that is used again is another process's. A warm driver is ended only while it works on this very job.
    """
    driver, _, number = job_ref.partition(OF_DRIVER)
    try:
        holder = LeaseHolder.parse(driver)
    except ValueError:
        return False
    if not HostProcesses().alive(holder):
        return False
    try:
        if os.getpgid(holder.pid) != holder.pid:
            return False
        with working_on(Path(psutil.Process(holder.pid).cwd()), number) if number else nullcontext(True) as is_it:
            if is_it:
                _end_group(holder.pid, lambda: not HostProcesses().alive(holder))
            return is_it
    except (psutil.Error, OSError):
        return False


def _end_group(group: int, has_ended: Callable[[], bool], grace_seconds: float = GRACE_SECONDS) -> None:
    """Signal the group TERM, give its leader time, then KILL whatever of the group is left."""
    with suppress(ProcessLookupError):
        if grace_seconds:
            os.killpg(group, signal.SIGTERM)
        until = time.monotonic() + grace_seconds
        while not has_ended() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        os.killpg(group, signal.SIGKILL)
