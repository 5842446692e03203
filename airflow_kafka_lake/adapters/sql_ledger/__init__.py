"""The ledger in SQLite or PostgreSQL."""

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger

__all__ = ["SqlLedger"]
