"""Whether a driver makes progress, from the signs that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.spark_submit import log
from airflow_kafka_lake.adapters.spark_submit.log import Progress

pytestmark = pytest.mark.unit


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until it is set."""
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    return now


def test_the_start_is_a_sign(tmp_path: Path, seconds: list[float]) -> None:
    """A driver that has not said anything yet has its time to start."""
    progress = Progress(tmp_path / "progress", 60)
    seconds[0] += 59
    assert progress.is_recent()


def test_no_sign_for_long_is_no_progress(tmp_path: Path, seconds: list[float]) -> None:
    """Neither silence nor the same words again."""
    progress = Progress(tmp_path / "progress", 60)
    (tmp_path / "progress").write_text("{1: (0, 2)}")
    assert progress.is_recent()
    seconds[0] += 59
    (tmp_path / "progress").write_text("{1: (0, 2)}")
    assert progress.is_recent()
    seconds[0] += 1
    assert not progress.is_recent()


def test_every_new_sign_counts(tmp_path: Path, seconds: list[float]) -> None:
    """Also one that is found late."""
    progress = Progress(tmp_path / "progress", 60)
    for turn in range(5):
        seconds[0] += 59
        (tmp_path / "progress").write_text(str(turn))
        assert progress.is_recent()
