"""From a `lake` connection to the lake; the connection type that this provider registers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow_kafka_lake.adapters.lake_config import LakeSettings
from airflow_kafka_lake.core.errors import KafkaLakeError
from airflow_kafka_lake.hooks.connections import get_connection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.iceberg import IcebergLake

TYPES = ("lake",)


class LakeHook:
    """Opens a lake catalog by its connection.

    A hook in all that Airflow asks of one, but no subclass of BaseHook: importing that takes seconds, and the command
    line opens its connections here too.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = "lake_default"
    conn_type = "lake"
    hook_name = "Lake (Kafka Lake)"

    def __init__(self, lake_conn_id: str = default_conn_name) -> None:
        self.lake_conn_id = lake_conn_id

    @cached_property
    def settings(self) -> LakeSettings:
        """The validated settings; ConnectionSettingsError names what is wrong."""
        found = get_connection(self.lake_conn_id, *TYPES)
        return LakeSettings.parse(self.lake_conn_id, found.extra, password=found.password, login=found.login)

    def lake(self) -> IcebergLake:
        """Return the catalog (`ports.Lake`); opens on first use. Close it when done."""
        from airflow_kafka_lake.adapters.iceberg import IcebergLake

        return IcebergLake(self.settings)

    get_conn = lake

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the catalog answers, in one sentence."""
        try:
            lake = self.lake()
            try:
                with lake.catalog.reaching("list the namespaces"):
                    count = len(lake.catalog.api.list_namespaces())
            finally:
                lake.close()
        except KafkaLakeError as error:
            return False, error.message
        return True, f"The {self.settings.kind} catalog answers; it has {count} namespaces."
