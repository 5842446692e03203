"""Rows of a table: filters, the files of main that may hold matching rows, their rows, and new files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from logging import getLogger
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyiceberg.table
from pyiceberg.expressions import (
    AlwaysFalse,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Or,
)
from pyiceberg.expressions import And as All
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, _read_all_delete_files
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import DataScan, FileScanTask, Table

from airflow_kafka_lake.core.errors import SchemaMismatchError
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.slices import Slice, SliceSet

_manifest_group_planner: Any = getattr(pyiceberg.table, "ManifestGroupPlanner", None)
"""None in PyIceberg 0.11, which the constraints of Airflow 3.2 and 3.3 name; it cannot read texts as codes either."""

# The model class of PyIceberg's expressions hides their signatures from type checkers.
_in = cast(Callable[[str, set[str]], BooleanExpression], In)
_is, _from, _below = (
    cast(Callable[[str, Any], BooleanExpression], kind) for kind in (EqualTo, GreaterThanOrEqual, LessThan)
)
_either = cast(Callable[[BooleanExpression, BooleanExpression], BooleanExpression], Or)
_NOTHING: BooleanExpression = AlwaysFalse()
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
        found.append(All(stream, _any(asked)))
    return _any(found)


def _any(wanted: Iterable[BooleanExpression]) -> BooleanExpression:
    return functools.reduce(_either, wanted, _NOTHING)


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
    PyIceberg's own reader begins with all files at once, and keeps in memory what is read faster than it is consumed.
    """
    scan = table.scan(row_filter=row_filter, selected_fields=tuple(fields))
    can_code = _manifest_group_planner is not None
    how = {"dictionary_columns": tuple(coded)} if can_code else {}
    reader = ArrowScan(
        scan.table_metadata, scan.io, scan.projection(), scan.row_filter, scan.case_sensitive, **cast(Any, how)
    )
    for file in files:
        deletes = _read_all_delete_files(scan.io, [file])
        found = reader._record_batches_from_scan_tasks_and_deletes([file], deletes)  # noqa: SLF001  # no other door
        yield from found if can_code else (_coded(batch, coded) for batch in found)


def _coded(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    for name in columns:
        batch = batch.set_column(batch.schema.get_field_index(name), name, batch.column(name).dictionary_encode())
    return batch


def require_no_equality_deletes(table: Table, manifests: Sequence[ManifestFile], identifier: str) -> None:
    """Refuse a table from which another engine has deleted rows by value, unless all data files are newer."""
    oldest = min((_oldest(m) for m in manifests if m.content is ManifestContent.DATA), default=0)
    for manifest in manifests:
        if manifest.content is not ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if _is_equality(entry) and (entry.sequence_number or 0) > oldest:
                raise SchemaMismatchError(
                    f"Table {identifier} has equality delete files of another engine: which rows they leave cannot be "
                    "told here, nor can rows be replaced. Landing goes on without it; for anything else have an engine "
                    f"apply them. In Spark: CALL system.rewrite_data_files(table => '{identifier}', options => "
                    "map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')), then try again.",
                    table=identifier,
                    file=entry.data_file.file_path,
                )


def _manifests(table: Table) -> list[ManifestFile]:
    snapshot = table.metadata.current_snapshot()
    return snapshot.manifests(table.io) if snapshot else []


def _planned(table: Table, row_filter: BooleanExpression, manifests: Sequence[ManifestFile]) -> Sequence[FileScanTask]:
    if _manifest_group_planner is None:
        return list(_PlannerBefore012(table, row_filter, manifests)._plan_files_local())  # noqa: SLF001  # no other door
    planner = _manifest_group_planner(table.metadata, table.io, row_filter)
    return list(planner.plan_files(manifests, lambda entry: not _is_equality(entry)))


class _PlannerBefore012(DataScan):
    """Plans the files of given manifests with PyIceberg 0.11, which plans those of a snapshot only."""

    def __init__(self, table: Table, row_filter: BooleanExpression, manifests: Sequence[ManifestFile]) -> None:
        super().__init__(table.metadata, table.io, row_filter)
        self._manifests = list(manifests)

    def snapshot(self) -> Any:
        """Return what has the manifests."""
        return SimpleNamespace(manifests=lambda _: self._manifests)

    def scan_plan_helper(self) -> Iterator[list[ManifestEntry]]:
        """Give the entries that may match, manifest by manifest, as `ManifestGroupPlanner` is asked to."""
        for entries in super().scan_plan_helper():  # type: ignore[misc]
            yield [entry for entry in entries if not _is_equality(entry)]


def _is_equality(entry: ManifestEntry) -> bool:
    return entry.data_file.content is DataFileContent.EQUALITY_DELETES


def _oldest(manifest: ManifestFile) -> int:
    return manifest.min_sequence_number or 0


def data_files(table: Table, rows: pa.Table) -> Sequence[DataFile]:
    """Write rows as data files of the table's present partitioning; no file for no rows."""
    if not rows.num_rows:
        return ()
    files = tuple(_dataframe_to_data_files(table.metadata, rows, table.io))
    for file in files:
        file.spec_id = table.spec().spec_id
    return files
