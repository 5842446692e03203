"""Records written by key over several layouts of a topic, and how a reader of the table finds them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sandbox import Sandbox


@dataclass
class KeyedRecords:
    """Every key's values in the order in which one producer wrote them."""

    sandbox: Sandbox
    keys: tuple[str, ...] = tuple(f"key {number}" for number in range(16))
    written: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    _numbers: Any = field(default_factory=itertools.count)

    def write(self, rounds: int, keys: Sequence[str] = ()) -> None:
        """Write each key's next values; the producer is new, so it knows the topic's layout of now."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.sandbox.bootstrap, "partitioner": "murmur2_random"})
        for _ in range(rounds):
            for key in keys or self.keys:
                value = f"{key}: {next(self._numbers)}".encode()
                producer.produce(self.sandbox.topic, key=key, value=value, on_delivery=self._noted)
                self.written[key].append(value)
        assert producer.flush(60) == 0

    def write_late(self, key: str, partition: int) -> bytes:
        """Write a key's next value as a producer does that has not heard of the newest layout."""
        from confluent_kafka import Producer

        value = f"{key}: {next(self._numbers)}".encode()
        producer = Producer({"bootstrap.servers": self.sandbox.bootstrap})
        producer.produce(self.sandbox.topic, key=key, value=value, partition=partition, on_delivery=self._noted)
        assert producer.flush(60) == 0
        return value

    def _noted(self, error: Any, message: Any) -> None:
        assert error is None
        self.sandbox.acknowledged[message.partition(), message.offset()] = message.value()

    def expand(self, partitions: int) -> None:
        """Give the topic more partitions."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient({"bootstrap.servers": self.sandbox.bootstrap})
        for future in admin.create_partitions([NewPartitions(self.sandbox.topic, partitions)]).values():
            future.result(timeout=60)

    def read(self) -> dict[str, list[bytes]]:
        """Return every key's values by the commit that brought them, then by offset."""
        table = self.sandbox.iceberg()
        commits = {
            snapshot.summary.additional_properties.get("kafka-lake.attempt"): snapshot.sequence_number
            for snapshot in table.metadata.snapshots
            if snapshot.summary.additional_properties.get("kafka-lake.kind") == "publish"
        }
        rows = table.scan(selected_fields=("key", "value", "kafka_offset", "ingest_attempt")).to_arrow().to_pylist()
        rows.sort(key=lambda row: (commits[row["ingest_attempt"]], row["kafka_offset"]))
        found: dict[str, list[bytes]] = defaultdict(list)
        for row in rows:
            found[row["key"].decode()].append(row["value"])
        return found
