"""What tasks ask workers for, and how they are answered: one suite over all adapters of `ports.Ledger`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.commit import REQUESTS_KEPT
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import JobFailedError, LimitReachedError, StateError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.attempts import EndAttempt, Renew
from airflow_kafka_lake.core.ledger.requests import (
    AnswerRequests,
    AskForWave,
    EndRequest,
    WaveRequest,
    error_of,
    is_wanted,
    next_request,
)
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, WaveState
from airflow_kafka_lake.ports import Ledger
from tests.contracts.ledger_world import HOLDER, LEASE, SPEC, claimed, committed, planned, taken

LAPSED = timedelta(seconds=-1)
"""How long a request is wanted that nothing renews any more."""


def asked(ledger: Ledger, wave: str, name: str = "one", **how: object) -> WaveRequest:
    """Ask for a wave, as a task does."""
    return ledger.commit(AskForWave(id=name, wave=wave, actor=f"airflow:hourly/{name}/ingest", **how))  # type: ignore[arg-type]


def answered(ledger: Ledger, wave: str) -> int:
    """Answer everything that was asked for a wave."""
    return ledger.commit(AnswerRequests(wave=wave, error=JobFailedError("No space left", reason="disk"), actor="w"))


def test_wave_that_is_asked_for_is_shown_to_workers(ledger: Ledger) -> None:
    """With who asked and since when, in the order in which waves were planned; and the history has a line of it."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    assert ledger.requests() == ()
    late = asked(ledger, second, "late", bytes_per_second=500)
    early = asked(ledger, first, "early")
    assert early.request is not None
    assert late.request is not None
    found = ledger.requests()
    assert [(item.id, item.wave, item.bytes_per_second) for item in found] == [
        ("early", first, None),
        ("late", second, 500),
    ]
    assert [(item.at, item.until) for item in found] == [(x.request.at, x.request.until) for x in (early, late)]  # type: ignore[union-attr]
    assert all(item.is_wanted and item.state is WaveState.PLANNED and item.holder is None for item in found)
    assert [item.id for item in ledger.requests(second)] == ["late"]
    assert ledger.requests("another") == ()
    line = ledger.events(SPEC.name)[-1]
    assert (line.kind, line.actor, line.subject) == ("request", "airflow:hourly/early/ingest", first)


def test_request_is_renewed_as_it_comes_to_its_end(ledger: Ledger) -> None:
    """Not each time it is asked again, and without a further line in the history; who asked first stays on record."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    first = asked(ledger, wave).request
    events = len(ledger.events(SPEC.name))
    assert asked(ledger, wave).request == first
    later = asked(ledger, wave, wanted_for=timedelta(hours=1)).request
    assert first is not None
    assert later is not None
    assert later.until - first.until >= timedelta(minutes=50)
    assert (later.at, later.actor) == (first.at, first.actor)
    assert len(ledger.events(SPEC.name)) == events


def test_request_that_nothing_renews_lapses(ledger: Ledger) -> None:
    """No worker takes its wave; its task asks again, and it is wanted again."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    asked(ledger, wave, wanted_for=LAPSED)
    (found,) = ledger.requests(wave)
    assert (found.live, found.is_wanted, is_wanted([found]), next_request([found])) == (False, False, False, None)
    asked(ledger, wave)
    assert is_wanted(ledger.requests(wave))


def test_every_task_has_a_request_of_its_own(ledger: Ledger) -> None:
    """One that ends takes nothing from the other, and ends once."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    one, two = asked(ledger, wave, "one"), asked(ledger, wave, "two")
    assert ledger.commit(EndRequest(id="one", wave=wave)) == one.request
    assert ledger.commit(EndRequest(id="one", wave=wave)) is None
    assert is_wanted(ledger.requests(wave))
    assert ledger.commit(EndRequest(id="two", wave=wave)) == two.request
    assert ledger.requests() == ()


def test_task_that_begins_again_ends_what_it_asked_for_before(ledger: Ledger) -> None:
    """It was cleared while it waited: what it asks for now is all that it wants, answered or not, and is no other
    task's."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    for name, wave, actor in (("old", first, "me"), ("other", first, "you"), ("elsewhere", second, "me")):
        ledger.commit(AskForWave(id=name, wave=wave, actor=actor, begins=True))
    answered(ledger, first)
    for name in ("new", "newest"):
        again = AskForWave(id=name, wave=first, actor="me", begins=True)
        assert ledger.commit(again).request == ledger.commit(replace(again, begins=False)).request
    assert {item.id for item in ledger.requests()} == {"other", "newest", "elsewhere"}
    ledger.commit(EndRequest(id="newest", wave=first))
    assert not is_wanted(ledger.requests(first))


def test_request_that_was_ended_is_not_revived_by_its_renewal(ledger: Ledger) -> None:
    """By a person, by its answer that was taken, or by its task that began again: a trigger of before renews nothing,
    and what it renews after the wave has ended is none either."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    renewal = AskForWave(id="one", wave=wave, actor="airflow:hourly/one/ingest", renews=True)
    assert ledger.commit(renewal).request is None
    asked(ledger, wave)
    assert ledger.commit(renewal).request is not None
    ledger.commit(EndRequest(id="one", wave=wave))
    assert ledger.commit(renewal).request is None
    asked(ledger, wave)
    answered(ledger, wave)
    assert error_of(ledger.commit(renewal).request) is not None
    ledger.commit(EndRequest(id="one", wave=wave))
    assert ledger.commit(renewal).request is None
    assert ledger.requests() == ()
    asked(ledger, wave)
    ledger.commit(replace(renewal, id="two", begins=True, renews=False))
    assert ledger.commit(renewal).request is None
    assert [item.id for item in ledger.requests()] == ["two"]


def test_id_of_a_request_is_one_waves(ledger: Ledger) -> None:
    """Ids are random: the same one for another wave is refused."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    asked(ledger, first)
    with pytest.raises(StateError, match="request id one is taken"):
        asked(ledger, second)


