"""Closed hours: each is one asset event with its key, once all of it is in the lake; late records have theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_kafka_lake.assets import closed_periods, late_records
from airflow_kafka_lake.core.errors import UnavailableError, UsageError
from airflow_kafka_lake.core.ledger.moves import AT_ONCE
from airflow_kafka_lake.core.wire import milliseconds
from airflow_kafka_lake.operators.advance import EVENTS, AdvanceWatermarkOperator
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.task_groups import kafka_lake_ingest

from .conftest import ORDERS, Events, World

Context = dict[str, Any]
HOUR = timedelta(hours=1)
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
"""When the world's clock begins."""

_runs = count(1)


def at(hour: float) -> int:
    """Return an hour of the first day, in Kafka's milliseconds."""
    return milliseconds(BEGUN + hour * HOUR)


def produce(world: World, partition: int, *hours: float, transaction: str | None = None) -> None:
    """Produce a record of each of some hours."""
    for hour in hours:
        world.kafka.produce("orders", partition, b"v", timestamp_ms=at(hour), transaction=transaction)


def run(world: World, told: Events, **given: Any) -> Context:
    """Run a Dag up to its last task, as far as Airflow has not heard of its success."""
    number = next(_runs)
    plan = told.task("plan", number=number)
    pipeline = given.get("pipeline", ORDERS)
    for index, wave in enumerate(PlanIngestOperator(task_id="plan", pipeline=pipeline).execute(plan)):
        context = told.task("ingest", index, number=number)
        context["task"] = IngestWaveOperator(task_id="ingest", wave=wave)
        context["task"].execute(context)
        told.succeed(context)
    return advance(told, **given)


def advance(told: Events, **given: Any) -> Context:
    """Run the task that advances, and closes hours, as far as Airflow has not heard of its success."""
    context = told.task("advance", number=next(_runs))
    given = {"closes": "hour", "since": BEGUN, "pipeline": ORDERS} | given
    if kind := given["closes"]:
        given["outlets"] = [closed_periods("orders", kind), late_records("orders", kind)]
    context["task"] = AdvanceWatermarkOperator(task_id="advance", **given)
    context["result"] = context["task"].execute(context)
    return context


def keys(told: Events, asset: Any) -> list[str | None]:
    """Return the partition keys of all accepted events of an asset."""
    return [event.key for event in told.accepted if event.uri == asset.uri]


def closed(told: Events) -> list[str | None]:
    """Return the closed hours that Airflow was told of."""
    return keys(told, closed_periods("orders"))


def late(told: Events) -> list[tuple[str, dict[str, int]]]:
    """Return the late records that Airflow was told of: the key of each event, and what all of its task say."""
    return [(event.key, event.extra["late"]) for event in told.accepted if event.uri == late_records("orders").uri]


def test_hour_is_closed_when_every_partition_has_passed_it(world: World, told: Events) -> None:
    """Once; an hour that goes on is not over, and a task that closes none emits nothing."""
    produce(world, 0, 0.1, 0.9, 1.1)
    produce(world, 1, 0.2)
    world.clock.advance(timedelta(minutes=30))
    told.succeed(run(world, told))
    assert closed(told) == []
    world.clock.advance(timedelta(minutes=40))
    context = run(world, told)
    assert context["result"]["closed"] == ["2026-01-01T00"]
    assert closed(told) == [], "Airflow has not accepted it yet"
    told.succeed(context)
    assert closed(told) == ["2026-01-01T00"]
    (event,) = [event for event in told.accepted if event.key]
    assert event.extra["pipeline"] == "orders"
    assert event.extra["closed"] == ["2026-01-01T00"]
    told.succeed(run(world, told))
    assert (closed(told), late(told)) == (["2026-01-01T00"], [])


def test_records_that_wait_keep_their_hour_open(world: World, told: Events) -> None:
    """What Kafka has of it, and the lake has not."""
    produce(world, 0, 0.1)
    told.succeed(run(world, told))
    produce(world, 0, 0.5)
    world.clock.advance(2 * HOUR)
    told.succeed(advance(told))
    assert closed(told) == []
    told.succeed(run(world, told))
    assert closed(told) == ["2026-01-01T00", "2026-01-01T01"]


