"""A Kafka in memory, for simulations and for tests of Dags: it answers as a real one, and can be made to fail."""

from __future__ import annotations

from tests.kit.memory_kafka.cluster import MemoryKafka
from tests.kit.memory_kafka.log import Entry, Log

__all__ = ["Entry", "Log", "MemoryKafka"]
