"""The receipts table: a record in the lake of each attempt's publish, beside the table that it published to."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotsUpdate, TableUpdate
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType, TimestamptzType

from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog
from airflow_kafka_lake.adapters.iceberg.commit import (
    PreparedSnapshot,
    append_to_main,
    is_named_failure,
    prepare,
    require_ref,
    require_schema,
    require_uuid,
    shows,
    write_snapshot,
)
from airflow_kafka_lake.adapters.iceberg.head import main_history
from airflow_kafka_lake.adapters.iceberg.rows import Replacement, among, data_files
from airflow_kafka_lake.adapters.iceberg.schema import require_fit
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.errors import ConcurrentError, KafkaLakeError
from airflow_kafka_lake.core.ledger.records import ReceiptRow
from airflow_kafka_lake.core.offsets import OffsetRange, RangeSet, Slice, Stream, grouped
from airflow_kafka_lake.core.spec import RECEIPTS_SUFFIX

EVERY = 50
"""After so many commits of the table its small files are compacted."""

FEW = 8
"""Fewer small files with the same first hexadecimal digit of their attempts are not compacted."""

LARGE_ROWS = 5_000
"""A file with so many rows is never compacted again, so that the cost does not grow with the history."""

MOST_FILES = 400
"""One compaction reads at most so many files; the next one reads the rest."""

_TIMEOUT_SECONDS = 45
"""Less than half a lease, so that an attempt that waits here keeps its wave."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
_logger = logging.getLogger(__name__)
_NUMBERS = ("visible", "control", "aborted", "compacted", "skipped", "unexplained")
_ACCOUNTING = StructType(*(NestedField(17 + i, name, LongType(), required=False) for i, name in enumerate(_NUMBERS)))
RECEIPTS = Schema(
    NestedField(1, "pipeline", StringType(), required=False),
    NestedField(2, "wave", StringType(), required=False),
    NestedField(3, "attempt", StringType(), required=False),
    NestedField(4, "fence", IntegerType(), required=False),
    NestedField(5, "kind", StringType(), required=False),
    NestedField(6, "kafka_topic", StringType(), required=False),
    NestedField(7, "kafka_topic_id", StringType(), required=False),
    NestedField(8, "kafka_partition", IntegerType(), required=False),
    NestedField(9, "start_offset", LongType(), required=False),
    NestedField(10, "end_offset", LongType(), required=False),
    NestedField(11, "generation", IntegerType(), required=False),
    NestedField(12, "row_count", LongType(), required=False),
    NestedField(13, "first_offset", LongType(), required=False),
    NestedField(14, "last_offset", LongType(), required=False),
    NestedField(15, "accounting", _ACCOUNTING, required=False),
    NestedField(16, "recorded_at", TimestamptzType(), required=False),
    NestedField(23, "leader_epoch", IntegerType(), required=False),
    NestedField(24, "offsets", StringType(), required=False),
)
_LATER = {"leader_epoch", "offsets"}
"""A table that was created without these columns is used without them."""
_OPTIONAL = {"first_offset", "last_offset", *_LATER}
_NEEDED = [field.name for field in RECEIPTS.fields if field.name not in _OPTIONAL]
_FIT = Schema(*(field for field in RECEIPTS.fields if field.name not in _LATER))
_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

_SNAPSHOTS_KEPT = 20

_ALIKE = ["pipeline", "wave", "attempt", "fence", "kind", "generation", "first_offset", "last_offset", "recorded_at"]
"""Columns that are named as the fields of a receipt."""

Identity = tuple[Any, ...]
_IDENTITY = ["attempt", "kind", "kafka_topic_id", "kafka_partition", "start_offset", "end_offset", "generation"]


def compaction(table: Table) -> Replacement | None:
    """Write the rows of small files into fewer ones; None when there are few, or another engine has deleted rows.

    Receipts are read by attempt. Files are grouped by the first digit of their attempts, so that a reader skips most of
    them by their bounds.
    """
    groups = grouped((digit, file) for file in _small_files(table) if (digit := _first_digit(table, file)))
    removed: list[DataFile] = []
    rewritten: list[DataFile] = []
    for _, group in sorted(groups.items()):
        chosen = group[: MOST_FILES - len(removed)]
        if len(chosen) >= FEW:
            removed += chosen
            scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
            rewritten += data_files(table, scan.to_table([FileScanTask(file) for file in chosen]))
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


def _first_digit(table: Table, file: DataFile) -> bytes | None:
    """Return the first digit of all attempts of a file; None where they differ or it is unknown."""
    field = table.schema().find_field("attempt").field_id
    lower, upper = (bounds.get(field, b"")[:1] for bounds in (file.lower_bounds or {}, file.upper_bounds or {}))
    return lower if lower == upper and lower else None


