"""Topics to a table by librdkafka, Arrow and PyIceberg. Its only argument names a JSON file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.consuming import consumed
from bench.measuring import COMMITTED, mark

_CHUNK_BYTES = 128 * 2**20
_ARROW = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}


def main(file: Path) -> None:
    """Load, or only encode."""
    asked = json.loads(file.read_text())
    home = file.parent
    if asked["mode"] == "encode":
        encode(asked, home)
    else:
        load(asked, home)


def load(asked: dict[str, Any], home: Path) -> None:
    """Append everything in one commit, a file for about 128 MiB of values."""
    from pyiceberg.catalog import load_catalog

    table = load_catalog("lake", **asked["lake"]).load_table(asked["table"])
    mark(home, "start")
    took = {"read": 0.0, "write": 0.0}
    with table.transaction() as transaction:
        chunks, last = chunks_of(asked), time.monotonic()
        for chunk in chunks:
            took["read"] += time.monotonic() - last
            begun = time.monotonic()
            transaction.append(chunk)
            last = time.monotonic()
            took["write"] += last - begun
        took["read"] += time.monotonic() - last
    mark(home, COMMITTED)
    for name, seconds in took.items():
        mark(home, f"took {name}", seconds)


def encode(asked: dict[str, Any], home: Path) -> None:
    """Read everything first, then write files; the clock of this arm runs while they are written."""
    chunks = list(chunks_of(asked))
    begun, cpu = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(asked["cores"]) as pool:
        list(pool.map(lambda numbered: _write(home / f"{numbered[0]}.parquet", numbered[1]), enumerate(chunks)))
    ended = time.monotonic()
    mark(home, "start", begun)
    mark(home, COMMITTED, ended)
    mark(home, "took encode", ended - begun)
    mark(home, "cpu", time.process_time() - cpu)
    print(sum(len(chunk) for chunk in chunks))


def _write(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path, compression="zstd", compression_level=1)


def chunks_of(asked: dict[str, Any]) -> Iterator[pa.Table]:
    """Yield the records as tables of about 128 MiB."""
    held: list[Any] = []
    size = 0
    for messages in consumed(asked["bootstrap"], asked["topics"]):
        held += messages
        size += sum(len(message) for message in messages)
        if size > _CHUNK_BYTES:
            yield _table(held, asked)
            held, size = [], 0
    if held:
        yield _table(held, asked)


def _table(messages: Sequence[Any], asked: dict[str, Any]) -> pa.Table:
    columns = {
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
        "kafka_topic": pa.array([message.topic() for message in messages], pa.string()),
        "kafka_partition": pa.array([message.partition() for message in messages], pa.int32()),
        "kafka_offset": pa.array([message.offset() for message in messages], pa.int64()),
        "kafka_timestamp": pa.array([message.timestamp()[1] * 1000 for message in messages], pa.timestamp("us", "UTC")),
    }
    if asked["decoded"]:
        values = [json.loads(message.value()) for message in messages]
        columns |= {
            name: pa.array([value.get(name) for value in values], _ARROW[kind])
            for name, kind in asked["decoded"].items()
        }
    return pa.table(columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
