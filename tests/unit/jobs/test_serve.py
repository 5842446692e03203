"""The driver's end of the pipe through which a worker sends jobs, and what happens when the worker is gone."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.core.spark.job import DriverAge
from airflow_kafka_lake.jobs.caller import line_of
from airflow_kafka_lake.jobs.driver import RESULT_FILE
from airflow_kafka_lake.jobs.serve import (
    DONE_FILE,
    JOB_FILE,
    WEAR_FILE,
    JobOrder,
    Orders,
    serve,
    session_of_a_job,
)

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]

ORDER = JobOrder(folder="1", program="a.module", name="a job")


class Worker:
    """The other end of the pipe, and whether the driver was ended over it."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "orders"
        os.mkfifo(self.pipe, 0o600)
        self._end: int | None = os.open(self.pipe, os.O_RDWR | os.O_NONBLOCK)
        self.ended = threading.Event()

    def orders(self, silence_seconds: float = 60) -> Orders:
        return Orders(self.pipe, silence_seconds=silence_seconds, end=self.ended.set)

    def sends(self, line: bytes) -> None:
        assert self._end is not None
        os.write(self._end, line)

    def dies(self) -> None:
        if self._end is not None:
            os.close(self._end)
            self._end = None


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    made.dies()


def test_orders_come_one_after_another(worker: Worker) -> None:
    """In halves of lines and several at once, with signs of life between them."""
    orders = worker.orders()
    second = JobOrder(folder="2", program="b.py", name="wave ü\n2")
    lines = line_of(ORDER) + b"\n\n" + line_of(second)
    worker.sends(lines[:10])
    worker.sends(lines[10:])
    assert [orders.next(30), orders.next(30)] == [ORDER, second]


def test_worker_that_dies_in_a_job_ends_the_driver(worker: Worker) -> None:
    """At once, whatever the job is doing."""
    orders = worker.orders()
    worker.sends(line_of(ORDER))
    assert orders.next(30) == ORDER
    worker.dies()
    assert worker.ended.wait(30)


def test_worker_that_dies_between_jobs_lets_the_driver_stop(worker: Worker) -> None:
    """There is time to close the application."""
    orders = worker.orders()
    worker.sends(line_of(ORDER))
    assert orders.next(30) == ORDER
    orders.finished()
    worker.dies()
    assert orders.next(30) is None
    assert not worker.ended.is_set()


def test_worker_that_has_died_before_is_noticed(worker: Worker) -> None:
    """A driver takes seconds to start."""
    worker.dies()
    assert worker.orders().next(30) is None


def test_silent_worker_ends_the_driver_in_a_job(worker: Worker) -> None:
    """A stopped worker keeps its end of the pipe open."""
    orders = worker.orders(silence_seconds=0.05)
    worker.sends(line_of(ORDER))
    assert orders.next(30) == ORDER
    assert worker.ended.wait(30)


def test_worker_without_a_job_may_be_silent(worker: Worker) -> None:
    """Until the driver has waited for long enough."""
    orders = worker.orders(silence_seconds=0.01)
    assert orders.next(0.2) is None
    assert not worker.ended.is_set()


def test_job_is_done_when_all_of_it_is_there(worker: Worker, tmp_path: Path) -> None:
    """Its document is written, its request removed, and what the driver has used is noted after each job."""
    program = tmp_path / "program.py"
    program.write_text("work = lambda spark, request, progress: request['job'] | {'name': spark.name}")
    orders = worker.orders()
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        (tmp_path / number / JOB_FILE).write_text(f'{{"job": {{"number": {number}}}}}')
        worker.sends(line_of(JobOrder(folder=number, program=str(program), name=f"job {number}")))

    def wear(jobs: int, seconds: int) -> DriverAge:
        if jobs == 2:
            worker.dies()
        return DriverAge(jobs=jobs, seconds=seconds, heap=1, heap_most=2, metaspace=3)

    serve(tmp_path, orders, idle_seconds=30, new_session=lambda name: nullcontext(_session(name)), wear=wear)
    for number in ("1", "2"):
        assert sorted(path.name for path in (tmp_path / number).iterdir()) == [DONE_FILE, "messages", RESULT_FILE]
        assert (tmp_path / number / RESULT_FILE).read_text() == f'{{"number": {number}, "name": "job {number}"}}'
    noted = DriverAge.from_json(json.loads((tmp_path / WEAR_FILE).read_text()))
    assert noted is not None
    assert (noted.jobs, noted.heap, noted.metaspace) == (2, 1, 3)


class FakeSpark:
    """A Spark session as far as the change from job to job touches it; sessions of one Spark share `seen`."""

    def __init__(self, seen: dict[str, Any] | None = None) -> None:
        self.seen = {"group": None, "active": None, "closed": [], "cached": True} if seen is None else seen
        self.catalog = SimpleNamespace(clearCache=lambda: self.seen.update(cached=False))
        self.sparkContext = SimpleNamespace(
            setJobGroup=lambda name, _: self.seen.update(group=name),
            setLocalProperty=lambda key, value: self.seen.update(group=value) if key == "spark.jobGroup.id" else None,
        )
        iceberg = SimpleNamespace(close=lambda: self.seen["closed"].append(self))
        manager = SimpleNamespace(catalog=lambda _: SimpleNamespace(icebergCatalog=lambda: iceberg))
        state = SimpleNamespace(catalogManager=lambda: manager)
        self._jsparkSession = SimpleNamespace(sessionState=lambda: state)
        sessions = SimpleNamespace(setActiveSession=lambda java: self.seen.update(active=java))
        self._jvm = SimpleNamespace(**{"org.apache.spark.sql.classic.SparkSession": sessions})

    def newSession(self) -> FakeSpark:  # noqa: N802 (Spark's name)
        return FakeSpark(self.seen)


def test_each_job_has_a_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named in Spark's page, and the one that its work is planned with; nothing of it is left when it has ended."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "_activeSession", None)
    base: Any = FakeSpark()
    with session_of_a_job(base, "wave 1") as spark:
        assert spark is not base
        assert (base.seen["group"], base.seen["active"]) == ("wave 1", spark._jsparkSession)
        assert SparkSession._activeSession is spark
    assert base.seen == {"group": None, "active": base._jsparkSession, "closed": [spark], "cached": False}
    assert SparkSession._activeSession is base


def _session(name: str) -> Any:
    return SimpleNamespace(name=name)
