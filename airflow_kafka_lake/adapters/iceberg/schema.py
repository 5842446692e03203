"""The tables' columns and partitioning: the ones we create, and the differences of an existing table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    FixedType,
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

from airflow_kafka_lake.core import ddl
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
    # Topics and partitions fit; of values, keys and offsets a larger one is given up too late, a tenth of the CPU time.
    "write.parquet.dict-size-bytes": "65536",
    "write.distribution-mode": "none",
    # Whole bounds let a look for an attempt skip every file that cannot hold it.
    "write.metadata.metrics.column.ingest_attempt": "full",
    "write.metadata.metrics.column.kafka_topic_id": "full",
    # Each commit writes all of the metadata anew: keep the last few files of it, not every one there ever was.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}

_TRANSFORMS: dict[str, tuple[Callable[[int], Transform], str]] = {
    "": (lambda _: IdentityTransform(), ""),
    "years": (lambda _: YearTransform(), "_year"),
    "months": (lambda _: MonthTransform(), "_month"),
    "days": (lambda _: DayTransform(), "_day"),
    "hours": (lambda _: HourTransform(), "_hour"),
    "bucket": (BucketTransform, "_bucket"),
    "truncate": (TruncateTransform, "_trunc"),
}
"""Transform → how it is made of its width, and the end of its partition field's name."""
_TERM = re.compile(r"(?:([a-z]+)\((?:(\d+), )?)?(\w+)\)?")


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


def in_spark(kind: IcebergType) -> Any:
    """Return a type as Spark reads it, in the JSON form that Spark gives it (Iceberg: Spark type conversion)."""
    if isinstance(kind, StructType):
        return ddl.struct({field.name: in_spark(field.field_type) for field in kind.fields})
    if isinstance(kind, ListType):
        return {"type": "array", "elementType": in_spark(kind.element_type)}
    if isinstance(kind, MapType):
        return {"type": "map", "keyType": in_spark(kind.key_type), "valueType": in_spark(kind.value_type)}
    if isinstance(kind, FixedType):
        return "binary"
    return _IN_SPARK.get(text := str(kind), text.replace(" ", ""))


_IN_SPARK = {"int": "integer", "timestamptz": "timestamp", "timestamp": "timestamp_ntz", "uuid": "string"}


def partition_spec(text: str, schema: Schema) -> PartitionSpec:
    """Return the partitioning that `PipelineSpec.partition_by` names; an empty text is an unpartitioned table."""
    fields = []
    for number, (name, width, column) in enumerate(_TERM.findall(text)):
        made, suffix = _TRANSFORMS[name]
        fields.append(
            PartitionField(
                source_id=schema.find_field(column).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=made(int(width or 0)),
                name=column + suffix,
            )
        )
    return PartitionSpec(*fields)
