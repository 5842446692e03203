"""The end of a transaction on a real broker, as tests need it: its coordinator answers before the markers are written.

What is produced or read in between meets a partition in which the transaction is still open: a marker then stands
behind records that came later, in about one of sixty cases on a busy machine.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from airflow_kafka_lake.local.processes import wait_until

if TYPE_CHECKING:
    from confluent_kafka import Producer

SECONDS = 120


def end(producer: Producer, bootstrap: str, partitions: Collection[tuple[str, int]], *, commit: bool) -> None:
    """End a producer's transaction, whose records are flushed, and wait for its marker in every partition of it."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = {TopicPartition(*partition): OffsetSpec.latest() for partition in partitions}

    def ends() -> dict[tuple[str, int], int]:
        found = admin.list_offsets(asked).items()
        return {(item.topic, item.partition): future.result(SECONDS).offset for item, future in found}

    written = ends()
    (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)

    def marked() -> bool:
        now = ends()
        return all(now[partition] > offset for partition, offset in written.items())

    wait_until(marked, timeout=SECONDS, failed=AssertionError)
