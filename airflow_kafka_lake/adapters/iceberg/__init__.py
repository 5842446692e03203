"""The lake as Iceberg tables: PyIceberg checks and publishes what Spark has staged on a branch."""

from __future__ import annotations

from airflow_kafka_lake.adapters.iceberg.table import IcebergLake, IcebergTable

__all__ = ["IcebergLake", "IcebergTable"]
