"""Schemas from a registry that speaks Confluent's API: Confluent's own, Apicurio, Karapace, Redpanda and others."""

from __future__ import annotations

from airflow_kafka_lake.features.decoding.registry.client import ConfluentRegistry, RegistryClientMissingError
from airflow_kafka_lake.features.decoding.registry.settings import RegistrySettings

__all__ = ["ConfluentRegistry", "RegistryClientMissingError", "RegistrySettings"]
