"""What a command costs: wall time, the CPU seconds of all its processes, the most memory they held together.

`measured(...)` runs it under a process of its own (`python -m bench.measuring REQUEST`), which adopts every descendant
that loses its parent (Linux's child subreaper). So the kernel's own account of ended children is complete: nothing is
sampled but memory, and no process that was started and orphaned is forgotten. That process is small, which matters:
what Linux says a child held at most begins with what its parent holds when it starts the child.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

MARKS = "marks.json"
"""In the folder of a command: moments of the monotonic clock that it has written itself."""
COMMITTED = "committed"
"""The mark after which nothing of a command counts: a worker that goes on for ever is ended then."""

_SIGNAL_OF_PARENTS_DEATH, _SUBREAPER = 1, 36
_SAMPLE_SECONDS = 0.25
_LISTEN_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one command took. `begun` and `marks` are moments of the monotonic clock, `lines` what it said on stderr
    and when, `left` the processes that were still there long after it."""

    code: int
    begun: float
    seconds: float
    cpu_seconds: float
    peak_mib: float
    marks: Mapping[str, float]
    lines: Sequence[tuple[float, str]]
    left: Sequence[str] = ()


def measured(
    command: Sequence[str], *, env: Mapping[str, str], home: Path, grace: float = 15.0, limit: float = 3600.0
) -> Cost:
    """Run a command in a folder, to its end; its stdout is in `<home>/stdout` then.

    Seconds count up to its mark `committed`, if it has written one. What it has started may run for `grace` seconds
    longer than it; then it is ended, and so is all of it after `limit` seconds.
    """
    request, report = home / "measure.json", home / "measured.json"
    asked = {"command": list(command), "env": dict(env), "report": str(report), "grace": grace, "limit": limit}
    request.write_text(json.dumps(asked))
    words = [sys.executable, "-m", "bench.measuring", str(request)]
    supervisor = subprocess.Popen(words, cwd=Path(__file__).parents[1], start_new_session=True)
    try:
        supervisor.wait()
    finally:
        supervisor.terminate()  # where this was interrupted; it ends the command then
        supervisor.wait()
    found = json.loads(report.read_text())
    marks = marks_of(home)
    ended = marks.get(COMMITTED, found.pop("ended"))
    found.pop("ended", None)
    lines = tuple((at, line) for at, line in found.pop("lines"))
    return Cost(**found, lines=lines, marks=marks, seconds=ended - found["begun"])


def mark(home: Path, name: str, at: float | None = None) -> None:
    """Note a moment of a command, for whoever measures it."""
    marks = marks_of(home) | {name: time.monotonic() if at is None else at}
    (home / MARKS).write_text(json.dumps(marks))


def marks_of(home: Path) -> dict[str, float]:
    """Return what a command has marked."""
    path = home / MARKS
    return json.loads(path.read_text()) if path.exists() else {}


def tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a running process and all below it, those that have ended and were waited for too."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                total += sum(each.cpu_times()[:4])  # user, system, and both of ended children
    return total


def busy_cpu() -> float:
    """Return how many CPU seconds this machine has worked since it began, for whomever."""
    now = psutil.cpu_times()
    return float(sum(now) - now.idle - getattr(now, "iowait", 0.0) - getattr(now, "guest", 0.0))


def supervise(request: Path) -> None:
    """Run the command of a request, wait for everything it has started, and write what it took.

    SIGTERM, or the end of the caller, ends it with all that the command has started.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    prctl(_SIGNAL_OF_PARENTS_DEATH, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        _supervise(json.loads(request.read_text()), request.parent)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        list(_ended_by_force())


def _supervise(asked: Mapping[str, Any], home: Path) -> None:
    with (home / "stdout").open("wb") as out:
        begun = time.monotonic()
        process = subprocess.Popen(
            asked["command"], env=asked["env"], cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    assert process.stderr is not None
    lines: list[tuple[float, str]] = []
    listening = threading.Thread(target=_listen, args=(process.stderr, begun, lines), daemon=True)
    listening.start()
    memory = _Memory()
    memory.start()
    limit = threading.Timer(asked["limit"], lambda: list(_ended_by_force()))
    limit.daemon = True
    limit.start()
    code = _wait_for(process.pid)
    process.returncode = code
    ended = time.monotonic()
    limit.cancel()
    left = _wait_for_the_rest(asked["grace"])
    memory.ended.set()
    listening.join(_LISTEN_SECONDS)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "code": code,
        "begun": begun,
        "ended": ended,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mib": max(memory.peak / 2**20, used.ru_maxrss / 1024),  # a short command is over between two samples
        "lines": lines,
        "left": left,
    }
    Path(asked["report"]).write_text(json.dumps(found))


def _listen(stream: IO[bytes], begun: float, lines: list[tuple[float, str]]) -> None:
    lines.extend((time.monotonic() - begun, line.decode(errors="replace").rstrip("\n")) for line in stream)


class _Memory(threading.Thread):
    """Keeps the largest sum of resident memory below this process; a page that two share counts for both."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(_resident()))


def _resident() -> Iterator[int]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            yield process.memory_info().rss


def _wait_for(pid: int) -> int:
    while True:
        found, status = os.wait()
        if found == pid:
            return os.waitstatus_to_exitcode(status)


def _wait_for_the_rest(grace: float) -> list[str]:
    """Wait for what the command has left; end it, and name it, where it does not end by itself."""
    until = time.monotonic() + grace
    left: list[str] = []
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return left
        if found == 0:
            if time.monotonic() > until:
                left += list(_ended_by_force())
                until = time.monotonic() + _LISTEN_SECONDS
            time.sleep(0.02)


def _ended_by_force() -> Iterator[str]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            yield " ".join(process.cmdline()[:3])
            process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    supervise(Path(sys.argv[1]))