def test_busy_partition_closes_an_hour_behind_which_it_has_records(world: World, told: Events) -> None:
    """Those of the next hour need not be in the lake."""
    produce(world, 0, 0.1, 0.9)
    world.clock.advance(HOUR)
    context = run(world, told)
    assert context["result"]["closed"] == ["2026-01-01T00"]
    produce(world, 0, 1.1)
    told.succeed(context)
    world.clock.advance(HOUR)
    produce(world, 0, 1.9, 2.0)
    told.succeed(advance(told))
    assert closed(told) == ["2026-01-01T00"]
    told.succeed(run(world, told))
    produce(world, 0, 2.1)
    assert closed(told) == ["2026-01-01T00", "2026-01-01T01"]


def test_ledger_knows_at_once_what_airflow_has_accepted(world: World, told: Events) -> None:
    """Airflow may forget its events: they are not asked for again."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    told.succeed(run(world, told))
    produce(world, 0, 0.2)
    world.clock.advance(HOUR)
    told.succeed(run(world, told))
    assert (len(closed(told)), len(late(told))) == (2, 1)
    told.accepted.clear()
    context = run(world, told)
    assert (context["result"]["closed"], context["result"]["late"]) == ([], {})


@pytest.mark.parametrize("commit", [True, False])
def test_open_transaction_keeps_its_hour_open(world: World, told: Events, commit: bool) -> None:
    """However late it is, and whatever the other partitions have; once it has ended, its hour is closed."""
    produce(world, 0, 0.1)
    produce(world, 0, 0.5, transaction="t")
    produce(world, 1, 0.1)
    world.clock.advance(5 * HOUR)
    told.succeed(run(world, told))
    assert closed(told) == []
    world.kafka.end("t", commit=commit)
    told.succeed(run(world, told))
    assert closed(told) == [f"2026-01-01T0{hour}" for hour in range(5)]
    assert late(told) == []


def test_open_transaction_of_a_later_hour_keeps_only_that_open(world: World, told: Events) -> None:
    """A record of the next hour comes before it."""
    produce(world, 0, 0.1, 1.1)
    produce(world, 0, 1.2, transaction="t")
    world.clock.advance(2 * HOUR)
    told.succeed(run(world, told))
    assert closed(told) == ["2026-01-01T00"]


def test_late_records_are_told_as_such_once(world: World, told: Events) -> None:
    """By hour, by an event of their own; their hour is not closed again, and one in time is not late."""
    produce(world, 0, 0.1)
    world.clock.advance(2 * HOUR)
    told.succeed(run(world, told))
    produce(world, 1, 0.3, 1.5, 0.4, 2.5)
    told.succeed(run(world, told))
    assert late(told) == [
        ("2026-01-01T00", {"2026-01-01T00": 2, "2026-01-01T01": 1}),
        ("2026-01-01T01", {"2026-01-01T00": 2, "2026-01-01T01": 1}),
    ]
    world.clock.advance(HOUR)
    told.succeed(run(world, told))
    assert len(late(told)) == 2
    assert closed(told) == ["2026-01-01T00", "2026-01-01T01", "2026-01-01T02"]


def test_late_record_that_lands_in_the_table_of_before_is_told(world: World, told: Events) -> None:
    """The pipeline names another table since its wave was planned; each record is told of once."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    told.succeed(run(world, told))
    produce(world, 0, 0.2, 0.3)
    PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(told.task("plan", number=next(_runs)))
    produce(world, 0, 0.4)
    produce(world, 1, 0.5)
    told.succeed(run(world, told, pipeline=Pipeline(name="orders", topics=["orders"], table="raw.other")))
    assert [len(world.lake.table(name).rows()) for name in ("raw.orders", "raw.other")] == [3, 2]
    assert late(told) == [("2026-01-01T00", {"2026-01-01T00": 4})]


def test_records_within_the_lateness_are_not_late(world: World, told: Events) -> None:
    """An hour waits so long for them after its end; what the first record behind the lateness stands before is in."""
    wait = timedelta(minutes=10)
    produce(world, 0, 0.1)
    world.clock.advance(HOUR + timedelta(minutes=9))
    told.succeed(run(world, told, lateness=wait))
    assert closed(told) == []
    produce(world, 0, 1.1, 0.9)
    told.succeed(run(world, told, lateness=wait))
    world.clock.advance(timedelta(minutes=1))
    produce(world, 0, 0.95)
    told.succeed(advance(told, lateness=wait))
    assert closed(told) == [], "a record behind the hour's end is in the lake, and one before it is not"
    told.succeed(run(world, told, lateness=wait))
    assert closed(told) == ["2026-01-01T00"]
    assert late(told) == []


