"""A wave is watched from its claim to its landing: what is shown, and what the ledger has of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_kafka_lake.core.errors import JobFailedError
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.core.reports.progress import Counters, Moment, Progress, ProgressEvent, Step
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.services.watching import Lines
from tests.gates import Killed, KilledError
from tests.world import World


@pytest.fixture
def world() -> World:
    """A world with a topic of two partitions."""
    return World(partitions=2)


def slowly(world: World, monkeypatch: pytest.MonkeyPatch, *rows: int, seconds: float = 20, waits: bool = False) -> None:
    """Let the next job count these rows, with so much time between the counts; one that `waits` has no executor before
    its first row."""
    real = world.runner.stage

    def stage(
        job: StageJob,
        *,
        started: Callable[[str], None],
        heartbeat: Callable[[], None],
        counted: Callable[[Counters], None],
        **told: Any,
    ) -> None:
        monkeypatch.setattr(world.runner, "stage", real)
        started("slow")
        for count in rows:
            world.clock.advance(timedelta(seconds=seconds))
            counted(Counters(rows=count, executors=int(not waits or count > 0)))
            heartbeat()
        real(job, started=lambda _: None, heartbeat=heartbeat, counted=counted, **told)

    monkeypatch.setattr(world.runner, "stage", stage)


def test_every_step_of_a_wave_is_shown(world: World) -> None:
    """Its beginning and its end, and what has landed, with the numbers of the wave."""
    world.produce(4, 0)
    world.produce(1, 1)
    seen: list[ProgressEvent] = []
    wave = world.planned_wave()
    world.ingest(wave, replace(world.worker(), live=seen.append))
    assert [(item.moment, item.progress.step, item.progress.rows) for item in seen] == [
        (Moment.BEGUN, Step.READ, 0),
        (Moment.ENDED, Step.READ, 5),
        (Moment.BEGUN, Step.AUDIT, 0),
        (Moment.ENDED, Step.AUDIT, 5),
        (Moment.BEGUN, Step.PUBLISH, 0),
        (Moment.LANDED, Step.PUBLISH, 5),
    ]
    assert {item.subject for item in seen} == {f"wave {wave}"}
    assert seen[0].progress.rows_expected == 5
    assert seen[-1].progress.bytes > 0


def test_audit_of_what_a_dead_attempt_has_staged_is_shown(world: World) -> None:
    """No job is run for it, and the audit may take its time."""
    world.produce(5)
    wave, seen = world.planned_wave(), list[ProgressEvent]()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.publish")))
    world.lease_ends()
    world.ingest(wave, replace(world.worker(), live=seen.append))
    assert [(item.moment, item.progress.step) for item in seen] == [
        (Moment.BEGUN, Step.AUDIT),
        (Moment.ENDED, Step.AUDIT),
        (Moment.BEGUN, Step.PUBLISH),
        (Moment.LANDED, Step.PUBLISH),
    ]
    assert seen[0].progress.rows_expected == 5


def test_long_read_writes_a_line_each_half_minute(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between staging and publishing there is a sign of life, with a rate once it is known."""
    world.produce(100)
    wave, said = world.planned_wave(), list[str]()
    slowly(world, monkeypatch, 0, 0, 30, 50, 70)
    world.ingest(wave, replace(world.worker(), live=Lines(said.append)))
    assert said[1:3] == [
        f"wave {wave}: reading, nothing counted yet, 40 s so far",
        f"wave {wave}: read 50 rows of 100 offsets, about 800 bytes of 1.6 kB, 16 bytes/s, about 50 s left",
    ]
    assert said[3] == f"wave {wave}: read 100 rows in 1 min 40 s"
    assert said[-1].startswith(f"wave {wave} landed: 100 rows, ")


