"""The rounds of a soak, dealt from a seed."""

from __future__ import annotations

from tests.soak.rounds import APART, decide

NAMES = ("compaction", "catalog-answer-lost", "driver-kill", "worker-kill", "clock-jump")


def test_no_round_lets_iceberg_delete_what_a_compaction_has_committed() -> None:
    """The two still come both, each in rounds of its own; alone with each other they come by turns."""
    for seed in range(40):
        for names in (NAMES, APART):
            rounds = decide(seed=seed, minutes=20, faults=names)
            assert not [item for item in rounds if set(APART) <= set(item.faults)]
            assert {name for item in rounds for name in item.faults} == set(names)
