"""Job runners to try a contract on, each with a topic to read and a table to stage to."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyiceberg.types import IntegerType

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.adapters.spark_submit.driver import Engine
from airflow_kafka_lake.adapters.spark_submit.runner import SparkSubmitRunner
from airflow_kafka_lake.core.decoding import Decoder
from airflow_kafka_lake.core.ledger.records import Publication, StagedContent
from airflow_kafka_lake.core.ledger.waves import Committed, Token
from airflow_kafka_lake.core.offsets import NOTHING, OffsetRange, RangeSet, Slice, Stream
from airflow_kafka_lake.core.spark.job import StageJob, Tip, record_digest
from airflow_kafka_lake.core.spec import Isolation
from airflow_kafka_lake.local.processes import wait_until
from airflow_kafka_lake.ports import JobRunner, Lake
from tests import markers
from tests.kit.memory_kafka import MemoryKafka
from tests.kit.memory_lake import MemoryLake
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs, position

if TYPE_CHECKING:
    from airflow_kafka_lake.local.kafka import LocalKafka

LEDGER = "1" * 32
PARTITIONS = 2
AT_MS = 1_700_000_000_123
Headers = tuple[tuple[str, bytes | None], ...]
Record = tuple[int, int, bytes | None, bytes | None, Headers, int]
"""Partition, offset, key, value, headers, timestamp in ms."""


def decoded(value: bytes | None) -> dict[str, Any]:
    """Return the column `a` of a JSON value, for the tables that PyIceberg writes."""
    with suppress(ValueError):
        found = json.loads(value or b"{}")
        return {"a": found.get("a")} if isinstance(found, dict) else {}
    return {}


class Topic(Protocol):
    """A topic of two partitions that a test produces to."""

    name: str
    id: str

    def produce(
        self,
        *values: bytes | None,
        partition: int = 0,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int = AT_MS,
        end: str = "",
    ) -> None:
        """Append records; with `end`, in a transaction that is committed or aborted."""

    def delete_before(self, offset: int) -> None:
        """Move the log start of partition 0."""


class RunnerWorld:
    """A job runner, what it reads and where it stages to; a test gets a topic and a table of its own."""

    runner: JobRunner
    lake: Lake

    def __init__(self) -> None:
        self.table = f"raw.t_{secrets.token_hex(4)}"
        self.topic = self.new_topic()
        handle = self.lake.table(self.table)
        handle.ensure("")
        handle.claim_ownership(LEDGER, "orders", [self.topic.id])

    def new_topic(self) -> Topic:
        """Create an empty topic."""
        raise NotImplementedError

    def rows(self, snapshot: int) -> list[Record]:
        """Return what a snapshot shows, in the order of Kafka."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what is open."""

    def slice_(self, start: int, end: int, partition: int = 0) -> Slice:
        return Slice(Stream(self.topic.name, self.topic.id, partition), OffsetRange(start, end))

    def job(
        self,
        *slices: Slice,
        isolation: Isolation = Isolation.READ_COMMITTED,
        decoders: Sequence[Decoder] = (),
        overflowing: Sequence[Slice] = (),
        singly: Sequence[Slice] = (),
        table: str = "",
    ) -> StageJob:
        """Return an attempt's job of its own."""
        return StageJob(
            pipeline="orders",
            wave="wave-1",
            attempt=secrets.token_hex(8),
            table=table or self.table,
            isolation=isolation,
            slices=slices,
            tasks=1,
            max_records_per_partition=None,
            decoders=tuple(decoders),
            overflowing=tuple(overflowing),
            singly=tuple(singly),
        )

    def run(self, job: StageJob) -> StagedContent:
        """Run a job to its end, and return what a worker that starts then finds on its branch."""
        tips: list[Tip] = []
        self.runner.stage(job, started=lambda _: None, heartbeat=lambda: None, read=tips.extend)
        staged = self.staged(job)
        assert staged is not None
        self.assert_told(staged, tips)
        return staged

    def assert_told(self, staged: StagedContent, tips: Sequence[Tip]) -> None:
        """See that every row lies at or before a record that the job has read last, and that this one is as it says."""
        for content in staged.streams:
            mine = [tip for tip in tips if tip.slice.stream == content.stream]
            assert content.offsets - RangeSet(tip.slice.range for tip in mine) == NOTHING
            assert all(tip.offset in content.offsets for tip in mine)
        rows = {(row[0], row[1]): row for row in self.rows(staged.snapshot)} if staged.streams else {}
        for tip in tips:
            _, _, key, value, _, at = rows[tip.slice.stream.partition, tip.offset]
            assert tip.leader_epoch == 0 if tip.digest is None else tip.digest == record_digest(key, value, at)

    def staged(self, job: StageJob) -> StagedContent | None:
        return self.lake.table(job.table).staged(job.attempt)

    def landed(self, job: StageJob) -> list[Record]:
        """Run a job, and return its rows."""
        return self.rows(self.run(job).snapshot)

    def publish(self, job: StageJob) -> int:
        """Run a job and make its rows visible; return main's snapshot."""
        staged, table = self.run(job), self.lake.table(job.table)
        token = Token(pipeline="orders", wave="wave-1", attempt=job.attempt, fence=1, ranges="f" * 16)
        made = table.publish(Publication(head=table.head(), audited=staged.snapshot, token=token, ledger_id=LEDGER))
        assert isinstance(made, Committed)
        return made.snapshot

    def main(self) -> list[Record]:
        """Return what a reader of the table sees."""
        head = self.lake.table(self.table).head().snapshot
        assert head is not None
        return self.rows(head)


