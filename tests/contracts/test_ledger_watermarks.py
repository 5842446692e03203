"""How watermarks move, and what is told of it: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_lake.core.ledger.attempts import RecordCommit
from airflow_kafka_lake.core.ledger.changes import NotifiedRow
from airflow_kafka_lake.core.ledger.decisions import Release
from airflow_kafka_lake.core.ledger.moves import BeginDelivery
from airflow_kafka_lake.core.ledger.plans import RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.planning.costs import TopicCost
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    SPEC,
    claimed,
    committed,
    outbox_of,
    plan_of,
    planned,
    receipts_of,
    skipped,
    taken,
)
from tests.kit.clock import FakeClock
from tests.kit.memory_ledger import MemoryLedger


def moves(ledger: Ledger) -> list[tuple[int, int, int, int]]:
    """Advance, and return `(partition, start, end, rows)` of each move."""
    return [(move.stream.partition, move.start, move.end, move.rows) for move in ledger.advance(SPEC.name)]


def watermark(ledger: Ledger, partition: int = 0) -> int:
    """Return a stream's watermark."""
    (stream,) = ledger.streams(SPEC.name, partitions=[partition])
    return stream.watermark


def test_nothing_committed_moves_nothing(ledger: Ledger) -> None:
    """And records nothing."""
    planned(ledger, [(0, 0, 10)])
    before = ledger.events(SPEC.name)
    assert moves(ledger) == []
    assert moves(ledger) == []
    assert ledger.events(SPEC.name) == before
    assert ledger.advance("other") == ()


def test_watermark_follows_the_unbroken_run(ledger: Ledger) -> None:
    """All streams at once, in order, each with the rows of its slice."""
    first, second = planned(ledger, [(1, 0, 5), (0, 0, 10)], [(0, 10, 20), (2, 3, 9)], origin=0)
    committed(ledger, first, control=2)
    committed(ledger, second)
    assert moves(ledger) == [(0, 0, 20, 18), (1, 0, 5, 3)]
    assert moves(ledger) == []


def test_watermark_stops_at_a_gap(ledger: Ledger) -> None:
    """Offsets that were never planned stop it as surely as those that are not committed."""
    (wave,) = planned(ledger, [(0, 0, 10), (0, 11, 20)])
    committed(ledger, wave)
    assert moves(ledger) == [(0, 0, 10, 10)]


@pytest.mark.parametrize("state", [RangeState.PLANNED, RangeState.CANCELLED, RangeState.HELD])
def test_watermark_never_passes_a_hold(ledger: Ledger, state: RangeState) -> None:
    """It jumps over what was committed above once the hold closes."""
    first, second, third = planned(ledger, [(0, 0, 10)], [(0, 10, 20)], [(0, 20, 30)])
    committed(ledger, third)
    committed(ledger, first)
    if state is not RangeState.PLANNED:
        taken(ledger, second, state=state)
    assert moves(ledger) == [(0, 0, 10, 10)]
    wave = second
    if state is not RangeState.PLANNED:
        wave = ledger.commit(Release(ranges=[f"{second}r0"], wave="again", actor="tester", reason=None))
    committed(ledger, wave)
    assert moves(ledger) == [(0, 10, 30, 20)]


def test_watermark_begins_at_the_origin(ledger: Ledger) -> None:
    """What lies below the origin is coverage, and moves nothing."""
    first, second = planned(ledger, [(0, 0, 50)], [(0, 50, 60)], origin=50)
    committed(ledger, first)
    assert moves(ledger) == []
    committed(ledger, second)
    assert moves(ledger) == [(0, 50, 60, 10)]


def test_islands_wait_for_their_gap(ledger: Ledger) -> None:
    """Several islands are passed in one move when all gaps are closed."""
    islands = planned(ledger, [(0, 20, 30), (0, 40, 50)])
    committed(ledger, islands[0])
    assert moves(ledger) == []
    gaps = planned(ledger, [(0, 0, 20)], [(0, 30, 40)])
    committed(ledger, gaps[0])
    assert moves(ledger) == [(0, 0, 30, 30)]
    committed(ledger, gaps[1])
    assert moves(ledger) == [(0, 30, 50, 20)]


