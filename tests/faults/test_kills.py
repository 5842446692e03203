"""Kill -9 of a driver from outside, where no failpoint is: running the same thing again is always right."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

import psutil
import pytest

from tests.sandbox import Sandbox, drivers

WAIT_SECONDS = 120


def _driver_of(process: subprocess.Popen) -> psutil.Process:
    """Wait for the Java process below a command: the Spark driver."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        for driver in drivers(process.pid):
            return driver
        process_wait(process, 0.1)
    raise AssertionError("no driver was started")


def process_wait(process: subprocess.Popen, seconds: float) -> None:
    """Wait a little, or less when the process ends."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def test_a_killed_driver_fails_the_attempt_and_the_next_run_lands_it(sandbox: Sandbox) -> None:
    """The wave stays where it was, worth repeating."""
    sandbox.produce(300)
    process = sandbox.start("run", str(sandbox.file), "--json")
    driver = _driver_of(process)
    sandbox.wait_for_job(process)
    driver.kill()
    ended = sandbox.end(process)
    assert ended.code == 3, ended.err
    assert ended.document["problems"][0]["type"] == "JobFailedError"
    assert "Traceback" not in ended.err
    assert sandbox.run().code == 0
    sandbox.assert_exact()


@pytest.mark.nightly  # by day: a run that was killed and its successor (test_matrix.py)
def test_a_driver_whose_command_was_killed_is_ended_by_the_next_run(sandbox: Sandbox) -> None:
    """It stands still and would finish one day: the successor ends it before it publishes."""
    sandbox.produce(300)
    process = sandbox.start("run", str(sandbox.file), "--json")
    driver = _driver_of(process)
    sandbox.wait_for_job(process)
    driver.suspend()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert driver.is_running()
    again = sandbox.run()
    assert (again.code, again.document["rows"]) == (0, 300), again.err
    assert not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE
    sandbox.assert_exact()
    assert sandbox.run().document["waves"] == []
    assert len(sandbox.publishes()) == 1
