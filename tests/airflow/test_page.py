"""The pages in Airflow's API server: what they show, to whom, and that others learn nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk._shared.plugins_manager import is_valid_plugin

from airflow_kafka_lake.adapters.sql_ledger import SqlLedger
from airflow_kafka_lake.features.pages.web.asking import Server
from airflow_kafka_lake.plugins import KafkaLakePlugin
from tests.airflow.page_server import PageServer

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow's API server as its own command makes it, with a metadata database and the pages of the plugin."""
    from airflow import settings
    from airflow.api_fastapi import app as airflow_app
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi.testclient import TestClient

    folder = tmp_path_factory.mktemp("plugins")
    (folder / "page.py").write_text("from airflow_kafka_lake.plugins import KafkaLakePlugin\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "PLUGINS_FOLDER", str(folder))
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.airflow.page_server.PerDagAuthManager")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "admin:admin")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "j" * 64)
        patch.setenv("AIRFLOW__API__SECRET_KEY", "s" * 64)
        import_all_models()
        Base.metadata.create_all(settings.engine)
        yield TestClient(airflow_app.create_app(apps="core"))
        airflow_app.purge_cached_app()


@pytest.fixture
def server(api_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    """The pages over an empty ledger."""
    file = tmp_path / "ledger.db"
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_LAKE_LEDGER", f'{{"conn_type": "sqlite", "host": "{file}"}}')
    ledger = SqlLedger(f"sqlite:///{file}")
    ledger.upgrade()
    made = PageServer(client=api_server, ledger=ledger)
    KafkaLakePlugin.fastapi_apps[0]["app"].built().state.server = Server(open_ports=made.open_ports)
    yield made
    ledger.close()


def test_plugin_is_found_by_its_entry_point() -> None:
    """The name that is installed leads to a class that Airflow takes for a plugin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["airflow.plugins"]["kafka_lake"].partition(":")
    assert is_valid_plugin(getattr(import_module(module), name))


def test_page_needs_a_user(server: PageServer) -> None:
    """A program is refused; a browser is sent to Airflow's login, and back from there."""
    assert server.get("/api/pipelines", None).status_code == 401
    answer = server.get("/", None)
    assert answer.status_code == 303
    assert "/login?next=" in answer.headers["location"]


def test_pipeline_is_as_visible_as_the_dags_that_plan_it(server: PageServer) -> None:
    """One Dag that a user may read is enough; without any, the pipeline is not there for him."""
    server.planned_by("alpha")
    server.planned_by("beta")
    server.planned_by("gamma", "clicks")

    def seen(user: str) -> list[str]:
        return [item["pipeline"] for item in server.get("/api/pipelines", user).json()["pipelines"]]

    assert seen("viewer") == ["clicks", "orders"]
    assert seen("viewer:beta") == ["orders"]
    assert seen("op:gamma") == ["clicks"]
    assert seen("admin:none") == []
    assert server.get("/api/pipelines/orders", "viewer:beta").json()["pipeline"] == "orders"


def test_pipeline_that_one_may_not_see_is_as_unknown_as_none(server: PageServer) -> None:
    """The answers are the same to the letter."""
    server.planned_by("alpha")
    for what in ("", "/segments", "/waves", "/waves/p1-w0", "/events", "/rights"):
        hidden = server.get(f"/api/pipelines/orders{what}", "admin:beta")
        absent = server.get(f"/api/pipelines/nothing{what}", "admin:beta")
        assert (hidden.status_code, hidden.text) == (404, absent.text)
        assert server.get(f"/pipelines/orders{what}", "admin:beta").status_code == 404


def test_pipeline_that_no_dag_plans_is_seen_by_readers_of_the_ledgers_connection(server: PageServer) -> None:
    """A command line planned it: Airflow's operators and admins see it, viewers and users do not."""
    server.planned_by(None)
    codes = {role: server.get("/api/pipelines/orders", role).status_code for role in ("viewer", "user", "op", "admin")}
    assert codes == {"viewer": 404, "user": 404, "op": 200, "admin": 200}
