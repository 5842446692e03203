"""The transition tables, word by word, and what else the ledger builds on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.ledger.guards import remedies_for
from airflow_kafka_lake.core.ledger.waves import (
    RANGE_TRANSITIONS,
    RESOLVED,
    UNFINISHED,
    UNRESOLVED,
    WAVE_TRANSITIONS,
    Act,
    AttemptKey,
    AttemptOutcome,
    AttemptRecord,
    LeaseHolder,
    RangeState,
    WaveState,
)

pytestmark = pytest.mark.unit

# The whole table, written a second time: a change of the product's has to be made here too, knowingly.
WAVES = {
    WaveState.PLANNED: {Act.CLAIM: "CLAIMED", Act.CANCEL: "CANCELLED", Act.DISSOLVE: "DISSOLVED"},
    WaveState.CLAIMED: {
        Act.CLAIM: "CLAIMED",
        Act.STAGE: "STAGED",
        Act.COMMIT: "COMMITTED",
        Act.GIVE_UP: "PLANNED",
        Act.CANCEL: "CANCELLED",
        Act.DISSOLVE: "DISSOLVED",
    },
    WaveState.STAGED: {
        Act.CLAIM: "CLAIMED",
        Act.PUBLISH: "PUBLISHING",
        Act.COMMIT: "COMMITTED",
        Act.GIVE_UP: "PLANNED",
        Act.CANCEL: "CANCELLED",
        Act.DISSOLVE: "DISSOLVED",
    },
    WaveState.PUBLISHING: {
        Act.CLAIM: "CLAIMED",
        Act.PUBLISH: "PUBLISHING",
        Act.COMMIT: "COMMITTED",
        Act.GIVE_UP: "PLANNED",
        Act.CANCEL: "CANCELLED",
        Act.DISSOLVE: "DISSOLVED",
    },
    WaveState.COMMITTED: {},
    WaveState.CANCELLED: {Act.RELEASE: "PLANNED", Act.DISSOLVE: "DISSOLVED"},
    WaveState.DISSOLVED: {},
}
RANGES = {
    RangeState.PLANNED: {"CANCELLED", "HELD", "COMMITTED", "SKIPPED"},
    RangeState.CANCELLED: {"PLANNED", "SKIPPED"},
    RangeState.HELD: {"PLANNED", "SKIPPED"},
    RangeState.COMMITTED: {"PLANNED"},
    RangeState.SKIPPED: {"PLANNED"},
}


def test_wave_transitions() -> None:
    """Every act on every state leads where the table says, or nowhere."""
    found = {
        state: {act: target.value for act, (sources, target) in WAVE_TRANSITIONS.items() if state in sources}
        for state in WaveState
    }
    assert found == WAVES


def test_range_transitions() -> None:
    """Every pair of range states is either allowed or not, as written here."""
    assert {state: {after.value for after in RANGE_TRANSITIONS[state]} for state in RangeState} == RANGES


def test_every_act_and_state_is_in_the_tables() -> None:
    """A new act or state has to say where it leads."""
    assert set(WAVE_TRANSITIONS) == set(Act)
    assert set(RANGE_TRANSITIONS) == set(RangeState)


def test_a_failure_is_cleared_only_by_success_or_skip() -> None:
    """From HELD and CANCELLED there is no way to COMMITTED but through PLANNED (law L3)."""
    for state in (RangeState.HELD, RangeState.CANCELLED):
        assert RANGE_TRANSITIONS[state] == {RangeState.PLANNED, RangeState.SKIPPED}


def test_nothing_is_committed_without_a_claim() -> None:
    """A wave that was never claimed cannot become COMMITTED."""
    sources, target = WAVE_TRANSITIONS[Act.COMMIT]
    assert target is WaveState.COMMITTED
    assert sources == {WaveState.CLAIMED, WaveState.STAGED, WaveState.PUBLISHING}


def test_range_states_are_resolved_or_not() -> None:
    """Each range state either holds the watermark or counts towards coverage."""
    assert set(RangeState) == UNRESOLVED | RESOLVED
    assert not UNRESOLVED & RESOLVED


def test_every_stuck_state_has_a_remedy() -> None:
    """Whatever is neither final nor in a wave that names a way has a command of its own."""
    final = {state for state in WaveState if not WAVES[state]}
    assert final == {WaveState.COMMITTED, WaveState.DISSOLVED}
    stuck: set[RangeState | WaveState] = set(WaveState) - final
    stuck |= UNRESOLVED - {RangeState.PLANNED}  # a PLANNED range is in a wave, and the wave names the way
    states: list[RangeState | WaveState] = [*RangeState, *WaveState]
    assert {state for state in states if remedies_for(state, "some-id", "p")} == stuck


def test_run_works_on_what_is_neither_final_nor_cancelled() -> None:
    """`run` finishes what earlier runs left, and leaves alone what a person put on hold."""
    assert set(WaveState) - UNFINISHED == {WaveState.COMMITTED, WaveState.DISSOLVED, WaveState.CANCELLED}


@pytest.mark.parametrize("host", ["worker-1", "a/b", "fe80::1%eth0"])
def test_holder_reads_back(host: str) -> None:
    """A holder's text names the same process again, even with separators in the host's name."""
    ticks = LeaseHolder(host=host, pid=4711, started=369331, boot="c4f798ec-5115-4249-bae9-776979d70c5a")
    known = replace(ticks, machine="0f343b0931126a20")
    for holder in (LeaseHolder(host=host, pid=4711, started=1_700_000_000.25), ticks, known):
        assert LeaseHolder.parse(str(holder)) == holder
    assert str(ticks) == f"{host}/4711/c4f798ec-5115-4249-bae9-776979d70c5a:369331"


def test_attempt_record_gives_its_guard() -> None:
    """The guard of an attempt's writes is wave, fence and attempt id."""
    from datetime import UTC, datetime

    record = AttemptRecord(
        wave="w",
        fence=2,
        attempt="00ff00ff00ff00ff",
        holder="h/1/0.00",
        job=None,
        base=None,
        audited=None,
        outcome=AttemptOutcome.RUNNING,
        error=None,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        ended_at=None,
    )
    assert record.key == AttemptKey(wave="w", fence=2, attempt="00ff00ff00ff00ff")
