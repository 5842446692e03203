"""Where the rows of a table of any schema come from, as another engine writes it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, IntegerType, LongType, StringType

from airflow_kafka_lake.adapters.iceberg.runs import Runs
from airflow_kafka_lake.core.errors import SchemaMismatchError
from airflow_kafka_lake.core.lake.accounting import StreamContent
from airflow_kafka_lake.core.lake.positions import PositionColumns

ATTEMPT = "ingest_attempt"
_NUMBERS = (IntegerType, LongType)


def require_columns(table: Table, columns: PositionColumns, identifier: str, *, live_only: bool) -> None:
    """Refuse a table that lacks a column, or has one that no position is in: SchemaMismatchError names it."""
    there = {field.name: field.field_type for field in table.schema().fields}
    wanted: dict[str, tuple[type[IcebergType], ...]] = {columns.partition: _NUMBERS, columns.offset: _NUMBERS}
    wanted |= {columns.topic: (StringType,)} if columns.topic else {}
    wanted |= {ATTEMPT: (StringType,)} if live_only else {}
    for name, types in wanted.items():
        if not isinstance(there.get(name), types):
            found = f"is {there[name]}" if name in there else "is not there"
            raise SchemaMismatchError(
                f"Column {name} of table {identifier} {found}. Name the columns that hold topic (text), partition and "
                "offset (whole numbers) with: --cutover-columns topic=…,partition=…,offset=…",
                table=identifier,
            )


def positions_of(
    batches: Iterable[pa.RecordBatch], columns: PositionColumns, where: str, *, live_only: bool
) -> tuple[StreamContent, ...]:
    """Collect a stream of batches; rows without a position are left out, and so are, if asked, rows of an attempt."""
    runs = Runs()
    for batch in batches:
        runs.add(_renamed(batch, columns, live_only=live_only), where)
    return runs.contents()


def _renamed(batch: pa.RecordBatch, columns: PositionColumns, *, live_only: bool) -> pa.RecordBatch:
    topic = pa.array([columns.only_topic] * len(batch)) if columns.topic is None else batch.column(columns.topic)
    partition, offset = batch.column(columns.partition), batch.column(columns.offset)
    kept = pc.and_(pc.and_(pc.is_valid(topic), pc.is_valid(partition)), pc.is_valid(offset))
    if live_only:
        kept = pc.and_(kept, pc.equal(pc.fill_null(batch.column(ATTEMPT), ""), ""))
    named = {
        "kafka_topic": topic,
        "kafka_topic_id": pa.array([""] * len(batch)),
        "kafka_partition": partition,
        "kafka_offset": offset,
    }
    return pa.RecordBatch.from_pydict(named).filter(kept)
