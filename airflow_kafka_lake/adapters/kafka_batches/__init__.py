"""Explains offsets without rows from Kafka's raw record batches, read with kafka-python's low-level client."""

from __future__ import annotations

from airflow_kafka_lake.adapters.kafka_batches.reader import KafkaBatchReader

__all__ = ["KafkaBatchReader"]
