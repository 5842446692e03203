"""A real Airflow with the package's Dags, a broker of its own, and pipelines to run in it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.ledger.waves import WaveState
from airflow_kafka_lake.local.airflow import LocalAirflow
from airflow_kafka_lake.local.kafka import LocalKafka
from airflow_kafka_lake.local.processes import wait_until
from tests.sandbox import Sandbox
from tests.warm.broker import KEEPS_ALL

MANUAL = "kafka_lake_manual"
REOPEN, SKIP, WITHDRAW = "kafka_lake_reopen", "kafka_lake_skip", "kafka_lake_withdraw"
RUN_SECONDS = 280


@dataclass
class Lane(Sandbox):
    """One of several pipelines that share lake, ledger and Airflow; topic, pipeline and table have one name."""

    topic: str = field(default="")

    def __post_init__(self) -> None:
        (self.home / "warehouse").mkdir(parents=True, exist_ok=True)
        self.create_topic(self.topic, self.partitions)
        self.write_pipeline(table=self.table)

    @property
    def table(self) -> str:
        return f"raw.{self.topic}"

    @property
    def file(self) -> Path:
        return self.home / f"{self.topic}.toml"

    def open_ledger(self) -> SqlLedger:
        return SqlLedger(f"sqlite:///{self.ledger}")

    def watermarks(self, topic: str | None = None) -> dict[int, int]:
        """Return the watermark of each partition, of the lane's own topic unless another one is named."""
        ledger = self.open_ledger()
        try:
            streams = ledger.streams(self.name, topic=topic or self.topic)
            return {stream.key.partition: stream.watermark for stream in streams}
        finally:
            ledger.close()


class Ran(NamedTuple):
    """How a Dag run ended: its state, the states of its tasks, its id."""

    state: str
    tasks: dict[str, str]
    id: str


@dataclass
class World:
    """A running Airflow whose form offers the lanes."""

    airflow: LocalAirflow
    kafka: LocalKafka
    lanes: dict[str, Lane]

    def run(self, dag: str, conf: dict[str, Any] | None = None, seconds: float = RUN_SECONDS) -> Ran:
        """Trigger a run and wait for its end."""
        return self.end(dag, self.airflow.trigger(dag, conf), seconds)

    def end(self, dag: str, run_id: str, seconds: float = RUN_SECONDS) -> Ran:
        """Wait for the end of a run; of one that does not succeed, pytest shows the logs with a test that fails."""
        state = None
        try:
            state = self.airflow.wait_run(dag, run_id, seconds)["state"]
        finally:
            if state != "success":
                self.print_failures(dag, run_id)
        return Ran(state, self.airflow.task_states(dag, run_id), run_id)

    def print_failures(self, dag: str, run_id: str) -> None:
        """Print the log of every try of each task that failed, or is to be tried again."""
        shown = [f"{dag} {run_id}: {self.airflow.task_states(dag, run_id)}"]
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances?state=failed&state=up_for_retry&limit=100"
        for task in self.airflow.api("GET", path)["task_instances"]:
            name, index, tries = task["task_id"], task["map_index"], task["try_number"]
            for attempt in range(1, tries + 1):
                shown.append(f"--- {name}{f'[{index}]' if index >= 0 else ''}, try {attempt} of {tries}")
                shown.append(self.airflow.task_log(dag, run_id, name, attempt=attempt, map_index=index))
        sys.stdout.write("\n".join((*shown, "")))

    def deferred(self, run_id: str, task: str, seconds: float = RUN_SECONDS) -> None:
        """Wait until a task of the manual Dag's only active run is deferred, and see that nothing takes a slot."""
        until(lambda: self.airflow.task_states(MANUAL, run_id).get(task) == "deferred", seconds)
        pool = self.airflow.api("GET", "/pools/default_pool")
        assert (pool["deferred_slots"], pool["running_slots"], pool["queued_slots"]) == (1, 0, 0)

    def ended(self, dag: str, run_id: str, task: str, index: int) -> str:
        """Return when a mapped task ended."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/{index}"
        return self.airflow.api("GET", path)["end_date"]

    def returned(self, dag: str, run_id: str, task: str, key: str = "return_value") -> Any:
        """Return what a task has returned, or pushed by another key."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/xcomEntries/{key}"
        return self.airflow.api("GET", path)["value"]

    def asked(self, dag: str, run_id: str, task: str) -> dict[str, Any]:
        """Return what a task shows to a person, and the answer."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/-1/hitlDetails"
        return self.airflow.api("GET", path)

    def answer(self, dag: str, run_id: str, task: str, chosen: str) -> None:
        """Answer what a task asks, as the user of the API.

        The scheduler has to have seen the end of the process that asked: an answer that is quicker may make Airflow 3.3
        take that end for the end of the process that goes on with it, and the task fails, and asks again.
        """
        key = f"TaskInstanceKey(dag_id='{dag}', task_id='{task}', run_id='{run_id}'"
        end = f"Received executor event with state success for task instance {key}"
        until(lambda: end in self.airflow.server_log.read_text(errors="replace"))
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/-1/hitlDetails"
        self.airflow.api("PATCH", path, {"chosen_options": [chosen], "params_input": {}})

    def log(self, run_id: str, task: str, index: int = -1) -> str:
        """Return the log of a task's last try in a run of the manual Dag; `index` is that of a mapped task."""
        path = f"/dags/{MANUAL}/dagRuns/{quote(run_id)}/taskInstances/{task}{f'/{index}' if index >= 0 else ''}"
        attempt = self.airflow.api("GET", path)["try_number"]
        return self.airflow.task_log(MANUAL, run_id, task, attempt=attempt, map_index=index)


