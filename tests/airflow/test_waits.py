"""Waiting tasks: look once, then wait in the triggerer; what is not known is neither yes nor an error."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.triggers.base import BaseTrigger

from airflow_kafka_lake import sensors
from airflow_kafka_lake import triggers as ledger_module
from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    LedgerSchemaError,
    PendingCommitError,
    UnavailableError,
)
from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.core.ledger.attempts import ClaimWave
from airflow_kafka_lake.core.ledger.guards import landed
from airflow_kafka_lake.core.ledger.plans import SavePipeline
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.operators.ingest import IngestWaveOperator
from airflow_kafka_lake.operators.plan import PlanIngestOperator
from airflow_kafka_lake.pipeline import Pipeline
from airflow_kafka_lake.ports import LedgerReader
from airflow_kafka_lake.sensors import SegmentDrainedSensor, WatermarkSensor
from airflow_kafka_lake.services.advance import advance
from airflow_kafka_lake.services.decisions import cancel, release
from airflow_kafka_lake.services.planning import plan
from airflow_kafka_lake.services.staging import ingest
from airflow_kafka_lake.triggers import (
    LedgerTrigger,
    PlanResolvedTrigger,
    WaitAnswer,
    WatermarkTrigger,
    WaveFreeTrigger,
    WaveLaunchableTrigger,
)
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.connections import KafkaConnection

from .conftest import ORDERS, OTHER, World

TRIGGERS: list[LedgerTrigger] = [
    PlanResolvedTrigger(pipeline="orders", plan="p", ledger_conn_id="l"),
    WaveFreeTrigger(pipeline="orders", wave="w", ledger_conn_id="l"),
    WatermarkTrigger(pipeline="orders", topic="orders", partition=3, offset=5, ledger_conn_id="l"),
    WatermarkTrigger(pipeline="orders", topic="orders", at_ms=5, ledger_conn_id="l"),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_trigger_survives_serialisation(trigger: LedgerTrigger) -> None:
    """Another triggerer builds the same trigger from what was stored, and nothing is lost or added."""
    from airflow.sdk.module_loading import import_string

    path, arguments = trigger.serialize()
    again: BaseTrigger = import_string(path)(**arguments)
    assert again.serialize() == (path, arguments)
    assert isinstance(again, type(trigger))


class Clocked(LedgerTrigger):
    """A trigger whose time passes only by sleeping; it notes when it checks, and answers as it is told."""

    def __init__(self, ledger: LedgerReader, answer: Callable[[float], WaitAnswer]) -> None:
        super().__init__(pipeline="orders")
        self.at = 0.0
        self.checks: list[float] = []
        self.happens: dict[float, Callable[[], None]] = {}
        self._ledger = ledger
        self._answer = answer

    def ask(self, *_: Any) -> WaitAnswer:
        self.checks.append(self.at)
        return self._answer(self.at)

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        for moment in sorted(moment for moment in self.happens if moment <= self.at):
            self.happens.pop(moment)()


def fired(trigger: LedgerTrigger) -> list[dict[str, Any]]:
    """Run a trigger to its end."""

    async def run() -> list[dict[str, Any]]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(run())


def no_until(end: float) -> Callable[[float], WaitAnswer]:
    """Answer no until a moment, then yes."""
    return lambda at: WaitAnswer(done=at >= end, message=f"asked at {at:g}")


def test_checks_slow_down_and_begin_anew_when_something_happens(world: World) -> None:
    """An event of the pipeline resets the pauses at the next look at the ledger, five seconds at most later."""
    trigger = Clocked(world.ledger, no_until(1110))
    trigger.happens[1100] = lambda: world.ledger.commit(SavePipeline(spec=ORDERS.spec))
    assert fired(trigger) == [{"status": "success", "message": "asked at 1116"}]
    # Noticed at 1102, so the waits begin anew there.
    assert trigger.checks == [2, 6, 14, 30, 62, 126, 254, 510, 1022, 1104, 1108, 1116]


def test_wait_ends_while_something_happens_all_the_time(world: World) -> None:
    """A pipeline whose waves land one every second keeps nobody waiting until it is quiet."""
    trigger = Clocked(world.ledger, no_until(10))
    for moment in range(60):
        spec = replace(ORDERS.spec, stable_wait=moment)
        trigger.happens[moment] = partial(world.ledger.commit, SavePipeline(spec=spec))
    assert fired(trigger) == [{"status": "success", "message": "asked at 10"}]


def test_unknown_is_neither_yes_nor_an_error(world: World) -> None:
    """A ledger that does not answer is asked again later."""

    def answer(at: float) -> WaitAnswer:
        if at < 50:
            raise UnavailableError("the ledger does not answer")
        return WaitAnswer(done=True, message="yes")

    trigger = Clocked(world.ledger, answer)
    assert fired(trigger) == [{"status": "success", "message": "yes"}]
    assert trigger.checks == [2, 6, 14, 30, 62]


def test_error_that_cannot_pass_ends_the_wait_with_its_message(world: World) -> None:
    """A ledger of another version would be asked forever."""

    def answer(_: float) -> WaitAnswer:
        raise LedgerSchemaError("the ledger is newer")

    assert fired(Clocked(world.ledger, answer)) == [
        {"status": "error", "message": "LedgerSchemaError: the ledger is newer"}
    ]


def test_look_for_new_events_reads_one_of_them(world: World) -> None:
    """What a look at the ledger costs does not grow with the pipeline's history, nor does the first one."""
    land(world, 3)
    events = world.ledger.events("orders", limit=1000)
    asked: list[tuple[int, int, bool]] = []

    class Noting(Clocked):
        async def query(self, question: Callable[[LedgerReader], Any]) -> Any:
            return question(self._ledger)

    class Reader:
        def events(self, pipeline: str, after: int, limit: int, *, newest: bool) -> Any:
            asked.append((after, limit, newest))
            return world.ledger.events(pipeline, after, limit, newest=newest)

    trigger = Noting(Reader(), no_until(0))
    newest = asyncio.run(trigger._newest(None))
    assert newest == events[-1].sequence
    assert asyncio.run(trigger._newest(newest)) == newest
    assert asked == [(0, 1, True), (newest, 1, True)]


