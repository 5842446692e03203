"""Reopen: what was committed or skipped is planned again. One suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import ConcurrentError, StateError
from airflow_kafka_lake.core.ledger.plans import RecordPlan
from airflow_kafka_lake.core.ledger.reopening import (
    Reopen,
    ReopenDecision,
    Share,
    reopening,
    to_be_shared,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice
from airflow_kafka_lake.core.planning.plan import Weights
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    SPEC,
    attempt_id,
    claimed,
    committed,
    key_of,
    outbox_of,
    plan_of,
    planned,
    skipped,
    snapshot_of,
    taken,
)
from tests.contracts.test_ledger_attempts import everything


def decided(
    ledger: Ledger,
    start: int,
    end: int,
    *,
    name: str = "again",
    accept_fewer: bool = False,
    spec: PipelineSpec = SPEC,
    segments: Sequence[int] = (),
    partition: int = 0,
) -> ReopenDecision:
    """Decide to read a slice again, all of whose committed offsets have a row."""
    slice_, key = OffsetRange(start, end), key_of(partition)
    (stream,) = (item for item in ledger.streams(SPEC.name) if item.key == key)
    found = [i for i in ledger.ranges(pipeline=SPEC.name) if i.stream == key and i.range.overlaps(slice_)]
    shares = {
        (item.id, part): Share(accounting=Accounting(visible=part.span), visible=RangeSet((part,)))
        for item in to_be_shared(found, slice_)
        for part in item.range.split_at((start, end))
    }
    return reopening(
        name,
        spec,
        stream,
        slice_,
        found,
        shares,
        table=spec.table_for(stream.key.topic),
        there=RangeSet((slice_,)) - RangeSet.of((5, 6)),
        seen=replace(snapshot_of(key), leader_epoch=7),
        weights=Weights(by_stream={}),
        segments=segments,
        attempt=attempt_id(),
        reason="wrong",
        accept_fewer=accept_fewer,
    )


def pieces(ledger: Ledger) -> list[tuple[str, str, int, int | None]]:
    """Return the ranges of partition 0: offsets, state, generation, rows."""
    return [
        (str(item.range), item.state.value, item.generation, item.rows)
        for item in ledger.ranges(pipeline=SPEC.name)
        if item.stream.partition == 0
    ]


@pytest.fixture
def wave(ledger: Ledger) -> str:
    """A committed wave of offsets 0-10 and 10-20 of partition 0; the watermark is at their end, and the lake knows."""
    (name,) = planned(ledger, [(0, 0, 10), (0, 10, 20)])
    committed(ledger, name)
    ledger.advance(SPEC.name)
    ledger.sent([item.id for item in ledger.outbox(SPEC.name)])
    return name


def test_middle_of_what_is_committed_is_planned_again(ledger: Ledger, wave: str) -> None:
    """The pieces beside it stay committed with their share; the watermark falls to its start."""
    what = decided(ledger, 4, 13)
    assert ledger.commit(Reopen(what=what, actor="tester")) == 4
    assert pieces(ledger) == [
        ("0-4", "COMMITTED", 0, 4),
        ("4-10", "PLANNED", 1, None),
        ("10-13", "PLANNED", 1, None),
        ("13-20", "COMMITTED", 0, 7),
    ]
    first, *_, last = ledger.ranges(pipeline=SPEC.name)
    assert (first.id, first.first_offset, first.last_offset, first.wave) == (f"{wave}r0", 0, 3, wave)
    assert (last.id, last.first_offset, last.last_offset, last.wave) == (f"{wave}r1.13", 13, 19, wave)
    again = ledger.range(f"{wave}r1")
    assert (again.wave, again.plan, again.accounting, again.first_offset) == ("again-w0", "again", None, None)
    assert (first.leader_epoch, again.leader_epoch, last.leader_epoch) == (3, 7, 3)
    (stream,) = ledger.streams(SPEC.name)
    assert (stream.watermark, stream.covered) == (4, RangeSet.of((0, 4), (13, 20)))
    assert ledger.advance(SPEC.name) == ()


def test_lake_is_told_what_is_reopened_and_what_stays(ledger: Ledger, wave: str) -> None:
    """The pieces that stay have receipts of the attempt that brought them: the old ones speak of the whole."""
    (attempt,) = ledger.attempts(wave)
    what = decided(ledger, 4, 13)
    ledger.commit(Reopen(what=what, actor="tester"))
    told = [(i.row.kind, str(i.row.range), i.row.generation, i.row.rows, i.row.attempt) for i in outbox_of(ledger)]
    assert told == [
        ("published", "0-4", 0, 4, attempt.attempt),
        ("reopen", "4-10", 1, 0, what.token.attempt),
        ("reopen", "10-13", 1, 0, what.token.attempt),
        ("published", "13-20", 0, 7, attempt.attempt),
    ]
    bare = [None if item.row.offsets is None else str(item.row.offsets) for item in outbox_of(ledger)]
    assert bare == [None, "5-6", str(RangeSet()), None]
    assert {(item.table, item.row.wave) for item in outbox_of(ledger)} == {
        ("raw.orders", wave),
        ("raw.orders", "again-w0"),
    }


def test_what_is_read_again_is_committed_again(ledger: Ledger, wave: str) -> None:
    """By the next fence of the new wave; its receipts have the new generation, and the watermark comes back."""
    ledger.commit(Reopen(what=decided(ledger, 4, 13), actor="tester"))
    ledger.sent([item.id for item in ledger.outbox(SPEC.name)])
    claim = committed(ledger, "again-w0")
    assert (claim.key.fence, [item.generation for item in claim.ranges]) == (2, [1, 1])
    assert {(i.row.kind, str(i.row.range), i.row.generation) for i in outbox_of(ledger)} == {
        ("published", "4-10", 1),
        ("published", "10-13", 1),
    }
    (move,) = ledger.advance(SPEC.name)
    assert (move.start, move.end, move.rows) == (4, 20, 16)
    assert [item.wave for item in ledger.published(SPEC.name)] == ["again-w0", wave]


def test_wave_whose_ranges_were_all_reopened_brings_no_rows_any_more(ledger: Ledger, wave: str) -> None:
    """It stays COMMITTED: its commit was made; what it had is the new wave's."""
    ledger.commit(Reopen(what=decided(ledger, 0, 20), actor="tester"))
    assert (ledger.wave(wave).state, ledger.wave(wave).ranges) == (WaveState.COMMITTED, 0)
    assert ledger.published(SPEC.name) == ()
    assert ledger.throughput(SPEC.name) == ()


