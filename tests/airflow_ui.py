"""Airflow's own page in a real browser, as a person uses it: login, the form of a Dag, a task's log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from airflow_kafka_lake.local.airflow import LocalAirflow
from tests.browser import Page, browser

SUBMIT = "[data-testid=trigger-dag-submit]"
CHOSEN = "data-chosen-by-a-test"
WIDTH, HEIGHT = 1280, 1000
LOG_HEIGHT = 620
"""Enough for the log of one task."""
LOG_LINE = 60
"""Enough for a sentence of a log."""
SENTENCE_HEIGHT = 388
"""As much of a picture as has the first sentence that was scrolled to, and not what Spark says after it."""
PAGE_HEIGHT = 1500
"""Enough for the page of a pipeline of a dozen partitions."""
IMAGES = "KAFKA_LAKE_IMAGES"
"""The environment variable that names a folder for pictures; `make pictures` gives that of the documents."""
STILL = "document.getAnimations().every(a => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)"
"""Nothing moves but what moves for ever: what is clicked stays where it is."""
FOLD = "document.querySelectorAll('details[open]').forEach(each => { each.open = false; })"
"""Where a log has a stack trace, its first line is enough: the others name the folders of a machine."""
NAMELESS = r"""(() => {
    const folders = /(?:\/[\w.-]+)*\/(?:pytest-of|kafka-lake-airflow)-[^\s'"]*\//g;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode, named = text.data.replace(folders, '/opt/airflow/pipelines/');
        if (named !== text.data) text.data = named;
    }
    return !/pytest-of|kafka-lake-airflow-/.test(document.body.innerText);
})()"""
"""Folders that a test has made get another name: a picture is the same on every machine, and names none."""
UI_SECONDS = 90.0
"""A React page on a busy machine."""


OPEN = "Run Parameters"
"""The section that Airflow opens by itself: of the fields that have none."""


@dataclass(frozen=True, slots=True)
class Filled:
    """One field of a form as a person fills it; `value` True turns a switch."""

    section: str
    name: str
    value: str | bool


@dataclass(frozen=True, slots=True)
class AirflowUi:
    """A browser in which a person is logged in."""

    airflow: LocalAirflow
    page: Page
    images: Path | None
    """Where pictures for the documents go; None keeps none."""

    def picture(self, name: str, *, dark: bool = False, height: int = HEIGHT, of: str = "", kept: int = 0) -> None:
        """Keep what is seen, light or dark, where pictures are asked for; `of` is a text that is scrolled to first, and
        `kept` how much of the height is wanted, where that is not all."""
        if self.images is not None:
            self.page.show(WIDTH, height, dark=dark)
            self.images.mkdir(parents=True, exist_ok=True)
            self.page.js(FOLD)
            if of:
                self.page.until(_scrolled_to(of), UI_SECONDS)
            self.page.until(NAMELESS)
            self.page.screenshot(self.images / f"{name}.webp", clip=(WIDTH, kept) if kept else None)
            self.page.show(WIDTH, HEIGHT)

    def open(self, path: str, expected: str) -> None:
        """Open a page of Airflow, and wait until it shows some text."""
        self.page.go(self.airflow.base_url + path)
        self.sees(expected)

    def sees(self, text: str, seconds: float = UI_SECONDS) -> None:
        """Wait until the page shows some text."""
        try:
            self.page.until(f"document.body.innerText.includes({json.dumps(text)})", seconds)
        except AssertionError:
            shown = self.page.text("body")
            raise AssertionError(f"{self.page.js('location.href')} does not show {text!r} but {shown}") from None

    def press(self, selector: str, text: str) -> None:
        """Click the first element with exactly this text."""
        every = f"[...document.querySelectorAll({json.dumps(selector)})]"
        found = f"{every}.find(e => e.innerText.trim() === {json.dumps(text)})"
        self.page.until(f"!!({found})", UI_SECONDS)
        self.page.js(f"{found}.setAttribute({json.dumps(CHOSEN)}, '')")
        self.page.click(f"[{CHOSEN}]")
        self.page.js(f"document.querySelector('[{CHOSEN}]')?.removeAttribute({json.dumps(CHOSEN)})")

    def trigger(self, dag: str, pipeline: str, fields: Sequence[Filled] = (), picture: str = "") -> str:
        """Fill a Dag's form and start it; return the id of the run that the page then shows."""
        self.page.go(f"{self.airflow.base_url}/dags/{dag}")
        button = 'button[aria-label="Trigger Dag"]'
        self.page.until(f"!!document.querySelector({json.dumps(button)})", UI_SECONDS)
        self._until_clicked(button, "!!document.querySelector('[role=dialog] [data-testid=trigger-dag-submit]')")
        self._unfold(OPEN)
        self.page.click("input[role=combobox][aria-required=true]")
        self.page.type(pipeline)
        self.press("[role=option]", pipeline)
        for field in fields:
            self._unfold(field.section)
            if field.value is True:
                self.page.js(f"document.querySelector('input[name=element_{field.name}]').click()")
            else:
                self.page.click(f"#element_{field.name}")
                self.page.type(str(field.value))
        if picture:
            self.picture(picture)
        self.page.until(f"!document.querySelector('{SUBMIT}').disabled", UI_SECONDS)
        self.page.click(SUBMIT)
        self.page.until("location.pathname.includes('/runs/')", UI_SECONDS)
        return str(self.page.js("decodeURIComponent(location.pathname.split('/runs/')[1].split('/')[0])"))

    def _unfold(self, section: str) -> None:
        button = f'button[id$=":trigger:{section}"]'
        opened = f"document.querySelector({json.dumps(button)})?.getAttribute('aria-expanded') === 'true'"
        if not self.page.js(opened):
            self._until_clicked(button, opened)

    def _until_clicked(self, selector: str, effect: str) -> None:
        """Click until it has an effect: Airflow draws a button before its script hears of clicks."""
        for _ in range(10):
            self.page.click(selector)
            try:
                self.page.until(f"{effect} && {STILL}", 5)
            except AssertionError:
                continue
            return
        raise AssertionError(f"{selector} was clicked ten times: {effect} is not so")


