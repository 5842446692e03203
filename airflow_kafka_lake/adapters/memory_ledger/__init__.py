"""The ledger in memory."""

from airflow_kafka_lake.adapters.memory_ledger.ledger import MemoryLedger
from airflow_kafka_lake.adapters.memory_ledger.state import State

__all__ = ["MemoryLedger", "State"]
