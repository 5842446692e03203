"""A record that is too large for the heap of a Spark job, beside others, on a real broker: it is held by itself."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.sandbox import Sandbox

HUGE = 200_000_000
HEAP = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {"spark.driver.memory": "640m"}}}


def produce(sandbox: Sandbox, partition: int, value: bytes) -> int:
    """Produce a record in a batch of its own, and return its offset."""
    from confluent_kafka import Producer

    offsets: list[int] = []
    settings = {"bootstrap.servers": sandbox.bootstrap, "message.max.bytes": 1_000_000_000, "compression.type": "zstd"}
    producer = Producer(settings)
    producer.produce(
        sandbox.topic, value, partition=partition, on_delivery=lambda _, done: offsets.append(done.offset())
    )
    assert producer.flush(120) == 0
    return offsets[0]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_record_too_large_for_the_heap_is_held_by_itself(spark_jars: list[Path], tmp_path: Path) -> None:
    """200 MB of zeros in a batch of a few kilobytes: those before and behind it land, and no other offset is blamed,
    also not those before it that have no record: an aborted transaction wider than a poll, and markers. Once it is
    skipped, the deep audit of all others succeeds with the same heap."""
    from airflow_kafka_lake.local.kafka import LocalKafka

    assert spark_jars
    with LocalKafka(heap="1500m") as broker, closing(Sandbox(tmp_path / "place", broker.bootstrap)) as sandbox:

        def small(partition: int) -> None:
            value = f"record of partition {partition}".encode()
            sandbox.acknowledged[partition, produce(sandbox, partition, value)] = value

        for partition in (0, 0, 0, 1, 1):
            small(partition)
        sandbox.transaction(1000, commit=False, partitions=1)
        for _ in range(2):
            sandbox.transaction(1, commit=True, partitions=1)
        huge = produce(sandbox, 0, b"\0" * HUGE)
        small(0)
        small_heap, codes = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(HEAP)}, list[int]()
        for _ in range(2):
            process = sandbox.start("run", str(sandbox.file), "--json", env=small_heap)
            done = sandbox.end(process, timeout=1500)
            codes.append(done.code)
        assert codes == [3, 1], (codes, done)
        (held,) = done.document["held"]
        assert held.startswith(f"{sandbox.topic}/0 {huge}-{huge + 1} held: UnreadableRecordError: "), held
        assert "Spark runs out of memory over it. Skip it with: kafka-lake skip" in held
        sandbox.assert_exact()
        sandbox.obey(held.partition("; or")[0])
        process = sandbox.start("audit", str(sandbox.file), "--deep", "--json", env=small_heap)
        audit = sandbox.end(process, timeout=1500)
        assert (audit.code, audit.document["findings"]) == (0, []), audit
        assert "comparing once more, and polling nothing that lies behind" in audit.err
