"""Gates in front of the ports: something happens, or a worker dies, just before a call that a test names.

Calls are named `ledger.settle`, `source.snapshot`, `batches.explain`, `runner.stage`, `table.publish`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_kafka_lake.adapters.crossings import Crossing, watched
from airflow_kafka_lake.ports import Ports

Passing = Callable[[str], None]
UNGATED = frozenset({"ledger.ledger_id", "runner.where"})
"""Calls that answer the same whenever they are made."""


class KilledError(BaseException):
    """The worker's process is gone; nothing that it would still do happens."""


def gated(ports: Ports, passing: Passing) -> Ports:
    """Put a gate in front of everything that changes or shows the shared world."""

    def pass_first(crossing: Crossing) -> Any:
        if crossing.name not in UNGATED:
            passing(crossing.name)
        return crossing.go()

    return watched(ports, pass_first)


class Before:
    """Let something happen once, just before the nth call of a name (any call when the name is empty)."""

    def __init__(self, call: str, happening: Callable[[], object], *, nth: int = 1) -> None:
        self.happened = False
        self._call = call
        self._happening = happening
        self._left = nth

    def __call__(self, call: str) -> None:
        """Pass the gate."""
        if self.happened or (self._call and call != self._call):
            return
        self._left -= 1
        if not self._left:
            self.happened = True
            self._happening()


class Killed:
    """Kill the worker just before the nth call of a name (any call when the name is empty)."""

    def __init__(self, call: str = "", *, nth: int = 1) -> None:
        self.dead = False
        self._call = call
        self._left = nth

    def __call__(self, call: str) -> None:
        """Pass the gate; the dead never do."""
        if not self._call or call == self._call:
            self._left -= 1
        self.dead = self.dead or not self._left
        if self.dead:
            raise KilledError


class Calls:
    """Write down which calls are made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, call: str) -> None:
        """Pass the gate."""
        self.made.append(call)
