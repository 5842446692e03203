"""What every `JobRunner` does: in memory, PyIceberg in Spark's place, and Spark itself with a real broker, in a driver
for each job and in a warm one.

The doubles are what most tests run on; whatever a service relies on of a job is here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.core.decoding import Decoder, Format
from airflow_kafka_lake.core.errors import UNREADABLE_RECORD, JobFailedError, StaleFenceError
from airflow_kafka_lake.core.ledger.records import Publication
from airflow_kafka_lake.core.ledger.waves import Committed
from airflow_kafka_lake.core.offsets import RangeSet, Slice
from airflow_kafka_lake.core.reports.progress import Counters
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.compare import CompareJob, ContentComparison, Mismatch
from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob, RedecodeResult
from tests import warm
from tests.contracts.runner_worlds import (
    AT_MS,
    LEDGER,
    MemoryRunnerWorld,
    RealTopic,
    RunnerWorld,
    SparkWorld,
    StandInWorld,
    catalog_of,
)

pytestmark = pytest.mark.timeout(300)

MICROSECONDS, NANOSECONDS = AT_MS * 1_000, AT_MS * 1_000_000
FIVE = (b"0", b"1", b"2", b"3", b"4")


@pytest.fixture(scope="module")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., SparkWorld]]:
    """Make worlds of one catalog, one broker and one Spark; with an engine their jobs run in its warm driver."""
    broker = request.getfixturevalue("kafka")
    request.getfixturevalue("spark_jars")
    settings = catalog_of(tmp_path_factory.mktemp("lake"))
    submit, environment = warm.spark_submit()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield lambda engine=None: SparkWorld(settings, broker, submit, engine)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Keep one warm driver for the jobs of many tests, as a process does for many waves."""
    with Engine() as made:
        yield made


@pytest.fixture(params=["memory", "stand-in", "warm", pytest.param("spark", marks=pytest.mark.nightly)])
def world(request: pytest.FixtureRequest) -> Iterator[RunnerWorld]:
    """A runner with an empty topic, and a table that the pipeline owns."""
    match request.param:
        case "memory":
            made: RunnerWorld = MemoryRunnerWorld()
        case "stand-in":
            made = StandInWorld(catalog_of(request.getfixturevalue("tmp_path")))
        case "warm":
            made = request.getfixturevalue("spark")(request.getfixturevalue("engine"))
        case _:
            made = request.getfixturevalue("spark")()
    yield made
    made.close()


shown_by_day = pytest.mark.parametrize(
    "world", ["memory", "stand-in", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("warm", "spark"))],
    indirect=True,
)  # fmt: skip
"""For facts that real Spark shows by day elsewhere: those of the jobs in integration/test_stage.py and
integration/test_deep_audit.py, the end of a driver whose worker is gone in faults/test_kills.py."""


def fails(world: RunnerWorld, job: StageJob, reason: str | None) -> None:
    """Expect a job to end with a usual reason, and to stage nothing."""
    with pytest.raises(JobFailedError) as failed:
        world.run(job)
    assert failed.value.facts == {"wave": job.wave, "attempt": job.attempt, "reason": reason}, failed.value
    assert world.main() == []


# What is staged


def test_rows_are_the_records_of_the_slices(world: RunnerWorld) -> None:
    """Keys, tombstones, empty values, headers in their order and times, of exactly the offsets that were asked for."""
    headers = (("a", b"1"), ("a", b"\x00\xff"), ("none", None), ("", b""))
    world.topic.produce(b"not asked for")
    world.topic.produce(b"\x00\xff", key=b"k", headers=headers)
    world.topic.produce(None, key=b"gone", timestamp_ms=AT_MS + 1)
    world.topic.produce(b"not asked for")
    world.topic.produce(b"", key=b"")
    world.topic.produce(b"other", b"partition", b"not asked for", partition=1)
    job = world.job(world.slice_(1, 3), world.slice_(4, 5), world.slice_(0, 2, partition=1))
    staged = world.run(job)
    assert world.rows(staged.snapshot) == [
        (0, 1, b"k", b"\x00\xff", headers, AT_MS),
        (0, 2, b"gone", None, (), AT_MS + 1),
        (0, 4, b"", b"", (), AT_MS),
        (1, 0, None, b"other", (), AT_MS),
        (1, 1, None, b"partition", (), AT_MS),
    ]
    streams = {
        item.stream.partition: (item.stream.topic, item.stream.topic_id, item.offsets, item.duplicates)
        for item in staged.streams
    }
    here = (world.topic.name, world.topic.id)
    assert streams == {0: (*here, RangeSet.of((1, 3), (4, 5)), 0), 1: (*here, RangeSet.of((0, 2)), 0)}
    assert staged.bytes > 0
    assert (staged.undecoded, staged.decoding) == ((), None)


