"""The cluster that stands in for Kafka: built anew and alike in every process, from what a place's home says happened.

Values are Avro records of one text, framed as a registry's clients frame them, but for one value that is no frame.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from airflow_kafka_lake.core.kafka.snapshots import Snapshot
from airflow_kafka_lake.core.offsets import Stream
from tests.kit.memory_kafka import MemoryKafka

TOPIC = "orders"
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPEN = "nightly-load"
"""The transaction that was opened long ago and that is never ended."""
SCHEMA_ID = 1
FRAME = bytes([0]) + SCHEMA_ID.to_bytes(4, "big")
FRAME_BYTES = len(FRAME)
Acknowledged = dict[tuple[int, int], bytes]


DELETED = 2
"""What another engine deletes of each partition: the offsets below this one."""


class Happened(StrEnum):
    """What may have happened to the cluster since it was made."""

    TRANSACTION = "transaction"
    ELECTION = "election"
    DELETION = "deletion"


def happen(home: Path, what: Happened) -> None:
    """Let something happen to a place's cluster: every process that starts from now on sees it."""
    with (home / "happened").open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


def happened(home: Path) -> list[Happened]:
    """Return what has happened to a place's cluster."""
    file = home / "happened"
    return [Happened(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []


def told(home: Path) -> Iterator[tuple[str, int, int]]:
    """Yield what groups were told, in this order: `(group, partition, offset)`."""
    file = home / "groups"
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        group, partition, offset = json.loads(line)
        yield group, partition, offset


class StandingKafka(MemoryKafka):
    """Whose groups outlive the process: what one commits, all others see at once."""

    def __init__(self, home: Path) -> None:
        super().__init__(now=lambda: AT)
        self._home = home

    def snapshot(
        self, topics: Sequence[str], group: str | None, only: Collection[tuple[str, int]] | None = None
    ) -> Snapshot:
        """See `ports.OffsetSource`."""
        for name, partition, offset in told(self._home):
            self.commit_group(name, TOPIC, partition, offset)
        return super().snapshot(topics, group, only)

    def commit(self, group: str, offsets: Mapping[Stream, int]) -> Mapping[Stream, str]:
        """See `GroupCommitter`."""
        refused = super().commit(group, offsets)
        lines = [json.dumps([group, key[2], offset]) + "\n" for key, offset in offsets.items() if key not in refused]
        file = os.open(self._home / "groups", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, "".join(lines).encode())  # at once: another process may be at the same
        os.close(file)
        return refused


def framed(text: str) -> bytes:
    """Return a record of one short text, as Avro in a frame."""
    return FRAME + bytes([2 * len(text)]) + text.encode()


def text_of(value: bytes | None) -> str | None:
    """Return the text of a framed record; None for what is none."""
    return value[FRAME_BYTES + 1 :].decode() if value is not None and value.startswith(FRAME) else None


def kafka(home: Path) -> tuple[StandingKafka, Acknowledged]:
    """Return a cluster with topic `orders`, and what its producers were told: plain, committed, aborted, plain.

    Behind an open transaction there is a record that no reader may see yet.
    """
    cluster = StandingKafka(home)
    cluster.create_topic(TOPIC, 2)
    acknowledged: Acknowledged = {}

    def produce(partition: int, count: int, transaction: str | None = None, *, kept: bool = True) -> None:
        for number in range(count):
            value = framed(f"{partition}/{transaction}/{number}")
            (offset,) = cluster.produce(TOPIC, partition, value, transaction=transaction)
            acknowledged.update({(partition, offset): value} if kept else {})

    produce(0, 6)
    produce(0, 2, "kept")
    cluster.end("kept", commit=True)
    produce(0, 2, "dropped", kept=False)
    cluster.end("dropped", commit=False)
    produce(0, 2)
    produce(1, 4)
    (offset,) = cluster.produce(TOPIC, 1, b"no frame")
    acknowledged[1, offset] = b"no frame"
    for what in happened(home):
        match what:
            case Happened.TRANSACTION:
                began = int((AT - timedelta(seconds=30)).timestamp() * 1000)  # no run hangs on it
                cluster.produce(TOPIC, 1, framed("open"), transaction=OPEN, timestamp_ms=began)
                produce(1, 1, kept=False)
            case Happened.ELECTION:
                for number in (0, 1):
                    cluster.log(TOPIC, number).elect()
            case Happened.DELETION:  # in the table: no rows of these are expected any more
                acknowledged = {at: value for at, value in acknowledged.items() if at[1] >= DELETED}
    return cluster, acknowledged
