"""A home of its own for Airflow, and a world in memory that operators and sensors open instead of a real one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

HOME = tempfile.mkdtemp(prefix="kafka-lake-airflow-tests-")
# Before anything imports Airflow, which makes its home at import.
os.environ["AIRFLOW_HOME"] = HOME

from airflow_kafka_lake.core.ledger.waves import LeaseHolder  # noqa: E402
from airflow_kafka_lake.core.reports.progress import ProgressEvent  # noqa: E402
from airflow_kafka_lake.core.spec import PipelineSpec  # noqa: E402
from airflow_kafka_lake.pipeline import Pipeline  # noqa: E402
from airflow_kafka_lake.ports import Ledger, Ports  # noqa: E402
from airflow_kafka_lake.wiring import assemble  # noqa: E402
from tests.kit.clock import FakeClock  # noqa: E402
from tests.kit.memory_kafka import MemoryKafka  # noqa: E402
from tests.kit.memory_lake import MemoryLake  # noqa: E402
from tests.kit.memory_ledger import MemoryLedger  # noqa: E402
from tests.kit.memory_registry import MemoryRegistry  # noqa: E402
from tests.kit.memory_runner import MemoryRunner  # noqa: E402
from tests.world import FakeProcesses  # noqa: E402

ORDERS = Pipeline(name="orders", topics=["orders"], table="raw.orders")
OTHER = LeaseHolder(host="there", pid=2, started=2.0)


def pytest_unconfigure() -> None:
    """Remove Airflow's home; a process that was forked for one test ends without its exit handlers."""
    shutil.rmtree(HOME, ignore_errors=True)


@dataclass
class World:
    """Kafka, lake, ledger and Spark in memory, and what was logged and opened."""

    clock: FakeClock = field(default_factory=FakeClock)
    logged: list[str] = field(default_factory=list)
    seen: list[ProgressEvent] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka = MemoryKafka(now=self.clock.now)
        self.lake = MemoryLake()
        self.ledger = MemoryLedger(self.clock)
        self.runner = MemoryRunner(self.kafka, self.lake)
        self.schemas = MemoryRegistry()
        self.kafka.create_topic("orders", 2)

    def produce(self, records: int, partition: int = 0) -> None:
        self.kafka.produce("orders", partition, *(f"{n}".encode() for n in range(records)))

    def offsets(self) -> list[tuple[int, int]]:
        """Return what a reader of the table sees."""
        rows = self.lake.table("raw.orders").rows()
        return sorted((row.partition, row.offset) for row in rows)

    def watermarks(self) -> dict[int, int]:
        return {stream.key.partition: stream.watermark for stream in self.ledger.streams("orders")}

    def ports(self, actor: str = "test") -> Ports:
        return Ports(
            ledger=self.ledger,
            source=self.kafka,
            batches=self.kafka,
            lake=self.lake,
            runner=self.runner,
            clock=self.clock,
            processes=FakeProcesses(1, set()),
            actor=actor,
            progress=self.logged.append,
            live=self.seen.append,
            group_sync=self.kafka,
            schemas=self.schemas,
        )


@dataclass
class Task:
    """What an operator sees of its task instance."""

    task_id: str = "task"
    dag_id: str = "dag"
    run_id: str = "run"
    id: UUID = field(default_factory=uuid4)
    map_index: int = -1
    try_number: int = 1
    xcoms: dict[tuple[str, str], Any] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    mapped: int | None = None

    def get_ti_count(self, dag_id: str, *, task_ids: list[str], run_ids: list[str]) -> int:
        if self.mapped is None or (dag_id, task_ids, run_ids) != (self.dag_id, [self.task_id], [self.run_id]):
            raise ConnectionError("the API server does not answer")
        return self.mapped

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.xcoms.get((task_ids, key))

    def get_task_states(
        self, dag_id: str, run_ids: list[str], task_ids: list[str], map_index: int | None = None
    ) -> dict[str, Any]:
        asked = task_ids if map_index in {None, -1} else [f"{task}_{map_index}" for task in task_ids]
        return {run: {task: self.states[task] for task in asked if task in self.states} for run in run_ids}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in memory behind `assemble`."""
    made = World()

    @contextmanager
    def open_ports(spec: PipelineSpec, *, actor: str, progress: Callable[[str], None], **asked: Any) -> Iterator[Ports]:
        made.opened.append({"pipeline": spec.name, "actor": actor, **asked})
        yield made.ports(actor)

    @contextmanager
    def open_ledger(ledger_conn_id: str = "") -> Iterator[Ledger]:
        yield made.ledger

    monkeypatch.setattr(assemble, "open_ports", open_ports)
    monkeypatch.setattr(assemble, "open_ledger", open_ledger)
    monkeypatch.delenv("AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER", raising=False)
    return made


@pytest.fixture
def context() -> dict[str, Any]:
    """The part of a task's context that operators read."""
    from airflow.sdk.execution_time.context import OutletEventAccessors

    ti = Task()
    return {"ti": ti, "task_instance": ti, "outlet_events": OutletEventAccessors()}


