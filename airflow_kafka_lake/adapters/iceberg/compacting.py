"""Keep the number of a receipts table's files bounded: small ones become one, in a commit of their own.

A receipt is looked for by its attempt. Files are put together by how their attempts begin, so that a reader leaves most
of them out by their bounds, unopened, however many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import FileScanTask, Table

from airflow_kafka_lake.adapters.iceberg.replacing import Replacement
from airflow_kafka_lake.adapters.iceberg.writing import data_files

EVERY = 50
"""Commits of the table after which it is looked through."""

FEW = 8
"""So many small files of one beginning may stay; sixteen hexadecimal digits begin an attempt."""

LARGE_ROWS = 5_000
"""A file with as many rows is written anew never more: what one compaction costs does not grow with the history."""

MOST_FILES = 400
"""What one compaction reads at most; more, in a table that was never looked through, are left to the next."""


def compaction(table: Table) -> Replacement | None:
    """Write the rows of small files into fewer ones; None when there are few, or another engine has deleted rows."""
    groups: dict[bytes, list[DataFile]] = defaultdict(list)
    for file in _small_files(table):
        if beginning := _beginning(table, file):
            groups[beginning].append(file)
    removed: list[DataFile] = []
    rewritten: list[DataFile] = []
    for _, group in sorted(groups.items()):
        chosen = group[: MOST_FILES - len(removed)]
        if len(chosen) >= FEW:
            removed += chosen
            rewritten += _together(table, chosen)
    return Replacement(removed=tuple(removed), rewritten=tuple(rewritten)) if removed else None


def _small_files(table: Table) -> Iterator[DataFile]:
    snapshot = table.metadata.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    if any(item.content is not ManifestContent.DATA for item in manifests):
        return
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.record_count < LARGE_ROWS and entry.data_file.spec_id == table.spec().spec_id:
                yield entry.data_file


def _beginning(table: Table, file: DataFile) -> bytes | None:
    """Return how all attempts of a file begin; None where they differ, or that is not known."""
    field = table.schema().find_field("attempt").field_id
    lower, upper = (bounds.get(field, b"")[:1] for bounds in (file.lower_bounds or {}, file.upper_bounds or {}))
    return lower if lower == upper and lower else None


def _together(table: Table, files: Sequence[DataFile]) -> Sequence[DataFile]:
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    return data_files(table, scan.to_table([FileScanTask(file) for file in files]))
