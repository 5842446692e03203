"""Forms: what they show, what the first task makes of what was filled in, and in which words it refuses it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskAwaitingInput
from pydantic import TypeAdapter

from airflow_kafka_lake.actions.offsets import ReopenAction
from airflow_kafka_lake.forms import (
    HOW,
    OFFSETS,
    OPEN,
    decision_form,
    ingest_form,
    ingest_templates,
    review_templates,
)
from airflow_kafka_lake.operators.decisions import SEEN_WITHIN, ReviewPlanOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.task_groups import kafka_lake_ingest

from .conftest import ORDERS, Supervisor, World

Context = dict[str, Any]
FORM = ingest_form({"orders": ORDERS})
EARLY, LATE = "2026-01-31T06:00:00Z", "2026-01-31T07:30:00.000+01:00"


def reviewed(context: Context, **filled: Any) -> ReviewPlanOperator:
    """Return the review of a form that a person has filled in, as Airflow renders it, before its plan."""
    params = {field: param.value for field, param in FORM.items()} | {"pipeline": "orders", **filled}
    with DAG("manual", params=FORM) as dag:
        operator = ReviewPlanOperator(task_id="review", conf_keys=sorted(FORM), **review_templates())
        operator >> kafka_lake_ingest(**ingest_templates())
    operator.render_template_fields({"params": params, "dag": dag})
    operator.pipeline = ORDERS
    context["ti"].task_id = "review"
    return operator


def answered(operator: ReviewPlanOperator, context: Context, chosen: str, person: str | None = "ada") -> dict[str, Any]:
    """Answer what the review shows."""
    from airflow.sdk.timezone import utcnow

    user = {"id": "7", "name": person} if person else None
    event = {"chosen_options": [chosen], "params_input": {}, "responded_at": utcnow(), "responded_by_user": user}
    return operator.execute_complete(context, event)


@pytest.mark.parametrize("fields", [FORM, ingest_form({})], ids=["pipelines", "none"])
def test_every_field_says_what_it_is(fields: dict[str, Param]) -> None:
    """Title and description of each; sections stay together, and what most runs need is in none, so that it is open."""
    for field, param in fields.items():
        assert param.description, field
        assert param.schema["title"], field
    sections = [param.schema["section"] for param in fields.values()]
    assert list(dict.fromkeys(sections)) == [OPEN, OFFSETS, HOW]
    assert sections == sorted(sections, key=list(dict.fromkeys(sections)).index)


def test_form_opens_with_nothing_wrong_where_there_is_one_pipeline() -> None:
    """Airflow marks a field that needs a value and has none: one of several pipelines is chosen by a person."""
    assert FORM["pipeline"].value == "orders"
    assert ingest_form({"clicks": ORDERS, "orders": ORDERS})["pipeline"].has_value is False


def test_fields_that_a_decision_needs_are_in_no_closed_section() -> None:
    """A person sees at once which values are missing."""
    form = decision_form(ReopenAction, {"orders": ORDERS})
    needed = [name for name, field in form.items() if field.schema["type"] == "string"]
    assert needed == ["pipeline", "topic", "reason"]
    assert {form[name].schema["section"] for name in (*needed, "from", "from_offset")} == {OPEN}


def test_form_shows_pickers_choices_and_proposals() -> None:
    """A moment is picked from a calendar, a pipeline chosen, a topic proposed, partitions typed."""
    assert FORM["from"].schema["format"] == FORM["to"].schema["format"] == "date-time"
    assert FORM["pipeline"].schema["enum"] == ["orders"]
    assert FORM["topic"].schema["examples"] == ["orders"]
    assert FORM["partitions"].schema["type"] == ["null", "string"]


@pytest.mark.parametrize("value", ["yesterday", "", "2026-01-31", "-1", 5, ["0"], None], ids=str)
@pytest.mark.parametrize("field", ["topic", "partitions", "from", "to", "from_offset", "to_offset", "reason"])
def test_what_our_words_refuse_better_passes_the_schema(field: str, value: object) -> None:
    """Airflow would say "is not a 'date-time'": the first task says what is wrong and what helps."""
    assert ingest_form({"orders": ORDERS})[field].resolve(value) == value


@pytest.mark.parametrize(
    ("filled", "words"),
    [
        ({"from": "yesterday"}, "from: 'yesterday' is not a time: use a time with its offset from UTC"),
        ({"to": "2026-01-31"}, "to: '2026-01-31' is not a time but a date, and days begin at different moments"),
        ({"from": "2026-01-31T06:00:00"}, 'because it has no offset (UTC: "2026-01-31T06:00:00Z")'),
        ({"from": LATE, "to": EARLY}, "is not before to 2026-01-31T06:00:00+00:00: a period is [from, to)"),
        ({"from": EARLY, "to_offset": "9"}, "begins at '2026-01-31T06:00:00Z' and ends at '9': one is an offset and"),
        ({"from": "7", "to": EARLY}, "Give both as times, or both as offsets"),
        ({"from": EARLY, "from_offset": "9"}, "begin of the period is given twice, by from '2026-01-31T06:00:00Z' and"),
        ({"to": "8", "to_offset": "9"}, "the end of the period is given twice, by to '8' and to_offset '9': empty one"),
        ({"from_offset": EARLY}, "from_offset: '2026-01-31T06:00:00Z' is not an offset: use digits only, such as 1200"),
        ({"from_offset": -1}, "from_offset: '-1' is not an offset"),
        ({"from_offset": "9", "to_offset": "3"}, "from 9 is not before to 3: a range is [from, to)"),
        ({"partitions": "0;x"}, "partitions: 'x' is not a partition: use partition numbers and spans of them, such"),
        ({"partitions": "9-5"}, "partitions: '9-5' ends before it begins: write 5-9"),
        ({"partitions": "3000000000"}, "partitions: '3000000000' is above the largest partition number, 2147483647"),
        ({"partitions": "0-20000"}, "partitions: '0-20000' names more than 10,000 partitions: leave it empty for all"),
        ({"partitions": [0.5]}, "is no list of partitions"),
        ({"partitions": []}, "no partition was named"),
        ({"partitions": " , "}, "names no partition: use partition numbers"),
        ({"max_waves": "few"}, "max_waves: 'few' is not a number of waves: use a whole number from 1 to 10000"),
        ({"bytes_per_second": "5 mb"}, "bytes_per_second: '5 mb' is not a size (did you mean 5 MB?)"),
        ({"topic": "no topic"}, "topic: 'no topic' is not a legal topic name: 1 to 249 of A-Z a-z 0-9 . _ -"),
        ({"topic": "orderz", "dry_run": True}, "not one of pipeline orders: it has orders; did you mean 'orders'?"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_value_is_refused_in_words_by_the_first_task(
    world: World, context: Context, filled: dict[str, Any], words: str
) -> None:
    """Without a retry and before anything happens: the field, the value and what helps."""
    with pytest.raises(AirflowFailException) as refused:
        reviewed(context, **filled).execute(context)
    assert words in str(refused.value)
    assert world.ledger.pipelines() == ()


@pytest.mark.parametrize(
    "filled",
    [
        {},
        {"from": EARLY, "to": "2026-01-31T07:00:00.000Z"},
        {"from_offset": "0", "to_offset": 5},
        {"from": "0", "to": "5"},
        {"from": 3},
    ],
    ids=str,
)
def test_run_that_asks_for_nothing_to_be_shown_goes_on_at_once(
    world: World, context: Context, filled: dict[str, Any]
) -> None:
    """The form was read, and nothing else was touched."""
    assert reviewed(context, **filled).execute(context) == {"pipeline": "orders", "asked": False}
    assert world.opened == []


@pytest.mark.parametrize(
    "filled",
    [{"partitions": "0-1"}, {"partitions": " 1 , 0 "}, {"partitions": [0, 1], "topic": "orders", "to": EARLY}],
    ids=str,
)
def test_partitions_and_topic_are_looked_up_before_anything_starts(
    world: World, context: Context, filled: dict[str, Any]
) -> None:
    """In Kafka's list alone: no log is observed, no table read, no job prepared."""
    world.kafka.log("orders", 0).unreachable = world.kafka.log("orders", 1).unreachable = "not to be asked for"
    assert reviewed(context, **filled).execute(context) == {"pipeline": "orders", "asked": False}
    assert [("need_spark" in opened, opened["need_kafka"]) for opened in world.opened] == [(False, True)]
    assert world.ledger.pipelines() == ()


