"""How Spark jobs work on tables of the lake, by table format; there is one, Iceberg."""

from airflow_kafka_lake.jobs.formats.iceberg.columns import METADATA_COLUMNS, aligned, field_of, widen
from airflow_kafka_lake.jobs.formats.iceberg.tables import (
    CATALOG,
    CATALOG_CLASS,
    DECODED_AS,
    EXTENSIONS,
    SETTINGS,
    STAGED_BY,
    WRITE_OPTIONS,
    OfTable,
    append,
    at_snapshot,
    close_catalog,
    create_branch,
    drop_branch,
    repeated,
    table_name,
)

__all__ = [
    "CATALOG",
    "CATALOG_CLASS",
    "DECODED_AS",
    "EXTENSIONS",
    "METADATA_COLUMNS",
    "SETTINGS",
    "STAGED_BY",
    "WRITE_OPTIONS",
    "OfTable",
    "aligned",
    "append",
    "at_snapshot",
    "close_catalog",
    "create_branch",
    "drop_branch",
    "field_of",
    "repeated",
    "table_name",
    "widen",
]
