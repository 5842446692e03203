"""How much memory it takes to read which offsets a real table holds: part of a file, and two numbers per run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_kafka_lake.adapters.iceberg.rows import Runs
from airflow_kafka_lake.adapters.iceberg.settings import LakeSettings
from airflow_kafka_lake.adapters.iceberg.table import IcebergLake
from airflow_kafka_lake.core.offsets import OffsetRange, Slice, Stream
from airflow_kafka_lake.core.spark.job import PositionColumns

ROWS = 40_000
TOPIC_ID = "A" * 22


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[IcebergLake]:
    """A SQLite catalog without tables."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    settings = {"format": "iceberg", "catalog": "sql", "uri": uri, "warehouse": warehouse}
    made = IcebergLake(LakeSettings.parse("lake_default", settings))
    yield made
    made.close()


def rows(offsets: Any) -> pa.Table:
    """Return the position columns of rows of one stream."""
    count = len(offsets)
    return pa.table(
        {
            "kafka_topic": pa.array(["orders"] * count),
            "kafka_topic_id": pa.array([TOPIC_ID] * count),
            "kafka_partition": pa.array(np.zeros(count, dtype=np.int32)),
            "kafka_offset": pa.array(np.asarray(offsets, dtype=np.int64)),
            "ingest_attempt": pa.array(["0" * 16] * count),
        }
    )


def filled(lake: IcebergLake, identifier: str, files: int) -> None:
    """Make a table of so many files, all of the same number of rows."""
    lake.table(identifier).ensure("")
    table = lake.catalog.load(identifier)
    for number in range(files):
        given = rows(np.arange(number * ROWS, (number + 1) * ROWS))
        for field in table.schema().as_arrow():
            if field.name not in given.column_names:
                given = given.append_column(field, pa.nulls(ROWS, field.type))
        table.append(given.select(table.schema().as_arrow().names).cast(table.schema().as_arrow()))


_POOLS: list[pa.MemoryPool] = []
"""Every pool that was asked: Arrow's threads may give memory back later, and a pool that is gone ends the process."""


@contextmanager
def arrow_memory() -> Iterator[Callable[[], int]]:
    """Tell the most that Arrow has held since."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        yield pool.max_memory
    finally:
        pa.set_memory_pool(before)


def everything(files: int) -> list[Slice]:
    whole = OffsetRange(0, files * ROWS)
    return [Slice(Stream("orders", TOPIC_ID, 0), whole)]


READINGS: dict[str, Callable[[Any, int], Any]] = {
    "attempt_rows": lambda table, _: table.attempt_rows([TOPIC_ID])[0].offsets.span,
    "positions": lambda table, _: table.positions(PositionColumns(), ["orders"], live_only=False)[0].offsets.span,
    "visible": lambda table, files: table.visible(everything(files))[0].offsets.span,
}


@pytest.mark.slow
def test_a_table_of_many_files_needs_the_memory_of_few(lake: IcebergLake) -> None:
    """However much faster files are read than looked at: a few wait to be looked at, never all of them."""
    peaks: dict[str, list[int]] = {reading: [] for reading in READINGS}
    for identifier, files in (("raw.small", 1), ("raw.large", 20)):
        filled(lake, identifier, files)
        for reading, read in READINGS.items():
            with arrow_memory() as peak:
                assert read(lake.table(identifier), files) == files * ROWS
                peaks[reading].append(peak())
    assert [reading for reading, (one, twenty) in peaks.items() if twenty > 8 * one] == []


def test_gaps_take_two_numbers_each() -> None:
    """A row between two markers is a run of its own: what is kept of it are its start and its end."""
    count = 100_000
    batch = rows(np.arange(count) * 2)
    tracemalloc.start()
    try:
        runs = Runs()
        for at in range(0, count, 10_000):
            runs.add(batch.slice(at, 10_000), "here")
        (content,) = runs.contents()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert content.offsets.span == content.offsets.range_count == count
    assert kept < 20 * count
    assert peak < 60 * count
