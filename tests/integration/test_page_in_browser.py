"""The pages in a real Chromium: they follow a run, stay quick with many partitions, and ask before they decide."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from airflow_kafka_lake.actions.offsets import SkipAction
from airflow_kafka_lake.core.reports.status import PipelineReport, groups_of
from airflow_kafka_lake.core.reports.streams import StreamState
from airflow_kafka_lake.local.processes import wait_until
from airflow_kafka_lake.pages.pipeline import dry_run_page, pipeline_page
from airflow_kafka_lake.pages.rendering import Visitor, static_files
from airflow_kafka_lake.pages.web.access import CSP
from airflow_kafka_lake.services import claims, decisions, reporting
from tests.browser import Page, browser
from tests.world import World, in_state

pytestmark = pytest.mark.integration

PARTITIONS = 2_000
MOST_ELEMENTS = 30_000
"""What a page of so many partitions may consist of; a browser lays out what is seen of it in a moment."""

FRAME = """<!doctype html><html class="dark"><body><iframe sandbox="allow-scripts allow-same-origin allow-forms"
src="/pipelines/orders" style="width:100%;height:600px"></iframe></body></html>"""


@dataclass
class Site:
    """One pipeline's page, as the API server gives it; `report` may change while a user looks."""

    report: PipelineReport
    sent: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    drawn: bytes = b""
    """Another page, in place of the pipeline's."""
    asked: int = 0
    unchanged: int = 0
    url: str = ""

    def page(self) -> bytes:
        """Return the page as it is now."""
        if self.drawn:
            return self.drawn
        visitor = Visitor(base="", name="ann", csrf="t0ken", ledger="kafka_lake_ledger", may_decide=True)
        return pipeline_page(visitor, self.report).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers a browser."""

    site: Site

    def do_GET(self) -> None:
        if self.path.startswith("/static/"):
            body, kind = static_files()[self.path.partition("?")[0].removeprefix("/static/")]
            return self._answer(200, body, kind)
        if self.path == "/frame":
            return self._answer(200, FRAME.encode(), "text/html", policy="")
        if self.path.startswith("/api/v2/"):
            status, document = self.site.answers.pop(0)
            return self._answer(status, json.dumps(document).encode(), "application/json")
        body = self.site.page()
        tag = f'"{sha256(body).hexdigest()}"'
        self.site.asked += 1
        if self.headers.get("If-None-Match") == tag:
            self.site.unchanged += 1
            return self._answer(304, b"", "text/html", tag)
        return self._answer(200, body, "text/html; charset=utf-8", tag)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.site.sent.append((self.path, body, self.headers["X-Kafka-Lake-Token"]))
        status, document = self.site.answers.pop(0)
        self._answer(status, json.dumps(document).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str, tag: str = "", policy: str = CSP) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if tag:
            self.send_header("ETag", tag)
        if policy:
            self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


DRY_RUN = "manual__2026-03-01T06:00:00+00:00_a/b"


def show_dry_run(page: Page, site: Site, *answers: tuple[int, dict[str, Any]]) -> None:
    """Open the page behind a dry run; `answers` are Airflow's, one after another."""
    visitor = Visitor(base="", name="ann", csrf="t0ken", ledger="kafka_lake_ledger")
    site.drawn = dry_run_page(visitor, "kafka_lake_manual", DRY_RUN).encode()
    site.answers += answers
    page.go(f"{site.url}/dry-run")


