"""The checker is quiet as long as the protocol is right: whatever dies, lies or comes late, it finds nothing."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from airflow_kafka_lake.ports import Ports
from tests.evidence import Notes, evidence_of
from tests.gates import Passing
from tests.kit.history_check import check
from tests.properties.histories import History, Step
from tests.properties.scheduler import counted_ids
from tests.properties.steps import HAPPENINGS, STEPS

FEW = 24
LOSSES = frozenset({"backup", "old ledger", "set ledger back", "lose ledger", "roll back", "delete rows"})
UNBROKEN = [step for step in STEPS if step.what not in LOSSES]
"""What a ledger that was restored, or lost, has forgotten, and rows that others took from the table, are findings."""

SEED = int(os.environ.get("KAFKA_LAKE_SEED", "2026"))
"""The same histories every time, unless others are asked for."""


class Noting(History):
    """A history whose workers write down what they ask and what becomes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes(self.world)
        worker: Any = self.world.worker

        def noted(passing: Passing | None = None) -> Ports:
            return self.notes.of(worker(passing))

        self.world.worker = noted  # type: ignore[method-assign]


@pytest.mark.timeout(600)
def test_an_unbroken_history_has_no_finding() -> None:
    """In the middle of everything and at rest, with the producers' word and with all that workers wrote down."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    few = FEW // 2 if settings.get_current_profile_name() == "fast" else FEW
    count = max(few, int(os.environ.get("KAFKA_LAKE_HISTORIES", "0")) // 20)
    tried = settings(max_examples=count, deadline=None, print_blob=True, suppress_health_check=checks)(_find_nothing)
    seed(SEED)(tried)()


@given(steps=st.lists(st.sampled_from(UNBROKEN), min_size=10, max_size=40))
def _find_nothing(steps: list[Step]) -> None:
    note(f"KAFKA_LAKE_SEED={SEED}")
    with counted_ids():
        history = Noting()
        try:
            for step in steps:
                HAPPENINGS[step.what](history, step)
                if history.world.lake.reachable:
                    assert check(evidence_of(history.world), history.notes.operations) == ()
            history.heal()
        finally:
            history.close()
        assert check(evidence_of(history.world, at_rest=True), history.notes.operations) == ()
