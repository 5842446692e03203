"""A pipeline's ledger in SQLite, its lake in Iceberg's files, and what Kafka was told: packed by one version, unpacked
by a later one.

Iceberg writes whole addresses into its files. So they are packed under an address that is nobody's, and moved to where
they are unpacked.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from airflow_kafka_lake.adapters.machine import SystemClock
from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from tests.contracts.lake_worlds import IcebergWorld
from tests.kit.clock import FakeClock
from tests.kit.memory_runner import MemoryRunner
from tests.pyiceberg_jobs import TableJobs
from tests.world import World

FOLDER = Path(__file__).parent
PARTITIONS = 2
LEDGER, CATALOG, WAREHOUSE, KAFKA = "ledger.db", "catalog.db", "warehouse", "kafka.json"
NOBODYS = "file:///of-nobody"
LONG_PAST = "2026-01-02 00:00:00.000000"
"""When every lease has ended: whoever unpacks meets workers that are dead."""


class RecordedWorld(World):
    """A world that writes down what Kafka is told; its values and times are made of that again."""

    def __init__(self, at: datetime) -> None:
        super().__init__(partitions=PARTITIONS, clock=FakeClock(at))
        self.at = at
        self.told: list[tuple[str, list[Any], dict[str, Any]]] = []

    def produce(self, *given: Any, **named: Any) -> list[int]:
        """Append records, and write it down."""
        self.told.append(("produce", [*given], named))
        return super().produce(*given, **named)

    def end(self, *given: Any, **named: Any) -> None:
        """End a transaction, and write it down."""
        self.told.append(("end", [*given], named))
        super().end(*given, **named)


@contextmanager
def living(folder: Path, at: datetime) -> Iterator[RecordedWorld]:
    """Open a world whose ledger and lake are in a folder; Kafka and the job are in memory."""
    world, lake = RecordedWorld(at), IcebergWorld(folder)
    world.lake = lake.lake  # type: ignore[assignment]
    world.runner = MemoryRunner(world.kafka, TableJobs(lake.lake.catalog.load))
    world.ledger = SqlLedger(f"sqlite:///{folder}/{LEDGER}")  # type: ignore[assignment]
    try:
        yield world
    finally:
        world.ledger.close()  # type: ignore[attr-defined]
        lake.lake.close()


def packed(version: str, live: Callable[[World], None], folder: Path, into: Path = FOLDER) -> Path:
    """Let a pipeline live in an empty folder, and pack what it leaves; returns the archive."""
    now = SystemClock().now()
    with living(folder, now) as world:
        world.ledger.upgrade()  # type: ignore[attr-defined]
        live(world)
        (folder / KAFKA).write_text(json.dumps({"at": now.isoformat(), "told": world.told}), encoding="utf-8")
    move(folder, f"file://{folder}", NOBODYS)
    with closing(sqlite3.connect(folder / LEDGER)) as ledger:
        ledger.execute("UPDATE kafka_lake_wave SET lease_until = ? WHERE lease_until IS NOT NULL", (LONG_PAST,))
        ledger.commit()
    for name in (LEDGER, CATALOG):
        with closing(sqlite3.connect(folder / name)) as database:
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("VACUUM")
    file = into / f"{version}.tar.xz"
    with tarfile.open(file, "w:xz", preset=9) as archive:
        for name in (KAFKA, LEDGER, CATALOG, WAREHOUSE):
            archive.add(folder / name, name, filter=_of_nobody)
    return file


def _of_nobody(item: tarfile.TarInfo) -> tarfile.TarInfo:
    item.uid = item.gid = item.mtime = 0
    item.uname = item.gname = ""
    return item


@contextmanager
def unpacked(file: Path, folder: Path) -> Iterator[World]:
    """Open the world of an archive in an empty folder, at the present time, with the Kafka of then."""
    with tarfile.open(file) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # Python 3.11.4
        archive.extractall(folder)
    move(folder, NOBODYS, f"file://{folder}")
    record = json.loads((folder / KAFKA).read_text(encoding="utf-8"))
    with living(folder, datetime.fromisoformat(record["at"])) as world:
        for name, given, named in record["told"]:
            getattr(world, name)(*given, **named)
        world.clock.advance(SystemClock().now() - world.at)
        yield world


def move(folder: Path, before: str, after: str) -> None:
    """Change the addresses in all that Iceberg has written: its metadata, its manifests, their lists, the catalog."""
    for file in folder.rglob("*.metadata.json"):
        file.write_text(file.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    lists = []
    for file in folder.rglob("*.avro"):
        read = fastavro.reader(BytesIO(file.read_bytes()))
        (lists.append if "manifest_path" in json.dumps(read.writer_schema) else _rewrite)((file, before, after))
    for item in lists:
        _rewrite(item)
    with closing(sqlite3.connect(folder / CATALOG)) as database:
        for column in ("metadata_location", "previous_metadata_location"):
            database.execute(f"UPDATE iceberg_tables SET {column} = replace({column}, ?, ?)", (before, after))
        database.commit()


def _rewrite(item: tuple[Path, str, str]) -> None:
    file, before, after = item
    read = fastavro.reader(BytesIO(file.read_bytes()))
    records = [_told_anew(record, before, after) for record in read]
    kept = {key: value for key, value in read.metadata.items() if not key.startswith("avro.")}
    for record in records:
        if path := record.get("manifest_path"):
            record["manifest_length"] = (file.parent / Path(path).name).stat().st_size
    with file.open("wb") as out:
        fastavro.writer(out, read.writer_schema, records, codec=read.codec, metadata=kept)


def _told_anew(value: Any, before: str, after: str) -> Any:
    if isinstance(value, dict):
        return {key: _told_anew(item, before, after) for key, item in value.items()}
    if isinstance(value, list):
        return [_told_anew(item, before, after) for item in value]
    return value.replace(before, after) if isinstance(value, str) else value
