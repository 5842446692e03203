"""Bounded Kafka offset ranges into a lake table, exactly once, with proof: an Apache Airflow provider."""

from __future__ import annotations

__version__ = "0.1.0"
