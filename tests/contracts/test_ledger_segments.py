"""Layouts, segments and the gate, in every ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.errors import ConcurrentError, GateClosedError, LedgerSchemaError
from airflow_kafka_lake.core.ledger.attempts import MarkPublishing
from airflow_kafka_lake.core.ledger.decisions import Release
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import RangeSet, Stream
from airflow_kafka_lake.core.ordering.layouts import Layout, LayoutChange
from airflow_kafka_lake.core.ordering.segments import Segment
from airflow_kafka_lake.core.spec import Ordering
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import AT, SPEC, committed, key_of, planned, skipped, staged, taken

PARENT, CHILD = key_of(0), key_of(1)


def segment(stream: Stream, start: int = 0, seal: int | None = None, *parents: tuple[Stream, int]) -> Segment:
    """Return a segment; one with a seal is sealed for good."""
    return Segment(stream=stream, start=start, layout=2, seal=seal, sealed=seal is not None, parents=frozenset(parents))


def layout(partitions: int, *, in_force: bool) -> Layout:
    """Return a layout of the topic."""
    return Layout(topic="orders", topic_id="id-orders", partitions=partitions, seen_at=AT, in_force=in_force)


ORDERED = LayoutChange(
    layouts=(layout(1, in_force=True),),
    segments=(segment(PARENT, 0, 10), segment(CHILD, 0, None, (PARENT, 0))),
)


def ordered(ledger: Ledger, **options: object) -> tuple[str, str]:
    """Record a parent of ten offsets and its child; return their waves."""
    parent, child = planned(ledger, [(0, 0, 10)], [(1, 0, 5)], layout_change=ORDERED, **options)
    return parent, child


def test_growth_is_recorded_with_the_plan(ledger: Ledger) -> None:
    """Layouts, segments and edges come back as they were planned; other pipelines have none."""
    ordered(ledger)
    assert ledger.segments(SPEC.name) == ORDERED.segments
    assert ledger.layouts(SPEC.name) == ORDERED.layouts
    assert ledger.segments("others") == ledger.layouts("others") == ()


def test_layout_that_was_seen_comes_into_force_once(ledger: Ledger) -> None:
    """It keeps the moment at which it was first seen."""
    planned(ledger, [(0, 0, 10)], layout_change=LayoutChange(layouts=(layout(2, in_force=False),)))
    seen = ledger.layouts(SPEC.name)
    assert [item.in_force for item in seen] == [False]
    planned(ledger, [(0, 10, 12)], layout_change=LayoutChange(layouts=(layout(2, in_force=True),)))
    assert ledger.layouts(SPEC.name) == (replace(seen[0], in_force=True),)


def test_segments_get_seals_and_more_parents(ledger: Ledger) -> None:
    """What is said again of a segment adds to it: a seal, an edge; a seal that counts goes on counting."""
    planned(ledger, [(0, 0, 10)], [(1, 0, 5)], layout_change=LayoutChange(segments=(segment(PARENT), segment(CHILD))))
    declared = replace(segment(PARENT), seal=10, declared_at=AT)
    again = LayoutChange(segments=(declared, segment(CHILD, 0, None, (PARENT, 0))))
    planned(ledger, [(0, 10, 11)], [(1, 5, 6)], layout_change=again)
    assert ledger.segments(SPEC.name) == again.segments
    planned(ledger, [(0, 11, 12)], layout_change=LayoutChange(segments=(replace(declared, sealed=True),)))
    planned(ledger, [(0, 12, 13)], layout_change=LayoutChange(segments=(declared,)))
    assert ledger.segments(SPEC.name)[0] == replace(declared, sealed=True)


def test_seal_is_never_moved(ledger: Ledger) -> None:
    """A plan that would move one records nothing at all."""
    ordered(ledger)
    with pytest.raises(ConcurrentError, match="never moved"):
        planned(ledger, [(0, 10, 12)], layout_change=LayoutChange(segments=(segment(PARENT, 0, 12),)))
    assert ledger.segments(SPEC.name) == ORDERED.segments
    assert ledger.streams(SPEC.name)[0].planned == RangeSet.of((0, 10))


def test_gate_names_what_is_not_drained(ledger: Ledger) -> None:
    """The child waits for its parent, and for nothing once the parent's ranges are committed."""
    parent, child = ordered(ledger)
    (blocker,) = ledger.gate(child)
    assert (blocker.child, blocker.parent.key) == ((CHILD, 0), (PARENT, 0))
    assert (blocker.missing, blocker.unacknowledged) == (RangeSet.of((0, 10)), RangeSet())
    assert ledger.gate(parent) == ()
    committed(ledger, parent)
    assert ledger.gate(child) == ()


def test_gate_waits_for_a_parent_without_a_seal(ledger: Ledger) -> None:
    """However much of it is committed: its end is not known."""
    layout_change = LayoutChange(segments=(segment(PARENT), segment(CHILD, 0, None, (PARENT, 0))))
    parent, child = planned(ledger, [(0, 0, 10)], [(1, 0, 5)], layout_change=layout_change)
    committed(ledger, parent)
    (blocker,) = ledger.gate(child)
    assert not blocker.sealed


