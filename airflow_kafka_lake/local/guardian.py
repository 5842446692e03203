"""A small process that runs one command at a time for its owner and ends it, and all it started, with its owner.

Run as a script with the folders to remove at the end as arguments. Requests are JSON lines on stdin (`command`, `log`,
`env`, `cwd`), answers are lines on stdout (`started PID`, `ended CODE`). The end of stdin, or of the owner, is the end
of everything: a killed owner, too, leaves no process, port or file behind.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_AT_OWNER_SECONDS = 1.0


def main(folders: list[str]) -> None:
    """Serve until the owner ends; then kill every descendant and remove the folders."""
    prctl = _prctl()
    # Orphans of the server then come to this process, and not to init, which would let them run.
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    owner = os.getppid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    # A signal does not end `select`, which Python repeats by itself; this pipe does.
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _serve(owner, woken, prctl)
    finally:
        _end_descendants()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _serve(owner: int, woken: int, prctl: Callable[..., int]) -> None:
    child, pending = 0, b""
    while os.getppid() == owner:
        ready, _, _ = select.select([0, woken], [], [], _LOOK_AT_OWNER_SECONDS)
        if woken in ready:
            os.read(woken, 4096)
            if (code := _reap().get(child)) is not None:
                _end_descendants()
                child = 0
                _answer(f"ended {code}")
        if 0 in ready:
            received = os.read(0, 65536)
            if not received:
                return
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                child = _start(json.loads(line), prctl)


def _start(request: dict[str, Any], prctl: Callable[..., int]) -> int:
    guardian = os.getpid()

    def end_with_guardian() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # A process that a shell without a terminal starts with `&` ignores it, and so would a server, which it stops.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if os.getppid() != guardian:
            os._exit(1)

    with open(request["log"], "ab") as log:
        try:
            child = subprocess.Popen(
                request["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=request["env"],
                cwd=request["cwd"],
                start_new_session=True,
                preexec_fn=end_with_guardian,  # noqa: PLW1509  # this process has one thread
            )
        except OSError as error:
            log.write(f"{error}\n".encode())
            log.flush()
            _answer("started 0")
            _answer("ended 127")
            return 0
    child.returncode = 0  # this module reaps by itself
    _answer(f"started {child.pid}")
    return child.pid


def _reap() -> dict[int, int]:
    """Collect every ended child, orphans of children included: pid to exit code."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (answer := os.waitpid(-1, os.WNOHANG))[0]:
            ended[answer[0]] = os.waitstatus_to_exitcode(answer[1])
    return ended


def _end_descendants() -> None:
    """Kill until no process is left; orphans come to this process because it is their reaper."""
    import psutil

    me = psutil.Process()
    while children := me.children(recursive=True):
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        _reap()
        psutil.wait_procs(children, timeout=1)


def _answer(line: str) -> None:
    with suppress(BrokenPipeError):
        os.write(1, f"{line}\n".encode())


def _prctl() -> Callable[..., int]:
    """Return Linux's `prctl`, or elsewhere something that does nothing: the end of stdin still works there."""
    if sys.platform != "linux":
        return lambda *_: 0
    return cast(Callable[..., int], ctypes.CDLL(None, use_errno=True).prctl)


if __name__ == "__main__":
    main(sys.argv[1:])
