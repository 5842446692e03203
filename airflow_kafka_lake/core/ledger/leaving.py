"""What becomes of a wave that ranges leave, and the new wave that they go to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_kafka_lake.core.ledger import guards
from airflow_kafka_lake.core.ledger.changes import Edit, Records, abandoned
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.rows import WaveRow
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, WAVE_TRANSITIONS, Act, RangeState, WaveState


def given_back(records: Records, wave: WaveRow, left: Collection[RangeState]) -> list[Edit]:
    """Leave a wave, after ranges went from it, to its next claim: or to none, when nothing PLANNED is `left`."""
    state = WaveState.PLANNED if RangeState.PLANNED in left else guards.emptied(left)
    return [Edit(before=wave, after=wave.free(state)), *abandoned(records, wave.id, guards.ENDED_BY_CLAIM)]


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
    """Return a wave beside another one, of the newest plan of the ranges that go there.

    `beside` are new waves of the same change. Raises StateError where the name is taken.
    """
    if name in records.waves:
        raise guards.taken_id("wave", name)
    plan = max((records.plans[item.plan] for item in ranges), key=lambda plan: plan.number)
    ordinal = plan.next_ordinal + sum(wave.plan == plan.id for wave in beside)
    return WaveRow(id=name, pipeline=home.pipeline, plan=plan.id, ordinal=ordinal, table=home.table)
