"""Holds: ranges that wait for a person, why, the offsets that they wait for, and the commands that end the hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.ledger.guards import remedies_for
from airflow_kafka_lake.core.ledger.records import RangeDecision, RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet
from airflow_kafka_lake.core.remedies import Remedy
from airflow_kafka_lake.core.slices import Slice

HELD_RANGES = 100
"""How many ranges of offsets a hold names: of more, the last ones are joined into one."""
_KIND = re.compile(r"([A-Z]\w+Error): ")


def hold(range_id: str, reason: str, held_for: RangeSet = NOTHING) -> RangeDecision:
    """Return a hold; `held_for` are the offsets that it is due to, none where it is due to the range as a whole."""
    return RangeDecision(
        range_id=range_id, state=RangeState.HELD, reason=reason, held_for=held_for.at_most(HELD_RANGES)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReason:
    """Why a range is on hold or unresolved, read from its record.

    `kind` is the name of the error that held it, None for a person's reason; `slices` are what it is due to, none where
    that is the range as a whole; `remedies` are the commands that end it: those that the reason names, else those
    of its state.
    """

    kind: str | None
    slices: tuple[Slice, ...]
    remedies: tuple[Remedy, ...]
    text: str
    """The reason and its remedies, for people."""

    @classmethod
    def of(cls, item: RangeRecord) -> HoldReason:
        """Return the reason of a range's record."""
        kind = _KIND.match(item.reason or "")
        due_to = tuple(Slice(item.stream, part) for part in item.held_for.ranges)
        named = remedies.found_in(item.reason or "")
        ways, text = (named, str(item.reason)) if named else _by_state(item, due_to)
        return cls(kind=kind[1] if kind else None, slices=due_to, remedies=ways, text=text)


def _by_state(item: RangeRecord, due_to: tuple[Slice, ...]) -> tuple[tuple[Remedy, ...], str]:
    """Return what ends a hold whose reason does not name it, and the reason with that."""
    if len(due_to) == 1:
        again, pass_it = remedies.release(item.id), passing(item, due_to[0].range)
        found = (again, remedies.skip(item.pipeline, due_to[0]))
        return found, f"{item.reason}. Read it again with: {again}; or pass them with: {pass_it}"
    ways = remedies_for(item.state, item.id, item.pipeline)
    return ways, f"{item.reason}. End it with: {', or '.join(map(str, ways))}"


def passing(item: RangeRecord, gone: OffsetRange, *, generation: bool = False) -> str:
    """Return the command that skips part of a range, and what becomes of the rest; `generation` names the topic id."""
    command = remedies.skip(item.pipeline, Slice(item.stream, gone), name_topic_id=generation)
    rest = RangeSet((item.range,)) - RangeSet((gone,))
    return f"{command}; the rest, {rest}, then goes on with the next run" if rest else str(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipResult:
    """What a skip did: how many offsets it passed, and the waves of what was held for them and goes on without them."""

    offsets: int
    waves: tuple[str, ...] = ()