def run_path(dag: str, run_id: str, rest: str = "") -> str:
    """Return the address of a run in Airflow's page."""
    return f"/dags/{dag}/runs/{quote(run_id)}{rest}"


def _scrolled_to(text: str) -> str:
    """Return what scrolls to a text, and is true once its begin is seen: a log that is still drawn may scroll on."""
    return f"""(() => {{
        const isSeen = e => e.checkVisibility() && e.innerText.includes({json.dumps(text)});
        const every = [...document.querySelectorAll('body *')].filter(e => e.innerText !== undefined && isSeen(e));
        const found = every.find(e => ![...e.children].some(child => every.includes(child)));
        const place = found?.getBoundingClientRect();
        if (place && place.top >= 0 && Math.min(place.bottom, place.top + {LOG_LINE}) <= innerHeight) return true;
        found?.scrollIntoView();
        return false;
    }})()"""


@contextmanager
def logged_in(airflow: LocalAirflow, folder: Path) -> Iterator[AirflowUi]:
    """Log in by Airflow's page."""
    images = os.environ.get(IMAGES)
    with browser(folder) as page:
        page.show(WIDTH, HEIGHT)
        page.go(f"{airflow.base_url}/auth/login")
        page.until("!!document.querySelector('input[name=password]')", UI_SECONDS)
        for name, text in (("username", airflow.user), ("password", airflow.password())):
            page.click(f"input[name={name}]")
            page.type(text)
        page.until("!document.querySelector('button[type=submit]').disabled")
        page.click("button[type=submit]")
        page.until("!location.pathname.startsWith('/auth')", UI_SECONDS)
        page.js("localStorage.setItem('log_wrap', 'true')")
        yield AirflowUi(airflow, page, Path(images) if images else None)
