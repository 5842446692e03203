"""What people and audits decide about ranges: take, release, skip. One suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_kafka_lake.core import remedies
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import ConcurrentError, StaleFenceError, StateError
from airflow_kafka_lake.core.ledger.attempts import EndAttempt, RecordJob
from airflow_kafka_lake.core.ledger.decisions import Release, Revoke
from airflow_kafka_lake.core.ledger.deletions import AcceptDeletes, DeletedRange
from airflow_kafka_lake.core.ledger.plans import RecordPlan
from airflow_kafka_lake.core.ledger.records import RangeDecision
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.core.remedies import Cause
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    SPEC,
    claimed,
    committed,
    key_of,
    outbox_of,
    plan_of,
    planned,
    publishing,
    skipped,
    staged,
    taken,
)
from tests.contracts.test_ledger_attempts import everything


def pieces(ledger: Ledger, partition: int = 0) -> list[tuple[int, int, str]]:
    """Return a stream's ranges as `(start, end, state)`."""
    return [
        (item.range.start, item.range.end, item.state.value)
        for item in ledger.ranges(pipeline=SPEC.name)
        if item.stream.partition == partition
    ]


def release(ledger: Ledger, *ranges: str, wave: str = "again", reason: str | None = None) -> str:
    """Release ranges."""
    return ledger.commit(Release(ranges=ranges, wave=wave, actor="tester", reason=reason))


def test_unclaimed_wave_is_cancelled(ledger: Ledger) -> None:
    """No fence is needed where no worker ever worked."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    taken(ledger, wave)
    assert ledger.wave(wave).state is WaveState.CANCELLED
    assert [(item.state, item.reason) for item in ledger.ranges(wave=wave)] == [
        (RangeState.CANCELLED, "because"),
        (RangeState.CANCELLED, "because"),
    ]


def test_part_of_a_wave_is_taken(ledger: Ledger) -> None:
    """The rest stays PLANNED and can be claimed."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    taken(ledger, wave, f"{wave}r1", state=RangeState.HELD)
    assert ledger.wave(wave).state is WaveState.PLANNED
    assert [item.id for item in claimed(ledger, wave).ranges] == [f"{wave}r0"]


def test_wave_with_held_ranges_only_is_dissolved(ledger: Ledger) -> None:
    """What is held goes on in another wave; only a wholly cancelled wave can be released as it is."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20), (1, 0, 10)])
    taken(ledger, first, state=RangeState.HELD)
    taken(ledger, second, f"{second}r0", state=RangeState.CANCELLED)
    taken(ledger, second, f"{second}r1", state=RangeState.HELD)
    assert [wave.state for wave in ledger.waves(SPEC.name)] == [WaveState.DISSOLVED, WaveState.DISSOLVED]


def test_taking_from_a_claimed_wave_needs_its_guard(ledger: Ledger) -> None:
    """Without attempt, or with another one, nothing is taken."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    before = everything(ledger)
    for wrong in (None, replace(key, attempt="0" * 16), replace(key, fence=0), replace(key, fence=2)):
        with pytest.raises(StaleFenceError):
            taken(ledger, wave, f"{wave}r0", key=wrong)
    verdict = RangeDecision(range_id=f"{wave}r0", state=RangeState.HELD, reason="x")
    with pytest.raises(StaleFenceError):
        ledger.commit(Revoke(wave=wave, fence=1, attempt=None, verdicts=[verdict], actor="tester"))
    assert everything(ledger) == before


@pytest.mark.parametrize("ready", [claimed, staged, publishing])
def test_taking_ends_the_attempt(ledger: Ledger, ready: object) -> None:
    """What is staged holds too much now: the attempt is abandoned, the rest is PLANNED and free."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    key = ready(ledger, wave).key  # type: ignore[operator]
    taken(ledger, wave, f"{wave}r0", state=RangeState.HELD, key=key)
    record = ledger.wave(wave)
    assert (record.state, record.holder, record.lease_live, record.fence) == (WaveState.PLANNED, None, False, 1)
    (attempt,) = ledger.attempts(wave)
    assert attempt.outcome is AttemptOutcome.ABANDONED
    assert attempt.ended_at is not None
    with pytest.raises(StaleFenceError):
        ledger.commit(RecordJob(key=key, job="job"))


def test_taking_after_the_end_keeps_the_outcome(ledger: Ledger) -> None:
    """An attempt that has failed may still be the guard, as long as no worker has claimed since."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    ledger.commit(EndAttempt(key=key, outcome=AttemptOutcome.FAILED, error="unexplained offsets"))
    taken(ledger, wave, key=key)
    (attempt,) = ledger.attempts(wave)
    assert (attempt.outcome, attempt.error) == (AttemptOutcome.FAILED, "unexplained offsets")
    assert ledger.wave(wave).state is WaveState.CANCELLED


