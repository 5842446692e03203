"""The small grammar of `partition_by`: `days(kafka_timestamp), bucket(16, key), kafka_topic`."""

from __future__ import annotations

import re

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
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

from airflow_kafka_lake.core.errors import PipelineFileError

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
