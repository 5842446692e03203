"""All ports as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_lake.core.live import Live
from airflow_kafka_lake.ports.feature import Features
from airflow_kafka_lake.ports.kafka import BatchReader, OffsetSource
from airflow_kafka_lake.ports.lake import Lake
from airflow_kafka_lake.ports.ledger import Ledger
from airflow_kafka_lake.ports.machine import Clock, JobRunner, Processes


def unseen(_: Live) -> None:
    """Show nothing."""


def always(_: str) -> None:
    """Want every wave to its end."""


def unprepared(_: int) -> None:
    """Let the first job start its driver."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """All ports as one value, which every service takes."""

    ledger: Ledger
    source: OffsetSource
    batches: BatchReader
    lake: Lake
    runner: JobRunner
    clock: Clock
    processes: Processes
    actor: str
    progress: Callable[[str], None]
    """Shows a person what is being done, one short sentence at a time."""
    live: Callable[[Live], None] = unseen
    """Shows a person how far it is, moment by moment; it fails nothing."""
    wanted: Callable[[str], None] = always
    """Asked about a wave each time its lease is renewed; what it raises ends the attempt, and its job."""
    prepare: Callable[[int], None] = unprepared
    """Told that jobs of so much effort (`core.lake.effort`) will probably follow, whose driver may start meanwhile; it
    fails nothing."""
    features: Features = field(default_factory=Features)
    """What the installed features add to the main path."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """The features' own ports, by name."""
