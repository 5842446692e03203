"""Waves with something that no job can read: it is found and held by itself, and the rest lands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import (
    JobFailedError,
    PausedError,
    StaleFenceError,
    UnavailableError,
    UnexpectedError,
)
from airflow_kafka_lake.core.ledger.waves import RangeState
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark import halving
from airflow_kafka_lake.core.spark.job import CAREFUL_POLL, StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs import stage
from airflow_kafka_lake.services import decisions, reading
from tests.gates import Before, Killed, KilledError, Passing
from tests.world import World

pytestmark = pytest.mark.unit

NANOSECONDS = 1_700_000_000_000_000_000


def held(world: World) -> dict[tuple[int, str], str]:
    """Return what is on hold and why."""
    found = world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,))
    return {(item.stream.partition, str(item.range)): item.reason or "" for item in found}


def jobs_of(world: World) -> int:
    return len(world.runner.jobs)


def test_record_that_the_raw_batches_name_is_held_by_itself() -> None:
    """One failed job is enough: partition, offset and cause are named, everything else lands in the same run."""
    world = World(partitions=2)
    for partition in (0, 1):
        world.produce(5, partition)
    world.kafka.produce("orders", 1, b"broken")
    world.kafka.log("orders", 1).damaged[5] = "wrong checksum, batch 5-6"
    world.produce(3, 1)
    done = world.run()
    assert (done.exit_code, jobs_of(world)) == (1, 2)
    assert held(world) == {
        (1, "5-6"): "UnreadableRecordError: orders/1 5-6 cannot be read: wrong checksum, batch 5-6. Skip it with: "
        "kafka-lake skip orders --topic orders --partition 1 --from 5 --to 6 --reason TEXT; or, once it can be read, "
        f"try again with: kafka-lake release {held_id(world)}"
    }
    assert (world.offsets(0), world.offsets(1)) == ([*range(5)], [0, 1, 2, 3, 4, 6, 7, 8])
    assert (world.stream(0).watermark, world.stream(1).watermark) == (5, 5)
    decisions.skip(
        world.worker(), "orders", world.stream(1), OffsetRange(5, 6), reason="no time", acknowledge_order=False
    )
    assert (world.run().exit_code, world.stream(1).watermark) == (0, 9)
    world.check()


def test_records_of_a_time_that_spark_cannot_read_land_by_the_driver(world: World) -> None:
    """Nothing is held for a number: the driver reads them beside the others, in the attempt that met them."""
    world.produce(5)
    for offset in (5, 6):
        world.visible[world.key()][offset] = value = b"late %d" % offset
        world.kafka.produce("orders", 0, value, timestamp_ms=NANOSECONDS)
    world.produce(3)
    assert (world.run().exit_code, jobs_of(world), world.offsets()) == (0, 2, [*range(10)])
    assert [str(item.range) for item in world.runner.jobs[-1].slices] == ["0-5", "7-10"]
    assert [str(item.range) for item in world.runner.jobs[-1].overflowing] == ["5-7"]
    world.check()


def test_what_is_too_much_for_a_driver_is_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver reads one by one: what comes after the bound waits for a person, and its release reads as much again."""
    monkeypatch.setattr(halving, "MOST_OVERFLOWING", 4)
    for offset in range(6):
        world.visible[world.key()][2 * offset] = value = b"late %d" % offset
        world.kafka.produce("orders", 0, value, timestamp_ms=NANOSECONDS)
        world.produce(1)
    assert (world.run().exit_code, world.offsets()) == (1, [0, 1, 2, 3, 4, 5, 6, 7, 9, 11])
    assert sorted(held(world)) == [(0, "10-11"), (0, "8-9")]
    for item in world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,)):
        decisions.release(world.worker(), item.id, None)
    assert (world.run().exit_code, world.offsets()) == (0, [*range(12)])
    world.check()


