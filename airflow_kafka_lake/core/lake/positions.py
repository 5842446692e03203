"""Which columns of a table say where in Kafka a row comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionColumns:
    """The columns of a row's position; `topic` None: every row is of `only_topic`."""

    topic: str | None = "kafka_topic"
    partition: str = "kafka_partition"
    offset: str = "kafka_offset"
    only_topic: str = ""
