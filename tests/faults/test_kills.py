"""Kill -9 of the driver and of the command line: running the same thing again is always right."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

import psutil
import pytest

from tests.rig import Rig

WAIT_SECONDS = 120


def _driver_of(process: subprocess.Popen) -> psutil.Process:
    """Wait for the Java process below a command: the Spark driver."""
    end = time.monotonic() + WAIT_SECONDS
    parent = psutil.Process(process.pid)
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        for child in parent.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("deploy.SparkSubmit" in word for word in child.cmdline()):
                    return child
        process_wait(process, 0.1)
    raise AssertionError("no driver was started")


def process_wait(process: subprocess.Popen, seconds: float) -> None:
    """Wait a little, or less when the process ends."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


@pytest.mark.parametrize(
    "point",
    ["ledger.record_base:after", "runner.stage:after", "table.add_receipts:after", "table.publish:before"],
)
def test_a_command_killed_before_the_publish_leaves_nothing_visible(rig: Rig, point: str) -> None:
    """The next run takes over at once, for the dead holder is known to be dead, and lands every record once."""
    rig.produce(300)
    killed = rig.run(env={"KAFKA_LAKE_FAILPOINTS": f"{point}=kill"})
    assert killed.code == -signal.SIGKILL
    assert not rig.rows()
    again = rig.run()
    assert (again.code, again.document["rows"]) == (0, 300), again.err
    rig.assert_exact()
    assert len(rig.publishes()) == 1


@pytest.mark.parametrize("point", ["table.publish:after", "ledger.settle:before"])
def test_a_command_killed_after_the_publish_is_adopted_without_a_second_one(rig: Rig, point: str) -> None:
    """What the lake holds is a fact: the next run settles it and reads nothing."""
    rig.produce(300)
    killed = rig.run(env={"KAFKA_LAKE_FAILPOINTS": f"{point}=kill"})
    assert killed.code == -signal.SIGKILL
    rig.assert_exact()
    again = rig.run()
    assert again.code == 0, again.err
    assert {move["to"] for move in again.document["advanced"]} == {150}
    rig.assert_exact()
    assert len(rig.publishes()) == 1


def test_a_killed_driver_fails_the_attempt_and_the_next_run_lands_it(rig: Rig) -> None:
    """The wave stays where it was, worth repeating."""
    rig.produce(300)
    process = rig.start("run", str(rig.file), "--json")
    _driver_of(process).kill()
    ended = rig.end(process)
    assert ended.code == 3, ended.err
    assert ended.document["problems"][0]["type"] == "JobFailedError"
    assert "Traceback" not in ended.err
    assert rig.run().code == 0
    rig.assert_exact()


def test_a_forgotten_driver_that_finishes_later_changes_nothing_visible(rig: Rig) -> None:
    """Its command was killed, a successor has published; what it stages stays unseen."""
    rig.produce(300)
    process = rig.start("run", str(rig.file), "--json")
    driver = _driver_of(process)
    driver.suspend()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    again = rig.run()
    assert (again.code, again.document["rows"]) == (0, 300), again.err
    if driver.is_running():
        driver.resume()
        driver.wait(WAIT_SECONDS)
    rig.assert_exact()
    assert rig.run().document["waves"] == []
    assert len(rig.publishes()) == 1


@pytest.mark.parametrize("call", ["table.publish", "ledger.settle", "table.add_receipts"])
def test_a_lost_answer_is_found_out_and_never_repeated(rig: Rig, call: str) -> None:
    """The call was made and its answer lost: the run, or the one after it, ends right."""
    rig.produce(300)
    first = rig.run(env={"KAFKA_LAKE_FAILPOINTS": f"{call}:after=lost"})
    assert first.code in {0, 3, 4}, first.err
    assert rig.run().code == 0
    rig.assert_exact()
    assert len(rig.publishes()) == 1
