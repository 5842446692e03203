"""A warm driver: the product's own loop, started by a script that stands in for spark-submit, without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.spark_submit import driver as engines
from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.adapters.spark_submit.runner import SparkJobs, SparkSubmitRunner
from airflow_kafka_lake.adapters.spark_submit.submission import PREFIX
from airflow_kafka_lake.core.errors import JobFailedError, StaleFenceError, UnavailableError
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import LIGHT, MOST_JOBS, MOST_SECONDS, DriverAge, StageJob
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.jobs.serve import READY_FILE
from airflow_kafka_lake.local.processes import wait_until

pytestmark = [pytest.mark.unit, pytest.mark.timeout(120)]

FRESH = DriverAge(jobs=1, seconds=60, heap=10, heap_most=100, metaspace=1)
SECRET = "pw-kafka"
SUBMIT = """#!{python}
import json, os, pathlib, runpy, sys, time
from contextlib import contextmanager
from types import SimpleNamespace
from airflow_kafka_lake.core.spark.job import DriverAge
from airflow_kafka_lake.jobs import driver, serve

@contextmanager
def session(*_):
    yield SimpleNamespace()
    with open({notes!r} + "/stopped", "a") as file:
        file.write("x")

driver.session = serve.session = serve.session_of_a_job = session
serve.wear_of = lambda *_: DriverAge.from_json(json.loads(pathlib.Path({notes!r}, "wear").read_text()))
files = {{path.name: oct(path.stat().st_mode & 0o777) for path in pathlib.Path.cwd().iterdir()}}
with open({notes!r} + "/starts", "a") as starts:
    starts.write(json.dumps({{"pid": os.getpid(), "argv": sys.argv[1:], "files": files}}) + "\\n")
if pathlib.Path({notes!r}, "never").exists():
    sys.exit("the master does not answer")
while pathlib.Path({notes!r}, "slow").exists():
    time.sleep(0.05)
program, request = sys.argv[-2:]
if program == serve.__file__:
    serve.main([request])
else:
    driver.run([request], runpy.run_path(program)["work"])
"""
PROGRAM = """
import json, os, pathlib, sys, time
def work(spark, request, progress):
    script = json.loads(pathlib.Path({notes!r}, "script").read_text())
    hangs = lambda: pathlib.Path({notes!r}, "hangs").exists()
    said = {{"pid": os.getpid(), "job": request["job"], "kafka": request["kafka"], "left": os.listdir()}}
    with open({notes!r} + "/jobs", "a") as jobs:
        jobs.write(json.dumps(said) + "\\n")
    print(script.get("says", ""), flush=True)
    while hangs():
        time.sleep(0.05)
    if script.get("fails"):
        raise RuntimeError(script["fails"])
    progress("half of it")
    return {{"done": request["job"]["wave"]}}