def test_trials_read_overflowing_records_too(world: World) -> None:
    """Two things are wrong with a wave, and only one of them has a name: the other is found beside it."""
    world.produce(10)
    world.visible[world.key()][10] = b"late"
    world.kafka.produce("orders", 0, b"late", timestamp_ms=NANOSECONDS)
    world.runner.poison = {("orders", 0, 3)}
    world.run()
    assert world.run().exit_code == 1
    assert list(held(world)) == [(0, "3-4")]
    assert world.offsets() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]


def held_id(world: World) -> str:
    (found,) = world.ledger.ranges(pipeline="orders", states=(RangeState.HELD,))
    return found.id


def test_many_damaged_records_are_held_at_once() -> None:
    """Parts that touch are one hold; so many that no person could look through them are held with what lies between."""
    world = World()
    world.produce(200)
    log = world.kafka.log("orders", 0)
    log.damaged = dict.fromkeys((3, 4, *range(100, 200, 2)), "wrong checksum")
    assert world.run().exit_code == 1
    assert jobs_of(world) == 2
    found = held(world)
    assert len(found) <= 20
    assert (0, "3-5") in found
    assert world.offsets() == [offset for offset in range(200) if not any(offset in _range(key) for _, key in found)]
    assert {0, 1, 2, 5, 99} <= set(world.offsets())


def _range(text: str) -> OffsetRange:
    return OffsetRange(*map(int, text.split("-")))


@pytest.mark.parametrize("offset", [0, 17, 99])
def test_record_that_nothing_explains_is_found_by_trials(offset: int) -> None:
    """The second failure begins a search: a job per halving, then the rest lands and the one offset is held."""
    world = World(partitions=3)
    for partition in range(3):
        world.produce(100, partition)
    world.runner.poison = {("orders", 1, offset)}
    first = world.run()
    assert (first.exit_code, [type(item) for item in first.problems], held(world)) == (3, [JobFailedError], {})
    before = jobs_of(world)
    assert world.run().exit_code == 1
    (((partition, text), reason),) = held(world).items()
    assert (partition, text) == (1, f"{offset}-{offset + 1}")
    assert "cannot be read: IllegalStateException: what is this?. Skip it with" in reason
    assert world.offsets(1) == [number for number in range(100) if number != offset]
    assert (world.offsets(0), world.offsets(2)) == ([*range(100)], [*range(100)])
    assert jobs_of(world) - before <= math.ceil(math.log2(300)) + 6
    assert any("trial 1 of at most" in line for line in world.said)
    assert not any("more ranges" in line for line in world.said)
    assert world.table.branches() == ()


def test_several_records_that_nothing_explains_are_found_one_after_the_other(world: World) -> None:
    """Each is held by itself in the same run."""
    world.produce(40)
    world.runner.poison = {("orders", 0, 7), ("orders", 0, 8), ("orders", 0, 30)}
    world.run()
    assert world.run().exit_code == 1
    assert sorted(held(world)) == [(0, "30-31"), (0, "7-8"), (0, "8-9")]
    assert len(world.offsets()) == 37


def test_failure_that_is_not_of_the_records_holds_nothing(world: World) -> None:
    """Where no part can be read, no record is blamed; searches become rarer, and the wave lands once jobs work."""
    world.produce(100)
    jobs = []
    for _ in range(6):
        world.runner.failures.extend(["the cluster is broken"] * 20)
        before = jobs_of(world)
        assert world.run().exit_code == 3
        jobs.append(jobs_of(world) - before)
        world.runner.failures.clear()
    assert (jobs, held(world)) == ([1, 4, 1, 4, 1, 1], {})
    assert world.run().exit_code == 0
    world.check()


