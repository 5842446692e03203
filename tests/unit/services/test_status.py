"""The status of a pipeline: its summary, what needs a person, what runs, and what became of each offset."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_lake.cli.status import status_lines
from airflow_kafka_lake.core.errors import (
    IdentityError,
    JobFailedError,
    KafkaLakeError,
    UnavailableError,
)
from airflow_kafka_lake.core.kafka import snapshots
from airflow_kafka_lake.core.ledger.attempts import Renew
from airflow_kafka_lake.core.ledger.decisions import Pause
from airflow_kafka_lake.core.ledger.guards import LEASE
from airflow_kafka_lake.core.ledger.requests import AskForWave
from airflow_kafka_lake.core.ledger.waves import OVER, TROUBLE
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.reports.progress import Progress, Step
from airflow_kafka_lake.core.reports.streams import StreamState
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.core.wire import timestamp
from airflow_kafka_lake.services import claims, decisions, reporting, running
from tests.gates import Before
from tests.world import FOLLOW, SPEC, World

pytestmark = pytest.mark.unit

HOUR = 3600


def status(world: World, **subject: Any) -> dict[str, Any]:
    """Return the status document."""
    return reporting.status(world.worker(), world.spec, **subject).to_json()


def overview(world: World) -> dict[str, Any]:
    """Return the document of all pipelines."""
    return reporting.overview(world.ledger, world.clock, lambda _: world.kafka).to_json()


def parts(stream: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Return a stream's timeline."""
    return [(item["from"], item["to"], item["status"]) for item in stream["timeline"]]


@pytest.fixture
def landed(world: World) -> World:
    """A world with five committed offsets, one of them a marker."""
    world.produce(2)
    world.produce(2, transaction="t")
    world.end("t")
    world.run()
    return world


def test_summary_of_a_pipeline_that_has_everything(landed: World) -> None:
    """Rows, offsets and time, and nothing for a person."""
    document = status(landed)
    summary, wave = document["summary"], landed.ledger.waves("orders")[0]
    assert (summary["state"], summary["needs_person"], summary["lag"], summary["behind_seconds"]) == (
        "up to date",
        0,
        0,
        0,
    )
    assert (summary["landed_rows"], summary["landed_offsets"], summary["streams"], summary["topics"]) == (4, 5, 1, 1)
    assert (summary["last_landed_wave"], summary["waves"]["committed"]) == (wave.id, 1)
    assert summary["retention_deadline_state"] == "nothing is unread"
    assert (document["running"], document["needs_person"], document["tables"]) == ([], [], ["raw.orders"])
    assert parts(document["streams"][0]) == [(0, 5, "committed")]


def test_behind_is_the_age_of_the_first_unread_record(landed: World) -> None:
    """In time, not in offsets: the oldest of all partitions, at least as old as said."""
    landed.produce(1)
    landed.clock.advance(timedelta(hours=3))
    landed.produce(7)
    document = status(landed)
    summary, (stream,) = document["summary"], document["streams"]
    assert summary["behind_seconds"] <= 3 * HOUR <= summary["behind_below_seconds"] <= summary["behind_seconds"] * 1.34
    assert (summary["lag"], summary["behind_state"], summary["behind_stream"]) == (8, "observed", ["orders", 0])
    assert (stream["state"], stream["behind_seconds"]) == ("behind", summary["behind_seconds"])
    assert parts(stream) == [(0, 5, "committed"), (5, 13, "unread")]


def test_retention_deadline_is_that_of_the_first_unread_record(landed: World) -> None:
    """Never later than it may be; within a day of it a person is told."""
    landed.kafka._topics["orders"].retention_ms = 4 * HOUR * 1000
    landed.produce(1)
    landed.clock.advance(timedelta(hours=3))
    document = status(landed)
    left = (landed.clock.now() + timedelta(hours=1)).isoformat()
    assert document["summary"]["retention_deadline"][:19] <= left[:19]
    assert document["summary"]["retention_stream"] == ["orders", 0]
    (need,) = document["needs_person"]
    assert (need["need"], need["commands"][0]["line"]) == ("retention", "kafka-lake run orders")