def test_unknown_wave_cannot_be_asked_for(ledger: Ledger) -> None:
    """Nor answered, nor ended."""
    for write in (
        AskForWave(id="one", wave="w", actor="a"),
        AnswerRequests(wave="w", error=JobFailedError("x"), actor="a"),
    ):
        with pytest.raises(UnknownSubjectError, match="no wave w"):
            ledger.commit(write)
    assert ledger.commit(EndRequest(id="one", wave="w")) is None


def test_answer_is_kept_for_all_who_asked(ledger: Ledger) -> None:
    """It is read back as the error that it was; what was answered is not wanted, and asking again changes nothing."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    asked(ledger, wave, "one")
    asked(ledger, wave, "two")
    assert answered(ledger, wave) == 2
    assert not is_wanted(ledger.requests(wave))
    again = asked(ledger, wave, "one").request
    for request in (again, ledger.commit(EndRequest(id="two", wave=wave))):
        error = error_of(request)
        assert isinstance(error, JobFailedError)
        assert (error.message, error.facts) == ("No space left", {"reason": "disk"})
    line = ledger.events(SPEC.name)[-1]
    assert (line.kind, line.actor, line.subject, line.detail) == ("answer", "w", wave, "2 requests: JobFailedError")


def test_request_after_an_answer_is_a_new_one(ledger: Ledger) -> None:
    """An answer is about what was tried, and not about the wave."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    asked(ledger, wave, "one")
    answered(ledger, wave)
    assert answered(ledger, wave) == 0
    asked(ledger, wave, "two")
    taken_up = next_request(ledger.requests())
    assert taken_up is not None
    assert taken_up.id == "two"
    assert error_of(taken_up) is None


def test_wave_at_work_is_not_answered(ledger: Ledger) -> None:
    """The worker that failed is not the one that has the wave."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    asked(ledger, wave)
    claim = claimed(ledger, wave)
    assert answered(ledger, wave) == 0
    assert is_wanted(ledger.requests(wave))
    ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.FAILED, error=None))
    assert answered(ledger, wave) == 1


def test_answer_keeps_what_a_task_goes_on_by() -> None:
    """A limit is a fact of its error; a kind that this version does not know is worth repeating."""
    from airflow_kafka_lake.core.errors import TransientError, restored

    error = restored(LimitReachedError("full", limit=3, pipeline="orders").to_json())
    assert isinstance(error, LimitReachedError)
    assert (error.facts["limit"], error.facts["pipeline"]) == (3, "orders")
    assert type(restored({"type": "NewerError", "message": "later"})) is TransientError


@pytest.mark.parametrize("end", [committed, taken])
def test_request_dies_with_its_wave(ledger: Ledger, end: object) -> None:
    """Of a wave that has landed, or that a person has cancelled, nothing is wanted, and asking again says so."""
    (wave,) = planned(ledger, [(0, 0, 10)])
    asked(ledger, wave)
    asked(ledger, wave, "of a task that was cleared")
    end(ledger, wave)  # type: ignore[operator]
    assert not is_wanted(ledger.requests(wave))
    assert asked(ledger, wave).request is None
    assert ledger.requests() == ()
    assert asked(ledger, wave, "other").request is None
    assert ledger.requests() == ()


def test_worker_takes_what_no_living_process_has(ledger: Ledger) -> None:
    """A wave at work is left until its lease has ended, or its process is known to be dead; requests change no wave."""
    first, second = planned(ledger, [(0, 0, 10)], [(0, 10, 20)])
    claim = claimed(ledger, first)
    before = ledger.wave(first)
    asked(ledger, first, "one")
    asked(ledger, second, "two")
    found = ledger.requests()
    assert (found[0].holder, found[0].lease_live) == (HOLDER, True)
    assert [item and item.wave for item in (next_request(found), next_request(found, dead=HOLDER.__eq__))] == [
        second,
        first,
    ]
    assert next_request(found, pipelines=("others",)) is None
    assert next_request(found, pipelines=(SPEC.name,)) == found[1]
    assert ledger.wave(first) == before
    ledger.commit(Renew(key=claim.key, lease=LEASE))
    ledger.commit(EndAttempt(key=claim.key, outcome=AttemptOutcome.FAILED, error=None))
    assert next_request(ledger.requests()) == ledger.requests()[0]


def test_forgotten_requests_are_deleted(sql_ledger: SqlLedger) -> None:
    """Those whose task was gone long ago, as new ones come."""
    (wave,) = planned(sql_ledger, [(0, 0, 10)])
    asked(sql_ledger, wave, "old", wanted_for=-REQUESTS_KEPT)
    asked(sql_ledger, wave, "kept", wanted_for=LAPSED)
    asked(sql_ledger, wave, "new")
    with sql_ledger.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(tables.request)).scalar() == 2
    assert [item.id for item in sql_ledger.requests(wave)] == ["kept", "new"]
