"""A record that is too large for the heap of a Spark job, beside others, on a real broker: it is held by itself."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.rig import Rig

HUGE = 200_000_000
HEAP = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {"spark.driver.memory": "640m"}}}


@pytest.mark.nightly
def test_record_too_large_for_the_heap_is_held_by_itself(spark_jars: list[Path], tmp_path: Path) -> None:
    """200 MB of zeros in a batch of a few kilobytes: those before and behind it land, and no other is blamed."""
    from confluent_kafka import Producer

    from airflow_kafka_lake.local.kafka import LocalKafka

    assert spark_jars
    with LocalKafka(heap="1500m") as broker, closing(Rig(tmp_path / "place", broker.bootstrap)) as rig:
        settings = {"bootstrap.servers": rig.bootstrap, "message.max.bytes": 1_000_000_000, "compression.type": "zstd"}
        producer = Producer(settings)
        for partition in (0, 1):
            for offset in range(3):
                rig.acknowledged[partition, offset] = f"{partition} {offset}".encode()
                huge = (partition, offset) == (0, 1)
                producer.produce(rig.topic, b"\0" * HUGE if huge else f"{partition} {offset}", partition=partition)
                assert producer.flush(120) == 0
        codes = []
        for _ in range(2):
            process = rig.start("run", str(rig.file), "--json", env={"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(HEAP)})
            done = rig.end(process, timeout=1500)
            codes.append(done.code)
        assert codes == [3, 1], done
        (held,) = done.document["held"]
        assert held.startswith(f"{rig.topic}/0 1-2 held: UnreadableRecordError: "), held
        assert "Spark runs out of memory over it. Pass it with: kafka-lake skip" in held
        del rig.acknowledged[0, 1]
        rig.assert_exact(rig.acknowledged)
