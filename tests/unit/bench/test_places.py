"""What arms leave in a lake is read as its readers and its owners would."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from airflow_kafka_lake.core.planning.policies import Bounds
from airflow_kafka_lake.services import running
from bench.arms import ARMS, Place
from bench.arms.connect_program import Table
from bench.arms.loader_program import chunks_of
from bench.arms.ours import watermarks_problem
from bench.audit import synthetic
from bench.content import Content
from bench.synthetic import Log
from bench.workloads import WORKLOADS

ROWS = [("t", 0, offset, b"k", b"value %d" % offset) for offset in range(5)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    workload = replace(WORKLOADS["uniform"], records=5)
    return Place(home=tmp_path, bootstrap="127.0.0.1:1", topics=["t"], workload=workload, cores=2, heap="2g")


def messages() -> list[SimpleNamespace]:
    class Message(SimpleNamespace):
        def __len__(self) -> int:
            return 100

    return [
        Message(
            topic=lambda row=row: row[0],
            partition=lambda row=row: row[1],
            offset=lambda row=row: row[2],
            key=lambda row=row: row[3],
            value=lambda row=row: row[4],
            timestamp=lambda: (1, 1_767_225_600_000),
        )
        for row in ROWS
    ]


def expected() -> Content:
    found = Content()
    names = ("topic", "partition", "offset", "key", "value")
    columns = dict(zip(names, map(list, zip(*ROWS, strict=True)), strict=True))
    found.add(columns | {name: pa.array(columns[name]).to_numpy() for name in ("partition", "offset")})
    return found


def test_loader_lands_what_it_reads(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows fit the table that is prepared for it, and are the topics'; a watcher sees them once they are there."""
    arm = ARMS["loader"]
    arm.prepare(place)
    watched = Table(place.catalog, "raw.bench")
    assert watched.rows() == 0
    monkeypatch.setattr("bench.arms.loader_program.consumed", lambda *_: iter([messages()[:3], messages()[3:]]))
    (chunk,) = chunks_of({"bootstrap": "", "topics": ["t"], "decoded": {}})
    place.table().append(chunk)
    assert watched.rows() == 5
    cost = SimpleNamespace()
    assert arm.problem(place, expected(), cost) is None
    assert len(arm.files(place)) == 1
    place.table().append(chunk)
    assert arm.problem(place, expected(), cost) == "10 rows instead of 5"


def test_watermark_that_stands_still_is_found(place: Place) -> None:
    """Rows without an advanced watermark are half of our work."""
    with synthetic(place.home, Log(3, 20, 0)) as (ports, spec):
        assert running.run(ports, spec, Bounds()).exit_code == 0
    assert watermarks_problem(place) is None
    with sqlite3.connect(place.home / "ledger.db") as ledger:
        ledger.execute("UPDATE kafka_lake_stream SET watermark = 19 WHERE partition = 1")
    assert watermarks_problem(place) == "1 watermarks did not advance, first bench/1"


def test_rivals_get_the_same_heap_cores_and_jars(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no setting that only our own jobs have."""
    monkeypatch.setattr("bench.arms.place.fetch", lambda _: [Path("iceberg-spark-runtime.jar")])
    arm = ARMS["batch"]
    arm.prepare(place)
    words = list(arm.command(place))
    settings = (place.home / "batch.properties").read_text()
    assert words[words.index("--master") + 1] == "local[2]"
    assert "spark.driver.memory=2g" in settings
    assert "iceberg-spark-runtime" in words[words.index("--driver-class-path") + 1]
    assert "spark.driver.memory" in place.environment["AIRFLOW_CONN_SPARK_DEFAULT"]
    assert '"kafka.fetch.max.wait.ms"' not in (place.home / "batch.json").read_text()
    ARMS["batch-tuned"].command(place)
    assert '"kafka.fetch.max.wait.ms": "10"' in (place.home / "batch-tuned.json").read_text()
