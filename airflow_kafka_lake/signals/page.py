"""The link from a task to the page of its pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.configuration import conf

from airflow_kafka_lake.core.addresses import dry_run_page, pipeline_page
from airflow_kafka_lake.links.task_links import PAGE, never_failing, show
from airflow_kafka_lake.registration import FEATURES


def show_page(task: Any, pipeline: str, *, wave: str | None = None, at_once: Mapping[str, Any] | None = None) -> None:
    """Link to the page of a pipeline, or of a wave on it, if there are pages; with a context `at_once`, before the task
    has ended."""
    with never_failing("the link to the page"):
        base = conf.get("api", "base_url", fallback="")
        if FEATURES.sites:
            show(task, PAGE, pipeline_page(base, pipeline, wave), at_once=at_once)


def go_on_address(context: Mapping[str, Any]) -> str | None:
    """Return the page from which a person goes on after the dry run of a task's Dag run; None if there are no pages."""
    ti = context["ti"]
    return dry_run_page(conf.get("api", "base_url", fallback=""), ti.dag_id, ti.run_id) if FEATURES.sites else None