def test_skips_count(ledger: Ledger) -> None:
    """A skip closes the gap without rows; also one that reaches below the origin."""
    (wave,) = planned(ledger, [(0, 20, 30), (0, 40, 50)], origin=10)
    committed(ledger, wave)
    skipped(ledger, 0, 20)
    assert moves(ledger) == [(0, 10, 30, 10)]
    skipped(ledger, 35, 60)
    assert moves(ledger) == []
    skipped(ledger, 30, 35)
    assert moves(ledger) == [(0, 30, 60, 10)]


def test_advance_is_a_decision_about_the_stream(ledger: Ledger) -> None:
    """A plan made before it is late; streams that did not move keep their version."""
    (wave,) = planned(ledger, [(0, 0, 10)], [(1, 0, 10)])[:1]
    committed(ledger, wave)
    ledger.advance(SPEC.name)
    assert [record.version for record in ledger.streams(SPEC.name)] == [2, 1]


def test_only_the_named_pipeline_advances(ledger: Ledger) -> None:
    """Two pipelines over one topic have two watermarks, and one sequence orders all moves."""
    other = replace(SPEC, name="copies")
    (mine,) = planned(ledger, [(0, 0, 10)])
    (theirs,) = planned(ledger, [(0, 0, 5)], spec=other)
    committed(ledger, mine)
    committed(ledger, theirs)
    (first,) = ledger.advance("copies")
    assert watermark(ledger) == 0
    (second,) = ledger.advance(SPEC.name)
    assert first.sequence < second.sequence
    assert ledger.unnotified("copies") == (first,)


def test_moves_are_told_in_order(ledger: Ledger) -> None:
    """What was told stays told; the position never moves back."""
    for start in (0, 10, 20):
        (wave,) = planned(ledger, [(0, start, start + 10)])
        committed(ledger, wave)
        ledger.advance(SPEC.name)
    unnotified = ledger.unnotified(SPEC.name)
    assert [(move.start, move.end) for move in unnotified] == [(0, 10), (10, 20), (20, 30)]
    ledger.mark_notified(SPEC.name, unnotified[1].sequence)
    assert ledger.unnotified(SPEC.name) == unnotified[2:]
    ledger.mark_notified(SPEC.name, unnotified[0].sequence)
    assert ledger.unnotified(SPEC.name) == unnotified[2:]
    ledger.mark_notified(SPEC.name, unnotified[2].sequence)
    assert ledger.unnotified(SPEC.name) == ()


def test_deliveries_of_another_subject_are_counted_apart(ledger: Ledger) -> None:
    """Of the same moves: what one has notified of, the other has not."""
    first, second = moved(ledger, 2)
    ledger.mark_notified(SPEC.name, second)
    subject = f"{SPEC.name}/hour/late"
    assert [move.sequence for move in ledger.unnotified(SPEC.name, subject)] == [first, second]
    ledger.mark_notified(subject, first)
    assert [move.sequence for move in ledger.unnotified(SPEC.name, subject)] == [second]
    assert ledger.unnotified(SPEC.name) == ()
    assert ledger.commit(BeginDelivery(pipeline=subject, holder="a", through=second)).holder == "a"
    assert ledger.commit(BeginDelivery(pipeline=SPEC.name, holder="b", through=second)).holder is None


def moved(ledger: Ledger, times: int = 1) -> list[int]:
    """Move a watermark so often, and return the numbers of all moves that were not notified."""
    for _ in range(times):
        (stream,) = ledger.streams(SPEC.name) or (None,)
        start = stream.watermark if stream else 0
        (wave,) = planned(ledger, [(0, start, start + 10)])
        committed(ledger, wave)
        ledger.advance(SPEC.name)
    return [move.sequence for move in ledger.unnotified(SPEC.name)]


def begun(ledger: Ledger, holder: str, through: int, **given: Any) -> NotifiedRow:
    """Take on a delivery, or try to."""
    return ledger.commit(BeginDelivery(pipeline=SPEC.name, holder=holder, through=through, **given))