def test_first_hour_is_the_next_that_begins(world: World, told: Events) -> None:
    """Without `since`: the one that goes on may have begun before the pipeline, and of it nothing is told as late."""
    produce(world, 0, 0.1)
    world.clock.advance(timedelta(minutes=90))
    for hour in range(3):
        told.succeed(run(world, told, since=None))
        assert closed(told) == ["2026-01-01T02"][: max(0, hour - 1)]
        produce(world, 0, 0.2, 1.7, hour + 1.8)
        world.clock.advance(HOUR)
    assert late(told) == []


@pytest.mark.parametrize("since", [BEGUN, BEGUN + HOUR, BEGUN + 5 * HOUR])
def test_nothing_is_late_of_an_hour_before_the_first(world: World, told: Events, since: datetime) -> None:
    """It was never closed, and never will be; whatever comes of it, and whenever the first hour is."""
    for hour in range(4):
        produce(world, 0, 0.1, 0.9, hour + 0.5)
        world.clock.advance(HOUR)
        told.succeed(run(world, told, since=since.isoformat()))
    first = (since - BEGUN) // HOUR
    assert closed(told) == [f"2026-01-01T0{hour}" for hour in range(first, 4)]
    assert {key for key, _ in late(told)} == ({"2026-01-01T00"} if first == 0 else set())


@pytest.mark.parametrize("named", [{"topics": ["orders", "returns"]}, {"topic_pattern": "orders|returns"}])
def test_topic_that_was_never_planned_keeps_its_hours_open(world: World, told: Events, named: dict[str, Any]) -> None:
    """It came after the plan, or no plan could see it: what Kafka has of it is not in the lake."""
    pipeline = Pipeline(name="orders", table="raw.orders", **named)
    produce(world, 0, 0.1)
    told.succeed(run(world, told))
    world.kafka.create_topic("returns", 1)
    world.kafka.produce("returns", 0, b"v", timestamp_ms=at(0.5))
    world.clock.advance(HOUR)
    told.succeed(advance(told, pipeline=pipeline))
    assert closed(told) == []
    told.succeed(run(world, told, pipeline=pipeline))
    assert closed(told) == ["2026-01-01T00"]


def test_days_are_closed_too(world: World, told: Events) -> None:
    """In UTC."""
    produce(world, 0, 0.1)
    world.clock.advance(25 * HOUR)
    told.succeed(run(world, told, closes="day"))
    assert keys(told, closed_periods("orders", "day")) == ["2026-01-01"]
    assert closed(told) == []


def test_many_hours_are_closed_in_several_runs(world: World, told: Events) -> None:
    """Each would be a Dag run."""
    produce(world, 0, 0.1)
    world.clock.advance((AT_ONCE + 5) * HOUR)
    told.succeed(run(world, told))
    assert len(closed(told)) == AT_ONCE
    told.succeed(run(world, told))
    assert len(closed(told)) == AT_ONCE + 5 == len(set(closed(told)))


@pytest.mark.parametrize("state", ["failed", "up_for_retry"])
def test_task_that_ends_before_its_events_are_accepted_loses_none(world: World, told: Events, state: str) -> None:
    """The next one tells of the hour, and of the late record."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    told.succeed(run(world, told))
    produce(world, 0, 0.2)
    world.clock.advance(HOUR)
    told.end(run(world, told), state)
    told.succeed(run(world, told))
    assert closed(told) == ["2026-01-01T00", "2026-01-01T01"]
    assert late(told) == [("2026-01-01T00", {"2026-01-01T00": 1})]


def test_task_that_ends_after_its_events_were_accepted_tells_none_twice(world: World, told: Events) -> None:
    """Killed before it could say so: Airflow has the events, and the next task finds them there."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    told.end(run(world, told))
    produce(world, 0, 0.2)
    world.clock.advance(HOUR)
    told.end(run(world, told))
    told.succeed(run(world, told))
    assert closed(told) == ["2026-01-01T00", "2026-01-01T01"]
    assert late(told) == [("2026-01-01T00", {"2026-01-01T00": 1})]


