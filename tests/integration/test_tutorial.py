"""The tutorial, typed as it stands: on a broker of its own, with a real Spark, from an empty folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from airflow_kafka_lake.local.kafka import LocalKafka
from tests import page_blocks

pytestmark = pytest.mark.nightly

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-pipeline.md"
SECONDS = 1800


def test_tutorial_prints_what_it_says(tmp_path: Path, spark_jars: list[Path]) -> None:
    """Every command of it, every file, and everything that it shows."""
    assert spark_jars
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = tmp_path / "home"
    home.mkdir()
    with LocalKafka() as kafka:
        names = {"localhost:9092": kafka.bootstrap}
        assert page_blocks.run(PAGE, home, {"PATH": path}, names, SECONDS) == []
