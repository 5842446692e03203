"""Order, holds, losses and what is not stable through the manual Dag: the real supervisor, a real broker, real jobs.
Minutes each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.core.ledger.waves import WaveState
from tests.airflow_lanes import MANUAL, Lane, Ran, World, until, world_of
from tests.groups import commit, commit_in

LANES = {"traced": 1, "migrated": 2, "expired": 2, "running": 2, "passed": 1, "pending": 1}
STORY_SECONDS = 900

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow and one broker for this module, with one pipeline file per scenario."""
    with world_of(tmp_path_factory.mktemp("world"), LANES) as made:
        yield made


def run(world: World, lane: Lane, **conf: Any) -> Ran:
    """Fill in the form for a lane, and wait for the run's end."""
    return world.run(MANUAL, {"pipeline": lane.name, **conf}, STORY_SECONDS)


def done(lane: Lane, *words: str) -> Any:
    """Do what a person does at the command line; returns the answer."""
    ended = lane.command(*words, "--json")
    assert ended.code == 0, ended.err or ended.out
    return ended.document


def states(ran: Ran) -> tuple[str, str]:
    """Return how a run and its last task ended, once its watermarks were advanced."""
    assert ran.tasks["kafka_lake.advance"] == "success", ran.tasks
    return ran.state, ran.tasks["kafka_lake.finish"]


def ingested(ran: Ran) -> list[str]:
    """Return the states of a run's mapped tasks."""
    return [state for task, state in sorted(ran.tasks.items()) if task.startswith("kafka_lake.ingest[")]


def offsets(lane: Lane) -> list[int]:
    """Return the offsets of every row."""
    return sorted(offset for (_, offset, _), times in lane.rows().items() for _ in range(times))


def test_trace_of_one_partition_holds_through_runs_and_a_crash_of_airflow(world: World) -> None:
    """9 ok, 10 cancelled, 11 and 12 ok: 10. 13 ok: still 10. Airflow killed and run again: 10. Only 10 again: 14."""
    lane = world.lanes["traced"]
    lane.produce(13)
    (lane.home / "start.json").write_text(json.dumps({lane.topic: {"0": 9}}))
    lane.write_pipeline('start = "offsets:start.json"', "target_range_bytes = 1\nmax_wave_bytes = 1", lane.table)
    planned = done(lane, "plan", str(lane.file))
    waves = {wave["ranges"][0]["start"]: wave["wave"] for wave in planned["waves"]}
    assert sorted(waves) == [9, 10, 11, 12]
    done(lane, "cancel", waves[10], "--reason", "poison")
    hold = f"{lane.topic}/0 10-11 cancelled: poison. End it with: kafka-lake release {waves[10]}r0"

    first = run(world, lane)
    assert states(first) == ("failed", "failed")
    assert ingested(first) == ["success"] * 3
    why = f"1 range of plan {planned['plan']} is not committed (see kafka-lake status {lane.name}); first "
    assert why + hold.replace(" cancelled", ", CANCELLED") in world.log(first.id, "kafka_lake.finish")
    assert offsets(lane) == [9, 11, 12]
    assert lane.watermarks() == {0: 10}

    lane.produce(1, begin=13)
    second = run(world, lane)
    assert states(second) == ("failed", "failed")
    assert ingested(second) == ["success"]
    assert hold in world.log(second.id, "kafka_lake.finish")
    assert offsets(lane) == [9, 11, 12, 13]
    assert lane.watermarks() == {0: 10}

    world.airflow.kill()
    world.airflow.start()
    third = run(world, lane)
    assert states(third) == ("failed", "failed")
    assert third.tasks["kafka_lake.ingest"] == "skipped"
    assert hold in world.log(third.id, "kafka_lake.finish")
    assert lane.watermarks() == {0: 10}

    done(lane, "release", waves[10])
    last = run(world, lane)
    assert states(last) == ("success", "success")
    assert ingested(last) == ["success"]
    assert f"{lane.topic}/0: asset event for offsets 10 to 14" in world.log(last.id, "kafka_lake.ingest", 0)
    assert lane.watermarks() == {0: 14}
    lane.assert_exact({key: value for key, value in lane.acknowledged.items() if key[1] >= 9})
    assert len(lane.publishes()) == 5
    done(lane, "audit", lane.name)