@contextmanager
def world_of(
    folder: Path,
    lanes: Mapping[str, int],
    own_dags: Mapping[str, str] | None = None,
    further: Mapping[str, str] | None = None,
) -> Iterator[World]:
    """Start a broker and an Airflow for lanes (name and partitions), with the package's Dags beside the caller's own.

    `further` are variables of its environment. Topics have the lanes' names, and a module may be set up twice in one
    process: so the broker is new each time.
    """
    import airflow_kafka_lake.example_dags

    home, dags = folder / "lanes", folder / "dags"
    dags.mkdir()
    for file in Path(airflow_kafka_lake.example_dags.__file__).parent.glob("kafka_lake_*.py"):
        shutil.copy(file, dags)
    for name, text in (own_dags or {}).items():
        (dags / name).write_text(text)
    with LocalKafka(settings=KEEPS_ALL) as kafka:
        made = {
            name: Lane(home=home, bootstrap=kafka.bootstrap, topic=name, partitions=partitions)
            for name, partitions in lanes.items()
        }
        connections = next(iter(made.values())).environment
        env = {key: value for key, value in connections.items() if key.startswith("AIRFLOW_CONN_")}
        # To read files that do not change again and again takes half a core.
        seldom = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60"}
        env |= seldom | {"AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER": str(home), **(further or {})}
        with LocalAirflow(dags_folder=dags, env=env) as airflow:
            airflow.unpause(MANUAL)
            yield World(airflow=airflow, kafka=kafka, lanes=made)


def drivers(lane: Lane) -> Iterator[psutil.Process]:
    """Find the Spark drivers that stage waves of a lane."""
    ledger = lane.open_ledger()
    try:
        waves = ledger.waves(lane.topic, [WaveState.CLAIMED])
        jobs = [attempt.job for wave in waves for attempt in ledger.attempts(wave.id) if attempt.job]
    finally:
        ledger.close()
    for job in jobs:
        if psutil.pid_exists(pid := int(job.rsplit("/", 2)[1])):
            yield psutil.Process(pid)


def until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """Return the first answer of a condition that is true."""
    found: list[Any] = []

    def came_true() -> bool:
        found[:] = [condition()]
        return bool(found[0])

    wait_until(came_true, timeout=seconds, failed=AssertionError, every=0.2)
    return found[0]
