"""Documents as pages: which function draws which page, and what pages load."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from airflow_kafka_lake.pages.charts import segments_page as segments
from airflow_kafka_lake.pages.pipeline import dry_run_page as dry_run
from airflow_kafka_lake.pages.pipeline import history_page as events
from airflow_kafka_lake.pages.pipeline import overview_page as overview
from airflow_kafka_lake.pages.pipeline import pipeline_page as pipeline
from airflow_kafka_lake.pages.pipeline import wave_page as wave
from airflow_kafka_lake.pages.pipeline import waves_page as waves
from airflow_kafka_lake.pages.rendering import STATIC
from airflow_kafka_lake.pages.rendering import refusal_page as refusal

__all__ = ["dry_run", "events", "overview", "pipeline", "refusal", "segments", "static_files", "wave", "waves"]

TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@cache
def static_files() -> Mapping[str, tuple[bytes, str]]:
    """Return what pages load, by name: the bytes and the media type."""
    files = sorted(STATIC.glob("*")) if STATIC.is_dir() else []
    return {file.name: (file.read_bytes(), TYPES[file.suffix]) for file in files if file.suffix in TYPES}
