"""What every `Processes` knows: this host's by /proc, and the double's by what a test says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import pytest

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.core.ledger.waves import LeaseHolder
from airflow_kafka_lake.ports import Processes
from tests.world import FakeProcesses


class Host(Protocol):
    """A machine on which processes start and end."""

    processes: Processes

    def start(self) -> LeaseHolder:
        """Start another process."""

    def end(self, holder: LeaseHolder) -> None:
        """End it; its parent does not wait for it yet."""


class RealHost:
    """This machine."""

    def __init__(self) -> None:
        self.processes = HostProcesses()
        self.started: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> LeaseHolder:
        child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
        self.started[child.pid] = child
        holder = self.processes.holder(child.pid)
        assert holder is not None
        return holder

    def end(self, holder: LeaseHolder) -> None:
        self.started[holder.pid].kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)

    def reap(self, holder: LeaseHolder) -> None:
        """Let the kernel forget a process."""
        self.started[holder.pid].wait()

    def close(self) -> None:
        for child in self.started.values():
            child.kill()
            child.communicate()


class FakeHost:
    """The double's."""

    def __init__(self) -> None:
        self.dead: set[int] = set()
        self.processes = FakeProcesses(1, self.dead)

    def start(self) -> LeaseHolder:
        return FakeProcesses(2, self.dead).this()

    def end(self, holder: LeaseHolder) -> None:
        self.dead.add(holder.pid)


@pytest.fixture(params=["real", "double"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host of each kind."""
    if request.param == "double":
        yield FakeHost()
        return
    made = RealHost()
    yield made
    made.close()


def test_this_process_lives_and_is_always_the_same(host: Host) -> None:
    """Also after a trip through the ledger's text."""
    this = host.processes.this()
    assert this == host.processes.this() == LeaseHolder.parse(str(this))
    assert not host.processes.dead(LeaseHolder.parse(str(this)))


def test_another_process_is_dead_when_it_has_ended(host: Host) -> None:
    """While it lives it is another holder; once it has ended it is dead, whether anybody waited for it or not."""
    other = host.start()
    assert other != host.processes.this()
    assert not host.processes.dead(other)
    host.end(other)
    assert host.processes.dead(other)
    if isinstance(host, RealHost):
        host.reap(other)
        assert host.processes.dead(other)


def test_a_process_of_another_host_is_not_known_to_be_dead(host: Host) -> None:
    """Whatever its number: here it may be free, or that of a process that has ended."""
    ended = host.start()
    host.end(ended)
    for holder in (host.processes.this(), ended):
        assert not host.processes.dead(replace(holder, host="elsewhere"))


def test_a_number_that_is_used_again_is_a_dead_holder(host: Host) -> None:
    """Another start time is another process, and so is the same one since another start of the host."""
    living = host.start()
    assert host.processes.dead(replace(living, started=living.started - 1))
    assert host.processes.dead(replace(living, boot="another-boot"))
    assert not host.processes.dead(living)
