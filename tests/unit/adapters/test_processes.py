"""Processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from airflow_kafka_lake.adapters.processes import HostProcesses
from airflow_kafka_lake.core.waves import Holder

pytestmark = pytest.mark.unit


def test_this_process_lives() -> None:
    """We are not dead, also after a trip through text."""
    this = HostProcesses().this()
    assert this.pid == os.getpid()
    assert not HostProcesses().dead(Holder.parse(str(this)))
    assert HostProcesses().alive(Holder.parse(str(this)))


def test_a_pid_that_is_used_again_is_a_dead_holder() -> None:
    """Another start time is another process."""
    assert HostProcesses().dead(replace(HostProcesses().this(), started=1.0))


def test_a_holder_of_another_host_is_not_known_to_be_dead() -> None:
    """Unknown is not dead, and not alive either."""
    stranger = Holder(host="elsewhere", pid=1, started=1.0)
    assert not HostProcesses().dead(stranger)
    assert not HostProcesses().alive(stranger)


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
