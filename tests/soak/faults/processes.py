"""Processes that die or stop: driver, executor, worker."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

from tests.kit import arming
from tests.soak.faults.strike import Fault
from tests.soak.workers import Order, Worker


class WorkerFault(Fault):
    """Hits one of the workers."""

    def anyone(self) -> Worker:
        """Choose a worker."""
        return self.choose.choice(self.scene.workers)


class DriverKill(WorkerFault):
    """The Spark driver is killed; its worker lives."""

    name = "driver-kill"
    words = "SIGKILL to the Spark driver of a run"

    def strike(self) -> bool:
        """Kill a driver that runs, at any moment of its life."""
        driver = self.anyone().driver()
        if driver is None:
            return False
        self.pause(self.choose.uniform(0, 6))
        with contextlib.suppress(psutil.NoSuchProcess):
            driver.kill()
        return True


class WorkerKill(WorkerFault):
    """The command line is killed; its driver is an orphan."""

    name = "worker-kill"
    words = "SIGKILL to the command line; its driver goes on as an orphan"

    def strike(self) -> bool:
        """Kill a run at any moment."""
        process = self.anyone().process
        if process is None or process.poll() is not None:
            return False
        self.pause(self.choose.uniform(0, 12))
        if process.poll() is not None:
            return False
        process.kill()
        return True


class WorkerStop(WorkerFault):
    """A run is stopped until others have had the time to take its wave, then it continues."""

    name = "worker-stop"
    words = "SIGSTOP to a run and its driver for 15 to 40 s; the lease ends meanwhile, by the ledger; then SIGCONT"
    every = 20.0

    def strike(self) -> bool:
        """Stop one, end its lease as the passing of time would, continue it later."""
        worker = self.anyone()
        process, driver = worker.process, worker.driver()
        if process is None or process.poll() is not None:
            return False
        self.pause(self.choose.uniform(0, 10))
        stopped = [process.pid] + ([driver.pid] if driver and self.choose.random() < 0.5 else [])
        for pid in stopped:
            _signal(pid, signal.SIGSTOP)
        try:
            with self.scene.place.database("ledger") as cursor:
                cursor.execute(
                    "UPDATE kafka_lake_wave SET lease_until = CURRENT_TIMESTAMP - interval '1 second' "
                    "WHERE lease_until IS NOT NULL AND lease_holder LIKE %s",
                    (f"%/{process.pid}/%",),
                )
            self.pause(self.choose.uniform(15, 40))
        finally:
            for pid in stopped:
                _signal(pid, signal.SIGCONT)
        return True


class WorkerFailpoint(WorkerFault):
    """A run dies, fails, dawdles or loses an answer at a named point of the product."""

    name = "worker-failpoint"
    words = "a run dies, fails, dawdles or loses an answer at a failpoint of the product, chosen at random"
    every = 10.0

    def strike(self) -> bool:
        """Arm a point in the next run of a worker."""
        from tests.kit.failpoints import points
        from tests.kit.traps import Mode, modes

        worker = self.anyone()
        if worker.orders:
            return False
        point = self.choose.choice(points())
        armed = f"{point}={self.choose.choice([mode for mode in modes(point) if mode is not Mode.STOP])}"
        worker.orders.append(Order(environment=arming.environment(traps=armed)))
        self.scene.place.journal("failpoint", armed=armed)
        return True


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


PROCESS_FAULTS = (DriverKill, WorkerKill, WorkerStop, WorkerFailpoint)
