"""The machine: a full disk, a slow one, clocks that are wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

import psutil

from tests.soak.faults.strike import Fault
from tests.soak.place import ROOMY
from tests.soak.workers import Order

CLOCKS = (-3600.0, -600.0, -70.0, -20.0, 20.0, 45.0)
"""Never more than Java's minute ahead: a table with metadata from the future is closed to Spark until then."""


PAGE = 4096


class FullDisk(Fault):
    """The warehouse's file system has no room left."""

    name = "full-disk"
    words = "the warehouse's file system (a tmpfs) is full for 4 to 12 s; without one, files of a run end at 64 KiB"
    every = 12.0

    def strike(self) -> bool:
        """Leave no room for a while."""
        place = self.scene.place
        if not place.mounted:
            return self._limit()
        room = PAGE  # for a tmpfs a size of 0, that of an empty one, means no limit, and then never one again
        while not self._resize(str(psutil.disk_usage(str(place.home / "warehouse")).used + room)):
            room += PAGE  # another process was quicker
        self.pause(self.choose.uniform(4, 12))
        return self._resize(ROOMY)

    def heal(self) -> None:
        """Make room."""
        if self.scene.place.mounted and not self._resize(ROOMY):
            raise OSError("the warehouse's file system could not be made larger again")

    def _resize(self, size: str) -> bool:
        warehouse = str(self.scene.place.home / "warehouse")
        words = ["mount", "-o", f"remount,size={size}", warehouse]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    def _limit(self) -> bool:
        worker = self.choose.choice(self.scene.workers)
        process = worker.process
        if process is None or process.poll() is not None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).rlimit(psutil.RLIMIT_FSIZE, (65_536, 65_536))
        return True


class SlowMachine(Fault):
    """Everything stalls: what a slow disk looks like to those who wait for it."""

    name = "slow-disk"
    words = "runs, drivers and the broker stand still for up to 1.5 s again and again, as behind a slow disk"
    every = 0.6

    def strike(self) -> bool:
        """Stop one process for a moment."""
        pids = [pid for worker in self.scene.workers if (pid := _pid(worker.driver()))]
        pids += [worker.process.pid for worker in self.scene.workers if worker.process]
        broker = self.scene.place.a_broker(self.choose).pid
        pids += [broker] if broker else []
        if not pids:
            return False
        pid = self.choose.choice(pids)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(self.choose.uniform(0.1, 1.5))
            finally:
                os.kill(pid, signal.SIGCONT)
        return True


class WrongClock(Fault):
    """A worker's clock is wrong."""

    name = "wrong-clock"
    words = "a run's clock is up to an hour behind or 45 s ahead"
    every = 8.0

    def strike(self) -> bool:
        """Start the next run of a worker with a wrong clock."""
        worker = self.choose.choice(self.scene.workers)
        if worker.orders:
            return False
        worker.orders.append(Order(clock_seconds=self.choose.choice(CLOCKS)))
        return True


class LeaseJump(Fault):
    """The database's clock jumps: leases are over, or end absurdly late."""

    name = "clock-jump"
    words = "the database's clock jumps, as leases see it: all have ended, or end a year from now"
    every = 5.0

    def strike(self) -> bool:
        """Move the ends of all leases."""
        interval = self.choose.choice(("-1 second", "-1 day", "365 days", "3 seconds"))
        with self.scene.place.database("ledger") as cursor:
            cursor.execute(
                "UPDATE kafka_lake_wave SET lease_until = CURRENT_TIMESTAMP + %s::interval "
                "WHERE lease_until IS NOT NULL",
                (interval,),
            )
            return bool(cursor.rowcount)


def _pid(process: psutil.Process | None) -> int | None:
    return process.pid if process else None


MACHINE_FAULTS = (FullDisk, SlowMachine, WrongClock, LeaseJump)
