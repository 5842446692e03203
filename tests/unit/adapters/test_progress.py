"""Whether a driver makes progress, and what it counts, from the file that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_lake.adapters.spark_submit import driver
from airflow_kafka_lake.adapters.spark_submit.driver import Signs
from airflow_kafka_lake.core.reports.progress import Counters

pytestmark = pytest.mark.unit


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still until it is set."""
    now = [100.0]
    monkeypatch.setattr(driver.time, "monotonic", lambda: now[0])
    return now


def test_the_start_is_a_sign(tmp_path: Path, seconds: list[float]) -> None:
    """A driver that has not said anything yet has its time to start."""
    progress = Signs(tmp_path / "progress", 60)
    seconds[0] += 59
    assert progress.is_recent()


def test_no_sign_for_long_is_no_progress(tmp_path: Path, seconds: list[float]) -> None:
    """Neither silence nor the same words again."""
    progress = Signs(tmp_path / "progress", 60)
    (tmp_path / "progress").write_text("{1: (0, 2)}")
    assert progress.is_recent()
    seconds[0] += 59
    (tmp_path / "progress").write_text("{1: (0, 2)}")
    assert progress.is_recent()
    seconds[0] += 1
    assert not progress.is_recent()


def test_every_new_sign_counts(tmp_path: Path, seconds: list[float]) -> None:
    """Also one that is found late."""
    progress = Signs(tmp_path / "progress", 60)
    for turn in range(5):
        seconds[0] += 59
        (tmp_path / "progress").write_text(str(turn))
        assert progress.is_recent()


def test_what_is_counted_is_handed_on(tmp_path: Path, seconds: list[float]) -> None:
    """With every look, so that the last is not missed; what is half written, or no longer there, is left out."""
    file, told = tmp_path / "progress", list[Counters]()
    progress = Signs(file, 60, told.append)
    progress.is_recent()
    file.write_text(Counters(rows=5).to_json(sign="a"))
    progress.is_recent()
    file.write_text(Counters(rows=7).to_json(sign="b").ljust(512))
    progress.is_recent()
    progress.is_recent()
    for broken in ("", '{"rows": 9', "[1]", '{"rows": "many"}', "\x00" * 100):
        file.write_text(broken)
        assert progress.is_recent()
    file.write_bytes(b"\xff\xfe")
    assert progress.is_recent()
    file.unlink()
    seconds[0] += 59
    assert progress.is_recent()
    assert told == [Counters(rows=5), Counters(rows=7), Counters(rows=7)]
