"""An ingest beside a live consumer of a real group: the cutover is sound, and damage on either side of it is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import BinaryType, IntegerType, LongType, NestedField, StringType

from tests.sandbox import Ended, Sandbox

pytestmark = pytest.mark.integration

COLUMNS = "topic=source,partition=part,offset=position"
SCHEMA = Schema(
    NestedField(1, "source", StringType(), required=False),
    NestedField(2, "part", IntegerType(), required=False),
    NestedField(3, "position", LongType(), required=False),
    NestedField(4, "body", BinaryType(), required=False),
)


class Live:
    """A consumer of another team: from its group's offsets on, it writes rows to a table of its own and commits."""

    def __init__(self, place: Sandbox) -> None:
        from confluent_kafka import Consumer

        self.place = place
        self._catalog = load_catalog(
            "lake", type="sql", uri=place.catalog_uri, warehouse=f"file://{place.home}/warehouse"
        )
        self._catalog.create_namespace_if_not_exists("live")
        self._catalog.create_table("live.orders", SCHEMA)
        self._consumer = Consumer(
            {"bootstrap.servers": place.bootstrap, "group.id": place.topic, "enable.auto.commit": False}
        )

    @property
    def table(self) -> Table:
        return self._catalog.load_table("live.orders")

    def begin(self) -> None:
        """Commit the log's ends: what is there already is the ingest's."""
        from confluent_kafka import TopicPartition

        parts = [TopicPartition(self.place.topic, number) for number in range(self.place.partitions)]
        ends = [self._consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts]
        for part, end in zip(parts, ends, strict=True):
            part.offset = end
        self._consumer.commit(offsets=parts, asynchronous=False)

    def go_on(self) -> None:
        """Read from the committed offsets to the log's ends, whose last entries are records; write, commit."""
        from confluent_kafka import TopicPartition

        parts = [TopicPartition(self.place.topic, number) for number in range(self.place.partitions)]
        ends = {part.partition: self._consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts}
        self._consumer.assign(self._consumer.committed(parts, timeout=30))
        rows: list[dict[str, Any]] = []
        left = dict(ends)
        while left:
            for message in self._consumer.consume(1000, timeout=1):
                assert message.error() is None
                rows.append(self.row(message.partition(), message.offset(), message.value()))
                if message.offset() + 1 == ends[message.partition()]:
                    del left[message.partition()]
        self.write(*rows)
        for part in parts:
            part.offset = ends[part.partition]
        self._consumer.commit(offsets=parts, asynchronous=False)

    def row(self, partition: int, offset: int, body: bytes = b"") -> dict[str, Any]:
        return {"source": self.place.topic, "part": partition, "position": offset, "body": body}

    def write(self, *rows: dict[str, Any]) -> None:
        self.table.append(pa.Table.from_pylist(list(rows), schema=SCHEMA.as_arrow()))

    def close(self) -> None:
        self._consumer.close()
        self._catalog.close()


@pytest.fixture
def live(sandbox: Sandbox) -> Iterator[Live]:
    """A consumer beside the pipeline of a place."""
    made = Live(sandbox)
    yield made
    made.close()


def audit(place: Sandbox) -> Ended:
    return place.command("audit", place.name, "--cutover", "live.orders", "--cutover-columns", COLUMNS, "--json")


@pytest.mark.nightly  # by day: the rules (unit/features/cutover)
def test_the_cutover_with_a_live_stream_is_proven(sandbox: Sandbox, live: Live, spark_jars: list[Any]) -> None:
    """Ingest up to the group, the live stream goes on: sound. A row less, or a row more, on its side: named."""
    sandbox.write_pipeline(source=f'end = "group:{sandbox.topic}"')
    sandbox.produce(20)
    live.begin()
    sandbox.transaction(4, commit=False)  # aborted, right behind the cutover
    sandbox.produce(10, begin=20)
    done = sandbox.run()
    assert done.code == 0, done.err
    assert sum(wave["rows"] for wave in done.document["waves"]) == 20
    live.go_on()
    sound = audit(sandbox)
    assert (sound.code, sound.document["findings"]) == (0, []), sound.out + sound.err
    cutovers = [(item["at"], item["live_from"]) for item in sound.document["cutover"]["streams"]]
    assert cutovers == [(10, 13), (10, 13)]
    assert (
        "2 cutovers with live.orders: nothing is missing and nothing is twice" in sound.document["cutover"]["sentence"]
    )

    before = live.table.metadata.current_snapshot_id
    live.table.delete("part = 0 and position = 13")
    missing = audit(sandbox)
    (finding,) = missing.document["findings"]
    assert (missing.code, finding["kind"], finding["partition"], finding["offsets"]) == (
        1,
        "cutover-missing",
        0,
        [[13, 14]],
    )
    live.table.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    assert audit(sandbox).code == 0

    live.write(live.row(1, 8), live.row(1, 9))
    twice = audit(sandbox)
    (finding,) = twice.document["findings"]
    assert (twice.code, finding["kind"], finding["partition"], finding["offsets"]) == (1, "cutover-twice", 1, [[8, 10]])


@pytest.mark.nightly  # by day: the rules (unit/services/test_cutover.py), and two tables, above
def test_the_cutover_inside_one_table_is_proven(sandbox: Sandbox, live: Live, spark_jars: list[Any]) -> None:
    """The live stream writes into the pipeline's own table, in its columns: rows without an attempt are its rows."""
    sandbox.write_pipeline(source=f'end = "group:{sandbox.topic}"')
    sandbox.produce(20)
    live.begin()
    sandbox.produce(10, begin=20)
    done = sandbox.run()
    assert done.code == 0, done.err

    def write(partition: int, *offsets: int) -> None:
        rows = [
            {"kafka_topic": sandbox.topic, "kafka_partition": partition, "kafka_offset": offset, "value": b"live"}
            for offset in offsets
        ]
        table = sandbox.iceberg()
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))

    for partition in (0, 1):
        write(partition, *range(10, 15))
    cutover = ("audit", sandbox.name, "--cutover", sandbox.table, "--json")
    sound = sandbox.command(*cutover)
    assert (sound.code, sound.document["findings"]) == (0, []), sound.out + sound.err
    assert [(item["at"], item["live_from"]) for item in sound.document["cutover"]["streams"]] == [(10, 10), (10, 10)]
    write(1, 9)
    sandbox.iceberg().delete("kafka_partition = 0 and kafka_offset = 10")
    damaged = sandbox.command(*cutover)
    found = [(item["kind"], item["partition"], item["offsets"]) for item in damaged.document["findings"]]
    assert (damaged.code, sorted(found)) == (1, [("cutover-missing", 0, [[10, 11]]), ("cutover-twice", 1, [[9, 10]])])


def test_a_table_that_has_no_such_columns_is_refused(sandbox: Sandbox, live: Live, spark_jars: list[Any]) -> None:
    """With the words that give them."""
    sandbox.produce(2)
    assert sandbox.command("plan", str(sandbox.file)).code == 0
    ended = sandbox.command("audit", sandbox.name, "--cutover", "live.orders", "--json")
    assert (ended.code, ended.document["error"]["type"]) == (1, "SchemaMismatchError")
    assert "--cutover-columns" in ended.document["error"]["message"]
