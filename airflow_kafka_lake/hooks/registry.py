"""The hook of a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.hooks.connection import ConnectionHook
from airflow_kafka_lake.wiring.registry import DEFAULT_REGISTRY, RegistryConnection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry


class SchemaRegistryHook(ConnectionHook):
    """Opens a schema registry.

    :param registry_conn_id: Airflow connection of the registry, of type `kafka_lake_registry` or `http`
    """

    conn_name_attr = "registry_conn_id"
    default_conn_name = DEFAULT_REGISTRY
    conn_type = "kafka_lake_registry"
    hook_name = "Kafka Lake: schema registry"

    def __init__(self, registry_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.registry_conn_id = registry_conn_id

    def get_conn(self) -> ConfluentRegistry:
        """Return the registry (`SchemaRegistry`); connects on first use. Close it when done."""
        return RegistryConnection(self.registry_conn_id).registry()

    def check(self) -> str:
        """See `ConnectionHook`."""
        return RegistryConnection(self.registry_conn_id).check()