def test_only_planned_ranges_of_the_wave_are_taken(ledger: Ledger) -> None:
    """A range of another wave, of another state, or none at all: nothing is taken, not even the others."""
    first, second = planned(ledger, [(0, 0, 10), (1, 0, 10), (2, 0, 10)], [(0, 10, 20)])
    taken(ledger, first, f"{first}r2", state=RangeState.HELD)
    before = everything(ledger)
    for wrong in (f"{second}r0", f"{first}r2", "r9"):
        with pytest.raises(StateError, match=wrong):
            taken(ledger, first, f"{first}r0", wrong)
    assert everything(ledger) == before


@pytest.mark.parametrize("state", sorted(set(RangeState) - {RangeState.CANCELLED, RangeState.HELD}))
def test_taking_is_to_a_hold(ledger: Ledger, state: RangeState) -> None:
    """Nothing is committed or skipped by taking it away."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    with pytest.raises(ValueError, match=state.value):
        taken(ledger, wave, state=state)
    with pytest.raises(ValueError, match="no range"):
        ledger.commit(Revoke(wave=wave, fence=0, attempt=None, verdicts=[], actor="tester"))
    with pytest.raises(ValueError, match="twice"):
        taken(ledger, wave, f"{wave}r0", f"{wave}r0")


def test_ranges_set_apart_stay_planned_in_a_wave_of_their_own(ledger: Ledger) -> None:
    """In one write with the holds: what is set apart can be claimed at once, and its old wave has no part of it."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10), (2, 0, 10)])
    key = claimed(ledger, wave).key
    verdicts = [
        RangeDecision(range_id=f"{wave}r0", state=RangeState.PLANNED, reason="no leader"),
        RangeDecision(range_id=f"{wave}r1", state=RangeState.HELD, reason="gone"),
    ]
    ledger.commit(Revoke(wave=wave, fence=1, attempt=key.attempt, verdicts=verdicts, actor="tester", apart="apart-w0"))
    moved, held, left = (ledger.range(f"{wave}r{number}") for number in range(3))
    assert (moved.wave, moved.state, moved.reason) == ("apart-w0", RangeState.PLANNED, None)
    assert (held.wave, held.state, held.reason) == (wave, RangeState.HELD, "gone")
    assert (left.wave, left.state) == (wave, RangeState.PLANNED)
    apart = ledger.wave("apart-w0")
    assert (apart.state, apart.fence, apart.plan, apart.table) == (WaveState.PLANNED, 0, moved.plan, "raw.orders")
    assert [item.id for item in claimed(ledger, "apart-w0").ranges] == [moved.id]
    assert [item.id for item in claimed(ledger, wave).ranges] == [left.id]


def test_nothing_is_set_apart_without_a_wave_for_it(ledger: Ledger) -> None:
    """A taking to PLANNED names its wave, a new one, and a wave that is named gets something."""
    wave, other = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    before = everything(ledger)
    for state, apart, refusal in (
        (RangeState.PLANNED, None, ValueError),
        (RangeState.HELD, "apart-w0", ValueError),
        (RangeState.PLANNED, other, StateError),
    ):
        verdict = RangeDecision(range_id=f"{wave}r0", state=state, reason="x")
        with pytest.raises(refusal):
            ledger.commit(Revoke(wave=wave, fence=0, attempt=None, verdicts=[verdict], actor="tester", apart=apart))
    assert everything(ledger) == before


