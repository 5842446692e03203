"""Failpoints: every crossing of a port can be made to die, stop, fail, dawdle or lose its answer, for tests.

A point is `<port>.<method>:<before|after>`, for example `table.publish:after`. What happens there is one of

    kill    SIGKILL to this process          stop    SIGSTOP to this process, until somebody continues it
    raise   UnavailableError                 delay   two seconds of nothing
    lost    only after: the call was made, its answer is lost (UnavailableError; for commits `Unknown`)

`KAFKA_LAKE_FAILPOINTS="table.publish:after=kill"` in the environment of a new process arms points, several separated
by commas; `=kill@3` means at the third crossing. Nothing else arms them: no Dag, no connection, no record. Without the
variable no wrapper exists.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from airflow_kafka_lake.adapters.crossings import Crossing, calls, watched
from airflow_kafka_lake.core.errors import UnavailableError, UsageError
from airflow_kafka_lake.core.waves import Unknown
from airflow_kafka_lake.ports import Ports

VARIABLE = "KAFKA_LAKE_FAILPOINTS"
DELAY_SECONDS = 2.0
_ENTRY = re.compile(r"(?P<point>[a-z_]+\.[a-z_]+:(?:before|after))=(?P<mode>[a-z]+)(?:@(?P<nth>[1-9][0-9]{0,3}))?")
_COMMITS = frozenset({"table.publish", "table.fence", "table.claim_ownership"})


class Mode(StrEnum):
    """What happens at an armed point."""

    KILL = "kill"
    STOP = "stop"
    RAISE = "raise"
    DELAY = "delay"
    LOST = "lost"


def points() -> tuple[str, ...]:
    """Return every point: each write of ledger and table, each look at the table, and the job, before and after."""
    return tuple(f"{call}:{side}" for call in calls() for side in ("before", "after"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """What one point does, at its `nth` crossing."""

    mode: Mode
    nth: int = 1


def parse(text: str) -> Mapping[str, Trap]:
    """Read the variable; UsageError names what is no point or no mode."""
    traps: dict[str, Trap] = {}
    for entry in filter(None, text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None or match["point"] not in points() or match["mode"] not in set(Mode):
            raise UsageError(f"{VARIABLE}: {entry!r} is no failpoint: use POINT=MODE, such as table.publish:after=kill")
        traps[match["point"]] = Trap(mode=Mode(match["mode"]), nth=int(match["nth"] or 1))
    return traps


def armed(ports: Ports, environment: Mapping[str, str] = os.environ) -> Ports:
    """Return ports with the failpoints of the environment; the very same ports when none is named."""
    traps = parse(environment.get(VARIABLE, ""))
    return watched(ports, Traps(traps)) if traps else ports


class Traps:
    """Springs what is armed at a crossing, on the way in and on the way out."""

    def __init__(self, traps: Mapping[str, Trap]) -> None:
        self._traps = traps
        self._seen: Counter[str] = Counter()

    def __call__(self, crossing: Crossing) -> Any:
        """Let a call cross, unless it meets a trap."""
        self._spring(f"{crossing.name}:before")
        answer = crossing.go()
        if self._spring(f"{crossing.name}:after") is Mode.LOST:
            if crossing.name in _COMMITS:
                return Unknown(reason="the answer was lost at a failpoint")
            raise UnavailableError(f"the answer of {crossing.name} was lost at a failpoint")
        return answer

    def _spring(self, point: str) -> Mode | None:
        trap = self._traps.get(point)
        if trap is None:
            return None
        self._seen[point] += 1
        if self._seen[point] != trap.nth:
            return None
        _happen(trap.mode, point)
        return trap.mode


def _happen(mode: Mode, point: str) -> None:
    match mode:
        case Mode.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Mode.STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        case Mode.RAISE:
            raise UnavailableError(f"failpoint {point}")
        case Mode.DELAY:
            time.sleep(DELAY_SECONDS)
        case Mode.LOST:
            pass
        case _:
            assert_never(mode)
