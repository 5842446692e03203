"""The tables' columns and partitioning: the ones we create, and the differences of an existing table."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

from airflow_kafka_lake.core.errors import PipelineFileError, SchemaMismatchError

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

_TERM = re.compile(
    r"\s*(?:(?P<transform>[a-z]+)\(\s*(?:(?P<width>\d{1,9})\s*,\s*)?(?P<inner>\w+)\s*\)|(?P<bare>\w+))\s*"
)
_TIMES: dict[str, type[YearTransform | MonthTransform | DayTransform | HourTransform]] = {
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
_LEGAL = "a column, identity(c), years(c), months(c), days(c), hours(c), bucket(n, c) or truncate(n, c)"


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


def partition_spec(text: str, schema: Schema) -> PartitionSpec:
    """Parse `partition_by`; an empty text is an unpartitioned table.

    Raises PipelineFileError that names the term which is not legal.
    """
    terms = _split(text)
    fields = [_field(term, number, schema) for number, term in enumerate(terms)]
    names = [field.name for field in fields]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise _refused(text, f"{min(doubled)} appears twice")
    return PartitionSpec(*fields)


def _split(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    return re.split(r",(?![^()]*\))", text) if text.strip() else []


def _field(term: str, number: int, schema: Schema) -> PartitionField:
    match = _TERM.fullmatch(term)
    if match is None:
        raise _refused(term, f"use {_LEGAL}")
    column = match["inner"] or match["bare"]
    if column not in schema.column_names:
        raise _refused(term, f"the table has no column {column!r}")
    source = schema.find_field(column)
    transform, name = _transform(term, match["transform"] or "identity", match["width"], column)
    if not source.field_type.is_primitive or not transform.can_transform(source.field_type):
        raise _refused(term, f"{transform} does not apply to {column} ({source.field_type})")
    return PartitionField(
        source_id=source.field_id, field_id=PARTITION_FIELD_ID_START + number, transform=transform, name=name
    )


def _transform(term: str, name: str, width: str | None, column: str) -> tuple[Transform, str]:
    if name in {"bucket", "truncate"}:
        if width is None or int(width) < 1:
            raise _refused(term, f"{name} needs a width of at least 1, such as {name}(16, {column})")
        if name == "bucket":
            return BucketTransform(int(width)), f"{column}_bucket"
        return TruncateTransform(int(width)), f"{column}_trunc"
    if width is not None:
        raise _refused(term, f"{name} takes no width")
    if name == "identity":
        return IdentityTransform(), column
    if transform := _TIMES.get(name.removesuffix("s")):
        return transform(), f"{column}_{name.removesuffix('s')}"
    raise _refused(term, f"use {_LEGAL}")


def _refused(term: str, why: str) -> PipelineFileError:
    return PipelineFileError(f"partition_by {term.strip()!r} is not legal: {why}.", partition_by=term.strip())
