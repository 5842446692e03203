"""The demonstration on a machine that has nothing yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from airflow_kafka_lake.adapters import jars
from airflow_kafka_lake.adapters.jars import JOBS, JarSet
from airflow_kafka_lake.local import demo
from airflow_kafka_lake.wiring import spark


class Quiet:
    """A screen that shows nothing."""

    def progress(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def line(self, text: str) -> None: ...
    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None: ...


class AllFetchedError(Exception):
    """The demonstration would start its broker now."""


def test_before_a_demonstration_starts_its_broker_it_has_fetched_the_jars_of_every_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched: list[JarSet] = []
    archived: list[Sequence[Path]] = []

    def fetch(jar_set: JarSet, *, progress: Callable[[str], None]) -> list[Path]:
        progress(f"fetching {jar_set}")
        fetched.append(jar_set)
        return [tmp_path / f"{jar_set}.jar"]

    def broker(*_: object, **__: object) -> None:
        raise AllFetchedError

    monkeypatch.setattr(jars, "fetch", fetch)
    monkeypatch.setattr(demo, "fetch", fetch)
    monkeypatch.setattr(demo, "LocalKafka", broker)
    monkeypatch.setattr(spark, "archive_path", lambda _: tmp_path / "archive")
    monkeypatch.setattr(spark, "make_archive", archived.append)

    with pytest.raises(AllFetchedError):
        demo.demonstrate(Quiet(), keep_running=False, report=None)

    assert set(fetched) == {*JOBS, JarSet.KAFKA_BROKER}
    assert archived == [[tmp_path / f"{jar_set}.jar" for jar_set in JOBS]], "the archive fits what a job is given"