def test_deadline_where_size_rules_is_not_told(landed: World) -> None:
    """No time is guessed."""
    landed.kafka._topics["orders"].retention_bytes = 1_000
    landed.produce(1)
    summary = status(landed)["summary"]
    assert summary["retention_deadline"] is None
    assert summary["retention_deadline_state"] == "size-based retention rules: no time can be told"


def test_broker_that_is_down_makes_lag_and_age_unknown_and_nothing_else(landed: World) -> None:
    """What the ledger knows is all there."""
    landed.kafka.down = True
    summary = status(landed)["summary"]
    assert (summary["state"], summary["lag"], summary["behind_seconds"]) == ("unknown", None, None)
    assert summary["lag_state"].startswith("unknown: Kafka in memory is down")
    assert summary["behind_state"].startswith("unknown: Kafka in memory is down")
    assert (summary["landed_rows"], summary["landed_offsets"]) == (4, 5)


def test_partition_without_an_answer_leaves_the_others_counted() -> None:
    """The sum says of how many partitions it is."""
    world = World(partitions=2)
    world.produce(1, 0)
    world.produce(1, 1)
    world.run()
    world.produce(3, 0)
    world.kafka.log("orders", 1).unreachable = "no leader"
    summary = status(world)["summary"]
    assert (summary["lag"], summary["lag_state"]) == (3, "observed on 1 of 2 partitions")
    assert summary["streams_by_state"] == {"unknown": 1, "behind": 1}


def test_hold_is_told_with_the_command_that_ends_it(landed: World) -> None:
    """As one thing that needs a person, with its subject; the timeline shows where it lies."""
    landed.produce(4)
    wave = landed.planned_wave(Bounds(start=7, end=8))
    decisions.cancel(landed.worker(), wave, "not now")
    document = status(landed)
    (need,) = document["needs_person"]
    assert (need["need"], need["offsets"], need["streams"]) == ("cancelled", 1, [list(landed.key())])
    assert need["text"].startswith("orders/0 7-8 is cancelled: not now")
    assert need["commands"][0]["line"] == f"kafka-lake release {need['subject']}"
    assert (document["summary"]["state"], document["summary"]["held_offsets"]) == ("blocked", 1)
    assert parts(document["streams"][0]) == [(0, 5, "committed"), (5, 7, "unread"), (7, 8, "held"), (8, 9, "unread")]


def test_holds_of_one_wave_and_one_reason_are_one_thing() -> None:
    """A cancelled wave of many partitions is one line, and one command."""
    world = World(partitions=5)
    for partition in range(5):
        world.produce(2, partition)
    wave = world.planned_wave()
    decisions.cancel(world.worker(), wave, "not now")
    (need,) = status(world)["needs_person"]
    slices = "orders/0 0-2, orders/1 0-2, orders/2 0-2 and 2 more slices (10 offsets)"
    assert need["text"] == f"{slices} are cancelled (wave {wave}): not now"
    assert [item["line"] for item in need["commands"]] == [f"kafka-lake release {wave}", f"kafka-lake wave {wave}"]
    assert (need["subject"], len(need["streams"])) == (wave, 5)


def test_offsets_that_kafka_deleted_unread_are_lost(landed: World) -> None:
    """They are shown as lost, and passed by a person only."""
    landed.produce(6)
    landed.retain_from(8)
    document = status(landed)
    (need,) = document["needs_person"]
    assert (need["need"], need["offsets"]) == ("lost", 3)
    assert need["commands"][0]["line"].startswith("kafka-lake skip orders --topic orders --partition 0 --from 5 --to 8")
    assert document["summary"]["lost_offsets"] == 3
    assert parts(document["streams"][0]) == [(0, 5, "committed"), (5, 8, "lost"), (8, 11, "unread")]