def test_wait_for_a_cluster_is_told_until_it_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without an executor counts nothing; the next step says nothing of it."""
    world.produce(100)
    wave, said = world.planned_wave(), list[str]()
    slowly(world, monkeypatch, 0, 0, 30, 50, waits=True)
    world.ingest(wave, replace(world.worker(), live=Lines(said.append)))
    why = "no executor of the cluster works for it"
    assert said[1] == f"wave {wave}: reading, nothing counted yet, 40 s so far: {why}"
    assert [line for line in said if why in line] == said[1:2]


def test_renewals_record_how_far_the_attempt_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can read it while the wave is worked on: the step, what is done of it, and since when."""
    world.produce(100)
    wave, seen = world.planned_wave(), list[Progress | None]()

    def look(_: ProgressEvent) -> None:
        seen.append(world.ledger.attempts(wave)[0].progress)

    slowly(world, monkeypatch, 10, 60, 90)
    began = world.clock.now()
    world.ingest(wave, replace(world.worker(), live=look))
    during = [item for item in seen if item is not None and item.step is Step.READ]
    assert [(item.rows, item.since) for item in during][:3] == [(0, began), (10, began), (60, began)]
    assert during[0].rows_expected == 100
    (done,) = world.ledger.attempts(wave)
    assert done.progress is not None
    assert (done.progress.step, done.progress.rows, done.progress.rows_expected) == (Step.PUBLISH, 100, 100)


def test_attempt_that_was_killed_keeps_where_it_stood(world: World) -> None:
    """A person sees in which step it died."""
    world.produce(3)
    wave = world.planned_wave()
    with pytest.raises(KilledError):
        world.ingest(wave, world.worker(Killed("table.staged")))
    (attempt,) = world.ledger.attempts(wave)
    assert attempt.progress is not None
    assert attempt.progress.step is Step.READ
    world.lease_ends()
    world.ingest(wave)
    world.advance()
    world.check()


def test_count_does_not_end_where_the_job_fails(world: World) -> None:
    """What a failed job has read is not shown as read to the end."""
    world.produce(3)
    seen: list[ProgressEvent] = []
    world.runner.failures.append("no")
    with pytest.raises(JobFailedError):
        world.ingest(world.planned_wave(), replace(world.worker(), live=seen.append))
    assert [item.moment for item in seen] == [Moment.BEGUN]


def test_wave_without_rows_lands_in_every_step(world: World) -> None:
    """Offsets of aborted transactions have no rows."""
    world.produce(3, transaction="t")
    world.end("t", commit=False)
    said: list[str] = []
    wave = world.planned_wave()
    world.ingest(wave, replace(world.worker(), live=Lines(said.append)))
    texts = [text.removeprefix(f"wave {wave}") for text in said]
    assert texts[0].startswith(": reading 4 offsets, about ")
    assert texts[1:] == [
        ": read 0 rows in 0 s",
        ": auditing 4 offsets",
        ": audited 4 offsets in 0 s: 0 rows, every offset is accounted for",
        ": publishing 0 rows",
        " landed: 0 rows, 0 s",
    ]


def test_audit_counts_offsets_with_and_without_a_row(world: World) -> None:
    """What was read back, then what Kafka's batches explain: together they are all of the wave."""
    world.produce(3)
    world.produce(4, transaction="t")
    world.end("t", commit=False)
    wave, counts = world.planned_wave(), list[tuple[int, int | None]]()

    def watch(live: ProgressEvent) -> None:
        if live.progress.step is Step.AUDIT:
            counts.append((live.progress.rows, live.progress.rows_expected))

    def beside(call: str) -> None:
        if call in {"table.staged", "batches.explain"}:
            world.clock.advance(timedelta(seconds=2))

    world.ingest(wave, replace(world.worker(beside), live=watch))
    assert counts == [(0, 8), (3, 8), (8, 8), (8, 8)]


def test_what_cannot_be_shown_stops_no_wave(world: World) -> None:
    """A terminal that is gone, a defect of the display: the wave lands."""
    world.produce(3)

    def broken(_: ProgressEvent) -> Any:
        raise OSError("the terminal is gone")

    wave = world.planned_wave()
    assert world.ingest(wave, replace(world.worker(), live=broken)).state is WaveState.COMMITTED


def test_run_shows_which_of_how_many_waves(world: World) -> None:
    """Waves that earlier runs left count; each has its place, and what was read before it."""
    seen: list[ProgressEvent] = []
    for _ in range(3):
        world.produce(5)
        world.plan()
    world.run(worker=replace(world.worker(), live=seen.append))
    landed = [item.place for item in seen if item.moment is Moment.LANDED]
    assert [(place.number, place.of) for place in landed if place] == [(1, 3), (2, 3), (3, 3)]
    parts = [(place.bytes_before, place.bytes_here, place.bytes_after) for place in landed if place]
    (whole,) = set(map(sum, parts))
    assert parts == [(whole // 3 * done, whole // 3, whole // 3 * (2 - done)) for done in range(3)]