def test_token_of_the_reopen_is_known(ledger: Ledger, wave: str) -> None:
    """What moves main afterwards is a commit that this ledger recorded; no worker holds the new wave."""
    what = decided(ledger, 0, 20)
    assert not ledger.knows(what.token)
    ledger.commit(Reopen(what=what, actor="tester"))
    assert ledger.knows(what.token)
    (attempt,) = ledger.attempts("again-w0")
    assert (attempt.outcome, attempt.base) == (AttemptOutcome.ABANDONED, None)
    record = ledger.wave("again-w0")
    assert (record.state, record.fence, record.holder, record.lease_live) == (WaveState.PLANNED, 1, None, False)


def test_skipped_offsets_are_reopened(ledger: Ledger) -> None:
    """Those that were planned once, and those that were never planned; the rest of the skip stays."""
    (name,) = planned(ledger, [(0, 0, 10)])
    skipped(ledger, 2, 20)
    ledger.sent([item.id for item in ledger.outbox(SPEC.name)])
    ledger.commit(Reopen(what=decided(ledger, 5, 15), actor="tester"))
    assert pieces(ledger) == [
        ("0-2", "PLANNED", 0, None),
        ("2-5", "SKIPPED", 0, 0),
        ("5-10", "PLANNED", 1, None),
        ("10-15", "PLANNED", 1, None),
        ("15-20", "SKIPPED", 0, 0),
    ]
    assert [(i.row.kind, str(i.row.range)) for i in outbox_of(ledger)] == [("reopen", "5-10"), ("reopen", "10-15")]
    assert [item.range for item in claimed(ledger, name).ranges] == [OffsetRange(0, 2)]
    committed(ledger, "again-w0")
    assert skipped(ledger, 0, 20, claimed(ledger, name, over=1).key) == 2


def test_watermark_never_falls_below_the_origin(ledger: Ledger) -> None:
    """An island below it may be reopened as well: the watermark does not move for it."""
    (name,) = planned(ledger, [(0, 0, 10), (0, 10, 20)], origin=10)
    committed(ledger, name)
    ledger.advance(SPEC.name)
    assert ledger.commit(Reopen(what=decided(ledger, 2, 5), actor="tester")) == 10
    assert [str(item.range) for item in ledger.ranges(wave="again-w0")] == ["2-5"]


def test_watermark_below_the_slice_stays(ledger: Ledger, wave: str) -> None:
    """It falls only from above."""
    (hold,) = planned(ledger, [(0, 30, 40)])
    committed(ledger, hold)
    assert ledger.commit(Reopen(what=decided(ledger, 33, 35), actor="tester")) == 20


def test_reopened_again_has_the_next_generation(ledger: Ledger, wave: str) -> None:
    """Each piece counts its own."""
    ledger.commit(Reopen(what=decided(ledger, 4, 8), actor="tester"))
    committed(ledger, "again-w0")
    ledger.commit(Reopen(what=decided(ledger, 6, 12, name="once-more"), actor="tester"))
    assert pieces(ledger) == [
        ("0-4", "COMMITTED", 0, 4),
        ("4-6", "COMMITTED", 1, 2),
        ("6-8", "PLANNED", 2, None),
        ("8-10", "PLANNED", 1, None),
        ("10-12", "PLANNED", 1, None),
        ("12-20", "COMMITTED", 0, 8),
    ]


