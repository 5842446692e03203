"""Rows of a table: filters, files, Kafka positions, and their replacement."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from logging import getLogger
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyiceberg.table
from numpy.typing import NDArray
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Or,
)
from pyiceberg.expressions import And as All
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, ArrowScan, _dataframe_to_data_files, _read_all_delete_files
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.types import IcebergType, IntegerType, LongType, PrimitiveType, StringType

from airflow_kafka_lake.core.accounting import StreamContent
from airflow_kafka_lake.core.errors import SchemaMismatchError
from airflow_kafka_lake.core.ledger.records import AttemptRows
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, SliceSet, Stream
from airflow_kafka_lake.core.spark.job import PositionColumns
from airflow_kafka_lake.core.spec import sql_table

# Rows of a table: filters, the files of main that may hold matching rows, their rows, and new files.

_manifest_group_planner: Any = getattr(pyiceberg.table, "ManifestGroupPlanner", None)
"""None in PyIceberg 0.11, which the constraints of Airflow 3.2 and 3.3 name; it cannot read texts as codes either."""

# The model class of PyIceberg's expressions hides their signatures from type checkers.
_in = cast(Callable[[str, set[str]], BooleanExpression], In)
_is, _from, _below = (
    cast(Callable[[str, Any], BooleanExpression], kind) for kind in (EqualTo, GreaterThanOrEqual, LessThan)
)
_any = functools.partial(cast(Callable[..., BooleanExpression], Or), AlwaysFalse(), AlwaysFalse())
"""Any of some filters: of three and more PyIceberg makes a tree that is not deep."""
# PyIceberg warns of every column that it was asked to read as codes.
getLogger("pyiceberg.io.pyarrow").addFilter(lambda record: "a dictionary type" not in record.getMessage())

_MOST = 100
"""More slices of one stream are read as one, from the first to the last, and filtered after reading."""


def among(column: str, values: Iterable[str]) -> BooleanExpression:
    """Return the filter for rows whose text column has one of some values; no values match nothing."""
    return _in(column, set(values))


def near(slices: Iterable[Slice]) -> BooleanExpression:
    """Return the filter for rows of some slices, and perhaps of offsets of the same streams between them."""
    found: list[BooleanExpression] = []
    for (_, topic_id, partition), offsets in SliceSet(slices).items():
        parts = offsets.ranges
        if len(parts) > _MOST:
            parts = (OffsetRange(parts[0].start, parts[-1].end),)
        stream = All(_is("kafka_topic_id", topic_id), _is("kafka_partition", partition))
        asked = (All(_from("kafka_offset", part.start), _below("kafka_offset", part.end)) for part in parts)
        found.append(All(stream, _any(*asked)))
    return _any(*found)


def within(start: datetime, end: datetime) -> BooleanExpression:
    """Return the filter for rows with a timestamp from a time to another, exclusive."""
    return All(_from("kafka_timestamp", start.isoformat()), _below("kafka_timestamp", end.isoformat()))


def files_of(table: Table, row_filter: BooleanExpression, identifier: str) -> Sequence[FileScanTask]:
    """Return main's files that may hold rows of a filter, as of this load, with their position deletes.

    Raises SchemaMismatchError for equality deletes that may reach a row, because they cannot be applied here.
    """
    manifests = _manifests(table)
    require_no_equality_deletes(table, manifests, identifier)
    return _planned(table, row_filter, manifests)


def written_files_of(table: Table, row_filter: BooleanExpression) -> Sequence[FileScanTask]:
    """Return the same files without their deletes: rows that were deleted since count as well."""
    return _planned(table, row_filter, [m for m in _manifests(table) if m.content is ManifestContent.DATA])


def batches_of(
    table: Table,
    row_filter: BooleanExpression,
    fields: Sequence[str],
    files: Iterable[FileScanTask],
    *,
    coded: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Read some columns of a filter's rows in files, one file after the other, batch by batch.

    Texts of the `coded` columns come as Parquet has them: a code for each row, and each value once.
    """
    scan = table.scan(row_filter=row_filter, selected_fields=tuple(fields))
    can_code = _manifest_group_planner is not None
    how = {"dictionary_columns": tuple(coded)} if can_code else {}
    reader = ArrowScan(
        scan.table_metadata, scan.io, scan.projection(), scan.row_filter, scan.case_sensitive, **cast(Any, how)
    )
    for file in files:
        # `to_record_batches` begins with all files at once, and keeps the whole of a file in memory. Tried on PyIceberg
        # 0.11.1 to 0.12.0, as `_dataframe_to_data_files` below.
        deletes = _read_all_delete_files(scan.io, [file])
        found = reader._record_batches_from_scan_tasks_and_deletes([file], deletes)  # noqa: SLF001
        yield from found if can_code else (_coded(batch, coded) for batch in found)


