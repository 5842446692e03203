"""Lakes to try a contract on, and what happens to a table besides it: jobs, maintenance, lost answers."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.typedef import Record

from airflow_kafka_lake.adapters.iceberg.commit import append_to_main, prepare, write_snapshot
from airflow_kafka_lake.adapters.iceberg.rows import written_files_of
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake, IcebergTable
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.ledger.records import ReceiptRow
from airflow_kafka_lake.core.ledger.waves import AttemptOutcome, AttemptRecord, TableHead, Token
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.jobs.formats import STAGED_BY
from airflow_kafka_lake.ports import LakeTable
from tests.kit.local_lake import LocalLake
from tests.kit.memory_lake import Answer, MemoryLake, MemoryTable, Row
from tests.kit.rest_catalog import RestCatalogServer
from tests.pyiceberg_jobs import begin, landed

LEDGER = "1" * 32
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
NAME = "raw.orders"
AT = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)
AT_MS = round(AT.timestamp() * 1000)
_numbers = itertools.count(1)
Position = tuple[str, str, int, int]


def attempt_id() -> str:
    """Return a new attempt id."""
    return f"{next(_numbers):016x}"


def offsets(*wanted: int, partition: int = 0, topic_id: str = TOPIC_ID) -> list[Position]:
    """Return positions of one partition of topic `orders`."""
    return [("orders", topic_id, partition, offset) for offset in wanted]


def token(attempt: str, kind: str = "publish") -> Token:
    """Return what a commit of an attempt says."""
    return Token(pipeline="orders", wave="wave-1", attempt=attempt, fence=1, ranges="f" * 16, kind=kind)


def record(attempt: str, base: TableHead | int | None) -> AttemptRecord:
    """Return the ledger's record of an attempt that began on a head; -1 for an empty table, None for not yet."""
    number = (base.snapshot if base.snapshot is not None else -1) if isinstance(base, TableHead) else base
    return AttemptRecord(
        wave="wave-1",
        fence=1,
        attempt=attempt,
        holder="alpha/1/1.0",
        job=None,
        base=number,
        audited=None,
        outcome=AttemptOutcome.RUNNING,
        error=None,
        started_at=AT,
        ended_at=None,
    )


def receipt(attempt: str, kind: str = "rows", end: int = 10) -> ReceiptRow:
    """Return a receipt of partition 0."""
    return ReceiptRow(
        pipeline="orders",
        wave="wave-1",
        attempt=attempt,
        fence=1,
        kind=kind,
        slice=Slice(Stream("orders", TOPIC_ID, 0), OffsetRange(0, end)),
        generation=0,
        rows=end - 1,
        first_offset=0 if end > 1 else None,
        last_offset=end - 2 if end > 1 else None,
        accounting=Accounting(visible=end - 1, control=1),
        recorded_at=AT,
        leader_epoch=7 if kind == "rows" else None,
    )


class World(Protocol):
    """One lake with one table, and everything that can happen to it."""

    table: LakeTable

    def stage(
        self, attempt: str, rows: Iterable[Position], *, written_as: str | None = None, at_ms: Sequence[int] = ()
    ) -> None:
        """Do what a finished job does; `at_ms` are the timestamps of the first rows."""

    def begin_job(self, attempt: str) -> None:
        """Do what a job does that dies before its commit."""

    def write_foreign(self) -> None:
        """Commit to main as another writer does."""

    def delete(self) -> None:
        """Delete every row of main as another engine does."""

    def compact(self) -> None:
        """Rewrite main's data files into others."""

    def expire(self) -> None:
        """Expire every snapshot that may be expired."""

    def roll_back(self, snapshot: int) -> None:
        """Set main to an earlier snapshot."""

    def recreate(self) -> None:
        """Drop the table and create another one of the same name."""

    def change_spec(self) -> None:
        """Change the table's partition spec."""

    def damage(self, attempt: str) -> None:
        """Spoil a staged file."""

    def rows(self) -> list[tuple[int, str]]:
        """Return `(offset, attempt)` of what a reader of main sees, sorted."""

    def lose_next_answer(self, *, landed: bool) -> None:
        """Lose the connection during the next commit, after or before it landed."""

    def lie_at_next_commit(self) -> None:
        """Answer the next commit as done, and do nothing."""