def test_failure_that_the_world_explains_begins_no_search(world: World) -> None:
    """A broker out of reach says nothing of the records: nor are their batches asked for what cannot be read."""
    world.produce(10)
    calls: list[str] = []

    def fails(call: str) -> None:
        calls.append(call)
        if call == "runner.stage":
            raise JobFailedError("Spark does not reach Kafka", reason="kafka-unreachable")

    assert world.run(worker=world.worker(fails)).exit_code == 3
    assert "batches.explain" not in calls
    for _ in range(2):
        assert world.run(worker=world.worker(fails)).exit_code == 3
    assert (jobs_of(world), calls.count("runner.stage")) == (0, 3)
    assert world.run().exit_code == 0
    world.check()


def test_wave_that_is_too_much_at_once_is_halved(world: World) -> None:
    """No record is at fault where every part can be read: the wave comes apart until its parts fit."""
    world.produce(100)
    world.runner.most = 30
    for _ in range(6):
        world.run()
    assert (world.offsets(), held(world)) == ([*range(100)], {})
    assert world.run().exit_code == 0
    world.check()


def test_exception_that_no_part_expects_is_searched_like_any_failure(world: World) -> None:
    """A library that chokes on a value says no more than a driver that dies of it."""
    world.produce(16)

    def choking(rows: list[tuple[str, str, int, int, bytes | None, bytes | None]]) -> list[object]:
        if any(row[3] == 11 for row in rows):
            raise OverflowError
        return rows

    world.runner.tamper = choking  # type: ignore[assignment]
    assert [type(item) for item in world.run().problems] == [UnexpectedError]
    assert world.run().exit_code == 1
    assert list(held(world)) == [(0, "11-12")]
    assert "cannot be read: OverflowError." in held(world)[0, "11-12"]


def test_wave_over_which_workers_died_twice_is_halved(world: World) -> None:
    """Whatever kills a worker gets smaller with every two deaths, and the halves that kill no worker land."""
    world.produce(8)
    world.plan()
    deaths = 0
    while not held(world):
        try:
            world.run(worker=world.worker(_dying(world, 5)))
        except KilledError:
            deaths += 1
            world.lease_ends()
        assert deaths <= 8
    world.run()
    assert list(held(world)) == [(0, "5-6")]
    assert "workers died over it, or lost their lease, twice" in held(world)[0, "5-6"]
    assert world.offsets() == [0, 1, 2, 3, 4, 6, 7]


def _dying(world: World, offset: int) -> Passing:
    """Kill the worker that reads what was staged of an offset; a dead one calls nothing any more."""
    dead: list[str] = []

    def passing(call: str) -> None:
        if call == "table.staged" and any(offset in item.range for item in world.runner.jobs[-1].slices):
            dead.append(call)
        if dead:
            raise KilledError

    return passing


def test_two_kills_before_a_job_halve_nothing(world: World) -> None:
    """Only a death over a job says something of what the job reads."""
    world.produce(8)
    world.plan()
    for _ in range(3):
        with pytest.raises(KilledError):
            world.run(worker=world.worker(Killed("runner.stage")))
        world.lease_ends()
    assert world.run().exit_code == 0
    assert jobs_of(world) == 1
    world.check()


def unpacked(job: StageJob, records: Sequence[int]) -> set[int]:
    """Return what consumers unpack of partition 0 for a job: as many records at or behind a position as a poll takes,
    until the position is at the end of the slice."""
    found: set[int] = set()
    for read in stage.reads(job):
        for part in read.slices:
            at = part.range.start if part.stream.partition == 0 else part.range.end
            while at < part.range.end:
                polled = [offset for offset in records if offset >= at][: read.per_poll or CAREFUL_POLL]
                found |= {*polled}
                at = polled[-1] + 1 if polled else part.range.end
    return found


