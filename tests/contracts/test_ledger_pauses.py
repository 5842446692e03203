"""What a ledger refuses while a pipeline or a plan is paused: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from airflow_kafka_lake.adapters.sql_ledger.commit import ScopeLoader, apply, commit
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import PausedError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.attempts import ClaimWave, EndAttempt, RecordCommit, Renew
from airflow_kafka_lake.core.ledger.changes import Change
from airflow_kafka_lake.core.ledger.decisions import Pause, PauseAnswer, Resume
from airflow_kafka_lake.core.ledger.guards import pause_of
from airflow_kafka_lake.core.ledger.plans import RecordPlan, SavePipeline
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, RangeState, WaveState
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import (
    HOLDER,
    LEASE,
    SPEC,
    attempt_id,
    claimed,
    plan_of,
    planned,
    publishing,
    receipts_of,
    skipped,
    taken,
)
from tests.contracts.test_ledger_locks import SECONDS, meanwhile


def paused(ledger: Ledger, plan: str | None = None, *, reason: str = "broker maintenance") -> PauseAnswer:
    """Pause the pipeline, or a plan."""
    return ledger.commit(Pause(pipeline=SPEC.name, plan=plan, reason=reason, actor="anna"))


def resumed(ledger: Ledger, plan: str | None = None) -> PauseAnswer:
    """Resume the pipeline, or a plan."""
    return ledger.commit(Resume(pipeline=SPEC.name, plan=plan, actor="bert", reason="done"))


def record_plan(ledger: Ledger, *waves: list[tuple[int, int, int]]) -> None:
    """Record one more plan."""
    ledger.commit(RecordPlan(plan=plan_of(ledger, *waves), actor="tester"))


def decided(ledger: Ledger, wave: str) -> None:
    """Claim a wave to find out what became of it, and give it back."""
    claim = ledger.commit(
        ClaimWave(wave=wave, attempt=attempt_id(), holder=HOLDER, lease=LEASE, over=1, to_decide=True)
    )
    ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.ABANDONED, error=None))


def test_pause_is_on_record_with_who_when_and_why(ledger: Ledger) -> None:
    """As long as it lasts, with the pipeline; and its history keeps both its begin and its end."""
    planned(ledger, [(0, 0, 10)])
    assert paused(ledger).changed
    record = ledger.pipeline(SPEC.name)
    assert record is not None
    (pause,) = record.pauses
    assert (pause.pipeline, pause.plan, pause.actor, pause.reason) == (SPEC.name, None, "anna", "broker maintenance")
    assert pause_of(record.pauses, "any plan") == pause == pause_of(record.pauses, None)
    assert resumed(ledger) == PauseAnswer(changed=True, pause=pause)
    record = ledger.pipeline(SPEC.name)
    assert record is not None
    assert record.pauses == ()
    begun, ended = ledger.events(SPEC.name)[-2:]
    assert (begun.kind, begun.actor, begun.subject, begun.detail) == ("pause", "anna", SPEC.name, "broker maintenance")
    assert (ended.kind, ended.actor, ended.subject, ended.detail) == (
        "resume",
        "bert",
        SPEC.name,
        "the pause by anna ended: done",
    )


def test_pause_that_is_there_stays_as_it_was_recorded(ledger: Ledger) -> None:
    """Who comes second is told who was first; to resume twice is no error either, and neither leaves a line."""
    planned(ledger, [(0, 0, 10)])
    first = paused(ledger).pause
    assert paused(ledger, reason="another") == PauseAnswer(changed=False, pause=first)
    resumed(ledger)
    assert resumed(ledger) == PauseAnswer(changed=False, pause=None)
    assert [event.kind for event in ledger.events(SPEC.name)][-3:] == ["plan", "pause", "resume"]


@pytest.mark.parametrize("act", [paused, resumed])
def test_what_is_not_on_record_cannot_be_paused(ledger: Ledger, act: Callable[..., PauseAnswer]) -> None:
    """No pipeline before its first configuration; no plan that is not there, or that is another pipeline's."""
    with pytest.raises(UnknownSubjectError, match="no pipeline orders"):
        act(ledger)
    ledger.commit(SavePipeline(spec=SPEC))
    with pytest.raises(UnknownSubjectError, match="no plan p0"):
        act(ledger, "p0")
    planned(ledger, [(0, 0, 10)], plan="others", spec=replace(SPEC, name="others", table="raw.others"))
    with pytest.raises(UnknownSubjectError, match="no plan others"):
        act(ledger, "others")


def test_nothing_is_begun_while_the_pipeline_is_paused(ledger: Ledger) -> None:
    """No wave is claimed and no plan recorded, for any caller; the refusal names person, reason and remedy."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    paused(ledger)
    before = ledger.waves(SPEC.name), ledger.events(SPEC.name), ledger.streams(SPEC.name)
    for wave in (first, second):
        with pytest.raises(PausedError, match=r"by anna: broker maintenance\. .* kafka-lake resume orders$") as refusal:
            claimed(ledger, wave)
        assert (refusal.value.exit_code, refusal.value.facts["plan"]) == (1, None)
    with pytest.raises(PausedError):
        record_plan(ledger, [(0, 20, 30)])
    assert (ledger.waves(SPEC.name), ledger.events(SPEC.name), ledger.streams(SPEC.name)) == before
    resumed(ledger)
    assert claimed(ledger, first).key.fence == 1
    record_plan(ledger, [(0, 20, 30)])


def test_other_pipelines_go_on(ledger: Ledger) -> None:
    """A pause is one pipeline's."""
    planned(ledger, [(0, 0, 10)])
    paused(ledger)
    (wave,) = planned(ledger, [(0, 0, 10)], spec=replace(SPEC, name="others", table="raw.others"))
    assert claimed(ledger, wave).pipeline == "others"


