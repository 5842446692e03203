"""Run the jobs of one worker one after another in one Spark: a warm driver.

The worker holds the other end of a pipe in this driver's folder. It sends the job that is next, and a sign of its own
life every few seconds. The driver answers with files, the same as a driver of one job leaves, and `done` at the end of
a job. A job that fails ends the driver as it would end a driver of its own: with its traceback in the log, and a code.

The pipe's end is the worker's end: in the middle of a job the driver's whole process group dies at once. A worker that
sends no sign for minutes while a job runs was stopped, or hangs; its lease is over, and the driver ends likewise.

Nothing passes from one job to the next: each has a Spark session with settings, views and a catalog of its own, its
caches are dropped, and every read of Kafka has consumers of its own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import queue
import runpy
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_lake.core.spark.job import MOST_HEAP, DriverAge
from airflow_kafka_lake.jobs.driver import Work, perform, session, taken, write_whole
from airflow_kafka_lake.jobs.formats import close_catalog
from airflow_kafka_lake.jobs.java import activate, java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS_FILE, JOB_FILE, READY_FILE, DONE_FILE, WEAR_FILE = "orders", "job.json", "ready", "done", "wear.json"
_GRACE_SECONDS, _GO_ON_SECONDS = 30.0, 15.0
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """A job to run: its folder in the driver's own, its program (a module, or a file), its name."""

    folder: str
    program: str
    name: str


class Orders:
    """The orders that come through a pipe; `end` is called when the worker is gone, or silent, while one is open."""

    def __init__(self, pipe: Path, *, silence_seconds: float, end: Callable[[], None]) -> None:
        # Not waiting for a worker that has died since: its end of the pipe reads as an end.
        self._pipe = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self._silence_seconds = silence_seconds
        self._end = end
        self._waiting: queue.Queue[JobOrder | None] = queue.Queue()
        self._received = self._finished = 0  # each is written by one thread
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self, idle_seconds: float) -> JobOrder | None:
        """Return the next order; None when the worker has ended, or had none for so long."""
        try:
            return self._waiting.get(timeout=idle_seconds)
        except queue.Empty:
            return None

    def finished(self) -> None:
        """Note that an order is carried out."""
        self._finished += 1

    @property
    def _is_open(self) -> bool:
        return self._received > self._finished

    def _listen(self) -> None:
        unfinished = b""
        while found := self._read():
            *lines, unfinished = (unfinished + found).split(b"\n")
            for line in filter(None, lines):
                self._received += 1
                self._waiting.put(JobOrder(**json.loads(line)))
        if not self._is_open:
            self._waiting.put(None)
            time.sleep(_GRACE_SECONDS)  # for Spark to stop by itself
        self._end()

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._pipe, 65_536)
            except BlockingIOError:
                if self._is_silent() and self._is_open:
                    self._end()

    def _is_silent(self) -> bool:
        """Wait for the worker; once more if it is silent, because both may have been stopped and go on just now."""
        waits = (self._silence_seconds, min(self._silence_seconds, _GO_ON_SECONDS))
        return not any(select.select([self._pipe], [], [], seconds)[0] for seconds in waits)


def serve(
    home: Path,
    orders: Orders,
    *,
    idle_seconds: float,
    new_session: Callable[[str], AbstractContextManager[SparkSession]],
    wear: Callable[[int, int], DriverAge],
) -> None:
    """Carry out orders until there are no more; a job's error passes through.

    `new_session` opens a job's session, given its name; `wear` returns a driver's age, given its jobs and seconds.
    """
    jobs, begun = 0, time.monotonic()
    (home / READY_FILE).touch()
    while (order := orders.next(idle_seconds)) is not None:
        folder = home / order.folder
        request = taken([str(folder / JOB_FILE)])
        work = work_of(order.program)
        with new_session(order.name) as spark:
            perform(spark, request, folder, work)
            (folder / DONE_FILE).touch()
            orders.finished()
        jobs += 1
        write_whole(home / WEAR_FILE, json.dumps(wear(jobs, int(time.monotonic() - begun)).to_json()))


def work_of(program: str) -> Work:
    """Return the `work` of a job's program: of a module, or of a file that is no part of this package."""
    found = runpy.run_path(program) if program.endswith(".py") else vars(importlib.import_module(program))
    work: Work = found["work"]
    return work


@contextmanager
def session_of_a_job(base: SparkSession, name: str) -> Iterator[SparkSession]:
    """Yield a session that shares only the cluster with others; its jobs have their group's name in Spark's page."""
    spark = base.newSession()
    spark.sparkContext.setJobGroup(name, name)
    activate(spark)
    yield spark
    spark.catalog.clearCache()
    close_catalog(spark)
    for item in _JOB_GROUP:
        spark.sparkContext.setLocalProperty(item, None)  # removes it
    activate(base)


def wear_of(base: SparkSession, jobs: int, seconds: int) -> DriverAge:
    """Return the age and memory of a driver after a collection, in which Spark also removes its shuffle files."""
    jvm = java_of(base)
    beans = jvm.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    if jobs > 1 or memory.getHeapMemoryUsage().getUsed() > MOST_HEAP * memory.getHeapMemoryUsage().getMax():
        gc.collect()  # not after a first job with room in the heap: most commands have no other, and would wait for it
        jvm.java.lang.System.gc()
    heap, pools = memory.getHeapMemoryUsage(), beans.getMemoryPoolMXBeans().toArray()
    classes = sum(pool.getUsage().getUsed() for pool in pools if pool.getName() == "Metaspace")
    return DriverAge(jobs=jobs, seconds=seconds, heap=heap.getUsed(), heap_most=heap.getMax(), metaspace=classes)


def main(argv: list[str], end: Callable[[], None] = lambda: os.killpg(os.getpgrp(), signal.SIGKILL)) -> None:
    """Take jobs until the worker ends; the file named by the only argument says how long to wait for one."""
    home = Path(argv[0]).parent
    waits = taken(argv)
    orders = Orders(home / ORDERS_FILE, silence_seconds=waits["silence_seconds"], end=end)
    with session(home) as base:
        serve(
            home,
            orders,
            idle_seconds=waits["idle_seconds"],
            new_session=lambda name: session_of_a_job(base, name),
            wear=lambda jobs, seconds: wear_of(base, jobs, seconds),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
