"""Records that no Spark job can read, beside others, on a real broker: they are held, and the rest lands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.sandbox import Sandbox

MILLISECONDS = 1_700_000_000_123
MICROSECONDS, NANOSECONDS = MILLISECONDS * 1000, MILLISECONDS * 1_000_000


def accept_any_time(sandbox: Sandbox) -> None:
    """Let the sandbox's topic take any number for a time, as brokers did before Kafka 4, and keep what is old."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    wanted = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    changes = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in wanted.items()]
    asked = ConfigResource(ResourceType.TOPIC, sandbox.topic, incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap})
    admin.incremental_alter_configs([asked])[asked].result(30)


def produce(sandbox: Sandbox, partition: int, *batches: Sequence[int]) -> None:
    """Produce batches to a partition: a record for each time.

    A producer waits with a batch until it is flushed; yet one that learns of its partition meanwhile may send the batch
    as two.
    """
    from confluent_kafka import Producer

    for batch in batches:
        producer = Producer({"bootstrap.servers": sandbox.bootstrap, "linger.ms": 60_000})
        for at in batch:
            offset = sum(number == partition for number, _ in sandbox.acknowledged)
            sandbox.acknowledged[partition, offset] = value = f"record {offset} of partition {partition}".encode()
            producer.produce(sandbox.topic, value, partition=partition, timestamp=at, headers={"a": b"1", "b": None})
        assert producer.flush(60) == 0


def damage(folder: Path, number: int) -> range:
    """Flip a byte in the body of one batch of a partition whose broker is down, and return the batch's offsets."""
    (log,) = folder.glob("*.log")
    data = bytearray(log.read_bytes())
    at = 0
    for _ in range(number):
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    data[at + 70] ^= 0xFF
    log.write_bytes(data)
    first, last = int.from_bytes(data[at : at + 8], "big"), int.from_bytes(data[at + 23 : at + 27], "big")
    return range(first, first + last + 1)


@pytest.mark.nightly
def test_records_that_no_job_can_read_are_held_by_themselves(spark_jars: list[Path], tmp_path: Path) -> None:
    """Microseconds and nanoseconds land with their number kept; a damaged batch is held by partition, offset and cause;
    every other record is in the lake after the same run, and the deep audit and a rebuild agree."""
    from airflow_kafka_lake.local.kafka import LocalKafka

    with LocalKafka() as broker, closing(Sandbox(tmp_path / "place", broker.bootstrap, partitions=3)) as sandbox:
        text = sandbox.file.read_text()
        sandbox.file.write_text(text.replace("[spark]", 'partition_by = "days(kafka_timestamp)"\n[spark]'))
        accept_any_time(sandbox)
        usual = [MILLISECONDS] * 3
        produce(sandbox, 0, usual, [MICROSECONDS] * 2, usual)
        produce(sandbox, 1, usual, [MILLISECONDS, NANOSECONDS, MILLISECONDS, NANOSECONDS], usual)
        produce(sandbox, 2, usual, usual, usual)
        broker.stop()
        damaged = damage(broker.log_dir / f"{sandbox.topic}-2", 1)
        broker.start()

        done = sandbox.run()
        assert done.code == 1, done.err
        (broken,) = done.document["held"]
        batch = f"{damaged.start}-{damaged.stop}"
        assert broken.startswith(
            f"{sandbox.topic}/2 {batch} held: UnreadableRecordError: {sandbox.topic}/2 {batch} cannot be read: "
            f"wrong checksum, batch {batch}. Skip it with: kafka-lake skip "
        )
        assert done.document["left"] == [], done.err
        lost = {(2, offset) for offset in damaged}
        landed = {key: value for key, value in sandbox.acknowledged.items() if key not in lost}
        sandbox.assert_exact(landed)
        rows = sandbox.iceberg().scan(row_filter="kafka_timestamp is null").to_arrow().to_pylist()
        assert sorted(row["kafka_timestamp_raw"] for row in rows) == [*[MICROSECONDS] * 2, *[NANOSECONDS] * 2]

        audit = sandbox.command("audit", str(sandbox.file), "--deep", "--json")
        assert audit.document["deep"]["records"] == len(landed), audit.out
        assert {item["partition"] for item in audit.document["findings"]} <= {2}, audit.out
        sandbox.ledger.unlink()
        rebuilt = sandbox.command("rebuild", str(sandbox.file), "--json")
        assert rebuilt.code == 0, rebuilt.err
        assert sandbox.rows().total() == len(landed), done.err + done.out[-3000:]
        sandbox.assert_exact(landed)
