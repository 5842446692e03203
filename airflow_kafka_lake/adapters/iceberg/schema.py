"""The tables' columns: what we create, and how an existing table differs."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from airflow_kafka_lake.core.errors import SchemaMismatchError

FORMAT_VERSION = 2

_HEADER = StructType(
    NestedField(12, "key", StringType(), required=False), NestedField(13, "value", BinaryType(), required=False)
)
# Every column is optional: Spark takes the Kafka source's columns for nullable and refuses to write them to required
# ones. Spark's `timestamp` is an instant, which Iceberg calls timestamptz.
LANDING = Schema(
    NestedField(1, "key", BinaryType(), required=False),
    NestedField(2, "value", BinaryType(), required=False),
    NestedField(3, "headers", ListType(11, _HEADER, element_required=False), required=False),
    NestedField(4, "kafka_topic", StringType(), required=False),
    NestedField(5, "kafka_topic_id", StringType(), required=False),
    NestedField(6, "kafka_partition", IntegerType(), required=False),
    NestedField(7, "kafka_offset", LongType(), required=False),
    NestedField(8, "kafka_timestamp", TimestamptzType(), required=False),
    NestedField(9, "kafka_timestamp_type", IntegerType(), required=False),
    NestedField(14, "kafka_timestamp_raw", LongType(), required=False),
    NestedField(10, "ingest_attempt", StringType(), required=False),
)
"""The raw landing table (docs: lake table).

`kafka_timestamp_raw` is Kafka's number where readers cannot hold it as a time: `kafka_timestamp` is null then.
"""

LANDING_PROPERTIES = {
    "format-version": str(FORMAT_VERSION),
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.distribution-mode": "none",
    # Whole bounds let a look for an attempt skip every file that cannot hold it.
    "write.metadata.metrics.column.ingest_attempt": "full",
    "write.metadata.metrics.column.kafka_topic_id": "full",
    # Each commit writes all of the metadata anew: keep the last few files of it, not every one there ever was.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


def require_fit(table: Table, wanted: Schema, identifier: str) -> None:
    """Refuse a table that a job could not write, or a reader not trust: SchemaMismatchError names each difference.

    Further columns are fine as long as they are nullable.
    """
    found = list(differences(table, wanted))
    if found:
        raise SchemaMismatchError(
            f"Table {identifier} does not fit: {'; '.join(found)}. Name another table, or change this one.",
            table=identifier,
            differences=found,
        )


def differences(table: Table, wanted: Schema) -> Iterable[str]:
    """Return in words how a table differs from the columns and the format that are wanted."""
    if table.format_version != FORMAT_VERSION:
        yield f"format version is {table.format_version}, {FORMAT_VERSION} is needed"
    if (file_format := table.properties.get("write.format.default", "parquet").lower()) != "parquet":
        yield f"write.format.default is {file_format}, parquet is needed"
    columns = {field.name: field for field in table.schema().fields}
    for field in wanted.fields:
        there = columns.pop(field.name, None)
        if there is None:
            yield f"column {field.name} {shape(field.field_type)} is missing"
        elif shape(there.field_type) != shape(field.field_type):
            yield f"column {field.name} is {shape(there.field_type)}, {shape(field.field_type)} is needed"
        elif there.required:
            yield f"column {field.name} is required, it must be nullable"
    yield from (f"further column {name} is required, it must be nullable" for name in columns if columns[name].required)


def shape(kind: IcebergType) -> str:
    """Name a type without its field ids and nullability."""
    if isinstance(kind, ListType):
        return f"list<{shape(kind.element_type)}>"
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{field.name}: {shape(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, MapType):
        return f"map<{shape(kind.key_type)}, {shape(kind.value_type)}>"
    return str(kind)
