"""A table for people: where it is, and its columns."""

from __future__ import annotations

from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog
from airflow_kafka_lake.core.lineage import Column, TableDescription


def describe(catalog: OpenCatalog, identifier: str, address: str | None) -> TableDescription:
    """Load a table and describe it, with the `address` of its catalog; UnknownSubjectError when it does not exist."""
    table = catalog.load(identifier)
    return TableDescription(
        format="iceberg",
        file_format=table.properties.get("write.format.default", "parquet"),
        location=table.location(),
        columns=tuple(
            Column(name=item.name, type=str(item.field_type), doc=item.doc) for item in table.schema().fields
        ),
        catalog=address,
    )
