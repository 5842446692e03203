"""A worker stages for tasks that hold no slot: under the real supervisor, with Spark, while parts of it all are killed.
Minutes each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from airflow_kafka_lake.core.ledger.requests import is_wanted
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, AttemptRecord, WaveState
from airflow_kafka_lake.local.processes import Keeper
from tests.airflow_lanes import World, until, world_of

DAG_ID, INGEST = "by_worker", "kafka_lake.ingest"
DAG_FILE = f"""
from datetime import timedelta

from airflow.sdk import DAG
from airflow_kafka_lake.task_groups import kafka_lake_ingest

with DAG("{DAG_ID}", schedule=None, max_active_runs=1):
    kafka_lake_ingest("asked", stage_by="worker", retry_delay=timedelta(seconds=2))
"""
RECORDS, BYTES, SLOWLY = 3000, 1000, '[limits]\nbytes_per_second = "100 kB"\n'
"""A wave that is read for about half a minute."""
STORY_SECONDS = 300

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]
QUICK_TO_NOTICE = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "3",
}


class Stage:
    """An Airflow whose parts can be killed, and a worker beside it."""

    def __init__(self, world: World) -> None:
        self.world, self.lane = world, world.lanes["asked"]
        self._keepers: list[Keeper] = []
        self._worker: subprocess.Popen[str] | None = None

    def begin(self, records: int) -> str:
        """Produce, and trigger a run; returns its id once a worker's Spark reads for its deferred task."""
        self.lane.produce(records, size=BYTES, begin=len(self.lane.acknowledged))
        run_id = self.world.airflow.trigger(DAG_ID)
        self.reading()
        until(lambda: self.state(run_id) == "deferred", STORY_SECONDS)
        pool = self.world.airflow.api("GET", "/pools/default_pool")
        assert (pool["deferred_slots"], pool["running_slots"], pool["queued_slots"]) == (1, 0, 0)
        return run_id

    def state(self, run_id: str) -> str | None:
        """Return the state of the mapped task."""
        return self.world.airflow.task_states(DAG_ID, run_id).get(f"{INGEST}[0]")

    def end(self, run_id: str) -> str:
        """Wait for the end of a run; returns its state."""
        return self.world.end(DAG_ID, run_id, STORY_SECONDS).state

    def start_worker(self) -> None:
        """Start the worker, as its service does."""
        self._worker = self.lane.start("worker")

    def kill_worker(self) -> None:
        """Kill the worker as nothing can expect; its Spark driver goes on."""
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait(60)

    def reading(self, *, but: psutil.Process | None = None) -> psutil.Process:
        """Return the Spark driver of the wave that is at work, another one than before, once it has counted rows."""

        def found() -> psutil.Process | None:
            running = [item for item in self.attempts() if item.outcome is AttemptOutcome.RUNNING and item.job]
            if not running or not (running[-1].progress and running[-1].progress.rows):
                return None
            driver = process_of(running[-1])
            return None if driver is None or driver == but else driver

        return until(found, STORY_SECONDS)

    def attempts(self) -> list[AttemptRecord]:
        """Return the attempts at all waves."""
        ledger = self.lane.open_ledger()
        try:
            waves = [wave.id for wave in ledger.waves("asked")]
            return [item for wave in waves for item in ledger.attempts(wave)]
        finally:
            ledger.close()

    def ended_attempt(self) -> AttemptRecord | None:
        """Return the newest attempt that has failed, if one has."""
        failed = [item for item in self.attempts() if item.outcome is AttemptOutcome.FAILED]
        return failed[-1] if failed else None

    def assert_nothing_is_left(self) -> None:
        """No request is open, every record is in the table once, and no driver outlives the worker."""
        assert self._worker is not None
        self._worker.terminate()
        self._worker.wait(60)
        assert [item.attempt for item in self.attempts() if process_of(item)] == []
        ledger = self.lane.open_ledger()
        assert [wave.id for wave in ledger.waves("asked") if wave.state is not WaveState.COMMITTED] == []
        assert not is_wanted(ledger.requests())
        ledger.close()
        self.lane.assert_exact()

    def kill_and_restore(self, part: str) -> None:
        """Kill a part of Airflow with what it has started, and start it again."""
        for process in self._parts(part):
            with suppress(psutil.Error):
                process.kill()
        until(lambda: not self._parts(part))
        airflow, keeper = self.world.airflow, Keeper()
        self._keepers.append(keeper)
        launcher = airflow.home / "bin" / "airflow"
        keeper.start([launcher, part], log=airflow.server_log, env=airflow._environment(), cwd=airflow.home)

    def _parts(self, part: str) -> list[psutil.Process]:
        found, roots = [], [self.world.airflow.pid, *(keeper.pid for keeper in self._keepers)]
        for root in filter(None, roots):
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(root)
                family = process.children(recursive=True) + ([process] if root != self.world.airflow.pid else [])
                for each in family:
                    with suppress(psutil.Error):
                        if part in " ".join(each.cmdline()) and each.status() != psutil.STATUS_ZOMBIE:
                            found.append(each)
        return found

    def close(self) -> None:
        """End what was started."""
        self.lane.close()
        for keeper in self._keepers:
            keeper.close()


