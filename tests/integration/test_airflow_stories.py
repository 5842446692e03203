"""Order, holds and losses through the manual Dag: the real supervisor, a real broker, real jobs. Minutes each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_lake.core.waves import WaveState
from tests.airflow_lanes import MANUAL, Lane, Ran, World, until, world_of

LANES = {"traced": 1, "migrated": 2, "expired": 2}
STORY_SECONDS = 900

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One Airflow and one broker for this module, with one pipeline file per story."""
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
    hold = f"{lane.topic}/0 10-11 cancelled: poison. Lead it out with: kafka-lake release {waves[10]}r0"

    first = run(world, lane)
    assert states(first) == ("failed", "failed")
    assert ingested(first) == ["success"] * 3
    why = f"1 ranges of plan {planned['plan']} are not settled (see kafka-lake status {lane.name}); first "
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
    assert f"{lane.topic}/0: watermark moved from 10 to 14" in world.log(last.id, "kafka_lake.advance")
    assert lane.watermarks() == {0: 14}
    lane.assert_exact({key: value for key, value in lane.acknowledged.items() if key[1] >= 9})
    assert len(lane.publishes()) == 5
    done(lane, "audit", lane.name)


def test_migrated_topic_waits_without_a_slot_until_the_dag_has_drained_the_old_one(world: World) -> None:
    """One parent's last ten offsets are open, the very last a transaction's end: the new topic's wave is deferred, and
    goes on by itself once another run has settled them."""
    lane = world.lanes["migrated"]
    old, new = lane.topic, f"{lane.topic}-v2"
    lane.create_topic(new, 1)
    text = lane.file.read_text().replace(f'topics = ["{old}"]', f'topics = ["{old}", "{new}"]\nsettle_time = "0 s"')
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
    task = "kafka_lake.ingest[0]"
    until(lambda: world.airflow.task_states(MANUAL, child).get(task) == "deferred", STORY_SECONDS)
    pool = world.airflow.api("GET", "/pools/default_pool")
    assert (pool["deferred_slots"], pool["running_slots"], pool["queued_slots"]) == (1, 0, 0)
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


def test_lost_stretch_fails_the_run_until_a_person_skips_it(world: World) -> None:
    """Retention passes a planned range: the rest lands, the log names the commands, and these lead to a green run."""
    lane = world.lanes["expired"]
    lane.produce(40)
    (wave,) = [item["wave"] for item in done(lane, "plan", str(lane.file))["waves"]]
    (held,) = [item["range"] for item in done(lane, "wave", wave)["ranges"] if item["partition"] == 0]
    lane.delete_before(0, 8)

    first = run(world, lane)
    assert states(first) == ("failed", "failed")
    assert ingested(first) == ["success"]
    proposal = (
        f"LogStartMovedError: skip 0-8: 8 offsets, log start moved to 8. Pass them with: kafka-lake skip {lane.name} "
        f"--topic {lane.topic} --partition 0 --from 0 --to 8 --reason TEXT; then let the rest, 8-20, go on with: "
        f"kafka-lake release {held}.8"
    )
    assert f"first {lane.topic}/0 0-20, HELD: {proposal}" in world.log(first.id, "kafka_lake.finish")
    lane.assert_exact({key: value for key, value in lane.acknowledged.items() if key[0] == 1})
    assert lane.watermarks() == {0: 0, 1: 20}

    lane.obey(proposal)
    last = run(world, lane)
    assert states(last) == ("success", "success")
    assert ingested(last) == ["success"]
    lane.assert_exact({(p, o): value for (p, o), value in lane.acknowledged.items() if p == 1 or o >= 8})
    assert lane.watermarks() == {0: 20, 1: 20}
    audit = done(lane, "audit", lane.name)
    assert [stream["accounting"]["skipped"] for stream in audit["streams"]] == [8, 0]
