"""The hook of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_lake.hooks.connection import ConnectionHook
from airflow_kafka_lake.wiring.lake import DEFAULT_LAKE, LakeConnection

if TYPE_CHECKING:
    from airflow_kafka_lake.adapters.iceberg.table import IcebergLake


class LakeHook(ConnectionHook):
    """Opens a lake catalog.

    :param lake_conn_id: Airflow connection of the catalog, of type `lake`
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = DEFAULT_LAKE
    conn_type = "lake"
    hook_name = "Kafka Lake: lake"

    def __init__(self, lake_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_conn_id = lake_conn_id

    def get_conn(self) -> IcebergLake:
        """Return the catalog (`ports.Lake`); opens on first use. Close it when done."""
        return LakeConnection(self.lake_conn_id).lake()

    def check(self) -> str:
        """See `ConnectionHook`."""
        return LakeConnection(self.lake_conn_id).check()