def test_migrated_topic_waits_without_a_slot_until_the_dag_has_drained_the_old_one(world: World) -> None:
    """One parent's last ten offsets are open, the very last a transaction's end: the new topic's wave is deferred, and
    goes on by itself once another run has committed them."""
    lane = world.lanes["migrated"]
    old, new = lane.topic, f"{lane.topic}-v2"
    lane.create_topic(new, 1)
    text = lane.file.read_text().replace(f'topics = ["{old}"]', f'topics = ["{old}", "{new}"]\nlayout_grace = "0 s"')
    lane.file.write_text(text)
    lane.produce(40)
    before = dict(lane.acknowledged)
    lane.transaction(9, commit=True, partitions=1)
    later = lane.produce(10, begin=100, topic=new, partitions=1)
    assert states(run(world, lane, topic=old, to="20")) == ("success", "success")
    seals = lane.home / "seals.json"
    seals.write_text(json.dumps({old: {"0": 30, "1": 20}}))
    done(lane, "migrate", lane.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals))
    assert states(run(world, lane, topic=old, to="20")) == ("success", "success")

    child = world.airflow.trigger(MANUAL, {"pipeline": lane.name, "topic": new})
    world.deferred(child, "kafka_lake.ingest[0]", STORY_SECONDS)
    ledger = lane.open_ledger()
    (waiting,) = ledger.waves(lane.name, [WaveState.PLANNED])
    ledger.close()
    assert (
        f"wave {waiting.id} waits for its turn: {old}/0 from 0 to its seal 30 has 10 open offsets: 20-30. Nothing of "
        "it was published" in world.log(child, "kafka_lake.ingest", 0)
    )
    lane.assert_exact(before)

    assert states(run(world, lane, topic=old)) == ("success", "success")
    ended = world.end(MANUAL, child, STORY_SECONDS)
    assert states(ended) == ("success", "success")
    assert ingested(ended) == ["success"]
    everything = [(p, o, value) for rows in (lane.acknowledged, later) for (p, o), value in rows.items()]
    assert len(everything) == 40 + 9 + 10
    assert lane.rows() == Counter(everything)
    assert lane.publishes()[-1] == waiting.id
    assert lane.watermarks() == {0: 30, 1: 20}
    assert lane.watermarks(new) == {0: 10}
    done(lane, "audit", lane.name)


def test_lost_slice_fails_the_run_until_a_person_skips_it(world: World) -> None:
    """Retention passes a planned range: the rest lands, the log names the commands, and these lead to a green run."""
    lane = world.lanes["expired"]
    lane.produce(40)
    done(lane, "plan", str(lane.file))
    lane.delete_before(0, 8)

    first = run(world, lane)
    assert states(first) == ("failed", "failed")
    assert ingested(first) == ["success"]
    proposal = (
        f"LogStartMovedError: skip 0-8: 8 offsets, log start moved to 8. Skip them with: kafka-lake skip {lane.name} "
        f"--topic {lane.topic} --partition 0 --from 0 --to 8 --reason TEXT"
    )
    assert f"first {lane.topic}/0 0-8, HELD: {proposal}" in world.log(first.id, "kafka_lake.finish")
    there = {(p, o): value for (p, o), value in lane.acknowledged.items() if p == 1 or o >= 8}
    lane.assert_exact(there)
    assert lane.watermarks() == {0: 0, 1: 20}

    lane.obey(proposal)
    last = run(world, lane)
    assert states(last) == ("success", "success")
    lane.assert_exact(there)
    assert lane.watermarks() == {0: 20, 1: 20}
    audit = done(lane, "audit", lane.name)
    assert [stream["accounting"]["skipped"] for stream in audit["streams"]] == [8, 0]


@contextmanager
def throttled(world: World, bytes_per_second: int) -> Iterator[None]:
    """Let the broker give every consumer no more than so much, as long as the block lasts."""
    quota = ["--entity-type", "clients", "--entity-default"]

    def alter(*words: str) -> None:
        address = ["--bootstrap-server", world.kafka.bootstrap]
        world.kafka.tool("kafka.admin.ConfigCommand", *address, "--alter", *words, *quota)

    alter("--add-config", f"consumer_byte_rate={bytes_per_second}")
    try:
        yield
    finally:
        alter("--delete-config", "consumer_byte_rate")