def test_open_transaction_makes_a_stream_wait(landed: World) -> None:
    """What lies behind it is not stable yet; lag and age do not count it."""
    landed.produce(2, transaction="u")
    landed.produce(1)
    document = status(landed)
    (stream,) = document["streams"]
    assert (stream["state"], stream["lag"], stream["behind_seconds"]) == ("waiting", 0, 0)
    assert parts(stream) == [(0, 5, "committed"), (5, 8, "waiting")]


def test_skipped_offsets_are_told_apart_from_landed_ones(landed: World) -> None:
    """They count as covered, and not as landed."""
    landed.produce(4)
    decisions.skip(landed.worker(), "orders", landed.stream(), OffsetRange(6, 7), reason="bad", acknowledge_order=False)
    landed.run()
    document = status(landed)
    assert (document["summary"]["landed_offsets"], document["summary"]["skipped_offsets"]) == (8, 1)
    assert parts(document["streams"][0]) == [(0, 6, "committed"), (6, 7, "skipped"), (7, 9, "committed")]


def test_wave_that_is_worked_on_is_running(landed: World) -> None:
    """With its attempt and since when; its offsets are running, those of other waves planned."""
    landed.produce(4)
    wave = landed.planned_wave(Bounds(start=5, end=7))
    claim = claims.claim_wave(landed.worker(), wave)
    document = status(landed)
    (running,) = document["running"]
    assert (running["wave"], running["alive"], running["attempt"]) == (wave, True, claim.key.attempt)
    assert running["progress"] is None
    assert document["summary"]["waves"]["running"] == 1
    assert document["streams"][0]["state"] == "running"
    assert parts(document["streams"][0]) == [(0, 5, "committed"), (5, 7, "running"), (7, 9, "unread")]


def test_wave_whose_worker_gave_no_sign_is_interrupted(landed: World) -> None:
    """After its lease; the next run takes it up, and its offsets are planned again."""
    landed.produce(4)
    claims.claim_wave(landed.worker(), landed.planned_wave())
    landed.lease_ends()
    document = status(landed)
    assert document["running"][0]["alive"] is False
    assert (document["summary"]["waves"]["running"], document["summary"]["waves"]["interrupted"]) == (0, 1)
    (need,) = document["needs_person"]
    assert (need["need"], need["commands"][0]["line"]) == ("interrupted", "kafka-lake run orders")
    assert parts(document["streams"][0]) == [(0, 5, "committed"), (5, 9, "planned")]


@pytest.mark.parametrize(
    ("seconds", "silent", "free_in", "alive"),
    [(10, None, None, True), (29, None, None, True), (40, 40, 80, True), (300, 300, 0, False)],
)
def test_worker_is_silent_once_its_sign_of_life_is_overdue(
    landed: World, seconds: int, silent: int | None, free_in: int | None, *, alive: bool
) -> None:
    """It renews its lease every ten seconds: long before the lease ends it is known for how long it has not."""
    landed.produce(4)
    wave = landed.planned_wave()
    claim = claims.claim_wave(landed.worker(), wave)
    read = Progress(step=Step.READ, rows_expected=4)
    for rows in (1, 2):
        landed.clock.advance(timedelta(seconds=10))
        landed.ledger.commit(Renew(key=claim.key, lease=LEASE, progress=read.counted(rows)))
    landed.clock.advance(timedelta(seconds=seconds))
    (running,) = status(landed)["running"]
    assert (running["silent_seconds"], running["free_in_seconds"], running["alive"]) == (silent, free_in, alive)
    assert (running["progress"]["seconds_left"] is None) is (silent is not None)
    one = reporting.wave(landed.ledger, wave).to_json()
    assert (one["silent_seconds"], one["alive"]) == (silent, alive)
    assert one["attempts"][0]["progress"] == running["progress"]


