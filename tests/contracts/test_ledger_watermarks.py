"""How watermarks move, and what is told of it: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_lake.adapters.clocks import FakeClock
from airflow_kafka_lake.adapters.memory_ledger import MemoryLedger
from airflow_kafka_lake.core.records import Pace
from airflow_kafka_lake.core.waves import RangeState
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    SPEC,
    claimed,
    outbox_of,
    plan_of,
    planned,
    receipts_of,
    settled,
    skipped,
    taken,
)


def moves(ledger: Ledger) -> list[tuple[int, int, int, int]]:
    """Advance, and return `(partition, start, end, rows)` of each move."""
    return [(move.partition, move.start, move.end, move.rows) for move in ledger.advance(SPEC.name)]


def watermark(ledger: Ledger, partition: int = 0) -> int:
    """Return a stream's watermark."""
    (stream,) = ledger.streams(SPEC.name, partitions=[partition])
    return stream.watermark


def test_nothing_settled_moves_nothing(ledger: Ledger) -> None:
    """And records nothing."""
    planned(ledger, [(0, 0, 10)])
    before = ledger.events(SPEC.name)
    assert moves(ledger) == []
    assert moves(ledger) == []
    assert ledger.events(SPEC.name) == before
    assert ledger.advance("other") == ()


def test_watermark_follows_the_unbroken_run(ledger: Ledger) -> None:
    """All streams at once, in order, each with the rows of its stretch."""
    first, second = planned(ledger, [(1, 0, 5), (0, 0, 10)], [(0, 10, 20), (2, 3, 9)], origin=0)
    settled(ledger, first, control=2)
    settled(ledger, second)
    assert moves(ledger) == [(0, 0, 20, 18), (1, 0, 5, 3)]
    assert moves(ledger) == []


def test_watermark_stops_at_a_gap(ledger: Ledger) -> None:
    """Offsets that nobody planned stop it as surely as those nobody settled."""
    (wave,) = planned(ledger, [(0, 0, 10), (0, 11, 20)])
    settled(ledger, wave)
    assert moves(ledger) == [(0, 0, 10, 10)]


@pytest.mark.parametrize("state", [RangeState.PLANNED, RangeState.CANCELLED, RangeState.HELD])
def test_watermark_never_passes_a_hold(ledger: Ledger, state: RangeState) -> None:
    """It jumps over what was settled above once the hold closes."""
    first, second, third = planned(ledger, [(0, 0, 10)], [(0, 10, 20)], [(0, 20, 30)])
    settled(ledger, third)
    settled(ledger, first)
    if state is not RangeState.PLANNED:
        taken(ledger, second, state=state)
    assert moves(ledger) == [(0, 0, 10, 10)]
    wave = second
    if state is not RangeState.PLANNED:
        wave = ledger.release([f"{second}r0"], wave="again", actor="tester", reason=None)
    settled(ledger, wave)
    assert moves(ledger) == [(0, 10, 30, 20)]


def test_watermark_begins_at_the_origin(ledger: Ledger) -> None:
    """What lies below the origin is coverage, and moves nothing."""
    first, second = planned(ledger, [(0, 0, 50)], [(0, 50, 60)], origin=50)
    settled(ledger, first)
    assert moves(ledger) == []
    settled(ledger, second)
    assert moves(ledger) == [(0, 50, 60, 10)]


def test_islands_wait_for_their_gap(ledger: Ledger) -> None:
    """Several islands are passed in one move when all gaps are closed."""
    islands = planned(ledger, [(0, 20, 30), (0, 40, 50)])
    settled(ledger, islands[0])
    assert moves(ledger) == []
    gaps = planned(ledger, [(0, 0, 20)], [(0, 30, 40)])
    settled(ledger, gaps[0])
    assert moves(ledger) == [(0, 0, 30, 30)]
    settled(ledger, gaps[1])
    assert moves(ledger) == [(0, 30, 50, 20)]


def test_skips_count(ledger: Ledger) -> None:
    """A skip closes the gap without rows; also one that reaches below the origin."""
    (wave,) = planned(ledger, [(0, 20, 30), (0, 40, 50)], origin=10)
    settled(ledger, wave)
    skipped(ledger, 0, 20)
    assert moves(ledger) == [(0, 10, 30, 10)]
    skipped(ledger, 35, 60)
    assert moves(ledger) == []
    skipped(ledger, 30, 35)
    assert moves(ledger) == [(0, 30, 60, 10)]


def test_advance_is_a_decision_about_the_stream(ledger: Ledger) -> None:
    """A plan made before it is late; streams that did not move keep their version."""
    (wave,) = planned(ledger, [(0, 0, 10)], [(1, 0, 10)])[:1]
    settled(ledger, wave)
    ledger.advance(SPEC.name)
    assert [record.version for record in ledger.streams(SPEC.name)] == [2, 1]