class MemoryWorld:
    """The lake in memory."""

    def __init__(self) -> None:
        self.lake = MemoryLake()
        self.table: MemoryTable = self.lake.table(NAME)

    def stage(
        self, attempt: str, rows: Iterable[Position], *, written_as: str | None = None, at_ms: Sequence[int] = ()
    ) -> None:
        self.table.stage(attempt, _records(rows, at_ms), written_as=written_as)

    def begin_job(self, attempt: str) -> None:
        """A job in memory has nothing to show before its commit."""

    def write_foreign(self) -> None:
        foreign = Row(topic="other", topic_id="other", partition=0, offset=0, key=None, value=None, attempt="")
        self.table.write_foreign([foreign])

    def delete(self) -> None:
        self.table.delete_foreign(lambda _: True)

    def compact(self) -> None:
        self.table.write_foreign()

    def expire(self) -> None:
        self.table.expire()

    def roll_back(self, snapshot: int) -> None:
        self.table.roll_back(snapshot)

    def recreate(self) -> None:
        self.table.recreate()

    def change_spec(self) -> None:
        self.table.change_spec()

    def damage(self, attempt: str) -> None:
        self.table.damage(attempt)

    def rows(self) -> list[tuple[int, str]]:
        return sorted((row.offset, row.attempt) for row in self.table.rows())

    def lose_next_answer(self, *, landed: bool) -> None:
        self.table.next_answer = Answer.LOST_LANDED if landed else Answer.LOST

    def lie_at_next_commit(self) -> None:
        self.table.next_answer = Answer.LIED


