"""The ledger in memory."""

from tests.kit.memory_ledger.ledger import MemoryLedger
from tests.kit.memory_ledger.state import State

__all__ = ["MemoryLedger", "State"]