def test_sleep_of_a_trigger_leaves_the_triggerer_to_others() -> None:
    """Another coroutine runs while it sleeps, and it ends only when it is cancelled or its time is over."""

    async def other() -> list[str]:
        said: list[str] = []
        asleep = asyncio.ensure_future(TRIGGERS[0].sleep(3600))
        await asyncio.sleep(0)
        said.append("sleeps" if not asleep.done() else "is awake")
        asleep.cancel()
        await asyncio.gather(asleep, return_exceptions=True)
        return said

    assert asyncio.run(other()) == ["sleeps"]


def land(world: World, records: int, *, run: bool = True) -> str:
    """Produce, plan and (unless told not to) land; return the plan's id."""
    world.produce(records)
    ports = world.ports()
    made = plan(ports, ORDERS.spec, Bounds(), plan_id=f"p{len(world.ledger.waves('orders'))}").plan
    for wave in made.waves if run else ():
        landed(ingest(ports, wave.id))
    advance(ports, "orders")
    return made.id


def waits(sensor: Any, context: dict[str, Any]) -> LedgerTrigger | None:
    """Execute a sensor; return what it waits with, None when it was satisfied at once."""
    try:
        sensor.execute(context)
    except TaskDeferred as deferred:
        found = deferred
    else:
        return None
    assert found.method_name == "execute_complete"
    assert found.timeout == timedelta(seconds=sensor.timeout)
    return found.trigger


def drained(**goal: Any) -> SegmentDrainedSensor:
    return SegmentDrainedSensor(deferrable=True, task_id="s", pipeline=ORDERS, **goal)