def test_part_of_a_range_is_taken(ledger: Ledger) -> None:
    """The range is cut at the part's edges: what is beside it stays in the wave, with its share of the bytes."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    source, key = ledger.range(f"{wave}r0"), claimed(ledger, wave).key
    verdicts = [
        RangeDecision(range_id=source.id, state=RangeState.HELD, reason="bad", part=OffsetRange(4, 5)),
        RangeDecision(range_id=source.id, state=RangeState.PLANNED, reason="later", part=OffsetRange(7, 10)),
        RangeDecision(range_id=f"{wave}r1", state=RangeState.HELD, reason="whole"),
    ]
    ledger.commit(Revoke(wave=wave, fence=1, attempt=key.attempt, verdicts=verdicts, actor="tester", apart="apart-w0"))
    found = [item for item in ledger.ranges(pipeline=SPEC.name) if item.stream.partition == 0]
    assert [(item.id, str(item.range), item.state, item.wave, item.reason) for item in found] == [
        (source.id, "0-4", RangeState.PLANNED, wave, None),
        (f"{source.id}.4", "4-5", RangeState.HELD, wave, "bad"),
        (f"{source.id}.5", "5-7", RangeState.PLANNED, wave, None),
        (f"{source.id}.7", "7-10", RangeState.PLANNED, "apart-w0", None),
    ]
    assert [item.estimated_bytes for item in found] == [source.estimated_bytes * n // 10 for n in (4, 1, 2, 3)]
    assert {(item.plan, item.stream, item.generation, item.leader_epoch) for item in found} == {
        (source.plan, source.stream, source.generation, source.leader_epoch)
    }
    again = claimed(ledger, wave)
    assert [item.id for item in again.ranges] == [source.id, f"{source.id}.5"]
    key = again.key
    piece = RangeDecision(range_id=f"{source.id}.5", state=RangeState.HELD, reason="x", part=OffsetRange(6, 7))
    ledger.commit(Revoke(wave=wave, fence=key.fence, attempt=key.attempt, verdicts=[piece], actor="tester"))
    assert ledger.range(f"{source.id}.6").range == OffsetRange(6, 7)


@pytest.mark.parametrize(
    "parts",
    [[(5, 11)], [(2, 4), (3, 5)], [(2, 4), (2, 4)], [(2, 4), None]],
    ids=["beyond", "overlap", "twice", "beside the whole"],
)
def test_parts_that_do_not_fit_their_range_take_nothing(ledger: Ledger, parts: list[tuple[int, int] | None]) -> None:
    """Nothing is cut then, and the wave can go on."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    before = everything(ledger)
    verdicts = [
        RangeDecision(
            range_id=f"{wave}r0", state=RangeState.HELD, reason="x", part=OffsetRange(*part) if part else None
        )
        for part in parts
    ]
    with pytest.raises(ConcurrentError if parts == [(5, 11)] else ValueError, match=r"[Rr]ange"):
        ledger.commit(Revoke(wave=wave, fence=0, attempt=None, verdicts=verdicts, actor="tester"))
    assert everything(ledger) == before


def test_part_of_a_range_that_is_not_planned_in_the_wave_is_not_taken(ledger: Ledger) -> None:
    """Neither of one that is not there, nor of another wave's, nor of one that was taken before."""
    wave, other = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    taken(ledger, wave, f"{wave}r1")
    before = everything(ledger)
    for name, part in (
        ("nowhere", OffsetRange(1, 2)),
        (f"{other}r0", OffsetRange(11, 12)),
        (f"{wave}r1", OffsetRange(1, 2)),
    ):
        verdict = RangeDecision(range_id=name, state=RangeState.HELD, reason="x", part=part)
        with pytest.raises(StateError, match=name):
            ledger.commit(Revoke(wave=wave, fence=0, attempt=None, verdicts=[verdict], actor="tester"))
        assert everything(ledger) == before


def test_skip_may_accept_the_leader_epoch_of_a_log_that_lost_it(ledger: Ledger) -> None:
    """The stream is known under that epoch from then on; its ranges keep the one they were planned under."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    skipped(ledger, 5, 6)
    assert ledger.streams(SPEC.name)[0].leader_epoch == 3
    skipped(ledger, 6, 10, epoch=8)
    assert ledger.streams(SPEC.name)[0].leader_epoch == 8
    assert ledger.ranges(wave=wave)[0].leader_epoch == 3


def test_finished_waves_give_nothing(ledger: Ledger) -> None:
    """From a COMMITTED or CANCELLED wave nothing is taken."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    key = committed(ledger, first).key
    taken(ledger, second)
    with pytest.raises(StateError, match="COMMITTED"):
        taken(ledger, first, f"{first}r0", key=key)
    with pytest.raises(StateError, match="CANCELLED"):
        taken(ledger, second, f"{second}r0")