def reads_into_its_branch(lane: Lane) -> bool:
    """Return whether a job of the lane has made its staging branch, which it does right before it reads."""
    from pyiceberg.exceptions import NoSuchTableError

    with suppress(NoSuchTableError):
        return any(name.startswith("kafka_lake_") for name in lane.iceberg().metadata.refs)
    return False


def but_for_progress(wave: dict[str, Any]) -> dict[str, Any]:
    """Return a wave's document without its job's progress and application, which come while it reads."""
    shown = {"progress": None, "application": None}
    return {**wave, "attempts": [{**item, **shown} for item in wave["attempts"]]}


def test_running_read_is_passed_by_retention_and_not_by_a_skip(world: World) -> None:
    """A job is in the middle of a slow read: a skip of what it reads is refused, and changes nothing; then the log
    start passes most of what it has not read. The rest lands by the same run, and the words lead to the end."""
    lane = world.lanes["running"]
    lane.produce(20)
    lane.produce(100_000, size=500, begin=20, partitions=1)
    (wave,) = [item["wave"] for item in done(lane, "plan", str(lane.file))["waves"]]
    with throttled(world, 500_000):
        running = world.airflow.trigger(MANUAL, {"pipeline": lane.name})
        until(lambda: reads_into_its_branch(lane), STORY_SECONDS)
        before = but_for_progress(done(lane, "wave", wave))
        assert (before["state"], before["fence"], len(before["attempts"])) == ("CLAIMED", 1, 1)
        impatient = ["--topic", lane.topic, "--partition", "0", "--from", "0", "--to", "100", "--reason", "impatient"]
        refused = lane.command("skip", lane.name, *impatient, "--json")
        error = refused.document["error"]
        assert (refused.code, error["type"]) == (3, "ConcurrentError")
        assert f"Wave {wave} is being worked on by " in error["message"]
        assert error["message"].endswith(
            "Nothing was changed; repeat when that is over. A dead worker loses it after 2 min; from one that hangs, "
            "take it with: "
            f"kafka-lake cancel {wave} --reason TEXT"
        )
        lane.delete_before(0, 100_000)
        after = but_for_progress(done(lane, "wave", wave))
        assert after == before, "still in the middle of the read, and as it was before the skip"

    first = world.end(MANUAL, running, STORY_SECONDS)
    assert states(first) == ("failed", "failed")
    assert ingested(first) == ["success"]
    proposal = (
        "LogStartMovedError: skip 0-100000: 100,000 offsets, log start moved to 100000. Skip them with: kafka-lake "
        f"skip {lane.name} --topic {lane.topic} --partition 0 --from 0 --to 100000 --reason TEXT"
    )
    told = f"first {lane.topic}/0 0-100000, HELD: {proposal}"
    assert told in world.log(first.id, "kafka_lake.finish")
    assert f"{told};" not in world.log(first.id, "kafka_lake.finish"), "the rest is on no hold"
    attempts = done(lane, "wave", wave)["attempts"]
    assert [item["outcome"] for item in attempts if item["job"]] == ["failed", "committed"]
    kept = {(p, o): value for (p, o), value in lane.acknowledged.items() if p == 1 or o >= 100_000}
    lane.assert_exact(kept)
    assert lane.watermarks() == {0: 0, 1: 10}

    lane.obey(proposal)
    last = run(world, lane)
    assert states(last) == ("success", "success")
    lane.assert_exact(kept)
    assert lane.watermarks() == {0: 100_010, 1: 10}
    audit = done(lane, "audit", lane.name)
    assert [stream["accounting"]["skipped"] for stream in audit["streams"]] == [100_000, 0]