def test_wave_whose_last_attempt_failed_is_told_with_the_reason_until_it_lands(landed: World) -> None:
    """A failed run is seen where people look first, also where its output was not kept."""
    landed.produce(4)
    wave = landed.planned_wave()

    def fails() -> None:
        raise JobFailedError("Spark ran out of memory")

    with pytest.raises(JobFailedError):
        landed.ingest(wave, landed.worker(Before("runner.stage", fails)))
    (need,) = status(landed)["needs_person"]
    lines = [command["line"] for command in need["commands"]]
    assert (need["need"], lines) == ("failed", ["kafka-lake run orders", f"kafka-lake wave {wave}"])
    ended = timestamp(landed.ledger.attempts(wave)[0].ended_at)
    assert need["text"].startswith(
        f"the last attempt at wave {wave} failed at {ended}; a retry of its task, or the next run, tries again: "
    )
    assert "Spark ran out of memory" in need["text"]
    assert landed.run().exit_code == 0
    assert status(landed)["needs_person"] == []


def test_runs_that_end_before_a_wave_are_told_until_a_plan_succeeds(landed: World) -> None:
    """Once for each reason, and also where the plan that succeeds finds nothing to do; the failure of a period that a
    person asks for is that person's to see."""

    def failing(error: KafkaLakeError, bounds: Bounds = FOLLOW) -> None:
        def fails() -> None:
            raise error

        with pytest.raises(type(error)):
            landed.run(bounds, landed.worker(Before("source.snapshot", fails)))

    def lines() -> list[str]:
        return [line.subject for line in landed.ledger.events("orders", kind=TROUBLE)]

    failing(UnavailableError("no broker answers"), Bounds(start=0, end=1))
    assert lines() == []
    began = timestamp(landed.clock.now())
    for _ in range(2):
        failing(UnavailableError("no broker answers"))
        landed.clock.advance(timedelta(hours=1))
    (need,) = status(landed)["needs_person"]
    assert (need["need"], need["commands"][0]["line"]) == ("failed", "kafka-lake run orders")
    assert need["text"] == f"since {began} no plan succeeds, and nothing new is read: no broker answers"
    failing(IdentityError("table raw.orders is gone"))
    assert "table raw.orders is gone" in status(landed)["needs_person"][0]["text"]
    assert landed.run().exit_code == 0
    assert status(landed)["needs_person"] == []
    assert landed.run().exit_code == 0
    assert lines() == ["UnavailableError", "IdentityError", OVER]


def test_interruption_is_told_with_the_last_sign_of_life(landed: World) -> None:
    """The end of the lease is two minutes later."""
    landed.produce(4)
    heard = landed.clock.now()
    claims.claim_wave(landed.worker(), landed.planned_wave())
    landed.lease_ends()
    (need,) = status(landed)["needs_person"]
    assert f"no sign since {timestamp(heard)}." in need["text"]


def test_dead_worker_of_this_host_has_interrupted_its_wave_at_once(landed: World) -> None:
    """Its lease says so two minutes later; the next run takes the wave up at once too."""
    landed.produce(4)
    claims.claim_wave(landed.worker(), landed.planned_wave())
    assert status(landed)["streams"][0]["state"] == "running"
    landed.dead.update(range(100))
    document = status(landed)
    assert ([need["need"] for need in document["needs_person"]], document["running"][0]["alive"]) == (
        ["interrupted"],
        False,
    )
    assert (document["streams"][0]["state"], document["summary"]["waves"]["running"]) == ("behind", 0)


def test_landed_offsets_that_no_watermark_has_passed_are_behind(landed: World) -> None:
    """Consumers were not told of them yet; an advance is all that is left."""
    landed.produce(4)
    landed.ingest(landed.planned_wave())
    assert (status(landed)["summary"]["lag"], status(landed)["summary"]["state"]) == (0, "behind")
    landed.advance()
    assert status(landed)["summary"]["state"] == "up to date"


def test_holds_of_one_cause_that_a_release_ends_name_it_before_the_skips() -> None:
    """A job has dropped a record: read again, nothing is passed."""
    world = World(partitions=2)
    for partition in range(2):
        world.produce(6, partition)
    world.runner.tamper = lambda rows: [row for row in rows if row[3] != 2]
    assert world.run().exit_code == 1
    (need,) = status(world)["needs_person"]
    assert [command["line"].split()[1] for command in need["commands"]] == ["release", "skip", "skip", "wave"]
    assert need["commands"][0]["line"] == f"kafka-lake release {need['subject']}"