"""


class FakeSpark:
    """A spark-submit whose driver is the product's without a Spark; `does` says what its jobs do from now on."""

    def __init__(self, folder: Path) -> None:
        self.temporary, self._notes = folder / "temporary", folder / "notes"
        self._submit, self._program = folder / "spark-submit", folder / "program.py"
        for made in (self.temporary, self._notes):
            made.mkdir()
        self._submit.write_text(SUBMIT.format(python=sys.executable, notes=str(self._notes)))
        self._submit.chmod(0o700)
        self._program.write_text(PROGRAM.format(notes=str(self._notes)))
        self.does()
        self.wears(FRESH)

    def does(self, *, hangs: bool = False, **script: object) -> None:
        (self._notes / "script").write_text(json.dumps(script))
        if hangs:
            (self._notes / "hangs").touch()
        else:
            (self._notes / "hangs").unlink(missing_ok=True)

    def wears(self, wear: DriverAge) -> None:
        (self._notes / "wear").write_text(json.dumps(wear.to_json()))

    def never_starts(self) -> None:
        (self._notes / "never").touch()

    def is_slow(self, *, to_start: bool) -> None:
        if to_start:
            (self._notes / "slow").touch()
        else:
            (self._notes / "slow").unlink()

    def _read(self, name: str) -> list[dict]:
        file = self._notes / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def starts(self) -> list[dict]:
        return self._read("starts")

    @property
    def jobs(self) -> list[dict]:
        return self._read("jobs")

    @property
    def stopped(self) -> bool:
        """Whether a session was closed, as it is when a driver ends in an orderly way."""
        return (self._notes / "stopped").exists()

    @property
    def parts(self) -> dict[str, Any]:
        """What a runner needs to run in this one."""
        return {
            "spark_submit": self._submit,
            "stage_program": self._program,
            "heartbeat_seconds": 0.05,
        }

    def runner(self, engine: Engine | None, **changes: object) -> SparkSubmitRunner:
        given = {
            "master": "local[2]",
            "catalog": {},
            "kafka": {"bootstrap.servers": "broker:9092", "sasl.jaas.config": f'Module required password="{SECRET}";'},
            "engine": engine,
        }
        return SparkSubmitRunner(**(self.parts | given | changes))  # type: ignore[arg-type]


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """A spark-submit of the test, with temporary files of its own."""
    made = FakeSpark(tmp_path)
    monkeypatch.setenv("TMPDIR", str(made.temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return made


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def job(wave: str = "w1", records: int = 10) -> StageJob:
    return StageJob(
        pipeline="orders",
        wave=wave,
        attempt="00112233aabbccdd",
        table="raw.orders",
        isolation=Isolation.READ_COMMITTED,
        slices=(Slice(Stream("orders", "A1", 0), OffsetRange(0, records)),),
        tasks=1,
        max_records_per_partition=None,
    )


def stage(
    runner: SparkSubmitRunner, wave: str = "w1", *, records: int = 10, heartbeat: Callable[[], None] = lambda: None
) -> str:
    """Run a job; returns its reference."""
    refs: list[str] = []
    runner.stage(job(wave, records), started=refs.append, heartbeat=heartbeat)
    (ref,) = refs
    return ref


def has_driver(engine: Engine, runner: SparkSubmitRunner) -> bool:
    """Whether a light job of a runner would find a warm driver."""
    return engine._driver is not None and engine._driver.fits(runner._start(is_heavy=False))


def gone(pid: int) -> bool:
    wait_until(lambda: HostProcesses().holder(pid) is None, timeout=30, failed=AssertionError)
    return True


def begun(spark: FakeSpark, jobs: int = 1) -> None:
    wait_until(lambda: len(spark.jobs) == jobs, timeout=30, failed=AssertionError)


def test_jobs_of_a_process_run_in_one_driver(spark: FakeSpark, engine: Engine) -> None:
    """Each has a request, a folder and a reference of its own; nothing of it is left when it is over."""
    runner = spark.runner(engine)
    refs = [stage(runner, f"w{number}") for number in range(3)]
    assert len(spark.starts) == 1
    assert {done["pid"] for done in spark.jobs} == {spark.starts[0]["pid"]}
    assert [done["job"]["wave"] for done in spark.jobs] == ["w0", "w1", "w2"]
    assert {done["kafka"]["bootstrap.servers"] for done in spark.jobs} == {"broker:9092"}
    assert len({ref.rpartition("+")[0] for ref in refs}) == 1
    assert [ref.rpartition("+")[2] for ref in refs] == ["1", "2", "3"]
    for number, done in enumerate(spark.jobs, 1):
        assert [name for name in done["left"] if name.isdecimal()] == [str(number)]


def test_driver_is_not_named_after_a_job(spark: FakeSpark, engine: Engine) -> None:
    """By a job's name its application is ended on a cluster; this one may work on another by then."""
    stage(spark.runner(engine))
    argv = spark.starts[0]["argv"]
    name = argv[argv.index("--name") + 1]
    assert name.startswith("kafka-lake driver ")
    assert name != job().name
    assert SECRET not in json.dumps(argv)


def test_secrets_are_gone_when_a_job_works(spark: FakeSpark, engine: Engine) -> None:
    """The driver's own files, and those of the job; all are readable by their owner only."""
    spark.does(hangs=True)
    seen: list[str] = []

    def heartbeat() -> None:
        if spark.jobs:
            seen.extend(
                path.read_text() for path in spark.temporary.rglob("*") if path.is_file() and ".zip" not in path.name
            )
            spark.does()
            raise StaleFenceError("enough")

    with pytest.raises(StaleFenceError):
        stage(spark.runner(engine), heartbeat=heartbeat)
    assert seen
    assert SECRET not in "".join(seen)
    modes = spark.starts[0]["files"]
    assert {modes[name] for name in ("orders", "job.json", "spark.properties", "java.options")} == {"0o600"}


def test_report_is_the_jobs_own(spark: FakeSpark, engine: Engine) -> None:
    """Its sentences and its document, also of the second job."""
    runner = spark.runner(engine)
    said: list[str] = []
    for wave in ("w1", "w2"):
        asked = SimpleNamespace(
            name="a report", program=str(spark._program), effort=1, to_json=lambda wave=wave: {"wave": wave}
        )
        assert runner.report(asked, progress=said.append, counted=lambda _: None) == {"done": wave}  # type: ignore[arg-type]
    assert said == ["half of it", "half of it"]
    assert len(spark.starts) == 1


def test_failed_job_ends_its_driver(spark: FakeSpark, engine: Engine) -> None:
    """Its error has the last lines of its own log, masked; the next job has a new driver."""
    runner = spark.runner(engine)
    spark.does(says="of the first job")
    stage(runner)
    spark.does(says=f"of the second job, with {SECRET}", fails="it is broken")
    with pytest.raises(JobFailedError, match="ended with exit code 1") as failed:
        stage(runner, "w2")
    assert "of the first job" not in failed.value.message
    assert "of the second job, with ***" in failed.value.message
    assert failed.value.message.endswith("RuntimeError: it is broken")
    assert gone(spark.starts[0]["pid"])
    assert list(spark.temporary.iterdir()) == []
    spark.does()
    stage(runner, "w3")
    assert len(spark.starts) == 2


def test_driver_that_does_not_start_fails_its_job(spark: FakeSpark, engine: Engine) -> None:
    """What spark-submit says is the job's error; no second start is tried for the same job."""
    spark.never_starts()
    with pytest.raises(JobFailedError, match="the master does not answer"):
        stage(spark.runner(engine))
    assert len(spark.starts) == 1
    with pytest.raises(JobFailedError, match="does not start"):
        stage(spark.runner(engine, spark_submit=spark.temporary / "nowhere"))
    assert list(spark.temporary.iterdir()) == []


@pytest.mark.parametrize("error", [StaleFenceError("another holds the wave"), KeyboardInterrupt()])
def test_error_of_the_heartbeat_ends_the_driver(spark: FakeSpark, engine: Engine, error: BaseException) -> None:
    """Also in the middle of a later job; the error passes on, and the next job has a new driver."""
    runner = spark.runner(engine)
    stage(runner)
    spark.does(hangs=True)

    def heartbeat() -> None:
        if len(spark.jobs) == 2:
            raise error

    with pytest.raises(type(error)):
        stage(runner, "w2", heartbeat=heartbeat)
    assert gone(spark.starts[0]["pid"])
    spark.does()
    stage(runner, "w3")
    assert len(spark.starts) == 2


@pytest.mark.slow
def test_driver_without_progress_is_ended(spark: FakeSpark, engine: Engine) -> None:
    """Its silence counts from the job's begin, not from the driver's."""
    runner = spark.runner(engine, quiet_seconds=1.0)
    stage(runner)
    spark.does(hangs=True)
    with pytest.raises(JobFailedError, match="no progress"):
        stage(runner, "w2")
    assert gone(spark.starts[0]["pid"])


def test_driver_that_died_between_jobs_is_replaced(spark: FakeSpark, engine: Engine) -> None:
    """No job failed: none was begun."""
    runner = spark.runner(engine)
    stage(runner)
    os.kill(spark.starts[0]["pid"], signal.SIGKILL)
    stage(runner, "w2")
    assert len(spark.starts) == 2
    assert [done["job"]["wave"] for done in spark.jobs] == ["w1", "w2"]


def test_driver_that_dies_in_a_job_fails_it(spark: FakeSpark, engine: Engine) -> None:
    """A job that was begun is never begun again by the runner: its attempt is over."""
    runner = spark.runner(engine)
    stage(runner)
    spark.does(hangs=True)

    def heartbeat() -> None:
        if len(spark.jobs) == 2:
            os.kill(spark.starts[0]["pid"], signal.SIGKILL)

    with pytest.raises(JobFailedError, match="signal 9"):
        stage(runner, "w2", heartbeat=heartbeat)
    assert len(spark.jobs) == 2


@pytest.mark.slow
def test_stopped_driver_is_replaced(spark: FakeSpark, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not take a job is ended, and only then another one gets it."""
    monkeypatch.setattr(engines, "TAKEN_SECONDS", 0.5)
    runner = spark.runner(engine)
    stage(runner)
    os.kill(spark.starts[0]["pid"], signal.SIGSTOP)
    stage(runner, "w2")
    assert gone(spark.starts[0]["pid"])
    assert [done["job"]["wave"] for done in spark.jobs] == ["w1", "w2"]


def test_idle_driver_lets_go(spark: FakeSpark, engine: Engine) -> None:
    """It ends by itself, in an orderly way; the next job has a new one."""
    runner = spark.runner(engine, idle_seconds=0.1)
    stage(runner)
    assert gone(spark.starts[0]["pid"])
    assert spark.stopped
    stage(runner, "w2")
    assert len(spark.starts) == 2


WORN = [
    replace(FRESH, jobs=MOST_JOBS),
    replace(FRESH, seconds=MOST_SECONDS),
    replace(FRESH, heap=51),
    replace(FRESH, metaspace=2**30),
]


@pytest.mark.parametrize("wear", WORN)
def test_what_grows_with_the_number_of_jobs_wears_a_driver_out(wear: DriverAge) -> None:
    """The jobs themselves, its age, the heap, the classes."""
    assert wear.is_too_much
    assert not FRESH.is_too_much


def test_worn_driver_takes_no_further_job(spark: FakeSpark, engine: Engine) -> None:
    """The next job has a new one."""
    runner = spark.runner(engine)
    spark.wears(WORN[0])
    stage(runner)
    wait_until(lambda: not has_driver(engine, runner), timeout=30, failed=AssertionError)
    stage(runner, "w2")
    assert len(spark.starts) == 2


OTHERWISE: dict[str, dict[str, object]] = {
    "master": {"master": "local[1]"},
    "catalog": {"catalog": {"spark.sql.catalog.lake.uri": "another"}},
    "conf": {"conf": {"spark.sql.shuffle.partitions": "1"}},
    "secrets": {"kafka": {"bootstrap.servers": "broker:9092", "sasl.jaas.config": "another"}},
    "memory": {"driver_memory": "3g"},
    "jars": {"jars": [Path("/jars/a.jar")]},
}


def test_job_of_other_settings_has_another_driver(spark: FakeSpark, engine: Engine) -> None:
    """Settings of Spark are those of the driver's start."""
    runner = spark.runner(engine)
    stage(runner)
    assert has_driver(engine, runner)
    others = {name: spark.runner(engine, **changes) for name, changes in OTHERWISE.items()}
    assert [name for name, other in others.items() if has_driver(engine, other)] == []
    stage(others["catalog"], "w2")
    assert len(spark.starts) == 2
    assert gone(spark.starts[0]["pid"])


def test_pipelines_of_the_same_connections_share_a_driver(spark: FakeSpark, engine: Engine) -> None:
    """Only the id of their clients differs, and each job has its own."""
    for name in ("kafka-lake-a", "kafka-lake-b"):
        stage(spark.runner(engine, kafka={"bootstrap.servers": "b:1", "client.id": name}))
    assert [done["kafka"]["client.id"] for done in spark.jobs] == ["kafka-lake-a", "kafka-lake-b"]
    assert len(spark.starts) == 1


class Verified(SparkJobs):
    """Counts how often Java and the jars are looked at."""

    times = 0

    def _verify_all(self) -> None:
        Verified.times += 1


def test_jars_are_verified_for_each_driver_once(
    spark: FakeSpark, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right before it is started, also where each wave is another pipeline's; what is loaded needs no second look."""
    verified = partial(Verified, master="local[2]", conf={}, catalog={}, kafka={}, **spark.parts)
    monkeypatch.setattr(Verified, "times", 0)
    for wave, records, times in (("w1", 1, 1), ("w2", 1, 1), ("w3", 1, 2), ("w4", LIGHT + 1, 3)):
        jobs = verified(engine=engine)
        jobs.stage(job(wave, records), started=lambda _: None, heartbeat=lambda: None)
        assert (Verified.times, len(spark.starts)) == (times, times)
        if wave == "w2":
            os.kill(spark.starts[0]["pid"], signal.SIGKILL)
            # The kernel tells of a process's end a moment after it is gone.
            wait_until(lambda jobs=jobs: not has_driver(engine, jobs), timeout=30, failed=AssertionError)
    with Engine() as another:
        prepared = verified(engine=another)
        prepared.check()
        prepared.prepare(1)
        for wave, records, times in (("w5", 1, 4), ("w6", LIGHT + 1, 5)):
            prepared.stage(job(wave, records), started=lambda _: None, heartbeat=lambda: None)
            assert (Verified.times, len(spark.starts)) == (times, times)
        prepared.check()
        assert Verified.times == 5, "what a warm driver has loaded needs no second look"
    cold = verified()
    cold.check()
    cold.stage(job("w7"), started=lambda _: None, heartbeat=lambda: None)
    assert Verified.times == 7


def test_heavy_job_does_not_run_in_a_light_driver(spark: FakeSpark, engine: Engine) -> None:
    """That one compiles too little; a heavy one takes light jobs."""
    runner = spark.runner(engine)
    for wave, records in (("w1", LIGHT), ("w2", LIGHT + 1), ("w3", 1)):
        stage(runner, wave, records=records)
    assert len(spark.starts) == 2


def test_light_driver_is_replaced_when_its_jobs_together_are_heavy(spark: FakeSpark, engine: Engine) -> None:
    """By one that lasts: what was done is taken for what will still be done. On a cluster a driver computes little."""
    for master, starts in (("local[2]", [1, 1, 2, 2]), ("yarn", [3, 3, 3, 3])):
        runner = spark.runner(engine, master=master)
        for wave, so_far in enumerate(starts):
            stage(runner, f"w{wave}", records=LIGHT // 2)
            assert len(spark.starts) == so_far


def test_two_jobs_at_once_have_two_drivers(spark: FakeSpark, engine: Engine) -> None:
    """The second one has a driver of its own, as without an engine, and leaves the first one alone."""
    runner = spark.runner(engine)
    spark.does(hangs=True)
    refs: list[str] = []

    def heartbeat() -> None:
        if spark.jobs and not refs:
            spark.does()
            refs.append(stage(runner, "w2"))

    first = stage(runner, heartbeat=heartbeat)
    assert ["+" in ref for ref in (first, *refs)] == [True, False]
    assert stage(runner, "w3") == first.replace("+1", "+2")


def test_job_has_a_driver_of_its_own_where_there_are_no_pipes(
    spark: FakeSpark, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have none."""
    monkeypatch.setattr(engines, "ORDERS_FILE", "no/such/place")
    assert "+" not in stage(spark.runner(engine))
    assert list(spark.temporary.iterdir()) == []


def test_job_without_room_for_its_files_says_so(spark: FakeSpark, engine: Engine) -> None:
    """It was not begun, and can be repeated."""
    runner = spark.runner(engine)
    stage(runner)
    (folder,) = spark.temporary.iterdir()
    (folder / "2").mkdir()
    with pytest.raises(UnavailableError, match="cannot be written"):
        stage(runner, "w2")
    stage(runner, "w3")
    assert [done["job"]["wave"] for done in spark.jobs] == ["w1", "w3"]


def test_close_ends_the_driver_and_removes_its_folder(spark: FakeSpark) -> None:
    """At once in a local master; where an application has to be closed, the driver closes it itself."""
    for conf, stopped in (({}, False), ({"spark.eventLog.enabled": "true"}, True)):
        with Engine() as made:
            stage(spark.runner(made, conf=conf))
            before = spark.stopped
        assert gone(spark.starts[-1]["pid"])
        assert list(spark.temporary.iterdir()) == []
        assert (before, spark.stopped) == (before, stopped or before)


# A driver that is started before its first job


def test_prepared_driver_takes_the_first_job(spark: FakeSpark, engine: Engine) -> None:
    """Whether it waits for it already or not; a second preparation changes nothing."""
    runner = spark.runner(engine)
    for wave in ("w1", "w2"):
        runner.prepare(1)
        runner.prepare(1)
        stage(runner, wave)
    assert len(spark.starts) == 1
    assert [done["job"]["wave"] for done in spark.jobs] == ["w1", "w2"]


def test_driver_that_still_starts_has_time_for_it(
    spark: FakeSpark, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one that waits for its job and must take it soon."""
    monkeypatch.setattr(engines, "TAKEN_SECONDS", 0.0)
    spark.is_slow(to_start=True)
    runner = spark.runner(engine)
    runner.prepare(1)
    wait_until(lambda: len(spark.starts) == 1, timeout=30, failed=AssertionError)
    runner.stage(job(), started=lambda _: spark.is_slow(to_start=False), heartbeat=lambda: None)
    assert len(spark.starts) == 1


def test_unneeded_driver_ends_at_once(spark: FakeSpark) -> None:
    """Also while it starts; nothing of it is left."""
    for is_ready in (False, True):
        with Engine() as made:
            spark.runner(made).prepare(1)
            (folder,) = spark.temporary.iterdir()
            if is_ready:
                wait_until((folder / READY_FILE).exists, timeout=30, failed=AssertionError)
                (pid,) = (start["pid"] for start in spark.starts)
        assert list(spark.temporary.iterdir()) == []
    assert gone(pid)
    assert not spark.stopped


def test_driver_that_could_not_be_prepared_leaves_its_error_to_the_job(spark: FakeSpark, engine: Engine) -> None:
    """The preparation fails nothing, and hides nothing."""
    spark.never_starts()
    runner = spark.runner(engine)
    runner.prepare(1)
    wait_until(lambda: not has_driver(engine, runner), timeout=30, failed=AssertionError)
    with pytest.raises(JobFailedError, match="the master does not answer"):
        stage(runner)
    nowhere = spark.runner(engine, spark_submit=spark.temporary / "nowhere")
    nowhere.prepare(1)
    with pytest.raises(JobFailedError, match="does not start"):
        stage(nowhere)
    assert list(spark.temporary.iterdir()) == []


def test_heavy_job_replaces_a_prepared_driver(spark: FakeSpark, engine: Engine) -> None:
    """It was started for a light one."""
    runner = spark.runner(engine)
    runner.prepare(LIGHT)
    wait_until(lambda: len(spark.starts) == 1, timeout=30, failed=AssertionError)
    stage(runner, records=LIGHT + 1)
    assert gone(spark.starts[0]["pid"])
    assert len(spark.starts) == 2


def test_driver_is_prepared_for_heavy_jobs(spark: FakeSpark, engine: Engine) -> None:
    """One of them, or many that together are heavy."""
    runner = spark.runner(engine)
    runner.prepare(LIGHT + 1)
    for wave, records in (("w1", LIGHT + 1), ("w2", 1)):
        stage(runner, wave, records=records)
    assert len(spark.starts) == 1


def test_no_driver_is_prepared_on_a_cluster(spark: FakeSpark, engine: Engine) -> None:
    """There it would hold what others wait for; nor where each job has a driver of its own."""
    spark.runner(engine, master="spark://host:7077").prepare(1)
    spark.runner(None).prepare(1)
    assert list(spark.temporary.iterdir()) == []


def test_prepared_driver_of_a_killed_worker_ends(
    spark: FakeSpark, worker: Callable[..., subprocess.Popen[str]]
) -> None:
    """Though it never had a job."""
    child = worker(prepare=True)
    child.kill()
    assert gone(spark.starts[0]["pid"])
    assert spark.jobs == []


# Orphans


def test_reference_of_an_earlier_job_ends_nothing(spark: FakeSpark, engine: Engine) -> None:
    """The driver works on another one by now, or on none."""
    runner = spark.runner(engine)
    first = stage(runner)
    assert not runner.end_orphan(first, job().name)
    ended: list[bool] = []
    stage(runner, "w2", heartbeat=lambda: ended.append(runner.end_orphan(first, job().name)))
    second: list[str] = []
    runner.stage(
        job("w3"), started=lambda ref: second.append(ref) or ended.append(runner.end_orphan(first, "")), heartbeat=list
    )
    assert not any(ended)
    assert len(spark.starts) == 1


def test_living_job_is_ended_by_its_reference(spark: FakeSpark, engine: Engine) -> None:
    """Its driver goes with it."""
    runner = spark.runner(engine)
    stage(runner)
    spark.does(hangs=True)
    refs: list[str] = []
    ended: list[bool] = []

    def heartbeat() -> None:
        if len(spark.jobs) == 2 and not ended:
            ended.append(runner.end_orphan(refs[0], job().name))

    with pytest.raises(JobFailedError, match="signal 15"):
        runner.stage(job("w2"), started=refs.append, heartbeat=heartbeat)
    assert ended == [True]
    assert gone(spark.starts[0]["pid"])


WORKER = """
import sys
from pathlib import Path
from tests.unit.adapters.test_engine import Engine, FakeSpark, stage, wait_until
spark = FakeSpark.__new__(FakeSpark)
folder = Path(sys.argv[1])
spark.temporary, spark._notes = folder / "temporary", folder / "notes"
spark._submit, spark._program = folder / "spark-submit", folder / "program.py"
runner = spark.runner(Engine(), silence_seconds=float(sys.argv[2]))
if sys.argv[3] == "True":
    runner.prepare(1)
    wait_until(lambda: spark.starts, timeout=30, failed=AssertionError)
else:
    stage(runner)
print("one", flush=True)
sys.stdin.readline()
stage(runner, "w2")
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that runs a job, or only prepares a driver, and runs another job when it is told to."""
    made: list[subprocess.Popen[str]] = []

    def start(silence_seconds: float = 300, *, prepare: bool = False) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", WORKER, str(tmp_path), str(silence_seconds), str(prepare)]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        made.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "one\n"
        return child

    yield start
    for child in made:
        child.kill()
        child.communicate()


ROOT = Path(__file__).parents[3]


def second_job(spark: FakeSpark, child: subprocess.Popen[str]) -> None:
    """Have the worker begin a job that does not end."""
    spark.does(hangs=True)
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    begun(spark, 2)


@pytest.mark.parametrize("at_work", [False, True])
def test_driver_of_a_killed_worker_ends(
    spark: FakeSpark, worker: Callable[..., subprocess.Popen[str]], *, at_work: bool
) -> None:
    """Also in the middle of a job, and there without another word; its folder is swept by the next job."""
    child = worker()
    if at_work:
        second_job(spark, child)
    child.kill()
    assert gone(spark.starts[0]["pid"])
    assert len(list(spark.temporary.glob(f"{PREFIX}*"))) == 1
    child.wait()
    spark.does()
    with Engine() as another:
        stage(spark.runner(another), "w3")
        (left,) = spark.temporary.glob(f"{PREFIX}*")
        assert left.name in json.dumps(spark.starts[-1]["argv"])


@pytest.mark.slow
def test_driver_of_a_stopped_worker_ends(spark: FakeSpark, worker: Callable[..., subprocess.Popen[str]]) -> None:
    """A stopped worker's pipe stays open, and no sign comes through it: its lease is over."""
    child = worker(silence_seconds=1.0)
    second_job(spark, child)
    assert HostProcesses().holder(spark.starts[0]["pid"]) is not None
    psutil.Process(child.pid).suspend()
    assert gone(spark.starts[0]["pid"])


@pytest.mark.slow
def test_signs_of_a_worker_keep_its_driver(spark: FakeSpark, engine: Engine) -> None:
    """However long a job takes."""
    runner = spark.runner(engine, silence_seconds=0.4)
    spark.does(hangs=True)
    beats: list[int] = []

    def heartbeat() -> None:
        beats.append(1)
        if len(beats) == 25:
            spark.does()

    stage(runner, heartbeat=heartbeat)
    assert len(beats) >= 25