def test_cancelled_wave_is_released_as_it_was(ledger: Ledger) -> None:
    """All ranges of a CANCELLED wave return to it; its fence and its attempts stay."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    key = claimed(ledger, wave).key
    taken(ledger, wave, key=key)
    assert release(ledger, f"{wave}r1", f"{wave}r0", f"{wave}r0") == wave
    record = ledger.wave(wave)
    assert (record.state, record.fence) == (WaveState.PLANNED, 1)
    assert [(item.state, item.reason) for item in ledger.ranges(wave=wave)] == [(RangeState.PLANNED, None)] * 2
    assert claimed(ledger, wave).key.fence == 2


def test_part_of_a_cancelled_wave_goes_to_a_new_one(ledger: Ledger) -> None:
    """The new wave has no fence yet, and stands at the end of its plan; the rest can be released later."""
    wave, later = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    planned(ledger, [(0, 20, 30)])
    taken(ledger, wave)
    assert release(ledger, f"{wave}r1", reason="repaired") == "again"
    new = ledger.wave("again")
    assert (new.state, new.fence, new.table, new.plan) == (WaveState.PLANNED, 0, "raw.orders", ledger.wave(wave).plan)
    assert [item.id for item in ledger.ranges(wave="again")] == [f"{wave}r1"]
    assert (ledger.wave(wave).state, ledger.wave(wave).ranges) == (WaveState.CANCELLED, 1)
    assert [item.id for item in ledger.waves(SPEC.name)][:3] == [wave, later, "again"]
    assert [item.id for item in claimed(ledger, "again").ranges] == [f"{wave}r1"]
    assert release(ledger, f"{wave}r0") == wave


def test_held_range_goes_to_a_new_wave(ledger: Ledger) -> None:
    """Its own wave may be committed or dissolved: that stays so."""
    first, second = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    taken(ledger, first, f"{first}r0", state=RangeState.HELD)
    committed(ledger, first)
    taken(ledger, second, state=RangeState.HELD)
    assert release(ledger, f"{first}r0", f"{second}r0") == "again"
    assert [wave.state for wave in ledger.waves(SPEC.name)] == [
        WaveState.COMMITTED,
        WaveState.DISSOLVED,
        WaveState.PLANNED,
    ]
    committed(ledger, "again")
    assert {state for _, _, state in pieces(ledger)} == {"COMMITTED"}


def test_cancelled_wave_whose_ranges_all_left_is_dissolved(ledger: Ledger) -> None:
    """Two cancelled waves released together become one new wave, of the newest plan."""
    (first,) = planned(ledger, [(0, 0, 10)])
    (second,) = planned(ledger, [(0, 10, 20)])
    taken(ledger, first)
    taken(ledger, second)
    assert release(ledger, f"{second}r0", f"{first}r0") == "again"
    assert ledger.wave("again").plan == ledger.wave(second).plan
    assert (ledger.wave(first).state, ledger.wave(second).state) == (WaveState.DISSOLVED, WaveState.DISSOLVED)


def test_as_many_ranges_as_a_cancelled_wave_has_are_not_that_wave(ledger: Ledger) -> None:
    """One of it and one of another go to a new wave: what is left of the first stays cancelled, the other is over."""
    first, second = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    taken(ledger, first)
    taken(ledger, second)
    assert release(ledger, f"{first}r0", f"{second}r0") == "again"
    assert [item.range for item in ledger.ranges(wave="again")] == [OffsetRange(0, 10), OffsetRange(10, 20)]
    states = [ledger.wave(name).state for name in (first, second, "again")]
    assert states == [WaveState.CANCELLED, WaveState.DISSOLVED, WaveState.PLANNED]
    assert ledger.range(f"{first}r1").state is RangeState.CANCELLED


def test_new_wave_needs_a_name_of_its_own(ledger: Ledger) -> None:
    """What is released goes to no wave that is there, and nothing is changed."""
    first, second = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    taken(ledger, first)
    before = everything(ledger)
    with pytest.raises(StateError, match=f"The wave id {second} is taken"):
        release(ledger, f"{first}r0", wave=second)
    assert everything(ledger) == before


def test_only_what_is_on_hold_is_released(ledger: Ledger) -> None:
    """A PLANNED, COMMITTED or SKIPPED range is named, and nothing is released."""
    first, second, third = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)], [(0, 20, 30)])
    committed(ledger, second)
    skipped(ledger, 20, 40)
    taken(ledger, first, f"{first}r1")
    before = everything(ledger)
    gap = next(item.id for item in ledger.ranges(pipeline=SPEC.name) if item.range == OffsetRange(30, 40))
    for wrong in (f"{first}r0", f"{second}r0", f"{third}r0", gap):
        with pytest.raises(StateError, match=wrong):
            release(ledger, f"{first}r1", wrong)
    with pytest.raises(ValueError, match="no range"):
        release(ledger)
    assert everything(ledger) == before


def test_new_wave_needs_a_new_name(ledger: Ledger) -> None:
    """An existing wave is not filled up."""
    first, second = planned(ledger, [(0, 0, 10), (1, 0, 10)], [(0, 10, 20)])
    taken(ledger, first, f"{first}r0")
    with pytest.raises(StateError, match=second):
        release(ledger, f"{first}r0", wave=second)


def test_one_wave_holds_one_table(ledger: Ledger) -> None:
    """Ranges of two tables are not released into one commit."""
    spec = replace(SPEC, table="raw.{topic}")
    (first,) = planned(ledger, [(0, 0, 10)], spec=spec)
    (second,) = planned(ledger, [(0, 0, 10)], spec=spec, topic="audits")
    taken(ledger, first)
    taken(ledger, second)
    with pytest.raises(StateError, match="table"):
        release(ledger, f"{first}r0", f"{second}r0")


def test_planned_range_is_skipped(ledger: Ledger) -> None:
    """It keeps its place, is accounted for as skipped, and its wave dissolves."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    assert skipped(ledger, 0, 10, skip_id="s") == 10
    item = ledger.range(f"{wave}r0")
    assert (item.state, item.reason, item.wave, item.rows) == (RangeState.SKIPPED, "poison", wave, 0)
    assert item.accounting == Accounting(skipped=10)
    assert ledger.wave(wave).state is WaveState.DISSOLVED
    (receipt,) = outbox_of(ledger)
    row = receipt.row
    assert (receipt.table, row.kind, row.attempt, row.range) == ("raw.orders", "skip", "s", OffsetRange(0, 10))
    assert (row.rows, row.fence, row.accounting) == (0, 0, Accounting(skipped=10))


