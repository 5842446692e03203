"""Offsets that Kafka has lost since they were planned: never done, and led out by exactly what the hold says."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress

import pytest

from airflow_kafka_lake.core.errors import ConcurrentError, HeldError, KafkaLakeError
from airflow_kafka_lake.core.ledger.records import RangeRecord
from airflow_kafka_lake.core.ledger.waves import RangeState, WaveState
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions, reporting
from tests.gates import Before, Killed, KilledError
from tests.kit.memory_kafka import MemoryKafka
from tests.world import World

pytestmark = pytest.mark.unit
COMMAND = re.compile(r"kafka-lake (\w+) ([^;]+)")


def obey(world: World, reason: str) -> list[str]:
    """Do what a reason says, word by word: skips, and nothing else; returns the commands' names."""
    done = []
    for name, words in COMMAND.findall(reason):
        assert name == "skip"
        pipeline, *options = shlex.split(words.replace("=", " "))
        acknowledge = options[-1] == "--acknowledge-order" and bool(options.pop())
        given = dict(zip(options[::2], options[1::2], strict=True))
        (stream,) = world.ledger.streams(pipeline, topic=given["--topic"], partitions=[int(given["--partition"])])
        assert given.get("--topic-id", stream.key.topic_id) == stream.key.topic_id
        slice_ = OffsetRange(int(given["--from"]), int(given["--to"]))
        why = given["--reason"].replace("TEXT", "as the reason says")
        decisions.skip(world.worker(), pipeline, stream, slice_, reason=why, acknowledge_order=acknowledge)
        done.append(name)
    return done


def held(world: World) -> RangeRecord:
    """Return the one range that is held."""
    (item,) = world.ledger.ranges(pipeline="orders", states={RangeState.HELD})
    return item


def pieces(world: World) -> list[tuple[str, str]]:
    """Return the ranges of partition 0 and their states."""
    return [(str(i.range), i.state.value) for i in world.ledger.ranges(pipeline="orders") if i.stream.partition == 0]


def test_what_the_hold_says_leads_out_also_beside_other_ranges() -> None:
    """Its wave was published without it, and with all that is left; the skip that is named is all that is needed."""
    world = World(partitions=2)
    world.produce(6, 0)
    world.produce(6, 1)
    wave = world.planned_wave()
    world.retain_from(4)
    assert world.ingest(wave).state is WaveState.COMMITTED
    world.advance()
    assert (world.stream(0).watermark, world.stream(1).watermark) == (0, 6)
    assert obey(world, held(world).reason or "") == ["skip"]
    assert pieces(world) == [("0-4", "SKIPPED"), ("4-6", "COMMITTED")]
    assert world.run().exit_code == 0
    world.check()
    assert (world.offsets(0), world.stream(0).watermark) == ([4, 5], 6)


def test_loss_of_a_whole_range_needs_only_the_skip(world: World) -> None:
    """There is no rest to be released."""
    world.produce(5)
    world.planned_wave(Bounds(start=0, end=3))
    world.retain_from(4)
    assert world.run().exit_code == 1
    assert obey(world, held(world).reason or "") == ["skip"]
    done = world.run()
    assert [line.partition(". Skip")[0] for line in done.held] == [
        "orders/0: offsets 3-4 are gone: the log starts at 4"
    ]


def test_watermark_stands_before_what_is_lost(world: World) -> None:
    """Retention is no success, also when the log starts beyond the whole range; what lies above waits for it."""
    world.produce(9)
    for start in (0, 3, 6):
        world.planned_wave(Bounds(start=start, end=start + 3))
    world.run(Bounds(start=0, end=3), everything=True)
    world.produce(3)
    lost = world.planned_wave(Bounds(start=9, end=12))
    world.retain_from(12)
    with pytest.raises(HeldError):
        world.ingest(lost)
    world.advance()
    assert (world.stream().watermark, world.offsets()) == (9, list(range(9)))