class MemoryTopic:
    """In memory."""

    def __init__(self, cluster: MemoryKafka, name: str) -> None:
        self.name, self._cluster = name, cluster
        self.id = cluster.create_topic(name, PARTITIONS)

    def produce(
        self, *values: bytes | None, partition: int = 0, end: str = "", timestamp_ms: int = AT_MS, **record: Any
    ) -> None:
        given = {"transaction": end or None, "timestamp_ms": timestamp_ms, **record}
        self._cluster.produce(self.name, partition, *values, **given)
        if end:
            self._cluster.end(end, commit=end == "commit")

    def delete_before(self, offset: int) -> None:
        self._cluster.log(self.name, 0).delete_before(offset)


class MemoryRunnerWorld(RunnerWorld):
    """All of it in memory."""

    def __init__(self) -> None:
        self.cluster, self.lake = MemoryKafka(), MemoryLake()
        self.runner = MemoryRunner(self.cluster, self.lake)
        super().__init__()

    def new_topic(self) -> Topic:
        return MemoryTopic(self.cluster, f"t-{secrets.token_hex(4)}")

    def rows(self, snapshot: int) -> list[Record]:
        assert isinstance(self.lake, MemoryLake)
        return sorted(row[2:] for row in self.lake.records(self.table, snapshot))


class TableWorld(RunnerWorld):
    """A real table in a catalog that PyIceberg and Spark share."""

    def __init__(self, settings: LakeSettings) -> None:
        self.real = IcebergLake(settings)
        self.lake = self.real
        super().__init__()

    def rows(self, snapshot: int) -> list[Record]:
        table = self.real.catalog.load(self.table)
        return sorted(position(row)[2:] for row in table.scan(snapshot_id=snapshot).to_arrow().to_pylist())

    def close(self) -> None:
        self.real.close()


class StandInWorld(TableWorld):
    """Kafka in memory; PyIceberg does what Spark does."""

    def __init__(self, settings: LakeSettings) -> None:
        self.cluster = MemoryKafka()
        super().__init__(settings)
        self.runner = MemoryRunner(
            self.cluster, TableJobs(self.real.catalog.load, columns={"a": IntegerType()}, decoded=decoded)
        )

    def new_topic(self) -> Topic:
        return MemoryTopic(self.cluster, f"t-{secrets.token_hex(4)}")


class RealTopic:
    """On a real broker."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.name, self.id = f"t-{secrets.token_hex(4)}", secrets.token_urlsafe(16)
        self._settings = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._settings)
        self._asked = NewTopic(self.name, PARTITIONS, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        self._admin.create_topics([self._asked])[self.name].result()

    def recreate(self) -> None:
        """Delete the topic, and create an empty one of the same name."""
        self._admin.delete_topics([self.name])[self.name].result()
        wait_until(self._created_again, timeout=30, failed=AssertionError)

    def _created_again(self) -> bool:
        """Create it once the old one is gone."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            self._admin.create_topics([self._asked])[self.name].result()
            return True
        return False

    def produce(
        self, *values: bytes | None, partition: int = 0, end: str = "", timestamp_ms: int = AT_MS, **record: Any
    ) -> None:
        from confluent_kafka import Producer

        refused: list[str] = []

        def delivered(error: object, _: object) -> None:
            refused.extend([str(error)] if error is not None else [])

        own = {"transactional.id": secrets.token_hex(4)} if end else {}
        producer = Producer({**self._settings, "linger.ms": 5, **own})
        if end:
            producer.init_transactions(60)
            producer.begin_transaction()
        for value in values:
            given = {**record, "headers": list(record.get("headers", ())), "on_delivery": delivered}
            producer.produce(self.name, value=value, partition=partition, timestamp=timestamp_ms, **given)
        assert producer.flush(60) == 0
        assert refused == []
        if end:
            markers.end(producer, self._settings["bootstrap.servers"], {(self.name, partition)}, commit=end == "commit")

    def delete_before(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        (deleted,) = self._admin.delete_records([TopicPartition(self.name, 0, offset)]).values()
        deleted.result()


class SparkWorld(TableWorld):
    """A real broker, and Spark in the warm driver of this test process."""

    def __init__(self, settings: LakeSettings, broker: LocalKafka, submit: Path, engine: Engine | None = None) -> None:
        self._bootstrap = broker.bootstrap
        super().__init__(settings)
        self.runner = SparkSubmitRunner(
            master="local[2]",
            catalog=settings.spark(),
            kafka={"bootstrap.servers": broker.bootstrap},
            spark_submit=submit,
            heartbeat_seconds=0.01,
            engine=engine,
        )

    def new_topic(self) -> Topic:
        return RealTopic(self._bootstrap)


def catalog_of(folder: Path) -> LakeSettings:
    """Return the settings of a SQLite catalog."""
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    return LakeSettings.parse("lake_default", {"catalog": "sql", "uri": uri, "warehouse": warehouse})