def test_task_that_meets_another_at_work_waits_for_it(world: World, told: Events) -> None:
    """And tells of what that one does not."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    first = run(world, told)
    world.clock.advance(HOUR)
    told.states["advance"] = "running"
    first["ti"].try_number = 0
    second = told.task("other")
    outlets = [closed_periods("orders"), late_records("orders")]
    second["task"] = AdvanceWatermarkOperator(task_id="other", pipeline=ORDERS, closes="hour", outlets=outlets)
    sleep = world.clock.sleep

    def accepted(seconds: float) -> None:
        told.end(first)
        sleep(seconds)

    world.clock.sleep = accepted  # type: ignore[method-assign]
    second["task"].execute(second)
    told.succeed(second)
    assert closed(told) == ["2026-01-01T00", "2026-01-01T01"]


def test_airflow_without_asset_partitions_names_the_hours(
    world: World, told: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the extra of one event."""
    from airflow.sdk.execution_time.context import OutletEventAccessor

    monkeypatch.delattr(OutletEventAccessor, "add_partitions")
    produce(world, 0, 0.1)
    world.clock.advance(2 * HOUR)
    told.succeed(run(world, told))
    (event,) = [event for event in told.accepted if event.uri == closed_periods("orders").uri]
    assert (event.key, event.extra["closed"]) == (None, ["2026-01-01T00", "2026-01-01T01"])


def test_partition_that_is_not_observed_keeps_all_open(
    world: World, told: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known of it; a Kafka that does not answer fails the task, which Airflow tries again."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    ran = run(world, told, closes=None)
    told.succeed(ran)
    snapshot = world.kafka.snapshot

    def partly(topics: Sequence[str], group: str | None) -> Any:
        seen = snapshot(topics, group)
        reason = SimpleNamespace(topic="orders", partition=1, reason="its leader is away", topic_id=None)
        return replace(seen, partitions=seen.partitions[:1], unknown=(reason,))

    def left_out(topics: Sequence[str], group: str | None) -> Any:
        seen = snapshot(topics, group)
        return replace(seen, partitions=seen.partitions[:1])

    monkeypatch.setattr(world.kafka, "snapshot", partly)
    told.succeed(advance(told))
    monkeypatch.setattr(world.kafka, "snapshot", left_out)
    told.succeed(advance(told))
    assert closed(told) == []

    def away(*_: Any) -> Any:
        raise UnavailableError("Kafka does not answer")

    monkeypatch.setattr(world.kafka, "snapshot", away)
    with pytest.raises(UnavailableError):
        advance(told)
    monkeypatch.setattr(world.kafka, "snapshot", snapshot)
    told.succeed(advance(told))
    assert closed(told) == ["2026-01-01T00"]


@pytest.mark.parametrize("pipeline", ["orders.toml", "{{ params.pipeline }}", Path("/dags/orders")])
def test_pipeline_that_is_not_known_when_the_dag_is_read_closes_nothing(pipeline: Any) -> None:
    """Its assets have to be known by then."""
    with DAG("d", schedule=None), pytest.raises(UsageError, match=r"closes: .* is no name"):
        kafka_lake_ingest(pipeline, closes="hour")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"closes": "minute"}, "closes: hour or day, with closed_periods and late_records among"),
        ({"closes": "hour", "outlets": []}, "closes: hour or day, with closed_periods and late_records among"),
        ({"since": datetime(2026, 1, 1)}, "since: .* is no time with its zone"),  # noqa: DTZ001
        ({"since": "2026-01-01"}, "'2026-01-01' is not a time but a date"),
        ({"lateness": -HOUR}, "lateness: .* is no length of time"),
        ({"lateness": 4}, "lateness: 4 is no length of time"),
    ],
)
def test_mistakes_are_refused_in_a_sentence(world: World, told: Events, given: dict[str, Any], message: str) -> None:
    """Before anything is told."""
    context = told.task("advance")
    given = {"closes": "hour", "outlets": [closed_periods("orders"), late_records("orders")]} | given
    with pytest.raises(AirflowFailException, match=message):
        AdvanceWatermarkOperator(task_id="advance", pipeline=ORDERS, **given).execute(context)


def test_dry_run_tells_nothing(world: World, told: Events) -> None:
    """Not even an event without a key."""
    context = told.task("advance")
    context["ti"].xcoms["plan", "plan"] = {"pipeline": "orders", "plan": None, "dry_run": True}
    outlets = [closed_periods("orders"), late_records("orders")]
    context["task"] = AdvanceWatermarkOperator(
        task_id="advance", pipeline=ORDERS, plan_task_id="plan", closes="hour", outlets=outlets
    )
    context["task"].execute(context)
    told.succeed(context)
    assert told.accepted == []