@shown_by_day
def test_nothing_staged_is_on_main(world: RunnerWorld) -> None:
    """Before a publish no reader sees a row; after it, the next attempt's are not seen either."""
    world.topic.produce(*FIVE)
    world.run(world.job(world.slice_(0, 2)))
    assert world.main() == []
    world.publish(world.job(world.slice_(0, 2)))
    world.run(world.job(world.slice_(2, 5)))
    assert [row[1] for row in world.main()] == [0, 1]


@shown_by_day
@pytest.mark.parametrize(
    ("isolation", "seen"), [(Isolation.READ_COMMITTED, [0, 1, 6]), (Isolation.READ_UNCOMMITTED, [0, 1, 3, 4, 6])]
)
def test_transactions_are_read_as_the_isolation_says(world: RunnerWorld, isolation: Isolation, seen: list[int]) -> None:
    """No marker is a row; aborted records are rows only where they were asked for."""
    world.topic.produce(b"a", b"b", end="commit")
    world.topic.produce(b"c", b"d", end="abort")
    world.topic.produce(b"e")
    assert [row[1] for row in world.landed(world.job(world.slice_(0, 7), isolation=isolation))] == seen


@shown_by_day
def test_job_without_rows_has_a_result(world: RunnerWorld) -> None:
    """An attempt that read only aborted records differs from one that never ended."""
    world.topic.produce(b"c", b"d", end="abort")
    staged = world.run(world.job(world.slice_(0, 3)))
    assert (staged.streams, staged.undecoded) == ((), ())


def test_what_is_read_singly_lands_beside_the_others(world: RunnerWorld) -> None:
    """How a slice is read changes nothing of its rows; a job of no slice at all has a result too."""
    world.topic.produce(*FIVE, end="commit")
    job = world.job(world.slice_(0, 2), singly=[world.slice_(2, 4)])
    assert [row[1] for row in world.landed(job)] == [0, 1, 2, 3]
    assert world.run(world.job()).streams == ()


@shown_by_day
def test_time_outside_the_calendar_is_kept_as_a_number(world: RunnerWorld) -> None:
    """What a producer wrote in microseconds lands beside the others."""
    world.topic.produce(b"now")
    world.topic.produce(b"then", timestamp_ms=MICROSECONDS)
    assert [row[5] for row in world.landed(world.job(world.slice_(0, 2)))] == [AT_MS, MICROSECONDS]


def test_time_that_spark_cannot_read_is_read_where_it_is_named(world: RunnerWorld) -> None:
    """A job fails over it and says so; named as overflowing it lands in the same commit as the others."""
    world.topic.produce(b"now")
    world.topic.produce(b"then", timestamp_ms=NANOSECONDS)
    world.topic.produce(b"later")
    fails(world, world.job(world.slice_(0, 3)), UNREADABLE_RECORD)
    job = world.job(world.slice_(0, 1), world.slice_(2, 3), overflowing=[world.slice_(1, 2)])
    assert [row[3:] for row in world.landed(job)] == [
        (b"now", (), AT_MS),
        (b"then", (), NANOSECONDS),
        (b"later", (), AT_MS),
    ]


