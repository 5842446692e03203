"""Which failpoints there are, and that nothing arms them but the environment a process was started with."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_kafka_lake import ports
from airflow_kafka_lake.adapters import failpoints
from airflow_kafka_lake.adapters.spark_submit.submission import traveling_failpoints
from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.jobs.failpoints import DIARY, DRIVER_CALLS, VARIABLE, InDriver, Mode, modes, parse
from airflow_kafka_lake.jobs.stage import Steps
from tests.world import World

pytestmark = pytest.mark.unit

CROSSED = {
    "ledger": ports.Ledger,
    "source": ports.OffsetSource,
    "batches": ports.BatchReader,
    "mirror": ports.GroupMirror,
    "table": ports.LakeTable,
    "runner": ports.JobRunner,
    "schemas": ports.SchemaRegistry,
}


def started_with(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that was started with these variables."""
    return subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_every_call_of_a_port_and_every_step_of_the_driver_is_a_point_before_and_after() -> None:
    """Written down from the protocols and the job by other means than the points themselves."""
    calls = {
        f"{port}.{name}"
        for port, protocol in CROSSED.items()
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_")
    }
    steps = {f"driver.{name}" for name, _ in inspect.getmembers(Steps, inspect.isfunction) if not name.startswith("_")}
    expected = (calls - {"runner.where"}) | steps | {"driver.rows"}
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
    "text", ["table.publish", "table.publish:after=explode", "table.nothing:after=kill", "table.look:before=lost", "x"]
)
def test_what_is_no_failpoint_is_refused_by_name(text: str) -> None:
    """A typing error must not pass for a test that was survived."""
    with pytest.raises(UsageError, match=VARIABLE):
        parse(text, failpoints.points())


def test_without_the_variable_no_wrapper_exists() -> None:
    """Off in production at no cost."""
    found = World().worker()
    assert failpoints.armed(found) is found
    assert failpoints.armed_ledger(found.ledger) is found.ledger
    assert traveling_failpoints("local[2]") == {}


def test_code_that_sets_the_variable_arms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Dag file runs in the worker's process, and a task may change its environment: too late."""
    monkeypatch.setenv(VARIABLE, "table.publish:after=kill,driver.append:before=kill")
    found = World().worker()
    assert failpoints.armed(found) is found
    assert failpoints.armed_ledger(found.ledger) is found.ledger
    assert traveling_failpoints("local[2]") == {}


def test_a_process_that_was_started_with_the_variable_is_armed(tmp_path: Path) -> None:
    """The trap springs at the named crossing, the diary first."""
    script = (
        "from airflow_kafka_lake.adapters.failpoints import armed\n"
        "from tests.world import World\n"
        "world = World()\nworld.produce(3)\nprint('began', flush=True)\nworld.run(worker=armed(world.worker()))\n"
        "print('ended')"
    )
    diary = tmp_path / "diary"
    ended = started_with(script, **{VARIABLE: "ledger.waves:before=kill", DIARY: str(diary)})
    assert (ended.returncode, ended.stdout) == (-9, "began\n"), ended.stderr
    assert diary.read_text() == "ledger.waves:before=kill\n"


def test_points_in_the_driver_travel_to_a_local_master_and_to_no_other() -> None:
    """They signal a process group; on a cluster that would be somebody else's."""
    script = (
        "import json\n"
        "from airflow_kafka_lake.adapters.spark_submit.submission import traveling_failpoints\n"
        "print(json.dumps(traveling_failpoints({master!r})))"
    )
    variables = {VARIABLE: "table.look:after=kill,driver.append:after=stop@2", DIARY: "d"}
    local = started_with(script.format(master="local[2]"), **variables)
    assert json.loads(local.stdout) == {"failpoints": {"points": ["driver.append:after=stop@2"], "diary": "d"}}
    cluster = started_with(script.format(master="spark://host:7077"), **variables)
    assert cluster.returncode == 1
    assert "UsageError" in cluster.stderr
    assert "local Spark master" in cluster.stderr
