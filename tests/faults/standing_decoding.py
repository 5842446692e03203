"""What stands in for a schema registry, and for the Spark jobs that decode: Avro records of one text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyiceberg.table import Table
from pyiceberg.types import IcebergType, IntegerType, StringType

from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Format
from tests.faults.standing_kafka import SCHEMA_ID, TOPIC, text_of
from tests.kit.memory_registry import MemoryRegistry
from tests.pyiceberg_jobs import rewrite, widened

COLUMN = "words"
COLUMNS: Mapping[str, IcebergType] = {
    COLUMN: StringType(),
    SCHEMA_ID_COLUMN: IntegerType(),
    ERROR_COLUMN: StringType(),
}
_RECORD = {"type": "record", "name": "Order", "fields": [{"name": COLUMN, "type": "string"}]}


def registry(_: object = None) -> MemoryRegistry:
    """Return a registry that knows the schema of the topic's values."""
    made = MemoryRegistry()
    assert made.register(f"{TOPIC}-value", Format.AVRO, json.dumps(_RECORD)) == SCHEMA_ID
    return made


def decoded(value: bytes | None) -> dict[str, Any]:
    """Return the decoded columns of a value."""
    text = text_of(value)
    if text is None:
        return {COLUMN: None, SCHEMA_ID_COLUMN: None, ERROR_COLUMN: "the value has no frame"}
    return {COLUMN: text, SCHEMA_ID_COLUMN: SCHEMA_ID, ERROR_COLUMN: None}


def begun(table: Table, branch: str) -> None:
    """Do what a decoding job does that is killed then: the columns, a branch of main, and the rows rewritten on it."""
    rewrite(widened(table, COLUMNS), branch, lambda row: {**row, **decoded(row["value"])})