def test_skip_splits_what_crosses_its_edges(ledger: Ledger) -> None:
    """The rest keeps state and wave; nothing is lost and nothing overlaps."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 40)])
    taken(ledger, first, state=RangeState.HELD)
    assert skipped(ledger, 5, 15) == 10
    assert pieces(ledger) == [(0, 5, "HELD"), (5, 10, "SKIPPED"), (10, 15, "SKIPPED"), (15, 40, "PLANNED")]
    assert [item.range for item in claimed(ledger, second).ranges] == [OffsetRange(15, 40)]
    assert sum(item.estimated_bytes for item in ledger.ranges(wave=second)) == 300
    (row,) = [item.row for item in outbox_of(ledger)]
    assert (row.range, row.accounting) == (OffsetRange(5, 15), Accounting(skipped=10))


def test_skip_within_one_range_leaves_both_sides(ledger: Ledger) -> None:
    """And can be done again on what is left."""
    (wave,) = planned(ledger, [(0, 0, 40)])
    assert skipped(ledger, 10, 20) == 10
    assert skipped(ledger, 30, 35) == 5
    assert skipped(ledger, 5, 37) == 17
    assert pieces(ledger) == [
        (0, 5, "PLANNED"),
        (5, 10, "SKIPPED"),
        (10, 20, "SKIPPED"),
        (20, 30, "SKIPPED"),
        (30, 35, "SKIPPED"),
        (35, 37, "SKIPPED"),
        (37, 40, "PLANNED"),
    ]
    assert len({item.id for item in ledger.ranges(pipeline=SPEC.name)}) == 7
    assert committed(ledger, wave).ranges[0].range == OffsetRange(0, 5)


def test_unplanned_offsets_are_skipped(ledger: Ledger) -> None:
    """No plan will have them any more; they are cut at the origin, where the watermark begins."""
    planned(ledger, [(0, 20, 30)], origin=10)
    assert skipped(ledger, 5, 40) == 35
    assert pieces(ledger) == [
        (5, 10, "SKIPPED"),
        (10, 20, "SKIPPED"),
        (20, 30, "SKIPPED"),
        (30, 40, "SKIPPED"),
    ]
    (stream,) = ledger.streams(SPEC.name)
    assert stream.planned == stream.covered == RangeSet.of((5, 40))
    with pytest.raises(StateError, match="overlaps"):
        ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 39, 41)]), actor="tester"))


def test_committed_offsets_are_not_skipped(ledger: Ledger) -> None:
    """What is in the lake stays; a receipt per slice says what was passed."""
    (wave,) = planned(ledger, [(0, 10, 20)])
    committed(ledger, wave)
    ledger.sent([item.id for item in outbox_of(ledger)])
    assert skipped(ledger, 5, 30) == 15
    assert pieces(ledger) == [(5, 10, "SKIPPED"), (10, 20, "COMMITTED"), (20, 30, "SKIPPED")]
    assert [item.row.range for item in outbox_of(ledger)] == [OffsetRange(5, 10), OffsetRange(20, 30)]


def test_skipping_again_passes_nothing(ledger: Ledger) -> None:
    """It is recorded as a decision (about order, perhaps), and needs an id of its own."""
    planned(ledger, [(0, 0, 10)])
    assert skipped(ledger, 0, 10, skip_id="s") == 10
    assert skipped(ledger, 0, 10) == 0
    with pytest.raises(StateError, match="skip id s"):
        skipped(ledger, 0, 10, skip_id="s")
    assert len(outbox_of(ledger)) == 1
    assert [event.kind for event in ledger.events(SPEC.name)][-2:] == ["skip", "skip"]
    assert [event.slices for event in ledger.events(SPEC.name)][-2:] == [(Slice(key_of(0), OffsetRange(0, 10)),)] * 2


def test_skip_is_a_decision_about_the_stream(ledger: Ledger) -> None:
    """A plan that was made before it is late."""
    planned(ledger, [(0, 0, 10)])
    plan = plan_of(ledger, [(0, 50, 60)])
    skipped(ledger, 0, 5)
    with pytest.raises(ConcurrentError):
        ledger.commit(RecordPlan(plan=plan, actor="tester"))


def test_claimed_wave_loses_ranges_only_under_its_guard(ledger: Ledger) -> None:
    """A skip must hold each claimed wave that loses ranges; a stale guard is none."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20), (1, 0, 10)])
    old = claimed(ledger, second).key
    key = claimed(ledger, second, over=1).key
    before = everything(ledger)
    for held in ((), (old,), (replace(key, fence=1),), (replace(key, wave=first),)):
        with pytest.raises(ConcurrentError, match=second):
            skipped(ledger, 5, 15, *held)
    assert everything(ledger) == before
    assert skipped(ledger, 5, 15, key) == 10
    record = ledger.wave(second)
    assert (record.state, record.holder, record.fence) == (WaveState.PLANNED, None, 2)
    assert [attempt.outcome for attempt in ledger.attempts(second)] == [AttemptOutcome.ABANDONED] * 2
    with pytest.raises(StaleFenceError):
        ledger.commit(RecordJob(key=key, job="job"))


