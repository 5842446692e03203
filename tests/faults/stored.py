"""Workers over a real ledger and a real lake, in this process: only Kafka and the Spark job stand in.

Every worker has connections of its own, as a process has; what stages, and what reads the truth, uses other ones that
no fault reaches.
"""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import update

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger import tables
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.core.ledger.waves import PUBLISHES
from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import running
from tests.gates import Passing, gated
from tests.kit.memory_kafka import MemoryKafka
from tests.kit.memory_registry import MemoryRegistry
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs
from tests.world import SPEC, FakeProcesses

PARTITIONS = 2
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class StoredWorld:
    """Pipeline `orders` of one topic; `ledger` and `catalog` are reached as workers do, `truth` past all faults."""

    def __init__(self, folder: Path, *, ledger: str, catalog: str, truth: str) -> None:
        self._clock = SystemClock()
        self._addresses = ledger, self._settings(folder, catalog)
        self._truth = IcebergLake(self._settings(folder, truth))
        self._kafka = MemoryKafka(now=self._clock.now)
        self._kafka.create_topic("orders", PARTITIONS)
        self._pids = itertools.count(1)
        self._opened: list[SqlLedger | IcebergLake] = [self._truth]
        self.dead: set[int] = set()
        self.said: list[str] = []
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        opened = SqlLedger(ledger)
        opened.upgrade()
        opened.close()

    @staticmethod
    def _settings(folder: Path, uri: str) -> LakeSettings:
        return LakeSettings.parse("lake_default", {"catalog": "sql", "uri": uri, "warehouse": f"file://{folder}/w"})

    def produce(self, count: int) -> None:
        """Append records to every partition."""
        for partition in range(PARTITIONS):
            for number in range(count):
                value = b"%d/%d" % (len(self.acknowledged), number)
                (offset,) = self._kafka.produce("orders", partition, value)
                self.acknowledged[partition, offset] = value

    def worker(self, passing: Passing | None = None) -> Ports:
        """Return the ports of one more process."""
        ledger, settings = self._addresses
        opened, lake, pid = SqlLedger(ledger), IcebergLake(settings), next(self._pids)
        self._opened += [opened, lake]
        ports = Ports(
            ledger=opened,
            source=self._kafka,
            batches=self._kafka,
            lake=lake,
            runner=MemoryRunner(self._kafka, TableJobs(self._truth.catalog.load)),
            clock=self._clock,
            processes=FakeProcesses(pid, self.dead),
            actor=f"worker-{pid}",
            progress=self.said.append,
            group_sync=self._kafka,
            schemas=MemoryRegistry(),
        )
        return gated(ports, passing) if passing else ports

    def run(self, worker: Ports | None = None) -> running.Run | KafkaLakeError:
        """Do the main job as a process that ends afterwards; an error is what its user sees."""
        ports = worker or self.worker()
        try:
            return running.run(ports, SPEC, Bounds())
        except KafkaLakeError as error:
            return error
        finally:
            self.dead.add(ports.processes.this().pid)

    def end_leases(self) -> None:
        """Do what two minutes of waiting do: every lease is over."""
        ledger = SqlLedger(self._addresses[0])
        with ledger.engine.begin() as connection:
            connection.execute(update(tables.wave).values(lease_until=LONG_AGO))
        ledger.close()

    def rows(self) -> Counter[tuple[int, int, bytes]]:
        """Read main from its files as any reader would."""
        table = self._truth.catalog.find(SPEC.table)
        if table is None:
            return Counter()
        columns = ("kafka_partition", "kafka_offset", "value")
        found = table.scan(selected_fields=columns).to_arrow()
        return Counter(zip(*(found[name].to_pylist() for name in columns), strict=True))

    def publishes(self) -> list[str]:
        """Return the waves of main's publishing commits."""
        kinds = [item.summary for item in self._truth.catalog.load(SPEC.table).metadata.snapshots]
        return [kind["kafka-lake.wave"] for kind in kinds if kind and kind["kafka-lake.kind"] in PUBLISHES]

    def check(self) -> None:
        """Every record is there once, each wave was published once, and every watermark stands at the end."""
        assert self.rows() == Counter({(p, o, value): 1 for (p, o), value in self.acknowledged.items()})
        published = self.publishes()
        assert len(published) == len(set(published))
        ends = Counter(partition for partition, _ in self.acknowledged)
        ledger = SqlLedger(self._addresses[0])
        assert {item.key.partition: item.watermark for item in ledger.streams(SPEC.name)} == dict(ends)
        ledger.close()

    def close(self) -> None:
        """Give back every connection."""
        for item in self._opened:
            item.close()