def test_paused_plan_keeps_its_own_waves_only(ledger: Ledger) -> None:
    """Other plans of the pipeline go on, and new ones are recorded."""
    (mine,) = planned(ledger, [(0, 0, 10)], plan="mine")
    (other,) = planned(ledger, [(0, 10, 20)])
    assert paused(ledger, "mine").changed
    with pytest.raises(PausedError, match=r"^Plan mine of pipeline orders .* kafka-lake resume mine$") as refusal:
        claimed(ledger, mine)
    assert refusal.value.facts["plan"] == "mine"
    assert claimed(ledger, other).key.fence == 1
    record_plan(ledger, [(0, 20, 30)])
    paused(ledger)
    resumed(ledger)
    with pytest.raises(PausedError):
        claimed(ledger, mine)
    resumed(ledger, "mine")
    assert claimed(ledger, mine).key.fence == 1


def test_wave_at_work_goes_on_to_its_end(ledger: Ledger) -> None:
    """Its lease is renewed, its commit recorded, and the watermark moves over it."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    claim = publishing(ledger, wave)
    paused(ledger)
    ledger.commit(Renew(key=claim.key, lease=LEASE))
    ledger.commit(
        RecordCommit(key=claim.key, attempt=claim.key.attempt, snapshot=9, receipts=receipts_of(claim.ranges))
    )
    assert ledger.wave(wave).state is WaveState.COMMITTED
    assert [move.end for move in ledger.advance(SPEC.name)] == [10]


def test_persons_decide_while_it_is_paused(ledger: Ledger) -> None:
    """What became of an open wave is found out, what is planned is revoked, skipped and declared."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    claimed(ledger, first)
    paused(ledger)
    decided(ledger, first)
    assert ledger.wave(first).state is WaveState.PLANNED
    taken(ledger, second, state=RangeState.HELD)
    assert skipped(ledger, 10, 20) == 10
    record_plan(ledger)


@pytest.fixture
def postgres(new_url: Callable[[str], str]) -> Iterator[SqlLedger]:
    """A ledger in PostgreSQL, whose writers wait long enough for each other."""
    made = SqlLedger(new_url("postgres"), lock_timeout=SECONDS)
    made.upgrade()
    yield made
    made.close()


def claim_first(ledger: SqlLedger) -> object:
    """Claim the first wave."""
    return claimed(ledger, ledger.waves(SPEC.name)[0].id)


def plan_more(ledger: SqlLedger) -> object:
    """Record one more plan."""
    return record_plan(ledger, [(1, 0, 10)])


@pytest.mark.parametrize("begin", [claim_first, plan_more])
def test_what_waited_for_a_pause_is_refused(postgres: SqlLedger, begin: Callable[[SqlLedger], object]) -> None:
    """It had asked before the pause was recorded, and is decided after it."""
    planned(postgres, [(0, 0, 10)])
    with ThreadPoolExecutor(1) as pool:
        with postgres.engine.begin() as other:
            commit(other, Pause(pipeline=SPEC.name, reason="now", actor="anna"))
            late = meanwhile(postgres, pool, partial(begin, postgres))
        with pytest.raises(PausedError):
            late.result(SECONDS)


@pytest.mark.parametrize("kind", ["claim", "plan"])
def test_pause_waits_for_what_is_being_begun(postgres: SqlLedger, kind: str) -> None:
    """Once it is answered nothing is begun any more: what was first is on record by then."""
    (wave,) = planned(postgres, [(0, 0, 10)])
    write = {
        "claim": ClaimWave(wave=wave, attempt=attempt_id(), holder=HOLDER, lease=LEASE),
        "plan": RecordPlan(plan=plan_of(postgres, [(1, 0, 10)]), actor="tester"),
    }[kind]
    before = len(postgres.events(SPEC.name))
    with ThreadPoolExecutor(1) as pool:
        with postgres.engine.begin() as other:
            loading = ScopeLoader(other, write.scope())
            change: Change[object] = write.decide(loading.load())  # type: ignore[attr-defined]
            pause = meanwhile(postgres, pool, partial(paused, postgres))
            apply(other, change, loading.ids)
        assert pause.result(SECONDS).changed
    assert [event.kind for event in postgres.events(SPEC.name)[before:]] == [kind, "pause"]


def test_plans_and_claims_of_a_pipeline_do_not_wait_for_each_other(postgres: SqlLedger) -> None:
    """A large plan takes seconds to be recorded: no wave waits for it, and no other plan of other streams."""
    (wave,) = planned(postgres, [(0, 0, 10)])
    plans = [plan_of(postgres, [(partition, 0, 10)]) for partition in (1, 2)]
    claim = ClaimWave(wave=wave, attempt=attempt_id(), holder=HOLDER, lease=LEASE)
    with postgres.engine.begin() as first, postgres.engine.begin() as second, postgres.engine.begin() as third:
        ScopeLoader(first, RecordPlan(plan=plans[0], actor="a").scope()).load()
        ScopeLoader(second, claim.scope()).load()
        ScopeLoader(third, RecordPlan(plan=plans[1], actor="b").scope()).load()