def test_log_that_was_truncated_under_a_planned_range_holds_it(world: World) -> None:
    """An unclean election takes the end; nothing is read that was not planned, and the hold names both ways out."""
    world.produce(6)
    wave = world.planned_wave()
    world.kafka.log("orders", 0).truncate(4)
    assert world.ingest(wave).state is WaveState.COMMITTED
    assert world.offsets() == [0, 1, 2, 3]
    item = held(world)
    assert (item.reason or "").startswith("LogTruncatedError: skip 4-6: 2 offsets, the log ends at 4: Kafka lost ")
    assert f"Bring them back, then: kafka-lake release {item.id}. Or pass them" in (item.reason or "")
    _, _, pass_them = (item.reason or "").partition(" Or pass them")
    assert obey(world, pass_them) == ["skip"]
    assert pieces(world) == [("0-4", "COMMITTED"), ("4-6", "SKIPPED")]


def test_log_that_was_truncated_under_the_job_holds_what_it_lost(world: World) -> None:
    """The job fails, and the reason is found in the same call."""
    world.produce(6)
    wave = world.planned_wave()
    world.ingest(wave, world.worker(Before("runner.stage", lambda: world.kafka.log("orders", 0).truncate(4))))
    assert world.offsets() == [0, 1, 2, 3]
    assert (held(world).reason or "").startswith("LogTruncatedError: skip 4-6: ")


def deposed(world: World) -> MemoryKafka:
    """Return a broker that leads the partition no more, and has other records at the same offsets."""
    old = MemoryKafka(now=world.clock.now)
    old.create_topic("orders", 2)
    old.produce("orders", 0, *[b"of another leader"] * 6)
    return old


@pytest.mark.parametrize("given_up", [OffsetRange(4, 6), OffsetRange(2, 5), OffsetRange(0, 2)])
def test_offsets_that_a_person_passes_while_they_are_put_on_hold_stay_passed(
    world: World, given_up: OffsetRange
) -> None:
    """The verdict was about a range that is another now: all is looked at again."""
    world.produce(6)
    world.planned_wave()
    world.kafka.log("orders", 0).truncate(4)

    def skip() -> None:
        decisions.skip(world.worker(), "orders", world.stream(), given_up, reason="gone", acknowledge_order=False)

    done = world.run(worker=world.worker(Before("ledger.claim", skip, nth=2)))
    states = {item.range: item.state for item in world.ledger.ranges(pipeline="orders")}
    assert states[given_up] is RangeState.SKIPPED
    assert world.offsets() == [offset for offset in range(4) if offset not in given_up]
    held = [item for item, state in states.items() if state is RangeState.HELD]
    assert (done.problems, held) == ((), [] if given_up.end == 6 else [OffsetRange(max(4, given_up.end), 6)])


def test_rows_of_a_deposed_leader_do_not_land(world: World) -> None:
    """The job reads at a broker that the checks do not ask: what it has staged is not what the leader has."""
    world.produce(6)
    world.runner.read_from(deposed(world))
    run = world.run()
    assert (run.exit_code, world.offsets()) == (3, [])
    assert "orders/0 0-6 was read from a broker whose log is not that of the present leader" in run.problems[0].message
    world.runner.read_from(world.kafka)
    assert world.run().exit_code == 0
    world.check()


def test_rows_of_a_deposed_leader_do_not_land_where_another_range_fails() -> None:
    """A failed audit compares no logs: what it leaves is dropped, for no later look at the branch can compare them."""
    world = World(partitions=2)
    world.produce(6)
    world.produce(2, 1, transaction="bad")
    world.end("bad", commit=False)
    wave = world.planned_wave()
    old = deposed(world)
    old.produce("orders", 1, b"", b"", transaction="bad")
    old.end("bad", commit=False)
    world.runner.read_from(old)

    def happen() -> None:
        world.retain_from(1)
        world.kafka.log("orders", 1).truncate(2)

    with suppress(KafkaLakeError):
        world.ingest(wave, world.worker(Before("batches.explain", happen)))
    world.runner.read_from(world.kafka)
    world.run()
    assert world.offsets() == [1, 2, 3, 4, 5]
    assert not [row for row in world.table.rows() if row.value == b"of another leader"]


