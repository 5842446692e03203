"""A folder that only this user can read, removed after use or, if its process was killed, by the next one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_kafka_lake.adapters.machine import HostProcesses
from airflow_kafka_lake.core.errors import UnavailableError
from airflow_kafka_lake.core.ledger.waves import LeaseHolder

PREFIX = "kafka-lake-stage-"
OWNER_FILE = "owner"
"""Names the process that made a folder, as `host/pid/starttime`."""


@contextmanager
def private_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a new folder of mode 0700 below `parent` (None: the machine's temporary files); remove it at the end."""
    sweep_folders(parent)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    except OSError as error:
        raise unusable(parent, error) from None
    try:
        try:
            (folder / OWNER_FILE).write_text(str(HostProcesses().this()), encoding="utf-8")
        except OSError as error:
            raise unusable(parent, error) from None
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unusable(parent: Path | None, error: OSError) -> UnavailableError:
    """Return the error of temporary files that cannot be written: without room, or without a folder."""
    where = f"in {parent}" if parent else "in the machine's folder for temporary files (TMPDIR)"
    return UnavailableError(
        f"A Spark job needs a few kilobytes {where}, and they cannot be written: {error.strerror or error}. Make room "
        "there, or name another folder; then repeat."
    )


def sweep_folders(parent: Path | None) -> tuple[Path, ...]:
    """Remove the folders that killed processes of ours left below `parent`, which may hold secrets; return them.

    A folder is removed only if it is this user's and its owner is known to be dead: of this host, and no process has
    its pid and start time. One without an owner is still empty, and stays.
    """
    found = Path(parent or tempfile.gettempdir()).glob(f"{PREFIX}*")
    left = tuple(folder for folder in found if _is_left_behind(folder))
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    return left


def _is_left_behind(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        seen = folder.lstat()
        if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid():
            return HostProcesses().dead(LeaseHolder.parse((folder / OWNER_FILE).read_text(encoding="utf-8")))
    return False
