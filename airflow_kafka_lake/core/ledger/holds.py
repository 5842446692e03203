"""Holds: ranges that wait for a person, the offsets that they wait for, and what a skip of these does."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_lake.core.ledger.records import Verdict
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import NOTHING, RangeSet

HELD_STRETCHES = 100
"""How many stretches a hold tells apart: it is due to all that lies between the last of more."""


def hold(range_id: str, reason: str, held_for: RangeSet = NOTHING) -> Verdict:
    """Return a hold; `held_for` are the offsets that it is due to, none where it is due to the range as a whole."""
    return Verdict(range_id=range_id, state=RangeState.HELD, reason=reason, held_for=held_for.at_most(HELD_STRETCHES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a skip did: how many offsets it passed, and the waves of what was held for them and goes on without them."""

    offsets: int
    waves: tuple[str, ...] = ()