class IcebergWorld:
    """An Iceberg table, written to by PyIceberg the way Spark does."""

    def __init__(
        self,
        folder: Path,
        uri: str | None = None,
        *,
        foreign: LocalLake | RestCatalogServer | None = None,
        name: str = NAME,
    ) -> None:
        """`foreign` is the server of a REST catalog; a namespace of its own is its table's there."""
        extra = {
            "catalog": "sql",
            "uri": uri or f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        if foreign:
            extra, name = foreign.extra(), name.replace("raw", f"contract_{uuid.uuid4().hex}", 1)
        self.settings = LakeSettings.parse("lake_default", extra, *(foreign.login if foreign else ()))
        self.lake = IcebergLake(self.settings)
        self.table: IcebergTable = self.lake.table(name)

    @property
    def catalog(self) -> Catalog:
        return self.lake.catalog.api

    def load(self) -> Table:
        return self.lake.catalog.load(self.table.identifier)

    def stage(
        self, attempt: str, rows: Iterable[Position], *, written_as: str | None = None, at_ms: Sequence[int] = ()
    ) -> None:
        self.begin_job(attempt)
        self.append(rows, written_as or attempt, branch_of(attempt), {STAGED_BY: attempt}, at_ms)

    def append(
        self,
        rows: Iterable[Position],
        attempt: str,
        branch: str,
        summary: dict[str, str],
        at_ms: Sequence[int] = (),
    ) -> None:
        """Commit rows to a branch in one data file per append, or none for no rows."""
        table = self.load()
        written = [landed(row, attempt) for row in _records(rows, at_ms)]
        data = pa.Table.from_pylist(written, schema=table.schema().as_arrow())
        table.append(data, snapshot_properties=summary, branch=branch)

    def begin_job(self, attempt: str) -> None:
        begin(self.load(), attempt)

    def write_foreign(self) -> None:
        self.append([("other", "other", 0, 0)], "", "main", {})

    def delete(self) -> None:
        self.load().delete("kafka_offset >= 0")

    def compact(self) -> None:
        table = self.load()
        table.overwrite(table.scan().to_arrow())

    def expire(self) -> None:
        later = datetime.now(UTC) + timedelta(days=1)
        self.load().maintenance.expire_snapshots().older_than(later).commit()

    def roll_back(self, snapshot: int) -> None:
        self.load().manage_snapshots().set_current_snapshot(snapshot_id=snapshot).commit()

    def recreate(self) -> None:
        self.catalog.drop_table(self.table.identifier)
        self.table.ensure("")

    def change_spec(self) -> None:
        with self.load().update_spec() as update:
            update.add_identity("kafka_topic")

    def damage(self, attempt: str) -> None:
        with self.load().io.new_output(self.staged_address(attempt)).create(overwrite=True) as stream:
            stream.write(b"PAR1 not really PAR1")

    def staged_file(self, attempt: str) -> Path:
        """Return the one file that an attempt has staged, where the warehouse is a folder."""
        return Path(self.staged_address(attempt).removeprefix("file://"))

    def staged_address(self, attempt: str) -> str:
        """Return the address of the one file that an attempt has staged."""
        table = self.load()
        snapshot = table.snapshot_by_name(branch_of(attempt))
        assert snapshot is not None
        (manifest,) = [m for m in snapshot.manifests(table.io) if m.added_snapshot_id == snapshot.snapshot_id]
        (entry,) = manifest.fetch_manifest_entry(table.io)
        return str(entry.data_file.file_path)

    def rows(self) -> list[tuple[int, str]]:
        found = self.load().scan(selected_fields=("kafka_offset", "ingest_attempt")).to_arrow().to_pylist()
        return sorted((row["kafka_offset"], row["ingest_attempt"]) for row in found)

    def delete_by_value(self) -> None:
        """Commit an equality delete as another engine does; the file itself is never opened."""
        self._add_delete(DataFileContent.EQUALITY_DELETES, f"{self.load().location()}/data/delete.parquet", 1)

    def delete_by_position(self, *positions: int) -> None:
        """Commit a position delete for rows of the newest data file, as another engine does."""
        table = self.load()
        path = next(task.file.file_path for task in table.scan().plan_files())
        deleted = Path(table.location().removeprefix("file://"), "data", f"delete-{uuid.uuid4()}.parquet")
        ids = ({b"PARQUET:field_id": b"2147483546"}, {b"PARQUET:field_id": b"2147483545"})
        columns = [pa.field("file_path", pa.string(), False, ids[0]), pa.field("pos", pa.int64(), False, ids[1])]
        rows = [[path] * len(positions), list(positions)]
        pq.write_table(pa.Table.from_arrays(list(map(pa.array, rows)), schema=pa.schema(columns)), deleted)
        self._add_delete(DataFileContent.POSITION_DELETES, f"file://{deleted}", len(positions))

    def rewrite(self) -> None:
        """Have main's files take a new place in the order of commits, as a rewrite does; delete files stay behind."""
        table = self.load()
        files = [task.file for task in written_files_of(table, AlwaysTrue())]
        snapshot = write_snapshot(table, prepare(table, files, files), {}, 0)
        self.catalog.commit_table(table, (), append_to_main(snapshot))

    def _add_delete(self, content: DataFileContent, path: str, rows: int) -> None:
        """Write a manifest of deletes; PyIceberg has no way to do it."""
        table, usual = self.load(), ManifestWriterV2.content
        file = DataFile.from_args(
            content=content,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=rows,
            file_size_in_bytes=1,
            equality_ids=[7] if content is DataFileContent.EQUALITY_DELETES else None,
        )
        file.spec_id = 0
        ManifestWriterV2.content = lambda _: ManifestContent.DELETES  # type: ignore[method-assign]
        try:
            snapshot = write_snapshot(table, prepare(table, [file]), {}, 0)
        finally:
            ManifestWriterV2.content = usual  # type: ignore[method-assign]
        self.catalog.commit_table(table, (), append_to_main(snapshot))

    def lose_next_answer(self, *, landed: bool) -> None:
        real = self.catalog.commit_table

        def lossy(*arguments: Any) -> Any:
            self._commit_by(real)
            if landed:
                real(*arguments)
            raise ConnectionError("the connection went away")

        self._commit_by(lossy)

    def lie_at_next_commit(self) -> None:
        real = self.catalog.commit_table

        def lying(table: Table, *_: Any) -> CommitTableResponse:
            self._commit_by(real)
            said = {"metadata": table.metadata, "metadata-location": table.metadata_location}
            return CommitTableResponse.model_validate(said)

        self._commit_by(lying)

    @contextmanager
    def before_next_commit(self, happening: Callable[[], None]) -> Iterator[None]:
        """Let something happen between the load that a commit is built on and the commit."""
        real = self.catalog.commit_table

        def late(*arguments: Any) -> Any:
            self._commit_by(real)
            happening()
            return real(*arguments)

        self._commit_by(late)
        yield
        self._commit_by(real)

    @contextmanager
    def next_commit_arrives_late(self) -> Iterator[Callable[[], None]]:
        """Lose the answer of the next commit, and give a way to let it arrive."""
        real = self.catalog.commit_table
        sent: list[tuple[Any, ...]] = []

        def lossy(*arguments: Any) -> Any:
            self._commit_by(real)
            sent.append(arguments)
            raise ConnectionError("the connection went away")

        self._commit_by(lossy)
        yield lambda: real(*sent[0])
        self._commit_by(real)

    @contextmanager
    def every_commit_sent_twice(self) -> Iterator[None]:
        """Answer with what the repetition of a request that has succeeded gets."""
        real = self.catalog.commit_table

        def twice(*arguments: Any) -> Any:
            real(*arguments)
            return real(*arguments)

        self._commit_by(twice)
        yield
        self._commit_by(real)

    def _commit_by(self, commit: Callable[..., Any]) -> None:
        self.catalog.commit_table = commit  # type: ignore[method-assign]


def _records(rows: Iterable[Position], at_ms: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return positions with the same record for all, but for the timestamps that are given."""
    times = itertools.chain(at_ms, itertools.repeat(AT_MS))
    return [(*row, b"key", b"value", (("trace", b"1"),), at) for row, at in zip(rows, times, strict=False)]
