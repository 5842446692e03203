"""What ends in exit 0 was looked at: an answer that was not given is not "deleted", "done", "none" or "nothing"."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    HeldError,
    IdentityError,
    StateError,
    UnavailableError,
    UnknownSubjectError,
)
from airflow_kafka_lake.core.kafka import snapshots
from airflow_kafka_lake.core.ledger.plans import RecordPlan
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.services import decisions, rebuilding, reporting, running
from airflow_kafka_lake.services.running import WaveWorker
from airflow_kafka_lake.triggers import PlanResolvedTrigger, WatermarkTrigger
from tests.kit.memory_ledger import MemoryLedger
from tests.unit.services.test_partial_answers import without
from tests.world import SPEC, World

pytestmark = pytest.mark.unit
TWO_TOPICS = replace(SPEC, topics=("orders", "payments"), table="raw.{topic}")


@pytest.fixture
def both() -> World:
    """Two topics of one pipeline, all of them in the lake."""
    world = World(spec=TWO_TOPICS)
    world.create("payments")
    for topic in ("orders", "payments"):
        world.produce(3, topic=topic)
    world.run()
    return world


def status(world: World, **subject: Any) -> dict[str, Any]:
    """Return the status document."""
    return reporting.status(world.worker(), world.spec, **subject).to_json()


def test_topic_that_kafka_says_nothing_of_is_unknown_and_not_deleted(both: World) -> None:
    """A topic that may not be described, or about which brokers differ, is there for all that is known."""
    both.produce(2, topic="payments")
    both.kafka.doubtful.add("payments")
    document = status(both)
    orders, payments = document["streams"]
    assert (orders["bounds_state"], payments["lag"]) == ("observed", None)
    assert payments["bounds_state"] == "unknown: The brokers do not agree about 'payments'. Repeat."
    assert (document["summary"]["state"], document["summary"]["lag_state"]) == (
        "unknown",
        "observed on 1 of 2 partitions",
    )


def test_partition_that_an_answer_leaves_out_is_unknown_and_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that answered is behind: the topic is there, and so are its partitions."""
    world = World(partitions=2)
    world.produce(1, 0)
    world.produce(1, 1)
    world.run()
    monkeypatch.setattr(world.kafka, "snapshot", without(world.kafka.snapshot, 1))
    states = [item["bounds_state"] for item in status(world)["streams"]]
    assert states == ["observed", "unknown: Kafka's answer leaves it out, repeat the call"]


def test_deleted_topic_is_gone_beside_one_that_is_there(both: World) -> None:
    """Every broker has said so."""
    both.kafka.delete_topic("payments")
    assert [item["bounds_state"] for item in status(both)["streams"]] == [
        "observed",
        "gone: the topic was deleted; what came after the last look is unknown",
    ]


