"""Processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.core.ledger.waves import LeaseHolder

pytestmark = pytest.mark.unit


def test_this_process_lives() -> None:
    """We are not dead, also after a trip through text."""
    this = HostProcesses().this()
    assert this.pid == os.getpid()
    assert not HostProcesses().dead(LeaseHolder.parse(str(this)))
    assert HostProcesses().alive(LeaseHolder.parse(str(this)))


def step(clock: pytest.MonkeyPatch, folder: Path, seconds: int) -> None:
    """Set the clock as far as psutil can see: the boot time moves with it, and so does every start time."""
    lines = Path("/proc/stat").read_text().splitlines()
    moved = [f"btime {int(line.split()[1]) + seconds}" if line.startswith("btime") else line for line in lines]
    (folder / "stat").write_text("\n".join(moved) + "\n")
    for process in Path("/proc").glob("[0-9]*"):
        (folder / process.name).symlink_to(process)
    clock.setattr(psutil, "PROCFS_PATH", str(folder))


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_a_step_of_the_clock_kills_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start times are counted in ticks since the boot, which a clock that is set does not change."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        holder = HostProcesses().holder(child.pid)
        assert holder is not None
        text, created = str(holder), psutil.Process(child.pid).create_time()
        step(monkeypatch, tmp_path, 90)
        assert psutil.Process(child.pid).create_time() == pytest.approx(created + 90)
        assert HostProcesses().alive(LeaseHolder.parse(text))
        assert not HostProcesses().dead(LeaseHolder.parse(text))
        assert HostProcesses().dead(replace(holder, started=holder.started - 1))
        assert child.stdin is not None
        child.stdin.close()


def test_another_host_of_the_same_name_kills_no_process(tmp_path: Path) -> None:
    """A process of another start of a host of our name is dead when that was this machine, else it may live."""
    (tmp_path / "ours").write_text("0" * 32)
    (tmp_path / "theirs").write_text("1" * 32)
    here, there = (HostProcesses(tmp_path / name) for name in ("ours", "theirs"))
    left = str(replace(here.this(), boot="another-boot"))
    assert not there.dead(LeaseHolder.parse(left))
    assert here.dead(LeaseHolder.parse(left)) is (here.this().machine is not None)
    without = HostProcesses(tmp_path / "nothing")
    assert without.this().machine is None
    assert not without.dead(LeaseHolder.parse(left))
    assert not here.dead(replace(LeaseHolder.parse(left), machine=None))
    assert not without.dead(replace(without.this(), boot="another-boot"))
    assert without.dead(replace(without.this(), started=1.0))
    assert "0" * 32 not in left


def test_holders_of_earlier_versions_are_still_read() -> None:
    """Their start time is in epoch seconds."""
    process = psutil.Process()
    old = f"{HostProcesses().this().host}/{process.pid}/{process.create_time():.2f}"
    assert HostProcesses().alive(LeaseHolder.parse(old))
    assert HostProcesses().dead(LeaseHolder.parse(old.rpartition("/")[0] + "/1.00"))


def test_a_holder_of_another_host_is_not_known_to_be_dead() -> None:
    """Unknown is not dead, and not alive either."""
    foreign = LeaseHolder(host="elsewhere", pid=1, started=1.0)
    assert not HostProcesses().dead(foreign)
    assert not HostProcesses().alive(foreign)


def test_a_process_that_ended_is_dead_even_before_it_is_reaped() -> None:
    """A zombie works on nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        holder = HostProcesses().holder(child.pid)
        assert holder is not None
        assert not HostProcesses().dead(holder)
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert HostProcesses().dead(holder)
    assert HostProcesses().dead(holder)
