"""Reopen, skip and withdraw in a Dag: shown, approved by a person, carried out once, over the ledgers of both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskAwaitingInput
from airflow.sdk.timezone import utcnow

from airflow_kafka_lake.actions.offsets import OffsetsAction, ReopenAction, SkipAction, WithdrawAction
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.changes import Write
from airflow_kafka_lake.core.ledger.history import Event
from airflow_kafka_lake.core.ledger.reopening import Reopen
from airflow_kafka_lake.forms import HOW, OPEN, decision_form, decision_templates
from airflow_kafka_lake.operators.decisions import (
    ApproveDecisionOperator,
    DecisionTask,
    ReopenOperator,
    SkipOperator,
    WithdrawOperator,
)
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator

from .conftest import ORDERS, Supervisor, World

Context = dict[str, Any]
PERIOD = {"pipeline": ORDERS, "topic": "orders", "from_": "1", "to": "4", "reason": "wrong decoder"}
OPERATORS: dict[type[OffsetsAction], type[DecisionTask]] = {
    ReopenAction: ReopenOperator,
    SkipAction: SkipOperator,
    WithdrawAction: WithdrawOperator,
}


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Iterator[World]:
    """The world in memory, and with a ledger in a file."""
    if request.param == "memory":
        yield world
        return
    world.clock.advance(datetime.now(UTC) - world.clock.now())
    ledger = SqlLedger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.upgrade()
    world.ledger = ledger  # type: ignore[assignment]
    yield world
    ledger.close()


def shown(context: Context, kind: type[DecisionTask], **given: Any) -> dict[str, Any]:
    """Have a decision shown, as task `explain`."""
    context["ti"].task_id = "explain"
    kind(task_id="explain", is_dry_run=True, **given).execute(context)
    return context["ti"].xcom_pull("explain", "shown")


def approved(context: Context, person: str | None = "ada", chosen: str = "Approve") -> None:
    """Answer what was shown, as task `approve`."""
    operator = ApproveDecisionOperator(task_id="approve", explain_task_id="explain")
    context["ti"].task_id = "approve"
    with pytest.raises(TaskAwaitingInput):
        operator.execute(context)
    user = {"id": "7", "name": person} if person else None
    event = {"chosen_options": [chosen], "params_input": {}, "responded_at": utcnow(), "responded_by_user": user}
    context["ti"].xcom_push("return_value", operator.execute_complete(context, event))


def decided(context: Context, kind: type[DecisionTask], **given: Any) -> dict[str, Any]:
    """Carry a decision out, as task `decide` behind the other two."""
    context["ti"].task_id = "decide"
    tasks = {"explain_task_id": "explain", "approval_task_id": "approve"}
    return kind(task_id="decide", **tasks, **given).execute(context)


def landed(world: World, context: Context, records: int = 5) -> None:
    """Bring some records of partition 0 into the lake."""
    world.produce(records)
    waves = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    for wave in waves:
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    world.ledger.advance("orders")


def history(world: World, kind: str) -> list[Event]:
    return [event for event in world.ledger.events("orders") if event.kind == kind]


def test_reopen_is_shown_approved_and_recorded_with_the_approvers_name(
    world: World, context: Context, supervisor: Supervisor
) -> None:
    """The dry task changes nothing; the decision names person, task and reason, and what to do next."""
    landed(world, context)
    before = world.ledger.events("orders")
    found = shown(context, ReopenOperator, **PERIOD, partitions="0")
    assert found["subject"] == "Reopen 3 offsets with 3 rows of 1 partition of orders?"
    assert "| orders/0 | 1-4 | 3 | 3 | 1 | 1 |" in found["body"]
    assert "Reason: wrong decoder" in found["body"]
    assert "Reopen 3 offsets" not in found["body"], "Airflow shows the subject above it"
    assert world.ledger.events("orders") == before
    approved(context)
    assert supervisor.asked[0].body == found["body"]
    assert decided(context, ReopenOperator, **PERIOD, partitions="0") == {
        "pipeline": "orders", "decision": "reopen", "offsets": 3, "by": "ada",
        "waves": [wave.id for wave in world.ledger.waves("orders")][1:],
        "next": "What is in the lake stays until it is read again: kafka-lake run orders, or the pipeline's next run",
    }  # fmt: skip
    (event,) = history(world, "reopen")
    assert event.actor == "airflow user ada, airflow:dag/run/decide"
    assert event.detail.endswith(": wrong decoder")
    assert world.watermarks()[0] == 1


def test_skip_is_shown_approved_and_recorded(world: World, context: Context, supervisor: Supervisor) -> None:
    """What stays unread, of which waves, is in the text that the person approves."""
    world.produce(5)
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    found = shown(context, SkipOperator, **PERIOD, partitions=[0], acknowledge_order=True)
    assert found["subject"] == "Skip 3 offsets of 1 partition of orders?"
    assert f"| orders/0 | 1-4 | 3 | {wave} | none | none |" in found["body"]
    assert "may be read although these are missing" in found["body"]
    approved(context, "eve")
    assert decided(context, SkipOperator, **PERIOD, partitions=[0], acknowledge_order=True)["offsets"] == 3
    (event,) = history(world, "skip")
    assert event.actor == "airflow user eve, airflow:dag/run/decide"
    assert event.detail == "orders/0 1-4, 3 offsets: wrong decoder"


def test_withdrawal_is_shown_approved_and_recorded(world: World, context: Context, supervisor: Supervisor) -> None:
    """Of a pipeline, or of one wave; what is not planned any more is planned again by the next plan."""
    world.produce(5)
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    given = {"pipeline": ORDERS, "reason": "wrong year", "subject": wave}
    found = shown(context, WithdrawOperator, **given)
    assert found["subject"] == "Withdraw 5 offsets of 1 partition of orders?"
    assert "| orders/0 | 0-5 | 5 |" in found["body"]
    approved(context)
    assert decided(context, WithdrawOperator, **given)["by"] == "ada"
    (event,) = history(world, "withdraw")
    assert (event.actor, event.subject) == ("airflow user ada, airflow:dag/run/decide", wave)
    assert PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)


@pytest.mark.parametrize("person", ["ada", None])
def test_rejected_decision_changes_nothing_and_says_so(
    world: World, context: Context, supervisor: Supervisor, person: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does one that no person has answered in time; and the task behind it refuses to go on without an approval."""
    landed(world, context)
    shown(context, ReopenOperator, **PERIOD, partitions="0")
    before = world.ledger.events("orders")
    with pytest.raises(AirflowFailException, match=r"approve holds no approval: nothing was changed"):
        decided(context, ReopenOperator, **PERIOD, partitions="0")
    said = "ada has rejected it: nothing was changed" if person else "no answer came in time: nothing was changed"
    operator = ApproveDecisionOperator(task_id="approve", explain_task_id="explain")
    event = {
        "chosen_options": ["Reject"],
        "params_input": {},
        "responded_at": utcnow(),
        "responded_by_user": {"id": "7", "name": person} if person else None,
    }
    operator.execute_complete(context, event)  # without a Dag it has nothing to skip
    assert said in capsys.readouterr().out
    assert world.ledger.events("orders") == before


