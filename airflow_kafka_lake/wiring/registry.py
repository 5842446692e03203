"""From an `http` connection to the schema registry of a pipeline that decodes values."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_kafka_lake.adapters.registry.settings import RegistrySettings
from airflow_kafka_lake.core.errors import ConnectionSettingsError, LibraryError
from airflow_kafka_lake.core.spec import PipelineSpec
from airflow_kafka_lake.wiring.connections import ConnectionSettings, get_connection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry

TYPES = ("http", "kafka_lake_registry")
DEFAULT_REGISTRY = "schema_registry_default"


class RegistryConnection:
    """Opens a schema registry; the type `http` is the HTTP provider's, and reused here."""

    def __init__(
        self, registry_conn_id: str = DEFAULT_REGISTRY, *, connection: ConnectionSettings | None = None
    ) -> None:
        self.registry_conn_id = registry_conn_id
        self._connection = connection

    @cached_property
    def settings(self) -> RegistrySettings:
        """The validated settings; ConnectionSettingsError names the fault."""
        found = self._connection or get_connection(self.registry_conn_id, *TYPES)
        return RegistrySettings.parse(
            self.registry_conn_id,
            host=found.host,
            port=found.port,
            schema=found.schema,
            login=found.login,
            password=found.password,
            extra=found.extra,
        )

    def registry(self) -> ConfluentRegistry:
        """Return the registry (`SchemaRegistry`); connects on first use. Close it when done."""
        try:
            from airflow_kafka_lake.adapters.registry.client import ConfluentRegistry
        except ImportError as error:
            raise LibraryError(
                f"A schema registry needs {error.name or 'a library'}, which is not installed. "
                "Run: pip install 'airflow-kafka-lake[schema-registry]'"
            ) from None
        return ConfluentRegistry(self.settings)

    def check(self) -> str:
        """Return in one sentence that the registry answers; raises the error that keeps it from answering."""
        registry = self.registry()
        try:
            return registry.check()
        finally:
            registry.close()


def registry_of(spec: PipelineSpec) -> ConfluentRegistry:
    """Return the registry that a pipeline names; ConnectionSettingsError when it names none."""
    if spec.decoding is None or spec.decoding.registry is None:
        raise ConnectionSettingsError(
            f"Pipeline {spec.name!r} names no schema registry. Name its connection in [decode] registry.",
            pipeline=spec.name,
        )
    return RegistryConnection(spec.decoding.registry).registry()