ENDED = timedelta(seconds=-1)
"""The lease of a holder whose lease has ended."""


def test_one_delivers_at_a_time(ledger: Ledger) -> None:
    """Who comes second sees who delivers, and what; what was notified is not begun again."""
    first, second = moved(ledger, 2)
    mine = begun(ledger, "a", first)
    assert (mine.sequence, mine.through, mine.holder) == (0, first, "a")
    assert begun(ledger, "b", second) == mine
    assert replace(begun(ledger, "a", first), until=None) == replace(mine, until=None), "whose answer was lost"
    ledger.mark_notified(SPEC.name, first)
    theirs = begun(ledger, "b", second)
    assert (theirs.sequence, theirs.through, theirs.holder) == (first, second, "b")
    ledger.mark_notified(SPEC.name, second)
    over = begun(ledger, "c", second)
    assert (over.sequence, over.through, over.holder, over.until) == (second, None, None, None)


def test_delivery_is_taken_over_only_from_who_has_ended(ledger: Ledger) -> None:
    """By name: from a holder that is known to have ended, and from any holder once the lease has."""
    first, second = moved(ledger, 2)
    begun(ledger, "a", first)
    assert begun(ledger, "b", second, over="a").holder == "a", "the lease is live"
    assert begun(ledger, "b", second, over="z", ended=True).holder == "a", "that was another one"
    assert begun(ledger, "b", second, over="a", ended=True, lease=ENDED).holder == "b"
    assert begun(ledger, "c", second).holder == "b", "it looks first whether the event was accepted"
    assert begun(ledger, "c", second, over="b").holder == "c"


def test_late_acknowledgement_does_not_end_a_longer_delivery(ledger: Ledger) -> None:
    """What was accepted is notified, also when another task delivers now; his delivery goes on."""
    first, second, third = moved(ledger, 3)
    begun(ledger, "a", first)
    begun(ledger, "b", third, over="a", ended=True)
    ledger.mark_notified(SPEC.name, first)
    assert moved(ledger, 0) == [second, third]
    assert begun(ledger, "c", third).holder == "b"
    ledger.mark_notified(SPEC.name, third)
    assert begun(ledger, "c", third).holder is None


def test_each_pipeline_has_its_own_delivery(ledger: Ledger) -> None:
    """No pipeline waits for another."""
    (sequence,) = moved(ledger)
    begun(ledger, "a", sequence)
    other = ledger.commit(BeginDelivery(pipeline="copies", holder="b", through=sequence))
    assert (other.pipeline, other.holder) == ("copies", "b")


def test_outbox_empties_as_it_is_sent(ledger: Ledger) -> None:
    """Only what was named leaves; its number is never given again, and another pipeline's stays."""
    waves = planned(ledger, [(0, 0, 10)], [(0, 10, 20)], [(0, 20, 30)])
    committed(ledger, waves[0])
    committed(ledger, waves[1])
    first, second = outbox_of(ledger)
    ledger.sent([second.id, second.id, 10**6])
    assert outbox_of(ledger) == (first,)
    committed(ledger, waves[2])
    _, third = outbox_of(ledger)
    assert third.id > second.id
    assert ledger.outbox("other") == ()
    told = {(item.row.kind, item.row.attempt) for item in ledger.outbox(SPEC.name, kind="origin")}
    assert told == {("origin", ledger.ledger_id())}
    assert ledger.outbox(SPEC.name, kind="published") == outbox_of(ledger)
    ledger.sent([])
    assert len(outbox_of(ledger)) == 2


def test_nothing_committed_tells_no_cost(ledger: Ledger) -> None:
    """No committed wave, no number."""
    planned(ledger, [(0, 0, 10)])
    assert ledger.throughput(SPEC.name) == ()


