"""The lake and its tables: the ports' methods over one catalog."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.table import FileScanTask, Table

from airflow_kafka_lake.adapters.iceberg.catalog import OpenCatalog, checked_identifier
from airflow_kafka_lake.adapters.iceberg.commit import (
    prove_branches,
    remove_branch,
    require_clock,
    require_ref,
    require_uuid,
)
from airflow_kafka_lake.adapters.iceberg.head import commits_of, find_commit, head_of
from airflow_kafka_lake.adapters.iceberg.publish import Publisher
from airflow_kafka_lake.adapters.iceberg.receipts import Receipts
from airflow_kafka_lake.adapters.iceberg.rows import (
    ATTEMPT,
    POSITION,
    TEXTS,
    Runs,
    among,
    batches_of,
    files_of,
    near,
    positions_of,
    require_columns,
    runs_of,
    visible,
    within,
)
from airflow_kafka_lake.adapters.iceberg.schema import LANDING, LANDING_PROPERTIES, partition_spec, require_fit
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.staged import READERS, read_staged, readable, staged_files, staged_snapshot
from airflow_kafka_lake.core.accounting import StreamContent
from airflow_kafka_lake.core.amounts import count
from airflow_kafka_lake.core.errors import ConcurrentError, DamagedTableError, UnknownSubjectError
from airflow_kafka_lake.core.ledger.history import EventRef
from airflow_kafka_lake.core.ledger.records import AttemptRows, Commit, Publication, ReceiptRow, StagedContent
from airflow_kafka_lake.core.ledger.waves import AttemptRecord, CommitSearch, PublishOutcome, TableHead, Token
from airflow_kafka_lake.core.offsets import Slice
from airflow_kafka_lake.core.reports.lineage import Column, TableDescription
from airflow_kafka_lake.core.spark.job import PositionColumns, attempts_of, branch_of
from airflow_kafka_lake.core.wire import PROVEN


def describe(catalog: OpenCatalog, identifier: str, address: str | None) -> TableDescription:
    """Load a table and describe it, with the `address` of its catalog; UnknownSubjectError when it does not exist."""
    table = catalog.load(identifier)
    return TableDescription(
        format="iceberg",
        file_format=table.properties.get("write.format.default", "parquet"),
        location=table.location(),
        columns=tuple(
            Column(name=item.name, type=str(item.field_type), doc=item.doc) for item in table.schema().fields
        ),
        catalog=address,
    )


T = TypeVar("T")
_DROP_TRIES = 10


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class IcebergLake:
    """`ports.Lake` over an Iceberg catalog; opens nothing until a table is used."""

    def __init__(self, settings: LakeSettings, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self.catalog = OpenCatalog(settings)
        self._now_ms = now_ms
        self._tables: dict[str, IcebergTable] = {}

    def table(self, identifier: str) -> IcebergTable:
        """Return the table's handle, the same for the same name; UnknownSubjectError for an illegal one."""
        if identifier not in self._tables:
            self._tables[identifier] = IcebergTable(self.catalog, checked_identifier(identifier), self._now_ms)
        return self._tables[identifier]

    def look(self, identifier: str) -> str | None:
        return self.catalog.look(checked_identifier(identifier))

    def rehearse(self, identifier: str, partition_by: str) -> tuple[str, str]:
        def try_out(name: str) -> str:
            IcebergTable(self.catalog, name, self._now_ms).ensure(partition_by)
            return str(self.catalog.look(name))

        return self.catalog.beside(checked_identifier(identifier), try_out)

    def close(self) -> None:
        self.catalog.close()