def test_ranges_held_for_one_cause_have_the_commands_that_end_it(world: World) -> None:
    """A release alone would hold them again."""
    world.produce(4)
    world.run()
    world.produce(4)
    world.run()
    world.reopen(0, 8)
    world.table.delete_foreign(lambda row: row.offset in {1, 6})
    assert world.run().exit_code == 1
    needs = status(world)["needs_person"]
    lines = [command["line"] for need in needs for command in need["commands"]]
    assert [line for line in lines if "--from 0 --to 4 --restore-deleted" in line]
    assert [line for line in lines if "--from 4 --to 8 --restore-deleted" in line]
    assert not [line for line in lines if line.startswith("kafka-lake release")]


def test_wave_that_was_interrupted_goes_to_a_worker_where_a_task_waits_for_it(landed: World) -> None:
    """Another run would only wait for the same."""
    landed.produce(4)
    wave = landed.planned_wave()
    claims.claim_wave(landed.worker(), wave)
    landed.lease_ends()
    landed.ledger.commit(AskForWave(id="r", wave=wave, actor="airflow:hourly/r/ingest"))
    (need,) = status(landed)["needs_person"]
    assert (need["need"], need["commands"][0]["line"]) == ("interrupted", "kafka-lake worker")
    assert need["text"].endswith("The next worker that is free takes it up")


def test_pause_is_told_with_who_and_why(landed: World) -> None:
    """It is a person's decision, and a person's to end."""
    landed.ledger.commit(Pause(pipeline="orders", plan=None, reason="the cluster moves", actor="ann"))
    document = status(landed)
    (need,) = document["needs_person"]
    assert need["text"].endswith("by ann: the cluster moves")
    assert (need["need"], need["commands"][0]["line"]) == ("paused", "kafka-lake resume orders")
    assert (document["summary"]["paused"], overview(landed)["pipelines"][0]["paused"]) == (True, True)


def test_partition_that_no_plan_has_seen_is_counted(landed: World) -> None:
    """It has no stream yet, so it would be missing without a word: its records are in the lag, and have an age."""
    landed.kafka.add_partitions("orders", 3)
    landed.kafka.produce("orders", 2, *[b"x"] * 7)
    landed.clock.advance(timedelta(seconds=90))
    document = status(landed)
    summary = document["summary"]
    assert (summary["new_partitions"], summary["lag"], summary["lag_state"]) == (2, 7, "observed")
    assert (summary["state"], summary["behind_stream"]) == ("not planned", ["orders", 2])
    (group,) = [item for item in document["groups"] if item["state"] == "not planned"]
    assert (group["numbers"], group["lag"]) == ([[1, 3]], 7)
    assert (overview(landed)["pipelines"][0]["lag"], status(landed, topic="orders")["summary"]["lag"]) == (7, 7)
    for _ in range(2):  # the old layout is sealed a while after the new one was seen
        landed.run()
        landed.clock.advance(timedelta(seconds=400))
    assert status(landed)["summary"]["lag"] == 0


def test_topic_that_no_plan_has_seen_is_in_the_lag() -> None:
    """Also before the first plan, where the policy says where it will begin; else the lag is of the others."""
    world = World(spec=replace(SPEC, topics=("orders", "returns")))
    world.produce(3)
    world.run()
    world.create("returns")
    world.produce(4, topic="returns")
    assert status(world)["summary"]["lag"] == 4
    world.with_spec(start=Policy(kind=PolicyKind.TIMESTAMP, timestamp_ms=0))
    summary = status(world)["summary"]
    assert (summary["lag"], summary["lag_state"]) == (0, "observed on 1 of 2 partitions")
    assert [item["state"] for item in status(world)["groups"]] == ["not planned", "up to date"]


def calm(world: World) -> tuple[str, str, int, dict[str, int]]:
    """Return the state of a pipeline alone and among all, its needs, and its partitions that no plan has seen."""
    document = status(world)
    summary, among_all = document["summary"], overview(world)["pipelines"][0]
    assert summary["state"] in {group["state"] for group in document["groups"]}
    assert summary["needs_person"] == among_all["needs_person"]
    return summary["state"], among_all["state"], summary["needs_person"], summary["new_by_state"]


