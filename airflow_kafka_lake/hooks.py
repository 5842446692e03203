"""A hook for each kind of connection: Airflow's connections page tests them, and a Dag opens a system by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseHook

from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.get_provider_info import connection_type
from airflow_kafka_lake.wiring.connections import (
    DEFAULT_KAFKA,
    DEFAULT_LAKE,
    DEFAULT_LEDGER,
    DEFAULT_REGISTRY,
    DEFAULT_SPARK,
    KafkaConnection,
    LakeConnection,
    LedgerConnection,
    RegistryConnection,
    SparkConnection,
)

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
    from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource
    from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
    from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

    Connection = KafkaConnection | LakeConnection | LedgerConnection | RegistryConnection | SparkConnection


class ConnectionHook(BaseHook):
    """The base of the hooks: Airflow's connections page can test each, and subclasses open the system behind it."""

    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    conn_type: ClassVar[str]
    hook_name: ClassVar[str]
    connection: Connection
    """Resolved when it is first used."""

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which fields the connection form hides, renames and explains, from the provider's description."""
        behaviour = connection_type(cls.conn_type)["ui-field-behaviour"]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the other side answers, and a sentence without secrets: a library's own text may hold one."""
        try:
            return True, self.connection.check()
        except KafkaLakeError as error:
            return False, error.message
        except Exception as error:  # noqa: BLE001  # a test of a connection answers, whatever happens
            return False, f"The test ended with an unexpected {type(error).__name__}."


class KafkaSourceHook(ConnectionHook):
    """Opens a Kafka cluster to ask it for topics and offsets.

    :param kafka_conn_id: Airflow connection of the cluster, of type `kafka_lake_kafka` or `kafka`
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = DEFAULT_KAFKA
    conn_type = "kafka_lake_kafka"
    hook_name = "Kafka Lake: Kafka"
    connection: KafkaConnection

    def __init__(self, kafka_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.connection = KafkaConnection(kafka_conn_id)

    def get_conn(self) -> KafkaOffsetSource:
        """Return the cluster's offsets (`ports.OffsetSource`); connects on first use."""
        return self.connection.source()


class LakeHook(ConnectionHook):
    """Opens a lake catalog.

    :param lake_conn_id: Airflow connection of the catalog, of type `lake` or `iceberg`
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = DEFAULT_LAKE
    conn_type = "lake"
    hook_name = "Kafka Lake: lake"
    connection: LakeConnection

    def __init__(self, lake_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_conn_id = lake_conn_id
        self.connection = LakeConnection(lake_conn_id)

    def get_conn(self) -> IcebergLake:
        """Return the catalog (`ports.Lake`); opens on first use. Close it when done."""
        return self.connection.lake()


class LedgerHook(ConnectionHook):
    """Opens the ledger, in any SQLite file or PostgreSQL database but Airflow's own.

    :param ledger_conn_id: Airflow connection of the database, of type `kafka_lake_ledger`, `sqlite` or `postgres`
    """

    conn_name_attr = "ledger_conn_id"
    default_conn_name = DEFAULT_LEDGER
    conn_type = "kafka_lake_ledger"
    hook_name = "Kafka Lake: ledger"
    connection: LedgerConnection

    def __init__(self, ledger_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ledger_conn_id = ledger_conn_id
        self.connection = LedgerConnection(ledger_conn_id)

    def get_conn(self) -> SqlLedger:
        """Return the ledger (`ports.Ledger`); opens on first use. Close it when done."""
        return self.connection.ledger()


class SchemaRegistryHook(ConnectionHook):
    """Opens a schema registry.

    :param registry_conn_id: Airflow connection of the registry, of type `kafka_lake_registry` or `http`
    """

    conn_name_attr = "registry_conn_id"
    default_conn_name = DEFAULT_REGISTRY
    conn_type = "kafka_lake_registry"
    hook_name = "Kafka Lake: schema registry"
    connection: RegistryConnection

    def __init__(self, registry_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.registry_conn_id = registry_conn_id
        self.connection = RegistryConnection(registry_conn_id)

    def get_conn(self) -> ConfluentRegistry:
        """Return the registry (`ports.SchemaRegistry`); connects on first use. Close it when done."""
        return self.connection.registry()


class SparkRunnerHook(ConnectionHook):
    """Returns where Spark jobs run, and with which settings.

    :param spark_conn_id: Airflow connection of the master, of type `kafka_lake_spark` or `spark`
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = DEFAULT_SPARK
    conn_type = "kafka_lake_spark"
    hook_name = "Kafka Lake: Spark"
    connection: SparkConnection

    def __init__(self, spark_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id
        self.connection = SparkConnection(spark_conn_id)

    def get_conn(self) -> tuple[str, Mapping[str, str]]:
        """Return the master's address and further Spark settings; nothing is opened before a job is submitted."""
        return self.connection.master_and_conf