def test_rows_that_retention_keeps_from_being_compared_are_named(world: World) -> None:
    """What is staged may be their only copy, so it lands, and it is said that its log was not compared."""
    world.produce(6)
    wave = world.planned_wave()
    world.produce(1)
    world.ingest(wave, world.worker(Before("table.staged", lambda: world.retain_from(6))))
    assert world.offsets() == [0, 1, 2, 3, 4, 5]
    assert "1 slice cannot be compared with the leader's log, whose start has passed them" in "\n".join(world.said)


def test_rows_of_which_no_log_is_told_do_not_land(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that does not say what it has read last may have read it anywhere."""
    world.produce(2)
    real = world.runner.stage
    monkeypatch.setattr(world.runner, "stage", lambda job, **told: real(job, **{**told, "read": lambda _: None}))
    run = world.run()
    assert (run.exit_code, world.offsets()) == (3, [])
    assert "did not say from which log it has read orders/0 0-2" in run.problems[0].message


def test_partition_that_cannot_be_observed_is_no_loss(world: World) -> None:
    """Unknown is not gone (law L5): the wave stays as it is."""
    world.produce(3)
    wave = world.planned_wave()
    log = world.kafka.log("orders", 0)
    with pytest.raises(Exception, match="no leader"):
        world.ingest(wave, world.worker(Before("source.snapshot", lambda: setattr(log, "unreachable", "no leader"))))
    assert world.ledger.wave(wave).state is WaveState.PLANNED


def test_skip_of_a_deleted_topic_is_named_with_its_generation(world: World) -> None:
    """The name may be another topic's tomorrow; that one command is enough for the new topic to be read."""
    world.produce(3)
    world.planned_wave()
    old = world.topic_ids["orders"]
    world.create("orders")
    world.produce(2)
    world.run()
    reason = held(world).reason or ""
    assert f"--topic-id={old} --partition 0 --from 0 --to 3" in reason
    assert obey(world, reason) == ["skip"]
    assert (world.run().exit_code, world.offsets()) == (0, [0, 1])


def test_skip_while_a_worker_works_says_whose_and_how_to_end_it(world: World) -> None:
    """A living lease is not robbed; the refusal names the holder, and the command that would take it from him."""
    world.produce(5)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.publish")))
    with pytest.raises(ConcurrentError, match=rf"Wave {wave} is being worked on by alpha/\d/1.00") as refused:
        decisions.skip(
            world.worker(), "orders", world.stream(), OffsetRange(0, 2), reason="lost", acknowledge_order=False
        )
    way_out = (
        f"A dead worker loses it after 2 min; from one that hangs, take it with: kafka-lake cancel {wave} --reason TEXT"
    )
    assert refused.value.message.endswith(f"Nothing was changed; repeat when that is over. {way_out}")
    assert pieces(world) == [("0-5", "PLANNED")]
    decisions.cancel(world.worker(), wave, "lost in part")
    decisions.skip(world.worker(), "orders", world.stream(), OffsetRange(0, 2), reason="lost", acknowledge_order=False)
    assert pieces(world) == [("0-2", "SKIPPED"), ("2-5", "CANCELLED")]


def test_status_names_the_skips_of_all_partitions_that_retention_overtook() -> None:
    """A release would have them read again, which nothing can."""
    world = World(partitions=2)
    for partition in (0, 1):
        world.produce(4, partition)
    world.plan()
    for partition in (0, 1):
        world.retain_from(3, partition)
    world.run()
    (need,) = reporting.status(world.worker(), world.spec).needs
    commands = [str(command) for command in need.commands]
    assert [command.split(" --reason")[0] for command in commands[:2]] == [
        f"kafka-lake skip orders --topic orders --partition {partition} --from 0 --to 3" for partition in (0, 1)
    ]
    assert commands[2].startswith("kafka-lake wave ")
