"""Kafka positions of many rows: which offsets of which streams they have, without a Python step per row."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any

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

TEXTS = (*POSITION[:2], ATTEMPT)
"""Columns of text with few values: read as codes, no row costs a text."""

_Ints = NDArray[np.int64]
_NUMBERS = (IntegerType, LongType)


class Runs:
    """Collects batches of positions as runs of offsets, by stream and, if asked, by the attempt that wrote them.

    With `topic_ids` only of these topics.
    """

    def __init__(self, *, by_attempt: bool = False, topic_ids: Collection[str] | None = None) -> None:
        self._topic_ids = None if topic_ids is None else frozenset(topic_ids)
        self._texts = TEXTS if by_attempt else TEXTS[:2]
        self._starts: dict[tuple[str, Stream], list[_Ints]] = defaultdict(list)
        self._ends: dict[tuple[str, Stream], list[_Ints]] = defaultdict(list)

    def add(self, batch: pa.RecordBatch | pa.Table, where: str) -> None:
        """Add the rows of one batch; SchemaMismatchError for a row without a position, naming `where` it was read."""
        if not batch.num_rows:
            return
        for name in POSITION:
            if batch.column(name).null_count:
                raise SchemaMismatchError(f"{where} holds a row without {name}; it was not written by a job of ours.")
        texts = [_coded(batch.column(name)) for name in self._texts]
        partitions = np.asarray(batch.column("kafka_partition"))
        offsets = np.asarray(batch.column("kafka_offset")).astype(np.int64, copy=False)
        # Most batches have one topic, one id and one attempt: what has one value breaks no run.
        apart = [partitions, *(codes for values, codes in texts if len(values) > 1)]
        breaks = functools.reduce(np.logical_or, map(_changes, apart), offsets[1:] != offsets[:-1] + 1)
        firsts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
        starts, ends = offsets[firsts], offsets[np.append(firsts[1:], len(offsets)) - 1] + 1
        keys = [column[firsts] for column in apart]
        order = np.lexsort(keys)
        others = functools.reduce(np.logical_or, (_changes(column[order]) for column in keys))
        for mine in np.split(order, np.flatnonzero(others) + 1):
            row = firsts[mine[0]]
            topic, topic_id, *attempt = (values[codes[row]] for values, codes in texts)
            if self._topic_ids is not None and topic_id not in self._topic_ids:
                continue
            key = ("".join(attempt), Stream(topic, topic_id, int(partitions[row])))
            self._starts[key].append(starts[mine])
            self._ends[key].append(ends[mine])

    def merge(self, other: Runs) -> None:
        """Add what another one has collected."""
        for key, starts in other._starts.items():
            self._starts[key].extend(starts)
            self._ends[key].extend(other._ends[key])

    def contents(self) -> tuple[StreamContent, ...]:
        """Return every stream, sorted, and clear it; duplicates are rows beyond one per offset."""
        return tuple(
            StreamContent(stream=stream, offsets=offsets, duplicates=twice)
            for (_, stream), offsets, twice in self._collected()
        )

    def attempt_rows(self) -> tuple[AttemptRows, ...]:
        """Return every stream of every attempt, sorted, and clear it."""
        return tuple(
            AttemptRows(stream=stream, attempt=attempt or None, offsets=offsets, duplicates=twice)
            for (attempt, stream), offsets, twice in self._collected()
        )

    def _collected(self) -> Iterator[tuple[tuple[str, Stream], RangeSet, int]]:
        for key in sorted(self._starts):
            yield key, *_joined(np.concatenate(self._starts.pop(key)), np.concatenate(self._ends.pop(key)))


def runs_of(batches: Iterable[pa.RecordBatch], where: str, topic_ids: Collection[str] | None = None) -> Runs:
    """Collect batches by attempt; rows without a position, which no job of ours wrote, are left out."""
    found = Runs(by_attempt=True, topic_ids=topic_ids)
    for batch in batches:
        found.add(_placed(batch), where)
    return found


def _placed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that have a position."""
    partly = [pc.is_valid(column) for name in POSITION if (column := batch.column(name)).null_count]
    return batch.filter(functools.reduce(pc.and_, partly)) if partly else batch


def _changes(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value but the first differs from the one before."""
    found: NDArray[np.bool_] = column[1:] != column[:-1]
    return found


def _joined(starts: _Ints, ends: _Ints) -> tuple[RangeSet, int]:
    """Return the offsets of some runs, and how many rows they have beyond one per offset."""
    rows = int((ends - starts).sum())
    if not np.all(starts[1:] > ends[:-1]):  # files are in offset order, most of them without an edge inside a run
        starts, ends = _merged(starts, ends)
    return RangeSet.of_sorted(starts.data, ends.data), rows - int((ends - starts).sum())


def _merged(starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
    """Sort runs, and join those that overlap or touch."""
    if not np.all(starts[1:] >= starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    firsts = np.flatnonzero(np.concatenate(([True], starts[1:] > reached[:-1])))
    lasts = np.concatenate((firsts[1:] - 1, [len(starts) - 1]))
    return starts[firsts], reached[lasts]


def _coded(column: pa.Array | pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
    """Return a text column as its distinct values, "" for null, and one code per row."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # a table without rows, or chunks too large for one array
        whole = pa.concat_arrays(whole.chunks)
    coded = whole if pa.types.is_dictionary(whole.type) else pc.dictionary_encode(whole)
    values, codes = coded.dictionary.to_pylist(), coded.indices
    if codes.null_count:
        values, codes = [*values, ""], pc.fill_null(codes, len(values))
    return values, np.asarray(codes)


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