def test_wave_that_was_ever_claimed_needs_the_guard(ledger: Ledger) -> None:
    """Also when no worker is at it now: a forgotten job may still want to publish."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    ledger.commit(EndAttempt(key=claimed(ledger, wave).key, outcome=AttemptOutcome.FAILED, error=None))
    with pytest.raises(ConcurrentError):
        skipped(ledger, 0, 10)
    assert skipped(ledger, 0, 10, claimed(ledger, wave).key) == 10
    assert ledger.wave(wave).state is WaveState.DISSOLVED


def test_what_is_on_hold_is_skipped_without_a_guard(ledger: Ledger) -> None:
    """It left its wave under the guard of its taking: a worker on the rest is not disturbed."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    taken(ledger, wave, f"{wave}r0", state=RangeState.HELD, key=claimed(ledger, wave).key)
    key = claimed(ledger, wave).key
    assert skipped(ledger, 0, 10) == 10
    ledger.commit(RecordJob(key=key, job="job"))
    assert ledger.wave(wave).state is WaveState.CLAIMED


def test_cancelled_wave_keeps_what_is_left(ledger: Ledger) -> None:
    """Its rest can be released; when nothing is left it dissolves."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    taken(ledger, wave, key=claimed(ledger, wave).key)
    skipped(ledger, 0, 10)
    assert ledger.wave(wave).state is WaveState.CANCELLED
    assert release(ledger, f"{wave}r1") == wave
    taken(ledger, wave, key=claimed(ledger, wave).key)
    assert ledger.wave(wave).state is WaveState.CANCELLED
    skipped(ledger, 0, 10, partition=1)
    assert ledger.wave(wave).state is WaveState.DISSOLVED


def test_skip_gives_back_every_wave_it_was_guarded_by(ledger: Ledger) -> None:
    """A wave that was claimed for a skip and lost nothing is free again, too."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 50, 60)])
    keys = [claimed(ledger, wave).key for wave in (first, second)]
    skipped(ledger, 0, 10, *keys)
    assert [wave.state for wave in ledger.waves(SPEC.name)] == [WaveState.DISSOLVED, WaveState.PLANNED]