def test_rejection_skips_the_decision_of_its_dag(context: Context, world: World, supervisor: Supervisor) -> None:
    """The task that would decide is not run."""
    from airflow.sdk import DAG

    with DAG("kafka_lake_skip") as dag:
        approve = ApproveDecisionOperator(task_id="approve", explain_task_id="explain")
        approve >> SkipOperator(task_id="skip", approval_task_id="approve", **PERIOD)
    event = {"chosen_options": ["Reject"], "params_input": {}, "responded_at": utcnow(), "responded_by_user": None}
    context["task"] = dag.get_task("approve")
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        approve.execute_complete(context, event)
    assert skipped.value.tasks == ["skip"]


@pytest.mark.parametrize("kind", OPERATORS)
def test_decision_is_carried_out_once_however_often_its_task_is_cleared(
    world: World, context: Context, supervisor: Supervisor, kind: type[OffsetsAction]
) -> None:
    """Also after its waves were worked on: a cleared task finds its own decision in the history."""
    given = {**PERIOD, "partitions": "0"}
    if kind is ReopenAction:
        landed(world, context)
    else:
        world.produce(5)
        PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    shown(context, OPERATORS[kind], **given)
    approved(context)
    first = decided(context, OPERATORS[kind], **given)
    assert first["offsets"] == 3
    for wave in PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context):
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    for _ in range(2):
        assert decided(context, OPERATORS[kind], **given)["offsets"] == 0
    assert len(history(world, kind.name)) == 1
    approved(context, "eve")
    shown_again = kind is ReopenAction
    if shown_again:  # what was read again can be reopened again, by another approval of another look
        shown(context, OPERATORS[kind], **given)
        assert decided(context, OPERATORS[kind], **given)["offsets"] == 3


