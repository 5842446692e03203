"""The flight: a real Airflow that lands one lane over and over, and whose parts can die and come back."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.airflow_api import AirflowApiError
from airflow_kafka_lake.local.processes import Keeper
from tests.kit import arming
from tests.soak.lanes import LANES
from tests.soak.place import Place
from tests.soak.workers import DRIVER

LANE = "flown"
MANUAL, WAITS = "kafka_lake_manual", "soak_waits"
RUN_SECONDS = 900
WAITING_DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG, Param
from airflow_kafka_lake.sensors.watermark import WatermarkSensor

with DAG("{WAITS}", schedule=None, params={{"offset": Param("0", type="string")}}):
    WatermarkSensor(
        task_id="watermark", pipeline="{LANE}", topic="{LANE}", partition=0, timeout=1800, retries=3,
        retry_delay=timedelta(seconds=10), offset="{{{{ params['offset'] }}}}",
    )
"""
QUICK_TO_NOTICE = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "3",
}


class Flight:
    """Airflow for some rounds, and a thread that triggers the manual Dag as soon as its last run has ended."""

    def __init__(self, place: Place) -> None:
        self.states: Counter[str] = Counter()
        self.findings: list[str] = []
        self._place = place
        self._keepers: list[Keeper] = []
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._waits: list[str] = []
        self._airflow: LocalAirflow | None = None
        self._thread = threading.Thread(target=self._fly, name="flight", daemon=True)

    def start(self) -> None:
        """Start Airflow (about a minute beside everything else) and the first run."""
        import airflow_kafka_lake.example_dags

        dags, pipelines = self._place.home / "dags", self._place.home / "flights"
        for folder in (dags, pipelines):
            folder.mkdir(exist_ok=True)
        shutil.copy(Path(airflow_kafka_lake.example_dags.__file__).with_name(f"{MANUAL}.py"), dags)
        (dags / "waits.py").write_text(WAITING_DAG)
        LANES[LANE].write(pipelines)
        env = {
            **self._place.connections(),
            **QUICK_TO_NOTICE,
            "AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER": str(pipelines),
            **arming.environment(history=self._place.home / "history"),
        }
        self._airflow = LocalAirflow(dags_folder=dags, env=env)
        self._airflow.start()
        for dag in (MANUAL, WAITS):
            self._airflow.unpause(dag)
        self._place.journal("airflow is up")
        self._thread.start()

    def land(self) -> None:
        """Let the last run end, see that every wait ended well, and stop Airflow; safe to repeat."""
        if self._airflow is None:
            return
        self._over.set()
        self._thread.join(RUN_SECONDS)
        if self._thread.is_alive():
            self.findings.append(f"a Dag run did not end within {RUN_SECONDS} s")
        else:
            self._check()
        self.close()

    def close(self) -> None:
        """End every process of it; safe to repeat."""
        self._over.set()
        while self._keepers:
            self._keepers.pop().close()
        airflow, self._airflow = self._airflow, None
        if airflow:
            if self._place.keep:
                shutil.copytree(airflow.home / "logs", self._place.home / "airflow-logs", dirs_exist_ok=True)
            airflow.close()

    # -- what faults do -----------------------------------------------------------------------------------------------

    def task(self) -> psutil.Process | None:
        """Return the process of a task that has a Spark driver."""
        for process in self._everybody():
            with contextlib.suppress(psutil.Error):
                if any(DRIVER in word for word in process.cmdline()):
                    return process.parent()
        return None

    def kill(self, part: str) -> bool:
        """Kill a part of Airflow with what it started; whether there was one."""
        with self._turn:
            found = self._parts(part)
            for process in found:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            return bool(found)

    def restore(self, part: str) -> None:
        """Start the part unless it runs."""
        airflow = self._airflow
        with self._turn:
            if airflow is None or self._parts(part):
                return
            keeper = Keeper()
            self._keepers.append(keeper)
            launcher = airflow.home / "bin" / "airflow"
            keeper.start([launcher, part], log=airflow.server_log, env=airflow._environment(), cwd=airflow.home)
            self._place.journal("airflow part started", part=part)

    def _parts(self, part: str) -> list[psutil.Process]:
        found = []
        for process in self._everybody():
            with contextlib.suppress(psutil.Error):
                if part in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _everybody(self) -> Iterator[psutil.Process]:
        airflow = self._airflow
        roots = [keeper._pid for keeper in self._keepers] + ([airflow.pid] if airflow else [])
        for root in filter(None, roots):
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(root)
                if root != (airflow.pid if airflow else 0):
                    yield process
                yield from process.children(recursive=True)

    # -- the runs -----------------------------------------------------------------------------------------------------

    def _fly(self) -> None:
        while not self._over.is_set():
            try:
                self._once()
            except AirflowApiError as error:
                self._place.journal("airflow refused", error=error.message[:400])
                self._over.wait(2)
        with contextlib.suppress(AirflowApiError):
            self._once()

    def _once(self) -> None:
        airflow = self._airflow
        assert airflow is not None
        if len(self._waits) < 20:
            self._waits.append(airflow.trigger(WAITS, {"offset": str(self._some_offset())}))
        run_id = airflow.trigger(MANUAL, {"pipeline": LANE})
        state = airflow.wait_run(MANUAL, run_id, RUN_SECONDS)["state"]
        self.states[state] += 1
        self._place.journal("dag run", run=run_id, state=state, tasks=airflow.task_states(MANUAL, run_id))

    def _some_offset(self) -> int:
        """Return an offset that the next landing will reach."""
        with self._place.database("ledger") as cursor:
            cursor.execute("SELECT watermark FROM kafka_lake_stream WHERE topic = %s AND partition = 0", (LANE,))
            row = cursor.fetchone()
        return int(row[0]) + 1 if row else 1

    def _check(self) -> None:
        airflow = self._airflow
        assert airflow is not None
        if not self.states["success"]:
            self.findings.append(f"no Dag run ended well: {dict(self.states)}")
        until = time.monotonic() + 180
        for run_id in self._waits:
            try:
                state = airflow.wait_run(WAITS, run_id, max(1.0, until - time.monotonic()))["state"]
            except AirflowApiError as error:
                self.findings.append(f"a waiting Dag run is stuck: {error.message[:300]}")
                continue
            self.states[f"wait {state}"] += 1
            if state != "success":
                self.findings.append(f"a waiting Dag run ended as {state}: {airflow.task_states(WAITS, run_id)}")
