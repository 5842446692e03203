"""What becomes of a wave whose ranges change or leave, and of the attempts at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Edit, Records
from airflow_kafka_lake.core.ledger.records import RangeRecord, WaveRow
from airflow_kafka_lake.core.ledger.waves import (
    UNRESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptOutcome,
    RangeState,
    WaveState,
)

ENDED_BY_CLAIM = frozenset({AttemptOutcome.RUNNING, AttemptOutcome.STAGED})
"""Outcomes that become `abandoned` when the wave goes to another attempt."""

ENDED_BY_COMMIT = ENDED_BY_CLAIM | {AttemptOutcome.UNKNOWN}
"""Outcomes that become `abandoned` when the commit of another attempt is the one in the lake."""


def abandoned(records: Records, wave: str, outcomes: Collection[AttemptOutcome] = ENDED_BY_CLAIM) -> list[Edit]:
    """End the attempts at a wave that have one of these outcomes."""
    running = (item for item in records.attempts_of(wave) if item.outcome in outcomes)
    return [Edit(before=item, after=item.abandoned(records.now)) for item in running]


def states_after(records: Records, edits: Sequence[Edit]) -> dict[str, set[RangeState]]:
    """Return the states that the ranges of each wave have after some edits of ranges."""
    counts = Counter({(name, state): n for name, states in records.counts.items() for state, n in states.items()})
    after = (edit.after for edit in edits)
    before = (edit.before for edit in edits)
    counts.update((item.wave, item.state) for item in after if isinstance(item, RangeRecord))
    counts.subtract((item.wave, item.state) for item in before if isinstance(item, RangeRecord))
    found: dict[str, set[RangeState]] = {}
    for (name, state), number in counts.items():
        found.setdefault(name, set())
        if number > 0:
            found[name].add(state)
    return found


def state_without_planned(states: Collection[RangeState]) -> WaveState:
    """Return what becomes of a wave without PLANNED ranges: CANCELLED can be released as it is, DISSOLVED is over."""
    return WaveState.CANCELLED if UNRESOLVED & {*states} == {RangeState.CANCELLED} else WaveState.DISSOLVED


def given_back(records: Records, wave: WaveRow, left: Collection[RangeState]) -> list[Edit]:
    """Leave a wave, after ranges went from it, to its next claim: or to none, when nothing PLANNED is `left`."""
    state = WaveState.PLANNED if RangeState.PLANNED in left else state_without_planned(left)
    return [Edit(before=wave, after=wave.free(state)), *abandoned(records, wave.id)]


def dissolved(waves: Iterable[WaveRow], left: Mapping[str, Collection[RangeState]]) -> list[Edit]:
    """End CANCELLED waves whose last unresolved range went elsewhere."""
    return [
        Edit(before=wave, after=replace(wave, state=WAVE_TRANSITIONS[Act.DISSOLVE][1]))
        for wave in waves
        if wave.state is WaveState.CANCELLED and not UNRESOLVED & {*left.get(wave.id, ())}
    ]


def new_wave(
    records: Records, name: str, home: WaveRow, ranges: Sequence[RangeRecord], *, beside: Sequence[WaveRow] = ()
) -> WaveRow:
    """Return a new wave for ranges of another one, in the newest of their plans.

    `beside` are new waves of the same change. Raises StateError where the name is taken.
    """
    if name in records.waves:
        raise guards.taken_id("wave", name)
    plan = max((records.plans[item.plan] for item in ranges), key=lambda plan: plan.number)
    ordinal = plan.next_ordinal + sum(wave.plan == plan.id for wave in beside)
    return WaveRow(id=name, pipeline=home.pipeline, plan=plan.id, ordinal=ordinal, table=home.table)