def test_what_does_not_decode_is_told(world: RunnerWorld) -> None:
    """All records land; the offsets whose values are no JSON are named, with a reason; a tombstone is none of them."""
    world.topic.produce(b'{"a": 1}', b"no json", None, b"\xff", b"{}")
    decoder = Decoder(
        format=Format.JSON, topics=(world.topic.name,), name="JSON (a INT)", schema="a INT", asked="a" * 16
    )
    staged = world.run(world.job(world.slice_(0, 5), decoders=[decoder]))
    (undecoded,) = staged.undecoded
    assert undecoded.stream == (world.topic.name, world.topic.id, 0)
    assert undecoded.offsets == RangeSet.of((1, 2), (3, 4))
    assert undecoded.reason
    assert staged.decoding == decoder.asked
    assert len(world.rows(staged.snapshot)) == 5
    assert (staged.filled["value"], staged.filled["a"]) == (4, 1)


# How it ends


def test_attempt_that_was_begun_is_not_begun_again(world: RunnerWorld) -> None:
    """A second job of one id fails and leaves the first one's rows as they are."""
    world.topic.produce(*FIVE)
    job = world.job(world.slice_(0, 5))
    before = world.run(job)
    fails(world, job, "branch-exists")
    assert world.staged(job) == before


@shown_by_day
def test_offsets_that_retention_took_fail_the_job(world: RunnerWorld) -> None:
    """It reads around no loss, and stages nothing."""
    world.topic.produce(*FIVE)
    world.topic.delete_before(3)
    job = world.job(world.slice_(0, 5))
    fails(world, job, "data-loss")
    assert world.staged(job) is None
    assert [row[1] for row in world.landed(world.job(world.slice_(3, 5)))] == [3, 4]


def test_table_that_was_dropped_fails_the_job(world: RunnerWorld) -> None:
    """Its name is all that a job has of it."""
    world.topic.produce(*FIVE)
    fails(world, world.job(world.slice_(0, 5), table="raw.none"), "table-not-found")


def test_start_is_told_once_and_first(world: RunnerWorld) -> None:
    """The reference is written down before anything is done that it names; the heart beats after it."""
    world.topic.produce(*FIVE)
    told: list[str] = []
    job = world.job(world.slice_(0, 5))

    def started(reference: str) -> None:
        assert world.staged(job) is None
        told.append(reference)

    counted: list[Counters] = []
    world.runner.stage(job, started=started, heartbeat=lambda: told.append("beat"), counted=counted.append)
    # The tests' one driver counts for other processes too; `test_stage` counts exactly, in a Spark of its own.
    is_shared = isinstance(world, SparkWorld)
    assert counted[-1].rows == 5 or (is_shared and counted[-1].rows > 5), "what was read is counted to the end"
    assert len(told) > 1
    assert told[0] not in ("", "beat")
    assert set(told[1:]) == {"beat"}


@shown_by_day
@pytest.mark.parametrize("where", ["started", "heartbeat"])
def test_worker_that_lost_its_wave_ends_the_job(world: RunnerWorld, where: str) -> None:
    """What `started` or the heartbeat raises passes on; nothing of the job is ever seen, and the next attempt lands
    everything."""
    world.topic.produce(*FIVE)

    def lost(*_: object) -> None:
        raise StaleFenceError("another has it")

    ways: dict[str, Callable[..., None]] = {"started": lambda _: None, "heartbeat": lambda: None} | {where: lost}
    job = world.job(world.slice_(0, 5))
    with pytest.raises(StaleFenceError, match="another has it"):
        world.runner.stage(job, started=ways["started"], heartbeat=ways["heartbeat"])
    assert world.staged(job) is None
    world.publish(world.job(world.slice_(0, 5)))
    assert [row[1] for row in world.main()] == [0, 1, 2, 3, 4]


# Decoding again


def redecoded(world: RunnerWorld, *, topic: str = "", only_failed: bool = False) -> tuple[RedecodeJob, RedecodeResult]:
    """Decode a topic's rows once more."""
    messages: list[str] = []
    decoder = Decoder(format=Format.JSON, topics=(topic or world.topic.name,), name="JSON (a INT)", schema="a INT")
    job = RedecodeJob(
        id=secrets.token_hex(8), pipeline="orders", table=world.table, decoders=(decoder,), only_failed=only_failed
    )
    done = RedecodeResult(**world.runner.report(job, progress=messages.append, counted=lambda _: None))
    assert messages
    return job, done


