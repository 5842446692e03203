"""Which job a warm driver works on, written down so that another process can end that job and no other."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

OF_DRIVER = "+"
"""Stands in a job's reference between the driver, `host/pid/starttime`, and the number of the job in that driver."""

_FILE = "current"
_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.05


def write_current(folder: Path, number: str) -> None:
    """Write down which job the driver of `folder` works on from now on, empty for none.

    Waits while another process ends the job that was written before; the driver has ended then. OSError where it cannot
    be written.
    """
    with (folder / _FILE).open("a", encoding="utf-8") as file:
        if not _locked(file):
            raise TimeoutError("another process looks at the driver, and does not end")
        file.truncate(0)
        file.write(number)


@contextmanager
def working_on(folder: Path, number: str) -> Iterator[bool]:
    """Yield whether the driver of `folder` works on this job; while the block lasts it begins no other.

    False where that cannot be found out. OSError without such a file.
    """
    with (folder / _FILE).open(encoding="utf-8") as file:
        yield _locked(file) and file.read() == number


def _locked(file: IO[str]) -> bool:
    """Lock the file; False when another process has it locked and was stopped."""
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
