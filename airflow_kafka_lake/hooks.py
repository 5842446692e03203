"""A hook for each kind of connection: Airflow's connections page tests them, and a Dag opens a system by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow.sdk import BaseHook

from airflow_kafka_lake.core.errors import expected
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

Connection = TypeVar(
    "Connection", KafkaConnection, LakeConnection, LedgerConnection, RegistryConnection, SparkConnection
)


class _UnderTest(str):
    """The random id under which Airflow tests a form, which messages leave out."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "under test"


class ConnectionHook(BaseHook, Generic[Connection]):
    """The base of the hooks: Airflow's connections page can test each, and subclasses open the system behind it."""

    conn_name_attr: ClassVar[str]
    default_conn_name: ClassVar[str]
    conn_type: ClassVar[str]
    hook_name: ClassVar[str]
    opens: type[Connection]
    connection: Connection
    """Resolved when it is first used."""

    def __init__(self, conn_id: str | None = None, **kwargs: Any) -> None:
        """`conn_id` may be named as `conn_name_attr` says."""
        named = kwargs.pop(self.conn_name_attr, conn_id) or self.default_conn_name
        super().__init__(**kwargs)
        setattr(self, self.conn_name_attr, named)
        self.connection = self.opens(named)

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return which fields the connection form hides, renames and explains, from the provider's description."""
        behaviour = connection_type(cls.conn_type)["ui-field-behaviour"]
        return {key.replace("-", "_"): value for key, value in behaviour.items()}

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the other side answers, and a sentence without secrets: a library's own text may hold one."""
        try:
            answer = self.opens(_UnderTest(getattr(self, self.conn_name_attr))).check()
            return True, answer if isinstance(answer, str) else " ".join(answer).strip()
        except Exception as error:  # noqa: BLE001  # a test of a connection answers, whatever happens
            return False, expected(error, "testing the connection").message


class KafkaSourceHook(ConnectionHook[KafkaConnection]):
    """Opens a Kafka cluster to ask it for topics and offsets.

    :param kafka_conn_id: Airflow connection of the cluster, of type `kafka_lake_kafka` or `kafka`
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = DEFAULT_KAFKA
    conn_type = "kafka_lake_kafka"
    hook_name = "Kafka Lake: Kafka"
    opens = KafkaConnection

    def get_conn(self) -> KafkaOffsetSource:
        """Return the cluster's offsets (`ports.OffsetSource`); connects on first use."""
        return self.connection.source()


class LakeHook(ConnectionHook[LakeConnection]):
    """Opens a lake catalog.

    :param lake_conn_id: Airflow connection of the catalog, of type `lake`, `iceberg`, `aws` or `google_cloud_platform`
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = DEFAULT_LAKE
    conn_type = "lake"
    hook_name = "Kafka Lake: lake"
    opens = LakeConnection

    def get_conn(self) -> IcebergLake:
        """Return the catalog (`ports.Lake`); opens on first use. Close it when done."""
        return self.connection.lake()


class LedgerHook(ConnectionHook[LedgerConnection]):
    """Opens the ledger, in any SQLite file or PostgreSQL database but Airflow's own.

    :param ledger_conn_id: Airflow connection of the database, of type `kafka_lake_ledger`, `sqlite` or `postgres`
    """

    conn_name_attr = "ledger_conn_id"
    default_conn_name = DEFAULT_LEDGER
    conn_type = "kafka_lake_ledger"
    hook_name = "Kafka Lake: ledger"
    opens = LedgerConnection

    def get_conn(self) -> SqlLedger:
        """Return the ledger (`ports.Ledger`); opens on first use. Close it when done."""
        return self.connection.ledger()


class SchemaRegistryHook(ConnectionHook[RegistryConnection]):
    """Opens a schema registry.

    :param registry_conn_id: Airflow connection of the registry, of type `kafka_lake_registry` or `http`
    """

    conn_name_attr = "registry_conn_id"
    default_conn_name = DEFAULT_REGISTRY
    conn_type = "kafka_lake_registry"
    hook_name = "Kafka Lake: schema registry"
    opens = RegistryConnection

    def get_conn(self) -> ConfluentRegistry:
        """Return the registry (`ports.SchemaRegistry`); connects on first use. Close it when done."""
        return self.connection.registry()


class SparkRunnerHook(ConnectionHook[SparkConnection]):
    """Returns where Spark jobs run, and with which settings.

    :param spark_conn_id: Airflow connection of the master, of type `kafka_lake_spark` or `spark`
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = DEFAULT_SPARK
    conn_type = "kafka_lake_spark"
    hook_name = "Kafka Lake: Spark"
    opens = SparkConnection

    def get_conn(self) -> tuple[str, Mapping[str, str]]:
        """Return the master's address and further Spark settings; nothing is opened before a job is submitted."""
        return self.connection.master_and_conf
