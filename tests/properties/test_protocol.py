"""The protocol under every schedule: readers never see a wrong table, and everything can be led to its end.

A history has at least fifty steps. KAFKA_LAKE_HISTORIES sets how many are tried, KAFKA_LAKE_SEED which ones (without
it the same every time; `make proof` tries others): `KAFKA_LAKE_HISTORIES=100000 KAFKA_LAKE_SEED=7 python -m pytest -n 2
tests/properties/test_protocol.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, note, seed, settings

from tests.properties.environment import Step
from tests.properties.histories import History
from tests.properties.scenarios import histories
from tests.properties.scheduler import counted_ids
from tests.properties.steps import HAPPENINGS

HISTORIES = int(os.environ.get("KAFKA_LAKE_HISTORIES", "60"))
SEED = int(os.environ.get("KAFKA_LAKE_SEED", "2026"))
LANES = (0, 1)
"""Each tries half of the histories, so that two processes share the work: `pytest -n 2`."""
SECONDS = max(900, HISTORIES)


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("lane", LANES)
def test_every_history_ends_exactly_once(lane: int, record_property: Callable[[str, object], None]) -> None:
    """Whatever dies, lies or comes late: no reader sees a wrong table, and repeating the same thing leads out."""
    count = HISTORIES // len(LANES)
    record_property("KAFKA_LAKE_SEED", SEED)
    ended = 0

    def end_exactly_once(steps: list[Step]) -> None:
        nonlocal ended
        _end_exactly_once(steps)
        ended += 1

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    tried = settings(max_examples=count, deadline=None, print_blob=True, suppress_health_check=checks)(
        given(steps=histories())(end_exactly_once)
    )
    seed(SEED + lane)(tried)()
    record_property("cases", ended)
    assert ended >= count


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