def test_only_the_named_pipeline_advances(ledger: Ledger) -> None:
    """Two pipelines over one topic have two watermarks, and one sequence orders all moves."""
    other = replace(SPEC, name="copies")
    (mine,) = planned(ledger, [(0, 0, 10)])
    (theirs,) = planned(ledger, [(0, 0, 5)], spec=other)
    settled(ledger, mine)
    settled(ledger, theirs)
    (first,) = ledger.advance("copies")
    assert watermark(ledger) == 0
    (second,) = ledger.advance(SPEC.name)
    assert first.sequence < second.sequence
    assert ledger.untold("copies") == (first,)


def test_moves_are_told_in_order(ledger: Ledger) -> None:
    """What was told stays told; the position never moves back."""
    for start in (0, 10, 20):
        (wave,) = planned(ledger, [(0, start, start + 10)])
        settled(ledger, wave)
        ledger.advance(SPEC.name)
    untold = ledger.untold(SPEC.name)
    assert [(move.start, move.end) for move in untold] == [(0, 10), (10, 20), (20, 30)]
    ledger.told(SPEC.name, untold[1].sequence)
    assert ledger.untold(SPEC.name) == untold[2:]
    ledger.told(SPEC.name, untold[0].sequence)
    assert ledger.untold(SPEC.name) == untold[2:]
    ledger.told(SPEC.name, untold[2].sequence)
    assert ledger.untold(SPEC.name) == ()


def test_outbox_empties_as_it_is_sent(ledger: Ledger) -> None:
    """Only what was named leaves; its number is never given again, and another pipeline's stays."""
    waves = planned(ledger, [(0, 0, 10)], [(0, 10, 20)], [(0, 20, 30)])
    settled(ledger, waves[0])
    settled(ledger, waves[1])
    first, second = outbox_of(ledger)
    ledger.sent([second.id, second.id, 10**6])
    assert outbox_of(ledger) == (first,)
    settled(ledger, waves[2])
    _, third = outbox_of(ledger)
    assert third.id > second.id
    assert ledger.outbox("other") == ()
    told = {(item.row.kind, item.row.attempt) for item in ledger.outbox(SPEC.name, kind="origin")}
    assert told == {("origin", ledger.ledger_id())}
    assert ledger.outbox(SPEC.name, kind="published") == outbox_of(ledger)
    ledger.sent([])
    assert len(outbox_of(ledger)) == 2


def test_pace_is_unknown_at_first(ledger: Ledger) -> None:
    """No settled wave, no number."""
    planned(ledger, [(0, 0, 10)])
    assert ledger.pace(SPEC.name) == Pace(bytes_per_offset=None, seconds_per_offset=None)


def test_pace_is_bytes_and_seconds_per_offset(ledger: Ledger) -> None:
    """By offsets, not by rows; a wave that was adopted without its bytes tells its time only."""
    waves = planned(ledger, [(0, 0, 10)], [(0, 10, 40)], [(0, 40, 50)])
    settled(ledger, waves[0], control=5)
    settled(ledger, waves[1])
    key = claimed(ledger, waves[2]).key
    ledger.settle(key, attempt=key.attempt, snapshot=1, receipts=receipts_of(ledger.ranges(wave=waves[2])))
    pace = ledger.pace(SPEC.name)
    assert pace.bytes_per_offset == 2000 / 40
    assert pace.seconds_per_offset is not None
    assert ledger.pace("other") == Pace(bytes_per_offset=None, seconds_per_offset=None)


def test_pace_is_that_of_the_last_waves(clock: FakeClock) -> None:
    """The eleventh wave back no longer counts."""
    ledger = MemoryLedger(clock)
    waves = planned(ledger, *[[(0, n * 10, n * 10 + 10)] for n in range(11)])
    for number, wave in enumerate(waves):
        key = claimed(ledger, wave).key
        ledger.mark_staged(key, audited=1, staged_bytes=10**9 if number == 0 else 100)
        clock.advance(timedelta(seconds=20))
        ledger.settle(key, attempt=key.attempt, snapshot=1, receipts=receipts_of(ledger.ranges(wave=wave)))
    assert ledger.pace(SPEC.name) == Pace(bytes_per_offset=10.0, seconds_per_offset=2.0)


def test_restored_ledger_has_forgotten(clock: FakeClock) -> None:
    """A snapshot of the memory ledger is independent of what happens after it."""
    ledger = MemoryLedger(clock)
    (wave,) = planned(ledger, [(0, 0, 10)])
    older = ledger.snapshot()
    settled(ledger, wave)
    ledger.advance(SPEC.name)
    ledger.restore(older)
    assert (watermark(ledger), ledger.attempts(wave), outbox_of(ledger)) == (0, (), ())
    assert plan_of(ledger, [(0, 10, 20)]).streams[0].version == 1
    settled(ledger, wave)
    assert moves(ledger) == [(0, 0, 10, 10)]