def test_gate_reaches_through_drained_parents(ledger: Ledger) -> None:
    """A grandparent that is open stops the child, though the parent is drained."""
    layout_change = LayoutChange(
        segments=(
            segment(key_of(0), 0, 10),
            segment(key_of(1), 0, 5, (key_of(0), 0)),
            segment(key_of(2), 0, None, (key_of(1), 0)),
        )
    )
    child = planned(ledger, [(0, 0, 10)], [(1, 0, 5)], [(2, 0, 5)], layout_change=layout_change)[-1]
    skipped(ledger, 0, 5, partition=1, acknowledge_order=True)
    assert [blocker.parent.stream for blocker in ledger.gate(child)] == [key_of(0)]


def test_publishing_is_not_recorded_while_the_gate_is_closed(ledger: Ledger) -> None:
    """The statement that would record it looks at the gate itself; the wave stays STAGED."""
    parent, child = ordered(ledger)
    claim = staged(ledger, child)
    with pytest.raises(GateClosedError, match="orders/0 from 0 to its seal 10 has 10 open offsets: 0-10"):
        ledger.commit(MarkPublishing(key=claim.key))
    assert ledger.wave(child).state is WaveState.STAGED
    committed(ledger, parent)
    ledger.commit(MarkPublishing(key=claim.key))
    assert ledger.wave(child).state is WaveState.PUBLISHING


def test_plan_without_ordering_is_not_gated(ledger: Ledger) -> None:
    """The mode is the plan's own, whatever the pipeline says later."""
    _, child = ordered(ledger, spec=replace(SPEC, ordering=Ordering.NONE))
    assert ledger.gate(child) == ()
    ledger.commit(SavePipeline(spec=SPEC))
    assert ledger.gate(child) == ()


def test_skip_frees_the_order_only_when_it_is_acknowledged(ledger: Ledger) -> None:
    """A skip counts as covered at once, and as drained when a person acknowledges the order, then or later."""
    parent, child = ordered(ledger)
    skipped(ledger, 4, 10)
    assert ledger.streams(SPEC.name)[0].unacknowledged == RangeSet.of((4, 10))
    committed(ledger, parent)
    (blocker,) = ledger.gate(child)
    assert (blocker.missing, blocker.unacknowledged) == (RangeSet(), RangeSet.of((4, 10)))
    assert skipped(ledger, 5, 10, acknowledge_order=True) == 0
    assert ledger.streams(SPEC.name)[0].unacknowledged == RangeSet.of((4, 5))
    skipped(ledger, 4, 5, acknowledge_order=True)
    assert ledger.gate(child) == ()


def test_drained_counts_from_the_origin(ledger: Ledger) -> None:
    """What lies below the parent's origin was never asked for."""
    layout_change = LayoutChange(segments=(segment(PARENT, 0, 10), segment(CHILD, 0, None, (PARENT, 0))))
    parent, child = planned(ledger, [(0, 4, 10)], [(1, 4, 5)], layout_change=layout_change, origin=4)
    committed(ledger, parent)
    assert ledger.gate(child) == ()


def test_cancelled_parent_keeps_the_gate_closed(ledger: Ledger) -> None:
    """A hold is not an end."""
    parent, child = ordered(ledger)
    taken(ledger, parent)
    assert [str(blocker.missing) for blocker in ledger.gate(child)] == ["0-10"]


@pytest.mark.parametrize("state", [RangeState.CANCELLED, RangeState.HELD])
def test_range_on_hold_lets_the_rest_of_its_wave_pass_the_gate(ledger: Ledger, state: RangeState) -> None:
    """Only what a wave would publish waits for its ancestors: a range on hold is not read, so it waits for nothing."""
    other = segment(key_of(2), 0, None)
    layout_change = replace(ORDERED, segments=(*ORDERED.segments, other))
    parent, wave = planned(ledger, [(0, 0, 10)], [(1, 0, 5), (2, 0, 5)], layout_change=layout_change)
    late = ledger.ranges(wave=wave)[0]
    assert late.stream == CHILD
    taken(ledger, wave, late.id, state=state)
    assert ledger.gate(wave) == ()
    assert committed(ledger, wave).ranges[0].stream == other.stream
    released = ledger.commit(Release(ranges=[late.id], wave="late-w0", actor="tester", reason=None))
    assert [blocker.parent.stream for blocker in ledger.gate(released)] == [PARENT]
    committed(ledger, parent)
    assert ledger.gate(released) == ()


@pytest.mark.parametrize("word", ["ordering", "topics"])
def test_configuration_that_lacks_a_word_is_an_error(ledger: Ledger, word: str) -> None:
    """A plan whose mode is not on record is neither run in any order nor waited for without end."""
    engine = getattr(ledger, "engine", None)
    if engine is None:
        pytest.skip("the memory ledger keeps values, not text")
    _, child = ordered(ledger)
    with engine.begin() as connection:
        text = connection.exec_driver_sql("SELECT spec FROM kafka_lake_pipeline").scalar_one()
        broken = text.replace(f'"{word}"', '"other"')
        connection.exec_driver_sql(f"UPDATE kafka_lake_pipeline SET spec = '{broken}'")
    with pytest.raises(LedgerSchemaError, match=f"cannot be read: .*{word}"):
        ledger.gate(child)