def test_skipped_parent_lets_nothing_start_before_the_order_is_acknowledged(world: World) -> None:
    """The skip frees the old topic's watermark alone: the new one's task starts no job and fails with the command."""
    lane = world.lanes["passed"]
    old, new = lane.topic, f"{lane.topic}-v2"
    lane.create_topic(new, 1)
    text = lane.file.read_text().replace(f'topics = ["{old}"]', f'topics = ["{old}", "{new}"]\nlayout_grace = "0 s"')
    lane.file.write_text(text)
    lane.produce(20)
    later = lane.produce(5, begin=100, topic=new)
    assert states(run(world, lane, topic=old, to="15")) == ("success", "success")
    seals = lane.home / "passed-seals.json"
    seals.write_text(json.dumps({old: {"0": 20}}))
    done(lane, "migrate", lane.name, "--from-topic", old, "--to-topic", new, "--seal", str(seals))
    done(lane, "plan", str(lane.file), "--topic", old, "--to", "15")
    slice_ = ["--topic", old, "--partition", "0", "--from", "15", "--to", "20", "--reason", "poison"]
    done(lane, "skip", lane.name, *slice_)

    waiting = run(world, lane, topic=new)
    assert states(waiting) == ("failed", "failed")
    assert ingested(waiting) == ["failed"]
    ledger = lane.open_ledger()
    (wave,) = ledger.waves(lane.name, [WaveState.PLANNED])
    topic_id = ledger.streams(lane.name, topic=old)[0].key.topic_id
    ledger.close()
    assert wave.fence == 0
    command = (
        f"kafka-lake skip {lane.name} --topic {old} --topic-id={topic_id} --partition 0 --from 15 --to 20 "
        "--reason TEXT --acknowledge-order"
    )
    words = (
        f"wave {wave.id} waits for its turn: {old}/0 from 0 to its seal 20 was skipped at 15-20 without acknowledging "
        f"the order: {command}. Nothing of it was published"
    )
    assert words in world.log(waiting.id, "kafka_lake.ingest", 0)
    assert words in world.log(waiting.id, "kafka_lake.finish")
    lane.assert_exact({key: value for key, value in lane.acknowledged.items() if key[1] < 15})
    assert (lane.watermarks(), lane.watermarks(new)) == ({0: 20}, {0: 0})

    lane.obey(command)
    last = run(world, lane, topic=new)
    assert states(last) == ("success", "success")
    assert ingested(last) == ["success"]
    assert lane.publishes()[-1] == wave.id
    assert lane.watermarks(new) == {0: 5}
    landed = [(p, o, value) for rows in (lane.acknowledged, later) for (p, o), value in rows.items() if o < 15]
    assert lane.rows() == Counter(landed)
    done(lane, "audit", lane.name)


def test_pending_commit_of_a_group_is_waited_for(world: World) -> None:
    """The plan waits, fails by name once its bound has passed, and plans nothing up to what the group had before;
    tried again it waits as before, and goes on by itself when the transaction has ended."""
    from confluent_kafka import Producer

    lane = world.lanes["pending"]
    lane.write_pipeline('end = "group:live"\nstable_wait = "15 s"', table=lane.table)
    lane.produce(12)
    commit(lane.bootstrap, "live", lane.topic, {0: 3})
    settings = {"transactional.id": "live-consumer", "transaction.timeout.ms": 600_000}
    committing = Producer({"bootstrap.servers": lane.bootstrap, **settings})
    committing.init_transactions(60)
    committing.begin_transaction()
    commit_in(committing, lane.bootstrap, "live", lane.topic, 0, 8)

    task = "kafka_lake.plan"
    waiting = world.airflow.trigger(MANUAL, {"pipeline": lane.name})
    until(lambda: world.airflow.task_states(MANUAL, waiting)[task] == "up_for_retry", STORY_SECONDS)
    said = world.airflow.task_log(MANUAL, waiting, task)
    assert re.search(
        rf"PendingCommitError: group 'live' .* on {lane.topic}/0.*transaction 'live-consumer' of producer [0-9]+", said
    )
    ledger = lane.open_ledger()
    assert ledger.pipeline(lane.name) is None
    ledger.close()

    until(lambda: world.airflow.task_states(MANUAL, waiting)[task] == "running", STORY_SECONDS)
    committing.commit_transaction(60)
    last = world.end(MANUAL, waiting, STORY_SECONDS)
    assert states(last) == ("success", "success")
    assert ingested(last) == ["success"]
    assert offsets(lane) == list(range(8))
    assert lane.watermarks() == {0: 8}
