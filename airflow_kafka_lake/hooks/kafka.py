"""The hook of a Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.hooks.connection import ConnectionHook
from airflow_kafka_lake.wiring.kafka import DEFAULT_KAFKA, KafkaConnection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource


class KafkaSourceHook(ConnectionHook):
    """Opens a Kafka cluster to ask it for topics and offsets.

    :param kafka_conn_id: Airflow connection of the cluster, of type `kafka_lake_kafka` or `kafka`
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = DEFAULT_KAFKA
    conn_type = "kafka_lake_kafka"
    hook_name = "Kafka Lake: Kafka"

    def __init__(self, kafka_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self) -> KafkaOffsetSource:
        """Return the cluster's offsets (`ports.OffsetSource`); connects on first use."""
        return KafkaConnection(self.kafka_conn_id).source()

    def check(self) -> str:
        """See `ConnectionHook`."""
        return KafkaConnection(self.kafka_conn_id).check()
