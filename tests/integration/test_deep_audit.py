"""`kafka-lake audit --deep` with a real Kafka, Spark and Iceberg: whatever is not as Kafka has it is named."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from airflow_kafka_lake.core.spec import legal_table_part
from airflow_kafka_lake.local.kafka import LocalKafka
from tests import markers
from tests.sandbox import Sandbox

pytestmark = pytest.mark.integration

RECORDS: tuple[dict[str, Any], ...] = (
    {"key": b"k0", "value": b"v0", "headers": [("trace", b"1"), ("trace", b"2"), ("none", None)]},
    {"key": None, "value": b"v1"},
    {"key": b"k2", "value": None},
    {"key": b"", "value": b""},
    {"key": b"k4", "value": b"v4", "headers": [("empty", b"")]},
    {"key": b"k5", "value": b"\x00\xff" * 500},
)
"""One partition's records, at offsets 0 to 5; at 6 is the marker of their transaction."""

Row = dict[str, Any]


def value_byte(rows: list[Row]) -> None:
    rows[5]["value"] = b"\x00\xfe" + rows[5]["value"][2:]


def header_order(rows: list[Row]) -> None:
    rows[0]["headers"] = [rows[0]["headers"][n] for n in (1, 0, 2)]


def null_header(rows: list[Row]) -> None:
    rows[0]["headers"][2]["value"] = b""


def no_headers(rows: list[Row]) -> None:
    """Kafka has no two kinds of none: what rewrites a table may."""
    rows[1]["headers"] = []


def tombstone(rows: list[Row]) -> None:
    rows[2]["value"] = b""


def empty_key(rows: list[Row]) -> None:
    rows[3]["key"] = None


def moved_bytes(rows: list[Row]) -> None:
    rows[4]["key"], rows[4]["value"] = b"k4v", b"4"


def later(rows: list[Row]) -> None:
    rows[1]["kafka_timestamp"] += timedelta(milliseconds=1)


def timestamp_type(rows: list[Row]) -> None:
    rows[1]["kafka_timestamp_type"] = 1


def exchanged(rows: list[Row]) -> None:
    rows[4]["kafka_offset"], rows[5]["kafka_offset"] = 5, 4


def moved_offset(rows: list[Row]) -> None:
    rows[3]["kafka_offset"] = 6


@dataclass(frozen=True)
class Damage:
    """What a person does to a partition's rows, and what the audit must find: kind, first offset, a word."""

    do: Callable[[list[Row]], None]
    found: frozenset[tuple[str, int, str]]


def wrong(field: str, *offsets: int) -> frozenset[tuple[str, int, str]]:
    return frozenset({("different", offset, f"the {field} is not") for offset in offsets})


DAMAGES = (
    Damage(lambda rows: None, frozenset()),
    Damage(value_byte, wrong("value", 5)),
    Damage(header_order, wrong("headers", 0)),
    Damage(null_header, wrong("headers", 0)),
    Damage(no_headers, frozenset()),
    Damage(tombstone, wrong("value", 2)),
    Damage(empty_key, wrong("key", 3)),
    Damage(moved_bytes, wrong("key", 4) | wrong("value", 4)),
    Damage(later, wrong("timestamp", 1)),
    Damage(timestamp_type, wrong("timestamp type", 1)),
    Damage(exchanged, wrong("key", 4) | wrong("value", 4) | wrong("headers", 4) | wrong("timestamp", 4)),
    Damage(
        moved_offset,
        frozenset({("lost", 3, "records that the table lacks"), ("inconsistent", 6, "Kafka has no record")}),
    ),
)
"""What is done to partition 0, 1, …"""


class Nested(Sandbox):
    """A place whose table lies in nested namespaces, one of them the topic's, with names that must be quoted."""

    @property
    def table(self) -> str:
        return f"deep.lake-{legal_table_part(self.topic)}.2026-select"

    def write_pipeline(self, source: str = "", sizes: str = "", table: str = "deep.lake-{topic}.2026-select") -> None:
        super().write_pipeline(source, sizes, table)


@pytest.fixture(scope="module")
def landed(kafka: LocalKafka, spark_jars: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A topic with the same transaction in every partition, brought by a real run into a table of a difficult name."""
    from confluent_kafka import Producer

    place = Nested(tmp_path_factory.mktemp("deep") / "place", kafka.bootstrap, partitions=len(DAMAGES))
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": secrets.token_hex(4)})
    producer.init_transactions(120)
    producer.begin_transaction()
    for at, record in enumerate(RECORDS, time.time_ns() // 1_000_000 - 1000):
        for partition in range(len(DAMAGES)):
            producer.produce(place.topic, partition=partition, timestamp=at, **record)
        producer.flush(60)
    markers.end(producer, kafka.bootstrap, {(place.topic, number) for number in range(len(DAMAGES))}, commit=True)
    done = place.run()
    assert done.code == 0, done.err
    return place


def damage(place: Sandbox) -> None:
    """Write the rows of every partition anew, each with its damage."""
    table = place.iceberg()
    rows = table.scan().to_arrow()
    wanted = []
    for partition, item in enumerate(DAMAGES):
        mine = [row for row in rows.to_pylist() if row["kafka_partition"] == partition]
        mine.sort(key=lambda row: row["kafka_offset"])
        item.do(mine)
        wanted += mine
    table.delete("kafka_partition >= 0")
    table.append(pa.Table.from_pylist(wanted, schema=rows.schema))


def test_every_difference_is_named_and_a_sound_table_has_none(landed: Sandbox) -> None:
    """A byte, an order, a null that became empty, a moved row: kind, partition, first offset; and nothing else."""
    sound = landed.command("audit", str(landed.file), "--deep", "--json")
    assert (sound.code, sound.document["findings"]) == (0, []), sound.out + sound.err
    records = len(DAMAGES) * len(RECORDS)
    assert (sound.document["deep"]["records"], sound.document["deep"]["left_out"]) == (records, 0)
    assert "records at" in sound.document["deep"]["sentence"]
    damage(landed)
    report = landed.home / "report.html"
    slowly = ("--deep", "--deep-rate", "1 MiB", "--report", str(report))
    ended = landed.command("audit", str(landed.file), *slowly, "--json")
    assert ended.code == 1, ended.err
    assert "compared slice 1 of" in ended.err
    deep = [item for item in ended.document["findings"] if "its rows are at" not in item["message"]]
    found = {(item["partition"], item["kind"], item["offsets"][0][0], item["message"]) for item in deep}
    expected = {(partition, *said) for partition, item in enumerate(DAMAGES) for said in item.found}
    named = {(p, k, o, word) for p, k, o, words in found for _, _, _, word in expected if word in words}
    assert named == expected
    assert len(found) == len(expected), found
    assert "the headers is not what Kafka has" in report.read_text()
