"""How old what was not read is, from offsets by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from airflow_kafka_lake.core.kafka.snapshots import AGES, Age, AgeSearch

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE, DAY = 60, 86_400


def searched(ages: dict[int, list[float]], first: dict[int, int]) -> tuple[dict[int, Age], int]:
    """Search in partitions with a record of each age at offsets 0, 1, …, oldest first; return ages and calls."""
    search, calls = AgeSearch.of({("t", partition): offset for partition, offset in first.items()}, NOW), 0
    while questions := search.questions():
        calls += 1
        answers = {}
        for key, at in questions.items():
            records = [int((NOW - timedelta(seconds=age)).timestamp() * 1000) for age in ages[key[1]]]
            answers[key] = next((offset for offset, time in enumerate(records) if time >= at), None)
        search = search.after(answers)
    return {partition: age for ((_, partition), _), age in search.ages().items()}, calls


@pytest.mark.parametrize("age", [181, 3_599, 7 * DAY, 300 * DAY])
def test_age_is_known_to_within_a_third(age: int) -> None:
    """It is at least what is said, and at most the next age."""
    found, _ = searched({0: [900 * DAY, age]}, {0: 1})
    assert found[0].below is not None
    assert found[0].seconds <= age <= found[0].below <= found[0].seconds * 1.34


def test_age_of_what_was_just_written_is_less_than_a_minute() -> None:
    """The youngest answer is zero to one minute."""
    assert searched({0: [DAY, 5]}, {0: 1})[0] == {0: Age(seconds=0, below=MINUTE)}


def test_age_beyond_all_ages_has_no_upper_end() -> None:
    """Two years or more is all that is said."""
    assert searched({0: [2_000 * DAY]}, {0: 0})[0] == {0: Age(seconds=AGES[-1], below=None)}


@pytest.mark.parametrize("ages", [[-365 * DAY, 3 * DAY, DAY], [5 * DAY, -61, 3 * DAY]])
@pytest.mark.parametrize("first", [1, 2])
def test_age_behind_a_record_of_the_future_is_not_known(ages: list[float], first: int) -> None:
    """Every answer is that record; those about another partition are as good as before."""
    found, _ = searched({0: ages, 1: [DAY, 7 * DAY]}, {0: first, 1: 1})
    assert list(found) == [1]


def test_clock_that_is_ahead_by_less_than_a_minute_is_just_written() -> None:
    """Within what is said anyway."""
    assert searched({0: [DAY, -59]}, {0: 1})[0] == {0: Age(seconds=0, below=MINUTE)}


def test_record_of_the_future_behind_the_first_unread_one_changes_nothing() -> None:
    """The first that is as young lies above the first unread one."""
    assert searched({0: [9 * DAY, 3 * DAY + 5, -DAY]}, {0: 1})[0] == {0: Age(seconds=3 * DAY, below=4 * DAY)}


def test_ages_are_six_questions_apart_and_grow_by_a_third_at_most() -> None:
    """One more would take a seventh question."""
    assert len(AGES) == 2**6 - 1
    assert list(AGES) == sorted(set(AGES))
    assert all(later <= earlier * 1.34 for earlier, later in pairwise(AGES) if earlier >= 3 * MINUTE)


def test_all_partitions_are_searched_in_six_calls() -> None:
    """Whatever their number and ages."""
    partitions = range(200)
    ages = {number: [800 * DAY, 70 * 1.07**number] for number in partitions}
    found, calls = searched(ages, dict.fromkeys(partitions, 1))
    assert calls == 6
    assert [found[n].seconds for n in partitions] == sorted(found[n].seconds for n in partitions)


def test_nothing_unread_asks_nothing() -> None:
    """No partition, no call."""
    assert searched({}, {}) == ({}, 0)
