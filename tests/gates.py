"""Gates in front of the ports: something happens, or a worker dies, just before a call that a test names.

Calls are named `ledger.recover`, `source.snapshot`, `batches.explain`, `runner.stage`, `table.publish`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_kafka_lake.ports import Ports
from tests.kit.interceptors import PortCall, intercepted

Passing = Callable[[str], None]
UNGATED = frozenset({"ledger.ledger_id", "runner.where"})
"""Calls that answer the same whenever they are made."""


class KilledError(BaseException):
    """The worker's process is gone; nothing that it would still do happens."""


def gated(ports: Ports, passing: Passing) -> Ports:
    """Put a gate in front of everything that changes or shows the shared world."""

    def pass_first(call: PortCall) -> Any:
        if call.name not in UNGATED:
            passing(call.name)
        return call.go()

    return intercepted(ports, pass_first)


_ARMED: list[Before | Killed] = []


@contextmanager
def nothing_in_vain() -> Iterator[None]:
    """Refuse, at the end, a gate that was armed in between and whose call was never made: it has shown nothing."""
    _ARMED.clear()
    yield
    missed = [gate.waits_for for gate in _ARMED if not gate.happened]
    _ARMED.clear()
    assert not missed, f"never came to call {', '.join(missed)}: what should happen there did not"


class Before:
    """Let something happen once, just before the nth call of a name (any call when the name is empty)."""

    def __init__(self, call: str, happening: Callable[[], object], *, nth: int = 1) -> None:
        self.happened = False
        self.waits_for = f"{call or 'any'} {nth}"
        _ARMED.append(self)
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
    """Kill the worker just before the nth call of a name (any call when the name is empty); `if_it_comes` allows that
    the worker never comes that far."""

    def __init__(self, call: str = "", *, nth: int = 1, if_it_comes: bool = False) -> None:
        self.happened = False
        self.waits_for = f"{call or 'any'} {nth}"
        if not if_it_comes:
            _ARMED.append(self)
        self._call = call
        self._left = nth

    def __call__(self, call: str) -> None:
        """Pass the gate; the dead never do."""
        if not self._call or call == self._call:
            self._left -= 1
        self.happened = self.happened or not self._left
        if self.happened:
            raise KilledError


class Calls:
    """Write down which calls are made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, call: str) -> None:
        """Pass the gate."""
        self.made.append(call)
