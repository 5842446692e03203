"""From a `lake` connection to the lake; the connection type that this provider registers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.reports.lineage import TableDescription
from airflow_kafka_lake.wiring.connections import get_connection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.iceberg.table import IcebergLake

TYPES = ("lake",)
DEFAULT_LAKE = "lake_default"


class LakeConnection:
    """Opens a lake catalog."""

    def __init__(self, lake_conn_id: str = DEFAULT_LAKE) -> None:
        self.lake_conn_id = lake_conn_id

    @cached_property
    def settings(self) -> LakeSettings:
        """The validated settings; ConnectionSettingsError names the fault."""
        found = get_connection(self.lake_conn_id, *TYPES)
        return LakeSettings.parse(self.lake_conn_id, found.extra, password=found.password, login=found.login)

    def lake(self) -> IcebergLake:
        """Return the catalog (`ports.Lake`); opens on first use. Close it when done."""
        from airflow_kafka_lake.adapters.iceberg.table import IcebergLake

        return IcebergLake(self.settings)

    def describe(self, identifier: str) -> TableDescription:
        """Return where a table is, and its columns; opens the catalog for that and closes it again."""
        from airflow_kafka_lake.adapters.iceberg.table import describe

        lake = self.lake()
        try:
            return describe(lake.catalog, identifier, self.settings.address)
        finally:
            lake.close()

    def check(self) -> str:
        """Return in one sentence that the catalog answers; raises the error that keeps it from answering."""
        lake = self.lake()
        try:
            with lake.catalog.reaching("list the namespaces"):
                namespaces = len(lake.catalog.api.list_namespaces())
        finally:
            lake.close()
        return f"The {self.settings.kind} catalog answers; it has {count(namespaces, 'namespace')}."