def overtaken(world: World, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other planners be first, so many times."""
    commit, left = world.ledger.commit, [times]

    def committed(write: Any) -> Any:
        if isinstance(write, RecordPlan) and left[0]:
            left[0] -= 1
            raise ConcurrentError("another planner was first: plan again")
        return commit(write)

    monkeypatch.setattr(world.ledger, "commit", committed)


def test_run_that_others_kept_from_planning_is_not_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of what there is to do: it is worth repeating, and no "everything is committed"."""
    world.produce(3)
    overtaken(world, 100, monkeypatch)
    done = world.run()
    assert (done.exit_code, done.plan, done.waves) == (3, None, ())
    assert [type(problem) for problem in done.problems] == [ConcurrentError]
    with pytest.raises(ConcurrentError):
        world.run(Bounds(topic="orders"))


def test_run_plans_again_after_another_planner(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What that one has left, or was not asked for, is this run's."""
    world.produce(3)
    overtaken(world, 1, monkeypatch)
    done = world.run()
    assert (done.exit_code, world.offsets()) == (0, [0, 1, 2])


def test_plan_that_the_ledger_does_not_know_has_not_ended_well(world: World) -> None:
    """A ledger that was set back, or another one, has no open range of it."""
    world.produce(3)
    world.run()
    with pytest.raises(UnknownSubjectError, match="the ledger knows no plan lost of pipeline orders"):
        running.finish_plan(world.worker(), "orders", "lost")


def test_worker_is_not_idle_while_the_ledger_does_not_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not known what is asked for is not the same as nothing."""

    def requests(*_: object) -> Any:
        raise UnavailableError("the ledger is down")

    ports = world.worker()
    monkeypatch.setattr(world.ledger, "requests", requests)
    serving = WaveWorker(
        ledger=ports.ledger,
        clock=ports.clock,
        processes=ports.processes,
        opened=lambda _: nullcontext(ports),
        progress=world.said.append,
        actor=ports.actor,
    )
    with pytest.raises(UnavailableError, match="the ledger is down"):
        serving.run(until_idle=True)


def test_committed_wave_is_in_the_lake_only_if_main_says_so(world: World) -> None:
    """To bring it there once more looks at the table: the ledger alone does not know of a rollback."""
    world.produce(2)
    world.run()
    before = world.table.metadata()
    world.produce(3)
    wave = world.planned_wave()
    world.ingest(wave)
    assert world.ingest(wave).rows == 3
    world.table.set_back(before)
    with pytest.raises(IdentityError, match="rolled back"):
        world.ingest(wave)


def test_transactions_that_nobody_told_of_are_not_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that ends at a stable offset says that it does not know what holds it, and whether that hangs."""
    world.produce(2)
    world.produce(1, transaction="t")

    def silent(*_: object) -> Any:
        raise UnavailableError("no coordinator answers")

    monkeypatch.setattr(world.kafka, "transactions", silent)
    (waiting,) = status(world)["waiting_for_stable"] if world.run() else ()
    assert waiting["transaction"] is None
    assert waiting["message"] == (
        "a transaction of which nothing is known, nor whether it hangs (unknown: no coordinator answers)"
    )


@pytest.fixture
def behind() -> World:
    """Two topics of a pattern; of `orders` eight offsets were seen and four read."""
    world = World(spec=replace(TWO_TOPICS, topics=(), topic_pattern="orders|payments"))
    world.create("payments")
    world.produce(3, topic="payments")
    world.produce(8)
    world.run(Bounds(topic="orders", end=4))
    world.run(Bounds(topic="payments"))
    return world


def test_deleted_topic_of_which_records_were_seen_and_not_read_is_lost(behind: World) -> None:
    """No plan can read them: that is nobody's "up to date", and no run with nothing to do."""
    behind.kafka.delete_topic("orders")
    document = status(behind)
    (orders,) = [item for item in document["streams"] if item["topic"] == "orders"]
    assert (orders["state"], orders["bounds_state"]) == (
        "lost",
        "gone: the topic was deleted; what came after the last look is unknown",
    )
    assert (document["summary"]["state"], document["summary"]["lost_offsets"]) == ("lost", 4)
    (need,) = document["needs_person"]
    assert (need["need"], need["offsets"]) == ("lost", 4)
    done = behind.run()
    assert done.exit_code == 1
    said = "orders: the topic was deleted, and orders/0 4-8 was seen and not read: it is lost. Pass it with: "
    assert done.held == (said + need["commands"][0]["line"],)


def test_what_a_deleted_topic_has_lost_is_passed_by_the_command_that_is_named(behind: World) -> None:
    """After it the topic is gone, and all of it is in the lake or passed."""
    behind.kafka.delete_topic("orders")
    (command,) = status(behind)["needs_person"][0]["commands"]
    stream = behind.stream()
    assert f" --topic-id={stream.key.topic_id} " in command["line"]
    assert (command["slice"][1], command["names_topic_id"]) == (stream.key.topic_id, True)
    assert "--from 4 --to 8 --reason TEXT --acknowledge-order" in command["line"]
    decisions.skip(
        behind.worker(),
        "orders",
        stream,
        OffsetRange(4, 8),
        reason="deleted",
        acknowledge_order=True,
        drop_staged=False,
    )
    assert behind.run().exit_code == 0
    assert status(behind)["summary"]["state"] == "up to date"


def test_re_created_topic_of_which_records_were_not_read_is_lost(behind: World) -> None:
    """As the run says, which is blocked."""
    behind.create("orders")
    document = status(behind)
    assert document["summary"]["lost_offsets"] == 4
    assert behind.run().exit_code == 1


def test_rebuild_from_a_lake_that_has_nothing_of_the_pipeline_is_refused(world: World) -> None:
    """Another table, or another catalog: "0 waves came back" and a run would read everything a second time."""
    world.produce(3)
    world.run()
    world.ledger = MemoryLedger(world.clock, ledger_id="2" * 32)
    elsewhere = replace(world.spec, table="raw.ordres")
    with pytest.raises(StateError, match=r"nothing of pipeline orders is in the lake: raw\.ordres is not there"):
        rebuilding.rebuild(world.worker(), elsewhere)
    assert world.ledger.pipelines() == ()
    world.lake.table("raw.ordres").ensure("")
    with pytest.raises(StateError, match=r"raw\.ordres holds nothing of it"):
        rebuilding.rebuild(world.worker(), elsewhere)
    assert rebuilding.rebuild(world.worker(), world.spec).waves == 1


def test_retention_of_partitions_whose_age_was_not_asked_is_not_called_unlimited(
    both: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many partitions those that lag most are asked: the deadline of the others is not known."""
    monkeypatch.setattr(snapshots, "MOST", 1)
    both.topic_ids["payments"] = both.kafka.create_topic("payments", retention_ms=3_600_000)
    both.run()
    both.produce(9)
    both.produce(1, topic="payments")
    summary = status(both)["summary"]
    assert summary["retention_deadline"] is None
    assert summary["retention_deadline_state"] == "observed on the 1 of 2 partitions that lag most"


def test_plan_that_is_withdrawn_between_two_reads_is_not_resolved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it has ranges, and that none of them is open, are one answer of one moment."""
    world.produce(3)
    plan, ranges, calls = world.plan(), world.ledger.ranges, []

    def withdrawn_after_the_first(**asked: Any) -> Any:
        calls.append(asked)
        return ranges(**asked) if len(calls) == 1 else ()

    monkeypatch.setattr(world.ledger, "ranges", withdrawn_after_the_first)
    assert not PlanResolvedTrigger(pipeline="orders", plan=plan.id).ask(world.ledger).done
    calls.clear()
    with pytest.raises(HeldError):
        running.finish_plan(world.worker(), "orders", plan.id)


def test_deleted_topic_that_the_pipeline_reads_no_more_is_not_lost(behind: World) -> None:
    """It was taken out of the file, and nobody waits for the rest of it."""
    behind.with_spec(topic_pattern="payments")
    behind.kafka.delete_topic("orders")
    assert behind.run().exit_code == 0
    summary = status(behind)["summary"]
    assert (summary["state"], summary["lost_offsets"]) == ("up to date", 0)


def test_wait_that_ends_below_an_origin_says_that_nothing_was_read_there(world: World) -> None:
    """A pipeline that begins at the end has passed every earlier offset without a row."""
    world.with_spec(start=Policy(kind=PolicyKind.LATEST))
    world.produce(5)
    world.run()
    reached = WatermarkTrigger(pipeline="orders", topic="orders", offset=4).ask(world.ledger)
    assert reached.done
    assert reached.message.endswith("; nothing of it was read below an origin: orders/0 begins at 5")