def test_new_partition_without_a_leader_is_unknown(landed: World) -> None:
    """Kafka says that it is there, and not how far it goes."""
    landed.kafka.add_partitions("orders", 2)
    landed.kafka.log("orders", 1).unreachable = "no leader"
    assert calm(landed) == ("unknown", "unknown", 0, {"unknown": 1})
    summary = status(landed)["summary"]
    assert (summary["lag_state"], summary["new_partitions"]) == ("observed on 1 of 2 partitions", 0)


def test_new_topic_that_the_brokers_disagree_about_is_unknown() -> None:
    """It has one partition or more, and none of them in a plan."""
    world = World(spec=replace(SPEC, topics=("orders", "returns")))
    world.produce(3)
    world.run()
    world.create("returns")
    world.kafka.doubtful.add("returns")
    assert calm(world) == ("unknown", "unknown", 0, {"unknown": 1})
    world.kafka.doubtful.clear()
    assert calm(world)[0] == "up to date"


@pytest.mark.parametrize("kind", ["timestamp", "group"])
def test_new_topic_of_which_only_the_plan_finds_the_start_is_not_planned(kind: str) -> None:
    """Its lag is not known, which is not none; a topic without a record has none."""
    given = {"timestamp_ms": 1_000} if kind == "timestamp" else {"group": "g"}
    start = Policy(kind=PolicyKind(kind), **given)  # type: ignore[arg-type]
    world = World(spec=replace(SPEC, topics=("orders", "returns"), start=start))
    world.kafka.commit_group("g", "orders", 0, 0)
    world.produce(3)
    world.run()
    world.create("returns")
    assert calm(world)[:1] == ("up to date",)
    world.produce(1_000, topic="returns")
    assert calm(world) == ("not planned", "not planned", 0, {"not planned": 1})


def test_new_topic_behind_a_transaction_that_hangs_waits_for_a_person() -> None:
    """Its records are never read until somebody ends the transaction."""
    world = World(spec=replace(SPEC, topics=("orders", "returns")))
    world.produce(3)
    world.run()
    world.create("returns")
    world.produce(1, topic="returns", transaction="t")
    assert calm(world) == ("waiting", "waiting", 0, {"waiting": 1})
    world.clock.advance(timedelta(hours=5))
    assert calm(world) == ("waiting", "waiting", 1, {"waiting": 1})
    document = status(world)
    assert document["needs_person"][0]["text"].startswith("returns/0: transaction 't'")
    assert document["waiting_for_stable"][0]["topic"] == "returns"


def test_topic_that_kafka_does_not_have_needs_a_person() -> None:
    """A run reads the others and ends with a failure, each time."""
    world = World()
    world.produce(3)
    world.run()
    world.with_spec(topics=("orders", "clicks"))
    assert world.run().exit_code == 1
    assert calm(world) == ("unknown", "unknown", 1, {"unknown": 1})
    (need,) = status(world)["needs_person"]
    assert (need["need"], need["text"].partition(":")[0]) == ("missing", "Kafka has no topic clicks")


def test_deleted_topic_that_the_file_names_still_needs_a_person() -> None:
    """Also where it was the only one: that every stream is unknown does not say what to do."""
    world = World(spec=replace(SPEC, topics=("orders", "returns")))
    world.create("returns")
    world.produce(3)
    world.produce(3, topic="returns")
    world.run()
    world.kafka.delete_topic("returns")
    assert (world.run().exit_code, calm(world)) == (1, ("unknown", "unknown", 1, {"unknown": 1}))
    world.with_spec(topics=("orders",))
    assert world.run().exit_code == 0
    assert calm(world) == ("up to date", "up to date", 0, {})
    world.kafka.delete_topic("orders")
    assert [need["need"] for need in status(world)["needs_person"]] == ["missing"]
    world.kafka.down = True
    assert status(world)["needs_person"] == []