class IcebergTable:
    """`ports.LakeTable` over one Iceberg table of format version 2."""

    def __init__(self, catalog: OpenCatalog, identifier: str, now_ms: Callable[[], int]) -> None:
        self.identifier = identifier
        self._catalog = catalog
        self._now_ms = now_ms
        self._publisher = Publisher(catalog, identifier, now_ms)
        self._receipts = Receipts(catalog, identifier, now_ms)

    def ensure(self, partition_by: str) -> TableHead:
        """Create the table when it is missing, check that it fits, and try once that the catalog keeps its branches.

        `partition_by` is for a new table; an existing one keeps its partitioning, which jobs follow. Raises
        SchemaMismatchError with every difference, ConnectionSettingsError for a catalog that does not keep branches.
        """
        table = self._catalog.find(self.identifier)
        if table is None:
            spec = partition_spec(partition_by, LANDING)
            table = self._catalog.create(self.identifier, LANDING, LANDING_PROPERTIES, spec)
        require_fit(table, LANDING, self.identifier)
        if not self._head_of(table).is_proven:
            if fault := prove_branches(self._catalog, self.identifier, self._now_ms):
                with self._catalog.reaching("ask the catalog what it is"):
                    raise self._catalog.without_branches(self.identifier, fault)
            table = self._catalog.load(self.identifier)
        return self._head_of(table)

    def _head_of(self, table: Table) -> TableHead:
        # A table that was registered in a SQL catalog keeps the properties that another catalog has recorded on it.
        is_proven = self._catalog.identity in {None, table.properties.get(PROVEN)}
        return replace(head_of(table.metadata), is_proven=is_proven)

    def head(self) -> TableHead:
        """Load the table freshly; UnknownSubjectError: it does not exist, SchemaMismatchError: it does not fit."""
        table = self._catalog.load(self.identifier)
        require_fit(table, LANDING, self.identifier)
        return self._head_of(table)

    def claim_ownership(self, ledger_id: str, pipeline: str, topic_ids: Sequence[str]) -> PublishOutcome:
        """Record the owner of each topic in a commit that moves main; Committed with the head when nothing is new.

        Rejected names another owner, or that main moved meanwhile: then the same call may succeed.
        """
        return self._publisher.claim(ledger_id, pipeline, topic_ids)

    def find_commit(self, attempts: Sequence[AttemptRecord]) -> CommitSearch:
        table = self._catalog.load(self.identifier)
        with self._catalog.reaching(f"look for attempts in {self.identifier}"):
            found = find_commit(table, attempts, self._receipts.published)
        return replace(found, head=self._head_of(table))

    def staged(self, attempt: str, heartbeat: Callable[[int], None] = lambda _: None) -> StagedContent | None:
        """Open every file that the attempt's branch added; None: no branch, or nothing committed on it yet.

        A job without rows has committed an empty snapshot: that is a `Staged` without streams. Raises JobFailedError
        naming a missing or damaged file, SchemaMismatchError for a row of another attempt.
        """
        table = self._catalog.load(self.identifier)
        with self._catalog.reaching(f"read what attempt {attempt} has staged"):
            snapshot = staged_snapshot(table.metadata, attempt)
            if snapshot is None:
                return None
            found = read_staged(table, staged_files(table, snapshot, attempt), heartbeat)
        self._publisher.remember(found)
        return found

    def publish(self, publication: Publication, heartbeat: Callable[[], None] = lambda: None) -> PublishOutcome:
        return self._publisher.publish(publication, heartbeat)

    def fence(
        self,
        head: TableHead,
        ledger_id: str,
        token: Token,
        *,
        owned: Collection[str] = (),
        ended: Collection[str] = (),
        line: EventRef | None = None,
    ) -> PublishOutcome:
        asked = Publication(head=head, audited=None, token=token, ledger_id=ledger_id, line=line)
        return self._publisher.fence(asked, owned, ended)

    def branches(self) -> tuple[str, ...]:
        table = self._catalog.find(self.identifier)
        return attempts_of(table.metadata.refs) if table else ()

    def drop(self, attempt: str) -> None:
        """Remove an attempt's staging branch, if there is one. Raises ConcurrentError while the table keeps moving."""
        branch = branch_of(attempt)
        for _ in range(_DROP_TRIES):
            table = self._catalog.find(self.identifier)
            ref = table.metadata.refs.get(branch) if table else None
            if table is None or ref is None:
                return
            require_clock(table.metadata, self._now_ms(), self.identifier)
            required = (require_uuid(str(table.metadata.table_uuid)), require_ref(branch, ref.snapshot_id))
            with self._catalog.reaching(f"drop {branch} of {self.identifier}"):
                try:
                    self._catalog.commit(
                        table, required, (remove_branch(branch),), is_seen=lambda new: branch not in new.refs
                    )
                except CommitFailedException:
                    continue
                return
        raise ConcurrentError(
            f"{self.identifier} moved {_DROP_TRIES} times while {branch} was being dropped. Try again.",
            table=self.identifier,
        )

    def commits(self) -> tuple[Commit, ...]:
        return commits_of(self._catalog.load(self.identifier).metadata)

    def attempt_rows(
        self, topic_ids: Sequence[str] | None = None, attempt: str | None = None
    ) -> tuple[AttemptRows, ...]:
        table = self._catalog.load(self.identifier)
        chosen = AlwaysTrue() if topic_ids is None else among("kafka_topic_id", topic_ids)
        if attempt is not None:
            chosen = And(chosen, among("ingest_attempt", [attempt]))

        def read(file: FileScanTask) -> Runs:
            # Files are chosen by the filter, rows by their stream: a run has one, so that no row is asked.
            batches = batches_of(table, AlwaysTrue(), (*POSITION, ATTEMPT), [file], coded=TEXTS)
            return runs_of(batches, self.identifier, topic_ids)

        def collect(files: Sequence[FileScanTask]) -> tuple[AttemptRows, ...]:
            found = Runs(by_attempt=True)
            with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="rows") as readers:
                for runs in readers.map(read, files):
                    found.merge(runs)
            return tuple(item for item in found.attempt_rows() if attempt in {None, item.attempt})

        return self._collected(table, chosen, collect)

    def positions(
        self, columns: PositionColumns, topics: Sequence[str], *, live_only: bool
    ) -> tuple[StreamContent, ...]:
        table = self._catalog.find(self.identifier)
        if table is None:
            raise UnknownSubjectError(
                f"There is no table {self.identifier} in this lake. Name the live stream's table as namespace.table.",
                table=self.identifier,
            )
        require_columns(table, columns, self.identifier, live_only=live_only)
        chosen = AlwaysTrue() if columns.topic is None else among(columns.topic, topics)
        fields = (columns.topic, columns.partition, columns.offset, ATTEMPT if live_only else None)
        return self._collected(
            table,
            chosen,
            lambda files: positions_of(
                batches_of(table, chosen, list(filter(None, fields)), files),
                columns,
                self.identifier,
                live_only=live_only,
            ),
        )

    def _collected(self, table: Table, chosen: BooleanExpression, collect: Callable[[Sequence[FileScanTask]], T]) -> T:
        """Collect from main's files that may hold chosen rows; DamagedTableError for a file that cannot be read."""
        with self._catalog.reaching(f"read {self.identifier}"):
            files = files_of(table, chosen, self.identifier)
            try:
                return collect(files)
            except (FileNotFoundError, pa.ArrowInvalid):
                self._require_whole(table, files)
                raise

    def _require_whole(self, table: Table, planned: Sequence[FileScanTask]) -> None:
        """Refuse a damaged table, unless main has moved: then the files may have gone with an expired snapshot."""
        if self._catalog.load(self.identifier).metadata.current_snapshot_id != table.metadata.current_snapshot_id:
            return
        files = (task.file for task in planned)
        if broken := [file for file in files if not readable(table.io, file.file_path)]:
            rows = count(sum(file.record_count for file in broken), "row")
            named = count(len(broken), f"data file of {self.identifier} is", f"data files of {self.identifier} are")
            raise DamagedTableError(
                f"{named} missing or cannot be read ({rows}), the first is {broken[0].file_path}. Restore that: "
                "until then its offsets can neither be read again nor be taken out",
                table=self.identifier,
            )

    def visible(self, slices: Sequence[Slice], heartbeat: Callable[[], None] = lambda: None) -> tuple[AttemptRows, ...]:
        table = self._catalog.load(self.identifier)
        return self._collected(table, near(slices), lambda files: visible(table, slices, files, heartbeat))

    def rows_between(self, of: Sequence[Slice], *, start: datetime, end: datetime, by: timedelta) -> Mapping[int, int]:
        if (table := self._catalog.find(self.identifier)) is None:
            return {}
        chosen = And(near(of), within(start, end))

        def counted(files: Sequence[FileScanTask]) -> Mapping[int, int]:
            found: Counter[int] = Counter()
            for batch in batches_of(table, chosen, ("kafka_timestamp",), files):
                microseconds = batch.column("kafka_timestamp").cast(pa.int64()).to_numpy()
                found.update((microseconds // (by // timedelta(microseconds=1))).tolist())
            return found

        return self._collected(table, chosen, counted)

    def add_receipts(self, rows: Sequence[ReceiptRow]) -> None:
        self._receipts.add(rows)

    def receipts(self, attempt: str) -> tuple[ReceiptRow, ...]:
        return self._receipts.rows_of(attempt)

    def all_receipts(self) -> tuple[ReceiptRow, ...]:
        return self._receipts.all()
