"""Which failpoints there are, and that only the tests' own kit arms them."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import airflow_kafka_lake
from airflow_kafka_lake import ports
from airflow_kafka_lake.core import ledger, rebuilding
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.changes import AttemptWrite, Write
from airflow_kafka_lake.core.ledger.decisions import PauseWrite
from airflow_kafka_lake.core.ledger.requests import RequestWrite
from airflow_kafka_lake.jobs.stage import Steps
from airflow_kafka_lake.ports import GroupCommitter, SchemaRegistry
from tests.kit import arming, failpoints
from tests.kit.traps import DRIVER_CALLS, InDriver, Mode, modes, parse

pytestmark = pytest.mark.unit

CROSSED = {
    "ledger": ports.Ledger,
    "source": ports.OffsetSource,
    "batches": ports.BatchReader,
    "group_sync": GroupCommitter,
    "table": ports.LakeTable,
    "runner": ports.JobRunner,
    "schemas": SchemaRegistry,
}


RUN = (
    "from airflow_kafka_lake.wiring.assemble import wrapped\n"
    "from tests.world import World\n"
    "world = World()\nworld.produce(3)\nprint('began', flush=True)\nworld.run(worker=wrapped(world.worker()))\n"
    "print('ended')"
)


def started_with(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that was started with these variables."""
    return subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def every_write() -> set[type[Write[Any]]]:
    """Return every write of the ledger, wherever in core it is decided."""
    for room in (ledger, rebuilding):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    found, left = set(), [Write]
    while left:
        more = left.pop().__subclasses__()
        left += more
        found.update(item for item in more if item.__module__.startswith("airflow_kafka_lake."))
    return found - {AttemptWrite, PauseWrite, RequestWrite}


def test_every_call_of_a_port_and_every_step_of_the_driver_is_a_point_before_and_after() -> None:
    """Written down from the protocols and the job by other means than the points themselves."""
    calls = {
        f"{port}.{name}"
        for port, protocol in CROSSED.items()
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_")
    }
    steps = {f"driver.{name}" for name, _ in inspect.getmembers(Steps, inspect.isfunction) if not name.startswith("_")}
    writes = {f"ledger.{write.name}" for write in every_write()} - {"ledger.late"}
    expected = (calls - {"runner.where", "ledger.commit"}) | writes | steps | {"driver.rows"}
    assert set(failpoints.points()) == {f"{call}:{side}" for call in expected for side in ("before", "after")}
    assert len(failpoints.points()) == len(set(failpoints.points()))


def test_every_step_of_the_driver_is_crossed_by_its_traps() -> None:
    """A step that is added to the job is a step that can die."""
    own = {name for name, _ in inspect.getmembers(InDriver, inspect.isfunction) if not name.startswith("_")}
    steps = {name for name, _ in inspect.getmembers(Steps, inspect.isfunction) if not name.startswith("_")}
    assert own == steps
    assert {f"driver.{name}" for name in steps} | {"driver.rows"} == set(DRIVER_CALLS)


def test_an_answer_is_lost_only_by_a_call_that_was_made() -> None:
    """Before a call there is nothing to lose, and rows that pass are no call."""
    lossy = {point for point in failpoints.points() if Mode.LOST in modes(point)}
    assert lossy == {p for p in failpoints.points() if p.endswith(":after") and not p.startswith("driver.rows")}
    assert all(set(Mode) - {Mode.LOST} <= set(modes(point)) for point in failpoints.points())


@pytest.mark.parametrize(
    "text",
    ["table.publish", "table.publish:after=explode", "table.nothing:after=kill", "table.find_commit:before=lost", "x"],
)
def test_what_is_no_failpoint_is_refused_by_name(text: str) -> None:
    """A typing error must not pass for a test that was survived."""
    with pytest.raises(UsageError, match="is no failpoint"):
        parse(text, failpoints.points())


def test_a_variable_that_the_kit_has_not_read_arms_nothing() -> None:
    """The product reads none: to set one at a user's machine changes nothing."""
    script = "from airflow_kafka_lake.wiring.assemble import wrapped; ports = object(); assert wrapped(ports) is ports"
    given = {**arming.environment(traps="table.publish:after=kill", history="/nowhere"), "PYTHONPATH": ""}
    ended = started_with(script, **given)
    assert ended.returncode == 0, ended.stderr


def test_no_module_of_the_product_speaks_of_failpoints() -> None:
    """What disturbs a run on purpose is installed nowhere."""
    sources = Path(airflow_kafka_lake.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if re.search(r"failpoint|KIT_|\btraps?\b", path.read_text())] == []


def test_a_process_that_was_started_with_the_variable_is_armed(tmp_path: Path) -> None:
    """The trap springs at the named call, the diary first."""
    diary = tmp_path / "diary"
    ended = started_with(RUN, **arming.environment(traps="ledger.waves:before=kill", diary=diary))
    assert (ended.returncode, ended.stdout) == (-9, "began\n"), ended.stderr
    assert diary.read_text() == "ledger.waves:before=kill\n"


def test_a_misspelt_point_ends_the_process_before_it_does_anything() -> None:
    """It must not look like a fault that was survived."""
    ended = started_with(RUN, **arming.environment(traps="table.publich:after=kill"))
    assert (ended.returncode, ended.stdout) == (1, "began\n")
    assert "'table.publich:after=kill' is no failpoint" in ended.stderr
