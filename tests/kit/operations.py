"""Operations: what one actor asked of a port and what became of it, as its history has it.

A history is written before a call (`invoke`) and after it (`ok`, `fail`, `unknown`). A call without a second line is
unknown: its process was killed, or still waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_lake.core.errors import AttemptRejectedError, ConcurrentError, StaleFenceError, TerminalError
from airflow_kafka_lake.core.ledger.waves import Rejected, Unknown
from airflow_kafka_lake.core.wire import timestamp

NOTHING_DONE = (TerminalError, ConcurrentError, StaleFenceError, AttemptRejectedError)
"""Errors after which nothing was changed; after any other it is open."""


class Phase(StrEnum):
    """The phase of a call that a line of a history records."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: `number` grows by one per line of a process, `tick` is its host's monotonic clock in nanoseconds.

    `call_number` is the number of the line that began the call; `values` are its arguments, or its answer.
    """

    process: str
    host: str
    number: int
    tick: int
    at: datetime
    actor: str
    call: str
    phase: Phase
    call_number: int
    values: Mapping[str, Any]
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the written form."""
        return {
            "process": self.process,
            "host": self.host,
            "n": self.number,
            "tick": self.tick,
            "at": timestamp(self.at),
            "actor": self.actor,
            "call": self.call,
            "phase": self.phase.value,
            "op": self.call_number,
            "values": dict(self.values),
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Line:
        """Read what `to_json` returned; KeyError, TypeError or ValueError for anything else."""
        return cls(
            process=str(data["process"]),
            host=str(data["host"]),
            number=int(data["n"]),
            tick=int(data["tick"]),
            at=datetime.fromisoformat(data["at"]),
            actor=str(data["actor"]),
            call=str(data["call"]),
            phase=Phase(data["phase"]),
            call_number=int(data["op"]),
            values=dict(data["values"]),
            error=data["error"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call from begin to end; `ended` is None, and the outcome UNKNOWN, where its end is not recorded."""

    process: str
    host: str
    number: int
    actor: str
    call: str
    begun: int
    ended: int | None
    outcome: Phase
    asked: Mapping[str, Any]
    answer: Mapping[str, Any]
    error: str | None = None

    def before(self, other: Operation) -> bool:
        """Return whether this had ended before the other began, as far as one host's clock can tell."""
        return self.host == other.host and self.ended is not None and self.ended < other.begun


def outcome_of(answer: object) -> Phase:
    """Return what an answer means: a commit may be refused or lost without any error."""
    if isinstance(answer, Rejected):
        return Phase.FAIL
    return Phase.UNKNOWN if isinstance(answer, Unknown) else Phase.OK


def outcome_of_error(error: BaseException) -> Phase:
    """Return whether an error excludes that the call had an effect."""
    return Phase.FAIL if isinstance(error, NOTHING_DONE) else Phase.UNKNOWN


def operations(lines: Iterable[Line]) -> tuple[Operation, ...]:
    """Join the lines of a history into calls, process by process, in the order in which they began."""
    begun: dict[tuple[str, int], Line] = {}
    ended: dict[tuple[str, int], Line] = {}
    for line in lines:
        (begun if line.phase is Phase.INVOKE else ended)[line.process, line.call_number] = line
    return tuple(_operation(begun[key], ended.get(key)) for key in sorted(begun))


def _operation(first: Line, last: Line | None) -> Operation:
    return Operation(
        process=first.process,
        host=first.host,
        number=first.number,
        actor=first.actor,
        call=first.call,
        begun=first.tick,
        ended=last.tick if last else None,
        outcome=last.phase if last else Phase.UNKNOWN,
        asked=first.values,
        answer=last.values if last else {},
        error=last.error if last else None,
    )
