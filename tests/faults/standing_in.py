"""Commands as processes that start in milliseconds: forked from a warm parent, over a real ledger and a real lake.

Real: the command line, the services, the ledger (SQLite), the lake (Iceberg by PyIceberg, on SQLite and files), the
failpoints, the processes and their signals. Standing in: Kafka, by the one in memory, built anew and alike in every
process; and the job runner, which stages through PyIceberg what a Spark job would stage.

`python -m tests.faults.standing_in` is the warm parent. Orders come as JSON lines on stdin, answers go to stdout.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyiceberg.table import Table

from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.adapters.spark_submit.driver import end_orphan
from airflow_kafka_lake.cli.entry_point import main as kafka_lake
from airflow_kafka_lake.core.spark.job import StageJob
from airflow_kafka_lake.jobs.decoding.redecode import RedecodeJob
from airflow_kafka_lake.ports import ReportingJob
from airflow_kafka_lake.wiring import assemble
from airflow_kafka_lake.wiring.connections import LakeConnection
from tests.faults import standing_decoding, tasks
from tests.faults.standing_kafka import StandingKafka, kafka
from tests.kit import arming, failpoints, traps
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs
from tests.warm.commands import IMPORTED

DELAY_SECONDS = 0.3
EVER = "delay@9999"


class KafkaStandIn:
    """`wiring.connections.KafkaConnection` for the cluster in memory."""

    settings = SimpleNamespace(java=dict, jar_sets=())

    def __init__(self, conn_id: str, **_: Any) -> None:
        self._cluster, _ = kafka(Path.cwd())

    def source(self, timeout_seconds: float = 0) -> StandingKafka:
        return self._cluster

    def batches(self, bytes_per_second: int | None = None) -> StandingKafka:
        return self._cluster

    def group_committer(self) -> StandingKafka:
        return self._cluster


class JobsStandIn(MemoryRunner):
    """`wiring.connections.SparkConnection` and its runner: a job is this process; PyIceberg does what Spark does."""

    def __init__(self, conn_id: str | None) -> None:
        cluster, _ = kafka(Path.cwd())
        super().__init__(cluster, TableJobs(_table))

    def runner(self, **_: Any) -> JobsStandIn:
        return self

    def check(self) -> None:
        """Nothing is needed of this machine."""

    def prepare(self, effort: int) -> None:
        """Nothing is started for a job."""

    def end_orphan(self, job: str | None, name: str) -> bool:
        return job is not None and end_orphan(job)

    def report(self, job: ReportingJob, **told: Any) -> Mapping[str, Any]:
        if isinstance(job, RedecodeJob):
            self._lake = TableJobs(_table, columns=standing_decoding.COLUMNS, decoded=standing_decoding.decoded)
        return super().report(job, **told)

    def stage(self, job: StageJob, *, started: Callable[[str], None], **told: Any) -> None:
        if job.decoders:
            self._lake = TableJobs(_table, columns=standing_decoding.COLUMNS, decoded=standing_decoding.decoded)
        super().stage(job, started=lambda _: started(str(HostProcesses().this())), **told)


def _table(identifier: str) -> Table:
    return IcebergLake(LakeConnection("lake_default").settings).catalog.load(identifier)


def perform(order: Mapping[str, Any]) -> int:
    """Be the ordered command; returns its exit code."""
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["home"])
    for stream, name in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    armed = order["traps"]
    seen: Counter[str] = Counter()
    if order["trace"]:
        armed = ",".join(f"{point}={EVER}" for point in failpoints.points())
        counted = traps.Traps.spring
        traps.Traps.spring = lambda self, point: (seen.update([point]), counted(self, point))[1]  # type: ignore[method-assign]
    traps.DELAY_SECONDS = DELAY_SECONDS
    arming.arm({arming.FAILPOINTS: armed, arming.DIARY: order["diary"]})
    assemble.KafkaConnection, assemble.SparkConnection = KafkaStandIn, JobsStandIn  # type: ignore[assignment,misc]
    assemble.registry_of = standing_decoding.registry  # type: ignore[assignment]
    words = order["words"]
    try:
        return tasks.perform(words) if words[0] in tasks.TASKS else kafka_lake(words)
    finally:
        if order["trace"]:
            with open(order["trace"], "w", encoding="utf-8") as file:  # noqa: PTH123
                json.dump(seen, file)


def fork(order: Mapping[str, Any]) -> int:
    """Start a command; returns its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = perform(order)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001  # a child must never return into its parent's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def waited(pid: int) -> dict[str, Any]:
    """Wait until a command ends or is stopped."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return {"stopped": True}
    return {"code": os.waitstatus_to_exitcode(status)}


def main() -> None:
    """Serve orders until stdin ends; what is stopped then goes on no more."""
    for module in IMPORTED:
        importlib.import_module(module)
    gc.freeze()  # no fork looks through it again, and so none copies it
    living: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            answer = waited(order["wait"])
            living -= {order["wait"]} if "code" in answer else set()
        else:
            answer = {"pid": fork(order)}
            living.add(answer["pid"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in living:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