@pytest.mark.parametrize("wide", [False, True], ids=["dense", "gaps"])
def test_records_before_one_that_no_job_can_hold_are_not_blamed(monkeypatch: pytest.MonkeyPatch, wide: bool) -> None:
    """A consumer unpacks what lies behind its slice too: after a failure nothing of that is polled, so that the one
    that is too large is found, and those before it land; also where a poll has fewer records than the gap is wide, and
    where markers stand right before it."""
    world = World(partitions=2)
    for partition in (0, 1):
        world.produce(9, partition)
    for number in range(3 if wide else 0):
        world.produce(1 if number else 2 * CAREFUL_POLL, transaction=str(number))
        world.end(str(number), commit=number > 0)
    huge, real = world.produce(1)[0], world.runner.stage
    world.produce(5)

    def staged(job: StageJob, **calls: Any) -> None:
        if huge in unpacked(job, sorted(world.visible[world.key()])):
            raise JobFailedError("Spark ran out of memory", reason="out-of-memory")
        real(job, **calls)

    monkeypatch.setattr(world.runner, "stage", staged)
    assert world.run().exit_code == 3
    assert world.run().exit_code == 1
    ((where, why),) = held(world).items()
    assert (where, "cannot be read: Spark runs out of memory over it. Skip it with" in why) == (
        (0, f"{huge}-{huge + 1}"),
        True,
    )
    assert world.offsets(0) == sorted(world.visible[world.key()].keys() - {huge})
    assert world.offsets(1) == [*range(9)]


def test_search_goes_on_where_kafka_s_batches_cannot_be_read(world: World) -> None:
    """Where records end is then taken from the offsets: on topics without gaps the one record is found all the same."""
    world.produce(20)
    world.runner.poison = {("orders", 0, 7)}

    def unreachable(call: str) -> None:
        if call == "batches.explain":
            raise UnavailableError("no answer")

    for code in (3, 1):
        assert world.run(worker=world.worker(unreachable)).exit_code == code
    assert list(held(world)) == [(0, "7-8")]
    assert any("where the records of kafka-lake orders" in line and line.endswith("no answer") for line in world.said)


def test_job_of_many_slices_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read the ends of all of them one by one would take longer than to halve the wave first."""
    monkeypatch.setattr(reading, "MOST_CAREFUL", 1)
    key = Stream("orders", "AAAA", 0)
    job = StageJob(
        pipeline="orders",
        wave="w0",
        attempt="0" * 16,
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=(Slice(key, OffsetRange(0, 5)), Slice(key, OffsetRange(7, 9))),
        tasks=1,
        max_records_per_partition=None,
    )
    assert reading.careful(World().worker(), job, lambda: None) is job


@pytest.mark.parametrize("stop", [decisions.cancel, None], ids=["cancel", "pause"])
def test_wave_that_persons_stop_is_no_deadly_one(stop: Any) -> None:
    """Twice cancelled or stopped while its job ran, its workers live: it is read whole when it may go on."""
    world = World()
    world.produce(8)
    wave = world.planned_wave()

    def stopped() -> None:
        if stop is None:
            decisions.pause(world.worker(), decisions.PauseSubject(pipeline="orders"), "not now", now=True)
        else:
            stop(world.worker(), wave, "not now")

    for _ in range(2):
        with pytest.raises((StaleFenceError, PausedError)):
            world.ingest(wave, world.worker(Before("ledger.mark_staged", stopped)))
        if stop is None:
            decisions.resume(world.worker(), decisions.PauseSubject(pipeline="orders"))
        else:
            decisions.release(world.worker(), wave, None)
    assert len([item for item in world.ledger.attempts(wave) if item.job]) == 2
    assert world.run().exit_code == 0
    assert [item.id for item in world.ledger.waves("orders")] == [wave]
    world.check()


def test_how_an_error_is_worded_does_not_decide_about_a_wave() -> None:
    """Only its cause does, which is a value."""
    world = World()
    world.produce(2)
    wave = world.planned_wave()
    world.runner.failures.append("out of memory")
    with pytest.raises(JobFailedError):
        world.ingest(wave)
    (attempt,) = world.ledger.attempts(wave)
    assert halving.History.of([replace(attempt, error="the job ended badly")]).failures == 1
    assert halving.History.of([replace(attempt, cause=None)]).failures == 0