class Events:
    """Airflow's record of tasks and of the asset events that it has accepted with their success."""

    def __init__(self) -> None:
        self.accepted: list[SimpleNamespace] = []
        self.states: dict[str, str] = {}

    def task(self, name: str, index: int = -1, number: int = 1) -> dict[str, Any]:
        """Start a task; returns its context."""
        from airflow.sdk.execution_time.context import OutletEventAccessors

        ti = Task(task_id=name, map_index=index, try_number=number, states=self.states)
        self.states[name if index < 0 else f"{name}_{index}"] = "running"
        return {"ti": ti, "task_instance": ti, "outlet_events": OutletEventAccessors()}

    def succeed(self, context: Mapping[str, Any]) -> None:
        """Accept the success of a task, which then runs its callbacks."""
        self.end(context)
        for callback in context["task"].on_success_callback:
            callback(context)

    def end(self, context: Mapping[str, Any], state: str = "success") -> None:
        """End a task; with a success come its events, as Airflow 3.3 makes them."""
        from airflow.sdk import Asset

        ti, emitted = context["ti"], context["outlet_events"]
        self.states[ti.task_id if ti.map_index < 0 else f"{ti.task_id}_{ti.map_index}"] = state
        if state != "success":
            return
        told = [
            (event.dest_asset_key.uri, None, event.extra)
            for key in emitted
            for event in emitted[key].asset_alias_events
        ]
        # An outlet that the task says nothing of has an event all the same.
        for asset in getattr(context.get("task"), "outlets", ()):
            if isinstance(asset, Asset):
                told += [
                    (asset.uri, key, emitted[asset].extra) for key in sorted(emitted[asset].partition_keys) or [None]
                ]
        for uri, key, extra in told:
            self.accepted.append(
                SimpleNamespace(
                    source_dag_id=ti.dag_id,
                    source_run_id=ti.run_id,
                    source_task_id=ti.task_id,
                    source_map_index=ti.map_index,
                    extra=extra,
                    uri=uri,
                    key=key,
                )
            )

    def send(self, msg: Any) -> Any:
        """Answer which events an asset has."""
        assert type(msg).__name__ == "GetAssetEventByAsset"
        found = [event for event in self.accepted if event.uri == msg.uri][:: 1 if msg.ascending else -1]
        return SimpleNamespace(iter_asset_event_results=lambda: iter(found[: msg.limit]))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Events:
    """What Airflow was told."""
    from airflow.sdk.execution_time import task_runner

    made = Events()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", made, raising=False)
    return made


class Supervisor:
    """What a task sends to the process that watches it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, msg: Any) -> None:
        self.sent.append(msg)

    @property
    def asked(self) -> list[Any]:
        """What was shown to people, of what was sent."""
        return [msg for msg in self.sent if msg.type == "CreateHITLDetailPayload"]


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """The supervisor of a task that asks a person."""
    from airflow.sdk.execution_time import task_runner

    made = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", made, raising=False)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty pipelines folder, configured."""
    monkeypatch.setenv("AIRFLOW__KAFKA_LAKE__PIPELINES_FOLDER", str(tmp_path))
    return tmp_path


def write_pipeline(folder: Path, name: str, **changes: str) -> Path:
    """Write a small pipeline file."""
    values: Mapping[str, str] = {"name": name, "topic": name, **changes}
    file = folder / f"{name}.toml"
    file.write_text(
        '[pipeline]\nname = "{name}"\n[source]\ntopics = ["{topic}"]\n[lake]\ntable = "raw.t"\n'.format(**values)
    )
    return file
