"""What a wave costs the table the longer its history is: look, publish and receipts, after so many waves."""

from __future__ import annotations

import resource
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from sqlalchemy import text

from airflow_kafka_lake.adapters.iceberg.commit import append_to_main, prepare, shows, write_snapshot
from airflow_kafka_lake.adapters.iceberg.receipts import FEW, LARGE_ROWS
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake, IcebergTable
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.ledger.records import Publication, ReceiptRow
from airflow_kafka_lake.core.ledger.waves import Absent, AttemptOutcome, AttemptRecord, Committed, Token
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import branch_of
from airflow_kafka_lake.jobs.formats import STAGED_BY
from bench.audit import Measured

NAME = "raw.history"
LEDGER = "1" * 32
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
MARKS = (10, 100, 1_000, 10_000)
TIMED, TIMED_UNEXPIRED = 25, 5
"""Waves whose times are averaged at each mark: so many that receipts are put together once among them."""

COMPACTED_ROWS, ROWS_PER_FILE = 100_000_000, 100_000
"""A landing table of which an engine has rewritten every file: each may hold rows of any attempt."""

UNEXPIRED = 1_000
"""The longest history that is tried with every snapshot kept."""

EXPIRED = 50
"""Snapshots that an expiry has left."""

STEPS = ("stage", "look", "publish", "receipts")


def growing(waves: int) -> list[Measured]:
    """Publish a few waves of one row each into tables with so many waves behind them; say what they took, step by step.

    The history is made up: files never opened, in manifests as publishes leave them; and snapshots, as many as a
    daily expiry leaves, or two for each wave where none was expired. Receipts are real, in files as their compaction
    leaves them. The last table has 100 million rows behind as many waves, and all its files were compacted. `stage` is
    a commit of PyIceberg to a branch, which stands for Spark's. Times are of the processor, all threads together: how
    they grow is the question, whatever else the machine does.
    """
    found: list[Measured] = []
    for mark in (mark for mark in MARKS if mark <= waves):
        found += _at(f"{mark:,} waves", mark, EXPIRED, timed=TIMED)
        if mark <= UNEXPIRED:
            found += _at(f"{mark:,}, unexpired", mark, 2 * mark, timed=TIMED_UNEXPIRED)
    found += _at(f"{COMPACTED_ROWS:,} rows, compacted", waves, EXPIRED, timed=TIMED, compacted=True)
    return found


def _at(past: str, mark: int, snapshots: int, *, timed: int, compacted: bool = False) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder:
        lake = _lake(Path(folder))
        table = lake.table(NAME)
        table.ensure("")
        table.claim_ownership(LEDGER, "history", [TOPIC_ID])
        _add_receipts(table, mark)
        files = COMPACTED_ROWS // ROWS_PER_FILE if compacted else mark
        _age(lake, NAME, files=files, snapshots=snapshots, compacted=compacted)
        seconds: dict[str, list[float]] = {step: [] for step in STEPS}
        for number in range(1, timed + 1):
            _wave(lake, table, number, seconds)
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for step, each in seconds.items():
            yield Measured(arm=f"{step} after {past}", records=1, seconds=sum(each) / len(each), mib=mib)
        lake.close()


def _add_receipts(table: IcebergTable, waves: int) -> None:
    """Add two receipts for each wave: of every beginning of an attempt the newest by themselves, all others in files as
    large as they become."""
    groups: dict[str, list[ReceiptRow]] = defaultdict(list)
    for number in range(waves):
        attempt = f"{number:016x}"[::-1]
        groups[attempt[0]] += [_receipt(attempt, number), replace(_receipt(attempt, number), kind="published")]
    for rows in groups.values():
        old, new = rows[: 1 - FEW], rows[1 - FEW :]
        for start in range(0, len(old), LARGE_ROWS):
            table.add_receipts(old[start : start + LARGE_ROWS])
        for row in new:
            table.add_receipts([row])