def status(world: World) -> PipelineReport:
    """Return what the page is drawn from."""
    return reporting.status(world.worker(), world.spec)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser, for all tests here."""
    with browser(tmp_path_factory.mktemp("browser")) as found:
        found.show(1400, 900)
        yield found


@pytest.fixture
def world() -> World:
    """Two partitions, of which the first has landed in part."""
    world = World(partitions=2)
    world.produce(4)
    world.run()
    world.produce(6)
    world.produce(3, 1)
    return world


@pytest.fixture
def site(world: World) -> Iterator[Site]:
    """The page of that pipeline, on a port of this machine."""
    site = Site(status(world))
    handler = type("Handler", (Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    yield site
    server.shutdown()
    server.server_close()


def look_again(page: Page) -> None:
    """Let the page ask now for what is new, as it does when a person comes back to it."""
    page.js("document.dispatchEvent(new Event('visibilitychange'))")


ROW = "document.querySelector('[data-key=\"orders/{}\"]')"
BOXES = f"[...{ROW}.querySelectorAll('rect:not(.watermark)')].map((box) => box.className.baseVal).join()"


def test_page_follows_a_run_and_leaves_the_person_where_he_is(page: Page, site: Site, world: World) -> None:
    """Timelines and numbers change; scroll, focus and what was typed stay, and the same elements go on."""
    page.show(700, 500)
    page.go(f"{site.url}/pipelines/orders")
    page.until(BOXES.format(0) + " === 'committed,unread'")
    page.click("#find")
    page.type("orders/0")
    page.js("window.row = document.querySelector('[data-key=\"orders/0\"]')")
    scrolled = page.js("(window.scrollTo(0, 200), Math.round(window.scrollY))")
    assert scrolled > 0
    wave = world.planned_wave()
    claims.claim_wave(world.worker(), wave)
    site.report = status(world)
    look_again(page)
    page.until(BOXES.format(0) + " === 'committed,running'")
    assert page.js("document.querySelector('[data-key=\"orders/1\"]').hidden")
    assert page.js("window.row === document.querySelector('[data-key=\"orders/0\"]')")
    assert page.js("document.activeElement.id") == "find"
    assert page.js("document.activeElement.value") == "orders/0"
    assert abs(page.js("Math.round(window.scrollY)") - scrolled) < 200
    assert page.js("document.body.dataset.poll") == "2"
    world.lease_ends()
    world.run()
    site.report = status(world)
    page.until(BOXES.format(0) + " === 'committed'")
    page.until("document.querySelector('.facts dd').innerText.startsWith('13 rows')")
    page.show(1400, 900)
    assert page.complaints() == []


def test_page_that_has_not_changed_is_not_sent_again(page: Page, site: Site) -> None:
    """A user who watches costs a digest, not a page."""
    page.go(f"{site.url}/pipelines/orders")
    look_again(page)
    page.until("document.getElementById('live').dataset.state === 'live'")
    asked = site.asked
    look_again(page)
    wait_until(lambda: site.unchanged > 0, timeout=30, failed=AssertionError)
    assert site.asked > asked


def test_two_thousand_partitions_are_one_light_page(page: Page, site: Site) -> None:
    """The worst is in sight, the quiet ones are one row; a number finds any of them."""
    landed = World()
    landed.produce(5)
    landed.run()
    (like,) = status(landed).streams
    streams = [
        in_state(
            like, number, StreamState.UP_TO_DATE if number % 50 else StreamState.BEHIND, lag=0 if number % 50 else 3
        )
        for number in range(PARTITIONS)
    ]
    site.report = replace(site.report, streams=tuple(streams), groups=tuple(groups_of(streams)))
    page.go(f"{site.url}/pipelines/orders")
    assert page.js("document.querySelectorAll('li.stream[data-kind]').length") == PARTITIONS
    assert page.js("document.querySelectorAll('*').length") < MOST_ELEMENTS
    assert not page.js("document.querySelector('[data-key=\"orders/1999\"]').checkVisibility()")
    page.click("#find")
    page.type("1999")
    page.until("document.querySelector('[data-key=\"orders/1999\"]').checkVisibility()")
    assert page.text("#found") == "1 found"
    page.js("document.getElementById('find').select()")
    page.type(" ")
    page.until("!document.querySelector('[data-key=\"orders/1999\"]').checkVisibility()")
    page.click("[data-only=behind]")
    assert page.text("#found") == f"{PARTITIONS // 50} found"
    page.click("[data-only=behind]")
    page.click("a[data-key=worst]")
    page.until("document.querySelector('li.stream:target')?.dataset.kind === 'behind'")
    assert page.complaints() == []


def test_decision_is_asked_explained_and_answered_in_words(page: Page, site: Site, world: World) -> None:
    """Nothing goes out without a reason; what came of it is said, and the page shows it."""
    wave = world.planned_wave()
    site.report = status(world)
    page.go(f"{site.url}/pipelines/orders")
    page.click(f'[data-key="wave {wave}"] button')
    page.until("document.getElementById('ask').open")
    assert f"Wave {wave} with its 2 ranges is taken from the worker" in page.text("#ask-lines")
    assert page.js("document.activeElement.id") == "ask-reason"
    page.type("   ")
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').innerText.startsWith('Give a reason')")
    assert site.sent == []
    page.js("document.getElementById('ask-reason').value = ''")
    page.click("#ask-reason")
    page.type("<b>producers</b> are being mended")
    site.answers = [
        (409, {"error": {"type": "StateError", "message": "it is <i>over</i>"}}),
        (200, {"cancelled": ["a", "b"]}),
    ]
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').innerText === 'it is <i>over</i>'")
    decisions.cancel(world.worker(), wave, "<b>producers</b> are being mended")
    site.report = status(world)
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').className === 'ok'")
    assert page.text("#ask-answer").startswith("2 ranges on hold now.")
    (_, first, token), (path, second, _) = site.sent
    assert (path, token) == ("/api/pipelines/orders/cancel", "t0ken")
    assert first == second
    assert {key: value for key, value in first.items() if key != "request"} == {
        "subject": wave,
        "reason": "<b>producers</b> are being mended",
    }
    page.click("#ask-close")
    page.until("document.querySelector('.needs').innerText.includes('<b>producers</b> are being mended')")
    assert [text for text in page.complaints() if "409" not in text] == []


def test_partitions_are_written_as_a_list_and_tried_first(page: Page, site: Site) -> None:
    """A dry run says how many offsets, before a person confirms them; never of other ones than are filled in."""
    page.go(f"{site.url}/pipelines/orders")
    done = {
        "pipeline": "orders",
        "dry_run": True,
        "waves": [],
        "skipped": 1234,
        "streams": [{"topic": "orders", "partition": 1}],
    }
    site.answers = [(200, done)]
    page.click('[data-key="decisions"] button')
    page.until("document.getElementById('ask').open")
    assert page.js("document.getElementById('ask-field-topic').value") == "orders"
    page.js("document.getElementById('ask-field-partitions').value = '1, 3-5'")
    page.js("document.getElementById('ask-field-from').value = '0'")
    page.click("#ask-field-to")
    page.type("10")
    page.click("#ask-reason")
    page.until(
        "document.getElementById('ask-lines').innerText.startsWith('1,234 offsets of orders/1 would be skipped.')"
    )
    ((path, body, _),) = site.sent
    assert path == "/api/pipelines/orders/skip"
    assert body == {
        "topic": "orders",
        "partitions": [1, 3, 4, 5],
        "from": "0",
        "to": "10",
        "dry_run": True,
        "reason": "dry run on the page",
    }
    told = list(SkipAction.consequences)
    assert page.text("#ask-lines").splitlines()[1:] == told
    page.js("document.getElementById('ask-field-to').value = ''")
    page.js("document.getElementById('ask-field-to').dispatchEvent(new Event('change'))")
    assert page.text("#ask-lines").splitlines() == [SkipAction.asks, *told]


def test_decision_is_about_what_its_dry_run_has_shown(page: Page, site: Site) -> None:
    """The digest goes back with it: the server refuses other offsets."""
    page.go(f"{site.url}/pipelines/orders")
    done = {"offsets": 4, "ranges": 1, "kept": [], "shown": "0123456789abcdef"}
    site.answers = [(200, done | {"dry_run": True}), (200, done | {"dry_run": False})]
    page.click('[data-key="decisions"] button:last-child')
    page.until("document.getElementById('ask-lines').innerText.includes('would be taken')")
    page.js("document.getElementById('ask-reason').value = 'not now'")
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').className === 'ok'")
    assert [body.get("shown") for _, body, _ in site.sent] == [None, "0123456789abcdef"]


def test_decision_that_was_refused_is_shown_anew_before_it_is_made(page: Page, site: Site) -> None:
    """The first press after a refusal shows what it would be now; the second one decides just that."""
    page.go(f"{site.url}/pipelines/orders")
    done = {"offsets": 4, "ranges": 1, "kept": [], "dry_run": True}
    refusal = (409, {"error": {"type": "StateError", "message": "something else would become of them now"}})
    site.answers = [
        (200, done | {"shown": "0" * 16}),
        refusal,
        (200, done | {"shown": "1" * 16}),
        (200, done | {"shown": "1" * 16, "dry_run": False}),
    ]
    page.click('[data-key="decisions"] button:last-child')
    page.until("document.getElementById('ask-lines').innerText.includes('would be taken')")
    page.js("document.getElementById('ask-reason').value = 'not now'")
    for answer in ("something else would become of them now", "This is what it would do. Press again to decide."):
        page.click("#ask-do")
        page.until(f"document.getElementById('ask-answer').innerText === {answer!r}")
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').className === 'ok'")
    assert [body.get("shown") for _, body, _ in site.sent] == [None, "0" * 16, None, "1" * 16]


def test_skip_of_offsets_that_have_landed_meanwhile_has_no_button(page: Page, site: Site) -> None:
    """There is nothing to press, and none of the consequences; acknowledging their order is something to do still."""
    page.go(f"{site.url}/pipelines/orders")
    nothing = {"pipeline": "orders", "dry_run": True, "waves": [], "skipped": 0, "streams": []}
    site.answers = [(200, nothing), (200, nothing)]
    page.click('[data-key="decisions"] button')
    page.until("document.getElementById('ask-field-to') !== null")
    for name, value in {"from": "0", "to": "4"}.items():
        page.js(f"document.getElementById('ask-field-{name}').value = '{value}'")
    page.js("document.getElementById('ask-field-to').dispatchEvent(new Event('change'))")
    page.until("document.getElementById('ask-lines').innerText.endsWith('what has landed is not skipped.')")
    assert page.js("document.getElementById('ask-do').hidden")
    page.js("document.getElementById('ask-reason').value = 'poison'")
    page.js("document.querySelector('#ask form').requestSubmit()")
    assert len(site.sent) == 1
    page.click("#ask-field-acknowledge_order")
    page.until("!document.getElementById('ask-do').hidden && document.getElementById('ask-lines').children.length > 2")


@pytest.mark.parametrize("ready", ["released", "returned", "waiting", "adopted"])
def test_wave_that_is_made_ready_is_said_to_be_read_by_the_next_run(
    page: Page, site: Site, world: World, ready: str
) -> None:
    """The button reads nothing itself: its answer names the run that will, and none for a wave that is in the table."""
    world.planned_wave()
    wave = world.ledger.waves("orders")[-1].id
    claims.claim_wave(world.worker(), wave)
    world.lease_ends()
    site.report = status(world)
    page.go(f"{site.url}/pipelines/orders")
    page.click(f'[data-key="wave {wave}"] button')
    page.until("document.getElementById('ask').open")
    assert page.text("#ask-do") == "Make ready"
    page.js("document.getElementById('ask-reason').value = 'now'")
    site.answers = [(200, {"wave": wave, "ready": ready})]
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').className === 'ok'")
    assert ("Nothing reads it yet: the next run" in page.text("#ask-answer")) is (ready != "adopted")


@pytest.mark.parametrize(
    ("waiting", "reads"), [(0, "reads all that is missing."), (2, "reads all that is missing, 2 planned waves first.")]
)
def test_resume_says_what_the_next_run_reads(page: Page, site: Site, world: World, waiting: int, reads: str) -> None:
    """All that is missing, also where no wave was planned before the pause."""
    decisions.pause(world.worker(), decisions.PauseSubject(pipeline="orders"), "a test")
    site.report = status(world)
    page.go(f"{site.url}/pipelines/orders")
    page.click("div.need button")
    page.until("document.getElementById('ask').open")
    page.js("document.getElementById('ask-reason').value = 'now'")
    site.answers = [(200, {"pipeline": "orders", "changed": True, "waiting": waiting})]
    page.click("#ask-do")
    page.until("document.getElementById('ask-answer').className === 'ok'")
    assert f"Tasks that wait for it go on, and the next run {reads}" in page.text("#ask-answer")


def test_nothing_is_wrong_before_anything_was_filled_in(page: Page, site: Site) -> None:
    """A question that opens with nothing to do for it says so, and not in red."""
    page.go(f"{site.url}/pipelines/orders")
    site.answers = [(409, {"error": {"type": "StateError", "message": "nothing of it is planned"}})]
    page.click('[data-key="decisions"] button:last-child')
    page.until("document.getElementById('ask-answer').innerText === 'nothing of it is planned'")
    assert page.js("document.getElementById('ask-answer').className") == ""
    assert [text for text in page.complaints() if "409" not in text] == []


def test_lost_connection_is_said_and_ends(page: Page, site: Site) -> None:
    """What is seen then is from before, and the page says so."""
    page.go(f"{site.url}/pipelines/orders")
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    look_again(page)
    page.until("document.getElementById('live').innerText.startsWith('Connection lost: the server does not answer.')")
    page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.until("document.getElementById('live').innerText === 'live'")


def test_page_in_airflows_frame_has_airflows_colours(page: Page, site: Site) -> None:
    """Airflow marks its own page `dark`; the person's system may say otherwise."""
    page.show(1400, 900)
    page.go(f"{site.url}/frame")
    inner = "document.querySelector('iframe').contentDocument.documentElement"
    page.until(f"{inner}.dataset.theme === 'dark'")
    page.js("document.documentElement.className = 'light'")
    page.until(f"{inner}.dataset.theme === 'light'")
    page.js("document.documentElement.className = ''")
    page.until(f"{inner}.dataset.theme === undefined")