@pytest.mark.parametrize(
    ("filled", "words"),
    [
        ({"partitions": "1-2"}, "UnknownPartitionError: orders has no partition 2: it has 0 to 1"),
        (
            {"topic": "orderz"},
            "UnknownTopicError: topic 'orderz' is not one of pipeline orders: it has orders; did you",
        ),
        ({"topic": "orders", "partitions": "7", "from": "0", "to": "5"}, "orders has no partition 7: it has 0 to 1"),
    ],
    ids=str,
)
def test_partition_or_topic_that_is_not_there_is_refused_by_the_first_task(
    world: World, context: Context, filled: dict[str, Any], words: str
) -> None:
    """As the documents promise: nothing behind it begins."""
    with pytest.raises(AirflowFailException, match=re.escape(words)):
        reviewed(context, **filled).execute(context)


def test_dry_run_shows_its_plan_in_the_run_and_starts_nothing(
    world: World, context: Context, supervisor: Supervisor
) -> None:
    """What a person reads is a table with numbers; it asks nothing, and the tasks behind it are skipped."""
    world.produce(5)
    operator = reviewed(context, dry_run=True, partitions="0", to_offset="4", reason="a | look")
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator.execute(context)
    assert waiting.value.timeout == SEEN_WITHIN
    (shown,) = supervisor.asked
    assert (
        shown.subject
        == "Dry run: orders: 4 offsets, at most 4 records, about 64 bytes in Kafka, in 1 wave into raw.orders"
    )
    assert (shown.options, shown.defaults) == (["Seen"], ["Seen"])
    assert "| orders/0 | 0-4 | 4 |" in shown.body
    assert r"Reason: a \| look" in shown.body
    assert "Nothing was recorded. To read it, " in shown.body
    assert context["ti"].xcom_pull("review", "plan")["records"] == 4
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        answered(reviewed(context, dry_run=True), context, "Seen", person=None)
    assert skipped.value.tasks == ["kafka_lake.plan"]
    assert world.ledger.pipelines() == ()