def reached(**goal: Any) -> WatermarkSensor:
    return WatermarkSensor(deferrable=True, task_id="s", pipeline=ORDERS, topic="orders", **goal)


def test_drained_sensor_waits_for_every_range_of_a_plan(world: World, context: dict[str, Any]) -> None:
    """Open ranges keep it waiting, committed ones satisfy it at once."""
    made = land(world, 3, run=False)
    assert isinstance(waits(drained(plan=made), context), PlanResolvedTrigger)
    for wave in world.ledger.waves("orders"):
        landed(ingest(world.ports(), wave.id))
    assert waits(drained(plan=made), context) is None
    assert waits(drained(plan={"plan": made, "waves": []}), context) is None


def test_plan_that_no_ledger_knows_is_not_drained(world: World, context: dict[str, Any]) -> None:
    """No rows prove nothing (law L5); a plan that planned nothing has nothing to wait for."""
    assert waits(drained(plan="p-typo"), context) is not None
    assert waits(drained(plan={"plan": None, "waves": []}), context) is None


def test_plan_that_was_only_shown_is_not_drained(world: World, context: dict[str, Any]) -> None:
    """A dry run has recorded nothing to wait for, and nothing of it has landed: what comes after it is skipped."""
    world.produce(3)
    with pytest.raises(AirflowSkipException, match="dry run"):
        drained(plan={"plan": None, "dry_run": True}).execute(context)


@pytest.mark.parametrize(
    "left",
    [{"blocked": 2, "left_out": ["orders/0: pass it: kafka-lake skip orders"]}, {"hanging": ["transaction 't'"]}],
)
def test_plan_that_left_something_out_is_not_drained(
    world: World, context: dict[str, Any], left: dict[str, Any]
) -> None:
    """Up to its end there are offsets that no range of it has."""
    made = land(world, 3)
    for plan_id in (made, None):
        with pytest.raises(AirflowFailException, match=r"left out of the plan.* kafka-lake skip |no producer will end"):
            drained(plan={"plan": plan_id, "dry_run": False} | left).execute(context)


def test_topic_that_can_never_come_is_not_waited_for(world: World, context: dict[str, Any]) -> None:
    """A topic that a known pipeline does not read fails at once, by name; one that it will read is waited for."""
    world.produce(2)
    plan(world.ports(), ORDERS.spec, Bounds(), plan_id="p1")
    with pytest.raises(AirflowFailException, match=r"'ordres' is not one of pipeline orders: .* mean 'orders'"):
        WatermarkSensor(deferrable=True, task_id="wait", pipeline="orders", topic="ordres", offset=5).execute(context)


AT = "1970-01-01T00:00:02Z"
FILE = '[pipeline]\nname = "orders"\n[source]\ntopics = ["orders"]\n[lake]\ntable = "raw.orders"\n'


