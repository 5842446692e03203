"""How much one run does, and how much a pipeline has at work at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_kafka_lake.core.errors import LimitReachedError
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import decisions, running
from airflow_kafka_lake.services.claims import claim_wave
from airflow_kafka_lake.services.decisions import PauseSubject
from tests.world import SPEC, World

pytestmark = pytest.mark.unit
SMALL = replace(SPEC, target_range_bytes=1, max_wave_bytes=1)


def run(world: World, *, waves: int | None = None, rate: int | None = None) -> running.Run:
    """Do the main job, within limits."""
    return running.run(world.worker(), world.spec, Bounds(), max_waves=waves, bytes_per_second=rate)


def planned(world: World) -> list[str]:
    """Return the waves that are not begun."""
    return [wave.id for wave in world.ledger.waves("orders", [WaveState.PLANNED])]


def test_run_begins_no_more_waves_than_it_is_asked_for() -> None:
    """It ends well, names what it leaves, and the next one goes on there."""
    world = World(spec=SMALL)
    world.produce(5)
    done = run(world, waves=2)
    assert (done.exit_code, len(done.waves), [item.wave for item in done.left]) == (0, 2, planned(world))
    assert (world.stream().watermark, len(planned(world))) == (2, 3)
    assert any("leaves wave" in line for line in world.said)
    assert (run(world, waves=100).left, planned(world)) == ((), [])
    world.check()


def test_wave_that_fails_counts_and_one_that_may_not_begin_does_not() -> None:
    """Two are begun: the one that fails, and the one after those of a paused plan, which are left."""
    world = World(spec=SMALL)
    world.produce(4)
    first = world.plan(Bounds(start=0, end=1)).waves[0].id
    paused = world.plan(Bounds(start=1, end=2)).id
    decisions.pause(world.worker(), PauseSubject(pipeline="orders", plan=paused), "not yet")
    world.runner.failures.append("out of memory")
    done = run(world, waves=2)
    assert [problem.facts.get("wave") for problem in done.problems] == [first]
    assert (world.offsets(), len(done.left)) == ([2], 2)
    (line,) = [said for said in world.said if "this run leaves" in said and paused in said]
    assert line.startswith(f"this run leaves wave {paused}-w0")


def test_run_leaves_what_is_beyond_the_limit_of_its_pipeline() -> None:
    """Another process has a wave at work: that is worth repeating, and is said once for all waves."""
    world = World(spec=replace(SMALL, waves_at_once=1))
    world.produce(3)
    plan = world.plan()
    claim_wave(world.worker(), plan.waves[2].id)
    done = world.run()
    assert ([type(problem) for problem in done.problems], done.exit_code) == ([LimitReachedError], 3)
    assert world.offsets() == []
    world.lease_ends()
    assert world.run().exit_code == 0
    world.check()


def test_rate_of_a_run_counts_instead_of_that_of_its_pipeline() -> None:
    """The job is told what its wave may read."""
    world = World(spec=replace(SPEC, bytes_per_second=4_000_000, waves_at_once=2))
    world.produce(1)
    world.run()
    world.produce(1)
    run(world, rate=1_000_000)
    world.with_spec(bytes_per_second=None)
    world.produce(1)
    world.run()
    assert [job.rate for job in world.runner.jobs] == [2_000_000, 500_000, None]