def held(ledger: Ledger, *offsets: tuple[int, int]) -> str:
    """Hold a range of twenty offsets, due to some of them; returns the wave it was in."""
    (wave,) = planned(ledger, [(0, 0, 20)])
    taken(ledger, wave, state=RangeState.HELD, held_for=RangeSet.of(*offsets))
    return wave


def test_skip_of_what_a_range_is_held_for_lets_the_rest_go_on(ledger: Ledger) -> None:
    """In the same transaction, in a new wave that is run like any other; nothing has to be released."""
    home = held(ledger, (5, 8))
    assert [item.held_for for item in ledger.ranges(wave=home)] == [RangeSet.of((5, 8))]
    skipped(ledger, 5, 8, skip_id="s")
    assert pieces(ledger) == [(0, 5, "PLANNED"), (5, 8, "SKIPPED"), (8, 20, "PLANNED")]
    (new,) = {item.wave for item in ledger.ranges(pipeline=SPEC.name, states={RangeState.PLANNED})}
    assert (new, ledger.wave(new).state, ledger.wave(new).fence) == ("s-w0", WaveState.PLANNED, 0)
    assert ledger.wave(home).state is WaveState.DISSOLVED
    assert {(item.reason, item.held_for) for item in ledger.ranges(wave=new)} == {(None, RangeSet())}
    assert "the rest goes on in s-w0" in ledger.events(SPEC.name)[-1].detail
    committed(ledger, new)
    assert [move.end for move in ledger.advance(SPEC.name)] == [20]


def test_what_a_range_is_held_for_besides_keeps_its_piece_on_hold(ledger: Ledger) -> None:
    """Each piece is held for what is in it, until that is passed too."""
    held(ledger, (5, 8), (12, 13))
    skipped(ledger, 4, 8)
    assert pieces(ledger) == [(0, 4, "PLANNED"), (4, 8, "SKIPPED"), (8, 20, "HELD")]
    (left,) = ledger.ranges(pipeline=SPEC.name, states={RangeState.HELD})
    assert (left.held_for, left.reason) == (RangeSet.of((12, 13)), "because")
    skipped(ledger, 12, 13)
    assert [state for *_, state in pieces(ledger)] == ["PLANNED", "SKIPPED", "PLANNED", "SKIPPED", "PLANNED"]


@pytest.mark.parametrize("offsets", [(), ((5, 8), (9, 10))])
def test_skip_of_something_else_releases_nothing(ledger: Ledger, offsets: tuple[tuple[int, int], ...]) -> None:
    """A hold without offsets is released by a person; one with others stays, as far as they are in the piece."""
    held(ledger, *offsets)
    skipped(ledger, 6, 8)
    assert [state for *_, state in pieces(ledger)] == ["HELD", "SKIPPED", "HELD"]


def test_each_wave_that_pieces_come_from_goes_on_by_itself(ledger: Ledger) -> None:
    """One skip may pass what two ranges of two waves are held for."""
    for wave, offset in zip(planned(ledger, [(0, 0, 10)], [(0, 10, 20)]), (8, 10), strict=True):
        taken(ledger, wave, state=RangeState.HELD, held_for=RangeSet.of((offset, offset + 2)))
    skipped(ledger, 8, 12, skip_id="s")
    waves = [(item.range, item.wave) for item in ledger.ranges(pipeline=SPEC.name, states={RangeState.PLANNED})]
    assert waves == [(OffsetRange(0, 8), "s-w0"), (OffsetRange(12, 20), "s-w1")]


