"""Tasks that tell Airflow of moved watermarks: each move once and in order, also when tasks die or come together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from airflow_kafka_lake.assets import pipeline_asset
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.moves import LEASE
from airflow_kafka_lake.operators import advance
from airflow_kafka_lake.operators.advance import AdvanceWatermarkOperator, confirm_events
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline

from .conftest import ORDERS, Events, World

Context = dict[str, Any]
SMALL = Pipeline(name="orders", topics=["orders"], table="raw.orders", target_range_bytes=1, max_wave_bytes=1)


def emitted(context: Context) -> list[dict[str, Any]]:
    """Return what the events of a task say."""
    found = context["outlet_events"]
    return [event.extra for key in found for event in found[key].asset_alias_events]


def planned(world: World, told: Events, records: int) -> list[str]:
    """Produce records, and plan a wave for each."""
    world.produce(records)
    waves = PlanIngestOperator(task_id="plan", pipeline=SMALL).execute(told.task("plan"))
    assert len(waves) == records
    return waves


def ingesting(told: Events, wave: str, index: int, number: int = 1) -> Context:
    """Run the task of a wave as far as Airflow has not heard of its success."""
    context = told.task("ingest", index, number)
    context["task"] = IngestWaveOperator(task_id="ingest", wave=wave)
    context["task"].execute(context)
    return context


def advancing(told: Events) -> Context:
    """Run the task that advances as far as Airflow has not heard of its success."""
    context = told.task("advance")
    context["task"] = AdvanceWatermarkOperator(task_id="advance", pipeline=SMALL)
    context["result"] = context["task"].execute(context)
    return context


def slices(told: Events) -> list[tuple[int, int]]:
    """Return what all accepted events say of partition 0, one after the other; their numbers fit together."""
    extras = [event.extra for event in told.accepted]
    assert all(later["after"] == earlier["sequence"] for earlier, later in pairwise(extras))
    return [(item["from"], item["to"]) for extra in extras for item in extra["streams"]]


def test_each_wave_tells_what_it_moved(world: World, told: Events) -> None:
    """With the success of its own task, long before the last wave; at the end nothing is left to tell."""
    for index, wave in enumerate(planned(world, told, 3)):
        context = ingesting(told, wave, index)
        (extra,) = emitted(context)
        assert extra == {
            "pipeline": "orders", "ledger": world.ledger.ledger_id(), "plan": world.ledger.wave(wave).plan,
            "after": index, "sequence": index + 1,
            "rows": 1, "streams": [{"topic": "orders", "partition": 0, "from": index, "to": index + 1}],
        }  # fmt: skip
        assert world.ledger.unnotified("orders"), "that Airflow takes it is not known yet"
        told.succeed(context)
        assert not world.ledger.unnotified("orders")
        assert world.watermarks()[0] == index + 1
    assert {event.uri for event in told.accepted} == {pipeline_asset("orders").uri}
    last = advancing(told)
    assert (emitted(last), last["result"]) == ([], {"pipeline": "orders", "moved": 0, "sequence": None, "rows": 0})
    told.succeed(last)
    assert slices(told) == [(0, 1), (1, 2), (2, 3)]


def test_log_names_some_of_many_moves(
    world: World, told: Events, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The events name all of them."""
    monkeypatch.setattr(advance, "LOGGED", 1)
    for partition in (0, 1):
        world.produce(1, partition)
    pipeline = Pipeline(name="orders", topics=["orders"], table="raw.orders")
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=pipeline).execute(told.task("plan"))
    with caplog.at_level("INFO"):
        context = ingesting(told, wave, 0)
    assert sum(len(extra["streams"]) for extra in emitted(context)) == 2
    logged = [record.getMessage() for record in caplog.records if record.name == advance.__name__]
    assert logged == [
        "orders/0: asset event for offsets 0 to 1",
        "and for 1 more partition",
    ]


def test_tasks_at_once_tell_in_order(world: World, told: Events) -> None:
    """Who comes while another tells leaves his moves to the next, also if he is accepted first."""
    waves = planned(world, told, 4)
    first = ingesting(told, waves[0], 0)
    second, third = (ingesting(told, waves[index], index) for index in (1, 2))
    assert (emitted(second), emitted(third)) == ([], [])
    for context in (third, first, second):
        told.succeed(context)
    last = ingesting(told, waves[3], 3)
    told.succeed(last)
    assert slices(told) == [(0, 1), (1, 4)]
    assert emitted(advancing(told)) == []


def test_advance_tells_what_the_waves_left(world: World, told: Events) -> None:
    """Of waves that met another's delivery, and of the command line."""
    waves = planned(world, told, 2)
    first = ingesting(told, waves[0], 0)
    second = ingesting(told, waves[1], 1)
    told.succeed(second)
    told.succeed(first)
    last = advancing(told)
    assert last["result"] == {"pipeline": "orders", "moved": 1, "sequence": 2, "rows": 1}
    told.succeed(last)
    assert slices(told) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("state", ["failed", "up_for_retry"])