@pytest.mark.usefixtures("world")
def test_dry_run_that_finds_nothing_does_not_tell_how_to_read_it(context: Context, supervisor: Supervisor) -> None:
    """In earnest it would find nothing either."""
    with pytest.raises(TaskAwaitingInput):
        reviewed(context, dry_run=True).execute(context)
    assert supervisor.asked[0].body.endswith("Nothing was recorded.")


def test_plan_that_asks_waits_for_a_person(world: World, context: Context, supervisor: Supervisor) -> None:
    """Approved: the tasks behind it run. Rejected, or not answered: they are skipped."""
    world.produce(5)
    with pytest.raises(TaskAwaitingInput) as waiting:
        reviewed(context, ask=True).execute(context)
    assert waiting.value.timeout is not None
    (shown,) = supervisor.asked
    assert (shown.options, shown.defaults) == (["Approve", "Reject"], ["Reject"])
    assert shown.subject.startswith("Start this: orders: 5 offsets")
    assert answered(reviewed(context, ask=True), context, "Approve") == {
        "asked": True, "answer": "Approve", "by": "ada",
    }  # fmt: skip
    for person in ("ada", None):
        with pytest.raises(DownstreamTasksSkipped):
            answered(reviewed(context, ask=True), context, "Reject", person)
    assert world.ledger.pipelines() == ()


def test_shown_plan_names_what_earlier_runs_left(world: World, context: Context, supervisor: Supervisor) -> None:
    """Who approves sees every wave that would be read."""
    world.produce(3)
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(context)
    with pytest.raises(TaskAwaitingInput):
        reviewed(context, ask=True).execute(context)
    (shown,) = supervisor.asked
    assert (
        "orders: nothing to read: everything up to the end policy is planned or landed, in 2 partitions"
        in shown.subject
    )
    assert f"| {wave} |" in shown.body


def test_answer_survives_airflows_wire(context: Context, world: World, supervisor: Supervisor) -> None:
    """What is sent to the supervisor is what its protocol takes."""
    world.produce(1)
    with pytest.raises(TaskAwaitingInput):
        reviewed(context, ask=True).execute(context)
    (shown,) = supervisor.asked
    assert TypeAdapter(type(shown)).validate_json(shown.model_dump_json()) == shown