def _coded(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    for name in columns:
        batch = batch.set_column(batch.schema.get_field_index(name), name, batch.column(name).dictionary_encode())
    return batch


def require_no_equality_deletes(table: Table, manifests: Sequence[ManifestFile], identifier: str) -> None:
    """Refuse a table from which another engine has deleted rows by value, unless all data files are newer."""
    oldest = min((m.min_sequence_number or 0 for m in manifests if m.content is ManifestContent.DATA), default=0)
    for manifest in manifests:
        if manifest.content is not ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if _is_equality(entry) and (entry.sequence_number or 0) > oldest:
                raise SchemaMismatchError(
                    f"Table {identifier} has equality delete files of another engine: which rows they leave cannot be "
                    "told here, nor can rows be replaced. Landing goes on without it; for anything else have an engine "
                    f"apply them. In Spark: CALL system.rewrite_data_files(table => '{sql_table(identifier)}', "
                    "options => map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')), then try again.",
                    table=identifier,
                    file=entry.data_file.file_path,
                )


def _manifests(table: Table) -> list[ManifestFile]:
    snapshot = table.metadata.current_snapshot()
    return snapshot.manifests(table.io) if snapshot else []


def _planned(table: Table, row_filter: BooleanExpression, manifests: Sequence[ManifestFile]) -> Sequence[FileScanTask]:
    if _manifest_group_planner is None:
        return list(_PlannerBefore012(table, row_filter, manifests).plan_files())
    planner = _manifest_group_planner(table.metadata, table.io, row_filter)
    return list(planner.plan_files(manifests, lambda entry: not _is_equality(entry)))


class _PlannerBefore012(DataScan):
    """Plans the files of given manifests with PyIceberg 0.11, which plans those of a snapshot only."""

    def __init__(self, table: Table, row_filter: BooleanExpression, manifests: Sequence[ManifestFile]) -> None:
        super().__init__(table.metadata, table.io, row_filter)
        self._manifests = list(manifests)

    def snapshot(self) -> Any:
        return SimpleNamespace(manifests=lambda _: self._manifests)

    def scan_plan_helper(self) -> Iterator[list[ManifestEntry]]:
        """Give the entries that may match, manifest by manifest, as `ManifestGroupPlanner` is asked to."""
        for entries in super().scan_plan_helper():  # type: ignore[misc]
            yield [entry for entry in entries if not _is_equality(entry)]


def _is_equality(entry: ManifestEntry) -> bool:
    return entry.data_file.content is DataFileContent.EQUALITY_DELETES


def data_files(table: Table, rows: pa.Table) -> Sequence[DataFile]:
    """Write rows as data files of the table's present partitioning; no file for no rows."""
    if not rows.num_rows:
        return ()
    # In public PyIceberg writes files and commits them in one go; ours are part of a commit that does more.
    files = tuple(_dataframe_to_data_files(table.metadata, rows, table.io))
    for file in files:
        file.spec_id = table.spec().spec_id
    return files


# Kafka positions of many rows: which offsets of which streams they have, without a Python step per row.

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
        self._runs: dict[tuple[str, Stream], list[tuple[_Ints, _Ints]]] = defaultdict(list)

    def add(self, batch: pa.RecordBatch | pa.Table, where: str) -> None:
        """Add the rows of one batch; SchemaMismatchError for a row without a position, naming `where` it was read."""
        if not batch.num_rows:
            return
        for name in POSITION:
            if batch.column(name).null_count:
                raise SchemaMismatchError(f"{where} holds a row without {name}; it was not written by a job of ours.")
        texts = [_coded_positions(batch.column(name)) for name in self._texts]
        partitions = np.asarray(batch.column("kafka_partition"))
        offsets = np.asarray(batch.column("kafka_offset")).astype(np.int64, copy=False)
        # Most batches have one topic, one id and one attempt: a column of one value breaks no run.
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
            self._runs[key].append((starts[mine], ends[mine]))

    def merge(self, other: Runs) -> None:
        for key, runs in other._runs.items():
            self._runs[key] += runs

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
        for key in sorted(self._runs):
            yield key, *_joined(*map(np.concatenate, zip(*self._runs.pop(key), strict=True)))


def runs_of(batches: Iterable[pa.RecordBatch], where: str, topic_ids: Collection[str] | None = None) -> Runs:
    """Collect batches by attempt; rows without a position, which no job of ours wrote, are left out."""
    found = Runs(by_attempt=True, topic_ids=topic_ids)
    for batch in batches:
        partly = [pc.is_valid(column) for name in POSITION if (column := batch.column(name)).null_count]
        found.add(batch.filter(functools.reduce(pc.and_, partly)) if partly else batch, where)
    return found


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
    """Sort runs, and join the ones that overlap or touch."""
    if not np.all(starts[1:] >= starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    firsts = np.flatnonzero(np.concatenate(([True], starts[1:] > reached[:-1])))
    return starts[firsts], reached[np.concatenate((firsts[1:] - 1, [len(starts) - 1]))]


def _coded_positions(column: pa.Array | pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
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


# Take rows out of main's files: find the files that hold them, and rewrite these without the rows.

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
    table: Table, slices: Sequence[Slice], files: Sequence[FileScanTask], heartbeat: Callable[[], None]
) -> tuple[AttemptRows, ...]:
    """Read the position columns of the files that may hold rows of some slices."""
    wanted = SliceSet(slices)

    def chosen_rows() -> Iterator[pa.RecordBatch]:
        for batch in batches_of(table, near(slices), (*POSITION, ATTEMPT), files):
            heartbeat()
            yield batch.filter(pa.array(_inside(batch, wanted)))

    return runs_of(chosen_rows(), ".".join(table.name())).attempt_rows()


def replacement(
    table: Table, tasks: Iterable[FileScanTask], slices: Sequence[Slice], heartbeat: Callable[[], None]
) -> Replacement:
    """Rewrite each file without the rows of the slices, and without the rows that position deletes have deleted.

    A file without rows of the slices stays; a file whose bounds prove that it has no others is not opened."""
    wanted = SliceSet(slices)
    single = len(slices) == 1
    removed: list[DataFile] = []
    rewritten: list[DataFile] = []
    for task in tasks:
        heartbeat()
        if single and _is_within(task.file, table.schema(), slices[0]):
            removed.append(task.file)
            continue
        rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
        replaced = _inside(rows, wanted)
        if not replaced.any():
            continue
        removed.append(task.file)
        rewritten += data_files(table, rows.filter(pa.array(~replaced)))
    return Replacement(removed=tuple(removed), rewritten=tuple(rewritten))


def _is_within(file: DataFile, schema: Schema, part: Slice) -> bool:
    """Return whether a file's bounds prove that it has rows of the slice only.

    A row without a position is no row of the slice. A bound that was cut short equals no topic id.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for name in POSITION[1:]:
        field = schema.find_field(name)
        kind, number = cast(PrimitiveType, field.field_type), field.field_id
        low, high = ((bounds or {}).get(number) for bounds in (file.lower_bounds, file.upper_bounds))
        if low is None or high is None or (file.null_value_counts or {}).get(number):
            return False
        found[name] = from_bytes(kind, low), from_bytes(kind, high)
    _, topic_id, partition = part.stream
    first, last = found["kafka_offset"]
    return (
        found["kafka_topic_id"] == (topic_id, topic_id)
        and found["kafka_partition"] == (partition, partition)
        and part.range.start <= first
        and last < part.range.end
    )


def _inside(rows: pa.Table | pa.RecordBatch, wanted: SliceSet) -> _Flags:
    """Return, for each row, whether its position is among the wanted ones; a row without a position is not."""
    offsets = np.asarray(pc.fill_null(rows.column("kafka_offset"), -1)).astype(np.int64)
    streams = (
        _of(rows, topic_id, partition) & _among(offsets, part) for (_, topic_id, partition), part in wanted.items()
    )
    return functools.reduce(np.logical_or, streams, np.zeros(rows.num_rows, dtype=bool))


def _of(rows: pa.Table | pa.RecordBatch, topic_id: str, partition: int) -> _Flags:
    named = pc.equal(rows.column("kafka_topic_id"), topic_id)
    numbered = pc.equal(rows.column("kafka_partition"), partition)
    both = pc.fill_null(pc.and_(named, numbered), False)
    return np.asarray(both).astype(bool)


def _among(offsets: NDArray[np.int64], wanted: RangeSet) -> _Flags:
    starts, ends = (np.frombuffer(edges, dtype=np.int64) for edges in (wanted.starts, wanted.ends))
    place = np.searchsorted(starts, offsets, side="right") - 1
    found: _Flags = (place >= 0) & (offsets < ends[np.maximum(place, 0)])
    return found
