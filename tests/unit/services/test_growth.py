"""What services do for a partition is as much, however many others there are: counted in lines that they execute."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import airflow_kafka_lake
from airflow_kafka_lake.cli.status import status_lines
from airflow_kafka_lake.core.kafka.snapshots import Snapshot
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import Policy, PolicyKind
from airflow_kafka_lake.services import pipeline_audit, reporting
from tests.world import SPEC, World

pytestmark = pytest.mark.unit

PACKAGE = str(Path(airflow_kafka_lake.__file__).parent)
STEP = 40
PASSES = 0.75
"""Lines for each pair of partitions: one that runs through all of them for each of them has 1. The runner in memory
counts every slice at the same moment, and of the counts of one minute the speed goes through those before: 0.5."""


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of the package some work executes, each turn of a comprehension too."""
    count = 0

    def line(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def called(frame: FrameType, _event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def one_topic(partitions: int) -> World:
    """Return a topic of so many partitions, a record in each."""
    world = World(partitions=partitions)
    produce(world)
    return world


def many_topics(topics: int) -> World:
    """Return so many topics of one partition, a record in each."""
    names = tuple(f"orders-{number:04}" for number in range(topics))
    world = World(spec=replace(SPEC, topics=names))
    for name in names:
        world.create(name)
    produce(world)
    return world


def produce(world: World) -> None:
    """Append a record to every partition of the pipeline's topics."""
    for topic in world.spec.topics:
        for partition in range(world.kafka.describe([topic])[0].partitions):
            world.produce(1, partition, topic=topic)


def recreate(world: World) -> None:
    """Create every topic anew, as large as it was, and produce to it."""
    for topic in world.spec.topics:
        world.create(topic, world.kafka.describe([topic])[0].partitions)
    produce(world)


def grow(world: World) -> None:
    """Give every topic twice as many partitions."""
    for topic in world.spec.topics:
        world.kafka.add_partitions(topic, 2 * world.kafka.describe([topic])[0].partitions)


def life(world: World) -> dict[str, int]:
    """Play a pipeline's life; return how many lines each part of it took."""
    counts = {"first run": lines_of(world.run), "nothing new": lines_of(world.plan)}
    produce(world)
    counts["planned"] = lines_of(world.plan)
    report = reporting.status(world.worker(), world.spec)
    counts["status"] = lines_of(lambda: reporting.status(world.worker(), world.spec).to_json())
    counts["text"] = lines_of(lambda: list(status_lines(report, 100, rows=None)))
    counts["next run"] = lines_of(world.run)
    counts["wave that is there"] = lines_of(lambda: world.ingest(world.ledger.waves(world.spec.name)[0].id))
    counts["audit"] = lines_of(lambda: pipeline_audit.audit(world.worker(), world.spec, ask_kafka=True))
    recreate(world)
    counts["created anew"] = lines_of(world.run)
    grow(world)
    counts["grown"] = lines_of(world.plan)
    world.clock.advance(timedelta(seconds=world.spec.layout_grace))
    counts["new layout"] = lines_of(world.plan)
    return counts


def backfill(world: World) -> dict[str, int]:
    """Follow from the end on, and have read then what was there before; return how many lines that took."""
    world.with_spec(start=Policy(kind=PolicyKind.LATEST))
    world.run()
    return {"below the origin": lines_of(lambda: world.run(Bounds(start=0)))}


@pytest.mark.nightly  # by day: statements (contracts/test_sql_ledger.py)
@pytest.mark.slow
@pytest.mark.parametrize("made", [one_topic, many_topics])
def test_work_for_a_partition_does_not_grow_with_their_number(made: Callable[[int], World]) -> None:
    """What grows with the square of their number is the second difference."""
    few, more, most = (life(made(size)) | backfill(made(size)) for size in (STEP, 2 * STEP, 3 * STEP))
    squares = {part: (few[part] - 2 * more[part] + most[part]) / (2 * STEP * STEP) for part in few}
    assert {part: by for part, by in squares.items() if by > PASSES} == {}


def test_wave_asks_kafka_about_its_own_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave of few partitions is not the dearer the more its topic has."""
    world = World(partitions=3, spec=replace(SPEC, target_range_bytes=1, max_wave_bytes=1))
    produce(world)
    waves = [wave.id for wave in world.plan().waves]
    asked: list[Collection[tuple[str, int]]] = []
    snapshot = world.kafka.snapshot

    def counted(topics: Sequence[str], group: str | None, only: Collection[tuple[str, int]] | None = None) -> Snapshot:
        found = snapshot(topics, group, only)
        asked.append([item.stream[::2] for item in found.partitions])
        return found

    monkeypatch.setattr(world.kafka, "snapshot", counted)
    for wave in waves:
        world.ingest(wave)
    assert asked == [[("orders", partition)] for partition in (0, 1, 2) for _ in ("before the job", "in its audit")]