def test_cause_of_a_hold_is_kept_as_a_value(ledger: Ledger) -> None:
    """With every piece of what is cut, until the range goes on or is passed: then there is none."""
    (wave,) = planned(ledger, [(0, 0, 30)])
    lost = Slice(key_of(0), OffsetRange(5, 8))
    ways = (remedies.release("r"), remedies.skip(SPEC.name, lost, name_topic_id=True, acknowledge_order=True))
    cause = Cause(kind="LogTruncatedError", remedies=ways)
    taken(ledger, wave, state=RangeState.HELD, cause=cause)
    assert [item.cause for item in ledger.ranges(wave=wave)] == [cause]
    skipped(ledger, 10, 20)
    assert [(item.state, item.cause) for item in ledger.ranges(pipeline=SPEC.name)] == [
        (RangeState.HELD, cause),
        (RangeState.SKIPPED, None),
        (RangeState.HELD, cause),
    ]
    released = ledger.commit(Release(ranges=[f"{wave}r0"], wave="again", actor="tester", reason=None))
    assert [item.cause for item in ledger.ranges(wave=released)] == [None]


def test_release_forgets_what_a_range_was_held_for(ledger: Ledger) -> None:
    """What it is held for next time is another matter."""
    home = held(ledger, (5, 8))
    released = ledger.wave(release(ledger, f"{home}r0"))
    assert [item.held_for for item in ledger.ranges(wave=released.id)] == [RangeSet()]


def test_only_a_hold_is_due_to_offsets(ledger: Ledger) -> None:
    """A person's cancellation is taken back by a person."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    with pytest.raises(ValueError, match="held for"):
        taken(ledger, wave, held_for=RangeSet.of((5, 8)))


def test_other_streams_are_untouched(ledger: Ledger) -> None:
    """A skip speaks of one partition of one generation of one topic."""
    (wave,) = planned(ledger, [(0, 0, 10), (1, 0, 10)])
    skipped(ledger, 0, 10)
    assert pieces(ledger, 1) == [(0, 10, "PLANNED")]
    assert [record.version for record in ledger.streams(SPEC.name)] == [2, 1]
    assert key_of(0) == ledger.range(f"{wave}r0").stream


def test_deletes_are_accepted_as_an_event_and_receipts(ledger: Ledger) -> None:
    """Who said so and why is in the ledger, how many rows of which range goes to the lake; nothing else changes."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    committed(ledger, wave)
    ledger.sent([item.id for item in ledger.outbox(SPEC.name)])
    (item,) = ledger.ranges(pipeline=SPEC.name)
    gone = RangeSet.of((0, 2), (7, 8))
    row = DeletedRange(item=item, asked=item.range, rows=3, doubtful=0, offsets=gone).receipt("d1", datetime.now(UTC))
    version = ledger.streams(SPEC.name)[0].version
    write = AcceptDeletes(
        pipeline=SPEC.name,
        receipts=[("raw.orders", row)],
        ranges=[item],
        decision="d1",
        reason="90 days",
        actor="ada",
    )
    ledger.commit(write)
    (told,) = ledger.outbox(SPEC.name, kind="deleted")
    assert (told.table, replace(told.row, recorded_at=row.recorded_at)) == ("raw.orders", row)
    assert (row.rows, row.offsets, row.attempt, row.wave) == (3, gone, "d1", wave)
    assert (row.range, row.generation) == (OffsetRange(0, 10), 0)
    event = ledger.events(SPEC.name)[-1]
    assert (event.kind, event.subject, event.actor) == ("accept-deletes", "d1", "ada")
    assert event.detail == "orders/0: 3 rows in all: 90 days"
    assert ledger.ranges(pipeline=SPEC.name) == (item,)
    assert ledger.streams(SPEC.name)[0].version == version + 1, "a decision that knows nothing of it is refused"
    ledger.commit(replace(write, decision="d2"))
    with pytest.raises(ConcurrentError):
        ledger.commit(replace(write, decision="d3", ranges=[replace(item, generation=1)]))
