"""This machine: its clock, its processes, told apart by start time, files that are written whole or not at all, and how
often Python looks for garbage."""

from __future__ import annotations

import gc
import hashlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import psutil

from airflow_kafka_lake.core.errors import UsageError
from airflow_kafka_lake.core.ledger.waves import LeaseHolder

# This machine: its clock, and its processes, told apart by start time where a pid is used again.

SAME_START_SECONDS = 1.5
"""Start times in epoch seconds are computed from the boot time, which moves when the clock is set."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD = 19
"""Of `/proc/PID/stat`, counted from behind the name: ticks since the boot."""

_PID_NAMESPACE = Path("/proc/self/ns/pid")
_INITIAL_NAMESPACE = "4026531836"

MACHINE_ID = Path("/etc/machine-id")


@contextmanager
def telling(seconds: float, tell: Callable[[], None]) -> Iterator[None]:
    """Call a function every so many seconds while the block runs; files that vanish under it do no harm."""
    ended = threading.Event()

    def again() -> None:
        while not ended.wait(seconds):
            with suppress(OSError):
                tell()

    teller = threading.Thread(target=again, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


class SystemClock:
    """`ports.Clock` of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class HostProcesses:
    """The identity of this process, and whether another one still lives (`ports.Processes`).

    `machine_id` is the file with the id that distinguishes this machine from others of the same host name.
    """

    def __init__(self, machine_id: Path = MACHINE_ID) -> None:
        self._machine = _machine(machine_id)

    def this(self) -> LeaseHolder:
        if (found := self.holder(os.getpid())) is None:
            raise UsageError(
                "this process is not in /proc, without which Java does not start either: mount /proc there"
            )
        return found

    def holder(self, pid: int) -> LeaseHolder | None:
        """Return the living process of a pid on this host; None when there is none."""
        try:
            return None if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE else self.named(pid)
        except psutil.NoSuchProcess:
            return None

    def named(self, pid: int) -> LeaseHolder:
        """Return the process of a pid, even if it has ended and was not reaped; psutil.NoSuchProcess without one."""
        if (boot := _boot_id()) is None:
            return LeaseHolder(host=host(), pid=pid, started=psutil.Process(pid).create_time())
        try:
            # The name, in parentheses, may hold anything.
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            raise psutil.NoSuchProcess(pid) from None
        return LeaseHolder(host=host(), pid=pid, started=float(fields[_START_FIELD]), boot=boot, machine=self._machine)

    def dead(self, holder: LeaseHolder) -> bool:
        """Return whether a holder is known to be dead: of this host, and no process has its pid and start time.

        One of another start of a host of this name is dead only when that is this very machine.
        """
        if holder.host != host() or self.alive(holder):
            return False
        same_start = holder.boot is None or holder.boot == _boot_id()
        return same_start or (holder.machine is not None and holder.machine == self._machine)

    def alive(self, holder: LeaseHolder) -> bool:
        if holder.host != host():
            return False
        found = self.holder(holder.pid)
        if found is None:
            return False
        if holder.boot is not None:
            return (found.boot, found.started) == (holder.boot, holder.started)
        return abs(psutil.Process(holder.pid).create_time() - holder.started) <= SAME_START_SECONDS


@cache
def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


@cache
def _machine(file: Path) -> str | None:
    """Return a digest of this machine's id; None without an id, and in a container, whose id may be its image's."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    if not text or "#" in host():
        return None
    return hashlib.sha256(f"airflow-kafka-lake {text}".encode()).hexdigest()[:12]


def host() -> str:
    """Return the name under which pids are comparable: the host's, and the pid namespace's inside a container.

    Containers may share a host name, and then their pids and start times may agree by accident.
    """
    name = socket.gethostname()
    try:
        namespace = str(_PID_NAMESPACE.readlink()).strip("pid:[]")
    except OSError:
        return name
    return name if namespace == _INITIAL_NAMESPACE else f"{name}#{namespace}"


# Write a report to the file that a person named: whole or not at all.


def report_file(text: str) -> Path:
    """Return the path of a report that can be written; UsageError before any work is done for one that cannot."""
    path = Path.cwd() / text
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name a file for the report, such as {path / 'audit.html'}")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} for the report: create it, or name another file")
    except (OSError, ValueError):
        raise UsageError(f"{text!r} is no path that a report can be written to") from None
    return path


def write_report(path: Path, text: str) -> None:
    """Write the file in one step, so that no reader opens half of it; UsageError names why it could not be written."""
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):  # a folder that cannot be written refuses this, too
            beside.unlink()
        raise UsageError(f"the report {path} could not be written: {error.strerror}. Name another file") from None


# How often Python looks for garbage while a command runs.

RARELY = (20_000, 10, 10)
"""After so many more objects the youngest are gone through; after ten times as many the older ones too."""


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Look for cycles of garbage rarely: each look goes through values that live as long as the command, and the more
    partitions there are the longer it takes. Our values have no cycles, and go as soon as nothing refers to them."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