def test_decision_that_ended_in_between_is_finished_by_its_retry(
    world: World, context: Context, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition was reopened when the ledger went away: the retry reopens the other, and that one not again."""
    landed(world, context)
    world.produce(5, partition=1)
    for wave in PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context):
        IngestWaveOperator(task_id="ingest", wave=wave).execute(context)
    shown(context, ReopenOperator, **PERIOD)
    approved(context)
    alive, reopens = world.ledger.commit, 0

    def dying(write: Write[Any]) -> object:
        nonlocal reopens
        reopens += isinstance(write, Reopen)
        if reopens > 1:
            raise UnavailableError("the ledger went away")
        return alive(write)

    with monkeypatch.context() as patched:
        patched.setattr(world.ledger, "commit", dying)
        with pytest.raises(UnavailableError, match=r"Done: orders/0 1-4. Not done: orders/1 1-4"):
            decided(context, ReopenOperator, **PERIOD)
    assert decided(context, ReopenOperator, **PERIOD)["offsets"] == 3
    slices = sorted(str(item) for event in history(world, "reopen") for item in event.slices)
    assert slices == ["orders/0 1-4", "orders/1 1-4"]
    assert len({event.actor for event in history(world, "reopen")}) == 1


@pytest.mark.parametrize("kind", OPERATORS)
def test_decision_about_other_offsets_than_were_shown_is_refused(
    world: World, context: Context, supervisor: Supervisor, kind: type[OffsetsAction]
) -> None:
    """A period by time reaches further when records have come: who approved has not seen those."""
    given = {**PERIOD, "to": "2099-01-01T00:00:00Z", "from_": "1970-01-01T00:00:00Z", "partitions": "0"}
    if kind is ReopenAction:
        landed(world, context)
    else:
        world.produce(5)
        PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    shown(context, OPERATORS[kind], **given)
    approved(context)
    world.produce(2)
    PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    with pytest.raises(AirflowFailException, match="not the offsets that were shown"):
        decided(context, OPERATORS[kind], **given)
    assert history(world, kind.name) == []


@pytest.mark.parametrize(
    ("kind", "changed", "words"),
    [
        (ReopenOperator, {"reason": " "}, "reason: one is needed"),
        (SkipOperator, {"topic": None}, "topic: it is needed. A skip is about a period of one topic"),
        (ReopenOperator, {"to": ""}, "to: it is needed. A reopen is about a period of one topic"),
        (ReopenOperator, {"from_": None}, "from: it is needed"),
        (SkipOperator, {"from_offset": "1"}, "the begin of the period is given twice"),
        (SkipOperator, {"to": "2026-01-31T06:00:00Z"}, "one is an offset and the other a time"),
        (SkipOperator, {"partitions": "x"}, "partitions: 'x' is not a partition"),
        (ReopenOperator, {"accept_fewer": "perhaps"}, "accept_fewer must be true or false"),
        (ReopenOperator, {"to": "99"}, "were never planned"),
        (SkipOperator, {"to": "99"}, "is beyond the end of the log"),
        (WithdrawOperator, {"subject": "nothing"}, "no pipeline, plan, wave or range 'nothing'"),
        (WithdrawOperator, {}, "nothing was withdrawn of orders"),
    ],
)
@pytest.mark.parametrize("world", ["memory"], indirect=True)
def test_decision_is_refused_in_words_by_the_task_that_shows_it(
    world: World, context: Context, kind: type[DecisionTask], changed: dict[str, Any], words: str
) -> None:
    """Before anybody is asked: the field and what helps, or what the command of that name says."""
    landed(world, context)
    with pytest.raises(AirflowFailException) as refused:
        shown(context, kind, **{**PERIOD, "partitions": "0", **changed})
    assert words in str(refused.value)


@pytest.mark.parametrize("left", [None, {"subject": "Skip?", "body": "all of it", "digest": "0" * 16}])
def test_approval_needs_something_that_was_shown(context: Context, supervisor: Supervisor, left: Any) -> None:
    """A dry task that failed leaves nothing to approve, nor does one of a version that has shown less."""
    context["ti"].task_id = "explain"
    context["ti"].xcom_push(key="shown", value=left)
    with pytest.raises(AirflowFailException, match="explain has shown nothing"):
        ApproveDecisionOperator(task_id="approve", explain_task_id="explain").execute(context)
    assert supervisor.asked == []


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("pipelines", [{"orders": ORDERS}, {}], ids=["pipelines", "none"])
def test_every_field_of_a_decision_says_what_it_is(kind: type[OffsetsAction], pipelines: dict[str, Any]) -> None:
    """Title, description and section of each; what is needed is marked; the operator gets every field."""
    fields = decision_form(kind, pipelines)
    assert all(param.description and param.schema["title"] for param in fields.values())
    sections = list(dict.fromkeys(param.schema["section"] for param in fields.values()))
    assert OPEN in sections
    assert (HOW in sections) is bool(kind.switches())
    needed = {name for name, param in fields.items() if param.schema["type"] == "string"}
    assert needed == {"pipeline", "reason"} | (set() if kind is WithdrawAction else {"topic"})
    assert {"from_" if name == "from" else name for name in fields} == set(decision_templates(kind))
    OPERATORS[kind](task_id="decide", **decision_templates(kind))