def test_task_that_ends_before_its_events_are_accepted_loses_none(world: World, told: Events, state: str) -> None:
    """The next one tells them, at once: the first can tell no more."""
    first, second = planned(world, told, 2)
    told.end(ingesting(told, first, 0), state)
    after = ingesting(told, second, 1)
    told.succeed(after)
    assert slices(told) == [(0, 2)]


def test_task_that_ends_after_its_events_were_accepted_tells_none_twice(world: World, told: Events) -> None:
    """Killed before it could say so: Airflow has the events, and the next task finds them there."""
    first, second = planned(world, told, 2)
    told.end(ingesting(told, first, 0))
    told.succeed(ingesting(told, second, 1))
    assert slices(told) == [(0, 1), (1, 2)]


def test_success_that_airflow_refuses_acknowledges_nothing(
    world: World, told: Events, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow runs the callback also then: a task that was marked failed in its last second notified of nothing."""
    (wave,) = planned(world, told, 1)
    context = ingesting(told, wave, 0)
    told.end(context, "failed")
    confirm_events(context)
    assert world.ledger.unnotified("orders")
    assert "a later task emits them again" in caplog.text
    last = advancing(told)
    told.succeed(last)
    assert slices(told) == [(0, 1)]


def test_retry_tells_what_its_first_try_did_not(world: World, told: Events) -> None:
    """It is running, as its first try seems to be; nothing that that one sends is accepted any more."""
    (wave,) = planned(world, told, 1)
    ingesting(told, wave, 0)
    told.succeed(ingesting(told, wave, 0, number=2))
    assert slices(told) == [(0, 1)]


def test_running_deliverer_is_waited_for_until_its_lease_ends(world: World, told: Events) -> None:
    """Seconds, in most cases; a task that hangs is passed over after its lease. What it says later comes twice."""
    (wave,) = planned(world, told, 1)
    hanging = ingesting(told, wave, 0)
    begun = world.clock.now()
    last = advancing(told)
    assert LEASE <= world.clock.now() - begun < LEASE + timedelta(seconds=5)
    told.succeed(last)
    told.succeed(hanging)
    assert [event.extra["sequence"] for event in told.accepted] == [1, 1]
    assert not world.ledger.unnotified("orders")


def test_advance_waits_for_a_delivery_that_ends_well(
    world: World, told: Events, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And then tells what comes after it; its log says once for whom it waits."""
    first, second = planned(world, told, 2)
    busy = ingesting(told, first, 0)
    told.succeed(ingesting(told, second, 1))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            told.succeed(busy)

    monkeypatch.setattr(world.clock, "sleep", sleep)
    told.succeed(advancing(told))
    assert (len(slept), slices(told)) == (2, [(0, 1), (1, 2)])
    assert capsys.readouterr().out.count("Waiting for it") == 1


@pytest.mark.parametrize("error", [UnavailableError("the ledger is away"), RuntimeError("not foreseen")])
def test_wave_in_the_lake_is_a_success_whatever_its_events_meet(
    world: World, told: Events, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The task that advances tells them."""

    def fails(*_: Any, **__: Any) -> None:
        raise error

    (wave,) = planned(world, told, 1)
    with monkeypatch.context() as broken:
        broken.setattr(advance, "begin_delivery", fails)
        context = ingesting(told, wave, 0)
    told.succeed(context)
    told.succeed(advancing(told))
    assert slices(told) == [(0, 1)]


def test_wave_that_is_in_the_lake_already_tells_what_is_left(world: World, told: Events) -> None:
    """Its worker died between the commit and the advance: the task's retry advances, and tells."""
    first, _ = planned(world, told, 2)
    from airflow_kafka_lake.services.staging import ingest

    landed(ingest(world.ports(), first))
    assert world.watermarks()[0] == 0
    context = ingesting(told, first, 0)
    told.succeed(context)
    assert (world.watermarks()[0], slices(told)) == (1, [(0, 1)])


@pytest.mark.parametrize("make", [AdvanceWatermarkOperator, IngestWaveOperator])
def test_users_own_callbacks_and_outlets_stay(world: World, make: Callable[..., Any]) -> None:
    """What a Dag author adds is kept; ours comes first, for his may take its time."""

    def mine(context: Any) -> None:
        """Do nothing."""

    about = {"wave": "w"} if make is IngestWaveOperator else {"pipeline": ORDERS}
    operator = make(task_id="a", on_success_callback=mine, outlets=[], **about)
    assert list(operator.on_success_callback) == [confirm_events, mine]
    assert operator.outlets == [advance.EVENTS]