def test_large_slice_is_read_in_several_waves(ledger: Ledger) -> None:
    """As a plan of it would be."""
    (name,) = planned(ledger, [(0, start, start + 10) for start in range(0, 50, 10)])
    committed(ledger, name)
    ledger.commit(
        Reopen(what=decided(ledger, 0, 50, name="small", spec=replace(SPEC, max_wave_bytes=250)), actor="tester")
    )
    waves = [(wave.id, wave.ranges, wave.fence) for wave in ledger.waves(SPEC.name, [WaveState.PLANNED])]
    assert waves == [("small-w0", 2, 1), ("small-w1", 2, 0), ("small-w2", 1, 0)]


def test_segments_are_read_again_in_waves_of_their_own(ledger: Ledger) -> None:
    """One may have to wait for the other; no range lies in two."""
    (name,) = planned(ledger, [(0, start, start + 10) for start in range(0, 50, 10)])
    committed(ledger, name)
    ledger.commit(Reopen(what=decided(ledger, 5, 45, segments=(0, 20, 30)), actor="tester"))
    waves = {wave.id: [str(item.range) for item in ledger.ranges(wave=wave.id)] for wave in ledger.waves(SPEC.name)}
    assert waves == {
        name: ["0-5", "45-50"],
        "again-w0": ["5-10", "10-20"],
        "again-w1": ["20-30"],
        "again-w2": ["30-40", "40-45"],
    }


def test_smaller_result_is_accepted_on_the_same_slice(ledger: Ledger, wave: str) -> None:
    """What was held after it was reopened goes on, in the same generation, with the acknowledgement."""
    ledger.commit(Reopen(what=decided(ledger, 4, 8), actor="tester"))
    claim = claimed(ledger, "again-w0")
    taken(ledger, "again-w0", state=RangeState.HELD, key=claim.key)
    ledger.sent([item.id for item in ledger.outbox(SPEC.name)])
    ledger.commit(Reopen(what=decided(ledger, 4, 8, name="fewer", accept_fewer=True), actor="tester"))
    (item,) = claimed(ledger, "fewer-w0").ranges
    assert (str(item.range), item.generation, item.fewer_accepted, item.reason) == ("4-8", 1, True, None)
    (told,) = (item.row for item in outbox_of(ledger))
    assert (told.kind, told.generation, str(told.offsets)) == ("reopen", 1, "5-6")


@pytest.mark.parametrize("happening", ["advance", "skip", "plan", "reopen", "held"])
def test_reopen_decided_from_other_records_is_refused(ledger: Ledger, wave: str, happening: str) -> None:
    """Whatever was decided about the stream meanwhile, nothing is reopened, and the call can be repeated."""
    (more,) = planned(ledger, [(0, 20, 30)])
    committed(ledger, more)
    what = decided(ledger, 4, 8)
    happenings: dict[str, Callable[[], object]] = {
        "advance": lambda: ledger.advance(SPEC.name),
        "skip": lambda: skipped(ledger, 30, 31),
        "plan": lambda: ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 40, 41)]), actor="tester")),
        "reopen": lambda: ledger.commit(Reopen(what=decided(ledger, 6, 7, name="first"), actor="tester")),
        "held": lambda: None,
    }
    happenings[happening]()
    if happening == "held":
        what = replace(what, cuts=tuple(replace(c, source=replace(c.source, state=RangeState.HELD)) for c in what.cuts))
    before = everything(ledger)
    with pytest.raises(ConcurrentError, match="repeat the call"):
        ledger.commit(Reopen(what=what, actor="tester"))
    assert everything(ledger) == before


def test_id_of_a_reopen_is_new(ledger: Ledger, wave: str) -> None:
    """It names a plan and waves."""
    ledger.commit(Reopen(what=decided(ledger, 4, 8), actor="tester"))
    before = everything(ledger)
    with pytest.raises(StateError, match="again"):
        ledger.commit(Reopen(what=decided(ledger, 10, 12), actor="tester"))
    assert everything(ledger) == before


def test_reopen_is_told_as_an_event(ledger: Ledger, wave: str) -> None:
    """What was told stays explainable: the event names slice, generation, both watermarks and the reason."""
    ledger.commit(Reopen(what=decided(ledger, 4, 8), actor="tester"))
    event = ledger.events(SPEC.name, limit=10_000)[-1]
    assert (event.kind, event.actor, event.subject) == ("reopen", "tester", "again")
    assert event.detail == "orders/0 4-8, 4 offsets, generation 1; watermark 20 → 4: wrong"
    assert event.slices == (Slice(key_of(0), OffsetRange(4, 8)),)


def test_reopened_ranges_share_no_offset_with_a_plan(ledger: Ledger, wave: str) -> None:
    """Ranges of a stream never overlap, whatever their generations."""
    ledger.commit(Reopen(what=decided(ledger, 4, 8), actor="tester"))
    before = everything(ledger)
    with pytest.raises(StateError, match="overlaps"):
        ledger.commit(RecordPlan(plan=plan_of(ledger, [(0, 5, 6)]), actor="tester"))
    assert everything(ledger) == before
