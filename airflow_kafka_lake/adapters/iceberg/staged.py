"""The staged rows of an attempt: the files that its branch added, each of them opened, and the decode failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.schema import Schema, build_position_accessors
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from airflow_kafka_lake.adapters.iceberg.head import history, main_history, summary_of
from airflow_kafka_lake.adapters.iceberg.rows import ATTEMPT, POSITION, TEXTS, Runs
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.decoding import ERROR_COLUMN
from airflow_kafka_lake.core.errors import JobFailedError, SchemaMismatchError
from airflow_kafka_lake.core.ledger.records import StagedContent, UndecodedOffsets
from airflow_kafka_lake.core.offsets import Stream
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.jobs.formats import DECODED_AS, STAGED_BY

_STREAM = list(POSITION[:3])

READERS = 4
"""Files that are read at the same time: storage may take long to answer."""

_ROWS_AT_ONCE = 1 << 17


class Failures:
    """Collects rows that did not decode; row groups without the column of errors have none."""

    def __init__(self) -> None:
        self._offsets = Runs()
        self._first: dict[Stream, tuple[int, str]] = {}

    def add(self, group: pa.Table, where: str) -> None:
        """Add the rows of one row group that have an error."""
        if ERROR_COLUMN not in group.column_names or group.column(ERROR_COLUMN).null_count == group.num_rows:
            return
        failed = group.filter(pc.is_valid(group.column(ERROR_COLUMN)))
        self._offsets.add(failed, where)
        plain = failed.select([*POSITION, ERROR_COLUMN])
        for number, name in enumerate(_STREAM[:2]):
            plain = plain.set_column(number, name, plain.column(name).cast(pa.string()))
        first = plain.sort_by("kafka_offset").group_by(_STREAM, use_threads=False)
        for row in first.aggregate([("kafka_offset", "first"), (ERROR_COLUMN, "first")]).to_pylist():
            self._note(
                Stream(*(row[name] for name in _STREAM)), row["kafka_offset_first"], row[f"{ERROR_COLUMN}_first"]
            )

    def merge(self, other: Failures) -> None:
        self._offsets.merge(other._offsets)
        for stream, (offset, reason) in other._first.items():
            self._note(stream, offset, reason)

    def found(self) -> tuple[UndecodedOffsets, ...]:
        """Return every stream with failures, sorted."""
        return tuple(
            UndecodedOffsets(stream=item.stream, offsets=item.offsets, reason=self._first[item.stream][1])
            for item in self._offsets.contents()
        )

    def _note(self, stream: Stream, offset: int, reason: str) -> None:
        self._first[stream] = min((offset, reason), self._first.get(stream, (offset, reason)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFiles:
    """The snapshot an attempt's job committed, and the data files it added; none for a job that had no rows."""

    attempt: str
    snapshot: Snapshot
    files: tuple[DataFile, ...]


def staged_snapshot(metadata: TableMetadata, attempt: str) -> Snapshot | None:
    """Return the snapshot that the attempt's job committed to its branch; None when it has not finished.

    A finished job has committed exactly once, also without rows, and its commit names the attempt. Raises
    JobFailedError for a branch that was written to after, or twice.
    """
    ref = metadata.refs.get(branch_of(attempt))
    if ref is None:
        return None
    published = {snapshot.snapshot_id for snapshot in main_history(metadata)}
    own = list(takewhile(lambda item: item.snapshot_id not in published, history(metadata, ref.snapshot_id)))
    staged = [snapshot for snapshot in own if summary_of(snapshot).get(STAGED_BY) == attempt]
    if staged and (len(staged) > 1 or staged[0] is not own[0]):
        raise JobFailedError(
            f"Staging branch {branch_of(attempt)} was written to again after its job had finished. Stage again.",
            attempt=attempt,
        )
    return staged[0] if staged else None


def staged_files(table: Table, snapshot: Snapshot, attempt: str) -> StagedFiles:
    """Return the files that the staged snapshot itself added. Raises JobFailedError if it deleted any."""
    files: list[DataFile] = []
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        entries = [
            entry
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            if entry.snapshot_id == snapshot.snapshot_id
        ]
        # A commit may also leave out delete files that reach no row any more, which deletes nothing.
        has_data = manifest.content is ManifestContent.DATA
        deleting = ManifestEntryStatus.DELETED if has_data else ManifestEntryStatus.ADDED
        if any(entry.status == deleting for entry in entries):
            raise JobFailedError(
                f"Staging branch {branch_of(attempt)} deletes rows, and a job only appends. Stage again.",
                attempt=attempt,
            )
        files.extend(entry.data_file for entry in entries if entry.status == ManifestEntryStatus.ADDED)
    return StagedFiles(attempt=attempt, snapshot=snapshot, files=tuple(files))


