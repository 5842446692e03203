"""What every actor asked of the ports and what became of it, as JSON lines, for `tests.kit.history_check` to judge.

Each process appends to a file of its own, `<host>-<boot id>-<pid>-<start>.jsonl`: one line before a call and one after
it, in one write each, so that a kill loses at most the line that is being written.
"""

from __future__ import annotations

import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.core.errors import UnavailableError, UsageError
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.ports import Ledger, LedgerReader, Ports
from tests.kit import facts
from tests.kit.interceptors import PORTS, Intercepted, PortCall, calls, intercepted, methods
from tests.kit.operations import Line, Phase, outcome_of, outcome_of_error
from tests.kit.writes import WRITES

_READS = frozenset(f"ledger.{name}" for name in methods(LedgerReader))
"""Reads of the ledger: they are many, change nothing, and repeat what its writes have recorded."""

_WRITES = frozenset(f"ledger.{name}" for name in WRITES)
"""Commits to the ledger, by the name of the write."""


def _signatures() -> dict[str, inspect.Signature]:
    split = [(call, *call.split(".")) for call in calls() if call not in _READS | _WRITES]
    return {call: inspect.signature(getattr(PORTS[port], method)) for call, port, method in split}


class Recorder:
    """Writes the lines of one process; a call whose line cannot be written is not made."""

    def __init__(
        self,
        write: Callable[[str], None],
        holder: LeaseHolder,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        tick: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._write, self._now, self._tick = write, now, tick
        self._host, self._process = holder.clock, process_name(holder)
        self._written = 0
        self._writing = threading.Lock()
        self._signatures = _signatures()

    def record(self, call: PortCall, actor: str) -> Any:
        """Write down a call that matters, make it, and write down what became of it."""
        if call.name in _READS:
            return call.go()
        given = facts.arguments(self._asked(call))
        if call.table:
            given = {"table": call.table, **given}
        number = self._line(actor, call.name, Phase.INVOKE, given)
        try:
            answer = call.go()
        except BaseException as error:
            self._line(actor, call.name, outcome_of_error(error), {}, number, type(error).__name__)
            raise
        self._line(actor, call.name, outcome_of(answer), facts.answer(answer), number)
        return answer

    def _asked(self, call: PortCall) -> Mapping[str, Any]:
        """Return the arguments of a call by name; those of a commit are the fields of its write."""
        if call.name in _WRITES:
            (write,) = call.arguments
            return {item.name: getattr(write, item.name) for item in fields(write)}
        bound = self._signatures[call.name].bind(None, *call.arguments, **call.named)
        return {name: value for name, value in bound.arguments.items() if name != "self"}

    def _line(
        self,
        actor: str,
        call: str,
        phase: Phase,
        values: Mapping[str, Any],
        call_number: int | None = None,
        error: str | None = None,
    ) -> int:
        with self._writing:
            number = self._written = self._written + 1
            line = Line(
                process=self._process,
                host=self._host,
                number=number,
                tick=self._tick(),
                at=self._now(),
                actor=actor,
                call=call,
                phase=phase,
                call_number=number if call_number is None else call_number,
                values=values,
                error=error,
            )
            self._write(json.dumps(line.to_json(), separators=(",", ":")) + "\n")
        return number


class HistoryFile:
    """Where one process writes; after a line that could not be written whole nothing is written any more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        except OSError as error:
            raise UsageError(f"No history can be written to {path}: {error.strerror}") from None
        self._torn = False

    def __call__(self, line: str) -> None:
        """Append a line in one write."""
        data = line.encode()
        try:
            self._torn = self._torn or os.write(self._file, data) != len(data)
        except OSError:
            self._torn = True
        if self._torn:
            raise UnavailableError(f"The history {self._path} cannot be written. Make room, then repeat.")


class Recording:
    """Puts a recorder around ports: one for a process, whatever it opens, and another one in a forked child."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recorders: dict[int, Recorder] = {}
        self._opening = threading.Lock()

    def ports(self, ports: Ports) -> Ports:
        """Return ports whose calls are written down under their actor."""
        return recorded(self._recorder(), ports)

    def ledger(self, ledger: Ledger) -> Ledger:
        """Return a ledger whose calls are written down."""
        recorder = self._recorder()
        alone: Any = Intercepted("ledger", ledger, lambda call: recorder.record(call, "ledger alone"))
        return alone

    def _recorder(self) -> Recorder:
        with self._opening:
            if os.getpid() not in self._recorders:
                holder = HostProcesses().this()
                file = HistoryFile(self._folder / f"{process_name(holder)}.jsonl")
                self._recorders[os.getpid()] = Recorder(file, holder)
            return self._recorders[os.getpid()]


def recorded(recorder: Recorder, ports: Ports) -> Ports:
    """Return ports whose calls a recorder writes down under the ports' actor."""
    return intercepted(ports, lambda call: recorder.record(call, ports.actor))


def process_name(holder: LeaseHolder) -> str:
    """Return how a process is called in histories: `<host>-<boot id>-<pid>-<start>`."""
    return f"{holder.clock.replace(':', '-')}-{holder.pid}-{holder.started * 1000:.0f}"


def read(folder: Path) -> tuple[Line, ...]:
    """Read all histories of a folder; a last line that a kill has torn is left out, any other bad line is refused."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder with histories")
    return tuple(line for path in sorted(folder.glob("*.jsonl")) for line in _read_file(path))


def _read_file(path: Path) -> list[Line]:
    *whole, _torn = path.read_text(encoding="utf-8", errors="replace").split("\n")
    lines = []
    for number, text in enumerate(whole, 1):
        try:
            lines.append(Line.from_json(json.loads(text)))
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"{path}:{number} is no line of a history") from None
    return lines
