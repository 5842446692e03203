"""A lake in memory, with history, branches and faults: for tests, and to try a pipeline without a cluster."""

from __future__ import annotations

from tests.kit.memory_lake.store import Answer, Commit, Position, Row
from tests.kit.memory_lake.table import MemoryLake, MemoryTable

__all__ = ["Answer", "Commit", "MemoryLake", "MemoryTable", "Position", "Row"]