def test_log_that_ends_below_what_a_plan_has_seen_is_not_up_to_date(world: World) -> None:
    """What is missing there, and what is written there anew, is in no number; the next plan names it."""
    world.produce(6)
    world.run()
    world.kafka.log("orders", 0).truncate(2)
    world.produce(1)
    document = status(world)
    (line,) = document["streams"]
    assert (line["state"], line["lag"]) == ("unknown", None)
    assert line["bounds_state"].startswith("unknown: the log ends at 3, and a plan has seen it end at 6")
    assert document["summary"]["state"] == "unknown"


def test_what_a_deposed_leader_says_is_not_known(world: World) -> None:
    """Its end proves nothing: what has landed is told, and that the rest is not known."""
    log = world.kafka.log("orders", 0)
    world.produce(3)
    log.elect()
    world.run()
    log.epochs = {0: 0}
    world.produce(2)
    document = status(world)
    assert (document["summary"]["lag"], document["streams"][0]["lag"]) == (None, None)
    assert "under epoch 0, and it was led under 1 before" in document["summary"]["lag_state"]


def test_pipeline_that_has_planned_later_tells_the_others_of_a_deposed_leader(world: World) -> None:
    """Pipelines of one connection are observed together: the newest leader epoch that one of them knows counts."""
    world.produce(3)
    world.run()
    running.run(world.worker(), replace(world.spec, name="other", table="raw.other"), FOLLOW)
    log = world.kafka.log("orders", 0)
    log.elect()
    world.produce(1)
    world.run()
    log.epochs = {0: 0}
    assert [(item["lag"], item["state"]) for item in overview(world)["pipelines"]] == [(None, "unknown")] * 2


def test_what_is_in_the_lake_already_is_no_lag(landed: World) -> None:
    """A period that landed out of turn lies above the watermark, and is there."""
    landed.produce(10)
    begin = landed.stream().watermark
    landed.run(Bounds(start=begin + 4, end=begin + 9))
    assert landed.stream().watermark == begin
    assert status(landed)["summary"]["lag"] == 5


