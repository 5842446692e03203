"""The protocol under every schedule: readers never see a wrong table, and everything can be led to its end.

KAFKA_LAKE_HISTORIES sets how many histories are tried, KAFKA_LAKE_SEED which ones (without it: others every time).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from tests.properties.happenings import HAPPENINGS, STEPS
from tests.properties.histories import History, Step
from tests.properties.scheduler import counted_ids

HISTORIES = int(os.environ.get("KAFKA_LAKE_HISTORIES", "1000"))
FEWER = 150
SEED = int(os.environ.get("KAFKA_LAKE_SEED", "0")) or secrets.randbits(32)
SECONDS = max(300, HISTORIES // 5)


@pytest.mark.timeout(SECONDS)
def test_every_history_ends_exactly_once(
    pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    """Whatever dies, lies or comes late: no reader sees a wrong table, and repeating the same thing leads out."""
    chosen = "KAFKA_LAKE_HISTORIES" in os.environ or not pytestconfig.getoption("--fast")
    count = HISTORIES if chosen else FEWER
    record_property("KAFKA_LAKE_SEED", SEED)
    record_property("KAFKA_LAKE_HISTORIES", count)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    tried = settings(max_examples=count, deadline=None, print_blob=True, suppress_health_check=checks)(
        _end_exactly_once
    )
    seed(SEED)(tried)()


@given(steps=st.lists(st.sampled_from(STEPS), min_size=25, max_size=50))
def _end_exactly_once(steps: list[Step]) -> None:
    note(f"KAFKA_LAKE_SEED={SEED}")
    with counted_ids():
        history = History()
        try:
            for step in steps:
                HAPPENINGS[step.what](history, step)
                history.look()
            history.heal()
        finally:
            history.close()
