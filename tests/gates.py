"""Gates in front of the ports: something happens, or a worker dies, just before a call that a test names.

Calls are named `ledger.settle`, `source.snapshot`, `batches.explain`, `runner.stage`, `table.publish`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_kafka_lake.ports import Ports

Passing = Callable[[str], None]
UNGATED = frozenset({"ledger.ledger_id", "runner.where"})
"""Calls that answer the same whenever they are made."""


class KilledError(BaseException):
    """The worker's process is gone; nothing that it would still do happens."""


class Gate:
    """A port whose every call passes the gate first."""

    def __init__(self, name: str, port: Any, passing: Passing) -> None:
        self._name = name
        self._port = port
        self._passing = passing

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        call = f"{self._name}.{method}"
        if not callable(found) or call in UNGATED:
            return found

        def passed(*args: Any, **kwargs: Any) -> Any:
            self._passing(call)
            return found(*args, **kwargs)

        return passed


class GatedLake:
    """A lake whose tables' every call passes the gate first."""

    def __init__(self, lake: Any, passing: Passing) -> None:
        self._lake = lake
        self._passing = passing

    def table(self, identifier: str) -> Any:
        """Return the gated table."""
        return Gate("table", self._lake.table(identifier), self._passing)


def gated(ports: Ports, passing: Passing) -> Ports:
    """Put a gate in front of everything that changes or shows the shared world."""
    return replace(
        ports,
        ledger=Gate("ledger", ports.ledger, passing),
        source=Gate("source", ports.source, passing),
        batches=Gate("batches", ports.batches, passing),
        runner=Gate("runner", ports.runner, passing),
        lake=GatedLake(ports.lake, passing),
    )


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
