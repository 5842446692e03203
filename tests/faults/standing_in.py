"""Commands as processes that start in milliseconds: forked from a warm parent, over a real ledger and a real lake.

Real: the command line, the services, the ledger (SQLite), the lake (Iceberg by PyIceberg, on SQLite and files), the
failpoints, the processes and their signals. Standing in: Kafka, by the one in memory, built anew and alike in every
process; and the job runner, which stages through PyIceberg what a Spark job would stage.

`python -m tests.faults.standing_in` is the warm parent. Orders come as JSON lines on stdin, answers go to stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from airflow_kafka_lake.adapters import failpoints
from airflow_kafka_lake.adapters.iceberg import IcebergLake
from airflow_kafka_lake.adapters.processes import HostProcesses
from airflow_kafka_lake.adapters.spark_submit import end_orphan
from airflow_kafka_lake.cli.front import run_command_line
from airflow_kafka_lake.core.comparing import CompareJob, Comparison, Record, differences
from airflow_kafka_lake.core.errors import JobFailedError, KafkaLakeError
from airflow_kafka_lake.core.redecoding import Redecoded, RedecodeJob
from airflow_kafka_lake.core.staging import StageJob, branch_of
from airflow_kafka_lake.core.streams import StreamKey
from airflow_kafka_lake.hooks import assembly
from airflow_kafka_lake.hooks.lake import LakeHook
from airflow_kafka_lake.jobs import failpoints as traps
from airflow_kafka_lake.jobs.stage import STAGED_BY
from tests.faults import standing_decoding
from tests.faults.standing_kafka import AT, StandingKafka, kafka

DELAY_SECONDS = 0.3
EVER = "delay@9999"
WARM = (
    "airflow_kafka_lake.adapters.sql_ledger",
    "alembic.autogenerate",
    "alembic.command",
    "pandas",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.orm",
)
"""What commands import on the way: imported once, before the first fork. None of it starts a thread."""


class KafkaStandIn:
    """`hooks.kafka.KafkaSourceHook` for the cluster in memory."""

    settings = SimpleNamespace(java=dict)

    def __init__(self, conn_id: str) -> None:
        self._cluster, _ = kafka(Path.cwd())

    def source(self) -> StandingKafka:
        return self._cluster

    def mirror(self) -> StandingKafka:
        return self._cluster

    def batches(self, bytes_per_second: int | None = None) -> StandingKafka:
        return self._cluster


class JobsStandIn:
    """`hooks.spark.SparkRunnerHook` and its runner: what a Spark job would stage is staged by PyIceberg."""

    def __init__(self, conn_id: str | None) -> None:
        self._cluster, _ = kafka(Path.cwd())

    def runner(self, **_: Any) -> JobsStandIn:
        return self

    def check(self) -> None:
        """Nothing is needed of this machine."""

    def where(self) -> str:
        return "in this process, by PyIceberg"

    def end_orphan(self, job: str | None, name: str) -> bool:
        return job is not None and end_orphan(job)

    def compare(self, job: CompareJob, *, say: Callable[[str], None]) -> Comparison:
        table = IcebergLake(LakeHook("lake_default").settings).catalog.load(job.table)
        lake: dict[StreamKey, dict[int, Record]] = defaultdict(dict)
        kafka: dict[StreamKey, dict[int, Record]] = defaultdict(dict)
        for row in table.scan(snapshot_id=job.snapshot).to_arrow().to_pylist():
            stream = (row["kafka_topic"], row["kafka_topic_id"], row["kafka_partition"])
            lake[stream][row["kafka_offset"]] = (row["key"], row["value"])
        for part in job.stretches:
            for offset, *record in self._cluster.read(part.topic, part.partition, part.range, job.isolation):
                kafka[part.topic, part.topic_id, part.partition][offset] = tuple(record)
        found = differences(job.stretches, kafka, lake)
        return Comparison(records=sum(map(len, kafka.values())), bytes=0, differences=found)

    def redecode(self, job: RedecodeJob, *, say: Callable[[str], None]) -> Redecoded:
        table = IcebergLake(LakeHook("lake_default").settings).catalog.load(job.table)
        return standing_decoding.redecode(table, job)

    def stage(self, job: StageJob, *, started: Callable[[str], None], heartbeat: Callable[[], None]) -> None:
        started(str(HostProcesses().this()))
        table = IcebergLake(LakeHook("lake_default").settings).catalog.load(job.table)
        if branch_of(job.attempt) in table.metadata.refs:
            raise JobFailedError(f"branch {branch_of(job.attempt)} is there already", attempt=job.attempt)
        head = table.metadata.current_snapshot_id
        assert head is not None
        heartbeat()
        try:
            table = standing_decoding.widened(table) if job.decoders else table
            rows = pa.Table.from_pylist(list(self._rows(job)), schema=table.schema().as_arrow())
            table.manage_snapshots().create_branch(head, branch_of(job.attempt)).commit()
            table.append(rows, snapshot_properties={STAGED_BY: job.attempt}, branch=branch_of(job.attempt))
        except standing_decoding.MOVED as error:
            raise JobFailedError(f"the staging commit failed: {error}", attempt=job.attempt) from error

    def _rows(self, job: StageJob) -> Iterator[dict[str, Any]]:
        for part in job.stretches:
            for offset, key, value in self._cluster.read(part.topic, part.partition, part.range, job.isolation):
                yield {
                    "key": key,
                    "value": value,
                    "headers": [],
                    "kafka_topic": part.topic,
                    "kafka_topic_id": part.topic_id,
                    "kafka_partition": part.partition,
                    "kafka_offset": offset,
                    "kafka_timestamp": AT,
                    "kafka_timestamp_type": 0,
                    "kafka_timestamp_raw": None,
                    "ingest_attempt": job.attempt,
                    **(standing_decoding.decoded(value) if job.decoders else {}),
                }


def tell(pipeline: str) -> int:
    """Do what the task that advances does after its success was accepted, and what waiting tasks read."""
    try:
        with assembly.ledger_opener("kafka_lake_ledger")() as ledger:
            moves = ledger.untold(pipeline)
            ledger.events(pipeline)
            ledger.told(pipeline, max((move.sequence for move in moves), default=0))
    except KafkaLakeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def perform(order: Mapping[str, Any]) -> int:
    """Be the ordered command; returns its exit code."""
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["home"])
    for stream, name in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    variables = {failpoints.VARIABLE: order["traps"], failpoints.DIARY: order["diary"]}
    seen: Counter[str] = Counter()
    if order["trace"]:
        variables[failpoints.VARIABLE] = ",".join(f"{point}={EVER}" for point in failpoints.points())
        counted = traps.Traps.spring
        traps.Traps.spring = lambda self, point: (seen.update([point]), counted(self, point))[1]  # type: ignore[method-assign]
    traps.DELAY_SECONDS = DELAY_SECONDS
    failpoints.started_with = lambda name: variables.get(name, "")
    assembly.KafkaSourceHook, assembly.SparkRunnerHook = KafkaStandIn, JobsStandIn  # type: ignore[assignment,misc]
    assembly.registry_of = standing_decoding.registry  # type: ignore[assignment]
    words = order["words"]
    try:
        return tell(words[1]) if words[0] == "tell" else run_command_line(words)
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
    for module in WARM:
        importlib.import_module(module)
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
