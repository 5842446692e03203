"""Servers that this process starts on this machine, and that end with it."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Self

from airflow_kafka_lake.core.errors import TransientError

_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 30
# A broker of a thousand partitions leaves ten thousand files, and a busy disk takes its time to remove them.
_CLOSE_SECONDS = 300
# Below Linux's range for outgoing connections, so that no process takes a port between our look and the server's bind.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000


class LocalServerError(TransientError):
    """A server that this package starts on this machine did not start, or ended by itself."""


class Keeper(AbstractContextManager["Keeper"]):
    """Runs one server at a time; however this process ends, the server ends and the folders in `remove` are removed."""

    def __init__(self, *, remove: Sequence[Path] = ()) -> None:
        guardian = Path(__file__).with_name("guardian.py")
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", str(guardian), *map(str, remove)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._unread = b""
        self._pid = 0
        self.code = 0
        """The exit code of the server that ended last, negative for a signal."""

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The server's process id (and process group id), 0 when none runs."""
        return self._pid if self.running() else 0

    def start(self, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str], cwd: Path) -> int:
        """Start the server, its output appended to `log`; return its process id."""
        request = {"command": [str(word) for word in command], "log": str(log), "env": dict(env), "cwd": str(cwd)}
        assert self._guardian.stdin is not None
        self._guardian.stdin.write(json.dumps(request).encode() + b"\n")
        self._pid = int(self._answer(timeout=_ANSWER_SECONDS).removeprefix("started "))
        return self._pid

    def running(self) -> bool:
        """Return whether the server still runs; once False, all that it started has ended too."""
        return not self.wait_ended(timeout=0)

    def wait_ended(self, timeout: float) -> bool:
        """Return whether the server, with all that it started, has ended within `timeout` seconds."""
        if self._pid and (answer := self._answer(timeout=timeout)).startswith("ended"):
            self._pid, self.code = 0, int(answer.removeprefix("ended "))
        return self._pid == 0

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the server's process group; does nothing when none runs."""
        if self.running():
            with suppress(ProcessLookupError):
                os.killpg(self._pid, number)

    def close(self) -> None:
        """End everything and remove the folders; safe to repeat."""
        assert self._guardian.stdin is not None
        assert self._guardian.stdout is not None
        self._guardian.stdin.close()
        try:
            self._guardian.wait(_CLOSE_SECONDS)
        finally:
            self._guardian.stdout.close()
            self._pid = 0

    def _answer(self, timeout: float) -> str:
        """Return the guardian's next line, or an empty string when none comes in time."""
        assert self._guardian.stdout is not None
        until = time.monotonic() + timeout
        while b"\n" not in self._unread:
            if not select.select([self._guardian.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                return ""
            received = os.read(self._guardian.stdout.fileno(), 4096)
            if not received:
                return f"ended {-signal.SIGKILL}"  # the guardian was killed, and its server with it
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


class LocalServer:
    """A server that lives as long as a `with` block; it is closed, too, when its start fails.

    `name` and `place` are its name and address in messages; `folders` go with this process.
    """

    def __init__(
        self, name: str, place: str, *, server_log: Path, folders: Sequence[Path], stop_seconds: float
    ) -> None:
        self.server_log = server_log
        """Its output, of all its starts."""
        self._name, self._place = name, place
        self._folders = folders
        self._stop_seconds = stop_seconds
        self._keeper: Keeper | None = None

    def start(self) -> Self:
        """Start; returns when it answers."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id (and process group id), 0 when it is stopped."""
        return self._keeper.pid if self._keeper else 0

    def launch(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        cwd: Path,
        answers: Callable[[], bool],
        timeout: float,
        every: float = _POLL_SECONDS,
    ) -> None:
        """Start it and return when it answers; LocalServerError with the end of its log when it does not."""
        self._keeper = keeper = self._keeper or Keeper(remove=self._folders)
        keeper.start(command, log=self.server_log, env=env, cwd=cwd)

        def failed(why: str) -> LocalServerError:
            end = tail(self.server_log)
            return LocalServerError(
                f"The local {self._name} on {self._place} did not start: {why}. The end of its log:\n{end}"
            )

        def started() -> bool:
            if not keeper.running():
                raise failed("it ended")
            return answers()

        wait_until(started, timeout=timeout, failed=failed, every=every)

    def end(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end; kill it when that takes too long. Does nothing when it is stopped."""
        if self._keeper is None:
            return
        self._keeper.signal_group(number)
        if not self._keeper.wait_ended(self._stop_seconds):
            self._keeper.signal_group(signal.SIGKILL)
            self._keeper.wait_ended(self._stop_seconds)

    def kill(self) -> None:
        """End it as a crash of the machine would (SIGKILL) and keep its data, for `start()`."""
        self.end(signal.SIGKILL)

    def close(self) -> None:
        """End it and remove its folders; safe to repeat."""
        if self._keeper:
            self._keeper.close()
            self._keeper = None
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return `count` different TCP ports that nothing listens on at 127.0.0.1 right now."""
    found: set[int] = set()
    while len(found) < count:
        port = random.randint(_FIRST_PORT, _LAST_PORT)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)


def wait_until(
    condition: Callable[[], bool], *, timeout: float, failed: Callable[[str], Exception], every: float = _POLL_SECONDS
) -> None:
    """Return when `condition()` holds; raise `failed(why)` when it does not within `timeout` seconds."""
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise failed(f"not within {timeout:.0f} s")
        time.sleep(every)


def tail(log: Path, lines: int = 25) -> str:
    """Return the last lines of a log, for an error message."""
    try:
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"