def _age(lake: IcebergLake, name: str, *, files: int, snapshots: int, compacted: bool) -> None:
    """Give a table a long past: one manifest of files, as merges leave them, and snapshots before its newest one."""
    table = lake.catalog.load(name)
    column = table.schema().find_field("ingest_attempt").field_id
    made = [_file(table, column, number, compacted=compacted) for number in range(files)]
    snapshot = write_snapshot(table, prepare(table, made), {}, time.time_ns() // 1_000_000)
    lake.catalog.commit(table, (), append_to_main(snapshot), is_seen=shows(snapshot))
    table = lake.catalog.load(name)
    newest = table.metadata.snapshots[-1]
    old = [
        newest.model_copy(update={"snapshot_id": number, "parent_snapshot_id": number - 1 or None})
        for number in range(1, snapshots + 1)
    ]
    last = newest.model_copy(update={"parent_snapshot_id": snapshots or newest.parent_snapshot_id})
    aged = table.metadata.model_copy(update={"snapshots": [*old, *table.metadata.snapshots[:-1], last]})
    location = f"{table.location()}/metadata/99999-{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(aged, table.io.new_output(location))
    catalog = lake.catalog.api
    assert isinstance(catalog, SqlCatalog)
    with catalog.engine.begin() as connection:
        connection.execute(
            text("UPDATE iceberg_tables SET metadata_location = :at WHERE table_name = :name"),
            {"at": location, "name": name.rpartition(".")[2]},
        )


def _file(table: Table, column: int, number: int, *, compacted: bool) -> DataFile:
    attempt = f"{number:016x}"[::-1].encode()
    lower, upper, rows = (b"0" * 16, b"f" * 16, ROWS_PER_FILE) if compacted else (attempt, attempt, 1_000)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{uuid.uuid4()}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=rows << 10,
        lower_bounds={column: lower},
        upper_bounds={column: upper},
        value_counts={column: rows},
        null_value_counts={column: 0},
    )
    file.spec_id = 0
    return file


def _lake(folder: Path) -> IcebergLake:
    extra = {"catalog": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return IcebergLake(LakeSettings.parse("lake_default", extra))


def _wave(lake: IcebergLake, table: IcebergTable, number: int, seconds: dict[str, list[float]]) -> None:
    attempt = f"{number:08x}"[::-1] + "f" * 8
    base = table.head().snapshot
    with _timed(seconds["stage"]):
        _stage(lake.catalog.load(NAME), attempt, number)
    staged = table.staged(attempt)
    with _timed(seconds["receipts"]):
        table.add_receipts([_receipt(attempt, number)])
    with _timed(seconds["look"]):
        look = table.find_commit([_record(attempt, number, base)])
    assert staged is not None
    assert isinstance(look, Absent)
    token = Token(pipeline="history", wave=f"w{number}", attempt=attempt, fence=1, ranges="f" * 16, kind="publish")
    with _timed(seconds["publish"]):
        outcome = table.publish(Publication(head=look.head, audited=staged.snapshot, token=token, ledger_id=LEDGER))
    assert isinstance(outcome, Committed), outcome
    with _timed(seconds["receipts"]):
        table.add_receipts([replace(_receipt(attempt, number), kind="published")])


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    begun = time.process_time()
    yield
    into.append(time.process_time() - begun)


def _stage(table: Table, attempt: str, offset: int) -> None:
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, branch_of(attempt)).commit()
    row = {
        "kafka_topic": "history",
        "kafka_topic_id": TOPIC_ID,
        "kafka_partition": 0,
        "kafka_offset": offset,
        "ingest_attempt": attempt,
    }
    rows = pa.Table.from_pylist([row], schema=table.schema().as_arrow())
    table.append(rows, snapshot_properties={STAGED_BY: attempt}, branch=branch_of(attempt))


def _receipt(attempt: str, offset: int) -> ReceiptRow:
    return ReceiptRow(
        pipeline="history",
        wave=f"w{offset}",
        attempt=attempt,
        fence=1,
        kind="rows",
        slice=Slice(Stream("history", TOPIC_ID, 0), OffsetRange(offset, offset + 1)),
        generation=0,
        rows=1,
        first_offset=offset,
        last_offset=offset,
        accounting=Accounting(visible=1),
        recorded_at=datetime.now(UTC),
    )


def _record(attempt: str, number: int, base: int | None) -> AttemptRecord:
    return AttemptRecord(
        wave=f"w{number}",
        fence=1,
        attempt=attempt,
        holder="bench/1/1.0",
        job=None,
        base=base,
        audited=None,
        outcome=AttemptOutcome.STAGED,
        error=None,
        started_at=datetime.now(UTC),
        ended_at=None,
    )
