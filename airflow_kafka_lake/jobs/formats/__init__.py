"""What a Spark job says to a table of the lake: the words of its format, of which there is one."""

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
    "create_branch",
    "drop_branch",
    "field_of",
    "repeated",
    "table_name",
    "widen",
]
