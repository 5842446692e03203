"""Clocks: one that goes by itself, one that waits to be told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_lake.adapters.clocks import FakeClock, SystemClock
from airflow_kafka_lake.ports import Clock


def test_system_clock_is_aware_and_goes_on() -> None:
    """Its times are UTC, and sleeping takes time."""
    clock: Clock = SystemClock()
    before = clock.now()
    clock.sleep(0.001)
    assert before.tzinfo is UTC
    assert clock.now() > before


def test_fake_clock_stands_still() -> None:
    """Only sleeping and advancing move it, at once and never back."""
    start = datetime(2026, 5, 1, tzinfo=UTC)
    clock = FakeClock(start)
    assert clock.now() == start
    clock.sleep(3600)
    clock.advance(timedelta(seconds=1))
    assert clock.now() == start + timedelta(seconds=3601)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(timedelta(seconds=-1))