def test_rows_are_decoded_again_beside_main(world: RunnerWorld) -> None:
    """On a branch that has the same rows, to be published: main does not move before."""
    world.topic.produce(b'{"a": 1}', b"no json", None)
    before, rows = world.publish(world.job(world.slice_(0, 3))), world.main()
    job, done = redecoded(world)
    assert (done.rows, done.failed, done.worse, done.base) == (3, 1, 0, before), "it landed as bytes alone"
    assert done.staged is not None
    table = world.lake.table(world.table)
    assert table.head().snapshot == before
    asked = Publication(head=table.head(), audited=done.staged, token=job.token, ledger_id=LEDGER)
    assert table.publish(asked) == Committed(snapshot=done.staged)
    assert world.main() == rows
    failed, once_more = redecoded(world, only_failed=True)
    assert (once_more.rows, once_more.failed, once_more.base) == (1, 1, done.staged)
    table.drop(failed.staged_as)
    assert table.staged(failed.staged_as) is None


@shown_by_day
def test_table_without_such_rows_is_not_decoded_again(world: RunnerWorld) -> None:
    """No branch is left, there is nothing to publish."""
    world.topic.produce(b"{}")
    world.publish(world.job(world.slice_(0, 1)))
    job, done = redecoded(world, topic="others")
    assert done == RedecodeResult(rows=0, failed=0)
    assert world.lake.table(world.table).staged(job.staged_as) is None


# Orphans


def test_job_that_is_over_is_no_orphan(world: RunnerWorld) -> None:
    """Neither its reference nor its name ends anything; nor does a reference of elsewhere, or none."""
    world.topic.produce(*FIVE)
    job, told = world.job(world.slice_(0, 5)), list[str]()
    world.runner.stage(job, started=told.append, heartbeat=lambda: None)
    before = world.staged(job)
    for reference in (*told, None, "elsewhere/1/1.00", "no reference"):
        assert not world.runner.end_orphan(reference, job.name)
    assert world.staged(job) == before


