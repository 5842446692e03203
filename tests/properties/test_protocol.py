"""The protocol under every schedule: readers never see a wrong table, and everything can be led to its end.

KAFKA_LAKE_HISTORIES sets how many histories are tried, KAFKA_LAKE_SEED which ones (default: others every time).
"""

from __future__ import annotations

import os
import secrets

from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from tests.properties.happenings import HAPPENINGS, STEPS
from tests.properties.histories import History, Step
from tests.properties.scheduler import counted_ids

HISTORIES = int(os.environ.get("KAFKA_LAKE_HISTORIES", "1000"))
SEED = int(os.environ.get("KAFKA_LAKE_SEED", "0")) or secrets.randbits(32)


@seed(SEED)
@settings(
    max_examples=HISTORIES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=25, max_size=50))
def test_every_history_ends_exactly_once(steps: list[Step]) -> None:
    """Whatever dies, lies or comes late: no reader sees a wrong table, and repeating the same thing leads out."""
    note(f"KAFKA_LAKE_SEED={SEED} KAFKA_LAKE_HISTORIES={HISTORIES}")
    with counted_ids():
        history = History()
        for step in steps:
            HAPPENINGS[step.what](history, step)
            history.look()
        history.heal()
