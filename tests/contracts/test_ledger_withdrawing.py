"""What was planned and never begun is taken off the plan again. One suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

import pytest

from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.core.ledger.decisions import (
    KeptRange,
    Withdraw,
    Withdrawal,
    withdrawal,
)
from airflow_kafka_lake.core.ledger.plans import RecordPlan
from airflow_kafka_lake.core.ledger.waves import UNRESOLVED, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import SPEC, claimed, committed, key_of, plan_of, planned, skipped, taken
from tests.contracts.test_ledger_attempts import everything
from tests.contracts.test_ledger_decisions import pieces

EVERYTHING = OffsetRange(0, 10_000)


def decided(ledger: Ledger, slice_: OffsetRange = EVERYTHING) -> tuple[Withdrawal, tuple[KeptRange, ...]]:
    """Decide to withdraw a slice of every stream."""
    wanted = [(i, slice_) for i in ledger.ranges(pipeline=SPEC.name, states=UNRESOLVED) if i.range.overlaps(slice_)]
    streams, waves = ledger.streams(SPEC.name), ledger.waves(SPEC.name)
    return withdrawal(SPEC.name, SPEC.name, "wrong year", streams, waves, wanted)


def withdrawn(ledger: Ledger, slice_: OffsetRange = EVERYTHING) -> tuple[KeptRange, ...]:
    """Withdraw a slice; returns what stays."""
    what, kept = decided(ledger, slice_)
    ledger.commit(Withdraw(what=what, actor="tester"))
    return kept


def test_withdrawn_offsets_are_as_if_they_were_never_planned(ledger: Ledger) -> None:
    """The watermark stays, nothing covers them, the same plan can be made again, and history says what went and why."""
    first, *others = planned(ledger, [(0, 0, 10)], [(0, 10, 20), (1, 0, 10)], [(1, 10, 20)])
    committed(ledger, first)
    ledger.advance(SPEC.name)
    before = ledger.streams(SPEC.name)
    assert withdrawn(ledger) == ()
    assert pieces(ledger) == [(0, 10, "COMMITTED")]
    assert pieces(ledger, 1) == []
    assert {ledger.wave(wave).state for wave in others} == {WaveState.DISSOLVED}
    assert [(s.watermark, s.origin, s.planned) for s in ledger.streams(SPEC.name)] == [
        (10, 0, RangeSet.of((0, 10))),
        (0, 0, RangeSet()),
    ]
    assert [s.version for s in ledger.streams(SPEC.name)] == [s.version + 1 for s in before]
    event = ledger.events(SPEC.name)[-1]
    assert (event.kind, event.actor, event.subject) == ("withdraw", "tester", SPEC.name)
    assert event.detail == "30 offsets in 3 ranges: orders/0 10-20, orders/1 0-20: wrong year"
    assert event.slices == (Slice(key_of(0), OffsetRange(10, 20)), Slice(key_of(1), OffsetRange(0, 20)))
    (again,) = planned(ledger, [(0, 10, 20), (1, 0, 20)])
    committed(ledger, again)
    assert [(move.stream.partition, move.end) for move in ledger.advance(SPEC.name)] == [(0, 20), (1, 20)]


def test_range_that_crosses_an_edge_keeps_the_rest_planned(ledger: Ledger) -> None:
    """Both sides stay in their wave, which is run without what went."""
    (wave,) = planned(ledger, [(0, 0, 20), (1, 0, 20)])
    withdrawn(ledger, OffsetRange(5, 8))
    assert pieces(ledger) == [(0, 5, "PLANNED"), (8, 20, "PLANNED")]
    assert [(item.estimated_bytes, item.leader_epoch) for item in ledger.ranges(wave=wave)] == [(50, 3), (120, 3)] * 2
    assert {item.range.span for item in committed(ledger, wave).ranges} == {5, 12}
    ledger.advance(SPEC.name)
    assert [(stream.watermark, stream.planned) for stream in ledger.streams(SPEC.name)] == [
        (5, RangeSet.of((0, 5), (8, 20)))
    ] * 2


def test_claimed_waves_stay_and_are_named_with_what_to_do(ledger: Ledger) -> None:
    """Something of them may be on its way, also when no worker is at them now."""
    begun, other = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    claimed(ledger, begun)
    (kept,) = withdrawn(ledger)
    assert (kept.record.wave, pieces(ledger)) == (begun, [(0, 10, "PLANNED")])
    assert kept.reason.endswith(f"Put it on hold with: kafka-lake cancel {begun} --reason TEXT")
    assert ledger.wave(other).state is WaveState.DISSOLVED


def test_cancelled_range_that_was_never_begun_is_withdrawn(ledger: Ledger) -> None:
    """What is on hold after a claim is led out as before."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    taken(ledger, wave)
    assert withdrawn(ledger) == ()
    assert (pieces(ledger), ledger.wave(wave).state) == ([], WaveState.DISSOLVED)
    (wave,) = planned(ledger, [(0, 0, 10)])
    taken(ledger, wave, key=claimed(ledger, wave).key)
    what, (kept,) = decided(ledger)
    assert (what.ranges, "kafka-lake release" in kept.reason) == ((), True)


@pytest.mark.parametrize("act", ["claim", "skip", "plan"])
def test_what_was_decided_from_older_records_is_refused(ledger: Ledger, act: str) -> None:
    """A claim, or any decision about the stream, that came between: nothing is withdrawn."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    what, _ = decided(ledger)
    match act:
        case "claim":
            claimed(ledger, wave)
        case "skip":
            skipped(ledger, 20, 30)
        case _:
            planned(ledger, [(0, 10, 20)])
    before = everything(ledger)
    with pytest.raises(ConcurrentError, match="Nothing was withdrawn"):
        ledger.commit(Withdraw(what=what, actor="tester"))
    assert everything(ledger) == before


def test_planner_that_saw_the_withdrawn_offsets_planned_is_refused(ledger: Ledger) -> None:
    """A withdrawal is a decision about the stream: who planned beside it looks again."""
    planned(ledger, [(0, 0, 10)])
    beside = plan_of(ledger, [(0, 10, 20)])
    withdrawn(ledger)
    with pytest.raises(ConcurrentError):
        ledger.commit(RecordPlan(plan=beside, actor="planner"))


def test_claim_of_a_withdrawn_wave_is_refused(ledger: Ledger) -> None:
    """A task that comes late finds nothing to do."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    withdrawn(ledger)
    assert (ledger.wave(wave).ranges, ledger.ranges(wave=wave)) == (0, ())
    with pytest.raises(Exception, match="DISSOLVED"):
        claimed(ledger, wave)


def test_other_streams_are_not_decided_about(ledger: Ledger) -> None:
    """Their versions stay, so that who plans them is not disturbed."""
    planned(ledger, [(0, 0, 10)], [(1, 20, 30)])
    withdrawn(ledger, OffsetRange(0, 20))
    assert [(s.key.partition, s.version) for s in ledger.streams(SPEC.name)] == [(0, 2), (1, 1)]
    assert pieces(ledger, 1) == [(20, 30, RangeState.PLANNED.value)]
    assert key_of(1) not in decided(ledger, OffsetRange(0, 20))[0].versions
