"""Waves land while something else looks at their table, before every single port call of it: nothing untrue is said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pytest

from airflow_kafka_lake.core.errors import (
    ConcurrentError,
    IdentityError,
    JobFailedError,
    LedgerBehindError,
    StateError,
)
from airflow_kafka_lake.core.offsets import OffsetRange
from airflow_kafka_lake.core.planning.selection import StreamScope
from airflow_kafka_lake.ports import Ports
from airflow_kafka_lake.services import decisions, pipeline_audit
from airflow_kafka_lake.services.rebuilding import rebuild
from tests.gates import Before, Calls
from tests.world import World

pytestmark = pytest.mark.unit

ALL = StreamScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A table with a landed wave; `own` is a wave of the action, `beside` are waves that another worker lands."""

    world: World
    own: str
    beside: tuple[str, str]

    @classmethod
    def new(cls) -> Scene:
        world = World(4)
        world.produce(4)
        assert world.run().exit_code == 0
        waves = []
        for partition in (1, 2, 3):
            world.produce(3, partition)
            waves.append(world.planned_wave())
        world.runner.failures.append("out of memory")
        with suppress(JobFailedError):  # of what was never begun no publisher has to be stopped
            world.ingest(waves[0])
        return cls(world=world, own=waves[0], beside=(waves[1], waves[2]))

    def land(self) -> None:
        for wave in self.beside:
            with suppress(LedgerBehindError):  # a rebuild is on its way: nothing lands before it has ended
                self.world.ingest(wave)
        self.world.advance()


def _plan(scene: Scene, ports: Ports) -> None:
    scene.world.produce(2)
    assert not scene.world.plan(worker=ports).blocked


def _ingest(scene: Scene, ports: Ports) -> None:
    scene.world.ingest(scene.own, ports)


def _reopen(scene: Scene, ports: Ports) -> None:
    scene.world.reopen(0, 2, worker=ports)


def _audit(scene: Scene, ports: Ports) -> None:
    document = pipeline_audit.audit(ports, scene.world.spec).to_json()
    assert document["findings"] == []
    assert (document["totals"]["missing"], document["totals"]["accounting"]["unexplained"]) == (0, 0)


def _accept_deletes(scene: Scene, ports: Ports) -> None:
    with pytest.raises(StateError, match="no row of pipeline orders is gone"):
        pipeline_audit.accept_deletes(ports, scene.world.spec, ALL, None, reason="retention")


def _cancel(scene: Scene, ports: Ports) -> None:
    decisions.cancel(ports, scene.own, "not now")


def _skip(scene: Scene, ports: Ports) -> None:
    decisions.skip(ports, "orders", scene.world.stream(1), OffsetRange(0, 1), reason="bad", acknowledge_order=False)


def _recover(scene: Scene, ports: Ports) -> None:
    scene.world.recover(ports)


def _rebuild(scene: Scene, ports: Ports) -> None:
    try:
        rebuilt = rebuild(ports, scene.world.spec)
    except ConcurrentError:  # overtaken, as it says: the repeat ends it
        rebuilt = rebuild(scene.world.worker(), scene.world.spec)
    assert not rebuilt.reopened
    assert not rebuilt.deleted


ACTIONS: dict[str, Callable[[Scene, Ports], None]] = {
    "plan": _plan,
    "ingest": _ingest,
    "reopen": _reopen,
    "audit": _audit,
    "accept-deletes": _accept_deletes,
    "cancel": _cancel,
    "skip": _skip,
    "recover": _recover,
    "rebuild": _rebuild,
}
BY_DAY = {"ingest", "reopen", "skip"}
"""One that lands, one that reads again, one that decides."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in ACTIONS]
)
def test_waves_that_land_beside_it_are_no_fault_of_the_table(name: str) -> None:
    """No rollback, no lost row, no unknown commit: before whichever call they land. Only a repeat may be asked for."""
    action, calls = ACTIONS[name], Calls()
    scene = Scene.new()
    action(scene, scene.world.worker(calls))
    wrong = []
    for nth, call in enumerate(calls.made, 1):
        scene = Scene.new()
        try:
            action(scene, scene.world.worker(Before("", scene.land, nth=nth)))
        except ConcurrentError:
            pass
        except (Exception, AssertionError) as error:  # noqa: BLE001  # each call is reported
            wrong.append(f"before {nth} {call}: {type(error).__name__}: {error}")
        scene.world.run()
        scene.world.check()
    assert not wrong, "\n".join(wrong)


def _read_again(scene: Scene) -> None:
    scene.world.reopen(0, 2)
    scene.world.run()


def _reopened_and_skipped(scene: Scene) -> None:
    scene.world.reopen(1, 2)
    decisions.skip(
        scene.world.worker(), "orders", scene.world.stream(), OffsetRange(1, 2), reason="bad", acknowledge_order=False
    )


def _cut(scene: Scene) -> None:
    decisions.skip(
        scene.world.worker(), "orders", scene.world.stream(1), OffsetRange(0, 1), reason="bad", acknowledge_order=False
    )
    scene.world.run()


def _new_topic(scene: Scene) -> None:
    scene.world.create("payments")
    scene.world.with_spec(topics=("orders", "payments"))
    scene.world.produce(3, topic="payments")
    scene.world.run()


BESIDE: dict[str, Callable[[Scene], None]] = {
    "read again": _read_again,
    "reopened and skipped": _reopened_and_skipped,
    "cut": _cut,
    "new topic": _new_topic,
    "rebuilt": lambda scene: _rebuild(scene, scene.world.worker()),
}


@pytest.mark.parametrize("name", BESIDE)
def test_audit_is_not_red_for_what_goes_on_beside_it(name: str) -> None:
    """Before whichever call it happens."""
    calls = Calls()
    _audit(Scene.new(), Scene.new().world.worker(calls))
    wrong = []
    for nth, call in enumerate(calls.made, 1):
        scene = Scene.new()
        try:
            _audit(scene, scene.world.worker(Before("", partial(BESIDE[name], scene), nth=nth)))
        except AssertionError as error:
            wrong.append(f"before {nth} {call}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["land", "cut", "new topic"])
def test_missing_row_is_red_whatever_goes_on_beside_it(name: str) -> None:
    """Before whichever call it happens: a row of a range that stays as it is was lost."""
    calls = Calls()
    _audit(Scene.new(), Scene.new().world.worker(calls))
    for nth in range(1, len(calls.made) + 1):
        scene = Scene.new()
        scene.world.table.delete_foreign(lambda row: row.offset == 3)
        beside = partial({**BESIDE, "land": Scene.land}[name], scene)
        found = pipeline_audit.audit(scene.world.worker(Before("", beside, nth=nth)), scene.world.spec).to_json()[
            "findings"
        ]
        assert [item["kind"] for item in found] == ["lost"], (nth, found)


@pytest.mark.parametrize("metadata", [False, True], ids=["main", "metadata"])
@pytest.mark.parametrize("name", sorted(ACTIONS.keys() - {"audit", "recover"}))
def test_rollback_is_still_found_by_each_of_them(name: str, metadata: bool) -> None:
    """Whether main was set back, or all of the table's metadata."""
    scene = Scene.new()
    table = scene.world.table
    before = table.metadata()
    snapshot = table.head().snapshot
    scene.land()
    if metadata:
        table.set_back(before)
    else:
        assert snapshot is not None
        table.roll_back(snapshot)
    found = pipeline_audit.audit(scene.world.worker(), scene.world.spec).to_json()["findings"]
    assert "was rolled back" in str(found)
    with pytest.raises(IdentityError, match="rolled back"):
        ACTIONS[name](scene, scene.world.worker())
