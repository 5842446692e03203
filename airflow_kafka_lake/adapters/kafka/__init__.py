"""Kafka as the planner sees it, through librdkafka."""

from __future__ import annotations

from airflow_kafka_lake.adapters.kafka.source import KafkaOffsetSource

__all__ = ["KafkaOffsetSource"]