def test_airflow_knows_the_assets_before_a_task_runs() -> None:
    """As outlets of the task: those of the periods that it closes, and none where it closes none."""
    with DAG("d", schedule=None):
        group = kafka_lake_ingest("orders", closes="day", lateness=HOUR)
        other = kafka_lake_ingest("orders", group_id="other")
    day = group.children["kafka_lake.advance"]
    assert (day.closes, day.lateness) == ("day", HOUR)  # type: ignore[attr-defined]
    assert day.outlets == [closed_periods("orders", "day"), late_records("orders", "day"), EVENTS]  # type: ignore[attr-defined]
    assert other.children["other.advance"].outlets == [EVENTS]  # type: ignore[attr-defined]


TWO = Pipeline(name="orders", table="raw.orders", topics=["orders", "returns"])


def two_topics(world: World, told: Events) -> None:
    """Bring a record of each of two topics into the lake, and let an hour pass."""
    world.kafka.create_topic("returns", 1)
    produce(world, 0, 0.1)
    world.kafka.produce("returns", 0, b"v", timestamp_ms=at(0.2))
    told.succeed(run(world, told, pipeline=TWO, closes=None))
    world.clock.advance(HOUR)


def test_topic_of_which_kafka_says_nothing_certain_keeps_its_hours_open(world: World, told: Events) -> None:
    """The task fails, and Airflow tries it again: it may have records of the hour."""
    two_topics(world, told)
    world.kafka.doubtful.add("returns")
    with pytest.raises(UnavailableError, match="returns"):
        advance(told, pipeline=TWO)
    world.kafka.doubtful.clear()
    told.succeed(advance(told, pipeline=TWO))
    assert closed(told) == ["2026-01-01T00"]


@pytest.mark.parametrize("recreated", [True, False])
def test_deleted_topic_keeps_an_hour_open_only_with_records_that_were_not_read(
    world: World, told: Events, recreated: bool
) -> None:
    """One that was read to the end that was seen holds back nothing, and no other topic."""
    two_topics(world, told)
    world.kafka.delete_topic("returns")
    if recreated:
        world.kafka.create_topic("returns", 1)
    told.succeed(advance(told, pipeline=TWO))
    assert closed(told) == ["2026-01-01T00"]
    produce(world, 0, 1.1)
    plan = told.task("plan", number=next(_runs))
    PlanIngestOperator(task_id="plan", pipeline=ORDERS).execute(plan)
    world.kafka.delete_topic("orders")
    if recreated:
        world.kafka.create_topic("orders", 2)
    world.clock.advance(HOUR)
    told.succeed(advance(told, pipeline=TWO))
    assert closed(told) == ["2026-01-01T00"]


def test_topic_that_the_pipeline_reads_no_longer_keeps_no_hour_open(world: World, told: Events) -> None:
    """Whatever Kafka has of it."""
    two_topics(world, told)
    world.kafka.produce("returns", 0, b"v", timestamp_ms=at(0.3))
    told.succeed(advance(told, pipeline=TWO))
    assert closed(told) == []
    told.succeed(advance(told, pipeline=ORDERS))
    assert closed(told) == ["2026-01-01T00"]


@pytest.mark.parametrize("silent", [True, False])
def test_partition_that_was_never_observed_keeps_all_open(
    world: World, told: Events, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """The ledger does not know it, and nothing is known of it: nor of a topic of which Kafka tells no partition."""
    produce(world, 0, 0.1)
    world.clock.advance(HOUR)
    told.succeed(run(world, told, closes=None))
    snapshot = world.kafka.snapshot
    reason = SimpleNamespace(topic="orders", partition=2, reason="its leader is away", topic_id=None)
    more: dict[str, Any] = {"silent": {"returns": "it is not there yet"}} if silent else {"unknown": (reason,)}
    monkeypatch.setattr(world.kafka, "snapshot", lambda *given: replace(snapshot(*given), **more))
    told.succeed(advance(told))
    assert closed(told) == []


def test_newest_hours_with_late_records_are_named_and_all_rows_are_counted(world: World, told: Events) -> None:
    """Each would be a Dag run."""
    produce(world, 0, 0.1)
    world.clock.advance((AT_ONCE - 1) * HOUR)
    told.succeed(run(world, told))
    world.clock.advance(5 * HOUR)
    told.succeed(run(world, told))
    produce(world, 1, *(hour + 0.5 for hour in range(AT_ONCE + 4)))
    told.succeed(run(world, told))
    found = [event for event in told.accepted if event.uri == late_records("orders").uri]
    assert sorted(event.key for event in found) == sorted(filter(None, closed(told)))[-AT_ONCE:]
    assert found[0].extra["rows"] == AT_ONCE + 4
