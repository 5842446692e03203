"""Traps at failpoints, and those between the steps of a Spark driver."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from airflow_kafka_lake.core.errors import UnavailableError, UsageError
from airflow_kafka_lake.core.spark.job import StageJob, Tip
from airflow_kafka_lake.jobs.driver import leave
from airflow_kafka_lake.jobs.shared_consumer import frame_of
from airflow_kafka_lake.jobs.stage import Steps, document_of
from tests.kit.arming import DIARY, FAILPOINTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELAY_SECONDS = 2.0
DRIVER_CALLS = ("driver.read", "driver.branch", "driver.rows", "driver.append")
"""The driver's steps in their order. `rows` is inside the append: before the first row is written, and after the last
one was handed over, so before the commit."""

_ENTRY = re.compile(r"(?P<point>[a-z_]+\.[a-z_]+:(?:before|after))=(?P<mode>[a-z]+)(?:@(?P<nth>[1-9][0-9]{0,3}))?")


class Mode(StrEnum):
    """What a trap does at its point."""

    KILL = "kill"
    STOP = "stop"
    RAISE = "raise"
    DELAY = "delay"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """The trap of one point, at the `nth` call."""

    mode: Mode
    nth: int = 1


def modes(point: str) -> tuple[Mode, ...]:
    """Return what a point can do: only a call that was made has an answer to lose, and `driver.rows` is no call."""
    answers = point.endswith(":after") and not point.startswith("driver.rows")
    return tuple(mode for mode in Mode if answers or mode is not Mode.LOST)


def sides(calls: tuple[str, ...]) -> tuple[str, ...]:
    """Return both points of each call."""
    return tuple(f"{call}:{side}" for call in calls for side in ("before", "after"))


def parse(text: str, points: tuple[str, ...]) -> dict[str, Trap]:
    """Read the armed traps; UsageError names an unknown point, or a mode that its point does not have."""
    traps: dict[str, Trap] = {}
    for entry in filter(None, text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None or match["point"] not in points or match["mode"] not in modes(match["point"]):
            raise UsageError(f"{entry!r} is no failpoint: use POINT=MODE, such as table.publish:after=kill")
        traps[match["point"]] = Trap(mode=Mode(match["mode"]), nth=int(match["nth"] or 1))
    return traps


class Traps:
    """The armed points of one process, or of a whole process `group`; what springs is written to the `diary` first."""

    def __init__(self, traps: Mapping[str, Trap], *, diary: str = "", group: int | None = None) -> None:
        self._traps, self._diary, self._group = dict(traps), diary, group
        self._seen: Counter[str] = Counter()

    def spring(self, point: str) -> Mode | None:
        """Count a call; at the armed one spring the trap, and return what it did if the process goes on."""
        trap = self._traps.get(point)
        if trap is None:
            return None
        self._seen[point] += 1
        if self._seen[point] != trap.nth:
            return None
        if self._diary:
            with Path(self._diary).open("a", encoding="utf-8") as diary:
                diary.write(f"{point}={trap.mode}\n")
        self._happen(trap.mode, point)
        return trap.mode

    def _happen(self, mode: Mode, point: str) -> None:
        match mode:
            case Mode.KILL:
                self._signal(signal.SIGKILL)
            case Mode.STOP:
                self._signal(signal.SIGSTOP)
            case Mode.RAISE:
                raise UnavailableError(f"failpoint {point}")
            case Mode.DELAY:
                time.sleep(DELAY_SECONDS)
            case Mode.LOST:
                pass
            case _:
                assert_never(mode)

    def _signal(self, number: int) -> None:
        if self._group is None:
            os.kill(os.getpid(), number)
        else:
            os.killpg(self._group, number)


class InDriver:
    """The steps of a staging job with their traps; the process group is the driver's: its Java and its Python."""

    def __init__(self, steps: Steps, text: str, diary: str = "") -> None:
        self._steps = steps
        traps = parse(text, sides(DRIVER_CALLS))
        self._traps = Traps(traps, diary=diary, group=os.getpgrp())
        self._in_rows = any(point.startswith("driver.rows") for point in traps)

    @classmethod
    def armed(cls, spark: SparkSession, job: StageJob, kafka: Mapping[str, str]) -> InDriver:
        """Return a job's steps with the traps that the driver was started with; UsageError beside a cluster.

        They signal a process group: on another host that would be a stranger's.
        """
        if not spark.sparkContext.master.startswith("local"):
            raise UsageError(f"failpoints inside the driver need a local master, not {spark.sparkContext.master}")
        points = [entry for entry in os.environ.get(FAILPOINTS, "").split(",") if entry.startswith("driver.")]
        return cls(Steps(spark, job, kafka), ",".join(points), os.environ.get(DIARY, ""))

    def read(self) -> DataFrame | Any:
        """Read, between two points."""
        records: DataFrame | Any = self._crossed("read")
        return records

    def branch(self) -> None:
        """Create the branch, between two points."""
        self._crossed("branch")

    def append(self, records: DataFrame | Any) -> tuple[Tip, ...]:
        """Append; with a trap among the rows they go through one task, so that its end is the end of all."""
        if self._in_rows:
            records = frame_of(self._steps.spark, records).coalesce(1).mapInArrow(_passing(self._traps), records.schema)
        tips: tuple[Tip, ...] = self._crossed("append", records)
        return tips

    def _crossed(self, step: str, *arguments: Any) -> Any:
        self._traps.spring(f"driver.{step}:before")
        answer = getattr(self._steps, step)(*arguments)
        if self._traps.spring(f"driver.{step}:after") is Mode.LOST:
            lost = UnavailableError(f"the answer of driver.{step} was lost at a failpoint")
            if step == "append":
                leave(lost, document_of(answer))
            raise lost
        return answer


def _passing(traps: Traps) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        traps.spring("driver.rows:before")
        yield from batches
        traps.spring("driver.rows:after")

    return passing
