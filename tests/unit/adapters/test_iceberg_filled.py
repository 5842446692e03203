"""How many rows have a value in a column, by the statistics of the files that a job has added."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, NestedField, StringType, StructType

from airflow_kafka_lake.adapters.iceberg.staged import _filled

pytestmark = pytest.mark.unit

ITEMS = ListType(element_id=9, element_type=IntegerType(), element_required=False)
INNER = StructType(NestedField(6, "x", IntegerType()))
SCHEMA = Schema(
    NestedField(1, "value", StringType()),
    NestedField(2, "place", StructType(NestedField(3, "city", StringType()), NestedField(4, "at", INNER))),
    NestedField(5, "items", ITEMS),
    NestedField(7, "order", StructType(NestedField(8, "lines", ITEMS), NestedField(10, "id", IntegerType()))),
)


def file(rows: int, nulls: dict[int, int] | None) -> Any:
    """Return a data file of a manifest."""
    return SimpleNamespace(record_count=rows, null_value_counts=nulls)


def test_counts_of_all_files_are_added() -> None:
    """Those of the fields of a struct, at any depth; of a list, also within a struct, nothing is known."""
    files = [file(10, {1: 1, 3: 10, 6: 10, 10: 0}), file(5, {1: 0, 3: 5, 6: 3, 10: 0})]
    assert _filled(SCHEMA, files) == {"value": 14, "place.city": 0, "place.at.x": 2, "order.id": 15}


@pytest.mark.parametrize("nulls", [None, {}, {1: 1, 3: 2}])
def test_column_without_statistics_in_one_file_is_unknown(nulls: dict[int, int] | None) -> None:
    """It may be full there."""
    found = _filled(SCHEMA, [file(3, {1: 3, 3: 3, 6: 3}), file(3, nulls)])
    assert found == ({"value": 2, "place.city": 1} if nulls else {})
