"""Decisions with an approval, in a real browser, under the real supervisor: filled in, refused, shown, done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow_lanes import REOPEN, SKIP, WITHDRAW, Lane, World, until, world_of
from tests.airflow_ui import LOG_HEIGHT, OPEN, AirflowUi, Filled, logged_in, run_path

NAME = "decided"
WHY = Filled(OPEN, "reason", "wrong decoder")

pytestmark = [pytest.mark.timeout(1200), pytest.mark.nightly]


@pytest.fixture(scope="module")
def world(spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_of(tmp_path_factory.mktemp("world"), {NAME: 2}) as made:
        for dag in (REOPEN, WITHDRAW, SKIP):
            made.airflow.unpause(dag)
        yield made


@pytest.fixture
def ui(world: World, tmp_path: Path) -> Iterator[AirflowUi]:
    with logged_in(world.airflow, tmp_path / "browser") as found:
        yield found


def test_person_fills_in_is_refused_sees_what_would_happen_and_approves(world: World, ui: AirflowUi) -> None:
    """Reopen, withdraw and skip: nothing before the approval; then it is done, in the name of who has approved."""
    lane = world.lanes[NAME]
    lane.produce(40)
    assert lane.run().code == 0
    lane.produce(10, begin=40)
    assert lane.command("plan", str(lane.file)).code == 0

    run = ui.trigger(REOPEN, NAME, [*_period("5", "1.200"), WHY])
    assert world.end(REOPEN, run).state == "failed"
    ui.open(run_path(REOPEN, run, "/tasks/explain"), "to_offset: '1.200' is not an offset: use digits only")
    assert _decided(lane, "reopen") == set()

    for dag, kind, fields, shown in (
        (REOPEN, "reopen", _period("5", "10"), f"Reopen 10 offsets with 10 rows of 2 partitions of {NAME}?"),
        (WITHDRAW, "withdraw", [], f"Withdraw 10 offsets of 2 partitions of {NAME}?"),
        (SKIP, "skip", _period("20", "25"), f"Skip 10 offsets of 2 partitions of {NAME}?"),
    ):
        run = ui.trigger(dag, NAME, [*fields, WHY])
        until(lambda dag=dag, run=run: world.airflow.task_states(dag, run).get("approve") == "awaiting_input")
        assert _decided(lane, kind) == set()
        ui.open(run_path(dag, run, "/tasks/approve/required_actions"), shown)
        ui.sees("wrong decoder")
        if kind == "reopen":
            ui.picture("approve", height=LOG_HEIGHT)
        ui.press("button", "Approve")
        ended = world.end(dag, run)
        assert (ended.state, ended.tasks[kind]) == ("success", "success"), ended.tasks
        assert _decided(lane, kind) == {f"airflow user {ui.airflow.user}, airflow:{dag}/{run}/{kind}"}
        ui.open(run_path(dag, run, f"/tasks/{kind}"), f"{shown.removesuffix('?')}: done")

    assert lane.run().code == 0
    lane.assert_exact({(p, o): value for (p, o), value in lane.acknowledged.items() if o < 20})
    assert lane.watermarks() == {0: 25, 1: 25}


def _period(start: str, end: str) -> list[Filled]:
    return [Filled(OPEN, "topic", NAME), Filled(OPEN, "from_offset", start), Filled(OPEN, "to_offset", end)]


def _decided(lane: Lane, kind: str) -> set[str]:
    """Return in whose name decisions of a kind are on record."""
    ledger = lane.open_ledger()
    try:
        return {event.actor for event in ledger.events(NAME, limit=1000, kind=kind)}
    finally:
        ledger.close()
