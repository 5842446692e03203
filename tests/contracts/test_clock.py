"""What every `Clock` does: the system's, and the one that stands still until it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.ports import Clock
from tests.kit.clock import FakeClock

A_MOMENT = 0.01


@pytest.fixture(params=[SystemClock, FakeClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    """A clock of each kind."""
    made: Clock = request.param()
    return made


def test_times_are_aware_and_utc(clock: Clock) -> None:
    """They are recorded, and compared with those of a database."""
    assert clock.now().tzinfo is UTC


def test_sleeping_takes_its_time_on_both_scales(clock: Clock) -> None:
    """At least as long as was asked for, also by the scale for waits."""
    now, seconds = clock.now(), clock.monotonic()
    clock.sleep(A_MOMENT)
    assert clock.monotonic() - seconds >= A_MOMENT
    assert clock.now() > now


def test_waits_are_measured_forward_only(clock: Clock) -> None:
    """Whether time passes or not, no later reading is smaller."""
    read = []
    for pause in (0, A_MOMENT, 0, A_MOMENT):
        clock.sleep(pause)
        read += [clock.monotonic(), clock.monotonic()]
    assert read == sorted(read)
    assert read[-1] > read[0]


def test_no_wait_is_negative(clock: Clock) -> None:
    """A deadline that has passed is the caller's mistake."""
    with pytest.raises(ValueError, match=r"negative|backwards"):
        clock.sleep(-A_MOMENT)


def test_a_clock_that_is_set_moves_no_wait() -> None:
    """Only the system can set its own; the double is set by tests."""
    clock = FakeClock(datetime(2026, 5, 1, tzinfo=UTC))
    for by in (timedelta(days=1), timedelta(days=-2)):
        before, seconds = clock.now(), clock.monotonic()
        clock.step(by)
        assert (clock.now() - before, clock.monotonic()) == (by, seconds)


def test_the_double_stands_still() -> None:
    """Only sleeping and advancing let its time pass, at once."""
    clock = FakeClock(start := datetime(2026, 5, 1, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (start, 0)
    clock.sleep(3600)
    clock.advance(timedelta(seconds=1))
    assert (clock.now(), clock.monotonic()) == (start + timedelta(seconds=3601), 3601)