def test_of_very_many_partitions_those_that_lag_most_are_asked_for_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have none, and the summary says of how many it speaks."""
    monkeypatch.setattr(snapshots, "MOST", 1)
    world = World(partitions=2)
    world.produce(1, 0)
    world.produce(2, 1)
    world.plan()
    document = status(world)
    assert [item["behind_seconds"] for item in document["streams"]] == [None, 0]
    assert document["summary"]["behind_state"] == "observed on the 1 of 2 partitions that lag most"


def test_age_behind_a_record_of_the_future_is_unknown(landed: World) -> None:
    """A clock ten years ahead wrote it; three days of records behind it are not young."""
    ahead = int((landed.clock.now() + timedelta(days=3650)).timestamp() * 1000)
    landed.kafka.produce("orders", 0, b"future", timestamp_ms=ahead)
    landed.run()
    landed.produce(1000)
    landed.clock.advance(timedelta(days=3))
    report = reporting.status(landed.worker(), landed.spec)
    summary = report.summary
    assert (summary.behind_seconds, summary.behind_below_seconds, summary.retention_deadline) == (None, None, None)
    assert summary.behind_state == "unknown: 1 partition has a record of a clock that is ahead of this one"
    assert any(summary.behind_state in line.text for line in status_lines(report, 200))


def test_age_of_some_partitions_is_not_that_of_all() -> None:
    """A partition that no leader answers for may have older ones."""
    world = World(partitions=2)
    world.produce(1, 1)
    world.run()
    world.produce(1)
    world.kafka.log("orders", 1).unreachable = "no leader"
    summary = status(world)["summary"]
    assert (summary["behind_seconds"], summary["behind_state"]) == (0, "observed on 1 of 2 partitions")


def test_pipelines_that_read_one_topic_have_each_its_own_age(landed: World) -> None:
    """One has all but the last record, the other has read nothing."""
    other = World.__new__(World)
    other.__dict__.update(landed.__dict__)
    other.with_spec(name="copy", table="raw.copy")
    landed.clock.advance(timedelta(hours=5))
    landed.produce(1)
    other.plan()
    behind = {item["pipeline"]: item["behind_seconds"] for item in overview(landed)["pipelines"]}
    assert behind["copy"] >= 5 * HOUR * 3 / 4
    assert behind["orders"] == 0


def test_calls_of_a_status_do_not_grow_with_the_partitions() -> None:
    """Ledger and Kafka are asked as often for fifty partitions as for two, all of them behind at different times."""
    calls: dict[int, list[str]] = {2: [], 50: []}
    for partitions, seen in calls.items():
        world = World(partitions=partitions)
        for partition in range(partitions):
            world.produce(2, partition)
            world.clock.advance(timedelta(hours=partition))
        world.plan()
        reporting.status(world.worker(seen.append), world.spec)
    assert calls[2] == calls[50]
    assert calls[2].count("source.offsets_at") == 6


def test_listed_streams_are_narrowed_and_the_summary_is_not() -> None:
    """What is filtered out still counts."""
    world = World(partitions=3)
    for partition in range(3):
        world.produce(1, partition)
    world.run()
    world.produce(2, 1)
    document = status(world, show=lambda item: item.state is StreamState.BEHIND)
    assert [item["partition"] for item in document["streams"]] == [1]
    assert document["summary"]["streams_by_state"] == {"behind": 1, "up to date": 2}


def test_finished_waves_are_listed_by_the_newest(world: World) -> None:
    """The list stays short however long the history is; the summary counts all."""
    for _ in range(42):
        world.produce(1)
        world.run()
    document = status(world)
    known = [wave.id for wave in world.ledger.waves("orders")]
    assert [item["wave"] for item in document["waves"]] == known[-40:]
    assert document["summary"]["waves"]["committed"] == 42


def test_all_pipelines_are_listed_worst_first(landed: World) -> None:
    """Each with its summary; Kafka is asked once for those of one connection."""
    other = World.__new__(World)
    other.__dict__.update(landed.__dict__)
    other.create("payments")
    other.with_spec(name="payments", topics=("payments",), table="raw.payments")
    other.produce(3, topic="payments")
    other.plan()
    document = overview(landed)
    assert [(item["pipeline"], item["state"], item["lag"]) for item in document["pipelines"]] == [
        ("payments", "behind", 3),
        ("orders", "up to date", 0),
    ]
    assert document["pipelines"][1]["landed_rows"] == 4


def test_no_pipeline_is_an_empty_list(world: World) -> None:
    """A new ledger knows nothing, which is no error."""
    assert overview(world)["pipelines"] == []


def test_pipelines_without_their_kafka_are_unknown(landed: World) -> None:
    """A connection that is missing is a reason, and keeps nothing else from being shown."""
    document = reporting.overview(
        landed.ledger, landed.clock, lambda _: "there is no connection kafka_default"
    ).to_json()
    (line,) = document["pipelines"]
    assert (line["state"], line["landed_rows"]) == ("unknown", 4)
    assert line["lag_state"] == "unknown: there is no connection kafka_default"


def test_wave_that_no_worker_takes_needs_a_person(world: World) -> None:
    """A task asks for it, and no worker has any wave; one that is busy with another takes it later."""
    world.with_spec(target_range_bytes=1, max_wave_bytes=1)
    world.produce(2)
    first, second = (wave.id for wave in world.plan().waves)
    for wave in (first, second):
        world.ledger.commit(AskForWave(id=wave, wave=wave, actor="airflow:hourly/r/ingest"))
    assert status(world)["needs_person"] == []
    world.clock.advance(timedelta(minutes=3))
    (item,) = status(world)["needs_person"]
    assert (item["need"], [command["line"] for command in item["commands"]]) == ("untaken", ["kafka-lake worker"])
    assert f"no worker has taken wave {first}, nor 1 more, which airflow:hourly/r/ingest asks for since" in item["text"]
    claims.claim_wave(world.worker(), second)
    assert status(world)["needs_person"] == []
