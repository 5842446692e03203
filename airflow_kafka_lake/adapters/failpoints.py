"""Failpoints: every crossing of a port can be made to die, stop, fail, dawdle or lose its answer, for tests.

A point is `<port>.<method>:<before|after>`, for example `table.publish:after`, or a step inside the Spark driver, such
as `driver.append:after` (`jobs/failpoints.py`). What happens there is one of

    kill    SIGKILL to this process          stop    SIGSTOP to this process, until somebody continues it
    raise   UnavailableError                 delay   two seconds of nothing
    lost    only after: the call was made, its answer is lost (UnavailableError; for commits `Unknown`)

(in the driver: to its Java and its Python together). `KAFKA_LAKE_FAILPOINTS="table.publish:after=kill"` in the
environment that a process was started with arms points, several separated by commas; `=kill@3` means at the third
crossing. `KAFKA_LAKE_FAILPOINTS_DIARY` names a file that gets a line for each trap that springs. Nothing else arms
them: no Dag, no connection, no record, no variable that code sets later. Unarmed, no wrapper exists.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from airflow_kafka_lake.adapters.crossings import Crossing, Watched, calls, watched
from airflow_kafka_lake.adapters.processes import started_with
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.waves import Unknown
from airflow_kafka_lake.jobs.failpoints import DIARY, DRIVER_CALLS, VARIABLE, Mode, Traps, modes, parse, sides
from airflow_kafka_lake.ports import Ledger, Ports

__all__ = ["DIARY", "VARIABLE", "Mode", "armed", "armed_ledger", "modes", "points"]

_COMMITS = frozenset({"table.publish", "table.fence", "table.claim_ownership"})


def points() -> tuple[str, ...]:
    """Return every point: each call of a port and each step of the driver, before and after."""
    return sides((*calls(), *DRIVER_CALLS))


def armed(ports: Ports) -> Ports:
    """Return ports with the failpoints that this process was started with; the very same ports when there are none."""
    traps = _traps()
    return ports if traps is None else watched(ports, _Trapped(traps))


def armed_ledger(ledger: Ledger) -> Ledger:
    """Return a ledger that is opened alone with the failpoints of this process; the very same when there are none."""
    traps = _traps()
    return ledger if traps is None else Watched("ledger", ledger, _Trapped(traps))


def _traps() -> Traps | None:
    text = started_with(VARIABLE)
    return _of_this_process(text, started_with(DIARY)) if text else None


@cache
def _of_this_process(text: str, diary: str) -> Traps:
    """Crossings are counted over all that a process opens, one after the other or at once."""
    return Traps(parse(text, points()), diary=diary)


class _Trapped:
    """Springs what is armed at a crossing, on the way in and on the way out."""

    def __init__(self, traps: Traps) -> None:
        self._traps = traps

    def __call__(self, crossing: Crossing) -> Any:
        self._traps.spring(f"{crossing.name}:before")
        answer = crossing.go()
        if self._traps.spring(f"{crossing.name}:after") is not Mode.LOST:
            return answer
        if crossing.name in _COMMITS:
            return Unknown(reason="the answer was lost at a failpoint")
        raise UnavailableError(f"the answer of {crossing.name} was lost at a failpoint")
