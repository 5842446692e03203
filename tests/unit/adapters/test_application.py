"""A driver writes which application it is, and its worker reads it once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_lake.adapters.spark_submit.driver import ApplicationFile
from airflow_kafka_lake.core.spark.job import Application
from airflow_kafka_lake.jobs.driver import APPLICATION_FILE, write_application

pytestmark = pytest.mark.unit


def session(conf: dict[str, str], page: str | None = "http://driver:4040") -> Any:
    """Return what is read of a Spark session."""
    context = SimpleNamespace(applicationId="app-1", uiWebUrl=page, getConf=lambda: conf)
    return SimpleNamespace(sparkContext=context)


def told(folder: Path, history: str | None = None) -> tuple[ApplicationFile, list[Application]]:
    found: list[Application] = []
    return ApplicationFile(folder / APPLICATION_FILE, history, found.append), found


def test_application_is_told_once(tmp_path: Path) -> None:
    """Not before the driver has written it, and not again."""
    looking, found = told(tmp_path, "https://history")
    looking.follow()
    assert found == []
    write_application(session({"spark.eventLog.enabled": "true"}), tmp_path)
    looking.follow()
    looking.follow()
    assert found == [Application(id="app-1", page="http://driver:4040", history="https://history/history/app-1/")]


def test_page_behind_the_masters_proxy_is_the_proxys(tmp_path: Path) -> None:
    """A browser reaches the driver only through it; Spark's setting without an address changes nothing."""
    proxy = {"spark.ui.reverseProxy": "true", "spark.ui.reverseProxyUrl": "https://spark.example.org/"}
    write_application(session(proxy), tmp_path)
    assert json.loads((tmp_path / APPLICATION_FILE).read_text())["page"] == "https://spark.example.org/proxy/app-1/"
    write_application(session(proxy | {"spark.ui.reverseProxy": "false"}), tmp_path)
    assert json.loads((tmp_path / APPLICATION_FILE).read_text()) == {
        "id": "app-1", "page": "http://driver:4040", "logged": False
    }  # fmt: skip


def test_session_that_cannot_say_works_on(tmp_path: Path) -> None:
    """Spark Connect has no context, a folder may be gone: no file, no error."""
    write_application(SimpleNamespace(), tmp_path)
    write_application(session({}), tmp_path / "gone")
    looking, found = told(tmp_path)
    looking.follow()
    assert found == []


@pytest.mark.parametrize("text", ["", "{", '{"id": 7}', '["app-1"]'])
def test_file_that_says_nothing_is_read_once(tmp_path: Path, text: str) -> None:
    """What is no document of a driver is let go."""
    (tmp_path / APPLICATION_FILE).write_text(text)
    looking, found = told(tmp_path)
    looking.follow()
    (tmp_path / APPLICATION_FILE).write_text('{"id": "app-1"}')
    looking.follow()
    assert found == []
