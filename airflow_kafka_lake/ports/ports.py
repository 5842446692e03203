"""All ports as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.ports.feature import Features
from airflow_kafka_lake.ports.kafka import BatchReader, OffsetSource
from airflow_kafka_lake.ports.lake import Lake
from airflow_kafka_lake.ports.ledger import Ledger
from airflow_kafka_lake.ports.machine import Clock, JobRunner, Processes


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The world as one value, handed to every service."""

    ledger: Ledger
    source: OffsetSource
    batches: BatchReader
    lake: Lake
    runner: JobRunner
    clock: Clock
    processes: Processes
    actor: str
    progress: Callable[[str], None]
    """Tells a person what is being done, one short sentence at a time."""
    features: Features = field(default_factory=Features)
    """What else is done at the points where a feature may join in."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """The ports that the features brought, by name."""
