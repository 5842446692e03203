"""What stands in for a schema registry, and for the Spark jobs that decode: Avro records of one text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.types import IcebergType, IntegerType, StringType

from airflow_kafka_lake.core.decoding import ERROR_COLUMN, SCHEMA_ID_COLUMN, Format
from airflow_kafka_lake.core.errors import ConcurrentError
from airflow_kafka_lake.features.decoding.job.redecoding import Redecoded, RedecodeJob
from tests.faults.standing_kafka import SCHEMA_ID, TOPIC, text_of
from tests.kit.memory_registry import MemoryRegistry
from tests.pyiceberg_jobs import MOVED, widened

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


def begun(table: Table, branch: str) -> Table:
    """Do what a decoding job does first: the columns, a branch of main, and the rows rewritten on it."""
    table = widened(table, COLUMNS)
    head = table.metadata.current_snapshot_id
    assert head is not None
    rows = [_again(row) for row in table.scan(snapshot_id=head).to_arrow().to_pylist()]
    table.manage_snapshots().create_branch(head, branch).commit()
    table.overwrite(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()), branch=branch)
    return table


def redecode(table: Table, job: RedecodeJob) -> Redecoded:
    """Decode all rows of a table once more, and move main to them unless somebody else moved it."""
    if table.metadata.current_snapshot_id is None or not job.decoders:
        return Redecoded(rows=0, failed=0)
    try:
        base = widened(table, COLUMNS).metadata.current_snapshot_id
        head = begun(table, job.branch).metadata.refs[job.branch].snapshot_id
        shown = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=head)
        unmoved = AssertRefSnapshotId(ref="main", snapshot_id=base)
        table.catalog.commit_table(table, (unmoved,), (shown,))
    except MOVED as error:
        raise ConcurrentError(f"main of {job.table} moved while its rows were decoded: {error}") from error
    finally:
        _drop(table, job.branch)
    rows = table.catalog.load_table(table.name()).scan(selected_fields=(ERROR_COLUMN,)).to_arrow()
    return Redecoded(rows=rows.num_rows, failed=rows.num_rows - rows[ERROR_COLUMN].null_count)


def _drop(table: Table, branch: str) -> None:
    while branch in table.refresh().metadata.refs:
        with suppress(*MOVED):
            table.manage_snapshots().remove_branch(branch).commit()


def _again(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, **decoded(row["value"])}