def process_of(attempt: AttemptRecord) -> psutil.Process | None:
    """Return the driver of an attempt, if it lives."""
    with suppress(psutil.NoSuchProcess, ValueError):
        driver = psutil.Process(int((attempt.job or "").rsplit("/", 2)[1])) if attempt.job else None
        return driver if driver and driver.status() != psutil.STATUS_ZOMBIE else None
    return None


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Start everything."""
    with ExitStack() as stack:
        world = stack.enter_context(world_of(folder, {"asked": 2}, {"by_worker.py": DAG_FILE}, QUICK_TO_NOTICE))
        lane = world.lanes["asked"]
        lane.file.write_text(f"{lane.file.read_text()}{SLOWLY}")
        made = Stage(world)
        stack.callback(made.close)
        world.airflow.unpause(DAG_ID)
        made.start_worker()
        yield made


@pytest.fixture
def stage(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One Airflow, one broker and one worker for a test; no path names a part that is killed by its name."""
    with staged(tmp_path_factory.mktemp("world")) as made:
        yield made


def test_kills_of_worker_triggerer_and_scheduler_lose_and_double_nothing(stage: Stage) -> None:
    """The killed worker's wave goes to the next one, whose claim ends the orphan driver; that one goes on while the
    triggerer and the scheduler are killed and come back, and its task ends well."""
    run_id = stage.begin(RECORDS)
    first = stage.reading()
    stage.kill_worker()
    stage.start_worker()
    second = stage.reading(but=first)
    assert not first.is_running() or first.status() == psutil.STATUS_ZOMBIE
    for part in ("triggerer", "scheduler"):
        stage.kill_and_restore(part)
    assert second.is_running()
    until(stage.world.airflow.healthy, STORY_SECONDS)
    assert stage.end(run_id) == "success"
    assert [item.outcome for item in stage.attempts()] == [AttemptOutcome.ABANDONED, AttemptOutcome.COMMITTED]
    stage.assert_nothing_is_left()


def test_clear_goes_on_with_the_attempt_and_mark_failed_ends_it(stage: Stage) -> None:
    """A cleared task asks again and one job does all of it; a task that is marked failed ends the job at once, and the
    next run lands everything."""
    run_id = stage.begin(RECORDS)
    cleared = {"dry_run": False, "dag_run_id": run_id, "task_ids": [INGEST], "only_failed": False}
    stage.world.airflow.api("POST", f"/dags/{DAG_ID}/clearTaskInstances", cleared)
    assert stage.end(run_id) == "success"
    assert [item.outcome for item in stage.attempts()] == [AttemptOutcome.COMMITTED]

    run_id = stage.begin(RECORDS)
    path = f"/dags/{DAG_ID}/dagRuns/{quote(run_id)}/taskInstances/{INGEST}/0"
    stage.world.airflow.api("PATCH", path, {"new_state": "failed"})
    failed = until(stage.ended_attempt, 60)
    assert stage.end(run_id) == "failed"
    assert (failed.outcome, str(failed.error).partition(":")[0]) == (AttemptOutcome.FAILED, "NotWantedError")

    last = stage.world.airflow.trigger(DAG_ID)
    assert stage.end(last) == "success"
    stage.assert_nothing_is_left()