def read_staged(table: Table, staged: StagedFiles, heartbeat: Callable[[int], None] = lambda _: None) -> StagedContent:
    """Open every file, a few at a time, and collect which offsets it holds; `heartbeat` gets the rows of each."""
    everything, failures = Runs(), Failures()
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="staged") as readers:
        found = readers.map(lambda file: _read_file(table.io, file, staged.attempt), staged.files)
        for file, (runs, failed) in zip(staged.files, found, strict=True):
            everything.merge(runs)
            failures.merge(failed)
            heartbeat(file.record_count)
    return StagedContent(
        snapshot=staged.snapshot.snapshot_id,
        bytes=sum(file.file_size_in_bytes for file in staged.files),
        streams=everything.contents(),
        undecoded=failures.found(),
        decoding=summary_of(staged.snapshot).get(DECODED_AS),
        filled=_filled(table.schema(), staged.files),
    )


def _filled(schema: Schema, files: Sequence[DataFile]) -> dict[str, int]:
    """Return in how many rows each column and each field of a struct has a value, by its path. Writers count nothing in
    lists, maps, and columns beyond as many as the table's properties say."""
    counts, rows = [file.null_value_counts or {} for file in files], sum(file.record_count for file in files)
    known = (leaf for leaf in build_position_accessors(schema) if all(leaf in each for each in counts))
    return {str(schema.find_column_name(leaf)): rows - sum(each[leaf] for each in counts) for leaf in known}


def _read_file(io: FileIO, file: DataFile, attempt: str) -> tuple[Runs, Failures]:
    if file.file_format != FileFormat.PARQUET:
        raise SchemaMismatchError(f"Staged file {file.file_path} is {file.file_format}, not Parquet.")
    runs, failures, rows = Runs(), Failures(), 0
    try:
        for group in _row_groups(io, file.file_path):
            _require_attempt(group, file.file_path, attempt)
            runs.add(group, f"Staged file {file.file_path}")
            failures.add(group, f"Staged file {file.file_path}")
            rows += group.num_rows
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, FileNotFoundError) or _is_damaged(io, file.file_path):
            raise _unreadable(file, attempt, f"cannot be read ({type(error).__name__})") from error
        raise
    if rows != file.record_count:
        raise _unreadable(file, attempt, f"holds {count(rows, 'row')} where its manifest says {file.record_count:,}")
    return runs, failures


def _is_damaged(io: FileIO, path: str) -> bool:
    """Return whether a file can be read and is no Parquet file; OSError if storage does not return its bytes.

    One failed reading is not proof enough, because the file may be the only copy of its records.
    """
    with io.new_input(path).open() as stream:
        content = pa.BufferReader(stream.read())
    try:
        with pq.ParquetFile(content) as parquet:
            for number in range(parquet.num_row_groups):
                parquet.read_row_group(number, use_threads=False)
    except (OSError, pa.ArrowException):
        return True
    return False


def readable(io: FileIO, path: str) -> bool:
    """Return whether a data file exists and has a Parquet footer."""
    try:
        with io.new_input(path).open() as stream, pq.ParquetFile(stream):
            return True
    except (FileNotFoundError, pa.ArrowInvalid):
        return False


def _row_groups(io: FileIO, path: str) -> Iterator[pa.Table]:
    with io.new_input(path).open() as stream, pq.ParquetFile(stream, read_dictionary=TEXTS) as parquet:
        if missing := sorted({*POSITION, ATTEMPT} - set(parquet.schema_arrow.names)):
            raise SchemaMismatchError(f"Staged file {path} has no column {missing[0]}.")
        wanted = [*POSITION, ATTEMPT, *({ERROR_COLUMN} & set(parquet.schema_arrow.names))]
        # Row groups may have millions of rows, and several files are read at once.
        for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=wanted, use_threads=False):
            yield pa.Table.from_batches([batch])


def _require_attempt(group: pa.Table, path: str, attempt: str) -> None:
    foreign = [value for value in pc.unique(group.column(ATTEMPT)).to_pylist() if value != attempt]
    if foreign:
        raise SchemaMismatchError(
            f"Staged file {path} of attempt {attempt} holds rows of attempt {foreign[0]}.",
            attempt=attempt,
            found=foreign[0],
        )


def _unreadable(file: DataFile, attempt: str, what: str) -> JobFailedError:
    return JobFailedError(
        f"Staged file {file.file_path} of attempt {attempt} {what}; the attempt cannot be published. Stage again.",
        attempt=attempt,
        file=file.file_path,
    )