@pytest.mark.parametrize("goal", [{"offset": 2}, {"time": AT}], ids=["offset", "time"])
@pytest.mark.parametrize("pipeline", ["orders", "orders.toml", ORDERS], ids=["name", "file", "pipeline"])
def test_pipeline_that_was_never_planned_is_waited_for(
    pipeline: Pipeline | str,
    goal: dict[str, Any],
    world: World,
    folder: Path,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Dag that waits may be started before the one that plans; the wait ends in the triggerer once that has run."""
    (folder / "orders.toml").write_text(FILE)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "b:1"}}')
    monkeypatch.setattr(KafkaConnection, "source", lambda _: world.kafka)
    sensor = WatermarkSensor(deferrable=True, task_id="s", pipeline=pipeline, topic="orders", partition=0, **goal)
    trigger = waits(sensor, context)
    assert isinstance(trigger, WatermarkTrigger)
    assert trigger.ask(world.ledger).message == "the ledger knows no pipeline 'orders' yet"

    class Quick(Clocked, WatermarkTrigger):
        def __init__(self, **arguments: Any) -> None:
            WatermarkTrigger.__init__(self, **arguments)
            self.at, self.happens, self._ledger = 0.0, dict[float, Callable[[], None]](), world.ledger

        def ask(self, *asked: Any) -> WaitAnswer:
            return WatermarkTrigger.ask(self, *asked)

    def lands() -> None:
        world.kafka.produce("orders", 0, b"a", b"b", timestamp_ms=1_000)
        world.kafka.produce("orders", 0, b"c", timestamp_ms=3_000)
        land(world, 0)

    quick = Quick(**trigger.serialize()[1])
    quick.happens[100] = lands
    assert fired(quick) == [{"status": "success", "message": "the watermarks of orders are there"}]
    assert quick.at > 100
    assert waits(sensor, context) is None


@pytest.mark.parametrize("goal", [{"offset": 2}, {"time": AT}], ids=["offset", "time"])
def test_what_can_be_known_before_the_first_plan_is_refused(
    goal: dict[str, Any], world: World, folder: Path, context: dict[str, Any]
) -> None:
    """A topic that the pipeline does not read, a file that is not there, a name that no pipeline can have; a name that
    is only like another one's may still come, and the wait says what it is like."""
    (folder / "orders.toml").write_text(FILE)
    for pipeline in ("orders", "orders.toml", ORDERS):
        with pytest.raises(AirflowFailException, match=r"'ordres' is not one of pipeline orders: .* mean 'orders'"):
            WatermarkSensor(deferrable=True, task_id="s", pipeline=pipeline, topic="ordres", **goal).execute(context)
    for pipeline in ("ordres.toml", "Orders!"):
        with pytest.raises(AirflowFailException):
            WatermarkSensor(deferrable=True, task_id="s", pipeline=pipeline, topic="orders", **goal).execute(context)
    world.ledger.commit(SavePipeline(spec=ORDERS.spec))
    trigger = waits(WatermarkSensor(deferrable=True, task_id="s", pipeline="ordres", topic="orders", **goal), context)
    assert trigger is not None
    message = trigger.ask(world.ledger).message
    assert message == "the ledger knows no pipeline 'ordres' yet; did you mean 'orders'?"


@pytest.mark.parametrize("goal", [{"offset": 2}, {"time": AT}], ids=["offset", "time"])
def test_topic_that_its_producers_have_not_made_yet_is_waited_for(
    goal: dict[str, Any], world: World, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a plan has read and Kafka has no more is not."""
    monkeypatch.setattr(sensors, "KafkaConnection", lambda _: SimpleNamespace(source=lambda: world.kafka))
    world.ledger.commit(SavePipeline(spec=ORDERS.spec))
    world.kafka.delete_topic("orders")
    assert waits(reached(partition=0, **goal), context) is not None
    world.kafka.create_topic("orders", 1)
    land(world, 1)
    world.kafka.delete_topic("orders")
    with pytest.raises(AirflowFailException, match="Kafka has no topic 'orders'"):
        reached(partition=0, time=AT).execute(context)


def test_ledger_that_does_not_answer_is_waited_for(
    world: World, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is waited for, and however the pipeline is named."""

    def away(*_: Any, **__: Any) -> Any:
        raise UnavailableError("the ledger does not answer")

    monkeypatch.setattr(assemble, "open_ledger", away)
    goals: list[dict[str, Any]] = [{"offset": 2}, {"time": AT}]
    for goal in goals:
        for pipeline in ("orders", ORDERS):
            sensor = WatermarkSensor(deferrable=True, task_id="s", pipeline=pipeline, topic="orders", **goal)
            assert waits(sensor, context) is not None


def test_watermark_sensor_waits_for_an_offset(world: World, context: dict[str, Any]) -> None:
    """One partition or all; text from a template is a number too."""
    land(world, 5)
    assert waits(reached(partition=0, offset=5), context) is None
    assert waits(reached(partition="0", offset="5"), context) is None
    assert isinstance(waits(reached(partition=0, offset=6), context), WatermarkTrigger)
    assert waits(reached(offset=5), context) is not None
    assert waits(reached(offset=0), context) is None


@pytest.mark.parametrize("deferrable", [True, False], ids=["deferred", "poked"])
@pytest.mark.parametrize("partition", [0, None], ids=["partition", "topic"])
def test_watermark_sensor_waits_for_a_time(
    deferrable: bool,
    partition: int | None,
    world: World,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time is reached once Kafka knows a later record and everything before it is committed."""
    monkeypatch.setattr(sensors, "KafkaConnection", lambda _: SimpleNamespace(source=lambda: world.kafka))
    world.kafka.create_topic("orders", 1)
    world.kafka.produce("orders", 0, b"a", b"b", timestamp_ms=1_000)
    land(world, 0)
    sensor = reached(partition=partition, time=AT)

    def is_over() -> bool:
        return waits(sensor, context) is None if deferrable else bool(sensor.poke(context))

    assert not is_over(), "a record from before may still come"
    world.kafka.produce("orders", 0, b"c", timestamp_ms=1_500)
    world.kafka.produce("orders", 0, b"d", timestamp_ms=3_000)
    assert not is_over(), "the third record is not in the lake"
    land(world, 0)
    assert is_over()


def test_wait_for_an_offset_opens_no_kafka(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger alone knows whether it is reached, and no connection is looked up for it."""
    land(world, 5)

    async def asked(*_: object) -> None:
        raise AssertionError("Kafka was asked for")

    monkeypatch.setattr(ledger_module, "aget_connection", asked)
    trigger = WatermarkTrigger(pipeline="orders", topic="orders", offset=6)
    trigger._ledger = world.ledger
    assert asyncio.run(trigger._look()) is None


def test_sensor_that_cannot_ask_waits(world: World, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is out of reach at the first look does not fail the task."""

    def away(*_: Any, **__: Any) -> None:
        raise UnavailableError("the ledger does not answer")

    monkeypatch.setattr(world.ledger, "ranges", away)
    assert waits(drained(plan="p"), context) is not None


def test_sensor_needs_exactly_one_goal(world: World, context: dict[str, Any]) -> None:
    """Two goals or none are a mistake, found when the templates are rendered: a task that returned nothing is one."""
    world.ledger.commit(SavePipeline(spec=ORDERS.spec))
    for sensor in (reached(), reached(offset=1, time=AT)):
        with pytest.raises(AirflowFailException, match=r"UsageError: either .* exactly one"):
            sensor.execute(context)


def test_wave_is_free_when_its_lease_has_ended(world: World) -> None:
    """A live lease keeps waiting and is named; its end, or the wave's, ends the wait."""
    land(world, 3, run=False)
    (wave,) = world.ledger.waves("orders")
    trigger = WaveFreeTrigger(pipeline="orders", wave=wave.id)
    world.ledger.commit(ClaimWave(wave=wave.id, attempt="a" * 16, holder=OTHER, lease=timedelta(minutes=2)))
    answer = trigger.ask(world.ledger)
    assert not answer.done
    assert OTHER.shown in answer.message
    world.clock.advance(timedelta(minutes=3))
    assert trigger.ask(world.ledger).done
    landed(ingest(world.ports(), wave.id))
    assert "COMMITTED" in trigger.ask(world.ledger).message


def test_recreated_topic_needs_a_plan_to_wait_for(world: World, context: dict[str, Any]) -> None:
    """An offset says nothing where two generations of a partition are known."""
    land(world, 3)
    world.kafka.create_topic("orders", 2)
    land(world, 2)
    with pytest.raises(AirflowFailException, match="generations"):
        reached(partition=0, offset=2).execute(context)


def child_of_an_expansion(world: World) -> tuple[list[str], str, str]:
    """A topic that grew from two partitions to three: the waves of the old ones, that of the new one, an old range."""
    for records in (4, 2):
        for partition in (0, 1):
            world.produce(records, partition)
        land(world, 0)
        if records == 4:
            world.kafka.add_partitions("orders", 3)
            world.produce(2, 2)
    world.clock.advance(timedelta(seconds=300))
    world.produce(1)
    made = plan(world.ports(), ORDERS.spec, Bounds(), plan_id="child").plan
    (child,) = [wave.id for wave in made.waves if any(item.stream.partition == 2 for item in wave.ranges)]
    (old,) = [item.id for wave in made.waves for item in wave.ranges if item.stream.partition == 0]
    return [wave.id for wave in made.waves if wave.id != child], child, old


def test_wave_may_start_when_what_comes_first_is_in_the_lake(world: World, context: dict[str, Any]) -> None:
    """Until then its task waits, and the words name the partition and the offsets that are waited for."""
    parents, child, _ = child_of_an_expansion(world)
    trigger = WaveLaunchableTrigger(pipeline="orders", wave=child)
    answer = trigger.ask(world.ledger)
    assert not answer.done
    assert f"wave {child} waits for its turn: " in answer.message
    assert "orders/0 from 0 to its seal 7 has 1 open offset: 6-7" in answer.message
    with pytest.raises(TaskDeferred) as deferred:
        IngestWaveOperator(task_id="ingest", wave=child, gate_timeout=timedelta(hours=7)).execute(context)
    assert (type(deferred.value.trigger), deferred.value.timeout) == (WaveLaunchableTrigger, timedelta(hours=7))
    for wave in parents:
        landed(ingest(world.ports(), wave))
    assert trigger.ask(world.ledger).done


def test_wave_that_only_a_person_can_let_go_on_is_not_waited_for(world: World) -> None:
    """A cancelled range of a parent ends the wait as an error; its release lets it be waited for again."""
    _, child, old = child_of_an_expansion(world)
    trigger = WaveLaunchableTrigger(pipeline="orders", wave=child)
    cancel(world.ports(), old, "look at it first")
    with pytest.raises(HeldError, match=r"6-7.*See: kafka-lake status orders"):
        trigger.ask(world.ledger)
    release(world.ports(), old, None)
    assert not trigger.ask(world.ledger).done


def test_error_that_no_part_expects_fails_the_trigger_itself(world: World) -> None:
    """Airflow then shows where it came from; it is neither an answer nor worth waiting for."""

    def answer(_: float) -> WaitAnswer:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fired(Clocked(world.ledger, answer))


def test_ledger_whose_events_cannot_be_read_only_slows_the_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without events nothing is noticed early, and the checks come when the pauses say."""

    def away(*_: Any, **__: Any) -> None:
        raise UnavailableError("the ledger does not answer")

    monkeypatch.setattr(world.ledger, "events", away)
    trigger = Clocked(world.ledger, no_until(14))
    assert fired(trigger) == [{"status": "success", "message": "asked at 14"}]
    assert trigger.checks == [2, 6, 14]


def test_first_look_at_the_events_is_no_progress(world: World) -> None:
    """What happened before the wait began resets nothing: the pauses grow as if nothing had happened."""
    land(world, 3)
    trigger = Clocked(world.ledger, no_until(30))
    fired(trigger)
    assert trigger.checks == [2, 6, 14, 30]


def test_only_a_yes_lets_a_task_go_on(context: dict[str, Any]) -> None:
    """Its message is the task's answer; an error fails the task, and so does an event without an answer."""
    sensor = drained(plan="p")
    assert sensor.execute_complete(context, {"status": "success", "message": "all there"}) == "all there"
    for event, ends in (({"status": "error", "message": "the ledger is newer"}, "newer"), ({}, "without an answer")):
        with pytest.raises(AirflowFailException, match=ends):
            sensor.execute_complete(context, event)


def test_drained_answers_name_what_is_missing(world: World) -> None:
    """An unknown plan, a range that is open."""

    def look(trigger: LedgerTrigger) -> str:
        answer = trigger.ask(world.ledger)
        assert not answer.done
        return answer.message

    made = land(world, 5, run=False)
    resolved = look(PlanResolvedTrigger(pipeline="orders", plan=made))
    assert resolved == f"1 range of plan {made} is open, first orders/0 0-5, PLANNED"
    assert look(PlanResolvedTrigger(pipeline="orders", plan="p-typo")).endswith("knows no range of plan p-typo")


def test_watermark_answers_name_what_is_missing(world: World) -> None:
    """Which partition, where its watermark is, and where it must be; a topic without records late enough is named."""

    def look(**goal: Any) -> WaitAnswer:
        trigger = WatermarkTrigger(pipeline="orders", topic="orders", **goal)
        trigger.source = world.kafka
        return trigger.ask(world.ledger)

    assert look(offset=1).message == look(at_ms=1).message == "the ledger knows no pipeline 'orders' yet"
    world.ledger.commit(SavePipeline(spec=ORDERS.spec))
    assert look(offset=1).message == "the ledger knows no stream of orders yet"
    assert look(offset=1, partition=1).message == "the ledger knows no stream orders/1 yet"
    land(world, 5)
    assert look(offset=9, partition=0).message == "orders/0: the watermark is 5, and 9 is waited for"
    assert look(offset=5).message == "orders/1: the watermark is 0, and 5 is waited for"
    assert look(offset=5, partition=0).done
    assert look(offset=0).done
    assert look(at_ms=10**15).message == "Kafka has no record of orders/0 that late yet"
    assert look(at_ms=10**15, partition=1).message == "Kafka has no record of orders/1 that late yet"
    assert look(at_ms=0, partition=7).message == "Kafka has no record of orders/7 that late yet"
    assert look(at_ms=0, partition=0).done, "the first record is at 0, and nothing lies before it"
    with pytest.raises(UnavailableError, match="not known yet"):  # planned between the two looks: asked again
        WatermarkTrigger(pipeline="orders", topic="orders", at_ms=0).ask(world.ledger)


@pytest.mark.parametrize(
    "goal",
    [
        {"plan": ""},
        {"offset": True},
        {"offset": -1},
        {"offset": "-1"},
        {"offset": 1.0},
        {"offset": "1e3"},
        {"offset": "9" * 20},
        {"offset": "٣"},
        {"offset": ""},
        {"offset": 1, "partition": True},
        {"offset": 1, "partition": -1},
        {"offset": 1, "partition": "a"},
        {"time": 7},
        {"time": "7"},
        {"time": ""},
        {"time": "tomorrow"},
        {"time": "2026-01-31T06:00:00"},
    ],
    ids=str,
)
def test_goal_that_cannot_be_meant_fails_at_once(goal: dict[str, Any], world: World, context: dict[str, Any]) -> None:
    """A sensor that could never be satisfied does not begin to wait, and a truth value is no number."""
    land(world, 1)
    sensor = reached if {"offset", "time"} & set(goal) else drained
    with pytest.raises(AirflowFailException, match="UsageError"):
        sensor(**goal).execute(context)


def test_partition_that_a_template_leaves_empty_is_none(world: World) -> None:
    """Then all partitions of the topic are waited for."""
    empty, none = reached(offset=0, partition="").trigger("orders"), reached(offset=0).trigger("orders")
    assert empty.serialize() == none.serialize()


def test_empty_plan_of_a_task_is_refused(world: World, context: dict[str, Any]) -> None:
    """A template that returned nothing is a mistake, not a plan without ranges."""
    sensor = drained(plan="x")
    sensor.plan = None
    with pytest.raises(AirflowFailException, match="plan is needed, and none was given"):
        sensor.execute(context)


def poked(**goal: Any) -> WatermarkSensor:
    """Return a sensor that waits for more than there is, and does not defer."""
    return WatermarkSensor(task_id="s", pipeline=ORDERS, topic="orders", **{"partition": 0, "offset": 9, **goal})


def test_sensor_that_is_not_deferred_pokes_as_every_sensor_does(world: World, context: dict[str, Any]) -> None:
    """It asks again and again in the worker, or gives its slot back between two pokes; a yes is its XCom value."""
    land(world, 5)
    assert not poked().poke(context)
    assert poked(offset=5).poke(context)
    assert poked(offset=5).execute(context) == "the watermarks of orders are there"
    with pytest.raises(AirflowSensorTimeout):
        poked(timeout=0, poke_interval=0).execute(context)
    context["ti"].get_first_reschedule_date = lambda _: None
    with pytest.raises(AirflowRescheduleException):
        poked(mode="reschedule").execute(context)


@pytest.mark.parametrize("deferrable", [True, False])
def test_sensor_that_may_fail_softly_is_skipped(world: World, context: dict[str, Any], deferrable: bool) -> None:
    """Whatever ends it: a refusal at the first look, an error of the trigger, the end of its time."""
    land(world, 5)
    soft = {"deferrable": deferrable, "soft_fail": True}
    with pytest.raises(AirflowSkipException):
        poked(offset="x", **soft).execute(context)
    with pytest.raises(AirflowSkipException):
        poked(offset="x", deferrable=deferrable, never_fail=True).execute(context)
    error = {"event": {"status": "error", "message": "the ledger is newer"}}
    with pytest.raises(AirflowSkipException):
        poked(**soft).resume_execution("execute_complete", error, context)
    if not deferrable:
        with pytest.raises(AirflowSkipException):
            poked(timeout=0, poke_interval=0, **soft).execute(context)


@pytest.mark.nightly  # by day: the decision to defer, beside it
def test_sensor_defers_where_airflow_is_configured_so() -> None:
    """Left out, it is `[operators] default_deferrable`."""
    assert not poked().deferrable
    code = "from airflow_kafka_lake.sensors import WatermarkSensor as W; print(W(task_id='w', pipeline='p', "
    env = {**os.environ, "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "true"}
    command = [sys.executable, "-c", f"{code}topic='t', offset=1).deferrable)"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("True")


def test_tasks_without_a_triggerer_fail_and_may_be_retried(world: World, context: dict[str, Any]) -> None:
    """Instead of a wait that nothing would end, Airflow's retries wait."""
    land(world, 3, run=False)
    (wave,) = world.ledger.waves("orders")
    world.ledger.commit(ClaimWave(wave=wave.id, attempt="a" * 16, holder=OTHER, lease=timedelta(minutes=2)))
    with pytest.raises(ConcurrentError):
        IngestWaveOperator(task_id="ingest", wave=wave.id, deferrable=False).execute(context)


def test_pending_commits_are_waited_for(world: World, context: dict[str, Any]) -> None:
    """As long as the pipeline says; then the plan fails, and may be tried again. A dry run does not wait."""
    context["ti"].task_id = "plan"
    pipeline = Pipeline(name="orders", topics=["orders"], table="raw.orders", end="group:live", stable_wait=60)
    world.produce(5)
    world.kafka.commit_group("live", "orders", 1, 0)
    world.kafka.commit_group("live", "orders", 0, None, GroupOffsetState.UNSTABLE)
    for dry_run, seconds in ((True, 0), (False, 60)):
        begun = world.clock.monotonic()
        with pytest.raises(PendingCommitError, match=r"^group 'live' .* on orders/0"):
            PlanIngestOperator(task_id="plan", pipeline=pipeline, is_dry_run=dry_run).execute(context)
        assert world.clock.monotonic() - begun == seconds
    sleep = world.clock.sleep

    def committed(seconds: float) -> None:
        sleep(seconds)
        world.kafka.commit_group("live", "orders", 0, 4)

    world.clock.sleep = committed  # type: ignore[method-assign]
    (wave,) = PlanIngestOperator(task_id="plan", pipeline=pipeline).execute(context)
    assert [item.range for item in world.ledger.ranges(wave=wave)] == [OffsetRange(0, 4)]
