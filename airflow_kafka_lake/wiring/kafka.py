"""From a `kafka` connection to the planner's source, the auditor's reader and the job's settings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_kafka_lake.adapters.kafka_config import KafkaSettings
from airflow_kafka_lake.wiring.connections import ConnectionSettings, get_connection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.kafka.source import KafkaGroupCommitter, KafkaOffsetSource
    from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader

TYPES = ("kafka", "kafka_lake_kafka")
DEFAULT_KAFKA = "kafka_default"
ANSWER_SECONDS = 15.0
"""How long an admin call waits for brokers, where a command does not ask for less."""


class KafkaConnection:
    """Opens a Kafka cluster; the type `kafka` is the Kafka provider's, and reused here."""

    def __init__(
        self,
        kafka_conn_id: str = DEFAULT_KAFKA,
        *,
        connection: ConnectionSettings | None = None,
        client_id: str | None = None,
    ) -> None:
        """`client_id` names the clients to the brokers, unless the connection names another one."""
        self.kafka_conn_id = kafka_conn_id
        self._connection = connection
        self._own = {"client.id": client_id} if client_id else {}

    @cached_property
    def settings(self) -> KafkaSettings:
        """The validated settings; ConnectionSettingsError names the fault."""
        found = self._connection or get_connection(self.kafka_conn_id, *TYPES)
        return KafkaSettings.parse({**self._own, **found.extra}, connection=self.kafka_conn_id)

    def source(self, timeout_seconds: float = ANSWER_SECONDS) -> KafkaOffsetSource:
        """Return the cluster's offsets (`ports.OffsetSource`), each call with so much time; connects on first use."""
        from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
        from airflow_kafka_lake.adapters.machine import SystemClock

        return KafkaOffsetSource(self.settings, clock=SystemClock(), timeout_seconds=timeout_seconds)

    def batches(self, bytes_per_second: int | None = None) -> KafkaBatchReader:
        """Return the cluster's raw record batches (`ports.BatchReader`), read no faster than that; connects for each
        call."""
        from airflow_kafka_lake.adapters.kafka_batches import KafkaBatchReader

        return KafkaBatchReader(self.settings.kafka_python(), bytes_per_second=bytes_per_second)

    def group_committer(self) -> KafkaGroupCommitter:
        """Return the committer of watermarks to the cluster's groups (`ports.GroupCommitter`); connects on first
        use."""
        from airflow_kafka_lake.adapters.kafka.source import KafkaGroupCommitter
        from airflow_kafka_lake.adapters.machine import SystemClock

        return KafkaGroupCommitter(self.settings, clock=SystemClock())

    def check(self) -> str:
        """Return in one sentence that the cluster answers; raises the error that keeps it from answering."""
        return self.source().check()