def test_cost_is_what_was_planned_written_and_waited_for(ledger: Ledger) -> None:
    """Kafka's bytes as they were planned, by offsets and not by rows; a wave that was adopted has no lake's bytes."""
    waves = planned(ledger, [(0, 0, 10), (1, 0, 5)], [(0, 10, 40)], [(0, 40, 50)])
    committed(ledger, waves[0], control=5)
    committed(ledger, waves[1])
    key = claimed(ledger, waves[2]).key
    ledger.commit(
        RecordCommit(key=key, attempt=key.attempt, snapshot=1, receipts=receipts_of(ledger.ranges(wave=waves[2])))
    )
    costs = ledger.throughput(SPEC.name)
    assert sorted((cost.lake_bytes or 0, cost.topics) for cost in costs) == [
        (0, (TopicCost(topic="orders", offsets=10, kafka_bytes=100),)),
        (1000, (TopicCost(topic="orders", offsets=15, kafka_bytes=150),)),
        (1000, (TopicCost(topic="orders", offsets=30, kafka_bytes=300),)),
    ]
    assert all(cost.seconds >= 0 for cost in costs)
    assert ledger.throughput("other") == ()


def test_each_topic_of_a_wave_has_its_own_cost(ledger: Ledger) -> None:
    """A wave of several topics names each, sorted."""
    spec = replace(SPEC, topics=("orders", "clicks"))
    plans = [plan_of(ledger, [(0, 0, n)], spec=spec, topic=t, plan="p") for t, n in (("orders", 10), ("clicks", 4))]
    ranges = [replace(item, id=f"p-w0r{n}") for n, plan in enumerate(plans) for item in plan.ranges]
    wave = replace(plans[0].waves[0], ranges=tuple(ranges))
    ledger.commit(SavePipeline(spec=spec))
    both = replace(plans[0], streams=tuple(item for plan in plans for item in plan.streams), waves=(wave,))
    ledger.commit(RecordPlan(plan=both, actor="tester"))
    committed(ledger, wave.id)
    (cost,) = ledger.throughput(SPEC.name)
    assert cost.topics == (
        TopicCost(topic="clicks", offsets=4, kafka_bytes=40),
        TopicCost(topic="orders", offsets=10, kafka_bytes=100),
    )


def test_costs_are_those_of_the_last_waves_of_each_table(ledger: Ledger) -> None:
    """The eleventh wave back no longer counts, however many another table has had since."""
    spec = replace(SPEC, topics=("orders", "clicks"), table="raw.{topic}")
    (rare,) = planned(ledger, [(0, 0, 7)], spec=spec, topic="clicks")
    committed(ledger, rare)
    waves = planned(ledger, *[[(0, n * 10, n * 10 + n + 1)] for n in range(11)], spec=spec)
    for wave in waves:
        committed(ledger, wave)
    offsets = sorted((item.topic, item.offsets) for cost in ledger.throughput(SPEC.name) for item in cost.topics)
    assert offsets == [("clicks", 7), *(("orders", n) for n in range(2, 12))]


def test_seconds_are_those_of_the_attempt(clock: FakeClock) -> None:
    """From the claim to the end of the attempt that brought the wave into the lake."""
    ledger = MemoryLedger(clock)
    (wave,) = planned(ledger, [(0, 0, 10)])
    key = claimed(ledger, wave).key
    clock.advance(timedelta(seconds=20))
    ledger.commit(
        RecordCommit(key=key, attempt=key.attempt, snapshot=1, receipts=receipts_of(ledger.ranges(wave=wave)))
    )
    assert [cost.seconds for cost in ledger.throughput(SPEC.name)] == [20.0]


def test_restored_ledger_has_forgotten(clock: FakeClock) -> None:
    """A snapshot of the memory ledger is independent of what happens after it."""
    ledger = MemoryLedger(clock)
    (wave,) = planned(ledger, [(0, 0, 10)])
    older = ledger.snapshot()
    committed(ledger, wave)
    ledger.advance(SPEC.name)
    ledger.restore(older)
    assert (watermark(ledger), ledger.attempts(wave), outbox_of(ledger)) == (0, (), ())
    assert plan_of(ledger, [(0, 10, 20)]).streams[0].version == 1
    committed(ledger, wave)
    assert moves(ledger) == [(0, 0, 10, 10)]
