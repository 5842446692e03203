"""Read rows of main: which files may hold them, and what other engines have deleted from these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table

from airflow_kafka_lake.core.errors import SchemaMismatchError


def files_of(table: Table, row_filter: BooleanExpression, identifier: str) -> Sequence[FileScanTask]:
    """Return main's files that may hold rows of a filter, as of this load, with the position deletes that reach them.

    Raises SchemaMismatchError for equality deletes that reach a row: what they leave visible cannot be told here.
    """
    manifests = _manifests(table)
    require_no_equality_deletes(table, manifests, identifier)
    return _planned(table, row_filter, manifests)


def written_files_of(table: Table, row_filter: BooleanExpression) -> Sequence[FileScanTask]:
    """Return the same files as they were written: rows that were deleted from them since count as well."""
    return _planned(table, row_filter, [m for m in _manifests(table) if m.content is ManifestContent.DATA])


def batches_of(
    table: Table, row_filter: BooleanExpression, fields: Sequence[str], files: Iterable[FileScanTask]
) -> Iterator[pa.RecordBatch]:
    """Read some columns of a filter's rows in files, one file after the other, batch by batch.

    PyIceberg's own reader begins with all files at once, and holds whatever is read faster than it is taken.
    """
    scan = table.scan(row_filter=row_filter, selected_fields=tuple(fields))
    reader = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter, scan.case_sensitive)
    for file in files:
        deletes = _read_all_delete_files(scan.io, [file])
        yield from reader._record_batches_from_scan_tasks_and_deletes([file], deletes)  # noqa: SLF001  # no other door


def require_no_equality_deletes(table: Table, manifests: Sequence[ManifestFile], identifier: str) -> None:
    """Refuse a table of which another engine has deleted rows by their values, unless no file is as old as that."""
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
    planner = ManifestGroupPlanner(table.metadata, table.io, row_filter)
    return list(planner.plan_files(manifests, lambda entry: not _is_equality(entry)))


def _is_equality(entry: ManifestEntry) -> bool:
    return entry.data_file.content is DataFileContent.EQUALITY_DELETES


def _oldest(manifest: ManifestFile) -> int:
    return manifest.min_sequence_number or 0
