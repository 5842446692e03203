"""A server of ours ends with us, with everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.local.processes import Keeper, free_ports, tail, wait_until

# A server that starts a child in a session of its own, says both process ids, and ignores the polite signals.
SERVER = """
import os, signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
signal.pause()
"""
OWNER = """
import os, signal, sys
from pathlib import Path
from airflow_kafka_lake.local.processes import Keeper
folder = Path(sys.argv[1])
keeper = Keeper(remove=[folder / "data"])
keeper.start([sys.executable, "-c", sys.argv[2]], log=folder / "log", env=dict(os.environ), cwd=folder)
signal.pause()
"""


def failed(why: str) -> AssertionError:
    return AssertionError(why)


def wait_for(condition) -> None:
    wait_until(condition, timeout=120, failed=failed)


def pids(log: Path) -> list[int]:
    """Return the two process ids once the server has printed them."""
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
    return [int(word) for word in log.read_text().split()]


def gone(numbers: list[int]) -> bool:
    return not any(psutil.pid_exists(number) for number in numbers)


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    with Keeper() as opened:
        yield opened


def start(keeper: Keeper, folder: Path, program: str) -> Path:
    log = folder / "log"
    keeper.start([sys.executable, "-c", program], log=log, env=dict(os.environ), cwd=folder)
    return log


def test_close_ends_children_in_other_sessions_too(tmp_path: Path) -> None:
    """Nothing that the server started survives, whatever it ignores and wherever it hid."""
    with Keeper() as keeper:
        running = pids(start(keeper, tmp_path, SERVER))
        assert not gone(running)
    assert gone(running)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_owner_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """When the process that started the server is killed, server, children and temporary folder go."""
    (tmp_path / "data").mkdir()
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), SERVER])
    running = pids(tmp_path / "log")
    owner.send_signal(number)
    owner.wait(20)
    wait_for(lambda: gone(running) and not (tmp_path / "data").exists())


def test_server_can_be_interrupted_though_its_owner_ignores_that(tmp_path: Path) -> None:
    """As what a script starts with `&` does: Airflow ends in order by SIGINT only."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Keeper() as keeper:
            log = start(keeper, tmp_path, "import signal; print('up', flush=True); signal.pause()")
            wait_for(lambda: "up" in log.read_text())
            keeper.signal_group(signal.SIGINT)
            assert keeper.wait_ended(20)
    finally:
        signal.signal(signal.SIGINT, before)


def test_end_of_the_server_is_noticed_with_its_children(keeper: Keeper, tmp_path: Path) -> None:
    """A server that dies by itself is not running, and its orphans are gone."""
    running = pids(start(keeper, tmp_path, SERVER))
    os.kill(running[0], signal.SIGKILL)
    assert keeper.wait_ended(20)
    assert keeper.pid == 0
    assert gone(running)


def test_server_can_be_started_again(keeper: Keeper, tmp_path: Path) -> None:
    """One keeper serves restart after restart; the log grows."""
    for expected in ("x\n", "x\nx\n"):
        log = start(keeper, tmp_path, "print('x')")
        assert keeper.wait_ended(20)
        assert log.read_text() == expected


def test_command_that_does_not_exist_ends_with_a_reason(keeper: Keeper, tmp_path: Path) -> None:
    """A missing program is an ended server whose log says why."""
    keeper.start([tmp_path / "absent"], log=tmp_path / "log", env={}, cwd=tmp_path)
    assert keeper.wait_ended(20)
    assert "absent" in tail(tmp_path / "log")


def test_close_is_safe_to_repeat() -> None:
    """The second close does nothing."""
    keeper = Keeper()
    keeper.close()
    keeper.close()


def test_free_ports_are_different_and_out_of_the_way() -> None:
    """No port stands twice, and none lies where outgoing connections take theirs."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(20_000 <= port <= 32_000 for port in ports)
