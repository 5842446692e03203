"""The pages in Airflow's API server: what they show, to whom, and that others learn nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk._shared.plugins_manager import is_valid_plugin
from anyio.from_thread import start_blocking_portal
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from itsdangerous import TimestampSigner, URLSafeTimedSerializer
from sqlalchemy import delete, inspect

from airflow_kafka_lake.adapters.sql_ledger.ledger import SqlLedger
from airflow_kafka_lake.pages.web import access
from airflow_kafka_lake.pages.web.access import Server
from airflow_kafka_lake.plugins import KafkaLakePlugin
from airflow_kafka_lake.wiring.assemble import open_ports
from tests.airflow.page_server import COOKIE, PageServer, token
from tests.airflow.page_server import ROOT as ROOT_PATH
from tests.canaries import planted
from tests.documented import strange, undocumented
from tests.reading_html import read
from tests.world import World

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Airflow's API server as its own command makes it, with a metadata database and the pages of the plugin."""
    from airflow import settings
    from airflow.api_fastapi import app as airflow_app
    from airflow.models import import_all_models
    from airflow.models.base import Base

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
        client = TestClient(airflow_app.create_app(apps="core"))
        with start_blocking_portal() as client.portal:  # one loop for all requests, not one for each
            yield client
        airflow_app.purge_cached_app()


def _opened(client: TestClient, folder: Path) -> PageServer:
    ledger = SqlLedger(f"sqlite:///{folder / 'ledger.db'}")
    ledger.upgrade()
    return PageServer(client=client, ledger=ledger)