@pytest.mark.parametrize("is_warm", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_living_job_is_ended_by_its_reference(
    spark: Callable[..., SparkWorld], engine: Engine, *, is_warm: bool
) -> None:
    """It says that a signal ended it, and nothing of it is ever seen; a job of a double ends with its worker. At a byte
    a second it is not over before."""
    world = spark(engine if is_warm else None)
    world.topic.produce(*FIVE)
    job, ended = replace(world.job(world.slice_(0, 5)), rate=1), list[bool]()

    def forgotten(reference: str) -> None:
        ended.extend([world.runner.end_orphan(None, job.name), world.runner.end_orphan(reference, job.name)])

    with pytest.raises(JobFailedError, match="was ended by signal 15"):
        world.runner.stage(job, started=forgotten, heartbeat=lambda: None)
    assert ended == [False, True]
    assert world.main() == []
    world.close()


# From one job to the next

LEAVING = """
def work(spark, request, progress):
    seen = {
        "views": [table.name for table in spark.catalog.listTables()],
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "cached": not spark._jsparkSession.sharedState().cacheManager().isEmpty(),
    }
    spark.conf.set("spark.sql.shuffle.partitions", "77")
    spark.range(3).cache().createOrReplaceTempView("left_behind")
    spark.table("left_behind").count()
    return seen
"""


def test_nothing_passes_from_a_job_to_the_next(
    spark: Callable[..., SparkWorld], engine: Engine, tmp_path: Path
) -> None:
    """No setting, no view, nothing cached, though Spark is the same."""
    world, program = spark(engine), tmp_path / "leaving.py"
    program.write_text(LEAVING)
    job: Any = SimpleNamespace(name="leaving", program=str(program), effort=1, to_json=dict)
    first, second = (world.runner.report(job, progress=lambda _: None, counted=lambda _: None) for _ in range(2))
    assert first == second
    assert (second["views"], second["cached"]) == ([], False)
    world.close()


@pytest.mark.nightly  # by day: one driver reads both topics of a name in integration/test_recreated.py
def test_topic_of_the_same_name_is_read_anew(spark: Callable[..., SparkWorld], engine: Engine) -> None:
    """Neither records nor connections of a job serve the next: the same offsets of another topic are other records."""
    world = spark(engine)
    topic = world.topic
    assert isinstance(topic, RealTopic)
    topic.produce(*FIVE)
    assert [row[3] for row in world.landed(world.job(world.slice_(0, 5)))] == list(FIVE)
    topic.recreate()
    others = tuple(b"other " + value for value in FIVE)
    topic.produce(*others)
    assert [row[3] for row in world.landed(world.job(world.slice_(0, 5)))] == list(others)
    world.close()


# Comparing


def compared(world: RunnerWorld, snapshot: int, start: int, end: int, **ends: tuple[Slice, ...]) -> ContentComparison:
    """Compare a slice with a snapshot."""
    said: list[str] = []
    job = CompareJob(
        pipeline="orders",
        table=world.table,
        snapshot=snapshot,
        isolation=Isolation.READ_COMMITTED,
        slices=(world.slice_(start, end),),
        **ends,
    )
    found = ContentComparison.from_json(world.runner.report(job, progress=said.append, counted=lambda _: None))
    assert said
    return found


@shown_by_day
def test_rows_that_are_kafkas_records_compare_equal(world: RunnerWorld) -> None:
    """In keys, values, headers and times, whatever they are."""
    world.topic.produce(b"a", None, b"", key=b"k", headers=(("h", None), ("h", b"1")))
    world.topic.produce(b"then", timestamp_ms=MICROSECONDS)
    found = compared(world, world.publish(world.job(world.slice_(0, 4))), 0, 4)
    assert (found.records, found.differences) == (4, ())


@shown_by_day
def test_rows_of_no_record_and_records_of_no_row_are_told(world: RunnerWorld) -> None:
    """By stream, with the first offset and how many."""
    world.topic.produce(b"a", b"b", end="abort")
    world.topic.produce(b"c", b"d", b"e")
    snapshot = world.publish(world.job(world.slice_(0, 4), isolation=Isolation.READ_UNCOMMITTED))
    found = compared(world, snapshot, 0, 6)
    assert found.records == 3
    stream = (world.topic.name, world.topic.id, 0)
    assert {(item.mismatch, item.stream) for item in found.differences} == {
        (Mismatch.MISSING, stream),
        (Mismatch.UNKNOWN, stream),
    }
    told = sorted((item.mismatch, item.first, item.offsets) for item in found.differences)
    assert told == [(Mismatch.MISSING, 4, 2), (Mismatch.UNKNOWN, 0, 2)]


@shown_by_day
def test_ends_that_are_read_singly_compare_alike(world: RunnerWorld) -> None:
    """What is compared is the whole slice, also where its end has no record: a row there is told."""
    world.topic.produce(b"c", b"d", b"e", end="commit")
    world.topic.produce(b"a", b"b", end="abort")
    world.topic.produce(b"behind")
    snapshot = world.publish(world.job(world.slice_(0, 6), isolation=Isolation.READ_UNCOMMITTED))
    ends = {"singly": (world.slice_(1, 3),), "unread": (world.slice_(3, 7),)}
    found = compared(world, snapshot, 0, 7, **ends)
    assert found.records == 3
    told = [(item.mismatch, item.first, item.offsets) for item in found.differences]
    assert told == [(Mismatch.UNKNOWN, 4, 2)]
    nothing = {"singly": (), "unread": (world.slice_(3, 7),)}
    assert compared(world, snapshot, 3, 7, **nothing).records == 0


@shown_by_day
def test_what_is_gone_cannot_be_compared(world: RunnerWorld) -> None:
    """Neither offsets that retention took nor a snapshot that was expired; both are a failed job."""
    world.topic.produce(*FIVE)
    snapshot = world.publish(world.job(world.slice_(0, 5)))
    with pytest.raises(JobFailedError):
        compared(world, snapshot + 1, 0, 5)
    world.topic.delete_before(2)
    with pytest.raises(JobFailedError) as failed:
        compared(world, snapshot, 0, 5)
    assert failed.value.facts["reason"] == "data-loss"
