"""A fault that a test arms has to strike."""

from __future__ import annotations

import pytest

from tests.gates import Before, Killed, KilledError, nothing_in_vain

pytestmark = pytest.mark.unit


def in_vain() -> None:
    """One call is made, and the faults wait for others."""
    with nothing_in_vain():
        Before("table.publish", list, nth=2)("table.publish")
        Killed("ledger.record_commit")("ledger.claim")


def test_armed_fault_that_never_strikes_is_refused() -> None:
    """Each is named by the call that it waited for."""
    with pytest.raises(AssertionError, match=r"never came to call table\.publish 2, ledger\.record_commit 1"):
        in_vain()


def test_fault_that_strikes_passes() -> None:
    """So does a death that the test expects only if its worker comes that far."""
    with nothing_in_vain():
        Before("table.publish", list)("table.publish")
        with pytest.raises(KilledError):
            Killed()("ledger.claim")
        Killed("ledger.record_commit", if_it_comes=True)
