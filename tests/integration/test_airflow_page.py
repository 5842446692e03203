"""A person's whole story in a real browser, under the real supervisor: refused, shown, started, watched, steered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_lake.core.ledger.waves import RangeState
from tests.airflow_lanes import MANUAL, World, until, world_of
from tests.airflow_ui import LOG_HEIGHT, OPEN, PAGE_HEIGHT, AirflowUi, Filled, logged_in, run_path

NAME = "orders"
PAGE = f"/kafka-lake/pipelines/{NAME}"
SIZES = 'target_range_bytes = "4 KiB"\nmax_wave_bytes = "8 KiB"'
"""Several waves, so that something can be seen of the way, and one of them be cancelled."""

pytestmark = [pytest.mark.timeout(1200), pytest.mark.nightly]


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("world"), {NAME: 12}) as made:
        lane = made.lanes[NAME]
        lane.write_pipeline(sizes=SIZES, table=lane.table)
        yield made


@pytest.fixture
def ui(world: World, tmp_path: Path) -> Iterator[AirflowUi]:
    with logged_in(world.airflow, tmp_path / "browser") as found:
        yield found


def test_person_is_refused_is_shown_starts_watches_cancels_releases_and_sees_the_end(
    world: World, ui: AirflowUi
) -> None:
    """All of it by clicks in Airflow's page; every acknowledged record is in the table once at the end."""
    lane = world.lanes[NAME]
    lane.produce(2400)

    run = ui.trigger(MANUAL, NAME, [Filled("Period by offset", "from_offset", "1.200")])
    assert world.end(MANUAL, run).state == "failed"
    ui.open(run_path(MANUAL, run, "/tasks/review"), "from_offset: '1.200' is not an offset: use digits only")
    ui.picture("refused", height=LOG_HEIGHT)

    why = Filled(OPEN, "reason", "the first backfill")
    run = ui.trigger(MANUAL, NAME, [why, Filled(OPEN, "dry_run", True)], picture="form")
    assert world.end(MANUAL, run).state == "success"
    ui.open(run_path(MANUAL, run, "/tasks/review/required_actions"), f"Dry run: {NAME}: 2,400 offsets")
    ui.picture("dry-run")

    link = "[...document.querySelectorAll('a')].find(e => e.innerText === 'run it in earnest').href"
    ui.page.go(ui.page.js(link))
    ui.page.until("!document.getElementById('go-on-do').hidden", 60)
    assert ui.page.text("#go-on-conf").split("\n") == ["pipeline", NAME, "reason", why.value]
    ui.page.click("#go-on-do")
    ui.page.until("document.getElementById('go-on-answer').className === 'ok'", 60)
    run = ui.page.text("#go-on-answer a")
    until(lambda: lane.ledger.exists() and lane.open_ledger().pipeline(NAME))
    ui.open("/plugin/kafka-lake", "Kafka Lake")
    assert ui.page.until("document.querySelector('iframe').src").endswith("/kafka-lake/")
    ui.open(PAGE, "Where every offset is")
    cancelled = _cancel_one(ui)
    before = ui.page.text("[data-key=map]")
    ui.page.until(f"document.querySelector('[data-key=map]').innerText !== {_quoted(before)}", 240)
    ui.page.until(f"{_waves('up-to-date')} && {_waves('running')}", 240)
    ui.picture("running", height=PAGE_HEIGHT)
    assert world.end(MANUAL, run).state == "failed", "a hold fails the run until a person decides"

    ui.open(PAGE, "What needs a person")
    ui.picture("held-dark", dark=True, height=PAGE_HEIGHT)
    _confirm(ui, "Release", "it may go on")
    ledger, person = lane.open_ledger(), f"airflow user {ui.airflow.user}"
    until(lambda: not ledger.ranges(pipeline=NAME, states=(RangeState.CANCELLED, RangeState.HELD)))
    decided = [(event.kind, event.detail) for event in ledger.events(NAME, limit=1000) if event.actor == person]
    ledger.close()
    assert len(decided) == 2, decided
    assert "another look" in str(decided[0])
    assert "it may go on" in str(decided[1])
    assert cancelled

    run = ui.trigger(MANUAL, NAME, [Filled(OPEN, "reason", "the rest")])
    ui.open(PAGE, "Where every offset is")
    ui.page.until("document.body.innerText.includes('up to date 12')", 240)
    assert world.end(MANUAL, run).state == "success"
    lane.assert_exact()
    assert ui.page.complaints() == []


def _cancel_one(ui: AirflowUi) -> str:
    """Cancel a wave that waits for its turn; return what the page answers."""
    return _confirm(ui, "Cancel", "another look at it first", picture="cancel")


def _confirm(ui: AirflowUi, label: str, reason: str, picture: str = "") -> str:
    """Press the last button of a kind, give a reason, and return what came of it."""
    buttons = f"[...document.querySelectorAll('button[data-act]')].filter(e => e.innerText.trim() === {_quoted(label)})"
    ui.page.until(f"{buttons}.length > 0", 120)
    ui.page.js(f"{buttons}.at(-1).click()")
    ui.page.until("document.getElementById('ask').open")
    ui.page.click("#ask-reason")
    ui.page.type(reason)
    if picture:
        ui.picture(picture, height=LOG_HEIGHT)
    ui.page.click("#ask-do")
    ui.page.until("document.getElementById('ask-answer').className === 'ok'", 60)
    answer = ui.page.text("#ask-answer")
    ui.page.click("#ask-close")
    return answer


def _waves(kind: str) -> str:
    """Return the expression: a wave on the page is of this kind; its label says more (claimed, staged, publishing)."""
    return f"!!document.querySelector('[data-key=waves] .pill.{kind}')"


def _quoted(text: str) -> str:
    return json.dumps(text)