def test_times_are_in_the_persons_zone_with_utc_beside(page: Page, site: Site) -> None:
    """A reader who compares with a log finds the same moment."""
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    page.call("Emulation.setLocaleOverride", locale="en-GB")
    page.go(f"{site.url}/pipelines/orders")
    zone = page.js("Intl.DateTimeFormat().resolvedOptions().timeZone")
    shown, title, given = page.js(
        "(() => { const t = document.querySelector('.facts time'); return [t.innerText, t.title, t.dateTime]; })()"
    )
    page.call("Emulation.setTimezoneOverride", timezoneId="")
    page.call("Emulation.setLocaleOverride")
    assert zone == "Asia/Tokyo"
    assert title == given.replace("T", " ").partition(".")[0] + " UTC"
    assert shown not in title
    assert shown.endswith("ago")


def test_dry_run_is_gone_on_with_in_one_click(page: Page, site: Site) -> None:
    """Airflow is asked what the run was asked for, and is given just that without the dry run; its refusal is shown."""
    conf = {"pipeline": "orders", "partitions": "0-1", "topic": None, "ask": False, "dry_run": True}
    refused = {"detail": "You may not trigger kafka_lake_manual"}
    show_dry_run(page, site, (200, {"conf": conf}), (403, refused), (200, {"dag_run_id": "manual__2"}))
    page.until("!document.getElementById('go-on-do').hidden")
    assert page.text("#go-on-conf").split() == ["pipeline", "orders", "partitions", "0-1"]
    assert not site.sent
    page.click("#go-on-do")
    page.until("document.getElementById('go-on-answer').className === 'failed'")
    assert page.text("#go-on-answer") == "Airflow answered 403: You may not trigger kafka_lake_manual"
    look_again(page)
    page.click("#go-on-do")
    page.until("document.getElementById('go-on-answer').className === 'ok'")
    assert page.js("document.querySelector('#go-on-answer a').pathname") == "/dags/kafka_lake_manual/runs/manual__2"
    path, body, _ = site.sent[-1]
    assert (path, body.pop("logical_date")) == ("/api/v2/dags/kafka_lake_manual/dagRuns", None)
    assert body == {"conf": {key: value for key, value in conf.items() if key != "dry_run"}}
    assert len(site.sent) == 2
    assert page.js("document.getElementById('go-on-do').hidden")


def test_run_that_was_no_dry_run_is_not_repeated(page: Page, site: Site) -> None:
    """Nor one that Airflow does not show."""
    show_dry_run(page, site, (200, {"conf": {"pipeline": "orders"}}))
    page.until("document.getElementById('go-on-answer').innerText.startsWith('This was no dry run')")
    assert page.js("document.getElementById('go-on-do').hidden")
    show_dry_run(page, site, (404, {"detail": "no such run"}))
    page.until("document.getElementById('go-on-answer').className === 'failed'")
    assert page.text("#go-on-answer") == "Airflow answered 404: no such run"
    assert page.js("document.getElementById('go-on-do').hidden")
    assert not site.sent