class Receipts:
    """Receipts of one lake table."""

    def __init__(self, catalog: OpenCatalog, identifier: str, now_ms: Callable[[], int]) -> None:
        self._catalog = catalog
        self._identifier = identifier + RECEIPTS_SUFFIX
        self._now_ms = now_ms

    def add(self, rows: Sequence[ReceiptRow]) -> None:
        """Append the rows that the table does not have yet.

        When another writer has moved main, the table is read again before the next try. Concurrent writers wait for
        random times, so that none of them is refused again and again.
        """
        end, pause = time.monotonic() + _TIMEOUT_SECONDS, _FIRST_PAUSE_SECONDS
        prepared: dict[frozenset[Identity], PreparedSnapshot] = {}
        while rows and not self._added(rows, prepared):
            if time.monotonic() > end:
                raise ConcurrentError(
                    f"{self._identifier} was written to by others for {_TIMEOUT_SECONDS} seconds without a break. "
                    "Try again.",
                    table=self._identifier,
                )
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _added(self, rows: Sequence[ReceiptRow], prepared: dict[frozenset[Identity], PreparedSnapshot]) -> bool:
        """Try once; False when main of the receipts moved meanwhile. `prepared` keeps written files for later tries."""
        table = self._catalog.find(self._identifier) or self._catalog.create(self._identifier, RECEIPTS, _PROPERTIES)
        with self._catalog.reaching(f"add receipts to {self._identifier}"):
            there = _identities(table, {row.attempt for row in rows})
            records = {tuple(record[name] for name in _IDENTITY): record for record in map(_record, rows)}
            missing = {identity: record for identity, record in records.items() if identity not in there}
            if not missing:
                return True
            key = frozenset(missing)
            if key not in prepared:
                files = data_files(table, pa.Table.from_pylist(list(missing.values()), table.schema().as_arrow()))
                prepared[key] = prepare(table, files)
            added = self._committed(table, prepared[key])
        if added is None:
            return False
        if (added.sequence_number or 0) % EVERY == 0:
            self._compact()
        return True

    def _committed(self, table: Table, prepared: PreparedSnapshot) -> Snapshot | None:
        """Commit on main as it was read; None when it has moved meanwhile."""
        snapshot = write_snapshot(table, prepared, {}, self._now_ms())
        required = (
            require_uuid(str(table.metadata.table_uuid)),
            require_ref(MAIN_BRANCH, table.metadata.current_snapshot_id),
            require_schema(table.metadata.current_schema_id),
        )
        try:
            self._catalog.commit(
                table, required, (*append_to_main(snapshot), *_forgotten(table)), is_seen=shows(snapshot)
            )
        except (CommitFailedException, ValueError, BadRequestError) as error:
            if not is_named_failure(error):
                raise
            return None
        return snapshot

    def _compact(self) -> None:
        """Compact small files by one commit that changes no row.

        A failure is only logged: the receipts were added before, and the next compaction tries again.
        """
        try:
            table = self._catalog.load(self._identifier)
            with self._catalog.reaching(f"put small files of {self._identifier} together"):
                if (found := compaction(table)) is not None:
                    self._committed(table, prepare(table, found.rewritten, found.removed))
        except KafkaLakeError as error:
            _logger.info("%s", error.message)

    def rows_of(self, attempt: str) -> tuple[ReceiptRow, ...]:
        """Return the `rows` receipts of an attempt, by stream and start."""
        found = self._read(And(among("attempt", [attempt]), among("kind", ["rows"])))
        return tuple(sorted(found, key=lambda r: (*r.stream, r.range)))

    def published(self, attempts: Sequence[str]) -> str | None:
        """Return one of some attempts that has a receipt of its commit; None when there is none."""
        found = self._read(And(among("attempt", attempts), among("kind", ["published"])))
        return next((row.attempt for row in found), None)

    def all(self) -> tuple[ReceiptRow, ...]:
        return tuple(sorted(self._read(AlwaysTrue()), key=lambda row: row.recorded_at))

    def _read(self, row_filter: BooleanExpression) -> Iterable[ReceiptRow]:
        table = self._catalog.find(self._identifier)
        if table is None:
            return []
        with self._catalog.reaching(f"read {self._identifier}"):
            require_fit(table, _FIT, ".".join(table.name()))
            records = table.scan(row_filter=row_filter).to_arrow().to_pylist()
            return [_row(record) for record in records if not any(record[name] is None for name in _NEEDED)]


def _forgotten(table: Table) -> Iterable[TableUpdate]:
    """Remove all but the newest snapshots, because the newest one has every receipt.

    Not with every commit, so that readers can finish on the snapshot with which they began.
    """
    snapshots = list(main_history(table.metadata))
    if len(snapshots) >= 2 * _SNAPSHOTS_KEPT:
        # Their files stay.
        gone = [item.snapshot_id for item in snapshots[_SNAPSHOTS_KEPT:]]
        yield RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone})


def _identities(table: Table, attempts: set[str]) -> set[Identity]:
    """Return which receipts of some attempts are there, without making rows of them: a wave may have thousands."""
    require_fit(table, _FIT, ".".join(table.name()))
    found = table.scan(row_filter=among("attempt", attempts), selected_fields=tuple(_NEEDED)).to_arrow()
    whole = found.select(_NEEDED).drop_null().select(_IDENTITY)
    return set(zip(*(column.to_pylist() for column in whole.columns), strict=True))


def _record(row: ReceiptRow) -> dict[str, Any]:
    stream, offsets = row.stream, None if row.offsets is None else json.dumps(row.offsets.to_pairs())
    values = (
        *(row.pipeline, row.wave, row.attempt, row.fence, row.kind, stream.topic, stream.topic_id, stream.partition),
        *(row.range.start, row.range.end, row.generation, row.rows, row.first_offset, row.last_offset),
        *(row.accounting.to_json(), row.recorded_at, row.leader_epoch, offsets),
    )
    return dict(zip((field.name for field in RECEIPTS.fields), values, strict=True))


def _row(record: dict[str, Any]) -> ReceiptRow:
    return ReceiptRow(
        **{name: record[name] for name in _ALIKE},
        slice=Slice(
            Stream(record["kafka_topic"], record["kafka_topic_id"], record["kafka_partition"]),
            OffsetRange(record["start_offset"], record["end_offset"]),
        ),
        rows=record["row_count"],
        accounting=Accounting(**record["accounting"]),
        leader_epoch=record.get("leader_epoch"),
        offsets=RangeSet.of(*json.loads(pairs)) if (pairs := record.get("offsets")) else None,
    )
