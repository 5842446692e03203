"""Kafka positions of many rows: which offsets of which streams they have, without a Python step per row."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, IntegerType, LongType, StringType

from airflow_kafka_lake.core.errors import SchemaMismatchError
from airflow_kafka_lake.core.lake.accounting import StreamContent
from airflow_kafka_lake.core.lake.positions import PositionColumns
from airflow_kafka_lake.core.ledger.records import AttemptRows
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Stream

POSITION = ("kafka_topic", "kafka_topic_id", "kafka_partition", "kafka_offset")
"""The columns with a row's stream and offset."""

ATTEMPT = "ingest_attempt"
"""The column with the attempt that wrote a row."""

_Ints = NDArray[np.int64]
_NUMBERS = (IntegerType, LongType)


class Runs:
    """Collects batches of positions; `contents` has the offsets and the number of duplicates of each stream."""

    def __init__(self) -> None:
        self._starts: dict[Stream, list[_Ints]] = defaultdict(list)
        self._ends: dict[Stream, list[_Ints]] = defaultdict(list)

    def add(self, batch: pa.RecordBatch | pa.Table, where: str) -> None:
        """Add the rows of one batch; SchemaMismatchError for a row without a position, naming `where` it was read."""
        if not batch.num_rows:
            return
        for name in POSITION:
            if batch.column(name).null_count:
                raise SchemaMismatchError(f"{where} holds a row without {name}; it was not written by a job of ours.")
        topics, topic_codes = _coded(batch.column("kafka_topic"))
        ids, id_codes = _coded(batch.column("kafka_topic_id"))
        partitions = _numbers(batch.column("kafka_partition"))
        offsets = _numbers(batch.column("kafka_offset"))
        broken = (
            (np.diff(topic_codes) != 0)
            | (np.diff(id_codes) != 0)
            | (np.diff(partitions) != 0)
            | (np.diff(offsets) != 1)
        )
        firsts = np.concatenate(([0], np.flatnonzero(broken) + 1))
        lasts = np.concatenate((firsts[1:] - 1, [len(offsets) - 1]))
        streams = np.stack((topic_codes[firsts], id_codes[firsts], partitions[firsts]), axis=1)
        distinct, members = np.unique(streams, axis=0, return_inverse=True)
        for number, (topic, topic_id, partition) in enumerate(distinct):
            mine = members.reshape(-1) == number
            key = Stream(topics[topic], ids[topic_id], int(partition))
            self._starts[key].append(offsets[firsts[mine]])
            self._ends[key].append(offsets[lasts[mine]] + 1)

    def merge(self, other: Runs) -> None:
        """Add what another one has collected."""
        for key, starts in other._starts.items():
            self._starts[key].extend(starts)
            self._ends[key].extend(other._ends[key])

    def contents(self) -> tuple[StreamContent, ...]:
        """Return every stream, sorted, and clear it; duplicates are rows beyond one per offset."""
        return tuple(
            _content(key, np.concatenate(self._starts.pop(key)), np.concatenate(self._ends.pop(key)))
            for key in sorted(self._starts)
        )


def attempt_rows_of(batches: Iterable[pa.RecordBatch], where: str) -> tuple[AttemptRows, ...]:
    """Collect batches by attempt; rows without a position, which no job of ours wrote, are left out."""
    found: dict[str, Runs] = defaultdict(Runs)
    for batch in batches:
        placed = _placed(batch)
        for attempt in pc.unique(placed.column(ATTEMPT)).to_pylist():
            found[attempt or ""].add(placed.filter(_by(placed.column(ATTEMPT), attempt)), where)
    return tuple(
        AttemptRows(
            stream=content.stream, attempt=attempt or None, offsets=content.offsets, duplicates=content.duplicates
        )
        for attempt in sorted(found)
        for content in found[attempt].contents()
    )


def _placed(batch: pa.RecordBatch) -> pa.RecordBatch:
    valid = [pc.is_valid(batch.column(name)) for name in POSITION]
    return batch.filter(functools.reduce(pc.and_, valid))


def _by(column: pa.Array, attempt: str | None) -> pa.Array:
    return pc.is_null(column) if attempt is None else pc.equal(column, attempt)


def _content(key: Stream, starts: _Ints, ends: _Ints) -> StreamContent:
    rows = int((ends - starts).sum())
    if not np.all(starts[1:] > ends[:-1]):  # files are in offset order, most of them without an edge inside a run
        starts, ends = _merged(starts, ends)
    offsets = RangeSet.of_sorted(starts.data, ends.data)
    return StreamContent(stream=key, offsets=offsets, duplicates=rows - offsets.span)


def _merged(starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
    """Sort runs, and join those that overlap or touch."""
    if not np.all(starts[1:] >= starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    firsts = np.flatnonzero(np.concatenate(([True], starts[1:] > reached[:-1])))
    lasts = np.concatenate((firsts[1:] - 1, [len(starts) - 1]))
    return starts[firsts], reached[lasts]


def _coded(column: pa.Array | pa.ChunkedArray) -> tuple[list[str], _Ints]:
    """Return a text column as its distinct values and one code per row."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # a table without rows, or chunks too large for one array
        whole = pa.concat_arrays(whole.chunks)
    coded = whole if pa.types.is_dictionary(whole.type) else pc.dictionary_encode(whole)
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _numbers(column: pa.Array | pa.ChunkedArray) -> _Ints:
    values: _Ints = np.asarray(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(False))
    return values.astype(np.int64)


def require_columns(table: Table, columns: PositionColumns, identifier: str, *, live_only: bool) -> None:
    """Raise SchemaMismatchError for a column that is missing or of a wrong type."""
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
    """Collect batches; rows without a position and, with `live_only`, rows of an attempt are left out."""
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
