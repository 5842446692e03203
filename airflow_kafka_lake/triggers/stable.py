"""Wait, without a worker slot, until a group's pending commits have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_lake.core.kafka.snapshots import GroupOffsetState
from airflow_kafka_lake.ports import LedgerReader
from airflow_kafka_lake.triggers.conditions import Answer, Condition, Source
from airflow_kafka_lake.triggers.waits import LedgerTrigger
from airflow_kafka_lake.wiring.connections import aget_connection
from airflow_kafka_lake.wiring.kafka import TYPES as KAFKA_TYPES
from airflow_kafka_lake.wiring.kafka import KafkaConnection
from airflow_kafka_lake.wiring.ledger import DEFAULT_LEDGER


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStable:
    """No commit of a group is pending in some partitions any more, or the time is over (`until`, epoch seconds)."""

    group: str
    partitions: Sequence[tuple[str, int]]
    until: float

    def __call__(self, _ledger: LedgerReader, source: Source, /) -> Answer:
        """Look once; the task that waited looks again itself, so the end of the time is an end like the other."""
        if time.time() >= self.until:
            return Answer(done=True, message=f"commits of group {self.group!r} are still pending, and the time is over")
        snapshot = source().snapshot(sorted({topic for topic, _ in self.partitions}), self.group)
        pending = [
            f"{item.stream}"
            for item in snapshot.partitions
            if (item.stream.topic, item.stream.partition) in self.partitions
            and item.group_offset_state is GroupOffsetState.UNSTABLE
        ]
        if not pending:
            return Answer(done=True, message=f"no commit of group {self.group!r} is pending")
        return Answer(done=False, message=f"commits of group {self.group!r} are pending on {', '.join(pending)}")


class StableTrigger(LedgerTrigger):
    """Waits until commits of a group are no longer pending, at most until a time (epoch seconds)."""

    def __init__(
        self,
        *,
        pipeline: str,
        kafka_conn_id: str,
        group: str,
        partitions: Sequence[Sequence[str | int]],
        until: float,
        ledger_conn_id: str = DEFAULT_LEDGER,
    ) -> None:
        super().__init__(pipeline=pipeline, ledger_conn_id=ledger_conn_id)
        self.kafka_conn_id = kafka_conn_id
        self.group = group
        self.partitions = [list(item) for item in partitions]
        self.until = until

    def own_arguments(self) -> dict[str, Any]:
        """Return the arguments beside the ledger's."""
        return {
            "kafka_conn_id": self.kafka_conn_id,
            "group": self.group,
            "partitions": self.partitions,
            "until": self.until,
        }

    def condition(self) -> Condition:
        """Return what is waited for."""
        partitions = [(str(topic), int(partition)) for topic, partition in self.partitions]
        return GroupStable(group=self.group, partitions=partitions, until=self.until)

    def time_is_over(self) -> bool:
        """Return whether the bound of the wait has passed."""
        return time.time() >= self.until

    async def open(self) -> None:
        """Resolve the connections of Kafka and the ledger."""
        connection = await aget_connection(self.kafka_conn_id, *KAFKA_TYPES)
        self._source = KafkaConnection(self.kafka_conn_id, connection=connection).source()
        await super().open()
