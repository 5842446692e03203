"""Take rows out of main's files: find the files that hold them, and rewrite these without the rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import _StrictMetricsEvaluator
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from airflow_kafka_lake.adapters.iceberg.positions import ATTEMPT, POSITION, runs_of
from airflow_kafka_lake.adapters.iceberg.rows import batches_of, data_files, files_of, near
from airflow_kafka_lake.core.ledger.records import AttemptRows
from airflow_kafka_lake.core.offsets import RangeSet
from airflow_kafka_lake.core.slices import Slice, SliceSet

_Flags = NDArray[np.bool_]


def _with_nulls(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyIceberg's way to read and write lists or maps, with their nulls.

    Of structs it makes a new list, in which one that was null is empty: rows beside a slice would change.
    """

    @functools.wraps(make)
    def made(visitor: object, kind: object, array: pa.Array | None, *inner: pa.Array | None) -> pa.Array | None:
        found = make(visitor, kind, array, *inner)
        if found is None or array is None or found.null_count == array.null_count:
            return found
        return pc.if_else(array.is_valid(), found, pa.scalar(None, found.type))

    return made


ArrowProjectionVisitor.list = _with_nulls(ArrowProjectionVisitor.list)  # type: ignore[method-assign]
ArrowProjectionVisitor.map = _with_nulls(ArrowProjectionVisitor.map)  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Files of main that hold rows to be replaced, and files with the other rows of these, already written."""

    removed: tuple[DataFile, ...]
    rewritten: tuple[DataFile, ...]


def visible(
    table: Table, slices: Sequence[Slice], identifier: str, heartbeat: Callable[[], None]
) -> tuple[AttemptRows, ...]:
    """Read the position columns of the files that may hold rows of some slices."""
    if not slices:
        return ()
    chosen, wanted = near(slices), SliceSet(slices)

    def chosen_rows() -> Iterator[pa.RecordBatch]:
        for batch in batches_of(table, chosen, (*POSITION, ATTEMPT), files_of(table, chosen, identifier)):
            heartbeat()
            yield batch.filter(pa.array(_inside(batch, wanted)))

    return runs_of(chosen_rows(), identifier).attempt_rows()


def tasks_for(table: Table, slices: Sequence[Slice], identifier: str) -> tuple[FileScanTask, ...]:
    """Return main's files that may hold rows of some slices, as of this load; by their bounds, unopened.

    Equality deletes are refused: they do not reach rows that are written later, so deleted rows would show again.
    """
    return tuple(files_of(table, near(slices), identifier))


def replacement(
    table: Table, tasks: Iterable[FileScanTask], slices: Sequence[Slice], heartbeat: Callable[[], None]
) -> Replacement:
    """Rewrite each file without the rows of the slices, and without the rows that position deletes have deleted.

    A file without rows of the slices stays; a file whose bounds prove that it has no others is not opened."""
    wanted = SliceSet(slices)
    single = len(slices) == 1
    whole = _StrictMetricsEvaluator(table.schema(), near(slices)).eval
    removed: list[DataFile] = []
    rewritten: list[DataFile] = []
    for task in tasks:
        heartbeat()
        if single and whole(task.file):
            removed.append(task.file)
            continue
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        rows = scan.to_table([task])
        replaced = _inside(rows, wanted)
        if not replaced.any():
            continue
        removed.append(task.file)
        rewritten += data_files(table, rows.filter(pa.array(~replaced)))
    return Replacement(removed=tuple(removed), rewritten=tuple(rewritten))


def _inside(rows: pa.Table | pa.RecordBatch, wanted: SliceSet) -> _Flags:
    """Return, for each row, whether its position is among the wanted ones; a row without a position is not."""
    offsets = _numbers(rows.column("kafka_offset"))
    streams = (
        _of(rows, topic_id, partition) & _among(offsets, part) for (_, topic_id, partition), part in wanted.items()
    )
    return functools.reduce(np.logical_or, streams, np.zeros(rows.num_rows, dtype=bool))


def _of(rows: pa.Table | pa.RecordBatch, topic_id: str, partition: int) -> _Flags:
    named = pc.equal(rows.column("kafka_topic_id"), topic_id)
    numbered = pc.equal(rows.column("kafka_partition"), partition)
    both = pc.fill_null(pc.and_(named, numbered), False)
    return np.asarray(both).astype(bool)


def _numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(column, -1)).astype(np.int64)


def _among(offsets: NDArray[np.int64], wanted: RangeSet) -> _Flags:
    starts, ends = (np.frombuffer(edges, dtype=np.int64) for edges in (wanted.starts, wanted.ends))
    place = np.searchsorted(starts, offsets, side="right") - 1
    found: _Flags = (place >= 0) & (offsets < ends[np.maximum(place, 0)])
    return found
