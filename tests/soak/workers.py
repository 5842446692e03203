"""Workers: `kafka-lake run` in a loop, as cron would start it, until told to stop."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.soak.place import Place

RUN_SECONDS = 1200
DRIVERS = ("airflow_kafka_lake.DriverGateway", "deploy.SparkSubmit")
"""The main classes of drivers on this machine, and of those that talk to a cluster."""
LAST_FORM = "Its last words are below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How the next run of a worker is started: further variables, a clock that is wrong."""

    environment: Mapping[str, str] = field(default_factory=dict)
    clock_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended; `document` is its JSON, empty where it printed none."""

    number: int
    pipeline: str
    code: int
    document: Mapping[str, Any]
    err: Path


class Worker(threading.Thread):
    """Runs the pipelines of `turns` over and over; faults reach its process through `process`."""

    _numbers = itertools.count(1)

    def __init__(self, place: Place, name: str, turns: Sequence[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.orders: list[Order] = []
        self.resting = threading.Event()
        self.codes: Counter[int] = Counter()
        self.ended: list[Ended] = []
        self.findings: list[str] = []
        self.landed = 0
        self.waves = 0
        self._place = place
        self._turns = itertools.cycle(turns)
        self._over = threading.Event()

    def run(self) -> None:
        """Work until told to stop."""
        while not self._over.is_set():
            if self.resting.is_set():
                self._over.wait(0.5)
                continue
            ended = self.once(next(self._turns), self.orders.pop(0) if self.orders else Order())
            self.ended.append(ended)
            self._over.wait(1.0 if ended.code == 0 and ended.document.get("waves") else 3.0)

    def stop(self) -> None:
        """Take no further run; the one that runs ends by itself."""
        self._over.set()

    def once(self, pipeline: str, order: Order = Order(), *words: str) -> Ended:
        """Run one pipeline to its end and note how it ended."""
        number = next(self._numbers)
        out, err = (self._place.home / "runs" / f"{number:05}.{kind}" for kind in ("out", "err"))
        with out.open("wb") as output, err.open("wb") as errors:
            self.process = subprocess.Popen(
                [*_program(order), "run", str(self._place.pipeline(pipeline)), "--json", *words],
                env=self._place.environment(order.environment),
                cwd=self._place.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            code = self._wait(self.process, number)
        document = _document(out)
        ended = Ended(number=number, pipeline=pipeline, code=code, document=document, err=err)
        self._note(ended)
        return ended

    def driver(self) -> psutil.Process | None:
        """Return the Spark driver below the run, once there is one."""
        process = self.process
        return driver_below(process.pid) if process and process.poll() is None else None

    def _wait(self, process: subprocess.Popen[bytes], number: int) -> int:
        try:
            return process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            self.findings.append(f"run {number} did not end within {RUN_SECONDS} s")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return process.wait()

    def _note(self, ended: Ended) -> None:
        rows, waves = ended.document.get("rows") or 0, len(ended.document.get("waves") or ())
        self.landed += rows
        self.waves += waves
        self.codes[ended.code] += 1
        said = ended.err.read_text(errors="replace")
        # The last words of a driver may hold one of Spark's; the command itself must never show any.
        if "Traceback (most recent call last)" in said and LAST_FORM not in said:
            self.findings.append(f"run {ended.number} shows a traceback: {said.strip().splitlines()[-1][:300]}")
        if ended.code not in {0, 1, 3, 4, -signal.SIGKILL, -signal.SIGXFSZ}:
            self.findings.append(f"run {ended.number} of {ended.pipeline} ended with {ended.code}: {said[-300:]}")
        problems = [problem["message"][:300] for problem in ended.document.get("problems") or ()]
        error = (ended.document.get("error") or {}).get("message", "")[:300]
        self._place.journal(
            "run", worker=self.name, number=ended.number, pipeline=ended.pipeline, code=ended.code, waves=waves,
            rows=rows, held=list(ended.document.get("held") or ())[:3], problems=problems, error=error,
        )  # fmt: skip


def _program(order: Order) -> list[str]:
    if order.clock_seconds:
        return [sys.executable, str(Path(__file__).with_name("wrong_clock.py")), str(order.clock_seconds)]
    return [sys.executable, "-m", "airflow_kafka_lake.cli"]


def _document(out: Path) -> Mapping[str, Any]:
    try:
        return json.loads(out.read_text())
    except ValueError:
        return {}


def driver_below(pid: int) -> psutil.Process | None:
    """Return the Java process of a Spark driver among a process's descendants."""
    return next((found for name in DRIVERS for found in _java_below(pid, name)), None)


def _java_below(pid: int, word: str) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if any(word in text for text in child.cmdline()):
                    yield child
