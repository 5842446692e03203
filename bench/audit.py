"""What an audit costs: counting many rows, and comparing fewer of them byte by byte with a real Kafka."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.machine import HostProcesses, SystemClock
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import running
from bench.measuring import measured
from bench.synthetic import BYTES, TOPIC, Log, Rows
from tests.kit.memory_kafka import MemoryKafka
from tests.kit.memory_registry import MemoryRegistry

PARTITIONS = 10
WAVES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One command's cost: wall seconds, and the most memory its processes held together, in MiB."""

    arm: str
    records: int
    seconds: float
    mib: float


def audited(arm: str, records: int, environment: Mapping[str, str], *words: str) -> Measured:
    """Run `kafka-lake audit` as a process and take its time and memory; it must end well."""
    with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder:
        command = [sys.executable, "-m", "airflow_kafka_lake.cli", "audit", *words, "--json"]
        cost = measured(command, env=environment, home=Path(folder))
        document = (Path(folder) / "stdout").read_text()
    if cost.code:
        raise SystemExit(f"bench: audit {words} ended with {cost.code}: {document[:500]}")
    found = json.loads(document)["totals"]["rows"]
    if found != records:
        raise SystemExit(f"bench: the audit saw {found} rows, not {records}")
    return Measured(arm=arm, records=records, seconds=cost.seconds, mib=cost.peak_mib)


def counting(arm: str, offsets: int, marker: int) -> Measured:
    """Make a table of so many offsets and its ledger, and audit them."""
    with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder:
        records = _landed(Path(folder), offsets, marker)
        with _environment(Path(folder)) as environment:
            return audited(arm, records, environment, TOPIC)


def _landed(home: Path, offsets: int, marker: int) -> int:
    """Bring the offsets into a lake by the services themselves; returns how many rows there are."""
    sizes = {
        "target_range_bytes": max(1, offsets // PARTITIONS // WAVES * BYTES),
        "max_wave_bytes": max(1, offsets // WAVES * BYTES),
    }
    with synthetic(home, Log(PARTITIONS, offsets // PARTITIONS, marker), **sizes) as (ports, spec):
        done = running.run(ports, spec, Bounds())
    if done.exit_code:
        raise SystemExit(f"bench: landing failed: {done.problems} {done.held}")
    return sum(wave.rows or 0 for wave in done.waves)


@contextmanager
def synthetic(home: Path, log: Log, **sizes: int) -> Iterator[tuple[Ports, PipelineSpec]]:
    """Yield a pipeline and its ports: a log that is only numbers, and a real ledger and lake in a folder."""
    lake = IcebergLake(LakeSettings.parse("lake_default", _lake(home)))
    ledger = SqlLedger(f"sqlite:///{home}/ledger.db")
    ledger.upgrade()
    ports = Ports(
        ledger=ledger,
        source=log,
        batches=log,
        lake=lake,
        runner=Rows(log, lake),  # type: ignore[arg-type]
        clock=SystemClock(),
        processes=HostProcesses(),
        actor="bench",
        progress=lambda _: None,
        group_sync=MemoryKafka(),
        schemas=MemoryRegistry(),
    )
    yield ports, PipelineSpec(name=TOPIC, topics=(TOPIC,), table="raw.bench", **sizes)
    ledger.close()
    lake.close()


def _lake(home: Path) -> dict[str, str]:
    return {
        "format": "iceberg",
        "catalog": "sql",
        "uri": f"sqlite:///{home}/catalog.db",
        "warehouse": f"file://{home}/warehouse",
    }


@contextmanager
def _environment(home: Path) -> Iterator[Mapping[str, str]]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "KAFKA_LAKE_"))}
    yield {
        **kept,
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lake", "extra": _lake(home)}),
        "AIRFLOW_CONN_KAFKA_LAKE_LEDGER": json.dumps({"conn_type": "sqlite", "host": str(home / "ledger.db")}),
    }


def comparing(records: int) -> list[Measured]:
    """Bring records of a real Kafka into a lake by real Spark; audit them, audit them with `--deep`."""
    from airflow_kafka_lake.local.kafka import LocalKafka
    from tests.sandbox import Sandbox

    with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder, LocalKafka() as broker:
        place = Sandbox(Path(folder) / "place", broker.bootstrap, partitions=PARTITIONS)
        place.produce(records, size=BYTES)
        place.acknowledged.clear()
        done = place.run()
        if done.code:
            raise SystemExit(f"bench: landing failed: {done.err[-2000:]}")
        environment = place.environment
        few = audited("audit, the same records", records, environment, place.name)
        return [few, audited("audit --deep", records, environment, place.name, "--deep")]
