"""Runs when rows of any pipeline have landed, and returns them: each slice of offsets once.

A Dag of your own would be scheduled on `pipeline_asset("orders")`, and read just these offsets from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, task

from airflow_kafka_lake.assets import all_pipelines, landed

with DAG("kafka_lake_landed", schedule=[all_pipelines()], catchup=False, doc_md=__doc__, tags=["kafka-lake"]) as dag:

    @task
    def show(triggering_asset_events: Mapping[Any, Any] | None = None) -> dict[str, list[list[str | int]]]:
        """Return the slices of each pipeline, as `[topic, partition, from, to]`."""
        found = landed(triggering_asset_events or {})
        return {name: [list(item) for item in what.slices] for name, what in found.items()}

    show()
