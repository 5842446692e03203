"""What a wave costs the table the longer its history is: look, publish and receipts, after so many waves."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import Table

from airflow_kafka_lake.adapters.iceberg import IcebergLake, IcebergTable
from airflow_kafka_lake.adapters.lake_config import LakeSettings
from airflow_kafka_lake.core.accounting import Accounting
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.records import Publication, ReceiptRow
from airflow_kafka_lake.core.staging import branch_of
from airflow_kafka_lake.core.waves import Absent, AttemptOutcome, AttemptRecord, Committed, Token
from airflow_kafka_lake.jobs.stage import STAGED_BY
from bench.audit import Measured

NAME = "raw.history"
LEDGER = "1" * 32
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
MARKS = (10, 100, 1_000, 10_000)
TIMED = 10
"""Waves before each mark whose times are averaged."""

STEPS = ("stage", "look", "publish", "receipts")


def growing(waves: int) -> list[Measured]:
    """Publish so many waves of one row each into one table, and say at each mark what the last ones took, step by step.

    `stage` is a commit of PyIceberg to a branch, which stands for Spark's; snapshots never expire here.
    Times are of the processor, all threads together: how they grow is the question, whatever else the machine does.
    """
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="kafka-lake-bench-") as folder:
        lake = _lake(Path(folder))
        table = lake.table(NAME)
        table.ensure("")
        table.claim_ownership(LEDGER, "history", [TOPIC_ID])
        seconds: dict[str, list[float]] = {step: [] for step in STEPS}
        for number in range(1, waves + 1):
            _wave(lake, table, number, seconds)
            if number in MARKS:
                found += _at(number, seconds, Path(folder))
        lake.close()
    return found


def _lake(folder: Path) -> IcebergLake:
    extra = {"catalog": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return IcebergLake(LakeSettings.parse("lake_default", extra))


def _wave(lake: IcebergLake, table: IcebergTable, number: int, seconds: dict[str, list[float]]) -> None:
    attempt = f"{number:016x}"
    base = table.head().snapshot
    with _timed(seconds["stage"]):
        _stage(lake.catalog.load(NAME), attempt, number)
    staged = table.staged(attempt)
    with _timed(seconds["receipts"]):
        table.add_receipts([_receipt(attempt, number)])
    with _timed(seconds["look"]):
        look = table.look([_record(attempt, number, base)])
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
        topic="history",
        topic_id=TOPIC_ID,
        partition=0,
        range=OffsetRange(offset, offset + 1),
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


def _at(waves: int, seconds: dict[str, list[float]], folder: Path) -> Iterator[Measured]:
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for step, each in seconds.items():
        yield Measured(arm=f"{step} after {waves:,} waves", records=1, seconds=_mean(each[-TIMED:]), mib=mib)
    metadata = [path.stat().st_size for path in folder.rglob("*.metadata.json")]
    print(f"after {waves:,} waves: {len(metadata)} metadata files, {sum(metadata) / 2**20:,.1f} MiB")


def _mean(each: Sequence[float]) -> float:
    return sum(each) / len(each)
