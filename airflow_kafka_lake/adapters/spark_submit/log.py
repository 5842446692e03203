"""What a driver writes while it works: its log, and its signs of progress."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from airflow_kafka_lake.core.progress import Counters

_KEPT_LINES = 2_000


class Signs:
    """A driver's progress file (`jobs.progress`): whether it has changed within some seconds.

    `counted` gets what the file counts, with every look; what cannot be read is left out.
    """

    def __init__(self, file: Path, seconds: float, counted: Callable[[Counters], None] = lambda _: None) -> None:
        self._file = file
        self._seconds = seconds
        self._counted = counted
        self._seen: str | None = None
        self._changed_at = time.monotonic()

    def is_recent(self) -> bool:
        """Read the file once more; the start counts as a change."""
        try:
            found = self._file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            found = None
        if found != self._seen:
            self._seen, self._changed_at = found, time.monotonic()
        if (counters := Counters.from_json(found or "")) is not None:
            self._counted(counters)
        return time.monotonic() - self._changed_at < self._seconds


class FollowedLog:
    """Passes every finished line to `progress` once and keeps the last ones in `lines`; `begin` is where to begin."""

    def __init__(self, path: Path, progress: Callable[[str], None], *, begin: int = 0) -> None:
        self.path = path
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._progress = progress
        self._read = begin
        self._unfinished = b""

    def follow(self) -> None:
        """Read what was written since the last call; does nothing before the file exists."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read)
                added = file.read()
        except FileNotFoundError:
            return
        self._read += len(added)
        *finished, self._unfinished = (self._unfinished + added).split(b"\n")
        for line in finished:
            self._take(line)

    def finish(self) -> None:
        """Read the rest, an unfinished last line included."""
        self.follow()
        if self._unfinished:
            self._take(self._unfinished)
            self._unfinished = b""

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", errors="replace").rstrip("\r")
        self.lines.append(line)
        self._progress(line)
