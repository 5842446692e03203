"""What a Dag that is triggered by events of a pipeline reads of them: each slice once, whatever came twice."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_lake.assets import Landed, LandedSlice, event_extras, landed
from airflow_kafka_lake.core.ledger.records import Advance
from airflow_kafka_lake.core.offsets import Stream


def event(**extra: Any) -> SimpleNamespace:
    return SimpleNamespace(extra=extra)


def told(after: int, moves: list[tuple[int, int]], partition: int = 0, ledger: str = "one") -> SimpleNamespace:
    """Return the event of some moves of a partition, numbered from `after` on."""
    made = [
        Advance(stream=Stream("orders", "id", partition), sequence=number, start=start, end=end, rows=end - start)
        for number, (start, end) in enumerate(moves, after + 1)
    ]
    (extra,) = event_extras("orders", None, made, after=after, ledger=ledger)
    return event(**extra)


def test_events_of_a_run_are_merged() -> None:
    """Moves that follow each other are one slice; those of other pipelines are apart, other assets are left out."""
    events = {
        "orders": [told(0, [(0, 5)]), told(1, [(5, 9)]), told(2, [(0, 4)], 1)],
        "clicks": [
            event(
                pipeline="clicks",
                after=0,
                sequence=9,
                rows=1,
                streams=[{"topic": "c", "partition": 3, "from": 1, "to": 2}],
            )
        ],
        "theirs": [event(anything=1), SimpleNamespace(extra=None)],
    }
    found = landed(events)
    assert list(found) == ["clicks", "orders"]
    assert found["orders"] == Landed(
        pipeline="orders",
        ledger="one",
        after=0,
        sequence=3,
        rows=13,
        slices=(LandedSlice("orders", 0, 0, 9), LandedSlice("orders", 1, 0, 4)),
    )


def test_rebuilt_ledger_counts_anew_and_hides_nothing() -> None:
    """Its moves have numbers that the lost ledger's had too: neither's are taken for the other's."""
    lost = [told(1, [(0, 5)] * 8, 1), told(9, [(5, 9)], 1)]
    made = [told(0, [(0, 9)] * 3, 0, "two"), told(3, [(9, 12)], 0, "two")]
    for events in ([*lost, *made], [*reversed(made), *lost]):
        found = landed({"orders": events})["orders"]
        assert found.slices == (LandedSlice("orders", 0, 0, 12), LandedSlice("orders", 1, 0, 9))
    found = landed({"orders": [*lost, *made]})["orders"]
    assert (found.ledger, found.after, found.sequence) == ("two", 0, 4)


def test_event_that_came_twice_counts_once() -> None:
    """As Airflow shows it under its asset and its alias, and as a task does that outlived its lease."""
    first, longer = told(0, [(0, 5)]), told(0, [(0, 5), (5, 9)])
    both = landed({"asset": [longer, first], "alias": [first, longer]})
    assert both == landed({"asset": [longer]})
    assert (both["orders"].rows, both["orders"].slices) == (9, (LandedSlice("orders", 0, 0, 9),))


def test_events_of_an_earlier_version_count_too() -> None:
    """Those that wait while the package is upgraded do not say after which move they begin."""
    older = [told(0, [(0, 5)]), told(1, [(5, 9)]), told(1, [(5, 9)])]
    for item in older:
        del item.extra["after"]
    assert landed({"asset": older})["orders"].slices == (LandedSlice("orders", 0, 0, 9),)


def test_nothing_landed_of_no_events() -> None:
    """A run that a person started by hand."""
    assert landed({}) == {}


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_whatever_is_repeated_the_slices_are_those_that_landed(spans: list[int], data: st.DataObject) -> None:
    """In whatever order, and however the moves were put into events."""
    moves, at = [], 0
    for span in spans:
        moves.append((at, at + span))
        at += span
    cuts = sorted(data.draw(st.sets(st.integers(1, len(moves)))) | {0, len(moves)})
    once = [told(start, moves[start:end]) for start, end in pairwise(cuts)]
    again = data.draw(st.lists(st.sampled_from(once)))
    shuffled = data.draw(st.permutations([*once, *again]))
    (found,) = landed({"asset": shuffled, "alias": once}).values()
    assert (found.slices, found.rows) == ((LandedSlice("orders", 0, 0, at),), at)
    assert (found.after, found.sequence) == (0, len(moves))
