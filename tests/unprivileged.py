"""Start commands as a user who may not write everywhere, also where the tests run as root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_OVERRIDES = "-dac_override,-dac_read_search,-fowner"


def bound_by_permissions() -> list[str]:
    """Return what to put before a command, so that the modes of files hold for it."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv (util-linux) to be refused anything")
    return ["setpriv", f"--bounding-set={_OVERRIDES}", f"--inh-caps={_OVERRIDES}"]


@contextmanager
def read_only(*places: Path) -> Iterator[None]:
    """Take the right to write away from files and folders, for a while."""
    modes = {path: path.stat().st_mode for path in places}
    try:
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
