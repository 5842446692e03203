"""Failpoints: every call of a port can be made to die, stop, fail, dawdle or lose its answer.

A point is `<port>.<method>:<before|after>`, for example `table.publish:after`, or a step inside the Spark driver, such
as `driver.append:after`. What happens there is one of

    kill    SIGKILL to this process          stop    SIGSTOP to this process, until it is continued
    raise   UnavailableError                 delay   two seconds of nothing
    lost    only after: the call was made, its answer is lost (UnavailableError; for commits `Unknown`)

(in the driver: to its Java and its Python together). `table.publish:after=kill` arms a point, several are separated by
commas; `=kill@3` means at the third call. The diary is a file that gets a line for each trap that springs.
"""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.spark_submit import runner as spark
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.waves import Unknown
from airflow_kafka_lake.ports import Ledger, Ports
from tests.kit.interceptors import Intercepted, PortCall, calls, intercepted
from tests.kit.traps import DRIVER_CALLS, Mode, Traps, parse, sides

_COMMITS = frozenset({"table.publish", "table.fence", "table.claim_ownership"})
_PROGRAM = Path(__file__).parent / "programs" / "stage.py"


def points() -> tuple[str, ...]:
    """Return every point: each call of a port and each step of the driver, before and after."""
    return sides((*calls(), *DRIVER_CALLS))


class Trapping:
    """Puts traps around ports; calls are counted over all that a process opens, one after the other or at once."""

    def __init__(self, text: str, diary: str = "") -> None:
        self._text, self._diary = text, diary

    def arm_drivers(self) -> None:
        """Have this process start drivers with armed points, if there are such, with the kit's program."""
        if any(entry.startswith("driver.") for entry in self._text.split(",")):
            spark.SparkJobs = partial(spark.SparkJobs, stage_program=_PROGRAM)  # type: ignore[misc,assignment]

    @cached_property
    def traps(self) -> Traps:
        """The armed points; UsageError names an unknown one."""
        return Traps(parse(self._text, points()), diary=self._diary)

    def ports(self, ports: Ports) -> Ports:
        """Return ports whose calls spring the traps."""
        _ = self.traps
        return intercepted(ports, self._spring)

    def ledger(self, ledger: Ledger) -> Ledger:
        """Return a ledger whose calls spring the traps."""
        _ = self.traps
        alone: Any = Intercepted("ledger", ledger, self._spring)
        return alone

    def _spring(self, call: PortCall) -> Any:
        """Spring the traps that are armed before and after a call."""
        self.traps.spring(f"{call.name}:before")
        answer = call.go()
        if self.traps.spring(f"{call.name}:after") is not Mode.LOST:
            return answer
        if call.name in _COMMITS:
            return Unknown(reason="the answer was lost at a failpoint")
        raise UnavailableError(f"the answer of {call.name} was lost at a failpoint")