def _shown(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> PageServer:
    """Let the pages show a ledger, and forget what they have shown."""
    file = server.ledger.engine.url.database
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_LAKE_LEDGER", f'{{"conn_type": "sqlite", "host": "{file}"}}')
    KafkaLakePlugin.fastapi_apps[0]["app"].built().state.server = Server(open_ports=server.open_ports)
    return server


@pytest.fixture
def server(api_server: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    """The pages over an empty ledger."""
    made = _opened(api_server, tmp_path)
    yield _shown(made, monkeypatch)
    made.ledger.close()


def test_plugin_is_found_by_its_entry_point() -> None:
    """The name that is installed leads to a class that Airflow takes for a plugin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["airflow.plugins"]["kafka_lake"].partition(":")
    assert is_valid_plugin(getattr(import_module(module), name))


def test_plugin_costs_other_processes_nothing() -> None:
    """Every process of Airflow imports it; what the pages need is imported when the API server is first asked."""
    script = (
        "import sys, airflow.sdk.plugins_manager; before = set(sys.modules); import airflow_kafka_lake.plugins; "
        "print([name for name in set(sys.modules) - before if not name.startswith('airflow_kafka_lake')], "
        "[name for name in sys.modules if name.startswith('airflow_kafka_lake.pages.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] []"


def test_page_needs_a_user(server: PageServer) -> None:
    """A program is refused; a browser is sent to Airflow's login, and back from there."""
    assert server.get("/api/pipelines", None).status_code == 401
    answer = server.get("/", None)
    assert answer.status_code == 303
    assert answer.headers["location"].endswith("/login?next=%2Fkafka-lake%2F")


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


def test_page_says_which_dag_is_paused_in_airflow(server: PageServer) -> None:
    """Of the Dags that have planned the pipeline, and only to a user who may see the Dag; not one that runs."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    server.planned_by("alpha")
    server.planned_by("beta")
    with create_session() as session:
        session.add(DagBundleModel(name="dags-folder"))
        session.flush()
        for dag, is_paused in (("alpha", True), ("beta", False), ("gamma", True)):
            session.add(DagModel(dag_id=dag, bundle_name="dags-folder", is_paused=is_paused))
    try:
        assert "Paused in Airflow: alpha No run of it begins" in read(server.get("/pipelines/orders").text).text
        assert "Paused in Airflow" not in server.get("/pipelines/orders", "viewer:beta").text
    finally:
        with create_session() as session:
            session.execute(delete(DagModel))
            session.execute(delete(DagBundleModel))


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


def test_many_who_look_cost_one_look(server: PageServer) -> None:
    """All who ask within some seconds get the same document, and only its version if they have it; a decision makes it
    anew."""
    server.planned_by("alpha")
    first = server.get("/api/pipelines/orders", "viewer")
    for user in ("viewer", "user:alpha", "op"):
        assert server.get("/api/pipelines/orders", user).text == first.text
        known = server.get("/api/pipelines/orders", user, **{"If-None-Match": first.headers["etag"]})
        assert (known.status_code, known.text) == (304, "")
    assert server.get("/pipelines/orders", "viewer").status_code == 200
    assert server.opened == ["orders"]
    assert server.decide("cancel", subject=server.world.ledger.waves("orders")[0].id).status_code == 200
    assert server.get("/api/pipelines/orders", "viewer").headers["etag"] != first.headers["etag"]


# Decisions


def test_decision_needs_the_right_to_trigger_a_dag_or_to_edit_the_connection(server: PageServer) -> None:
    """A viewer reads; one who may trigger a Dag that plans the pipeline decides; so does who edits the connection."""
    server.planned_by("alpha")
    wave = server.world.ledger.waves("orders")[0].id
    for user, allowed in (
        ("viewer", False),
        ("viewer:alpha", False),
        ("user:alpha", True),
        ("user", True),
        ("op:alpha", True),
    ):
        assert server.get("/api/pipelines/orders/rights", user).json()["may_decide"] is allowed
        code = server.decide("cancel", user, subject=wave).status_code
        assert code == (200 if allowed else 403)
        if allowed:
            wave = server.decide("release", user, subject=wave).json()["wave"]
    assert server.decide("cancel", "admin:beta", subject=wave).status_code == 404


def test_pipeline_of_no_dag_is_decided_about_by_editors_of_the_ledgers_connection(server: PageServer) -> None:
    """A user who reads Dags only is told that there is no such pipeline."""
    server.planned_by(None)
    wave = server.world.ledger.waves("orders")[0].id
    assert server.decide("cancel", "user", subject=wave).status_code == 404
    assert server.decide("cancel", "op", subject=wave).status_code == 200


def test_every_decision_is_recorded_with_reason_and_name(server: PageServer) -> None:
    """The history names the user for each thing that he did, and why."""
    server.planned_by("alpha")
    world = server.world
    wave = world.ledger.waves("orders")[0].id
    assert server.decide("cancel", subject=wave).json() == {"cancelled": [*_ranges(world, wave)]}
    again = server.decide("retry", subject=wave).json()
    assert again["ready"] == "released"
    assert server.decide("withdraw", subject=again["wave"]).json()["offsets"] == 6
    period = {"topic": "orders", "partitions": [0], "from": "0", "to": "2"}
    shown = server.decide("skip", **period, dry_run=True).json()
    assert (shown["dry_run"], server.decide("skip", **period, shown="0123").status_code) == (True, 409)
    assert server.decide("skip", **period, shown=shown["shown"]).json()["skipped"] == 2
    world.run()
    assert server.decide("reopen", topic="orders", partitions=[1], **{"from": "0", "to": "3"}).json()["reopened"] == 3

    assert server.decide("pause").json()["paused"]["reason"] == "because"
    assert server.decide("resume").json()["changed"] is True

    done = [event for event in world.ledger.events("orders") if event.actor == "airflow user user"]
    kinds = ["revoke", "release", "withdraw", "skip", "reopen", "pause", "resume"]
    assert [event.kind for event in done] == kinds
    lines = server.get("/api/pipelines/orders/events").json()["events"]
    assert [line["kind"] for line in lines if line["actor"] == "airflow user user"][::-1] == [e.kind for e in done]
    assert world.run().exit_code == 0
    assert (world.offsets(0), world.offsets(1)) == ([2], [0, 1, 2])


def _ranges(world: World, wave: str) -> list[str]:
    return [item.id for item in world.ledger.ranges(wave=wave)]


def test_second_click_does_nothing_twice(server: PageServer) -> None:
    """The same request is answered as the first time; another one meets the state that the first has left."""
    server.planned_by("alpha")
    ledger = server.world.ledger
    wave = ledger.waves("orders")[0].id
    first = server.decide("cancel", subject=wave, request="r1")
    assert server.decide("cancel", subject=wave, request="r1").json() == first.json()
    again = server.decide("cancel", subject=wave, request="r2")
    assert (again.status_code, again.json()["error"]["type"]) == (409, "StateError")
    assert server.decide("cancel", subject=wave, request="r1", reason="other").status_code == 409
    assert [event.kind for event in ledger.events("orders")].count("revoke") == 1


def test_refusal_is_that_of_the_command_line_in_words(server: PageServer) -> None:
    """What, where, and what to do; a value that is none is named by its field."""
    server.planned_by("alpha")
    done = server.decide("release", subject=server.world.ledger.waves("orders")[0].id)
    assert (done.status_code, done.json()["error"]["type"]) == (409, "StateError")
    assert "there is nothing to release" in done.json()["error"]["message"]
    period = {"topic": "orders", "from": "3 March", "to": "9"}
    assert "An offset is digits only" in server.decide("skip", **period).json()["error"]["message"]
    assert server.decide("skip", topic="orders", reason="").json()["error"]["field"] == "reason"
    assert server.decide("skip", topic="orders", later=True).json()["error"]["field"] == "later"
    assert server.decide("skip", topic="other", **{"from": "0", "to": "1"}).status_code == 404


def test_history_leads_to_older_lines_where_there_are_some(server: PageServer) -> None:
    """Lines are numbered over all pipelines of a ledger: the first of one may be any."""
    server.planned_by("alpha", "earlier")
    server.planned_by("alpha")
    count = len(server.get("/api/pipelines/orders/events").json()["events"])
    for limit, is_more in ((1, True), (count - 1, True), (count, False), (500, False)):
        assert (">Older<" in server.get(f"/pipelines/orders/events?limit={limit}").text) is is_more, limit


def test_wave_of_another_pipeline_is_none_of_this_one(server: PageServer) -> None:
    """Who may decide about one pipeline reaches no other through it: not its waves, ranges or plans, nor its name."""
    server.planned_by("beta", "clicks")
    ledger = server.world.ledger
    (wave,) = ledger.waves("clicks")
    subjects = [wave.id, wave.plan, "clicks", *(item.id for item in ledger.ranges(wave=wave.id))]
    server.planned_by("alpha")
    before = ledger.events("clicks")
    for subject in subjects:
        for what in ("cancel", "release", "retry", "withdraw", "pause", "resume"):
            named = "plan" if what in {"pause", "resume"} else "subject"
            answer = server.decide(what, "user:alpha", **{named: subject})
            assert answer.status_code == 404, (what, subject)
            assert answer.text == server.decide(what, "user:alpha", **{named: "none"}).text
    assert server.get(f"/api/pipelines/orders/waves/{wave.id}", "user:alpha").status_code == 404
    assert ledger.events("clicks") == before


# Forgery


@pytest.fixture
def cookie(server: PageServer) -> dict[str, str]:
    """What a browser sends with a decision that these pages have made."""
    server.planned_by("alpha")
    session = server.browse("GET", "/api/session", "user").json()
    return {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin", "X-Kafka-Lake-Token": session["token"]}


def _forged(server: PageServer, headers: dict[str, str], user: str = "user", **asked: Any) -> int:
    body = {"json": {"reason": "because", "subject": server.world.ledger.waves("orders")[-1].id}} | asked
    return server.browse("POST", "/api/pipelines/orders/cancel", user, headers=headers, **body).status_code


@pytest.mark.parametrize("origin", ["http://testserver", "https://airflow.example"])
def test_browser_decides_with_the_token_of_its_page(
    server: PageServer, cookie: dict[str, str], origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pages send is taken, also behind a proxy that has another name than the server itself."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/there")
    assert _forged(server, cookie | {"Origin": origin}) == 200


@pytest.mark.parametrize(
    "change",
    [
        {"X-Kafka-Lake-Token": ""},
        {"X-Kafka-Lake-Token": "InZpZXdlciI.awPKWg.RwOKG69o6CoSnPV1YQXdLRvEJNY"},
        {"Origin": "http://elsewhere"},
        {"Origin": "null"},
        {"Origin": "http://testserver.elsewhere"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": None, "Sec-Fetch-Site": None},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
    ids=str,
)
def test_request_of_another_site_is_refused(
    server: PageServer, cookie: dict[str, str], change: dict[str, str | None]
) -> None:
    """Each part is needed: token, origin, what the browser says of the site, and a type that no form sends."""
    headers = {name: value for name, value in (cookie | change).items() if value is not None}
    body = {"reason": "because", "subject": server.world.ledger.waves("orders")[-1].id}
    asked = {"json": None, "content": json.dumps(body)} if "Content-Type" in change else {}
    assert _forged(server, headers, **asked) == 403
    assert [event.kind for event in server.world.ledger.events("orders")].count("revoke") == 0


def test_token_is_taken_for_half_a_day(server: PageServer, cookie: dict[str, str]) -> None:
    """An old page is told to load anew."""

    class LongAgo(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() - access.LASTS - 60

    old = URLSafeTimedSerializer("s" * 64, salt="kafka-lake pages", signer=LongAgo).dumps("user")
    assert _forged(server, cookie | {"X-Kafka-Lake-Token": old}) == 403


def test_token_of_another_user_is_refused(server: PageServer, cookie: dict[str, str]) -> None:
    """A token is one user's."""
    assert _forged(server, cookie, user="admin") == 403


def test_bearer_token_beside_a_cookie_needs_the_pages_token_too(server: PageServer, cookie: dict[str, str]) -> None:
    """Only a request without Airflow's cookie is a program's."""
    bearer = {"Authorization": f"Bearer {token('user')}"}
    assert _forged(server, bearer) == 403
    assert _forged(server, bearer | cookie | {"Sec-Fetch-Site": "cross-site"}) == 403


# Every route

DECIDING = {"reason": "because"}
PERIOD = {"topic": "orders", "partitions": [0], "from": "0", "to": "1", "dry_run": True}
ROUTES: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/"): {},
    ("GET", "/dags/{dag}"): {},
    ("GET", "/dags/{dag}/runs/{run}"): {},
    ("GET", "/static/{name}"): {},
    ("GET", "/api/session"): {},
    ("GET", "/api/pipelines"): {},
    **{
        ("GET", f"{where}/pipelines/{{pipeline}}{what}"): {}
        for where in ("", "/api")
        for what in ("", "/segments", "/waves", "/waves/{wave}", "/events")
    },
    ("GET", "/api/pipelines/{pipeline}/rights"): {},
    ("POST", "/api/pipelines/{pipeline}/cancel"): DECIDING | {"subject": "{wave}"},
    ("POST", "/api/pipelines/{pipeline}/release"): DECIDING | {"subject": "{wave}"},
    ("POST", "/api/pipelines/{pipeline}/retry"): DECIDING | {"subject": "{wave}"},
    ("POST", "/api/pipelines/{pipeline}/pause"): DECIDING,
    ("POST", "/api/pipelines/{pipeline}/resume"): DECIDING,
    ("POST", "/api/pipelines/{pipeline}/skip"): DECIDING | PERIOD,
    ("POST", "/api/pipelines/{pipeline}/reopen"): DECIDING | PERIOD,
    ("POST", "/api/pipelines/{pipeline}/withdraw"): DECIDING | {"dry_run": True},
}
"""Every route with a body that it takes: a new one is written here, and tried as all the others."""

OPEN = {"/", "/dags/{dag}", "/dags/{dag}/runs/{run}", "/api/session", "/api/pipelines", "/static/{name}"}
"""What every user of Airflow may ask: it shows no user more than he may see."""

WITHOUT_LEDGER = {"/api/session", "/static/{name}", "/dags/{dag}/runs/{run}"}


def routes() -> list[APIRoute]:
    """Return what the application answers; nothing is mounted in it that would not be a route."""
    found = KafkaLakePlugin.fastapi_apps[0]["app"].built().routes
    assert all(isinstance(route, APIRoute) for route in found)
    return found


def test_every_route_is_tried() -> None:
    """The table above is that of the application itself."""
    assert {(method, route.path) for route in routes() for method in route.methods} == set(ROUTES)


def test_every_address_is_documented() -> None:
    """The reference page has what the application answers, with every field that a decision takes."""
    text = (ROOT / "docs" / "reference" / "page.md").read_text()
    rows = dict(re.findall(r"^\| `((?:GET |POST )?/[^`]*)` \| (.*) \|$", text, re.MULTILINE))
    named = {tuple(where.split(" ")) if " " in where else ("GET", where) for where in rows}
    assert named == set(ROUTES)
    for route in routes():
        (method,) = route.methods
        taken = {name for kind, name in places(route.dependant) if kind == "body"} - {"reason", "request"}
        assert set(re.findall(r"`(\w+)`", rows.get(f"{method} {route.path}", ""))) >= taken


def test_every_key_is_documented(server: PageServer) -> None:
    """The documents that no command has are in the page of JSON documents, key by key."""
    server.planned_by("alpha")
    wave = server.world.ledger.waves("orders")[0].id
    for what in ("session", "pipelines/orders/rights", "pipelines/orders/waves", "pipelines/orders/events"):
        assert strange("Of the page in Airflow", server.get(f"/api/{what}", "user").json()) == []
    assert strange("Of the page in Airflow", server.decide("retry", subject=wave).json()) == []
    assert undocumented("status", server.get("/api/pipelines/orders").json()) == []
    several = server.get("/api/pipelines").json()
    assert several.pop("ledger") == server.get("/api/session").json()["ledger"]
    assert undocumented("status", several) == []


@dataclass
class Tried:
    """A pipeline that Dag `alpha` has planned, and a request to each route about it."""

    server: PageServer

    def __post_init__(self) -> None:
        self.server.planned_by("alpha")
        self.wave = self.server.world.ledger.waves("orders")[0].id

    def path(self, route: str, **other: str) -> str:
        names = {"pipeline": "orders", "wave": self.wave, "dag": "alpha", "run": "manual__1"} | other
        names.setdefault("name", "page.css")
        return route.format(**{name: quote(value, safe="") for name, value in names.items()})

    def body(self, method: str, route: str) -> Any:
        told = {name: self.wave if value == "{wave}" else value for name, value in ROUTES[method, route].items()}
        return told if method == "POST" else None

    def ask(self, method: str, route: str, user: str | None, headers: dict[str, str] | None = None) -> Any:
        bearer = {"Authorization": f"Bearer {token(user)}"} if user else {}
        return self.server.client.request(
            method,
            ROOT_PATH + self.path(route),
            json=self.body(method, route),
            headers=bearer | (headers or {}),
            follow_redirects=False,
        )

    def done(self) -> int:
        return len(self.server.world.ledger.events("orders"))


@pytest.fixture(scope="module")
def one_for_all(api_server: TestClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """A pipeline that many tests ask about."""
    made = Tried(_opened(api_server, tmp_path_factory.mktemp("tried")))
    yield made
    made.server.ledger.close()


@pytest.fixture
def tried(one_for_all: Tried, monkeypatch: pytest.MonkeyPatch) -> Tried:
    """A pipeline, and a request to each route."""
    _shown(one_for_all.server, monkeypatch)
    return one_for_all


@pytest.mark.parametrize(("method", "route"), sorted(ROUTES))
def test_route_tells_strangers_nothing(tried: Tried, method: str, route: str) -> None:
    """Without a token, with a made-up one, without the right to see the Dag: none learns that the pipeline is there; a
    user who may only look decides nothing."""
    before = tried.done()
    anonymous = tried.ask(method, route, None)
    assert anonymous.status_code == (401 if route.startswith("/api/") else 303)
    assert tried.ask(method, route, None, {"Authorization": "Bearer made.up.token"}).status_code in {401, 403}
    assert tried.ask(method, route, None, {"Cookie": f"{COOKIE}=made.up"}).status_code in {401, 303, 403}
    for user in ("viewer:beta", "user:beta", "admin:beta"):
        answer = tried.ask(method, route, user)
        assert answer.status_code == (answer.status_code if route in OPEN else 404)
        assert tried.wave not in answer.text
        assert "orders" not in answer.text
    if method == "POST":
        assert tried.ask(method, route, "viewer").status_code == 403
        assert tried.ask(method, route, None, {"Cookie": f"{COOKIE}={token('user')}"}).status_code == 403
    assert tried.done() == before


@pytest.mark.parametrize(("method", "route"), sorted(ROUTES))
def test_answer_says_what_a_browser_may_do_with_it(tried: Tried, method: str, route: str) -> None:
    """Only scripts and styles of these pages, no frame on another site, no guessed type, nothing kept."""
    for user in ("user", None):
        headers = tried.ask(method, route, user).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == (
            "'none'",
            "'self'",
            "'self'",
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store" or route == "/static/{name}"
        assert "access-control-allow-origin" not in headers


NASTY = (
    "{{7919*6841}}${7919*6841}",
    "x' OR '1'='1'; DROP TABLE kafka_lake_plan; --",
    "../../../../etc/passwd",
    "..%2f<script>alert(1)</script>",
    "\x00\u202e" + "a" * 5000,
)
"""What is put into every place where a person may write something."""


def places(asked: Dependant) -> Iterator[tuple[str, str]]:
    """Return every place where a route takes a value, as the route itself declares it."""
    yield from (("path", field.alias) for field in asked.path_params)
    yield from (("query", field.alias) for field in asked.query_params)
    for field in asked.body_params:
        model = field.field_info.annotation
        yield from (("body", known.alias or name) for name, known in model.model_fields.items())
    for needed in asked.dependencies:
        yield from places(needed)


@pytest.mark.parametrize(("method", "route"), sorted(ROUTES))
def test_no_field_is_more_than_text(tried: Tried, method: str, route: str) -> None:
    """No statement, no path, no template and no markup: what does not fit is refused, and what fits finds nothing."""
    tables = inspect(tried.server.ledger.engine).get_table_names()
    headers = {"Authorization": f"Bearer {token('user')}"}
    (found,) = [item for item in routes() if item.path == route and method in item.methods]
    for (kind, name), text in product(sorted(set(places(found.dependant))), NASTY):
        path, body = tried.path(route), tried.body(method, route)
        if kind == "query":
            path += f"?{name}={quote(text, safe='')}"
        elif kind == "body":
            body |= {name: text}
        else:
            path = tried.path(route, **{name: text})
        answer = tried.server.client.request(method, ROOT_PATH + path, json=body, headers=headers)
        assert answer.status_code in {200, 400, 404, 409}, answer.text
        assert "<script>alert" not in answer.text or answer.headers["content-type"] == "application/json"
        assert "root:" not in answer.text
        assert "54173879" not in answer.text
    assert inspect(tried.server.ledger.engine).get_table_names() == tables


def test_text_of_strangers_is_only_text(server: PageServer) -> None:
    """Reasons, names and errors may hold markup: no page has an inline script, handler or style, or any of theirs."""
    server.planned_by("alpha")
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>"
    wave = server.world.ledger.waves("orders")[0].id
    assert server.decide("cancel", subject=wave, reason=evil).status_code == 200
    assert server.decide("skip", topic="orders", reason=evil, **{"from": "0", "to": "1"}).status_code == 200
    for what in ("", "/segments", "/waves", f"/waves/{wave}", "/events"):
        page = server.get(f"/pipelines/orders{what}")
        assert page.status_code == 200
        text = page.text
        assert "alert(1)</script>" not in text
        assert not re.search(r"<script(?![^>]*\ssrc=)|<img|<[^>]*\s(on\w+|style)\s*=", text), what
        document = server.get(f"/api/pipelines/orders{what}")
        assert document.headers["content-type"] == "application/json"


def test_pages_stay_below_the_servers_base_path(server: PageServer) -> None:
    """With a path in `[api] base_url`, every address of ours begins with it."""
    server.planned_by("alpha")
    client = TestClient(server.client.app, root_path="/airflow")
    answer = client.get(f"/airflow{ROOT_PATH}/", headers={"Authorization": f"Bearer {token('user')}"})
    assert answer.status_code == 200
    addresses = re.findall(r'(?:href|src)="([^"]*)"', answer.text)
    assert any(address.startswith("/airflow/kafka-lake/pipelines/orders") for address in addresses)
    assert all(address.startswith(("/airflow/kafka-lake/", "/airflow/dags?", "data:", "#")) for address in addresses), (
        addresses
    )


# Secrets

CANARIES = {
    "AIRFLOW_CONN_KAFKA_DEFAULT": {
        "conn_type": "kafka",
        "extra": {"bootstrap.servers": "localhost:1", "security.protocol": "SASL_WRONG", **planted("Kafka")},
    },
    "AIRFLOW_CONN_LAKE_DEFAULT": {
        "conn_type": "lake",
        "login": "canary-user",
        "password": "canary-password",
        "extra": {"format": "iceberg", "catalog": "rest", "uri": "http://localhost:1", **planted("lake")},
    },
}


def test_no_answer_holds_a_secret(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Real adapters fail at every connection: no route, header or line of the log has a password, token or key."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, json.dumps(value))
    KafkaLakePlugin.fastapi_apps[0]["app"].built().state.server = Server(open_ports=open_ports)
    told = []
    for method, route in sorted(ROUTES):
        answer = tried.ask(method, route, "admin")
        told.append(f"{answer.status_code} {answer.text} {answer.headers}")
    assert any("security.protocol" in text for text in told)
    assert "canary" not in " ".join(told) + caplog.text


def test_ledger_that_does_not_answer_is_named_to_readers_of_its_connection(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They learn where it is and what it says, others that something does not answer; no user its password."""
    connection = {
        "conn_type": "postgres",
        "host": "localhost",
        "port": 1,
        "schema": "where",
        "login": "who",
        "password": "canary-ledger",
    }
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_LAKE_LEDGER", json.dumps(connection))
    for method, route in sorted(ROUTES):
        if route in WITHOUT_LEDGER:
            continue
        known, other = (tried.ask(method, route, user) for user in ("op", "user"))
        assert (known.status_code, other.status_code) == (503, 503)
        assert "localhost" in known.text
        assert not re.search("localhost|postgres|who@|/where", other.text)
        assert "canary" not in known.text + other.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize("made", ["nothing", "an empty file"])
def test_ledger_that_was_never_made_is_said_to_be_missing(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: str
) -> None:
    """Every user learns how to begin, readers of its connection also where it is missing; a look makes none."""
    file = tmp_path / "none.db"
    if made == "an empty file":
        file.touch()
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_LAKE_LEDGER", json.dumps({"conn_type": "sqlite", "host": str(file)}))
    for method, route in sorted(ROUTES):
        if route in WITHOUT_LEDGER:
            continue
        known, other = (tried.ask(method, route, user) for user in ("op", "user"))
        assert (known.status_code, other.status_code) == (503, 503)
        assert "none.db" in known.text
        assert "none.db" not in other.text
        assert "kafka-lake db upgrade" in known.text
        assert "there is no ledger yet: the first plan makes one" in other.text
        assert route.startswith("/api/") or "kafka_lake_manual" in known.text
    assert not file.exists() or file.stat().st_size == 0


def test_pipeline_that_was_never_planned_says_how_it_begins(server: PageServer) -> None:
    """In the same words whether it was never planned or may not be seen."""
    server.planned_by("alpha")
    never = server.get("/pipelines/payments", "admin")
    hidden = server.get("/pipelines/orders", "viewer:beta")
    assert (never.status_code, hidden.status_code) == (404, 404)
    assert never.text == hidden.text
    for words in ("planned for the first time", "kafka-lake plan FILE.toml", "kafka_lake_manual"):
        assert words in never.text
